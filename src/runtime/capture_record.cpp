// Makes entries of recordings: compiles them, notes their breaks, and sorts out those that they replace.
#include <algorithm>

#include "core/log.h"
#include "core/object_text.h"
#include "cpython/codec.h"
#include "cpython/hidden_code.h"
#include "cpython/iterators.h"
#include "frontends/torch/calls.h"
#include "frontends/torch/tensors.h"
#include "recorder/recorder.h"
#include "runtime/capture.h"
#include "runtime/log_compilation.h"
#include "runtime/pending_exception.h"

namespace evalframe::runtime {

using recorder::Recording;

namespace {

// Turns after which several are recorded at once.
constexpr uint64_t kHotTurns = 16;
// A turn whose recorded run, NumPy's work included, took longer gains nothing by being one of several: what that saves is some
// microseconds, and temporaries of many turns don't stay in a cache.
constexpr double kLongTurn = 1e-3;

// GraphBreakError, with the place, the reason and what to do.
void raise_graph_break(const BreakNote& note) {
  Ref module = Ref::steal(PyImport_ImportModule("evalframe.jit"));
  Ref error = module ? Ref::steal(PyObject_GetAttrString(module.get(), "GraphBreakError")) : Ref();
  if (!error) return;
  PyErr_Format(error.get(), "%s:%d:%d: in %s: %s (%s); hint: %s", note.file.c_str(), note.position.line, note.position.column + 1,
               note.function.c_str(), recorder::reason(note.why), note.detail.c_str(), recorder::hint(note.why));
}

}  // namespace

void Capture::note_break(const Recording& recording) {
  const auto states = recording.state_at(static_cast<int32_t>(recording.graph.nodes.size()));
  const auto is_seen = [](const recorder::FrameState& state) { return !cpython::is_hidden(state.code->code); };
  const auto first_hidden = std::find_if_not(states.begin(), states.end(), is_seen);
  const recorder::FrameState& inner = *(first_hidden - 1);
  const auto* code = inner.code->code.as<PyCodeObject>();
  BreakNote note{recording.why, recording.why_detail, std::string(utf8(code->co_filename)), std::string(utf8(code->co_qualname)),
                 inner.code->positions[first_hidden == states.end() ? inner.next : inner.next - 1], 1};
  for (BreakNote& known : breaks_) {
    if (known.why == note.why && known.function == note.function && known.position == note.position) {
      known.count++;
      return;
    }
  }
  breaks_.push_back(std::move(note));
  log_break(breaks_.back());
}

// What recording an operation takes besides running it, about.
static constexpr double kSecondsOfNode = 6e-7;

Held<Compilation> Capture::compile_counted(std::unique_ptr<Recording> recording) {
  count(&Counters::recordings);
  const double record_seconds = recording->seconds, seconds_of_nodes = kSecondsOfNode * static_cast<double>(recording->graph.nodes.size());
  Held<Compilation> compilation = compile(std::move(recording), settings_);
  if (!compilation) return {};
  counters_.record_seconds += record_seconds;
  counters_.compile_seconds += compilation->compile_seconds;
  if (settings_.patience) settings_.patience->take(1, record_seconds, seconds_of_nodes + compilation->compile_seconds);
  return compilation;
}

namespace {

// What holds in the thread is again what held when the recording began.
void set_torch_back(const Recording& recording) {
  torch::set_records_gradients(recording.records_gradients);
  torch::set_modes(recording.torch_modes);
  int nesting = 0;
  for (const graph::Node& node : recording.graph.nodes) {
    if (node.form == graph::Form::kCall) nesting += torch::nesting_of(recording.graph.constants[node.callable].get());
  }
  for (; nesting > 0; nesting--) torch::leave_autocast();
}

}  // namespace

// An exception that the recorded run raised stays set.
Held<Compilation> Capture::add(Entries& entries, std::unique_ptr<Recording> recording) {
  const bool is_whole = recording->returns || recording->why == recorder::Break::kYield;
  if (settings_.fullgraph && !is_whole && recording->why != recorder::Break::kException) {
    note_break(*recording);
    // What the frames that are given up would have switched back.
    if (settings_.is_torch()) set_torch_back(*recording);
    raise_graph_break(breaks_.back());
    return {};
  }
  const PendingException pending;
  if (!is_whole) note_break(*recording);
  if (!is_whole) count(&Counters::breaks);
  entries.runs_plain = recording->keeps_ended || (recording->why == recorder::Break::kGarbage && recording->makes_objects());
  if (entries.runs_plain) return {};
  Held<Compilation> compilation = compile_counted(std::move(recording));
  if (!compilation) return {};
  for (const Held<Compilation>& entry : entries.list) compilation->because.push_back(failure_of(*entry));
  // Writing may run Python code, so it gets a list of its own.
  if (log::is_any_on()) log_compilation(*compilation, std::vector<Held<Compilation>>(entries.list));
  entries.list.push_back(compilation);
  // Entries for one value of what now is an input are of no more use.
  if (!compilation->recording->guards.fixes_any_of(entries.varying)) {
    entries.replaced += keep_only(entries, [&](const Held<Compilation>& entry) { return !entry->recording->guards.fixes_any_of(entries.varying); });
  }
  return compilation;
}

bool Capture::wants_several(const Entries& entries, const Compilation& one, const Chain& chain) const {
  if (entries.several_tried || one.hits < kHotTurns || settings_.custom || settings_.fullgraph) return false;
  const Recording& recording = *one.recording;
  if (recording.seconds > kLongTurn) return false;
  const int32_t head = entries.place.frames.back().next - 1;
  // A whole turn, from behind the FOR_ITER to it.
  if (recording.returns || recording.why != recorder::Break::kIterator || recording.marks.back().instruction != head) return false;
  if (one.left_early > one.hits / 4) return false;
  cpython::Frame* inner = chain.frames().back();
  const bytecode::Code* const code = cpython::decoded(cpython::code_of(inner));
  if (!code) return PyErr_Clear(), false;
  if (head < 0 || code->instructions[head].op != bytecode::Op::FOR_ITER) return false;
  PyObject* iterator = cpython::slots(inner).base()[cpython::depth_of(inner) - 2];
  if (!cpython::ahead(iterator, recorder::Recorder::kTurnsAtOnce)) return false;
  return recording.state_at(static_cast<int32_t>(recording.graph.nodes.size())).size() == chain.size();
}

Ended Capture::record_several(Entries& entries, Chain& chain, Ref& result, bool& past_exception) {
  entries.several_tried = true;
  const guards::Paths varying = entries.varying;
  std::unique_ptr<Recording> recording;
  const Ended ended = chain.record(varying, result, recording, past_exception, {.turns = recorder::Recorder::kTurnsAtOnce});
  if (ended != Ended::kRunning || past_exception || recording->keeps_ended || recording->iterator < 0) return ended;
  const int32_t turns = 1 + recording->advanced_at(static_cast<int32_t>(recording->graph.nodes.size()));
  const Held<Compilation> several = compile_counted(std::move(recording));
  several->turns = turns;
  entries.several = several;
  return ended;
}

// Drops what is left early too often, or serves nothing any more.
void Capture::look_at_several(Entries& entries) {
  if (!entries.several) return;
  const Compilation& several = *entries.several;
  const bool misses = several.misses > kHotTurns + 8 * several.hits;
  if (!misses && (several.hits < kHotTurns || several.left_early <= several.hits / 4)) return;
  entries.several_tried = !misses;
  const Held<Compilation> dropped = std::exchange(entries.several, Held<Compilation>());
}

}  // namespace evalframe::runtime
