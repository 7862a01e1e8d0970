#include "frontends/torch/modules.h"

#include <algorithm>
#include <iterator>
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

PyObject* interned(const char* text) { return PyUnicode_InternFromString(text); }  // lives as long as the process

// As Module has it: those of a class of the program's may tell of others.
bool lists_plainly(PyObject* module) {
  static PyObject* const names[] = {interned("named_parameters"), interned("named_buffers"), interned("named_modules"), interned("_named_members")};
  auto* const plain = reinterpret_cast<PyTypeObject*>(module_type());
  if (!plain || !PyObject_TypeCheck(module, plain)) return false;
  return std::all_of(std::begin(names), std::end(names), [&](PyObject* name) { return _PyType_Lookup(Py_TYPE(module), name) == _PyType_Lookup(plain, name); });
}

// False: a tensor is met again, or it can't be told.
bool are_apart(PyObject* module, std::unordered_set<PyObject*>& seen) {
  const Ref attributes = lists_plainly(module) ? Ref::steal(PyObject_GenericGetDict(module, nullptr)) : Ref();
  if (!attributes || Py_EnterRecursiveCall(" in a module's modules")) return PyErr_Clear(), false;
  bool apart = PyDict_CheckExact(attributes.get());
  static PyObject *const parameters = interned("_parameters"), *const buffers = interned("_buffers"), *const modules = interned("_modules");
  for (PyObject* const name : {parameters, buffers, modules}) {
    PyObject* const kept = apart ? PyDict_GetItemWithError(attributes.get(), name) : nullptr;
    apart = kept && PyDict_CheckExact(kept);
    PyObject* value = nullptr;
    for (Py_ssize_t at = 0; apart && PyDict_Next(kept, &at, nullptr, &value);) {
      if (value == Py_None) continue;
      apart = name == modules ? are_apart(value, seen) : seen.insert(value).second;
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
