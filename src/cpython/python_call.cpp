// Calls of Python functions without the ways round: everything unusual is left to the general way.
#define Py_BUILD_CORE 1
#include "cpython/python_call.h"

#include "cpython/codec.h"
#include "cpython/hook.h"
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
    slots[code->co_argcount - index] = Py_NewRef(PyTuple_GET_ITEM(defaults, PyTuple_GET_SIZE(defaults) - index));
  }
  for (int index = code->co_argcount; index < code->co_nlocalsplus; ++index) slots[index] = nullptr;
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

EnteredFrame entered_frame(PyThreadState* thread, Frame* frame, const bytecode::Code& code) {
  PyCodeObject* const of_frame = layout::code(frame);
  const int unit = static_cast<int>(layout::pointer(frame) - _PyCode_CODE(of_frame)) + layout::kPointerToNext;
  const RunningCell running = {reinterpret_cast<char**>(&layout::pointer(frame)), reinterpret_cast<char*>(_PyCode_CODE(of_frame))};
  return {frame, &code, frame->localsplus, frame->stacktop, unit, running, layout::trace_cells(thread, of_frame)};
}

bool enter_call(PyThreadState* thread, PyObject* callable, PyObject** arguments, int count, EnteredFrame& entered) {
  if (!all_frames_are_taken(thread)) return false;
  auto* const function = reinterpret_cast<PyFunctionObject*>(callable);
  auto* const code = reinterpret_cast<PyCodeObject*>(function->func_code);
  const int missing = missing_arguments(function, code, count);
  if (missing < 0 || !has_usual_vectorcall(function) || layout::recursion_remaining(thread) <= 0) return false;
  const bytecode::Code* const decoded = decoded_before(code);
  if (!decoded || !decoded->notes) return false;
  const size_t size = layout::frame_size(code);
  if (size >= static_cast<size_t>(thread->datastack_limit - thread->datastack_top)) return false;
  auto* const frame = reinterpret_cast<Frame*>(thread->datastack_top);
  const TraceCells cells = layout::trace_cells(thread, code);
  if (cells.may_be_traced() && (layout::traced(thread) || layout::code_traced(code))) return false;
  thread->datastack_top += size;
  layout::initialize(frame, function);
  fill(frame->localsplus, function, code, arguments, count, missing);
  frame->stacktop = -1;
  layout::link(thread, frame);
  layout::recursion_remaining(thread)--;
  entered = {frame, decoded, frame->localsplus, code->co_nlocalsplus, 0, running_cell(frame), cells};
  return true;
}

void leave_call(PyThreadState* thread, Frame* frame, int depth) {
  frame->stacktop = depth;
  layout::current(thread) = frame->previous;
  layout::recursion_remaining(thread)++;
  pop_frame(thread, frame);
}

Ref leave_call_to_cpython(PyThreadState* thread, Frame* frame) {
  layout::current(thread) = frame->previous;
  layout::recursion_remaining(thread)++;
  return run_in_cpython(thread, frame, false);
}

}  // namespace evalframe::cpython
