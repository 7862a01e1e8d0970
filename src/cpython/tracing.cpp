// Exception events: 3.11's trace and profile functions, the monitoring tools of 3.12 and later.
#define Py_BUILD_CORE 1
#include "cpython/tracing.h"

#include "cpython/objects.h"
#include "frame_layout.h"

namespace evalframe::cpython {

#if PY_VERSION_HEX >= 0x030C0000

namespace {

int monitoring_event(ExceptionEvent event) {
  switch (event) {
    case ExceptionEvent::kRaise: return PY_MONITORING_EVENT_RAISE;
    case ExceptionEvent::kReraise: return PY_MONITORING_EVENT_RERAISE;
    case ExceptionEvent::kHandled: return PY_MONITORING_EVENT_EXCEPTION_HANDLED;
    case ExceptionEvent::kUnwind: return PY_MONITORING_EVENT_PY_UNWIND;
  }
  __builtin_unreachable();
}

// False with the exception that the tool raised.
bool call_tool(PyThreadState* thread, PyObject* tool, PyObject* code, PyObject* offset, PyObject* exception, int event) {
  PyObject* arguments[] = {nullptr, code, offset, exception};
  const int outer = std::exchange(thread->what_event, event);
  ++thread->tracing;
  const Ref answer = Ref::steal(PyObject_Vectorcall(tool, arguments + 1, 3 | PY_VECTORCALL_ARGUMENTS_OFFSET, nullptr));
  --thread->tracing;
  thread->what_event = outer;
  return static_cast<bool>(answer);
}

bool call_tools(PyThreadState* thread, Frame* frame, int event, PyObject* exception, int unit) {
  const uint8_t tools = thread->interp->monitors.tools[event];
  const Ref offset = Ref::steal(PyLong_FromLong(2L * unit));
  if (!offset) return false;
  for (int id = PY_MONITORING_TOOL_IDS - 1; id >= 0; --id) {
    const Ref tool = tools & (1 << id) ? Ref::borrow(thread->interp->monitoring_callables[id][event]) : Ref();
    if (!tool) continue;
    if (!call_tool(thread, tool.get(), reinterpret_cast<PyObject*>(layout::code(frame)), offset.get(), exception, event)) return false;
  }
  return true;
}

}  // namespace

void tell_tools(PyThreadState* thread, Frame* frame, ExceptionEvent what, int unit) {
  const int event = monitoring_event(what);
  if (thread->tracing || !thread->interp->monitors.tools[event]) return;
  Ref exception = take_raised();
  if (call_tools(thread, frame, event, exception.get(), unit)) set_raised(std::move(exception));
}

#else

namespace {

bool call(PyThreadState* thread, Frame*, Py_tracefunc function, PyObject* object, int event, PyObject* argument) {
  const Ref current = frame_object(thread);
  if (!current) {
    PyErr_NoMemory();
    return false;
  }
  const int outer = std::exchange(thread->tracing_what, event);
  PyThreadState_EnterTracing(thread);
  const int failed = function(object, current.as<PyFrameObject>(), event, argument);
  PyThreadState_LeaveTracing(thread);
  thread->tracing_what = outer;
  return !failed;
}

void tell_of_exception(PyThreadState* thread, Frame* frame) {
  Ref exception = take_raised();
  const Ref traceback = Ref::steal(PyException_GetTraceback(exception.get()));
  const Ref argument = Ref::steal(PyTuple_Pack(3, Py_TYPE(exception.get()), exception.get(), traceback ? traceback.get() : Py_None));
  const bool told = argument && call(thread, frame, thread->c_tracefunc, thread->c_traceobj, PyTrace_EXCEPTION, argument.get());
  if (told || !argument) set_raised(std::move(exception));
}

void tell_of_return(PyThreadState* thread, Frame* frame, Py_tracefunc function, PyObject* object) {
  if (!function || thread->tracing) return;
  Ref exception = take_raised();
  if (call(thread, frame, function, object, PyTrace_RETURN, nullptr)) set_raised(std::move(exception));
}

}  // namespace

void tell_tools(PyThreadState* thread, Frame* frame, ExceptionEvent event, int) {
  if (event == ExceptionEvent::kRaise && thread->c_tracefunc && !thread->tracing) tell_of_exception(thread, frame);
  if (event != ExceptionEvent::kUnwind) return;
  tell_of_return(thread, frame, thread->c_tracefunc, thread->c_traceobj);
  tell_of_return(thread, frame, thread->c_profilefunc, thread->c_profileobj);
}

#endif

}  // namespace evalframe::cpython
