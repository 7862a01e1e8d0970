// Runs graphs through the recorded calls.
#include "backends/reference.h"

#include "core/check.h"

namespace evalframe::backends {

using graph::Form;
using graph::Graph;
using graph::Node;
using graph::Operand;

namespace {

using BinaryFunction = PyObject* (*)(PyObject*, PyObject*);
PyObject* power(PyObject* a, PyObject* b) { return PyNumber_Power(a, b, Py_None); }
PyObject* inplace_power(PyObject* a, PyObject* b) { return PyNumber_InPlacePower(a, b, Py_None); }

// By the number that BINARY_OP carries (NB_ADD ... NB_INPLACE_XOR), the same on 3.11-3.13.
constexpr BinaryFunction kBinary[] = {
    PyNumber_Add, PyNumber_And, PyNumber_FloorDivide, PyNumber_Lshift, PyNumber_MatrixMultiply, PyNumber_Multiply,
    PyNumber_Remainder, PyNumber_Or, power, PyNumber_Rshift, PyNumber_Subtract, PyNumber_TrueDivide, PyNumber_Xor,
    PyNumber_InPlaceAdd, PyNumber_InPlaceAnd, PyNumber_InPlaceFloorDivide, PyNumber_InPlaceLshift,
    PyNumber_InPlaceMatrixMultiply, PyNumber_InPlaceMultiply, PyNumber_InPlaceRemainder, PyNumber_InPlaceOr, inplace_power,
    PyNumber_InPlaceRshift, PyNumber_InPlaceSubtract, PyNumber_InPlaceTrueDivide, PyNumber_InPlaceXor};
using UnaryFunction = PyObject* (*)(PyObject*);
constexpr UnaryFunction kUnary[] = {PyNumber_Negative, PyNumber_Positive, PyNumber_Invert};

PyObject* call(const Graph& graph, const Node& node, PyObject* const* operands) {
  PyObject* names = node.keyword_names >= 0 ? graph.constants[node.keyword_names].get() : nullptr;
  return PyObject_Vectorcall(graph.constants[node.callable].get(), operands, node.count - node.keywords, names);
}

template <class Fill>
PyObject* sequence(PyObject* made, const Node& node, PyObject* const* operands, Fill fill) {
  if (!made) return nullptr;
  for (uint32_t i = 0; i < node.count; i++) fill(made, i, Ref::borrow(operands[i]).release());
  return made;
}

PyObject* iterator(const Node& node, PyObject* iterable) {
  Ref result = Ref::steal(PyObject_GetIter(iterable));
  if (result && node.code) {
    Ref done = Ref::steal(PyObject_CallMethod(result.get(), "__setstate__", "i", static_cast<int>(node.code)));
    if (!done) return nullptr;
  }
  return result.release();
}

PyObject* set_item(PyObject* const* operands) {
  if (PyObject_SetItem(operands[0], operands[1], operands[2]) < 0) return nullptr;
  return Ref::borrow(Py_None).release();
}

PyObject* truth(PyObject* object) {
  const int result = PyObject_IsTrue(object);
  return result < 0 ? nullptr : PyBool_FromLong(result);
}

class Reference final : public Executable {
 public:
  Reference(const Graph& graph, ExitAt exit_at) : graph_(graph), exit_at_(std::move(exit_at)) { plan_drops(); }

  Outcome run(PyObject* const* inputs, Position& position, int32_t leave_before) override {
    std::vector<Ref> results(graph_.nodes.size());
    std::vector<PyObject*> operands;
    const auto count = static_cast<int32_t>(graph_.nodes.size());
    for (int32_t i = 0; i < count; i++) {
      const Node& node = graph_.nodes[i];
      if (i == leave_before) return leave(i, false, inputs, results);
      operands.resize(node.count);
      for (uint32_t k = 0; k < node.count; k++) operands[k] = object(graph_.operands_of(node)[k], inputs, results);
      if (node.form == Form::kCheck || node.form == Form::kCheckMeta) {
        if (!check_holds(graph_, node, operands.data())) return leave(i, false, inputs, results);
        results[i] = Ref::borrow(Py_None);
      } else {
        position.at(i);
        results[i] = Ref::steal(run_node(graph_, node, operands.data()));
        if (!results[i]) return leave(i, true, inputs, results);
      }
      for (int32_t dead : drops_[i]) results[dead].reset();
    }
    return leave(count, false, inputs, results);
  }

 private:
  PyObject* object(Operand operand, PyObject* const* inputs, const std::vector<Ref>& results) const {
    switch (operand.space) {
      case Operand::Space::kInput: return inputs[operand.index];
      case Operand::Space::kNode: return results[operand.index].get();
      case Operand::Space::kConstant: return graph_.constants[operand.index].get();
      case Operand::Space::kNone: return nullptr;
    }
    return nullptr;
  }

  Outcome leave(int32_t node, bool raised, PyObject* const* inputs, const std::vector<Ref>& results) const {
    Outcome outcome;
    outcome.node = node;
    outcome.raised = raised;
    for (Operand operand : exit_at_(node).values) outcome.values.push_back(Ref::borrow(object(operand, inputs, results)));
    return outcome;
  }

  // A result dies after the last node, or exit in front of a node, that needs it: as in the frame it came from.
  void plan_drops() {
    const auto count = static_cast<int32_t>(graph_.nodes.size());
    std::vector<int32_t> last(count);
    for (int32_t i = 0; i < count; i++) last[i] = i;
    auto use = [&](Operand operand, int32_t at) {
      if (operand.space == Operand::Space::kNode) last[operand.index] = std::max(last[operand.index], at);
    };
    for (int32_t i = 0; i <= count; i++) {
      if (i < count) {
        const Node& node = graph_.nodes[i];
        for (uint32_t k = 0; k < node.count; k++) use(graph_.operands_of(node)[k], i);
      }
      for (Operand operand : exit_at_(i).values) use(operand, i);
    }
    drops_.resize(count);
    for (int32_t i = 0; i < count; i++) {
      if (last[i] < count) drops_[last[i]].push_back(i);
    }
  }

  const Graph& graph_;
  ExitAt exit_at_;
  std::vector<std::vector<int32_t>> drops_;  // by node: results that are dead behind it
};

}  // namespace

PyObject* run_node(const Graph& graph, const Node& node, PyObject* const* operands) {
  switch (node.form) {
    case Form::kCall: return call(graph, node, operands);
    case Form::kBinary: return kBinary[node.code](operands[0], operands[1]);
    case Form::kUnary: return kUnary[node.code](operands[0]);
    case Form::kCompare: return PyObject_RichCompare(operands[0], operands[1], node.code);
    case Form::kGetItem: return PyObject_GetItem(operands[0], operands[1]);
    case Form::kSetItem: return set_item(operands);
    case Form::kGetAttr: return PyObject_GetAttr(operands[0], graph.constants[node.callable].get());
    case Form::kTruth: return truth(operands[0]);
    case Form::kTuple:
      return sequence(PyTuple_New(node.count), node, operands, [](PyObject* t, Py_ssize_t i, PyObject* o) { PyTuple_SET_ITEM(t, i, o); });
    case Form::kList:
      return sequence(PyList_New(node.count), node, operands, [](PyObject* t, Py_ssize_t i, PyObject* o) { PyList_SET_ITEM(t, i, o); });
    case Form::kSlice: return PySlice_New(operands[0], operands[1], operands[2]);
    case Form::kIterator: return iterator(node, operands[0]);
    case Form::kCheck:
    case Form::kCheckMeta: break;
  }
  CHECK(false);
}

bool check_holds(const Graph& graph, const Node& node, PyObject* const* operands) {
  if (node.form == Form::kCheckMeta) {
    std::vector<int64_t> sizes;
    const graph::Meta meta = graph::meta_of(operands[0], sizes);
    return meta.kind == node.meta.kind && meta.dtype == node.meta.dtype && meta.rank == node.meta.rank;
  }
  (void)graph;
  if (Py_TYPE(operands[0]) != Py_TYPE(operands[1])) return false;
  const int equal = PyObject_RichCompareBool(operands[0], operands[1], Py_EQ);
  if (equal < 0) PyErr_Clear();
  return equal > 0;
}

std::unique_ptr<Executable> make_reference(const Graph& graph, ExitAt exit_at) {
  return std::make_unique<Reference>(graph, std::move(exit_at));
}

}  // namespace evalframe::backends
