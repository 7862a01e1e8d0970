// Tells pure nodes from those with effects: by form, and for calls by what is known of NumPy's functions.
#include "backends/effects.h"

#include <cstring>
#include <string_view>

#include "bytecode/operators.h"
#include "frontends/numpy/calls.h"
#include "frontends/numpy/numpy_api.h"

namespace evalframe::backends {

using graph::Form, graph::Graph, graph::Kind, graph::Meta, graph::Node, graph::Operand;

namespace {

struct FunctionRow {
  const char* name;
  Effect effect;
  uint32_t most_positional;
};
constexpr FunctionRow kFunctions[] = {
#define EVALFRAME_FUNCTION(name, effect, most_positional) {#name, Effect::effect, most_positional},
#include "backends/functions.def"
#undef EVALFRAME_FUNCTION
};

bool writes_into(const Graph& graph, Operand target) {
  const Meta* meta = graph.meta_of(target);
  if (meta) return meta->kind == Kind::kArray || meta->kind == Kind::kObject || meta->kind == Kind::kTensor;
  PyObject* constant = graph.constants[target.index].get();
  return !(PyLong_Check(constant) || PyFloat_Check(constant) || PyComplex_Check(constant) || numpy::is_scalar(constant));
}

// A keyword that begins so is given and isn't None.
bool has_keyword(const Graph& graph, const Node& node, std::string_view begin) {
  for (uint16_t i = 0; i < node.keywords; i++) {
    const char* const name = PyUnicode_AsUTF8(PyTuple_GET_ITEM(graph.constants[node.keyword_names].get(), i));
    if (!name) PyErr_Clear();
    if (!name || !std::string_view(name).starts_with(begin)) continue;
    const Operand value = graph.operands_of(node)[node.count - node.keywords + i];
    if (value.space != Operand::Space::kConstant || graph.constants[value.index].get() != Py_None) return true;
  }
  return false;
}

// Those that numpy.sort and the like call copies, and then work in place.
bool is_method_in_place(PyObject* callable, std::string_view name) {
  return Py_TYPE(callable) == &PyMethodDescr_Type && (name == "sort" || name == "partition");
}

Effect named_function(const Graph& graph, const Node& node, PyObject* callable) {
  if (numpy::call_kind(callable) != numpy::CallKind::kOpaque) return Effect::kEffect;
  // Methods of random generators are bound to them, so that what is bound is never pure.
  if (PyCFunction_Check(callable) && PyCFunction_GET_SELF(callable) && !PyModule_Check(PyCFunction_GET_SELF(callable))) return Effect::kEffect;
  const Ref name = Ref::steal(PyObject_GetAttrString(callable, "__name__"));
  const char* utf8 = name && PyUnicode_Check(name.get()) ? PyUnicode_AsUTF8(name.get()) : nullptr;
  if (!utf8) return PyErr_Clear(), Effect::kEffect;
  // With copy=False the result may be the argument; with overwrite_input=True, and the like, that isn't kept.
  if (has_keyword(graph, node, "copy") || has_keyword(graph, node, "overwrite_") || is_method_in_place(callable, utf8)) return Effect::kEffect;
  const uint32_t positional = node.count - node.keywords;
  for (const FunctionRow& row : kFunctions) {
    if (std::strcmp(row.name, utf8) == 0) return positional <= row.most_positional ? row.effect : Effect::kEffect;
  }
  return Effect::kEffect;
}

Effect call(const Graph& graph, const Node& node) {
  // SciPy says `output`.
  if (has_keyword(graph, node, "out")) return Effect::kEffect;
  PyObject* callable = graph.constants[node.callable].get();
  if (numpy::call_kind(callable) != numpy::CallKind::kUfunc) return named_function(graph, node, callable);
  const auto inputs = static_cast<uint32_t>(reinterpret_cast<PyUFuncObject*>(callable)->nin);
  return node.count - node.keywords <= inputs ? Effect::kPure : Effect::kEffect;
}

// Only what surely copies is pure: an element, or the elements that an index array names.
Effect subscript(const Graph& graph, const Node& node) {
  const Meta* of = graph.meta_of(graph.operands_of(node)[0]);
  if (!of || of->kind != Kind::kArray) return Effect::kDerived;
  const Meta* key = graph.meta_of(graph.operands_of(node)[1]);
  const bool gathers = key && key->kind == Kind::kArray;
  return gathers || node.meta.kind == Kind::kNumpyScalar ? Effect::kPure : Effect::kDerived;
}

}  // namespace

Effect effect_of(const Graph& graph, const Node& node) {
  Effect effect = Effect::kEffect;
  switch (node.form) {
    case Form::kBinary:
      effect = node.code >= bytecode::kBinaryOps && writes_into(graph, graph.operands_of(node)[0]) ? Effect::kEffect : Effect::kPure;
      break;
    case Form::kUnary:
    case Form::kCompare: effect = Effect::kPure; break;
    case Form::kCall: effect = call(graph, node); break;
    case Form::kGetItem: effect = subscript(graph, node); break;
    case Form::kGetAttr: case Form::kTruth: case Form::kTuple: case Form::kList: case Form::kSlice: case Form::kIterator:
      return Effect::kDerived;
    case Form::kCheck:
    case Form::kCheckMeta: return Effect::kCheck;
    case Form::kSetItem: break;
  }
  // Of what isn't an array or a number nothing is known.
  const bool is_known = node.meta.kind != Kind::kObject && node.meta.kind != Kind::kTensor;
  return effect == Effect::kPure && !is_known ? Effect::kEffect : effect;
}

}  // namespace evalframe::backends
