// Rules for what follows from an object's type, which the guards fix: isinstance, type, callable, len.
#include "core/builtins.h"
#include "cpython/attributes.h"
#include "frontends/numpy/calls.h"
#include "frontends/torch/tensors.h"
#include "recorder/rules/rules.h"

namespace evalframe::recorder {

namespace {

using evaluator::Activation;

bool may_change(PyTypeObject* type) { return PyType_HasFeature(type, Py_TPFLAGS_HEAPTYPE) && !PyType_HasFeature(type, Py_TPFLAGS_IMMUTABLETYPE); }

PyObject* method_of_abstract_bases(const char* name) {
  const Ref module = Ref::steal(PyImport_ImportModule("abc"));
  const Ref meta = module ? Ref::steal(PyObject_GetAttrString(module.get(), "ABCMeta")) : Ref();
  if (!meta) return PyErr_Clear(), nullptr;
  return cpython::lookup(meta.as<PyTypeObject>(), name);  // borrowed: the class has it, unless a program takes it away
}

// abc.ABCMeta keeps what it has found out of a class until some class is registered with some base: a check in the graph asks for that.
bool asks_abstract_base(Recorder& recorder, PyObject* type) {
  for (const char* const name : {"__instancecheck__", "__subclasscheck__"}) {
    PyObject* const found = cpython::lookup(Py_TYPE(type), name);
    if (!found || !PyFunction_Check(found) || found != method_of_abstract_bases(name)) return false;
    recorder.guards().require_function(found);
  }
  if (!fixes_metaclass(recorder, type)) return false;
  recorder.fix_registrations();
  return true;
}

// torch.nn.Buffer: what isn't one by its type has no mark that says so.
bool is_unmarked(Recorder& recorder, const Operated& object) {
  static PyObject* const mark = PyUnicode_InternFromString("_is_buffer");
  return !torch::is_tensor(object.object) || attribute_of_tensor(recorder, {object.label, object.object, mark}).kind == Plan::Kind::kRaise;
}

// The metaclass has isinstance() of the object ask what type says.
bool asks_type_alone(Recorder& recorder, const Operated& object, PyObject* type) {
  static PyObject* const plain = cpython::lookup(&PyType_Type, "__instancecheck__");
  if (!PyType_Check(type)) return false;
  if (torch::is_parameter_type(type) || (torch::is_buffer_type(type) && is_unmarked(recorder, object))) return fixes_metaclass(recorder, type);
  if (Py_IS_TYPE(type, &PyType_Type) || (cpython::lookup(Py_TYPE(type), "__instancecheck__") == plain && fixes_metaclass(recorder, type))) return true;
  return asks_abstract_base(recorder, type);
}

}  // namespace

bool fixes_object(Recorder& recorder, uint32_t label, PyObject* object) {
  const Value value = recorder.value(label);
  if (value.kind == Value::Kind::kConstant || value.kind == Value::Kind::kFunction) return true;
  if (value.kind != Value::Kind::kSource || recorder.varies(value.a)) return false;
  recorder.guards().require_identity(value.a, object);
  return true;
}

bool fixes_type(Recorder& recorder, uint32_t label, PyObject* object) {
  const Value value = recorder.value(label);
  switch (value.kind) {
    case Value::Kind::kNull:
    case Value::Kind::kOuterException: return false;
    case Value::Kind::kSource: {
      if (may_change(Py_TYPE(object))) return recorder.guards().require_type_version(value.a, object);
      recorder.guards().require_type(value.a, object);
      return true;
    }
    case Value::Kind::kNode: {
      // Of what isn't an array or a number the graph knows nothing.
      const graph::Operand node = graph::Operand::node(value.a);
      if (recorder.recording().graph.meta_of(node)->kind == graph::Kind::kObject) recorder.check_type(node, object);
      return true;
    }
    default: return !may_change(Py_TYPE(object)) || recorder.fix_class(reinterpret_cast<PyObject*>(Py_TYPE(object)));
  }
}

bool is_always_true(const PyTypeObject* type) {
  const bool has_bool = type->tp_as_number && type->tp_as_number->nb_bool, has_size = type->tp_as_sequence && type->tp_as_sequence->sq_length;
  return !has_bool && !has_size && !(type->tp_as_mapping && type->tp_as_mapping->mp_length);
}

bool fixes_kind(Recorder& recorder, uint32_t label, PyObject* object) {
  if (cpython::lookup(Py_TYPE(object), "__class__") != cpython::lookup(&PyBaseObject_Type, "__class__")) return false;
  return fixes_type(recorder, label, object);
}

bool is_plain_class(Recorder& recorder, const Operated& object, uint32_t label, PyObject* type) {
  if (!PyTuple_CheckExact(type)) return asks_type_alone(recorder, object, type) && fixes_object(recorder, label, type);
  const Value value = recorder.value(label);
  const bool made_here = value.kind == Value::Kind::kTuple;
  if (!made_here && !fixes_object(recorder, label, type)) return false;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(type); i++) {
    PyObject* const one = PyTuple_GET_ITEM(type, i);
    if (!asks_type_alone(recorder, object, one)) return false;
    if (made_here && !fixes_object(recorder, recorder.elements(value)[i], one)) return false;
  }
  return true;
}

Plan type_test(const Site& site, const Activation::CallSite& call, PyObject* callable) {
  Recorder& recorder = site.recorder;
  const auto unknown = [&] { return plan_break(Break::kUnknownCall, callable_name(callable)); };
  if (call.keyword_names || call.count < 1 || call.count > 2) return unknown();
  if (!fixes_kind(recorder, recorder.label(call.first), site.frame.slot(call.first))) return unknown();
  if (call.count == 1) return plan_constant();
  return is_plain_class(recorder, {recorder.label(call.first), site.frame.slot(call.first)}, recorder.label(call.first + 1), site.frame.slot(call.first + 1)) ? plan_constant() : unknown();
}

Plan length_of(Recorder& recorder, uint32_t label, PyObject* object) {
  const Value value = recorder.value(label);
  const bool fixed = torch::is_tensor(object) && recorder.has_fixed_sizes(label, object);
  if (fixed) return recorder.operand(label, object) ? plan_constant() : plan_break(Break::kUnknownCall, "len of " + type_name(object));
  if (recorder.is_graph_value(label, object)) {
    Plan plan;
    plan.kind = Plan::Kind::kNode;
    plan.callable = builtin<"len">();
    plan.of_shapes = numpy::is_exact_array(object) || torch::is_tensor(object) || value.of_shapes;
    plan.operands = {recorder.operand(label, object)};
    return plan.operands[0] ? std::move(plan) : plan_break(Break::kUnknownCall, "len of " + type_name(object));
  }
  const bool view = PyDictViewSet_Check(object) || PyDictValues_Check(object);
  if (is_made_container(value) || (view && value.kind == Value::Kind::kMade)) return plan_constant();
  const bool mapping = PyDict_Check(object) && is_written_in_c(Py_TYPE(object));
  if (value.kind == Value::Kind::kSource && (PyList_CheckExact(object) || PyTuple_CheckExact(object) || mapping || PySet_CheckExact(object))) {
    recorder.guards().require_length(value.a, object);
    return plan_constant();
  }
  return recorder.known(label, object) ? plan_constant() : plan_break(Break::kUnknownCall, "len of " + type_name(object));
}

namespace {

// Which builtin objects may be equal to which: those of one family. 0: asks the other one, or runs code.
int family(PyObject* object) {
  PyTypeObject* const type = Py_TYPE(object);
  if (type == &PyLong_Type || type == &PyFloat_Type || type == &PyBool_Type || type == &PyComplex_Type) return 1;
  if (type == &PySet_Type || type == &PyFrozenSet_Type) return 2;
  if (type == &PyBytes_Type || type == &PyByteArray_Type) return 3;
  if (object == Py_None) return 4;
  int number = 5;
  for (PyTypeObject* const alone : {&PyUnicode_Type, &PyList_Type, &PyTuple_Type, &PyDict_Type, &PyRange_Type, &PySlice_Type}) {
    if (type == alone) return number;
    number++;
  }
  return 0;
}

}  // namespace

bool never_equal(Recorder& recorder, const Operated& left, const Operated& right) {
  const int of_left = family(left.object), of_right = family(right.object);
  if (!of_left || !of_right || of_left == of_right) return false;
  return fixes_type(recorder, left.label, left.object) && fixes_type(recorder, right.label, right.object);
}

}  // namespace evalframe::recorder
