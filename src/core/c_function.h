// Functions of C's as objects, for what a graph or a stand-in calls.
#pragma once

#include "core/made_once.h"
#include "core/ref.h"

namespace evalframe {

// How C calls it follows from the function's type.
constexpr int calling_convention(PyObject* (*)(PyObject*, PyObject*)) { return METH_O; }
constexpr int calling_convention(PyObject* (*)(PyObject*, PyObject* const*, Py_ssize_t)) { return METH_FASTCALL; }
constexpr int calling_convention(PyObject* (*)(PyObject*, PyObject*, PyObject*)) { return METH_VARARGS | METH_KEYWORDS; }

// The one builtin function of this name that calls `function`; borrowed, it lives as long as the process. One that takes no argument
// ignores what METH_O would give it: `convention` says METH_NOARGS.
template <auto function, int convention = calling_convention(function)>
PyObject* c_function(const char* name, const char* doc = nullptr) {
  static PyMethodDef definition{name, reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(function)), convention, doc};
  static MadeOnce<Ref> made;  // making it may collect garbage
  return made.get([] { return Ref::steal(PyCFunction_New(&definition, nullptr)); }).get();
}

}  // namespace evalframe
