// Runs the graph of a recording, and brings the frames to where it was left.
#include "cpython/exceptions.h"
#include "cpython/objects.h"
#include "graph/leave.h"
#include "recorder/caches.h"
#include "runtime/capture.h"
#include "runtime/graph_inputs.h"
#include "runtime/pending_exception.h"
#include "runtime/replay.h"

namespace evalframe::runtime {

// The exception that is set was raised where the frames would have handled another one.
static void attach_to_handled(PyThreadState* thread, Borrowed outer) {
  const Ref handled = cpython::handled_exception(thread);
  Ref raised = cpython::take_raised();
  cpython::attach_context(raised.get(), outer, handled.get());
  cpython::set_raised(std::move(raised));
}

backends::Outcome Capture::run_nodes(PyThreadState* thread, Compilation& compilation, const guards::Objects& objects, const Chain& chain) {
  const recorder::Recording& recording = *compilation.recording;
  if (recording.graph.nodes.empty()) return {.node = 0};
  const Inputs inputs(recording, objects);
  ReplayPosition position(thread, recording, compilation.frames, &chain);
  backends::Outcome outcome = compilation.executable->run(inputs.data(), position, leave_before);
  if (outcome.raised && graph::was_asked_to_leave()) outcome.raised = false;
  return outcome;
}

// Runs the graph. kReturned: `result` is the call's. kRaised: the call raised. kRunning: the chain stands at the exit.
Ended Capture::run_graph(PyThreadState* thread, Compilation& compilation, guards::Objects& objects, Chain& chain, Ref& result) {
  return leave_graph(thread, compilation, run_nodes(thread, compilation, objects, chain), objects, chain, result);
}

Ended Capture::leave_graph(PyThreadState* thread, Compilation& compilation, backends::Outcome outcome, guards::Objects& objects, Chain& chain, Ref& result) {
  const recorder::Recording& recording = *compilation.recording;
  if (recording.returns && is_at_end(recording, outcome)) {
    result = make_result(recording, outcome.node, outcome.values, objects.data());
    chain.drop();
    return result ? Ended::kReturned : Ended::kRaised;
  }
  if (outcome.node != static_cast<int32_t>(recording.graph.nodes.size())) {
    compilation.left_early++;
    compilation.is_spent = compilation.is_spent || (!outcome.raised && recorder::expects_the_past(recording.graph, outcome.node));
    left_as_asked += outcome.node == leave_before;
  }
  bool made = false;
  const bool handles = outcome.raised && recording.handles_at(outcome.node);
  const Ref outer = handles ? cpython::handled_exception(thread) : Ref();
  {
    const PendingException pending;
    made = take_exit(chain, recording, outcome.node, outcome.values, objects.data());
    outcome.values.clear();
  }
  if (!made) {
    if (!PyErr_Occurred()) PyErr_NoMemory();
    return Ended::kRaised;
  }
  if (handles) attach_to_handled(thread, outer.get());
  if (outcome.raised) {
    objects.clear();
    result = chain.throw_here();
    return result ? Ended::kReturned : Ended::kRaised;
  }
  return Ended::kRunning;
}

}  // namespace evalframe::runtime
