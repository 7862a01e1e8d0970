// NumPy's C API for every file of the core: its table of functions is loaded once, by numpy_api.cpp.
#pragma once

#include <Python.h>

#define PY_ARRAY_UNIQUE_SYMBOL evalframe_numpy_array_api
#define PY_UFUNC_UNIQUE_SYMBOL evalframe_numpy_ufunc_api
#ifndef EVALFRAME_IMPORT_NUMPY
#define NO_IMPORT_ARRAY
#define NO_IMPORT_UFUNC
#endif
#include <numpy/arrayobject.h>
#include <numpy/arrayscalars.h>
#include <numpy/ufuncobject.h>

namespace evalframe::numpy {

// Imports NumPy and loads its C API. False with a Python exception set if there is no NumPy 2. Cheap when done before.
bool load_api();

inline PyArrayObject* as_array(PyObject* object) { return reinterpret_cast<PyArrayObject*>(object); }

}  // namespace evalframe::numpy
