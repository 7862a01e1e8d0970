// Goes on from any instruction of a captured function: serves what was recorded from there, records, or lets the evaluator run.
#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "cpython/codec.h"
#include "cpython/variables.h"
#include "backends/python_backend.h"
#include "frontends/torch/checkpoints.h"
#include "frontends/torch/tensors.h"
#include "recorder/imports.h"
#include "recorder/policy.h"
#include "recorder/recorder.h"
#include "runtime/call_trial.h"
#include "runtime/capture.h"
#include "runtime/capture_run.h"
#include "runtime/checkpoints.h"
#include "runtime/dead_functions.h"
#include "runtime/pending_exception.h"
#include "runtime/recursion_level.h"

namespace evalframe::runtime {

namespace {

// Exits after which capturing must have paid, or the function is left to CPython.
constexpr uint64_t kPatience = 1000;
// Exits after which there must have been an array at all, the first time.
constexpr uint64_t kFirstLook = 200;

// Recordings that make no array, after which there must have been others.
constexpr uint64_t kMostBarren = 24;

// Turns of a module's loops that aren't captured, after which CPython, which runs them faster, gets the rest of the module.
constexpr uint64_t kColdTurns = 200'000;

// Instructions that the evaluator runs while someone holds the frame object of a call in a chain, before CPython gets the rest.
constexpr uint64_t kHeldSteps = 200;
// So many frames are left so, before all are.
constexpr uint64_t kHeldFrames = 16;

// Recordings at one place, of a loop's turns for all that is known; where others are asked for because dicts have other keys, or sets
// other elements, these differ in each turn.
constexpr size_t kMostOfKeys = 4;

// Times that a place is met, from when recordings have taken their share, until it is recorded all the same: a recording takes as long as
// hundreds of its runs.
constexpr uint32_t kMostCallsPutOff = 16;

// The slots of a chain's frames.
class FrameSlots {
 public:
  explicit FrameSlots(const Chain& chain) {
    bases_.reserve(chain.size());
    for (cpython::Frame* frame : chain.frames()) bases_.push_back(cpython::slots(frame).base());
  }
  PyObject* const* const* data() const { return bases_.data(); }

 private:
  Few<PyObject* const*, 8> bases_;
};

bool same_bound_slots(const recorder::Recording& recording, PyObject* const* const* frames) {
  for (size_t k = 0; k < recording.initial.size(); k++) {
    for (size_t i = 0; i < recording.initial[k].size(); i++) {
      if ((recording.initial[k][i] != 0) != (frames[k][i] != nullptr)) return false;
    }
  }
  return true;
}

// Whether somebody is told when what the recorded code lets go of ends. The code lets it go when all is done, not in between.
bool tells_of_an_end(Compilation& entry, PyObject* const* const* frames) {
  if (!entry.let_go) entry.let_go = entry.recording->let_go();
  const auto tells = [](PyObject* object) { return recorder::tells_of_its_end(object); };
  return std::any_of(entry.let_go->begin(), entry.let_go->end(), [&](const recorder::Recording::Variable& variable) {
    PyObject* const object = frames[variable.frame][variable.slot];
    if (!object || Py_REFCNT(object) > 1) return false;
    // Of many elements, the first ones.
    constexpr Py_ssize_t kMostElements = 16;
    if (!PyList_CheckExact(object) && !PyTuple_CheckExact(object)) return tells(object);
    PyObject** const elements = PySequence_Fast_ITEMS(object);
    return std::any_of(elements, elements + std::min(PySequence_Fast_GET_SIZE(object), kMostElements), tells);
  });
}

Ended finished(Ref value, Ref& result) {
  result = std::move(value);
  return result ? Ended::kReturned : Ended::kRaised;
}

// The last of the jumps back to `head`.
int32_t last_of_loop(const bytecode::Code& code, int32_t head) {
  auto last = static_cast<int32_t>(code.instructions.size()) - 1;
  while (last > head && code.instructions[last].target != head) last--;
  return last;
}

}  // namespace

void Capture::Worth::count_exit() {
  exits++;
  if (exits == kFirstLook && !proven && nodes == 0) pays = false;
  if (exits <= kPatience) return;
  pays = proven = nodes >= exits / 2;
  exits = nodes = 0;
}

void Capture::Worth::count_recording(const Compilation& compilation) {
  nodes += compilation.array_nodes;
  barren += compilation.array_nodes == 0;
  if (barren > kMostBarren && barren > 2 * nodes) pays = false;
}

// An entry that has served so often will serve again: what is looked at once for all calls to come pays for itself.
constexpr uint64_t kSettled = 32;

bool Capture::serves(Compilation& entry, bool at_start, PyObject* const* const* frames, guards::Objects& objects) {
  const recorder::Recording& recording = *entry.recording;
  entry.is_spent = entry.is_spent || (recording.awaited && recorder::is_loaded(recording.awaited.get()));
  if (entry.is_spent) return false;
  const bool same_slots = at_start || (same_bound_slots(recording, frames) && !tells_of_an_end(entry, frames));
  if (same_slots && entry.guards.check(frames, objects, &entry.failures)) {
    if (++entry.hits == kSettled && entry.guards.reaches_many()) entry.guards.keep_only(recording.sources_read());
    count(&Counters::served);
    return true;
  }
  entry.misses++;
  if (!same_slots) entry.failures.count_unlike();
  objects.clear();
  return false;
}

Held<Compilation> Capture::match(Entries& entries, PyObject* const* const* frames, guards::Objects& objects) {
  if (entries.several && serves(*entries.several, false, frames, objects)) return entries.several;
  const size_t recent = entries.recent;
  if (recent < entries.list.size() && serves(*entries.list[recent], entries.at_start, frames, objects)) return entries.list[recent];
  for (size_t i = 0; i < entries.list.size(); i++) {
    if (i == recent || !serves(*entries.list[i], entries.at_start, frames, objects)) continue;
    entries.recent = i;
    return entries.list[i];
  }
  return {};
}

// There is no room for one more recording: CPython runs the rest.
Ref Capture::refuse(Entries& entries, Chain& chain) {
  count_refusal(entries);
  return chain.finish_in_cpython(false);
}

// Without being counted.
static bool would_serve(const Compilation& entry, PyObject* const* const* frames) {
  guards::Objects objects;
  return same_bound_slots(*entry.recording, frames) && entry.guards.check(frames, objects, nullptr);
}

// Whether there is nothing to be recorded: something serves from here, or there is no room.
bool Capture::is_known(const Chain& chain, const Entries& entries) const {
  if (is_full(entries, settings_.max_entries)) return true;
  const FrameSlots frames(chain);
  return std::any_of(entries.list.begin(), entries.list.end(), [&](const Held<Compilation>& entry) { return would_serve(*entry, frames.data()); });
}

// Through calls, of those that serve.
Capture::Ways Capture::ways_from(const Entries& entries, PyObject* const* const* frames) {
  Ways ways;
  for (const Held<Compilation>& entry : entries.list) {
    if (!entry->recording->ways.empty() && would_serve(*entry, frames)) ways.insert(entry->recording->ways);
  }
  return ways;
}

Ended Capture::begin_turn(Run& run, Entries& entries, bool& ran) {
  run.trial.arrive(entries);
  // Tests that leave graphs early want them to be entered.
  if (entries.loop_first < 0 || leave_before >= 0) return Ended::kRunning;
  if (entries.trial.skips()) {
    // A loop that may become native is served now and then, and where it does something new, for that has to be recorded; graphs take longer than its
    // turns until then.
    if (hopes_for_region(run, entries)) {
      ran = !entries.trial.is_sample() && is_known(run.chain, entries);
      return ran ? run_turn(run, entries) : Ended::kRunning;
    }
    ran = entries.loop_is_inner;
    if (ran) return run.chain.run_within(entries.loop_first, entries.loop_last, -1, run.result);
    if (run.stretch.last == INT32_MAX) return finished(run.chain.finish_in_cpython(false), run.result);
    run.worth.pays = false;
    return Ended::kRunning;
  }
  ran = run.trial.begin_turn(entries);
  if (!ran) return Ended::kRunning;
  const PlainSample sample;
  return run_turn(run, entries);
}

// The evaluator runs the turn that begins here.
Ended Capture::run_turn(Run& run, const Entries& entries) {
  return run.chain.run_within(entries.loop_first, entries.loop_last, entries.place.frames.back().next, run.result);
}

// Serves one run of a graph, up to its exit.
Ended Capture::serve_here(Run& run, Entries& entries, Compilation& compilation, guards::Objects& objects) {
  run.worth.nodes += compilation.array_nodes;
  // What inner frames hold goes with them, before the exit is made.
  if (run.chain.size() > 1) objects.own_slots();
  // A frame object that outlives the call has to see the last state, which a graph doesn't make.
  if (compilation.recording->returns && run.chain.is_held()) return objects.clear(), finished(run.chain.finish_in_cpython(false), run.result);
  const uint64_t left_early = compilation.left_early;
  const Ended ended = run_graph(run.thread, compilation, objects, run.chain, run.result);
  if (left_early != compilation.left_early && !compilation.recording->ways.empty()) entries.lost_way = true;
  if (ended != Ended::kRunning || left_early != compilation.left_early) return ended;
  if (run.trial.is_of(entries)) run.trial.serves(compilation.turns);
  run.times.serves(compilation.turns);
  return ended;
}

constexpr int kMostNesting = 8;  // of containers, which may be in themselves

// All sizes of tensors, and numbers, in an argument.
static void add_sizes(PyObject* argument, const std::string& path, guards::Paths& varying, int depth = 0) {
  if (!argument || depth > kMostNesting) return;
  if (PyLong_CheckExact(argument)) varying.insert(path);
  if (torch::is_tensor(argument)) {
    const std::vector<int64_t> sizes = torch::sizes_of(argument);
    for (size_t i = 0; i < sizes.size(); i++) {
      if (sizes[i] >= torch::kLeastVarying) varying.insert(guards::path_of_size(path, static_cast<int>(i)));
    }
  }
  if (PyTuple_CheckExact(argument) || PyList_CheckExact(argument)) {
    for (int32_t i = 0; i < PySequence_Fast_GET_SIZE(argument); i++) add_sizes(PySequence_Fast_GET_ITEM(argument, i), guards::path_of_item(path, i), varying, depth + 1);
  }
  PyObject *key = nullptr, *value = nullptr;
  for (Py_ssize_t at = 0; PyDict_CheckExact(argument) && PyDict_Next(argument, &at, &key, &value);) add_sizes(value, guards::path_of_item(path, key), varying, depth + 1);
}

// Which numbers are inputs from here on: those that were seen to change, and what the program's author said of parameters.
void Capture::look_for_inputs(const Chain& chain, Entries& entries, PyObject* const* const* frames) const {
  // torch's backends have numbers that a model keeps as constants. In the last graph that there may be they are inputs: counters, sums, a rate.
  const bool is_last = is_full(entries, settings_.max_entries - 1);
  for (const auto& entry : entries.list) {
    if (settings_.dynamic == Dynamic::kNever) break;
    if (settings_.is_torch()) entry->guards.collect_changed(frames, entries.varying, true);
    if (!settings_.is_torch() || is_last) entry->guards.collect_changed(frames, entries.varying, false);
  }
  if (entries.list.size() >= kMostOfKeys) {
    for (const auto& entry : entries.list) entry->guards.collect_changed_keys(frames, entries.varying);
  }
  PyObject* const object = cpython::code_of(chain.frames().front()).get();
  const auto* const code = reinterpret_cast<PyCodeObject*>(object);
  const int count = settings_.dynamic == Dynamic::kAlways ? code->co_argcount + code->co_kwonlyargcount : 0;
  for (int i = 0; i < count; i++) {
    if (frames[0][i] && PyLong_CheckExact(frames[0][i])) entries.varying.insert(guards::path_of_slot(0, i));
  }
  const int given = cpython::argument_count(object);
  for (int i = 0; settings_.is_torch() && count && i < given; i++) add_sizes(frames[0][i], guards::path_of_slot(0, i), entries.varying);
  for (const auto& [index, input] : recorder::marks_of(object)) {
    const std::string path = guards::path_of_slot(0, index);
    if (input && frames[0][index] && PyLong_CheckExact(frames[0][index])) entries.varying.insert(path);
    if (!input) std::erase_if(entries.varying, [&](const std::string& other) { return other.starts_with(path); });
  }
}

// Checkpoints whose calls the recording has left, by an exception, are over; CPython runs what is left where it is in the midst of one.
static Ended without_recording(Chain& chain, Ref& result, Ended ended, const recorder::Recording& recording, size_t checkpoints) {
  const size_t within = ended == Ended::kRunning ? checkpoints_within(chain, recording) : 0;
  if (within > 0) {
    torch::leave_checkpoints(checkpoints + within);
    ended = finished(chain.finish_in_cpython(false), result);
  }
  const PendingException pending;
  torch::leave_checkpoints(checkpoints);
  return ended;
}

// A call that calls itself, again and again, and does nothing to arrays: CPython runs the rest of it, and all later ones.
Ended Capture::leave_barren_call(Chain& chain, Ref& result) {
  PyObject* const code = cpython::code_of(chain.frames().back()).get();
  size_t outermost = 1;
  while (cpython::code_of(chain.frames()[outermost]).get() != code) outermost++;
  if (barren_.insert(code).second) barren_held_.push_back(Ref::borrow(code));
  while (chain.size() > outermost) {
    if (!chain.ends_in_call()) return finished(chain.finish_in_cpython(false), result);
    if (const Ended ended = chain.finish_last_in_cpython(result); ended != Ended::kRunning) return ended;
  }
  return Ended::kRunning;
}

// Runs and records, up to a break.
Ended Capture::record_here(Run& run, Entries& entries, PyObject* const* const* frames, bool& past_exception, const Ways& known_ways) {
  // They would see the recorder look at tensors.
  if (torch::modes_are_active()) return finished(run.chain.finish_in_cpython(false), run.result);
  std::unique_ptr<recorder::Recording> recording;
  look_for_inputs(run.chain, entries, frames);
  // Its own: other threads may add to the entries' meanwhile.
  const guards::Paths varying = entries.varying;
  const recorder::Codes barren = barren_;
  static constexpr recorder::OfBodies kBodies{backends::may_be_in_body, backends::tell_body};
  const recorder::Purpose purpose{.keep_inputs = static_cast<bool>(settings_.custom), .fixes_numbers = settings_.is_torch(), .compiling = settings_.compiling, .bodies = settings_.is_torch() ? &kBodies : nullptr, .barren = is_tried() ? &barren : nullptr};
  const size_t long_loops = long_loops_.size(), checkpoints = torch::open_checkpoints();
  torch::forget_checkpoints();
  const Ended ended = run.chain.record(varying, run.result, recording, past_exception, purpose, is_tried() ? &long_loops_ : nullptr);
  const bool drops = drop_for_checkpoints(*recording) || recording->leaves_bodies;
  torch::forget_checkpoints();
  if (drops) return without_recording(run.chain, run.result, ended, *recording, checkpoints);
  if (ended == Ended::kRunning && long_loops_.size() > long_loops) return ended;  // next time it ends behind the first turn
  if (ended == Ended::kRunning && recording->is_barren) return past_exception = true, leave_barren_call(run.chain, run.result);
  if (ended == Ended::kRunning && known_ways.count(recording->ways)) return ended;
  const Ref transforms = Ref::borrow(recording->transforms.get());
  const Held<Compilation> added = add(entries, std::move(recording));
  if (added && is_tried()) run.worth.count_recording(*added);
  if (ended == Ended::kRaised) return ended;
  if (!added && PyErr_Occurred()) {
    const PendingException pending;
    run.result.reset();
    run.chain.drop();  // generators that have begun transformations of torch.func end them themselves
    if (transforms) torch::set_transforms_back(transforms.get());
    return Ended::kRaised;
  }
  if (ended == Ended::kRunning && !added) return finished(run.chain.finish_in_cpython(false), run.result);
  return ended;
}

bool Capture::puts_off(Entries& entries) {
  if (!is_tried() || !settings_.patience) return false;
  // Where there are very many places, as in functions that call themselves, each is met often: the more was taken, the longer all wait.
  const double used = settings_.patience->used();
  constexpr double kMostUsed = 16;
  if (used <= 1 || entries.put_off >= kMostCallsPutOff << static_cast<int>(std::min(used, kMostUsed) - 1)) return false;
  entries.put_off++;
  count(&Counters::put_off);
  return true;
}

// To where a turn begins, for what is run once is behind it then; where no loop follows, to the end.
Ended Capture::run_unrecorded(Run& run, const Entries& entries) {
  if (run.worth.exits > 0) run.worth.exits--;  // it says nothing of graphs
  run.trial.stop();
  run.times.runs();
  if (entries.loop_first >= 0) return run_turn(run, entries);
  if (run.chain.ends_in_call()) return run.chain.finish_last_in_cpython(run.result);
  int32_t head = 0;
  if (comes_to_loop(entries)) return run.chain.run_to_back_jump(&head, run.result);
  return finished(run.chain.finish_in_cpython(false), run.result);
}

// Serves what is recorded from here, or records it. may_go_on: the chain stands where another recording may begin, not before a break.
Ended Capture::serve_or_record(Run& run, Entries& entries, bool& may_go_on) {
  const FrameSlots frames(run.chain);
  Held<Compilation> compilation;  // held until the objects are gone
  guards::Objects objects;
  look_at_several(entries);
  compilation = match(entries, frames.data(), objects);
  const bool several = compilation && wants_several(entries, *compilation, run.chain);
  const bool is_lost = compilation && std::exchange(entries.lost_way, false) && !compilation->recording->ways.empty() && !is_full(entries, settings_.max_entries);
  if (compilation && Measure::what & Measure::kGuards) compilation->take_costs(frames.data());
  if (compilation && !several && !is_lost) return serve_here(run, entries, *compilation, objects);
  if (!compilation && puts_off(entries)) return may_go_on = true, run_unrecorded(run, entries);
  if (!compilation) drop_spent(entries);
  if (!compilation && drop_dead(entries, is_full(entries, settings_.max_entries))) drop_regions();
  if (!compilation && is_full(entries, settings_.max_entries)) return finished(refuse(entries, run.chain), run.result);
  run.trial.stop();
  run.times.records();
  objects.clear();
  return several ? record_several(entries, run.chain, run.result, may_go_on) : record_here(run, entries, frames.data(), may_go_on, is_lost ? ways_from(entries, frames.data()) : Ways());
}

// The chain stands at an instruction boundary: serve from there, record from there, or let CPython go on.
Ended Capture::go_on(PyThreadState* thread, Chain& chain, Stretch stretch, Worth& worth, Ref& result, Measure* measure) {
  Run run{thread, chain, stretch, worth, result, {}, {stretch, measure}};
  uint64_t held_steps = 0;
  while (true) {
    if (cpython::is_traced(thread)) return finished(chain.finish_in_cpython(false), result);
    if (chain.is_callee_held()) {
      // By a traceback, most likely, until the exception is handled; or by what goes through the frames of the stack.
      const bool waits = ++held_steps % kHeldSteps != 0;
      if (held_steps > kHeldFrames * kHeldSteps) return finished(chain.finish_in_cpython(false), result);
      const Ended stepped = waits ? chain.step(result) : chain.finish_last_in_cpython(result);
      if (stepped != Ended::kRunning) return stepped;
      continue;
    }
    if (!settings_.everything) worth.count_exit();
    if (cpython::breaker_is_set(thread)) {
      if (!cpython::service_breaker(thread)) return finished(chain.finish_in_cpython(true), result);
      // By the handler of a signal.
      if (cpython::is_traced(thread)) return finished(chain.finish_in_cpython(false), result);
    }
    if (const Ended left = chain.leave_hidden(result); left != Ended::kRunning) return left;
    const Held<Entries> entries = entries_of(chain);
    if (!still_pays(run, *entries)) return Ended::kRunning;
    const int32_t next = entries->place.frames[0].next;
    if (next < stretch.first || next > stretch.last) return Ended::kRunning;
    if (hands_over(run, *entries)) {
      bool handed = false;
      const Ended ended = hand_over(run, handed);
      if (ended != Ended::kRunning) return ended;
      if (handed) continue;
    }
    bool ran = run.times.arrive(*entries);
    if (ran) run.trial.stop();
    if (!ran) {
      bool looped = false;
      const Ended ended = run_region(run, *entries, looped);
      if (ended != Ended::kRunning) return ended;
      if (looped) continue;
    }
    const bool paid = worth.pays;
    const Ended turn = ran ? run_turn(run, *entries) : begin_turn(run, *entries, ran);
    if (turn != Ended::kRunning) return turn;
    if (ran) run.times.runs();
    if (ran || (paid && !worth.pays)) continue;
    bool may_go_on = false;
    Ended ended = serve_or_record(run, *entries, may_go_on);
    if (ended == Ended::kRunning && may_go_on) continue;
    if (ended == Ended::kRunning) {
      count(&Counters::exits);
      ended = chain.step(result);
    }
    if (ended != Ended::kRunning) return ended;
  }
}

Ref Capture::finish(PyThreadState* thread, Chain& chain) {
  Ref result;
  if (go_on(thread, chain, {}, worth_, result) != Ended::kRunning) return result;
  if (!given_up_) count(&Counters::given_up);
  given_up_ = true;
  return chain.finish_in_cpython(false);
}

Ref Capture::run_module(PyThreadState* thread) {
  const bytecode::Code* code = cpython::decoded(reinterpret_cast<PyFunctionObject*>(function_.get())->func_code);
  const RecursionLevel level(thread);
  if (!level) return Ref();
  Chain chain(thread);
  if (!chain.push(function_.get(), *code, std::vector<Ref>(code->code.as<PyCodeObject>()->co_nlocalsplus), 0)) return Ref();
  std::set<int32_t> cold;  // heads of loops that aren't worth it
  std::map<int32_t, Measure> measures;
  Ref result;
  for (uint64_t cold_turns = 0; cold_turns < kColdTurns;) {
    int32_t head = 0;
    if (chain.run_to_back_jump(&head, result) != Ended::kRunning) return result;
    if (cold.count(head)) {
      cold_turns++;
      continue;
    }
    Worth worth;
    if (go_on(thread, chain, {head, last_of_loop(*code, head)}, worth, result, Measure::what & Measure::kCalls ? &measures[head] : nullptr) != Ended::kRunning) return result;
    if (!worth.pays) cold.insert(head);
  }
  return chain.finish_in_cpython(false);
}

}  // namespace evalframe::runtime
