// Looking names of modules up as CPython does. What it says of a missing one is different in nearly every release, so the
// running one is asked for it.
#include "cpython/imports.h"

#include "cpython/layout.h"
#include "cpython/unseen_call.h"

extern "C" {
#if PY_VERSION_HEX < 0x030D0000
PyAPI_FUNC(int) _PyObject_LookupAttr(PyObject* object, PyObject* name, PyObject** value);
#endif
}

namespace evalframe::cpython {

namespace {

// Null without an exception where it has none.
Ref attribute_of(Borrowed object, Borrowed name) {
  PyObject* value = nullptr;
#if PY_VERSION_HEX >= 0x030D0000
  PyObject_GetOptionalAttr(object.get(), name.get(), &value);
#else
  _PyObject_LookupAttr(object.get(), name.get(), &value);
#endif
  return Ref::steal(value);
}
Ref attribute_of(Borrowed object, const char* name) {
  const Ref text = Ref::steal(PyUnicode_InternFromString(name));
  return text ? attribute_of(object, text.get()) : Ref();
}

// Up to 3.12 no exception is of interest here.
void keep_error_since_313() {
  if (!layout::k313) PyErr_Clear();
}

// A module that has of `module` only what errors tell of; the values may be null. Null with an exception.
Ref likeness_of(Borrowed module, Borrowed name) {
  Ref likeness = Ref::steal(PyModule_New(""));
  if (!likeness) return Ref();
  PyObject* const names = PyModule_GetDict(likeness.get());
  PyDict_Clear(names);
  PyObject* const file = PyModule_Check(module.get()) ? PyDict_GetItemString(PyModule_GetDict(module.get()), "__file__") : nullptr;
  const Ref spec = attribute_of(module, "__spec__");
  if (!spec) keep_error_since_313();
  if (PyErr_Occurred()) return Ref();
  const auto has = [names](const char* key, PyObject* value) { return !value || PyDict_SetItemString(names, key, value) == 0; };
  return has("__name__", name.get()) && has("__file__", file) && has("__spec__", spec.get()) ? std::move(likeness) : Ref();
}

}  // namespace

Ref import_function(Borrowed builtins) {
  const Ref name = Ref::steal(PyUnicode_InternFromString("__import__"));
  if (!name) return Ref();
#if PY_VERSION_HEX >= 0x030D0000
  PyObject* function = nullptr;
  PyMapping_GetOptionalItem(builtins.get(), name.get(), &function);
  return Ref::steal(function);
#else
  // Refuses other mappings than dicts, with CPython's error.
  return Ref::borrow(_PyDict_GetItem_KnownHash(builtins.get(), name.get(), PyObject_Hash(name.get())));
#endif
}

Ref import_from(PyThreadState* thread, Borrowed module, Borrowed name) {
  Ref value = attribute_of(module, name);
  if (value || PyErr_Occurred()) return value;
  const Ref package = attribute_of(module, "__name__");
  if (!package) keep_error_since_313();
  if (PyErr_Occurred()) return Ref();
  const bool is_named = package && PyUnicode_Check(package.get());
  const Ref full = is_named ? Ref::steal(PyUnicode_FromFormat("%U.%U", package.get(), name.get())) : Ref();
  if (full) value = Ref::steal(PyImport_GetModule(full.get()));
  if (value || PyErr_Occurred()) return value;
  const Ref likeness = likeness_of(module, package.get());
  return likeness ? run_alone(thread, {bytecode::Op::IMPORT_FROM, 0}, likeness.get(), Borrowed(), name) : Ref();
}

}  // namespace evalframe::cpython
