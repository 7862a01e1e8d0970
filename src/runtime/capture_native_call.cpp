// Calls of a captured function that are native from their start: when the code for them is made, and what comes of one.
#include <algorithm>
#include <stdexcept>

#include "cpython/codec.h"
#include "cpython/variables.h"
#include "frontends/numpy/calls.h"
#include "runtime/capture.h"
#include "runtime/recursion_level.h"
#include "runtime/verify.h"

namespace evalframe::runtime {

using regions::Region, regions::State, regions::Type;

namespace {

// A loop has been entered so often before what stands around it is made native, too, which takes some milliseconds; so often, at most.
constexpr uint64_t kFewEntries = 32;
constexpr uint32_t kMostTries = 4;
// Calls from one look at that to the next, and calls in a row with other arguments after which it is made for those.
constexpr uint32_t kFewCalls = 16, kManyMisses = 64;
// Calls in a row that have left it before any turn of a loop, behind which it isn't tried any more: the loop by itself is better.
constexpr uint32_t kManyInVain = 32;

// Where a loop over a range or an array begins: makes its iterator, which runs no code of the program's. True: the next instruction is to be run.
bool begin_iteration(const bytecode::Code& code, int32_t instruction, std::vector<Ref>& slots) {
  if (code.instructions[static_cast<size_t>(instruction)].op != bytecode::Op::GET_ITER || slots.empty()) return false;
  PyObject* const over = slots.back().get();
  if (!over || !(PyRange_Check(over) || PyList_CheckExact(over) || PyTuple_CheckExact(over) || numpy::is_exact_array(over))) return false;
  Ref iterator = Ref::steal(PyObject_GetIter(over));
  if (!iterator) return PyErr_Clear(), false;
  slots.back() = std::move(iterator);
  return true;
}

}  // namespace

bool Capture::may_call_natively() const { return !regions_.empty() && leave_before < 0 && !Measure::what && backend_has_regions() && !Verification::is_on(); }

void Capture::look_at_native_call(int32_t instruction, std::span<PyObject* const> slots) {
  const Held<NativeCall> call = native_call_;
  if (call) return extend_native_call(call);
  const bool at_once = RegionTrial::at_once();
  if (native_tries_ >= kMostTries || (++native_waits_ % kFewCalls && !at_once)) return;
  const bool is_entered = std::any_of(regions_.begin(), regions_.end(), [&](const Held<LoopRegion>& region) { return region->is_final() && (region->entered >= kFewEntries || at_once); });
  if (is_entered) begin_native_call(instruction, slots);
}

Held<LoopRegion> Capture::lead_from(const State& state, const std::vector<Ref>& objects, const std::vector<Type>& items) {
  const bytecode::Code* const code = cpython::decoded(code_);
  if (!code) return PyErr_Clear(), Held<LoopRegion>();
  const auto recordings = [&](int32_t instruction, int32_t depth) { return recordings_at(code_, instruction, depth); };
  try {
    const Stopwatch watch;
    Region region = regions::make_region(*code, state, {}, objects, items, recordings, {settings_.exact, settings_.fastmath}, true, {state.instruction, state.instruction, true});
    if (region.entries.empty()) return {};
    const Held<LoopRegion> lead(new LoopRegion(std::move(region), *code));
    if (!lead->is_final()) lead->optimise();
    counters_.compile_seconds += watch.seconds();
    return lead;
  } catch (const std::runtime_error&) {
    return PyErr_Clear(), Held<LoopRegion>();
  }
}

// Nothing comes of it where they aren't to begin there.
void Capture::begin_native_call(int32_t instruction, std::span<PyObject* const> slots) {
  const auto* const code = reinterpret_cast<PyCodeObject*>(code_);
  State state{instruction, {}};
  std::vector<Ref> objects;
  std::vector<PyObject*> seen;
  std::vector<Type> items;
  for (size_t i = 0; i < slots.size(); i++) {
    PyObject* const object = slots[i];
    state.types.push_back(i < static_cast<size_t>(code->co_nlocalsplus) ? regions::type_in_variable(object) : regions::type_of(object));
    Type& type = state.types.back();
    if (type.kind != Type::Kind::kObject) continue;
    const auto known = std::find(seen.begin(), seen.end(), object);
    type.object = static_cast<int32_t>(known - seen.begin());
    if (known != seen.end()) continue;
    seen.push_back(object);
    objects.push_back(object == Py_None ? Ref::borrow(Py_None) : Ref());
    items.push_back(regions::type_of_items(object));
  }
  PyObject* const of = code_;
  const Held<LoopRegion> start = lead_from(state, objects, items);
  if (!start && instruction == 0) begins_with_graph_ = true;
  if (!start && instruction != 0) native_tries_++;
  if (start && code_ == of && !regions_.empty()) native_call_ = Held<NativeCall>(new NativeCall(start->code(), start));
}

// Behind an end that calls come to.
void Capture::extend_native_call(const Held<NativeCall>& call) {
  const std::optional<NativeCall::End> end = call->take_end();
  if (!end) return;
  for (const Held<LoopRegion>& region : regions_) {
    const std::optional<int> entry = call->entry_of(*end, *region);
    if (!entry) continue;
    if (!region->is_final()) call->ask_again(*end);
    else if (!region->region().names.count()) call->link(*end, region.get(), *entry);
    return;
  }
  if (call->link_to_known(*end)) return;
  std::vector<Ref> objects;
  for (const Ref& object : call->region_of(*end).objects) objects.push_back(Ref::borrow(object.get()));
  std::vector<Type> items(objects.size(), Type{Type::Kind::kObject});
  Held<LoopRegion> lead = lead_from(call->state_at(*end), objects, items);
  if (lead && native_call_.get() == call.get()) call->link(*end, std::move(lead));
}

Ref Capture::call_natively(PyThreadState* thread, PyObject* const* parameters, bool& ran) {
  if (begins_with_graph_) return Ref();
  const auto* const code = reinterpret_cast<PyCodeObject*>(code_);
  Few<PyObject*, 32> slots(static_cast<size_t>(code->co_nlocalsplus));
  const std::span<PyObject* const> given = bound(parameters);
  std::fill(std::copy(given.begin(), given.end(), slots.begin()), slots.end(), nullptr);
  look_at_native_call(0, {slots.data(), slots.size()});
  const Held<NativeCall> call = native_call_;
  if (!call || call->instruction() != 0) return Ref();
  const RecursionLevel level(thread);
  if (!level) return ran = true, Ref();
  Chain chain(thread);
  NativeCall::Left left = call->run(thread, function_.get(), slots.data(), chain);
  ran = left.entered;
  count_entry(ran);
  if (!ran || left.failed) return Ref();
  count(&Counters::hits);
  return end_natively(thread, chain, std::move(left));
}

// Arguments of other types may come from now on.
void Capture::count_entry(bool entered) {
  native_misses_ = entered ? 0 : native_misses_ + 1;
  if (native_misses_ <= kManyMisses) return;
  const Held<NativeCall> call = std::move(native_call_);
  native_misses_ = 0;
  begins_with_graph_ = false;
  native_tries_++;
}

Ref Capture::end_natively(PyThreadState* thread, Chain& chain, NativeCall::Left left) {
  counters_.native_turns += static_cast<uint64_t>(left.turns);
  if (left.result) {
    native_in_vain_ = 0;
    count(&Counters::native_calls);
    return std::move(left.result);
  }
  worth_.nodes += static_cast<uint64_t>(left.turns) + 1;
  native_in_vain_ = left.turns ? 0 : native_in_vain_ + 1;
  if (native_in_vain_ > kManyInVain) {
    const Held<NativeCall> call = std::move(native_call_);
    native_in_vain_ = 0;
    native_tries_ = kMostTries;
  }
  Ref result;
  if (left.steps) {
    count(&Counters::exits);
    const Ended ended = chain.step(result);
    if (ended != Ended::kRunning) return result;
  }
  return finish(thread, chain);
}

bool Capture::may_go_on_natively(const recorder::Recording& recording, const backends::Outcome& outcome) const {
  if (!begins_with_graph_ || recording.returns || !is_at_end(recording, outcome) || !may_call_natively()) return false;
  const bool is_plain = recording.names.empty() && !recording.handles && !recording.keeps_ended && !recording.needs_frames && recording.iterator < 0;
  if (!is_plain || recording.start.size() != 1) return false;
  const Held<recorder::Landing> landing = recording.landing_at(outcome.node);
  if (landing->states.size() != 1) return false;
  const recorder::FrameState& state = landing->states[0];
  return state.identity == recording.start[0].identity && state.generator < 0 && !state.names && !state.globals;
}

Ref Capture::go_on_natively(PyThreadState* thread, const recorder::Recording& recording, backends::Outcome& outcome, guards::Objects& objects) {
  const Held<recorder::Landing> landing = recording.landing_at(outcome.node);
  const recorder::FrameState& state = landing->states[0];
  std::vector<Ref> slots(state.slots.size());
  {
    recorder::Rebuild rebuild(recording, landing->exit, outcome.values, objects.data());
    for (size_t i = 0; i < slots.size(); i++) {
      slots[i] = rebuild.make(state.slots[i]);
      if (!slots[i] && PyErr_Occurred()) return Ref();
    }
  }
  outcome.values.clear();
  objects.clear();
  Chain chain(thread);
  const bool begun = begin_iteration(*state.code, state.next, slots);
  const int32_t next = state.next + begun;
  look_at_native_call(next, {pointers(slots.data()), slots.size()});
  const Held<NativeCall> call = native_call_;
  if (call && call->instruction() == next && call->count() == slots.size()) {
    NativeCall::Left left = call->run(thread, function_.get(), pointers(slots.data()), chain);
    count_entry(left.entered);
    if (left.failed) return Ref();
    if (left.entered) return end_natively(thread, chain, std::move(left));
  }
  if (!chain.push(function_.get(), *state.code, std::move(slots), next)) return Ref();
  count(&Counters::exits);
  Ref result;
  // The loop's head, at which it may be entered yet, isn't to be run through with what stood in front of it.
  return begun || chain.step(result) == Ended::kRunning ? finish(thread, chain) : std::move(result);
}

}  // namespace evalframe::runtime
