// Generators' frames: suspending, finishing, and finding what they wait for.
#define Py_BUILD_CORE 1
#include "cpython/generators.h"

#include "frame_layout.h"

#if PY_VERSION_HEX >= 0x030D0000
extern "C" {
#include "internal/pycore_genobject.h"
PyAPI_FUNC(PyObject*) _PyCoro_GetAwaitableIter(PyObject* value);
}
#endif

namespace evalframe::cpython {

bool belongs_to_generator(Frame* frame) { return frame->owner == FRAME_OWNED_BY_GENERATOR; }

void suspend_generator(PyThreadState* thread, Frame* frame, [[maybe_unused]] bool delegates) {
  PyGenObject* const generator = _PyFrame_GetGenerator(frame);
#if PY_VERSION_HEX >= 0x030D0000
  generator->gi_frame_state = delegates ? FRAME_SUSPENDED_YIELD_FROM : FRAME_SUSPENDED;
#else
  generator->gi_frame_state = FRAME_SUSPENDED;
#endif
  layout::leave_generator(thread, generator);
  frame->previous = nullptr;
}

#if PY_VERSION_HEX >= 0x030D0000

Ref awaitable_iterator(Borrowed value) { return Ref::steal(_PyCoro_GetAwaitableIter(value.get())); }

#else

namespace {

bool is_coroutine(PyObject* object) {
  if (PyCoro_CheckExact(object)) return true;
  if (!PyGen_CheckExact(object)) return false;
  return (layout::code(reinterpret_cast<PyGenObject*>(object))->co_flags & CO_ITERABLE_COROUTINE) != 0;
}

}  // namespace

Ref awaitable_iterator(Borrowed value) {
  PyObject* const object = value.get();
  if (is_coroutine(object)) return Ref::borrow(object);
  const PyAsyncMethods* const methods = Py_TYPE(object)->tp_as_async;
  if (!methods || !methods->am_await) {
    PyErr_Format(PyExc_TypeError, "object %.100s can't be used in 'await' expression", Py_TYPE(object)->tp_name);
    return Ref();
  }
  Ref iterator = Ref::steal(methods->am_await(object));
  if (!iterator) return iterator;
  if (is_coroutine(iterator.get())) {
    PyErr_SetString(PyExc_TypeError, "__await__() returned a coroutine");
    return Ref();
  }
  if (!PyIter_Check(iterator.get())) {
    PyErr_Format(PyExc_TypeError, "__await__() returned non-iterator of type '%.100s'", Py_TYPE(iterator.get())->tp_name);
    return Ref();
  }
  return iterator;
}

#endif

Ref awaited_by(Borrowed coroutine) {
  Ref awaited = Ref::steal(PyObject_GetAttrString(coroutine.get(), "cr_await"));
  return awaited && awaited.get() != Py_None ? std::move(awaited) : Ref();
}

}  // namespace evalframe::cpython
