// CPython 3.12's interpreter frame and thread state, behind names that all versions share.
#pragma once

#include "cpython/frame.h"
#include "cpython/pycore.h"

namespace evalframe::cpython::layout {

using Frame = ::_PyInterpreterFrame;
// Who drops a frame that _PyEval_EvalFrameDefault has finished.
constexpr bool kCalleeClears = true;

inline PyCodeObject* code(Frame* frame) { return frame->f_code; }
inline PyFunctionObject* function(Frame* frame) { return reinterpret_cast<PyFunctionObject*>(frame->f_funcobj); }
inline Ref exchange_function(Frame* frame, Ref function) { return Ref::steal(std::exchange(frame->f_funcobj, function.release())); }
inline size_t frame_size(PyCodeObject* code) { return static_cast<size_t>(code->co_framesize); }
// Takes over the reference to `function`.
inline void initialize(Frame* frame, PyFunctionObject* function) {
  _PyFrame_Initialize(frame, function, nullptr, reinterpret_cast<PyCodeObject*>(function->func_code), 0);
  frame->previous = nullptr;
}

inline _Py_CODEUNIT*& pointer(Frame* frame) { return frame->prev_instr; }
static_assert(offsetof(Frame, prev_instr) == kFramePointer * sizeof(PyObject*));
static_assert(offsetof(Frame, return_offset) == kFrameMark);

inline Frame*& current(PyThreadState* thread) { return thread->cframe->current_frame; }
// On top of the present one.
inline void link(PyThreadState* thread, Frame* frame) {
  frame->previous = current(thread);
  current(thread) = frame;
}

inline bool traced(PyThreadState* thread) { return any_set<_PY_MONITORING_UNGROUPED_EVENTS>(thread->interp->monitors.tools); }
inline bool code_traced(PyCodeObject* code) { return code->_co_monitoring && any_set<_PY_MONITORING_UNGROUPED_EVENTS>(code->_co_monitoring->local_monitors.tools); }
inline const unsigned char* trace_cells(PyThreadState* thread) {
  static_assert(_PY_MONITORING_UNGROUPED_EVENTS == 15);
  return thread->interp->monitors.tools;
}
inline const volatile void* breaker_cell(PyThreadState* thread) { return &thread->interp->ceval.eval_breaker; }

inline int& recursion_remaining(PyThreadState* thread) { return thread->py_recursion_remaining; }
// CPython's evaluator takes two units of the small C recursion budget for each entry from C. A Python call in our
// evaluator stands for one that CPython would have inlined, so they are given back; enter_recursion guards the C stack.
class KeepCBudget {
 public:
  explicit KeepCBudget(PyThreadState* thread) : thread_(thread) { thread_->c_recursion_remaining += 2; }
  ~KeepCBudget() { thread_->c_recursion_remaining -= 2; }
  KeepCBudget(const KeepCBudget&) = delete;
  KeepCBudget& operator=(const KeepCBudget&) = delete;

 private:
  PyThreadState* thread_;
};

// The frame keeps its code to the end of the generator.
inline PyCodeObject* code(PyGenObject* generator) { return code(reinterpret_cast<Frame*>(generator->gi_iframe)); }
// The one that stops takes its handled exceptions off the thread.
inline void leave_generator(PyThreadState* thread, PyGenObject* generator) {
  thread->exc_info = generator->gi_exc_state.previous_item;
  generator->gi_exc_state.previous_item = nullptr;
}

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
