// Calls of Python functions without the ways round: everything unusual is left to the general way.
#define Py_BUILD_CORE 1
#include "cpython/python_call.h"

#include "cpython/codec.h"
#include "cpython/generators.h"
#include "cpython/hook.h"
#include "cpython/refcounts.h"
#include "frame_layout.h"

namespace evalframe::cpython {

namespace {

// How many of the parameters have to be filled with defaults, or -1 where the arguments don't fit one by one.
int missing_arguments(PyFunctionObject* function, PyCodeObject* code, int count) {
  constexpr int kUnusual = CO_VARARGS | CO_VARKEYWORDS;
  if ((code->co_flags & (kUnusual | CO_OPTIMIZED)) != CO_OPTIMIZED || code->co_kwonlyargcount) return -1;
  const int missing = code->co_argcount - count;
  if (missing <= 0) return missing;
  PyObject* const defaults = function->func_defaults;
  return defaults && missing <= PyTuple_GET_SIZE(defaults) ? missing : -1;
}

void fill(PyObject** slots, PyFunctionObject* function, PyCodeObject* code, PyObject** arguments, int count, int missing) {
  for (int index = 0; index < count; ++index) slots[index] = arguments[index];
  for (int index = missing; index > 0; --index) {
    PyObject* const defaults = function->func_defaults;
    slots[code->co_argcount - index] = new_ref(PyTuple_GET_ITEM(defaults, PyTuple_GET_SIZE(defaults) - index));
  }
  for (int index = code->co_argcount; index < code->co_nlocalsplus; ++index) slots[index] = nullptr;
}

// The decoded form of code whose frame may be entered, or null.
const bytecode::Code* code_to_enter(PyThreadState* thread, PyCodeObject* code) {
  if (layout::recursion_remaining(thread) <= 0) return nullptr;
  if (may_be_traced(layout::trace_cells(thread), code) && (layout::traced(thread) || layout::code_traced(code))) return nullptr;
  const bytecode::Code* const decoded = decoded_before(code);
  return decoded && decoded->notes ? decoded : nullptr;
}

// The same for frames that we make or resume ourselves: no other hook is to see them.
const bytecode::Code* code_to_call(PyThreadState* thread, PyCodeObject* code) { return all_frames_are_taken(thread) ? code_to_enter(thread, code) : nullptr; }

EnteredFrame enter(PyThreadState* thread, Frame* frame, const bytecode::Code* code) {
  layout::link(thread, frame);
  layout::recursion_remaining(thread)--;
  return {frame, code};
}

void unlink(PyThreadState* thread, Frame* frame) {
  layout::current(thread) = frame->previous;
  layout::recursion_remaining(thread)++;
}

// pop_frame where nothing is to be told of it and its space is only given back.
bool drop_quickly(PyThreadState* thread, Frame* frame, int depth) {
  if (frame->frame_obj || frame->owner != FRAME_OWNED_BY_THREAD || reinterpret_cast<PyObject**>(frame) == thread->datastack_chunk->data) return false;
  layout::current(thread) = frame->previous;
  if (!layout::kFinalizersCountAsCallees) layout::recursion_remaining(thread)++;
  for (int index = 0; index < depth; ++index) xdecref(frame->localsplus[index]);
  xdecref(frame->f_locals);
  decref(reinterpret_cast<PyObject*>(layout::function(frame)));
  decref(reinterpret_cast<PyObject*>(layout::code(frame)));
  if (layout::kFinalizersCountAsCallees) layout::recursion_remaining(thread)++;
  thread->datastack_top = reinterpret_cast<PyObject**>(frame);
  return true;
}

}  // namespace

bool has_usual_vectorcall(PyFunctionObject* function) {
  // Not by an initializer, which one thread at a time may be in: making a function may collect garbage, and run any code.
  static vectorcallfunc usual = nullptr;
  if (!usual) {
    const Ref other = Ref::steal(PyFunction_New(function->func_code, function->func_globals));
    if (!other) PyErr_Clear();
    usual = other ? other.as<PyFunctionObject>()->vectorcall : nullptr;
  }
  return function->vectorcall == usual;
}

bool enters_functions(PyThreadState* thread) { return _PyInterpreterState_GetEvalFrameFunc(thread->interp) == _PyEval_EvalFrameDefault && !c_stack_is_low(); }

EnteredFrame enter_call(PyThreadState* thread, PyObject* callable, PyObject** arguments, int count) {
  auto* const function = reinterpret_cast<PyFunctionObject*>(callable);
  auto* const code = reinterpret_cast<PyCodeObject*>(function->func_code);
  const int missing = missing_arguments(function, code, count);
  if (missing < 0 || !has_usual_vectorcall(function)) return {};
  const bytecode::Code* const decoded = code_to_call(thread, code);
  const size_t size = layout::frame_size(code);
  if (!decoded || size >= static_cast<size_t>(thread->datastack_limit - thread->datastack_top)) return {};
  auto* const frame = reinterpret_cast<Frame*>(thread->datastack_top);
  thread->datastack_top += size;
  layout::initialize(frame, function);
  fill(frame->localsplus, function, code, arguments, count, missing);
  return enter(thread, frame, decoded);
}

EnteredFrame enter_frame(PyThreadState* thread, Frame* frame) {
  const bytecode::Code* const decoded = code_to_call(thread, layout::code(frame));
  return decoded ? enter(thread, frame, decoded) : EnteredFrame();
}

const bytecode::Code* enter_given(PyThreadState* thread, Frame* frame) {
  const bytecode::Code* const decoded = c_stack_is_low() ? nullptr : code_to_enter(thread, layout::code(frame));
  return decoded ? enter(thread, frame, decoded).code : nullptr;
}
void leave_given(PyThreadState* thread, Frame* frame) { unlink(thread, frame); }

EnteredFrame enter_generator(PyThreadState* thread, PyObject* object, PyObject* sent) {
  if (!PyGen_CheckExact(object) && !PyCoro_CheckExact(object)) return {};
  auto* const generator = reinterpret_cast<PyGenObject*>(object);
  if (generator->gi_frame_state >= FRAME_EXECUTING) return {};
  if (generator->gi_frame_state == FRAME_CREATED && sent != Py_None) return {};
  auto* const frame = reinterpret_cast<Frame*>(generator->gi_iframe);
  const bytecode::Code* const decoded = code_to_call(thread, layout::code(frame));
  if (!decoded) return {};
  frame->localsplus[frame->stacktop++] = sent;
  generator->gi_exc_state.previous_item = thread->exc_info;
  thread->exc_info = &generator->gi_exc_state;
  generator->gi_frame_state = FRAME_EXECUTING;
  return enter(thread, frame, decoded);
}

Frame* current_frame(PyThreadState* thread) { return layout::current(thread); }

Frame* leave_call(PyThreadState* thread, Frame* frame, int depth) {
  Frame* const outer = frame->previous;
  if (drop_quickly(thread, frame, depth)) return outer;
  frame->stacktop = depth;
  unlink(thread, frame);
  pop_frame(thread, frame);
  return outer;
}

Ref leave_call_to_cpython(PyThreadState* thread, Frame* frame) {
  unlink(thread, frame);
  return run_in_cpython(thread, frame, false);
}

void leave_suspended(PyThreadState* thread, Frame* frame, bool delegates) {
  unlink(thread, frame);
  leave_suspended_frame(thread, frame, delegates);
}

void leave_finished(PyThreadState* thread, Frame* frame, int depth) {
  leave_call(thread, frame, depth);
  if (!layout::kCalleeClears) stop_generator(thread, frame);
}

Ref leave_generator_to_cpython(PyThreadState* thread, Frame* frame, bool& yielded) {
  unlink(thread, frame);
  return run_generator_in_cpython(thread, frame, false, yielded);
}

}  // namespace evalframe::cpython
