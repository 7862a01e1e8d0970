#include "frontends/torch/modules.h"

#include <string_view>
#include <unordered_set>

#include "core/c_function.h"
#include "frontends/torch/names.h"

namespace evalframe::torch {

namespace {

struct Watched {
  Ref function, code;
};

Watched& getattr() {
  static Watched& kept = *new Watched;  // it outlives the interpreter's objects
  return kept;
}

PyObject* module_type() {
  static const auto* const type = new Ref(attribute_of("torch.nn", "Module"));
  return type->get();
}

// As Module has it: those of a class of the program's may tell of others.
bool lists_plainly(PyObject* module) {
  if (!module_type() || !PyObject_TypeCheck(module, reinterpret_cast<PyTypeObject*>(module_type()))) return false;
  for (const char* const name : {"named_parameters", "named_buffers", "named_modules", "_named_members"}) {
    const Ref key = Ref::steal(PyUnicode_InternFromString(name));
    if (!key || _PyType_Lookup(Py_TYPE(module), key.get()) != _PyType_Lookup(reinterpret_cast<PyTypeObject*>(module_type()), key.get())) return false;
  }
  return true;
}

// False: a tensor is met again, or it can't be told.
bool are_apart(PyObject* module, std::unordered_set<PyObject*>& seen) {
  const Ref attributes = lists_plainly(module) ? Ref::steal(PyObject_GenericGetDict(module, nullptr)) : Ref();
  if (!attributes || Py_EnterRecursiveCall(" in a module's modules")) return PyErr_Clear(), false;
  bool apart = PyDict_CheckExact(attributes.get());
  for (const char* const name : {"_parameters", "_buffers", "_modules"}) {
    PyObject* const kept = apart ? PyDict_GetItemString(attributes.get(), name) : nullptr;
    apart = kept && PyDict_CheckExact(kept);
    PyObject* value = nullptr;
    for (Py_ssize_t at = 0; apart && PyDict_Next(kept, &at, nullptr, &value);) {
      if (value == Py_None) continue;
      apart = name == std::string_view("_modules") ? are_apart(value, seen) : seen.insert(value).second;
    }
  }
  Py_LeaveRecursiveCall();
  return apart;
}

PyObject* is_tied(PyObject*, PyObject* module) {
  std::unordered_set<PyObject*> seen;
  return Py_NewRef(are_apart(module, seen) ? Py_False : Py_True);
}

}  // namespace

PyObject* has_tied_tensors() { return c_function<is_tied>("has_tied_tensors"); }

void watch_module_getattr(Borrowed function) { getattr() = {Ref::borrow(function), Ref::borrow(function.as<PyFunctionObject>()->func_code)}; }

bool is_module_getattr(PyObject* function) {
  const Watched& watched = getattr();
  return watched.function.get() == function && function && reinterpret_cast<PyFunctionObject*>(function)->func_code == watched.code.get();
}

}  // namespace evalframe::torch
