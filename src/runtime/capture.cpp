// Runs what was captured, records what wasn't, and lets CPython run the rest.
#include "runtime/capture.h"

#include <algorithm>

#include "core/check.h"
#include "core/log.h"
#include "cpython/codec.h"
#include "cpython/iterators.h"
#include "recorder/recorder.h"
#include "runtime/log_compilation.h"
#include "runtime/replay.h"

namespace evalframe::runtime {

using recorder::Recording;

int32_t Capture::leave_before = -1;

namespace {

// Exits after which capturing must have paid, or the function is left to CPython.
constexpr uint64_t kPatience = 1000;
// Recordings that make no array, after which there must have been others.
constexpr uint64_t kMostBarren = 24;
// Turns after which several are recorded at once.
constexpr uint64_t kHotTurns = 16;
// Turns of a module's loops that aren't captured, after which CPython, which runs them faster, gets the rest of the module.
constexpr uint64_t kColdTurns = 200'000;

// The graph's inputs, borrowed from the sources' objects; on the C stack where they are few.
class Inputs {
 public:
  Inputs(const Recording& recording, const guards::Objects& objects) {
    const size_t count = recording.input_sources.size();
    if (count > std::size(in_place_)) more_.resize(count);
    PyObject** into = more_.empty() ? in_place_ : more_.data();
    for (size_t i = 0; i < count; i++) into[i] = objects[recording.input_sources[i]];
  }
  PyObject* const* data() const { return more_.empty() ? in_place_ : more_.data(); }

 private:
  PyObject* in_place_[16];
  std::vector<PyObject*> more_;
};

// The result of a finished graph; most are one object that is there already.
Ref make_result(const Recording& recording, int32_t end, const std::vector<Ref>& values, const guards::Objects& objects) {
  advance_iterator(recording, end, objects.data());
  const recorder::Value& result = recording.values[recording.result];
  if (recording.names.empty()) switch (result.kind) {
    case recorder::Value::Kind::kSource: return Ref::borrow(objects[result.a]);
    case recorder::Value::Kind::kConstant: return Ref::borrow(recording.graph.constants[result.a].get());
    case recorder::Value::Kind::kNode: return Ref::borrow(values[0].get());  // the exit's only value
    default: break;
  }
  const graph::ExitPoint exit = recording.exit_at(end);
  recorder::Rebuild rebuild(recording, exit, values, objects.data());
  if (!store_names(recording, end, rebuild)) return Ref();
  return rebuild.make(recording.result);
}

// Keeps an exception that is set through code that may clear or set others.
class PendingException {
 public:
  PendingException() { PyErr_Fetch(&type_, &value_, &traceback_); }
  ~PendingException() {
    if (type_) PyErr_Restore(type_, value_, traceback_);
  }
  PendingException(const PendingException&) = delete;
  PendingException& operator=(const PendingException&) = delete;

 private:
  PyObject *type_ = nullptr, *value_ = nullptr, *traceback_ = nullptr;
};

Place place_of(const Chain& chain) {
  Place place;
  for (cpython::Frame* frame : chain.frames()) {
    const bytecode::Code& code = *cpython::decoded(cpython::code_of(frame));
    const int unit = cpython::next_unit(frame);
    place.frames.push_back({cpython::code_of(frame).get(), code.index_of_unit[unit], cpython::depth_of(frame)});
  }
  return place;
}

bool stands_at(const Chain& chain, const Entries& entries) {
  const size_t count = chain.size();
  if (entries.units.size() != count || entries.place.frames.size() != count) return false;
  for (size_t k = 0; k < count; k++) {
    cpython::Frame* frame = chain.frames()[k];
    const Place::Frame& at = entries.place.frames[k];
    if (cpython::code_of(frame).get() != at.code || cpython::next_unit(frame) != entries.units[k] || cpython::depth_of(frame) != at.depth) return false;
  }
  return true;
}

// The slots of a chain's frames; on the C stack where they are few.
class FrameSlots {
 public:
  explicit FrameSlots(const Chain& chain) {
    const size_t count = chain.size();
    if (count > std::size(in_place_)) more_.resize(count);
    PyObject* const** into = more_.empty() ? in_place_ : more_.data();
    for (size_t k = 0; k < count; k++) into[k] = cpython::slots(chain.frames()[k]).base();
  }
  PyObject* const* const* data() const { return more_.empty() ? in_place_ : more_.data(); }

 private:
  PyObject* const* in_place_[8];
  std::vector<PyObject* const*> more_;
};

bool same_bound_slots(const Recording& recording, PyObject* const* const* frames) {
  for (size_t k = 0; k < recording.initial.size(); k++) {
    for (size_t i = 0; i < recording.initial[k].size(); i++) {
      if ((recording.initial[k][i] != 0) != (frames[k][i] != nullptr)) return false;
    }
  }
  return true;
}

std::vector<Capture*>& captures() {
  static std::vector<Capture*> all;
  return all;
}

}  // namespace

Counters& Counters::operator+=(const Counters& other) {
  for (uint64_t Counters::*each : {&Counters::calls, &Counters::hits, &Counters::served, &Counters::recordings, &Counters::breaks, &Counters::exits,
                                   &Counters::plain_calls, &Counters::limited, &Counters::given_up}) {
    this->*each += other.*each;
  }
  record_seconds += other.record_seconds;
  compile_seconds += other.compile_seconds;
  return *this;
}

namespace {
constinit Counters gone_counters;  // of captures that are gone

// Who chose another backend, or one graph, wants that and not speed.
bool wants_speed(const Settings& settings) { return !settings.custom && !settings.fullgraph && settings.backend == "native"; }
}  // namespace

Capture::Capture(Borrowed function, Settings settings)
    : function_(Ref::borrow(function)), settings_(std::move(settings)), may_be_tried_(wants_speed(settings_)) {
  captures().push_back(this);
}

Capture::~Capture() {
  captures().erase(std::find(captures().begin(), captures().end(), this));
  gone_counters += counters_;
}

const std::vector<Capture*>& Capture::all() { return captures(); }

Counters Capture::total_counters() {
  Counters total = gone_counters;
  for (const Capture* capture : captures()) total += capture->counters_;
  return total;
}

bool Capture::serves(Compilation& entry, bool at_start, PyObject* const* const* frames, guards::Objects& objects) {
  const Recording& recording = *entry.recording;
  const bool same_slots = at_start || same_bound_slots(recording, frames);
  const bool holds = same_slots && entry.guards.check(frames, objects, entry.last_failed_guard);
  if (holds && (recording.graph.nodes.empty() || entry.executable->accepts(Inputs(recording, objects).data()))) {
    entry.hits++;
    count(&Counters::served);
    return true;
  }
  entry.misses++;
  if (holds || !same_slots) entry.last_failed_guard = -1;
  entry.count_failure();
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

namespace {

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
  const recorder::FrameState& inner = states.back();
  const auto* code = inner.code->code.as<PyCodeObject>();
  BreakNote note{recording.why, recording.why_detail, PyUnicode_AsUTF8(code->co_filename), PyUnicode_AsUTF8(code->co_qualname),
                 inner.code->positions[inner.next], 1};
  for (BreakNote& known : breaks_) {
    if (known.why == note.why && known.function == note.function && known.position == note.position) {
      known.count++;
      return;
    }
  }
  breaks_.push_back(std::move(note));
  log_break(breaks_.back());
}

Held<Compilation> Capture::compile_counted(std::unique_ptr<Recording> recording) {
  count(&Counters::recordings);
  const double record_seconds = recording->seconds;
  Held<Compilation> compilation = compile(std::move(recording), settings_);
  if (!compilation) return {};
  counters_.record_seconds += record_seconds;
  counters_.compile_seconds += compilation->compile_seconds;
  return compilation;
}

// An exception that the recorded run raised stays set.
Held<Compilation> Capture::add(Entries& entries, std::unique_ptr<Recording> recording) {
  if (settings_.fullgraph && !recording->returns && recording->why != recorder::Break::kException) {
    note_break(*recording);
    raise_graph_break(breaks_.back());
    return {};
  }
  const PendingException pending;
  if (!recording->returns) note_break(*recording);
  if (!recording->returns) count(&Counters::breaks);
  Held<Compilation> compilation = compile_counted(std::move(recording));
  if (!compilation) return {};
  // Writing may run Python code, so it gets a list of its own.
  if (log::is_any_on()) log_compilation(*compilation, std::vector<Held<Compilation>>(entries.list));
  // Entries for one value of what now is an input are of no more use. They die last, for that can run Python code.
  const bool fixes_too = compilation->recording->guards.fixes_any_of(entries.varying);
  const auto special = std::stable_partition(entries.list.begin(), entries.list.end(), [&](const Held<Compilation>& entry) {
    return fixes_too || !entry->recording->guards.fixes_any_of(entries.varying);
  });
  const std::vector<Held<Compilation>> replaced(std::make_move_iterator(special), std::make_move_iterator(entries.list.end()));
  entries.list.erase(special, entries.list.end());
  entries.list.push_back(compilation);
  return compilation;
}

namespace {

// The guards that fail are counted by what they look at: entries for the values 3, 4 and 5 of `n` are about one thing.
LimitNote limit_note(const Entries& entries) {
  std::map<std::string, uint64_t> failures;
  std::map<std::string, guards::GuardTable::Line> examples;
  for (const Held<Compilation>& entry : entries.list) {
    const std::vector<guards::GuardTable::Line> lines = entry->recording->guards.lines();
    for (size_t i = 0; i < entry->failures.size() && i < lines.size(); i++) {
      failures[lines[i].subject] += entry->failures[i];
      if (entry->failures[i]) examples[lines[i].subject] = lines[i];
    }
  }
  const auto most = std::max_element(failures.begin(), failures.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  const bool any = most != failures.end() && most->second;
  const recorder::FrameStart& inner = entries.list.front()->recording->start.back();
  const auto* code = inner.code->code.as<PyCodeObject>();
  return {PyUnicode_AsUTF8(code->co_filename),
          PyUnicode_AsUTF8(code->co_qualname),
          inner.code->positions[inner.next].line,
          entries.list.size(),
          entries.refused,
          any ? examples[most->first].text : "sizes or overlaps that its kernels don't serve",
          any ? examples[most->first].hint : "raise max_entries"};
}

}  // namespace

void Capture::look_at_code() {
  // What was captured of other code isn't reached any more.
  if (code_) clear();
  code_ = function_.as<PyFunctionObject>()->func_code;
  const auto* code = reinterpret_cast<PyCodeObject*>(code_);
  const bool by_position = !code->co_kwonlyargcount && !(code->co_flags & (CO_VARARGS | CO_VARKEYWORDS));
  in_order_ = by_position ? code->co_argcount : -1;
  first_ = entries_at(Place{{{code_, 0, code->co_nlocalsplus}}});
  first_->at_start = true;
}

namespace {

// A captured call is a level of Python's recursion, whoever runs its frame.
class RecursionLevel {
 public:
  explicit RecursionLevel(PyThreadState* thread) : thread_(cpython::enter_recursion(thread) ? thread : nullptr) {}
  ~RecursionLevel() {
    if (thread_) cpython::leave_recursion(thread_);
  }
  RecursionLevel(const RecursionLevel&) = delete;
  RecursionLevel& operator=(const RecursionLevel&) = delete;
  explicit operator bool() const { return thread_ != nullptr; }

 private:
  PyThreadState* const thread_;
};

}  // namespace

namespace {

// Finds the innermost of the loops around the place.
void find_loop(Entries& entries) {
  const Place::Frame& inner = entries.place.frames.back();
  const bytecode::Code* code = cpython::decoded(inner.code);
  if (!code) return PyErr_Clear();
  entries.loop_is_inner = entries.place.frames.size() > 1;
  for (auto last = static_cast<int32_t>(code->instructions.size()) - 1; last >= inner.next; last--) {
    const int32_t first = code->instructions[last].target;
    if (first < 0 || first > inner.next) continue;
    // The outermost comes first; several jumps back to one head (`continue`) are one loop.
    if (first <= entries.loop_first) continue;
    entries.loop_is_inner = entries.loop_is_inner || entries.loop_first >= 0;
    entries.loop_first = first;
    entries.loop_last = last;
  }
}

}  // namespace

Held<Entries> Capture::entries_at(const Place& place) {
  Held<Entries>& entries = places_[place];
  if (!entries) {
    entries = Held<Entries>(new Entries);
    entries->place = place;
    find_loop(*entries);
  }
  return entries;
}

Held<Entries> Capture::entries_of(const Chain& chain) {
  cpython::Frame* inner = chain.frames().back();
  Held<Entries>& lately = lately_[static_cast<size_t>(cpython::next_unit(inner)) % lately_.size()];
  if (lately && stands_at(chain, *lately)) return lately;
  lately = entries_at(place_of(chain));
  lately->units.clear();
  for (cpython::Frame* frame : chain.frames()) lately->units.push_back(cpython::next_unit(frame));
  return lately;
}

void Capture::Worth::count_exit() {
  if (++exits <= kPatience) return;
  pays = nodes >= exits / 2;
  exits = nodes = 0;
}

void Capture::Worth::count_recording(const Compilation& compilation) {
  nodes += compilation.array_nodes;
  barren += compilation.array_nodes == 0;
  if (barren > kMostBarren && barren > 2 * nodes) pays = false;
}

void Capture::count_refusal(Entries& entries) {
  entries.refused++;
  count(&Counters::limited);
  if (entries.refused == 1 && log::is_on(log::Channel::recompiles)) log_limit(limit_note(entries));
}

// There is no room for one more recording: CPython runs the rest.
Ref Capture::refuse(Entries& entries, Chain& chain) {
  count_refusal(entries);
  return chain.finish_in_cpython(false);
}

Ref Capture::call_plainly(bool* handled) {
  *handled = false;
  count(&Counters::plain_calls);
  return Ref();
}

// The recording that served last, if it serves again and has its result at hand: nothing is run, so nothing has to be held.
inline Compilation* Capture::hit_at_hand(PyObject* const* parameters) {
  const Entries& first = *first_;
  if (first.recent >= first.list.size() || Measure::on) return nullptr;
  Compilation& entry = *first.list[first.recent];
  return entry.at_hand && entry.guards.check_slots(parameters) ? &entry : nullptr;
}

Ref Capture::call(PyThreadState* thread, PyObject* const* parameters, bool* handled) {
  count(&Counters::calls);
  *handled = true;
  if (given_up_ || cpython::is_traced(thread)) return call_plainly(handled);
  if (function_.as<PyFunctionObject>()->func_code != code_) look_at_code();
  const CallTrial::Turn turn = is_tried() ? trial_.next() : CallTrial::Turn::kServe;
  if (turn == CallTrial::Turn::kServe) {
    if (Compilation* const entry = hit_at_hand(parameters)) {
      entry->hits++;
      count(&Counters::served);
      count(&Counters::hits);
      return Ref::borrow(entry->at_hand.of(parameters));
    }
  }
  switch (turn) {
    case CallTrial::Turn::kServe: return call_captured(thread, parameters, handled);
    case CallTrial::Turn::kPlain: return call_plainly(handled);
    case CallTrial::Turn::kTimedServe:
    case CallTrial::Turn::kTimedPlain: break;
  }
  return call_timed(thread, turn, parameters, handled);
}

// A call of a trial: all of it is done here, whoever runs it.
Ref Capture::call_timed(PyThreadState* thread, CallTrial::Turn turn, PyObject* const* parameters, bool* handled) {
  const bytecode::Code* decoded = cpython::decoded(code_);
  if (!decoded) return PyErr_Clear(), call_plainly(handled);
  const bool served_before = trial_.serves();
  Ref result;
  {
    const TimedCall timed(trial_, turn);
    if (turn == CallTrial::Turn::kTimedServe) result = call_captured(thread, parameters, handled);
    if (turn == CallTrial::Turn::kTimedPlain) count(&Counters::plain_calls);
    if (turn == CallTrial::Turn::kTimedPlain || !*handled) result = run_plainly(thread, *decoded, parameters);
    *handled = true;
  }
  if (served_before && !trial_.serves()) count(&Counters::given_up);
  return result;
}

Ref Capture::run_plainly(PyThreadState* thread, const bytecode::Code& decoded, PyObject* const* parameters) {
  Chain chain(thread);
  return push_call(chain, decoded, parameters) ? chain.finish_in_cpython(false) : Ref();
}

Ref Capture::call_captured(PyThreadState* thread, PyObject* const* parameters, bool* handled) {
  const Held<Entries> entries = first_;
  // Held until the objects are gone: its program says which of them are owned.
  Held<Compilation> compilation;
  guards::Objects objects;
  compilation = match(*entries, &parameters, objects);
  if (compilation && !Measure::on) {
    count(&Counters::hits);
    const Recording& recording = *compilation->recording;
    if (recording.returns && recording.graph.nodes.empty()) return make_result(recording, 0, {}, objects);
  }
  const RecursionLevel level(thread);
  if (!level) return Ref();
  if (!compilation) return record(thread, *entries, parameters, handled);
  return Measure::on ? serve(thread, *compilation, objects, parameters) : run(thread, *compilation, objects);
}

// No entry serves a call: records it from its start.
Ref Capture::record(PyThreadState* thread, Entries& entries, PyObject* const* parameters, bool* handled) {
  const bytecode::Code* decoded = cpython::decoded(code_);
  if (!decoded) return PyErr_Clear(), call_plainly(handled);
  if (entries.list.size() >= static_cast<size_t>(settings_.max_entries)) {
    count_refusal(entries);
    return call_plainly(handled);
  }
  Chain chain(thread);
  if (!push_call(chain, *decoded, parameters)) return Ref();
  return Measure::on ? record_call(thread, entries, chain) : finish(thread, chain);
}

bool Capture::push_call(Chain& chain, const bytecode::Code& decoded, PyObject* const* parameters) {
  const auto* code = decoded.code.as<PyCodeObject>();
  const int given = code->co_argcount + code->co_kwonlyargcount + !!(code->co_flags & CO_VARARGS) + !!(code->co_flags & CO_VARKEYWORDS);
  std::vector<Ref> slots(code->co_nlocalsplus);
  for (int i = 0; i < given; i++) slots[i] = Ref::borrow(parameters[i]);
  return chain.push(function_.get(), decoded, std::move(slots), 0);
}

// Serves a call and takes the time, or lets CPython run it for comparison.
Ref Capture::serve(PyThreadState* thread, Compilation& compilation, guards::Objects& objects, PyObject* const* parameters) {
  if (!compilation.measure) compilation.measure = std::make_unique<Measure>();
  const bytecode::Code* decoded = compilation.measure->wants_plain() ? cpython::decoded(code_) : nullptr;
  if (decoded) {
    count(&Counters::plain_calls);
    Chain chain(thread);
    if (!push_call(chain, *decoded, parameters)) return Ref();
    const Stopwatch watch;
    Ref result = chain.finish_in_cpython(false);
    compilation.measure->add_plain(watch.seconds());
    return result;
  }
  count(&Counters::hits);
  const Stopwatch watch;
  Ref result = run(thread, compilation, objects);
  compilation.measure->add_served(watch.seconds());
  return result;
}

// Records a call and takes the time that it took besides compiling.
Ref Capture::record_call(PyThreadState* thread, Entries& entries, Chain& chain) {
  const double compiled_before = total_counters().compile_seconds;
  const size_t before = entries.list.size();
  const Stopwatch watch;
  Ref result = finish(thread, chain);
  const double seconds = watch.seconds() - (total_counters().compile_seconds - compiled_before);
  if (entries.list.size() > before) {
    Compilation& made = *entries.list.back();
    if (!made.measure) made.measure = std::make_unique<Measure>();
    made.measure->set_recorded(seconds);
  }
  return result;
}

namespace {

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

Ref Capture::finish(PyThreadState* thread, Chain& chain) {
  Ref result;
  if (go_on(thread, chain, {}, worth_, result) != Ended::kRunning) return result;
  if (!given_up_) count(&Counters::given_up);
  given_up_ = true;
  return chain.finish_in_cpython(false);
}

Ref Capture::run_module(PyThreadState* thread) {
  const bytecode::Code* code = cpython::decoded(reinterpret_cast<PyFunctionObject*>(function_.get())->func_code);
  Chain chain(thread);
  if (!chain.push(function_.get(), *code, std::vector<Ref>(code->code.as<PyCodeObject>()->co_nlocalsplus), 0)) return Ref();
  std::set<int32_t> cold;  // heads of loops that aren't worth it
  Ref result;
  for (uint64_t cold_turns = 0; cold_turns < kColdTurns;) {
    int32_t head = 0;
    if (chain.run_to_back_jump(&head, result) != Ended::kRunning) return result;
    if (cold.count(head)) {
      cold_turns++;
      continue;
    }
    Worth worth;
    if (go_on(thread, chain, {head, last_of_loop(*code, head)}, worth, result) != Ended::kRunning) return result;
    if (!worth.pays) cold.insert(head);
  }
  return chain.finish_in_cpython(false);
}

Ended Capture::record_several(Entries& entries, Chain& chain, Ref& result, bool& past_exception) {
  entries.several_tried = true;
  const guards::Paths varying = entries.varying;
  std::unique_ptr<Recording> recording;
  const Ended ended = chain.record(varying, result, recording, past_exception, false, recorder::Recorder::kTurnsAtOnce);
  if (ended != Ended::kRunning || past_exception || recording->iterator < 0) return ended;
  const int32_t turns = 1 + recording->advanced_at(static_cast<int32_t>(recording->graph.nodes.size()));
  const Held<Compilation> several = compile_counted(std::move(recording));
  several->turns = turns;
  entries.several = several;
  return ended;
}

// A run's trial of a loop: one at a time, and only of turns that stay in the loop.
class Capture::Trial {
 public:
  bool is_of(const Entries& entries) const { return entries_.get() == &entries; }
  void stop() { entries_ = Held<Entries>(); }
  // The chain has come to this place.
  void arrive(Entries& entries) {
    if (!entries_) return;
    if (is_of(entries)) {
      if (whole_ && entries_->trial.add(watch_.seconds() / turns_)) stop();
    } else {
      whole_ = whole_ && is_in_loop(entries.place);
    }
  }
  // These turns will be over at the next arrival.
  void serves(int32_t turns) { turns_ = turns; }
  // A turn begins at this place. True: the evaluator is to run it.
  bool begin_turn(Entries& entries) {
    if (!entries_ && entries.trial.is_due()) {
      entries_ = Held<Entries>(&entries);
      entries.trial.begin();
    }
    if (!is_of(entries)) return false;
    whole_ = true;
    turns_ = 1;
    watch_ = Stopwatch();
    return entries.trial.runs_next();
  }

 private:
  bool is_in_loop(const Place& place) const {
    const size_t at = entries_->place.frames.size() - 1;
    return place.frames.size() > at && place.frames[at].next >= entries_->loop_first && place.frames[at].next <= entries_->loop_last;
  }
  Held<Entries> entries_;
  bool whole_ = false;
  int32_t turns_ = 1;
  Stopwatch watch_;
};

Ended Capture::begin_turn(Chain& chain, Entries& entries, Stretch stretch, Trial& trial, Worth& worth, bool* ran, Ref& result) {
  *ran = false;
  trial.arrive(entries);
  // Tests that leave graphs early want them to be entered.
  if (entries.loop_first < 0 || leave_before >= 0) return Ended::kRunning;
  if (entries.trial.skips()) {
    if (entries.loop_is_inner) return *ran = true, chain.run_within(entries.loop_first, entries.loop_last, -1, result);
    if (stretch.last == INT32_MAX) return finished(chain.finish_in_cpython(false), result);
    worth.pays = false;
    return Ended::kRunning;
  }
  if (!trial.begin_turn(entries)) return Ended::kRunning;
  *ran = true;
  return chain.run_within(entries.loop_first, entries.loop_last, entries.place.frames.back().next, result);
}

// The chain stands at an instruction boundary: serve from there, record from there, or let CPython go on.
Ended Capture::go_on(PyThreadState* thread, Chain& chain, Stretch stretch, Worth& worth, Ref& result) {
  Trial trial;
  while (true) {
    worth.count_exit();
    if (!worth.pays) return Ended::kRunning;
    if (cpython::is_traced(thread) || chain.is_callee_held()) return finished(chain.finish_in_cpython(false), result);
    if (cpython::breaker_is_set(thread) && !cpython::service_breaker(thread)) return finished(chain.finish_in_cpython(true), result);
    const Held<Entries> entries = entries_of(chain);
    const int32_t next = entries->place.frames[0].next;
    if (next < stretch.first || next > stretch.last) return Ended::kRunning;
    bool ran = false;
    const Ended turn = begin_turn(chain, *entries, stretch, trial, worth, &ran, result);
    if (turn != Ended::kRunning) return turn;
    if (ran || !worth.pays) continue;
    const FrameSlots frames(chain);
    Held<Compilation> compilation;  // held until the objects are gone
    guards::Objects objects;
    look_at_several(*entries);
    compilation = match(*entries, frames.data(), objects);
    if (compilation && wants_several(*entries, *compilation, chain)) {
      trial.stop();
      objects.clear();
      bool past_exception = false;
      const Ended ended = record_several(*entries, chain, result, past_exception);
      if (ended != Ended::kRunning) return ended;
      if (past_exception) continue;
    } else if (compilation) {
      worth.nodes += compilation->array_nodes;
      // What inner frames hold goes with them, before the exit is made.
      if (chain.size() > 1) objects.own_slots();
      // A frame object that outlives the call has to see the last state, which a graph doesn't make.
      if (compilation->recording->returns && chain.is_held()) return finished(chain.finish_in_cpython(false), result);
      const uint64_t left_early = compilation->left_early;
      const Ended ended = run_graph(thread, *compilation, objects, chain, result);
      if (ended != Ended::kRunning) return ended;
      if (trial.is_of(*entries) && left_early == compilation->left_early) trial.serves(compilation->turns);
    } else if (entries->list.size() >= static_cast<size_t>(settings_.max_entries)) {
      return finished(refuse(*entries, chain), result);
    } else {
      trial.stop();
      std::unique_ptr<Recording> recording;
      bool past_exception = false;
      for (const auto& entry : entries->list) entry->guards.collect_changed(frames.data(), entries->varying);
      // Its own: other threads may add to the entries' meanwhile.
      const guards::Paths varying = entries->varying;
      const bool keep_inputs = static_cast<bool>(settings_.custom);
      const Ended ended = chain.record(varying, result, recording, past_exception, keep_inputs);
      const Held<Compilation> added = add(*entries, std::move(recording));
      if (added && is_tried()) worth.count_recording(*added);
      if (ended == Ended::kRaised) return ended;
      if (!added && PyErr_Occurred()) return finished(Ref(), result);
      if (ended == Ended::kReturned) return ended;
      if (!added) return finished(chain.finish_in_cpython(false), result);
      if (past_exception) continue;
    }
    objects.clear();
    count(&Counters::exits);
    const Ended ended = chain.step(result);
    if (ended != Ended::kRunning) return ended;
  }
}

// Runs the graph. kReturned: `result` is the call's. kRaised: the call raised. kRunning: the chain stands at the exit.
Ended Capture::run_graph(PyThreadState* thread, Compilation& compilation, guards::Objects& objects, Chain& chain, Ref& result) {
  const Recording& recording = *compilation.recording;
  const Inputs inputs(recording, objects);
  backends::Outcome outcome;
  if (recording.graph.nodes.empty()) {
    outcome.node = 0;
  } else {
    ReplayPosition position(thread, recording);
    outcome = compilation.executable->run(inputs.data(), position, leave_before);
  }
  if (!outcome.raised && recording.returns && outcome.node == static_cast<int32_t>(recording.graph.nodes.size())) {
    result = make_result(recording, outcome.node, outcome.values, objects);
    chain.drop();
    return result ? Ended::kReturned : Ended::kRaised;
  }
  if (outcome.node != static_cast<int32_t>(recording.graph.nodes.size())) compilation.left_early++;
  bool made = false;
  {
    const PendingException pending;
    made = take_exit(chain, recording, outcome.node, outcome.values, objects.data());
    outcome.values.clear();
  }
  if (!made) {
    if (!PyErr_Occurred()) PyErr_NoMemory();
    return Ended::kRaised;
  }
  if (outcome.raised) {
    result = chain.throw_here();
    return result ? Ended::kReturned : Ended::kRaised;
  }
  return Ended::kRunning;
}

bool Capture::wants_several(const Entries& entries, const Compilation& one, const Chain& chain) const {
  if (entries.several_tried || one.hits < kHotTurns || settings_.custom || settings_.fullgraph) return false;
  const Recording& recording = *one.recording;
  const int32_t head = entries.place.frames.back().next - 1;
  // A whole turn, from behind the FOR_ITER to it.
  if (recording.returns || recording.why != recorder::Break::kIterator || recording.marks.back().instruction != head) return false;
  if (one.left_early > one.hits / 4) return false;
  cpython::Frame* inner = chain.frames().back();
  PyObject* iterator = cpython::slots(inner).base()[cpython::depth_of(inner) - 2];
  if (!cpython::ahead(iterator, recorder::Recorder::kTurnsAtOnce)) return false;
  return recording.state_at(static_cast<int32_t>(recording.graph.nodes.size())).size() == chain.size();
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

// Serves a call from its start.
Ref Capture::run(PyThreadState* thread, Compilation& compilation, guards::Objects& objects) {
  Chain chain(thread);
  Ref result;
  Ended ended = run_graph(thread, compilation, objects, chain, result);
  if (ended == Ended::kRunning) {
    objects.clear();
    count(&Counters::exits);
    ended = chain.step(result);
  }
  if (ended == Ended::kReturned) return result;
  if (ended == Ended::kRaised) return Ref();
  return finish(thread, chain);
}

void Capture::clear() {
  // Entries may be running: they are held there. Dropping them can run any code, so this object is empty first.
  const auto places = std::move(places_);
  const Held<Entries> first = std::move(first_);
  const auto lately = std::move(lately_);
  places_.clear();
  code_ = nullptr;
}

std::vector<std::pair<Place, Held<Compilation>>> Capture::entries() const {
  std::vector<std::pair<Place, Held<Compilation>>> all;
  for (const auto& [place, entries] : places_) {
    for (const Held<Compilation>& entry : entries->list) all.emplace_back(place, entry);
    if (entries->several) all.emplace_back(place, entries->several);
  }
  return all;
}

bool Capture::is_idle() const {
  const auto makes_arrays = [](const Held<Compilation>& entry) { return entry->array_nodes > 0; };
  return given_up_ || std::none_of(places_.begin(), places_.end(), [&](const auto& place) {
    const Held<Entries>& entries = place.second;
    return std::any_of(entries->list.begin(), entries->list.end(), makes_arrays) || (entries->several && makes_arrays(entries->several));
  });
}

std::vector<LimitNote> Capture::limits() const {
  std::vector<Held<Entries>> full;
  for (const auto& [place, entries] : places_) {
    if (entries->refused && !entries->list.empty()) full.push_back(entries);
  }
  std::vector<LimitNote> notes;
  for (const Held<Entries>& entries : full) notes.push_back(limit_note(*entries));
  return notes;
}

int Capture::traverse(visitproc visit, void* arg) const {
  Py_VISIT(function_.get());
  Py_VISIT(settings_.custom.get());
  for (const auto& [place, entries] : places_) {
    const auto here = std::count_if(lately_.begin(), lately_.end(), [&](const Held<Entries>& other) { return other.get() == entries.get(); });
    if (entries->holders() > 1 + static_cast<uint32_t>(here) + (entries.get() == first_.get())) continue;
    for (const Held<Compilation>& entry : entries->list) {
      if (entry->holders() > 1) continue;
      if (const int stop = entry->traverse(visit, arg)) return stop;
    }
    if (!entries->several || entries->several->holders() > 1) continue;
    if (const int stop = entries->several->traverse(visit, arg)) return stop;
  }
  return 0;
}

}  // namespace evalframe::runtime
