// Calls of functions of C as CPython's own instructions do them once they know what they call: those that take an array of
// arguments, and len(), are called directly, and take no level of the recursion limit (3.11) or of the budget for C (later).
#pragma once

#include <string_view>

#include "core/ref.h"
#include "cpython/objects.h"

namespace evalframe::cpython {

// Sets `result`, null with an exception, if the function is called this way.
[[gnu::always_inline]] inline bool call_directly(
    const PyMethodDef* method, PyObject* self, PyObject* const* arguments, Py_ssize_t count, PyObject* keyword_names, PyObject*& result) {
  using Fast = PyObject* (*)(PyObject*, PyObject* const*, Py_ssize_t);
  using FastWithKeywords = PyObject* (*)(PyObject*, PyObject* const*, Py_ssize_t, PyObject*);
  constexpr int kConventions = METH_VARARGS | METH_FASTCALL | METH_NOARGS | METH_O | METH_KEYWORDS | METH_METHOD;
  const auto function = reinterpret_cast<void (*)()>(method->ml_meth);
  switch (method->ml_flags & kConventions) {
    case METH_FASTCALL | METH_KEYWORDS:
      result = reinterpret_cast<FastWithKeywords>(function)(self, arguments, count, keyword_names);
      return true;
    case METH_FASTCALL:
      if (keyword_names) return false;
      result = reinterpret_cast<Fast>(function)(self, arguments, count);
      return true;
    case METH_O:
      if (keyword_names || count != 1 || std::string_view(method->ml_name) != "len") return false;
      result = method->ml_meth(self, arguments[0]);
      return true;
    default:
      return false;
  }
}

// PyObject_Vectorcall for callables that aren't Python functions.
inline PyObject* call_c(PyThreadState* thread, PyObject* callable, PyObject* const* arguments, size_t nargsf, PyObject* keyword_names) {
  const Py_ssize_t count = PyVectorcall_NARGS(nargsf);
  bool called = false;
  PyObject* result = nullptr;
  if (PyCFunction_CheckExact(callable)) {
    const auto* const function = reinterpret_cast<PyCFunctionObject*>(callable);
    called = call_directly(function->m_ml, PyCFunction_GET_SELF(callable), arguments, count, keyword_names, result);
  } else if (Py_IS_TYPE(callable, &PyMethodDescr_Type) && count > 0 && Py_IS_TYPE(arguments[0], PyDescr_TYPE(callable))) {
    const auto* const method = reinterpret_cast<PyMethodDescrObject*>(callable);
    called = call_directly(method->d_method, arguments[0], arguments + 1, count - 1, keyword_names, result);
  }
  if (called) return _Py_CheckFunctionResult(thread, callable, result, nullptr);
  return PyObject_Vectorcall(callable, arguments, nargsf, keyword_names);
}

}  // namespace evalframe::cpython
