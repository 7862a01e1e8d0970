// Reads the version tags of dicts and classes.
#include "cpython/versions.h"

// Exported by every version; 3.13 declares it in an internal header only.
extern "C" int _PyObject_GetMethod(PyObject* object, PyObject* name, PyObject** method);

namespace evalframe::cpython {

uint32_t type_version(PyTypeObject* type) {
  if (!type->tp_version_tag) {
    // Any look-up assigns a version (3.11-3.13).
    static PyObject* probe = PyUnicode_InternFromString("__class__");
    _PyType_Lookup(type, probe);
  }
  return current_type_version(type);
}

Ref bound_function(Borrowed object, Borrowed name) {
  PyObject* method = nullptr;
  const int unbound = _PyObject_GetMethod(object.get(), name.get(), &method);
  Ref found = Ref::steal(method);
  if (!found) PyErr_Clear();
  return unbound ? std::move(found) : Ref();
}

}  // namespace evalframe::cpython
