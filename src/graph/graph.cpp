// Names, metadata of live objects, printing and verifying of graphs.
#include "graph/graph.h"

#include <iterator>
#include <stdexcept>

#include "bytecode/operators.h"
#include "core/object_text.h"
#include "frontends/numpy/calls.h"
#include "frontends/numpy/numpy_api.h"
#include "frontends/torch/tensors.h"

namespace evalframe::graph {

namespace {

struct DTypeRow {
  const char* name;
  int size;
  char kind;
};

constexpr DTypeRow kDTypes[] = {
#define EVALFRAME_DTYPE(name, number, size, kind, llvm) {#name, size, #kind[0]},
#include "graph/dtypes.def"
#undef EVALFRAME_DTYPE
    {"none", 0, 'O'},
};

const DTypeRow& row(DType dtype) { return kDTypes[static_cast<int>(dtype)]; }

Meta array_meta(PyArrayObject* array, std::vector<int64_t>& sizes) {
  Meta meta;
  meta.kind = Kind::kArray;
  meta.dtype = numpy::dtype_of(reinterpret_cast<PyObject*>(PyArray_DESCR(array)));
  meta.rank = static_cast<int8_t>(PyArray_NDIM(array));
  meta.writeable = PyArray_ISWRITEABLE(array);
  meta.shape = static_cast<uint32_t>(sizes.size());
  sizes.insert(sizes.end(), PyArray_DIMS(array), PyArray_DIMS(array) + meta.rank);
  sizes.insert(sizes.end(), PyArray_STRIDES(array), PyArray_STRIDES(array) + meta.rank);
  return meta;
}

Kind python_kind(PyObject* object) {
  if (PyLong_CheckExact(object)) return Kind::kInt;
  if (PyFloat_CheckExact(object)) return Kind::kFloat;
  if (PyBool_Check(object)) return Kind::kBool;
  if (PyComplex_CheckExact(object)) return Kind::kComplex;
  return object == Py_None ? Kind::kNone : Kind::kObject;
}

constexpr int kAny = -1;

struct FormRow {
  const char* name;
  int operands;
  int codes;
};

constexpr FormRow kForms[] = {
#define EVALFRAME_FORM(name, text, operands, codes) {text, operands, codes},
#include "graph/forms.def"
#undef EVALFRAME_FORM
};

const FormRow& row(Form form) { return kForms[static_cast<int>(form)]; }

std::string indexed(const char* prefix, int index) { return prefix + std::to_string(index); }

// Text of a constant without an address in it: what has a name is named, numbers and strings are written out.
std::string constant_text(PyObject* object) {
  const bool plain = object == Py_None || object == Py_Ellipsis || PyLong_CheckExact(object) || PyFloat_CheckExact(object) ||
                     PyBool_Check(object) || PyComplex_CheckExact(object) || PyUnicode_CheckExact(object) ||
                     PyTuple_CheckExact(object) || PySlice_Check(object);
  Ref text;
  if (plain) {
    text = Ref::steal(PyObject_Repr(object));
  } else {
    text = Ref::steal(PyObject_GetAttrString(object, "__name__"));
  }
  if (!text || !PyUnicode_Check(text.get())) {
    PyErr_Clear();
    return std::string("<") + Py_TYPE(object)->tp_name + ">";
  }
  return std::string(utf8(text.get()));
}

std::string operand_text(const Graph& graph, Operand operand) {
  switch (operand.space) {
    case Operand::Space::kNone: return "_";
    case Operand::Space::kInput: return indexed("i", operand.index);
    case Operand::Space::kNode: return indexed("n", operand.index);
    case Operand::Space::kConstant: return constant_text(graph.constants[operand.index].get());
  }
  return "?";
}

std::string meta_text(const Graph& graph, const Meta& meta) {
  switch (meta.kind) {
    case Kind::kArray:
    case Kind::kTensor: {
      std::string text = (meta.kind == Kind::kTensor ? "tensor " : "") + std::string(name(meta.dtype)) + "[";
      for (int i = 0; i < meta.rank; i++) text += (i ? ", " : "") + std::to_string(graph.sizes[meta.shape + i]);
      return text + "]";
    }
    case Kind::kNumpyScalar: return name(meta.dtype);
    case Kind::kInt: return "int";
    case Kind::kFloat: return "float";
    case Kind::kBool: return "bool";
    case Kind::kComplex: return "complex";
    case Kind::kNone: return "None";
    case Kind::kObject: return "object";
  }
  return "?";
}

std::string head_text(const Graph& graph, const Node& node) {
  std::string text = name(node.form);
  switch (node.form) {
    case Form::kBinary: return text + " " + bytecode::kBinarySymbols[node.code];
    case Form::kUnary: return text + " " + bytecode::kUnarySymbols[node.code];
    case Form::kCompare: return text + " " + bytecode::kCompareSymbols[node.code];
    case Form::kIterator: return text + " " + std::to_string(node.code);
    case Form::kCall:
    case Form::kGetAttr: return text + " " + constant_text(graph.constants[node.callable].get());
    case Form::kGetItem: case Form::kSetItem: case Form::kTruth: case Form::kTuple: case Form::kList: case Form::kSlice:
    case Form::kCheck: case Form::kCheckMeta: return text;
  }
  return text;
}

std::string node_text(const Graph& graph, const Node& node) {
  std::string text = head_text(graph, node) + "(";
  const Operand* operands = graph.operands_of(node);
  const uint32_t positional = node.count - node.keywords;
  for (uint32_t i = 0; i < node.count; i++) {
    if (i) text += ", ";
    if (i >= positional && node.keyword_names >= 0) {
      PyObject* names = graph.constants[node.keyword_names].get();
      text += std::string(utf8(PyTuple_GET_ITEM(names, i - positional))) + "=";
    }
    text += operand_text(graph, operands[i]);
  }
  return text + ")";
}

std::string operand_error(const Graph& graph, Operand operand, int32_t before) {
  auto outside = [&](size_t size) { return operand.index < 0 || static_cast<size_t>(operand.index) >= size; };
  switch (operand.space) {
    case Operand::Space::kNone: return "an operand is missing";
    case Operand::Space::kInput: return outside(graph.inputs.size()) ? indexed("no input ", operand.index) : "";
    case Operand::Space::kConstant: return outside(graph.constants.size()) ? indexed("no constant ", operand.index) : "";
    case Operand::Space::kNode: return outside(before) ? indexed("used before it is made: n", operand.index) : "";
  }
  return "unknown operand space";
}

std::string keywords_error(const Graph& graph, const Node& node) {
  if (node.form != Form::kCall) return node.keywords ? "keywords outside a call" : "";
  if (node.keywords > node.count) return "more keywords than operands";
  if (!node.keywords) return "";
  if (node.keyword_names < 0 || static_cast<size_t>(node.keyword_names) >= graph.constants.size()) return "keyword names are missing";
  PyObject* names = graph.constants[node.keyword_names].get();
  if (!PyTuple_CheckExact(names) || PyTuple_GET_SIZE(names) != node.keywords) return "keyword names don't match the keywords";
  return "";
}

std::string sizes_error(const Graph& graph, const Meta& meta) {
  if (meta.kind != Kind::kArray && meta.kind != Kind::kTensor) return "";
  return meta.rank < 0 || meta.shape + 2 * static_cast<size_t>(meta.rank) > graph.sizes.size() ? "sizes are out of range" : "";
}

std::string node_error(const Graph& graph, const Node& node, int32_t index) {
  if (static_cast<size_t>(node.operands) + node.count > graph.operands.size()) return "operands are out of range";
  const FormRow& form = row(node.form);
  if (form.operands != kAny && node.count != static_cast<uint32_t>(form.operands)) return "wrong number of operands";
  if (node.code >= form.codes) return "no such operator";
  if (node.form == Form::kCall || node.form == Form::kGetAttr) {
    if (node.callable < 0 || static_cast<size_t>(node.callable) >= graph.constants.size()) return "the callable is missing";
  }
  if (node.form == Form::kGetAttr && !PyUnicode_CheckExact(graph.constants[node.callable].get())) return "the attribute's name is no str";
  for (uint32_t i = 0; i < node.count; i++) {
    const std::string error = operand_error(graph, graph.operands[node.operands + i], index);
    if (!error.empty()) return error;
  }
  const std::string error = keywords_error(graph, node);
  return error.empty() ? sizes_error(graph, node.meta) : error;
}

}  // namespace

const char* name(DType dtype) { return row(dtype).name; }
int size_of(DType dtype) { return row(dtype).size; }
char kind_of(DType dtype) { return row(dtype).kind; }
const char* name(Form form) { return row(form).name; }

Meta meta_of(Borrowed object, std::vector<int64_t>& sizes) {
  if (!numpy::load_api()) throw std::runtime_error("NumPy 2 can't be imported");
  PyObject* const live = object.get();
  if (PyArray_CheckExact(live)) return array_meta(numpy::as_array(live), sizes);
  if (torch::is_tensor(live)) return torch::meta_of(live, sizes);
  Meta meta;
  meta.kind = python_kind(live);
  if (meta.kind != Kind::kObject || !PyArray_IsScalar(live, Number)) {
    if (meta.kind != Kind::kObject || !PyArray_IsScalar(live, Bool)) return meta;
  }
  const Ref descr = Ref::steal(PyArray_DescrFromScalar(live));
  if (!descr) {
    PyErr_Clear();
    return meta;
  }
  const DType dtype = numpy::dtype_of(descr.get());
  // A subclass of a NumPy scalar may do anything.
  if (Py_TYPE(live) != descr.as<PyArray_Descr>()->typeobj) return meta;
  meta.kind = Kind::kNumpyScalar;
  meta.dtype = dtype;
  return meta;
}

double Graph::elements_of(const Meta& meta) const {
  double elements = meta.kind == Kind::kArray ? 1 : 0;
  for (int axis = 0; axis < meta.rank; axis++) elements *= static_cast<double>(sizes[meta.shape + axis]);
  return elements;
}

const Meta* Graph::meta_of(Operand operand) const {
  switch (operand.space) {
    case Operand::Space::kInput: return &inputs[operand.index].meta;
    case Operand::Space::kNode: return &nodes[operand.index].meta;
    case Operand::Space::kConstant: case Operand::Space::kNone: return nullptr;
  }
  return nullptr;
}

std::string print_input(const Graph& graph, int32_t index) {
  const Input& input = graph.inputs[index];
  return indexed("i", index) + " = input " + input.name + ": " + meta_text(graph, input.meta);
}

std::string print_node(const Graph& graph, int32_t index) {
  const Node& node = graph.nodes[index];
  return indexed("n", index) + " = " + node_text(graph, node) + ": " + meta_text(graph, node.meta);
}

std::string print(const Graph& graph) {
  std::string text;
  for (size_t i = 0; i < graph.inputs.size(); i++) text += print_input(graph, static_cast<int32_t>(i)) + "\n";
  for (size_t i = 0; i < graph.nodes.size(); i++) text += print_node(graph, static_cast<int32_t>(i)) + "\n";
  return text;
}

std::string verify(const Graph& graph) {
  for (size_t i = 0; i < graph.inputs.size(); i++) {
    const std::string error = sizes_error(graph, graph.inputs[i].meta);
    if (!error.empty()) return indexed("i", static_cast<int>(i)) + ": " + error;
  }
  for (size_t i = 0; i < graph.nodes.size(); i++) {
    const std::string error = node_error(graph, graph.nodes[i], static_cast<int32_t>(i));
    if (!error.empty()) return indexed("n", static_cast<int>(i)) + ": " + error;
  }
  return {};
}

}  // namespace evalframe::graph
