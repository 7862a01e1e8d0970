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

// Not one of the ints that CPython makes once (Include/internal/pycore_global_objects.h, pycore_runtime_structs.h), and of one digit.
inline bool is_own_small_int(int64_t value) {
  const int64_t size = value < 0 ? -value : value;
  return (value < -5 || value > 256) && size <= static_cast<int64_t>(PyLong_MASK);
}
// Gives an exact int of one digit, which no one else has, another such value.
inline void set_small_int(PyObject* small_int, int64_t value) {
  const digit size = static_cast<digit>(value < 0 ? -value : value);
#if PY_VERSION_HEX >= 0x030C0000
  // longintrepr.h: the sign (0 plus, 2 minus) in the lowest bits, the number of digits above three.
  constexpr uintptr_t kOneDigit = 1 << 3, kMinus = 2;
  auto& number = reinterpret_cast<PyLongObject*>(small_int)->long_value;
  number.lv_tag = kOneDigit | (value < 0 ? kMinus : 0);
  number.ob_digit[0] = size;
#else
  Py_SET_SIZE(reinterpret_cast<PyVarObject*>(small_int), value < 0 ? -1 : 1);
  reinterpret_cast<PyLongObject*>(small_int)->ob_digit[0] = size;
#endif
}

}  // namespace evalframe::cpython
