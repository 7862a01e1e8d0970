// CPython's frame struct under the names that its fields have on the running version. For files of cpython/ only.
#pragma once

#ifndef Py_BUILD_CORE
#define Py_BUILD_CORE 1
#endif
#include <Python.h>
// The internal headers are C: 3.11's atomics take the C++ ones for C's, and _Bool is no C++ word.
#undef HAVE_STD_ATOMIC
#define _Bool bool
extern "C" {
#include "internal/pycore_frame.h"
#include "internal/pycore_code.h"
}
#undef _Bool

namespace evalframe::cpython::raw {

using Frame = ::_PyInterpreterFrame;

#if PY_VERSION_HEX >= 0x030D0000
inline PyObject*& code(Frame* frame) { return frame->f_executable; }
inline PyObject*& function(Frame* frame) { return frame->f_funcobj; }
inline void rewind(Frame* frame, PyCodeObject* code) { frame->instr_ptr = _PyCode_CODE(code); }
inline bool is_rewound(Frame* frame, PyCodeObject* code) { return frame->instr_ptr == _PyCode_CODE(code); }
#else
#if PY_VERSION_HEX >= 0x030C0000
inline PyObject*& function(Frame* frame) { return frame->f_funcobj; }
#else
inline PyObject*& function(Frame* frame) { return reinterpret_cast<PyObject*&>(frame->f_func); }
#endif
inline PyObject*& code(Frame* frame) { return reinterpret_cast<PyObject*&>(frame->f_code); }
inline void rewind(Frame* frame, PyCodeObject* code) { frame->prev_instr = _PyCode_CODE(code) - 1; }
inline bool is_rewound(Frame* frame, PyCodeObject* code) { return frame->prev_instr == _PyCode_CODE(code) - 1; }
#endif

// Its size on the data stack, in pointers.
inline int size(PyCodeObject* code) {
  return code->co_nlocalsplus + code->co_stacksize + static_cast<int>(FRAME_SPECIALS_SIZE);
}

}  // namespace evalframe::cpython::raw
