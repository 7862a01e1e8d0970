// Runs one node by doing what the program did: the call, operator or subscript that its form names.
#include "backends/node_call.h"

#include "bytecode/operators.h"
#include "core/few.h"
#include "frontends/numpy/calls.h"
#include "frontends/numpy/numpy_api.h"
#include "frontends/torch/tensors.h"

namespace evalframe::backends {

using graph::Form, graph::Graph, graph::Kind, graph::Meta, graph::Node;

namespace {

PyObject* call(const Graph& graph, const Node& node, PyObject* const* operands) {
  PyObject* const callable = graph.constants[node.callable].get();
  PyObject* const names = node.keywords ? graph.constants[node.keyword_names].get() : nullptr;
  // One slot in front, so that a bound method can put its self there.
  Few<PyObject*, 8> arguments(node.count + 1);
  std::copy(operands, operands + node.count, arguments.begin() + 1);
  const size_t positional = (node.count - node.keywords) | PY_VECTORCALL_ARGUMENTS_OFFSET;
  return PyObject_Vectorcall(callable, arguments.data() + 1, positional, names);
}

PyObject* set_item(PyObject* const* operands) {
  if (PyObject_SetItem(operands[0], operands[1], operands[2]) < 0) return nullptr;
  return Ref::borrow(Py_None).release();
}

PyObject* truth(PyObject* operand) {
  const int value = PyObject_IsTrue(operand);
  return value < 0 ? nullptr : PyBool_FromLong(value);
}

template <class Make, class Set>
PyObject* pack(const Node& node, PyObject* const* operands, Make make, Set set) {
  Ref made = Ref::steal(make(node.count));
  if (!made) return nullptr;
  for (uint32_t i = 0; i < node.count; i++) set(made.get(), i, Ref::borrow(operands[i]).release());
  return made.release();
}

PyObject* iterator_at(PyObject* iterable, int position) {
  Ref iterator = Ref::steal(PyObject_GetIter(iterable));
  if (!iterator) return nullptr;
  for (int i = 0; i < position; i++) {
    const Ref item = Ref::steal(PyIter_Next(iterator.get()));
    if (!item && PyErr_Occurred()) return nullptr;
  }
  return iterator.release();
}

PyObject* check(PyObject* value, PyObject* expected) {
  if (Py_TYPE(value) != Py_TYPE(expected)) return Ref::borrow(Py_False).release();
  const int equal = PyObject_RichCompareBool(value, expected, Py_EQ);
  return equal < 0 ? nullptr : PyBool_FromLong(equal);
}

PyObject* run(const Graph& graph, const Node& node, PyObject* const* operands) {
  switch (node.form) {
    case Form::kCall: return call(graph, node, operands);
    case Form::kBinary: return bytecode::kBinaryFunctions[node.code](operands[0], operands[1]);
    case Form::kUnary: return bytecode::kUnaryFunctions[node.code](operands[0]);
    case Form::kCompare: return PyObject_RichCompare(operands[0], operands[1], node.code);
    case Form::kGetItem: return PyObject_GetItem(operands[0], operands[1]);
    case Form::kSetItem: return set_item(operands);
    case Form::kGetAttr: return PyObject_GetAttr(operands[0], graph.constants[node.callable].get());
    case Form::kTruth: return truth(operands[0]);
    case Form::kTuple:
      return pack(node, operands, PyTuple_New, [](PyObject* t, Py_ssize_t i, PyObject* item) { PyTuple_SET_ITEM(t, i, item); });
    case Form::kList:
      return pack(node, operands, PyList_New, [](PyObject* l, Py_ssize_t i, PyObject* item) { PyList_SET_ITEM(l, i, item); });
    case Form::kSlice: return PySlice_New(operands[0], operands[1], operands[2]);
    case Form::kIterator: return iterator_at(operands[0], node.code);
    case Form::kCheck: return check(operands[0], operands[1]);
    case Form::kCheckMeta: return PyBool_FromLong(matches(node.meta, operands[0]));
  }
  return nullptr;
}

}  // namespace

Ref call_node(const Graph& graph, const Node& node, PyObject* const* operands) {
  return Ref::steal(run(graph, node, operands));
}

bool check_holds(const Graph& graph, const Node& node, PyObject* const* operands) {
  const Ref answer = call_node(graph, node, operands);
  if (!answer) PyErr_Clear();
  return answer.get() == Py_True;
}

bool matches(const Meta& meta, PyObject* object) {
  switch (meta.kind) {
    case Kind::kArray: {
      if (!PyArray_CheckExact(object)) return false;
      PyArrayObject* const array = numpy::as_array(object);
      if (PyArray_NDIM(array) != meta.rank) return false;
      const bool known = meta.dtype != graph::DType::kNone;
      return !known || (PyArray_TYPE(array) == numpy::type_number(meta.dtype) && PyArray_ISNOTSWAPPED(array));
    }
    case Kind::kNumpyScalar: {
      if (!PyArray_CheckScalar(object)) return false;
      if (meta.dtype == graph::DType::kNone) return true;
      const Ref descr = numpy::dtype_object(meta.dtype);
      return descr && descr.as<PyArray_Descr>()->typeobj == Py_TYPE(object);
    }
    case Kind::kInt: return PyLong_CheckExact(object);
    case Kind::kFloat: return PyFloat_CheckExact(object);
    case Kind::kBool: return PyBool_Check(object);
    case Kind::kComplex: return PyComplex_CheckExact(object);
    case Kind::kNone: return object == Py_None;
    case Kind::kObject: return true;
    case Kind::kTensor: return torch::is_tensor(object);
  }
  return false;
}

}  // namespace evalframe::backends
