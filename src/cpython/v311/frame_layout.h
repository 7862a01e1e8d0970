// CPython 3.11's interpreter frame and thread state, behind names that all versions share.
#pragma once

#include "cpython/frame.h"
#include "cpython/pycore.h"

namespace evalframe::cpython::layout {

using Frame = ::_PyInterpreterFrame;
// Who drops a frame that _PyEval_EvalFrameDefault has finished.
constexpr bool kCalleeClears = false;

inline PyCodeObject* code(Frame* frame) { return frame->f_code; }
inline PyFunctionObject* function(Frame* frame) { return frame->f_func; }
inline Ref exchange_function(Frame* frame, Ref function) { return Ref::steal(reinterpret_cast<PyObject*>(std::exchange(frame->f_func, reinterpret_cast<PyFunctionObject*>(function.release())))); }
inline size_t frame_size(PyCodeObject* code) {
  return static_cast<size_t>(code->co_nlocalsplus) + static_cast<size_t>(code->co_stacksize) + FRAME_SPECIALS_SIZE;
}
// Takes over the reference to `function`.
inline void initialize(Frame* frame, PyFunctionObject* function) {
  _PyFrame_InitializeSpecials(frame, function, nullptr, reinterpret_cast<PyCodeObject*>(function->func_code)->co_nlocalsplus);
  frame->previous = nullptr;
}

inline _Py_CODEUNIT*& pointer(Frame* frame) { return frame->prev_instr; }
static_assert(offsetof(Frame, prev_instr) == kFramePointer * sizeof(PyObject*));
static_assert(offsetof(Frame, is_entry) == kFrameMark);

inline Frame*& current(PyThreadState* thread) { return thread->cframe->current_frame; }
// On top of the present one. A frame that is handed over gets a _PyCFrame of its own there.
inline void link(PyThreadState* thread, Frame* frame) {
  frame->previous = current(thread);
  frame->is_entry = true;
  current(thread) = frame;
}

inline bool traced(PyThreadState* thread) { return thread->cframe->use_tracing != 0; }
inline const unsigned char* trace_cells(PyThreadState* thread) { return &thread->cframe->use_tracing; }
inline bool code_traced(PyCodeObject*) { return false; }
inline const volatile void* breaker_cell(PyThreadState* thread) { return &thread->interp->ceval.eval_breaker; }

inline int& recursion_remaining(PyThreadState* thread) { return thread->recursion_remaining; }
// Entering CPython's evaluator from C takes nothing from a C recursion budget here: the recursion limit is the only one.
struct KeepCBudget {
  explicit KeepCBudget(PyThreadState*) {}
};

inline PyCodeObject* code(PyGenObject* generator) { return generator->gi_code; }
// Who resumed the generator takes its handled exceptions off the thread.
inline void leave_generator(PyThreadState*, PyGenObject*) {}

// The frame lives on in its frame object, which others hold; the frame's references but that to the code go with it.
inline void move_into(PyFrameObject* object, Frame* frame, PyFrameObject* back) {
  auto* const moved = reinterpret_cast<Frame*>(object->_f_frame_data);
  Py_INCREF(frame->f_code);
  memcpy(static_cast<void*>(moved), frame, static_cast<size_t>(reinterpret_cast<char*>(&frame->localsplus[frame->stacktop]) - reinterpret_cast<char*>(frame)));
  moved->owner = FRAME_OWNED_BY_FRAME_OBJECT;
  moved->previous = nullptr;
  object->f_frame = moved;
  object->f_back = back;
}

}  // namespace evalframe::cpython::layout
