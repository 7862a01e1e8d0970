// Exceptions and frames that have ended, made by the means of the running version.
#define Py_BUILD_CORE 1
#include "cpython/exceptions.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <utility>

#include "cpython/attributes.h"
#include "cpython/objects.h"
#include "frame_layout.h"

namespace evalframe::cpython {

namespace {

PyTypeObject* as_type(PyObject* type) { return reinterpret_cast<PyTypeObject*>(type); }

}  // namespace

void raise_soon(Ref exception) {
  PyException_SetTraceback(exception.get(), Py_None);
  constexpr auto raise = [](void* object) {
    const Ref raised = Ref::steal(static_cast<PyObject*>(object));
    PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(raised.get())), raised.get());
    return -1;
  };
  // Handlers run in the main thread; others only get what PyThreadState_SetAsyncExc() has given them.
  if (!_Py_IsMainThread()) {
    PyThreadState_SetAsyncExc(PyThread_get_thread_ident(), reinterpret_cast<PyObject*>(Py_TYPE(exception.get())));
    return;
  }
  PyObject* const object = exception.release();
  if (Py_AddPendingCall(raise, object) == 0) return;
  PyErr_SetString(PyExc_RuntimeError, "too many pending calls");
  PyErr_WriteUnraisable(object);
  Py_DECREF(object);
}

PyObject* exception_initializer(PyTypeObject* type) {
  PyObject* const found = lookup(type, "__init__");
  return found && PyFunction_Check(found) ? found : nullptr;
}

bool keeps_arguments_only(PyObject* initializer) {
  if (!Py_IS_TYPE(initializer, &PyWrapperDescr_Type)) return false;
  PyTypeObject* const type = PyDescr_TYPE(initializer);
  return PyExceptionClass_Check(reinterpret_cast<PyObject*>(type)) && type->tp_init == as_type(PyExc_BaseException)->tp_init;
}

bool keeps_as_base(const PyTypeObject* type) {
  constexpr const char* kKept[] = {"__getattribute__", "args", "__traceback__", "__cause__", "__context__", "__suppress_context__", "__notes__"};
  return std::all_of(std::begin(kKept), std::end(kKept), [&](const char* name) { return lookup(type, name) == lookup(as_type(PyExc_BaseException), name); });
}

bool makes_exception_plainly(PyTypeObject* type, Py_ssize_t arguments) {
  if (type->tp_finalize || type->tp_del || Py_TYPE(type)->tp_call != PyType_Type.tp_call || !keeps_as_base(type)) return false;
  // Which class of errors it is may depend on the number of the error.
  if (type->tp_new == as_type(PyExc_OSError)->tp_new) return type->tp_init == as_type(PyExc_OSError)->tp_init && arguments <= 1;
  if (is_class_of_groups(type)) {
    const bool plain = type->tp_new == as_type(PyExc_BaseExceptionGroup)->tp_new && type->tp_basicsize >= as_type(PyExc_BaseExceptionGroup)->tp_basicsize;
    return plain && arguments == 2 && (exception_initializer(type) || type->tp_init == as_type(PyExc_BaseExceptionGroup)->tp_init);
  }
  if (type->tp_new != as_type(PyExc_BaseException)->tp_new) return false;
  PyObject* const own[] = {PyExc_BaseException, PyExc_StopIteration, PyExc_SystemExit, PyExc_AttributeError, PyExc_NameError, PyExc_ImportError};
  return exception_initializer(type) || std::any_of(std::begin(own), std::end(own), [&](PyObject* of) { return as_type(of)->tp_init == type->tp_init; });
}

Ref make_exception(PyTypeObject* type, Borrowed arguments) {
  Ref exception = Ref::steal(type->tp_new(type, arguments.get(), nullptr));
  if (!exception || exception_initializer(type)) return exception;
  return type->tp_init(exception.get(), arguments.get(), nullptr) < 0 ? Ref() : std::move(exception);
}

bool is_class_of_groups(PyTypeObject* type) { return PyType_IsSubtype(type, as_type(PyExc_BaseExceptionGroup)); }

Ref make_bare_group(PyTypeObject* type) {
  const Ref none = Ref::steal(PyTuple_New(0));
  return none ? Ref::steal(as_type(PyExc_BaseException)->tp_new(type, none.get(), nullptr)) : Ref();
}

void fill_group(PyObject* group, Ref message, Ref exceptions) {
  auto* const of = reinterpret_cast<PyBaseExceptionGroupObject*>(group);
  const Ref before[] = {Ref::steal(std::exchange(of->msg, message.release())), Ref::steal(std::exchange(of->excs, exceptions.release()))};
}

Ref own_handled_exception(PyThreadState* thread) {
  PyObject* const own = thread->exc_info->exc_value;
  return own && own != Py_None ? Ref::borrow(own) : Ref();
}

void attach_context(Borrowed exception, Borrowed outer, Borrowed handled) {
  Ref last = Ref::borrow(exception);
  std::set<PyObject*> seen;  // a program may have made a ring
  while (last.get() != handled.get() && seen.insert(last.get()).second) {
    Ref context = Ref::steal(PyException_GetContext(last.get()));
    if (!context || context.get() == outer.get()) return PyException_SetContext(last.get(), Py_XNewRef(handled.get()));
    last = std::move(context);
  }
}

Ref frame_object_of(PyThreadState* thread, Frame* frame) {
  const Link link(thread, frame);
  Ref object = frame_object(thread);
  if (!object) PyErr_NoMemory();
  return object;
}

void set_caller(PyFrameObject* frame, Borrowed caller) {
  const Ref old = Ref::steal(reinterpret_cast<PyObject*>(std::exchange(frame->f_back, reinterpret_cast<PyFrameObject*>(Py_XNewRef(caller.get())))));
}

EndedFrame::EndedFrame(PyThreadState* thread, Borrowed function, int unit) : thread_(thread), frame_(push_frame(thread, function)) {
  if (!frame_) return;
  set_next(frame_, 0, layout::code(frame_)->co_nlocalsplus);
  // A generator that was thrown into before it began stands where no other frame is shown.
  running_cell(frame_).set(static_cast<int>(Py_SIZE(layout::code(frame_))) - 1);
  object_ = frame_object_of(thread, frame_);
  running_cell(frame_).set(unit);
}

EndedFrame::~EndedFrame() {
  if (frame_) pop_frame(thread_, frame_);
}

void EndedFrame::put(int slot, Ref value) { slots(frame_).put(slot, std::move(value)); }

void EndedFrame::give_names(Ref names) { set_locals_dict(frame_, std::move(names)); }
bool EndedFrame::give_globals(Borrowed globals) { return globals && set_globals(frame_, globals); }

Ref EndedFrame::end(Borrowed back) {
  pop_frame(thread_, std::exchange(frame_, nullptr));
  set_caller(object_.as<PyFrameObject>(), back);
  return std::move(object_);
}

}  // namespace evalframe::cpython
