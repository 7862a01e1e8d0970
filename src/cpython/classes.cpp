#include "cpython/classes.h"

#include <utility>
#include <vector>

#include "core/c_function.h"
#include "cpython/attributes.h"
#include "cpython/objects.h"

namespace evalframe::cpython {

namespace {

PyObject* give_none(PyObject*, PyObject* const*, size_t, PyObject*) { return Py_NewRef(Py_None); }

// Python functions that do nothing meanwhile. No other code runs: the collector waits.
class Muted {
 public:
  Muted() : collects_(PyGC_Disable()) {}
  ~Muted() {
    for (const auto& [function, call] : functions_) function->vectorcall = call;
    if (collects_) PyGC_Enable();
  }
  Muted(const Muted&) = delete;
  Muted& operator=(const Muted&) = delete;
  void add(PyObject* object) {
    if (!object) return;
    auto* const function = reinterpret_cast<PyFunctionObject*>(object);
    if (function->vectorcall == give_none) return;
    functions_.emplace_back(function, std::exchange(function->vectorcall, give_none));
  }

 private:
  std::vector<std::pair<PyFunctionObject*, vectorcallfunc>> functions_;
  const bool collects_;
};

PyObject* run_body(PyObject*, PyObject* const* arguments, Py_ssize_t count) {
  if ((count != 2 && count != 3) || !PyFunction_Check(arguments[0])) return PyErr_Format(PyExc_TypeError, "a class body and its names are wanted");
  const char* const metaclass = count == 3 && PyType_Check(arguments[2]) ? reinterpret_cast<PyTypeObject*>(arguments[2])->tp_name : "<metaclass>";
  if (!PyMapping_Check(arguments[1])) return PyErr_Format(PyExc_TypeError, "%.200s.__prepare__() must return a mapping, not %.200s", metaclass, Py_TYPE(arguments[1])->tp_name);
  auto* const body = reinterpret_cast<PyFunctionObject*>(arguments[0]);
  return PyEval_EvalCodeEx(body->func_code, body->func_globals, arguments[1], nullptr, 0, nullptr, 0, nullptr, 0, nullptr, body->func_closure);
}

// As builtins.__build_class__ does it (Python/bltinmodule.c): of the cell that the body has returned, the class, and its name.
PyObject* check_class_cell(PyObject*, PyObject* const* arguments, Py_ssize_t count) {
  if (count != 3) return PyErr_Format(PyExc_TypeError, "a cell, a class and its name are wanted");
  PyObject *const cell = arguments[0], *const type = arguments[1];
  PyObject* const known = PyCell_Check(cell) && PyType_Check(type) ? PyCell_GET(cell) : type;
  if (known == type) return Py_NewRef(Py_None);
  if (known) return PyErr_Format(PyExc_TypeError, "__class__ set to %.200R defining %.200R as %.200R", known, arguments[2], type);
  return PyErr_Format(PyExc_RuntimeError, "__class__ not set defining %.200R as %.200R. Was __classcell__ propagated to type.__new__?", arguments[2], type);
}

// Where a recording can't tell them: the methods of Python's that bare_class has not.
bool tell_names(PyObject* type) {
  const Ref names = Ref::steal(PyDict_Copy(reinterpret_cast<PyTypeObject*>(type)->tp_dict));
  PyObject *name = nullptr, *value = nullptr;
  for (Py_ssize_t at = 0; names && PyDict_Next(names.get(), &at, &name, &value);) {
    bool found = false;
    PyObject* const told = set_name_of(value, &found);
    if (!told || Ref::steal(PyObject_CallFunctionObjArgs(told, value, type, name, nullptr))) continue;
    constexpr char kText[] = "Error calling __set_name__ on '%.100s' instance %R in '%.100s'";
    const char* const in = reinterpret_cast<PyTypeObject*>(type)->tp_name;
#if PY_VERSION_HEX < 0x030C0000
    _PyErr_FormatFromCause(PyExc_RuntimeError, kText, Py_TYPE(value)->tp_name, name, in);
#else
    Ref error = take_raised();
    const Ref note = Ref::steal(PyUnicode_FromFormat(kText, Py_TYPE(value)->tp_name, name, in));
    if (!note || !Ref::steal(PyObject_CallMethod(error.get(), "add_note", "O", note.get()))) PyErr_Clear();
    set_raised(std::move(error));
#endif
    return false;
  }
  return static_cast<bool>(names);
}

PyObject* make_class(PyObject*, PyObject* const* arguments, Py_ssize_t count) {
  const bool right = count == 4 && PyType_Check(arguments[0]) && PyTuple_CheckExact(arguments[2]);
  if (!right) return PyErr_Format(PyExc_TypeError, "a metaclass, a name, bases and names are wanted");
  if (!PyDict_Check(arguments[3])) return PyErr_Format(PyExc_TypeError, "type.__new__() argument 3 must be dict, not %.200s", Py_TYPE(arguments[3])->tp_name);
  Ref type = bare_class(arguments[0], arguments[1], arguments[2], arguments[3]);
  return type && tell_names(type.get()) && finish_class(type.get()) ? type.release() : nullptr;
}

// What a class statement does with a metaclass that has its own dict for names.
PyObject* make_enum(PyObject*, PyObject* const* arguments, Py_ssize_t count) {
  const bool right = count == 4 && PyType_Check(arguments[0]) && PyTuple_CheckExact(arguments[2]) && PyDict_CheckExact(arguments[3]);
  if (!right) return PyErr_Format(PyExc_TypeError, "a metaclass, a name, bases and names are wanted");
  const Ref prepare = Ref::steal(PyObject_GetAttrString(arguments[0], "__prepare__"));
  const Ref names = prepare ? Ref::steal(PyObject_CallFunctionObjArgs(prepare.get(), arguments[1], arguments[2], nullptr)) : Ref();
  PyObject *name = nullptr, *value = nullptr;
  for (Py_ssize_t at = 0; names && PyDict_Next(arguments[3], &at, &name, &value);) {
    if (PyObject_SetItem(names.get(), name, value) < 0) return nullptr;
  }
  return names ? PyObject_CallFunctionObjArgs(arguments[0], arguments[1], arguments[2], names.get(), nullptr) : nullptr;
}

// Of the module abc, in C; null: it isn't there.
Ref abstract_part(const char* module, const char* name) {
  const Ref imported = Ref::steal(PyImport_ImportModule(module));
  Ref part = imported ? Ref::steal(PyObject_GetAttrString(imported.get(), name)) : Ref();
  if (!part) PyErr_Clear();
  return part;
}

}  // namespace

bool finish_class(Borrowed type) {
  if (Py_TYPE(type.get()) == &PyType_Type) return true;
  static MadeOnce<Ref> abstract, initializer;
  const Ref& metaclass = abstract.get([] { return abstract_part("abc", "ABCMeta"); });
  const Ref& init = initializer.get([] { return abstract_part("_abc", "_abc_init"); });
  if (!metaclass || !init || !PyType_IsSubtype(Py_TYPE(type.get()), metaclass.as<PyTypeObject>())) return true;
  return static_cast<bool>(Ref::steal(PyObject_CallOneArg(init.get(), type.get())));
}

PyObject* init_subclass_of(PyTypeObject* base, bool* found) {
  PyObject* const method = lookup(base, "__init_subclass__");
  *found = method && method != lookup(&PyBaseObject_Type, "__init_subclass__");
  if (!*found || !Py_IS_TYPE(method, &PyClassMethod_Type)) return nullptr;
  const Ref function = Ref::steal(PyObject_GetAttrString(method, "__func__"));  // which the method holds
  if (!function) PyErr_Clear();
  return function && PyFunction_Check(function.get()) ? function.get() : nullptr;
}

PyObject* init_subclass_of_object() { return lookup(&PyBaseObject_Type, "__init_subclass__"); }

PyObject* set_name_of(PyObject* value, bool* found) {
  PyObject* const method = lookup(Py_TYPE(value), "__set_name__");
  *found = method;
  return method && PyFunction_Check(method) ? method : nullptr;
}

Ref bare_class(Borrowed metaclass, Borrowed name, Borrowed bases, Borrowed names) {
  const Ref arguments = Ref::steal(PyTuple_Pack(3, name.get(), bases.get(), names.get()));
  if (!arguments) return Ref();
  Muted muted;
  bool found = false;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(bases.get()); i++) muted.add(init_subclass_of(reinterpret_cast<PyTypeObject*>(PyTuple_GET_ITEM(bases.get(), i)), &found));
  PyObject *key = nullptr, *value = nullptr;
  for (Py_ssize_t at = 0; PyDict_Next(names.get(), &at, &key, &value);) muted.add(set_name_of(value, &found));
  return Ref::steal(PyType_Type.tp_new(metaclass.as<PyTypeObject>(), arguments.get(), nullptr));
}

// A property of 3.13 knows its name.
bool put_into_class(Borrowed type, Borrowed name, Borrowed value) {
  if (PyType_Type.tp_setattro(type.get(), name.get(), value.get()) < 0) return false;
  bool found = false;
  if (set_name_of(value.get(), &found) || !found) return true;
  PyObject* const method = lookup(Py_TYPE(value.get()), "__set_name__");
  if (!Py_IS_TYPE(method, &PyMethodDescr_Type)) return true;
  return static_cast<bool>(Ref::steal(PyObject_CallFunctionObjArgs(method, value.get(), type.get(), name.get(), nullptr)));
}

PyObject* runner_of_bodies() {
  return c_function<run_body>("run_class_body", "Runs a class body with the dict of its names.");
}

PyObject* checker_of_class_cells() {
  return c_function<check_class_cell>("check_class_cell", "Raises what a class statement raises where a metaclass has lost the cell of its class.");
}

PyObject* maker_of_enums() {
  return c_function<make_enum>("make_enum", "Makes an enumeration as a class statement does.");
}

PyObject* maker_of_classes() {
  return c_function<make_class>("make_class", "Makes a class without telling bases of it.");
}

}  // namespace evalframe::cpython
