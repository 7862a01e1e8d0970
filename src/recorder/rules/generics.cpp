// Rules for class[key], and class[key] | other. Where the class is one of typing's generics, typing keeps what it gives, so it's the same object in each run, which a
// check in the graph asks for.
#include "core/c_function.h"
#include "cpython/attributes.h"
#include "cpython/hook.h"
#include "recorder/rules/rules.h"

namespace evalframe::recorder {

namespace {

PyObject* class_getitem() {
  static PyObject* const name = PyUnicode_InternFromString("__class_getitem__");  // lives as long as the process
  return name;
}

// What typing.Generic has for that; null: it isn't loaded.
PyObject* of_generics() {
  PyObject* const modules = PyImport_GetModuleDict();
  PyObject* const typing = PyDict_CheckExact(modules) ? PyDict_GetItemString(modules, "typing") : nullptr;
  PyObject* const generic = typing && PyModule_CheckExact(typing) ? PyDict_GetItemString(PyModule_GetDict(typing), "Generic") : nullptr;
  return generic && PyType_Check(generic) ? _PyType_Lookup(reinterpret_cast<PyTypeObject*>(generic), class_getitem()) : nullptr;
}

// Hashed and compared by no code of the program's: typing keeps results by key.
bool is_plain_key(PyObject* key) {
  if (!PyType_Check(key)) return is_immutable(key) || is_written_in_c(Py_TYPE(key));
  return Py_TYPE(key)->tp_hash == PyType_Type.tp_hash && Py_TYPE(key)->tp_richcompare == PyType_Type.tp_richcompare;
}

PyObject* join(PyObject*, PyObject* const* arguments, Py_ssize_t) { return PyNumber_Or(arguments[0], arguments[1]); }
PyObject* joins() { return c_function<join>("join_types"); }

// list[int], or list[int] | None, that the recorded code has made.
bool is_made_alias(const Recorder& recorder, uint32_t label) {
  const Value value = recorder.value(label);
  PyObject* const callable = value.kind == Value::Kind::kMade ? recorder.constant_of(recorder.elements(value)[0]) : nullptr;
  return callable && (callable == reinterpret_cast<PyObject*>(&Py_GenericAliasType) || callable == joins());
}

// One that recorded code makes is another in each run: what is made of it is, too.
bool fixes_plain_key(Recorder& recorder, uint32_t label, PyObject* key) {
  return is_made_alias(recorder, label) || (is_plain_key(key) && !recorder.is_adopted(key) && fixes_object(recorder, label, key));
}

// The key, if it is one object in all runs, or such an alias, or a tuple of such.
bool fixes_key(Recorder& recorder, const Operated& key) {
  const Value value = recorder.value(key.label);
  if (value.kind != Value::Kind::kTuple) return fixes_plain_key(recorder, key.label, key.object);
  const std::vector<uint32_t> parts = recorder.copied_elements(value);
  for (size_t i = 0; i < parts.size(); i++) {
    PyObject* const part = PyTuple_GET_ITEM(key.object, static_cast<Py_ssize_t>(i));
    if (!fixes_plain_key(recorder, parts[i], part)) return false;
  }
  return true;
}

// Whether class[key] is this object.
PyObject* gives_item(PyObject*, PyObject* const* arguments, Py_ssize_t) {
  const Ref item = Ref::steal(PyObject_GetItem(arguments[0], arguments[1]));
  return item ? Py_NewRef(item.get() == arguments[2] ? Py_True : Py_False) : nullptr;
}

Ref item_now(PyObject* type, PyObject* key) {
  const cpython::HooksSuspended unseen;
  Ref item = Ref::steal(PyObject_GetItem(type, key)), again = item ? Ref::steal(PyObject_GetItem(type, key)) : Ref();
  if (PyErr_Occurred()) PyErr_Clear();
  return item.get() == again.get() ? std::move(item) : Ref();
}

// list[int] and the like, a new object each time.
std::optional<Plan> item_of_builtin(Recorder& recorder, PyTypeObject* type, PyObject* found, const Operated& key) {
  const bool plain = found && Py_IS_TYPE(found, &PyClassMethodDescr_Type) && is_written_in_c(type) && Py_IS_TYPE(type, &PyType_Type);
  if (!plain || reinterpret_cast<PyMethodDescrObject*>(found)->d_method->ml_meth != Py_GenericAlias || !fixes_key(recorder, key)) return std::nullopt;
  const uint32_t of = recorder.value(key.label).kind == Value::Kind::kTuple || is_made_alias(recorder, key.label) ? key.label : recorder.constant(key.object);
  return plan_value(recorder.made(reinterpret_cast<PyObject*>(&Py_GenericAliasType), nullptr, {recorder.constant(reinterpret_cast<PyObject*>(type)), of}));
}

}  // namespace

std::optional<Plan> union_of_types(Recorder& recorder, const Operated& left, const Operated& right) {
  const auto fits = [&](const Operated& operand) {
    if (is_made_alias(recorder, operand.label)) return true;
    const bool plain = operand.object == Py_None || Py_IS_TYPE(operand.object, &PyType_Type);
    return plain && !recorder.is_adopted(operand.object) && fixes_object(recorder, operand.label, operand.object);
  };
  if (!is_made_alias(recorder, left.label) && !is_made_alias(recorder, right.label)) return std::nullopt;
  if (!fits(left) || !fits(right)) return std::nullopt;
  return plan_value(recorder.made(joins(), nullptr, {left.label, right.label}));
}

std::optional<Plan> item_of_class(Recorder& recorder, const Operated& type, const Operated& key) {
  if (!PyType_Check(type.object) || recorder.is_adopted(type.object)) return std::nullopt;
  auto* const of = reinterpret_cast<PyTypeObject*>(type.object);
  PyObject* const found = _PyType_Lookup(of, class_getitem());
  if (fixes_object(recorder, type.label, type.object)) {
    if (std::optional<Plan> plan = item_of_builtin(recorder, of, found, key)) return plan;
  }
  const bool generic = found && found == of_generics() && cpython::looks_up_class_plainly(Py_TYPE(of)) && !(Py_TYPE(of)->tp_as_mapping && Py_TYPE(of)->tp_as_mapping->mp_subscript);
  if (!generic || !fixes_object(recorder, type.label, type.object) || !fixes_metaclass(recorder, type.object) || !recorder.fix_class(type.object) || !fixes_key(recorder, key)) return std::nullopt;
  const Ref item = item_now(type.object, key.object);
  if (!item) return std::nullopt;
  Plan node;
  node.callable = c_function<gives_item>("gives_item");
  for (PyObject* const object : {type.object, key.object, item.get()}) node.operands.push_back(graph::Operand::constant(recorder.value(recorder.constant(object)).a));
  recorder.check_constant(recorder.node_value(recorder.add_node(node, Py_True), false), Py_True);
  return plan_value(recorder.fixed(item.get()));
}

}  // namespace evalframe::recorder
