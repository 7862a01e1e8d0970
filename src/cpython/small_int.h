// Ints of one digit, whose value is read without a call.
#pragma once

#include <Python.h>

namespace evalframe::cpython {

// Of exact ints only.
inline bool is_small_int(PyObject* exact_int) {
#if PY_VERSION_HEX >= 0x030C0000
  return PyUnstable_Long_IsCompact(reinterpret_cast<PyLongObject*>(exact_int));
#else
  return Py_SIZE(exact_int) >= -1 && Py_SIZE(exact_int) <= 1;
#endif
}
inline int64_t small_int_value(PyObject* small_int) {
#if PY_VERSION_HEX >= 0x030C0000
  return PyUnstable_Long_CompactValue(reinterpret_cast<PyLongObject*>(small_int));
#else
  // Zero has no digit, but memory for one, which is 0.
  return Py_SIZE(small_int) * static_cast<int64_t>(reinterpret_cast<PyLongObject*>(small_int)->ob_digit[0]);
#endif
}

}  // namespace evalframe::cpython
