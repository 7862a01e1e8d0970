#include "runtime/compiled_graph.h"

#include "cpython/objects.h"
#include "graph/leave.h"
#include "runtime/capture.h"
#include "runtime/replay.h"

namespace evalframe::runtime {

bool CompiledGraph::accepts(const std::vector<Borrowed>& inputs) const {
  const graph::Graph& graph = compilation_->recording->graph;
  if (inputs.size() != graph.inputs.size()) {
    PyErr_Format(PyExc_TypeError, "%s takes the %zu inputs of its graph, not %zu", name_.c_str(), graph.inputs.size(), inputs.size());
    return false;
  }
  std::vector<int64_t> sizes;
  bool fits = true;
  for (size_t i = 0; i < inputs.size(); i++) {
    const graph::Meta found = graph::meta_of(inputs[i], sizes), &wanted = graph.inputs[i].meta;
    fits = fits && found.kind == wanted.kind && found.dtype == wanted.dtype && found.rank == wanted.rank && found.writeable == wanted.writeable;
  }
  if (fits) return true;
  PyErr_Format(PyExc_ValueError, "%s was made for other inputs; check `accepts` of its entry before its code is run", name_.c_str());
  return false;
}

Ref CompiledGraph::call(const std::vector<Borrowed>& inputs, LeftState& left) const {
  left.node = -1;
  if (!accepts(inputs)) return Ref();
  const recorder::Recording& recording = *compilation_->recording;
  std::vector<PyObject*> objects;
  for (const Borrowed& input : inputs) objects.push_back(input.get());
  backends::Outcome outcome;
  {
    ReplayPosition position(PyThreadState_Get(), recording, compilation_->frames);
    outcome = compilation_->executable->run(objects.data(), position, Capture::leave_before);
    if (outcome.raised && graph::was_asked_to_leave()) outcome.raised = false;
  }
  const bool at_end = outcome.node == static_cast<int32_t>(recording.graph.nodes.size());
  if (outcome.raised || !at_end) {
    left = {outcome.node, std::move(outcome.values), outcome.raised ? cpython::take_raised() : Ref()};
    return Ref();
  }
  Ref tuple = Ref::steal(PyTuple_New(static_cast<Py_ssize_t>(outcome.values.size())));
  for (size_t i = 0; tuple && i < outcome.values.size(); i++) PyTuple_SET_ITEM(tuple.get(), i, outcome.values[i].release());
  return tuple;
}

Ref finish_left(const Compilation& compilation, const LeftState& left, const std::vector<int32_t>& sources, const std::vector<Borrowed>& objects) {
  std::vector<PyObject*> all(compilation.recording->guards.sources.size());
  for (size_t i = 0; i < sources.size(); i++) all[sources[i]] = objects[i].get();
  Chain chain(PyThreadState_Get());
  if (!take_exit(chain, *compilation.recording, left.node, left.values, all.data())) {
    if (!PyErr_Occurred()) PyErr_NoMemory();
    return Ref();
  }
  if (!left.exception) return chain.finish_in_cpython(false);
  cpython::set_raised(Ref::borrow(left.exception.get()));
  return chain.throw_here();
}

bool accepts(const Compilation& compilation, const std::vector<PyObject*>& slots) {
  const recorder::Recording& recording = *compilation.recording;
  if (recording.start.size() != 1 || recording.initial[0].size() != slots.size()) return false;
  for (size_t i = 0; i < slots.size(); i++) {
    if ((recording.initial[0][i] != 0) != (slots[i] != nullptr)) return false;
  }
  PyObject* const* frames[] = {slots.data()};
  guards::Objects objects;
  return compilation.guards.check(frames, objects, nullptr);
}

}  // namespace evalframe::runtime
