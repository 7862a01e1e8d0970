// Reference counts as the evaluator's inner loop changes them.
//
// From 3.12 on Py_INCREF writes 32 bits and Py_DECREF reads 64 of them: right behind one another the processor waits until the write
// has reached its cache. These read and write 32 bits. The upper half of a count is 0, and a count whose sign bit is set is that of
// an immortal object (Include/object.h: _Py_IsImmortal).
#pragma once

#include <Python.h>

#include <cstdint>

namespace evalframe::cpython {

#if PY_VERSION_HEX >= 0x030C0000 && !defined(Py_REF_DEBUG)
[[gnu::always_inline]] inline uint32_t& count_of(PyObject* object) { return object->ob_refcnt_split[PY_BIG_ENDIAN]; }
[[gnu::always_inline]] inline bool has_one_reference(PyObject* object) { return count_of(object) == 1; }
[[gnu::always_inline]] inline PyObject* new_ref(PyObject* object) {
  if (const uint32_t count = count_of(object) + 1; count != 0) count_of(object) = count;
  return object;
}
// True where it was the last one: any code may have run.
[[gnu::always_inline]] inline bool decref(PyObject* object) {
  const uint32_t count = count_of(object);
  if (static_cast<int32_t>(count) < 0) return false;
  count_of(object) = count - 1;
  if (count != 1) return false;
  _Py_Dealloc(object);
  return true;
}
#else
[[gnu::always_inline]] inline bool has_one_reference(PyObject* object) { return Py_REFCNT(object) == 1; }
[[gnu::always_inline]] inline PyObject* new_ref(PyObject* object) { return Py_NewRef(object); }
[[gnu::always_inline]] inline bool decref(PyObject* object) {
  const bool last = has_one_reference(object);
  Py_DECREF(object);
  return last;
}
#endif
// Null: nothing.
[[gnu::always_inline]] inline PyObject* xnew_ref(PyObject* object) { return object ? new_ref(object) : nullptr; }
[[gnu::always_inline]] inline bool xdecref(PyObject* object) { return object && decref(object); }

}  // namespace evalframe::cpython
