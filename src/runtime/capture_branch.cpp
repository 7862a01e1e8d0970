// Goes on behind a branch on what a graph has computed: where no code of the program's runs to tell the side, what was recorded of that side is
// served from what the graph has left, and there is no frame in between.
#include <optional>

#include "cpython/frame.h"
#include "frontends/numpy/calls.h"
#include "frontends/torch/tensors.h"
#include "runtime/capture.h"
#include "runtime/measure.h"
#include "runtime/replay.h"
#include "runtime/verify.h"

namespace evalframe::runtime {

namespace {

// None: it has to be asked, which may run code, fail or warn.
std::optional<bool> truth_at_hand(PyObject* object) {
  if (object == Py_True || object == numpy::truth_scalar(true).get()) return true;
  if (object == Py_False || object == numpy::truth_scalar(false).get()) return false;
  return torch::truth_at_hand(object);
}

// The slots that the frame would have on each side of the branch, borrowed.
class LeftSlots {
 public:
  // False: something is missing.
  bool fill(const recorder::Recording& recording, const recorder::Landing& landing, std::span<const Ref> values, PyObject* const* sources) {
    slots_.resize(landing.states[0].slots.size());
    std::ranges::fill(slots_, nullptr);
    for (const recorder::Landing::Move& move : *landing.fills) {
      PyObject* const object = moved(move, recording, values, sources);
      if (!object && move.from != recorder::Landing::Move::From::kNowhere) return false;
      slots_[static_cast<size_t>(move.slot)] = object;
    }
    return true;
  }
  PyObject* tested() const { return slots_[slots_.size() - 1]; }
  // Without what was tested.
  int depth() const { return static_cast<int>(slots_.size()) - 1; }
  PyObject* const* data() const { return slots_.data(); }

 private:
  Few<PyObject*, 32> slots_;
};

}  // namespace

// The recordings of a place with that frame alone, if a chain stood there lately.
Held<Entries> Capture::met_lately(const bytecode::Code& code, int32_t next, int depth) const {
  const Held<Entries>& lately = lately_[lately_index(code.instructions[static_cast<size_t>(next)].offset)];
  const bool is_there = lately && lately->place.frames.size() == 1 && lately->place.frames[0] == Place::Frame{code.code.get(), next, depth};
  return is_there ? lately : Held<Entries>();
}

// Whether nothing but what was recorded can be asked for on the way to the other side of a branch.
bool Capture::may_go_on_frameless(PyThreadState* thread) const {
  return leave_before < 0 && !Measure::what && !Verification::is_on() && worth_.pays && !cpython::is_traced(thread) && !cpython::breaker_is_set(thread) &&
         !cpython::c_stack_is_low();
}

// `left`: what was run from the function's start, or from behind a branch. False: nothing was done.
bool Capture::go_on_behind_branch(PyThreadState* thread, const Left& left, Ref& result) {
  const recorder::Recording& recording = *left.compilation.recording;
  if (recording.returns || !is_at_end(recording, left.outcome) || !may_go_on_frameless(thread)) return false;
  const Held<recorder::Landing> landing = recording.landing_at(left.outcome.node);
  LeftSlots slots;
  if (!landing->branch || !slots.fill(recording, *landing, left.outcome.values, left.objects.data())) return false;
  const std::optional<bool> truth = truth_at_hand(slots.tested());
  if (!truth) return false;
  const Held<Entries> entries = met_lately(*landing->states[0].code, *truth ? landing->branch->if_true : landing->branch->if_false, slots.depth());
  if (!entries || entries->loop_first >= 0) return false;
  PyObject* const* const frames[] = {slots.data()};
  Held<Compilation> side;  // held until the objects are gone
  guards::Objects objects;
  side = match(*entries, frames, objects);
  if (!side || side->recording->needs_frames) return false;
  if (!settings_.everything) worth_.count_exit();
  worth_.nodes += side->array_nodes;
  count(&Counters::exits);
  result = run(thread, *side, objects, &left);
  return true;
}

}  // namespace evalframe::runtime
