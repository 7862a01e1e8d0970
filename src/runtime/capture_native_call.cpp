// Calls of a captured function that are native from their start: when the code for them is made, and what comes of one.
#include <algorithm>
#include <stdexcept>

#include "core/log.h"
#include "cpython/codec.h"
#include "cpython/variables.h"
#include "runtime/capture.h"
#include "runtime/log_compilation.h"
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

// Cells are made, or filled, by the first instructions.
bool has_cells(const PyCodeObject* code) { return code->co_nlocalsplus != code->co_nlocals; }

}  // namespace

bool Capture::may_call_natively() const { return !regions_.empty() && leave_before < 0 && !Measure::what && backend_has_regions() && !Verification::is_on(); }

void Capture::look_at_native_call(PyObject* const* parameters) {
  const Held<NativeCall> call = native_call_;
  if (call) return extend_native_call(call);
  const bool at_once = RegionTrial::at_once();
  if (native_tries_ >= kMostTries || (++native_waits_ % kFewCalls && !at_once)) return;
  const bool is_entered = std::any_of(regions_.begin(), regions_.end(), [&](const Held<LoopRegion>& region) { return region->is_final() && (region->entered >= kFewEntries || at_once); });
  if (is_entered) begin_native_call(parameters);
}

Held<LoopRegion> Capture::lead_from(const State& state, std::vector<Ref> objects, std::vector<Type> items) {
  const bytecode::Code* const code = cpython::decoded(code_);
  if (!code) return PyErr_Clear(), Held<LoopRegion>();
  const auto recordings = [&](int32_t instruction, int32_t depth) { return recordings_at(code_, instruction, depth); };
  try {
    const Stopwatch watch;
    Region region = regions::make_region(*code, state, {}, std::move(objects), std::move(items), recordings, {settings_.exact, settings_.fastmath}, {state.instruction, state.instruction, true});
    if (region.entries.empty()) {
      if (log::is_on(log::Channel::regions)) log_no_region(*code, state, region.obstacles);
      return {};
    }
    const Held<LoopRegion> lead(new LoopRegion(std::move(region), *code));
    if (!lead->is_final()) lead->optimise();
    counters_.compile_seconds += watch.seconds();
    return lead;
  } catch (const std::runtime_error&) {
    return PyErr_Clear(), Held<LoopRegion>();
  }
}

void Capture::begin_native_call(PyObject* const* parameters) {
  native_tries_++;
  const auto* const code = reinterpret_cast<PyCodeObject*>(code_);
  if (has_cells(code)) return;
  State state{0, std::vector<Type>(static_cast<size_t>(code->co_nlocalsplus))};
  std::vector<Ref> objects;
  std::vector<PyObject*> seen;
  std::vector<Type> items;
  for (size_t i = 0; i < bound(parameters).size(); i++) {
    Type& type = state.types[i] = regions::type_in_variable(parameters[i]);
    if (type.kind != Type::Kind::kObject) continue;
    const auto known = std::find(seen.begin(), seen.end(), parameters[i]);
    type.object = static_cast<int32_t>(known - seen.begin());
    if (known != seen.end()) continue;
    seen.push_back(parameters[i]);
    objects.push_back(parameters[i] == Py_None ? Ref::borrow(Py_None) : Ref());
    items.push_back(regions::type_of_items(parameters[i]));
  }
  PyObject* const of = code_;
  const Held<LoopRegion> start = lead_from(state, std::move(objects), std::move(items));
  if (start && code_ == of && !regions_.empty()) native_call_ = Held<NativeCall>(new NativeCall(start->code(), start));
}

// Behind an end that calls come to.
void Capture::extend_native_call(const Held<NativeCall>& call) {
  const std::optional<NativeCall::End> end = call->take_end();
  if (!end) return;
  for (const Held<LoopRegion>& region : regions_) {
    if (call->link(*end, region.get())) return;
  }
  std::vector<Ref> objects;
  for (const Ref& object : call->region_of(*end).objects) objects.push_back(Ref::borrow(object.get()));
  std::vector<Type> items(objects.size(), Type{Type::Kind::kObject});
  Held<LoopRegion> lead = lead_from(call->state_at(*end), std::move(objects), std::move(items));
  if (lead && native_call_.get() == call.get()) call->link(*end, std::move(lead));
}

Ref Capture::call_natively(PyThreadState* thread, PyObject* const* parameters, bool& ran) {
  look_at_native_call(parameters);
  const Held<NativeCall> call = native_call_;
  if (!call) return Ref();
  const RecursionLevel level(thread);
  if (!level) return ran = true, Ref();
  Chain chain(thread);
  NativeCall::Left left = call->run(thread, function_.get(), parameters, chain);
  ran = left.entered;
  native_misses_ = ran ? 0 : native_misses_ + 1;
  if (!ran && native_misses_ > kManyMisses) native_call_ = Held<NativeCall>(), native_misses_ = 0;
  if (!ran || left.failed) return Ref();
  count(&Counters::hits);
  counters_.native_turns += static_cast<uint64_t>(left.turns);
  if (!left.result) return go_on_behind_native(thread, chain, std::move(left));
  count(&Counters::native_calls);
  return std::move(left.result);
}

Ref Capture::go_on_behind_native(PyThreadState* thread, Chain& chain, NativeCall::Left left) {
  worth_.nodes += static_cast<uint64_t>(left.turns) + 1;
  Ref result;
  if (left.steps) {
    count(&Counters::exits);
    const Ended ended = chain.step(result);
    if (ended != Ended::kRunning) return result;
  }
  return finish(thread, chain);
}

}  // namespace evalframe::runtime
