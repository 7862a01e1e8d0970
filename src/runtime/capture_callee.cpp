// Loops of calls that were followed: the call goes on as one of its own function's, whose loops become native code as those of a
// captured function do.
#include <algorithm>

#include "cpython/codec.h"
#include "runtime/capture_run.h"
#include "runtime/recursion_level.h"

namespace evalframe::runtime {

namespace {

// Times that a followed call has to stand in a loop of its own: less is served together with what is around the call.
constexpr int kFewTurns = 16;
// Functions that have captures here. Those of one code with the same globals have one, so that functions that are made anew at each call do, too.
constexpr size_t kMostCallees = 64;

}  // namespace

bool Capture::hands_over(const Run& run, Entries& entries) const {
  const bool native = settings_.backend == "native" && !settings_.custom && !settings_.fullgraph;
  if (run.chain.size() == 1 || entries.loop_first < 0 || leave_before >= 0 || !native) return false;
  return entries.turns_in_callee >= kFewTurns || ++entries.turns_in_callee >= kFewTurns;
}

std::shared_ptr<Capture> Capture::callee_of(cpython::Frame* frame) {
  Capture& root = root_ ? *root_ : *this;
  const Callee callee{cpython::code_of(frame).get(), cpython::globals_of(frame).get(), cpython::builtins_of(frame).get()};
  const auto found = root.callees_.find(callee);
  if (found != root.callees_.end()) return found->second;
  if (root.callees_.size() >= kMostCallees) return nullptr;
  // It isn't called, and holds nothing of a closure or of defaults, which may go before it.
  const Ref function = Ref::steal(PyFunction_New(callee.code, callee.globals));
  if (!function) return PyErr_Clear(), nullptr;
  auto made = std::make_shared<Capture>(function.get(), settings_.copy());
  made->root_ = &root;
  return root.callees_.emplace(callee, std::move(made)).first->second;
}

// The call of the innermost frame, which is its function's from here on. `handed`: it was.
Ended Capture::hand_over(Run& run, bool& handed) {
  const std::shared_ptr<Capture> callee = run.chain.ends_in_call() ? callee_of(run.chain.frames().back()) : nullptr;
  handed = callee != nullptr;
  if (!handed) return Ended::kRunning;
  // What a call takes whose loops become native, or may yet, says nothing of later ones.
  const bool takes_part = run.trial.takes_calls() && callee->is_at_rest();
  const uint64_t turns = callee->counters_.native_turns, served = callee->counters_.served, recordings = callee->counters_.recordings;
  const Ended ended = run.chain.finish_call([&](cpython::Frame* frame) { return callee->finish_call(run.thread, frame); }, run.result);
  const bool may_be_native = !callee->regions_.empty() && callee->counters_.native_turns == turns;
  if (!takes_part || may_be_native || recordings != callee->counters_.recordings) run.trial.stop();
  run.worth.nodes += callee->counters_.native_turns - turns + callee->counters_.served - served + 1;
  return ended;
}

Ref Capture::finish_call(PyThreadState* thread, cpython::Frame* frame) {
  const RecursionLevel level(thread);
  if (!level) return cpython::pop_frame(thread, frame), Ref();
  Chain chain(thread);
  chain.take_up(frame);
  return given_up_ ? chain.finish_in_cpython(false) : finish(thread, chain);
}

bool Capture::is_at_rest() const {
  const bool waits = std::any_of(waiting_loops_.begin(), waiting_loops_.end(), [](const LoopNote& note) { return note.wait_seconds > 0; });
  const bool is_known = !regions_.empty() || !waiting_loops_.empty();
  return is_known && !making_ && !waits && std::all_of(regions_.begin(), regions_.end(), [](const Held<LoopRegion>& region) { return region->is_final(); });
}

std::vector<const Capture*> Capture::with_callees() const {
  std::vector<const Capture*> all{this};
  for (const auto& [callee, capture] : callees_) all.push_back(capture.get());
  return all;
}

Counters Capture::counters_with_callees() const {
  Counters sum;
  for (const Capture* part : with_callees()) sum += part->counters_;
  return sum;
}

}  // namespace evalframe::runtime
