// Whether a code object may run in a frame that was made for another one.
#include "cpython/entry_frame.h"

namespace evalframe::cpython {

namespace {

// What else must agree: who fills the parameters, and where names are looked up.
constexpr int kSameFlags = CO_OPTIMIZED | CO_NEWLOCALS | CO_VARARGS | CO_VARKEYWORDS;

bool refuse(PyCodeObject* original, const char* what) {
  PyErr_Format(PyExc_ValueError, "the replacement can't run in a frame of %U(): %s", original->co_qualname, what);
  return false;
}

bool same_parameters(PyCodeObject* original, PyCodeObject* replacement) {
  if (original->co_argcount != replacement->co_argcount) {
    return refuse(original, "it takes another number of positional parameters");
  }
  if (original->co_posonlyargcount != replacement->co_posonlyargcount) {
    return refuse(original, "it takes another number of positional-only parameters");
  }
  if (original->co_kwonlyargcount != replacement->co_kwonlyargcount) {
    return refuse(original, "it takes another number of keyword-only parameters");
  }
  if ((original->co_flags ^ replacement->co_flags) & kSameFlags) {
    return refuse(original, "its co_flags differ in CO_OPTIMIZED, CO_NEWLOCALS, CO_VARARGS or CO_VARKEYWORDS");
  }
  return true;
}

// Every name of `before` stands in `after` at the same place.
bool starts_with(PyCodeObject* original, PyObject* before, PyObject* after, const char* kind) {
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(before); i++) {
    PyObject* name = PyTuple_GET_ITEM(before, i);
    const int found = PySequence_Contains(after, name);
    if (found < 0) return false;
    if (!found) {
      PyErr_Format(PyExc_ValueError,
                   "the replacement can't run in a frame of %U(): it lacks the %s variable %R (a replacement keeps all "
                   "variables of the original, in order, and adds its own behind them)",
                   original->co_qualname, kind, name);
      return false;
    }
    PyObject* other = PyTuple_GET_ITEM(after, i);
    const int same = PyObject_RichCompareBool(name, other, Py_EQ);
    if (same < 0) return false;
    if (!same) {
      PyErr_Format(PyExc_ValueError,
                   "the replacement can't run in a frame of %U(): where the original has the %s variable %R (place %zd), "
                   "it has %R (a replacement keeps all variables of the original, in order, and adds its own behind them)",
                   original->co_qualname, kind, name, i, other);
      return false;
    }
  }
  return true;
}

// A local variable may have become a cell, which moves the cells behind it: their order counts, not their places.
bool keeps_cells(PyCodeObject* original, PyObject* before, PyObject* after) {
  Py_ssize_t from = 0;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(before); i++) {
    PyObject* name = PyTuple_GET_ITEM(before, i);
    int same = 0;
    while (from < PyTuple_GET_SIZE(after) && same == 0) {
      same = PyObject_RichCompareBool(name, PyTuple_GET_ITEM(after, from++), Py_EQ);
    }
    if (same < 0) return false;
    if (same == 0) {
      PyErr_Format(PyExc_ValueError,
                   "the replacement can't run in a frame of %U(): it lacks the cell variable %R, or has it out of order",
                   original->co_qualname, name);
      return false;
    }
  }
  return true;
}

}  // namespace

bool check_replacement(PyCodeObject* original, PyCodeObject* replacement) {
  if (original == replacement) return true;
  if (!same_parameters(original, replacement)) return false;
  Ref locals = Ref::steal(PyCode_GetVarnames(original)), new_locals = Ref::steal(PyCode_GetVarnames(replacement));
  Ref cells = Ref::steal(PyCode_GetCellvars(original)), new_cells = Ref::steal(PyCode_GetCellvars(replacement));
  Ref frees = Ref::steal(PyCode_GetFreevars(original)), new_frees = Ref::steal(PyCode_GetFreevars(replacement));
  if (!locals || !new_locals || !cells || !new_cells || !frees || !new_frees) return false;
  if (!starts_with(original, locals.get(), new_locals.get(), "local")) return false;
  if (!keeps_cells(original, cells.get(), new_cells.get())) return false;
  if (!starts_with(original, frees.get(), new_frees.get(), "free")) return false;
  if (PyTuple_GET_SIZE(new_frees.get()) > PyTuple_GET_SIZE(frees.get())) {
    PyObject* extra = PyTuple_GET_ITEM(new_frees.get(), PyTuple_GET_SIZE(frees.get()));
    PyErr_Format(PyExc_ValueError,
                 "the replacement can't run in a frame of %U(): it has the free variable %R, for which the function's "
                 "closure has no cell",
                 original->co_qualname, extra);
    return false;
  }
  return true;
}

}  // namespace evalframe::cpython
