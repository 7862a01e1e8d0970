// Generators' frames: suspending, finishing, and finding what they wait for.
#define Py_BUILD_CORE 1
#include "cpython/generators.h"

#include <cstring>
#include <utility>

#include "cpython/objects.h"
#include "frame_layout.h"

#if PY_VERSION_HEX >= 0x030D0000
extern "C" {
#include "internal/pycore_genobject.h"
PyAPI_FUNC(PyObject*) _PyCoro_GetAwaitableIter(PyObject* value);
}
#endif

namespace evalframe::cpython {

namespace {

// The innermost `depth` frames that called it as (file, line, function). Its own frame hasn't come to its first line.
Ref origin_of_coroutine(PyThreadState* thread, int depth) {
  const Ref entries = Ref::steal(PyList_New(0));
  if (!entries) return Ref();
  for (Ref frame = frame_object(thread); frame && depth > 0; --depth) {
    auto* const object = frame.as<PyFrameObject>();
    const Ref code = Ref::steal(PyFrame_GetCode(object));
    auto* const fields = code.as<PyCodeObject>();
    const Ref entry = Ref::steal(Py_BuildValue("OiO", fields->co_filename, PyFrame_GetLineNumber(object), fields->co_name));
    if (!entry || PyList_Append(entries.get(), entry.get()) < 0) return Ref();
    frame = Ref::steal(PyFrame_GetBack(object));
  }
  return Ref::steal(PyList_AsTuple(entries.get()));
}

}  // namespace

Ref make_generator(PyThreadState* thread, Frame* frame) {
  PyCodeObject* const code = layout::code(frame);
  PyFunctionObject* const function = layout::function(frame);
  const int kind = code->co_flags & (CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR);
  PyTypeObject* const type = kind == CO_GENERATOR ? &PyGen_Type : kind == CO_ASYNC_GENERATOR ? &PyAsyncGen_Type : &PyCoro_Type;
  const int tracked = type == &PyCoro_Type ? thread->coroutine_origin_tracking_depth : 0;
  Ref origin = tracked ? origin_of_coroutine(thread, tracked) : Ref();
  if (tracked && !origin) return Ref();
  const auto slot_count = static_cast<Py_ssize_t>(layout::frame_size(code) - FRAME_SPECIALS_SIZE);
  PyGenObject* const generator = PyObject_GC_NewVar(PyGenObject, type, slot_count);
  if (!generator) return Ref();
#if PY_VERSION_HEX < 0x030C0000
  generator->gi_code = reinterpret_cast<PyCodeObject*>(Py_NewRef(code));
#endif
  generator->gi_weakreflist = nullptr;
  generator->gi_name = Py_NewRef(function->func_name);
  generator->gi_qualname = Py_NewRef(function->func_qualname);
  generator->gi_exc_state = {};
  generator->gi_origin_or_finalizer = origin.release();
  generator->gi_hooks_inited = generator->gi_closed = generator->gi_running_async = 0;
  auto* const moved = reinterpret_cast<Frame*>(generator->gi_iframe);
  const auto* const end = reinterpret_cast<char*>(&frame->localsplus[frame->stacktop]);
  memcpy(static_cast<void*>(moved), frame, static_cast<size_t>(end - reinterpret_cast<char*>(frame)));
  moved->previous = nullptr;
  moved->owner = FRAME_OWNED_BY_GENERATOR;
  generator->gi_frame_state = FRAME_CREATED;
  PyObject_GC_Track(generator);
  if (moved->frame_obj) moved->frame_obj->f_frame = moved;
  // Code and function are the generator's frame's; who drops this one wants them, too.
  frame->stacktop = 0;
  frame->f_locals = nullptr;
  frame->frame_obj = nullptr;
  Py_INCREF(code);
  Py_INCREF(function);
  return Ref::steal(generator);
}

void suspend_generator(PyThreadState* thread, Frame* frame, [[maybe_unused]] bool delegates) {
  PyGenObject* const generator = _PyFrame_GetGenerator(frame);
#if PY_VERSION_HEX >= 0x030D0000
  generator->gi_frame_state = delegates ? FRAME_SUSPENDED_YIELD_FROM : FRAME_SUSPENDED;
#else
  generator->gi_frame_state = FRAME_SUSPENDED;
#endif
  layout::leave_generator(thread, generator);
  // On 3.11 whoever resumed it has yet to compare it with the current frame.
  if (layout::kCalleeClears) frame->previous = nullptr;
}

bool is_suspended(Borrowed generator) {
  const int state = generator.as<PyGenObject>()->gi_frame_state;
#if PY_VERSION_HEX >= 0x030D0000
  if (state == FRAME_SUSPENDED_YIELD_FROM) return true;
#endif
  return state == FRAME_SUSPENDED;
}

// As gen_send_ex2 of Objects/genobject.c does.
void stop_generator([[maybe_unused]] PyThreadState* thread, [[maybe_unused]] Frame* frame) {
#if PY_VERSION_HEX < 0x030C0000
  PyGenObject* const generator = _PyFrame_GetGenerator(frame);
  if (generator->gi_frame_state == FRAME_EXECUTING) generator->gi_frame_state = FRAME_COMPLETED;
  thread->exc_info = std::exchange(generator->gi_exc_state.previous_item, nullptr);
  frame->previous = nullptr;
  if (generator->gi_frame_state == FRAME_SUSPENDED) return;
  if (PyErr_Occurred() && PyErr_ExceptionMatches(PyExc_StopIteration)) {
    _PyErr_FormatFromCause(PyExc_RuntimeError, PyCoro_CheckExact(generator) ? "coroutine raised StopIteration" : "generator raised StopIteration");
  }
  Py_CLEAR(generator->gi_exc_state.exc_value);
  generator->gi_frame_state = FRAME_CLEARED;
  clear_generator_frame(thread, frame);
#endif
}

Frame* frame_of(Borrowed generator) { return reinterpret_cast<Frame*>(generator.as<PyGenObject>()->gi_iframe); }

Borrowed generator_of(Frame* frame) { return Borrowed(reinterpret_cast<PyObject*>(_PyFrame_GetGenerator(frame))); }

Frame* resume_generator(PyThreadState* thread, Borrowed object, Ref sent) {
  auto* const generator = object.as<PyGenObject>();
  Frame* const frame = frame_of(object);
  if (sent) frame->localsplus[frame->stacktop++] = sent.release();
  generator->gi_exc_state.previous_item = thread->exc_info;
  thread->exc_info = &generator->gi_exc_state;
  generator->gi_frame_state = FRAME_EXECUTING;
  return frame;
}

void leave_suspended_frame(PyThreadState* thread, Frame* frame, bool delegates) {
  suspend_generator(thread, frame, delegates);
  if (!layout::kCalleeClears) stop_generator(thread, frame);
}

void leave_finished_frame(PyThreadState* thread, Frame* frame) {
  pop_frame(thread, frame);
  if (!layout::kCalleeClears) stop_generator(thread, frame);
}

Ref run_generator_in_cpython(PyThreadState* thread, Frame* frame, bool raise, bool& yielded) {
  const Ref generator = Ref::borrow(_PyFrame_GetGenerator(frame));
  Ref result = run_in_cpython_in_place(thread, frame, raise);
  yielded = result && is_suspended(generator.get());
  if (!layout::kCalleeClears) stop_generator(thread, frame);
  return result;
}

Ref bare_generator(PyThreadState* thread, Borrowed function) {
  Frame* const frame = push_frame(thread, function);
  if (!frame) return Ref();
  const auto variables = static_cast<size_t>(layout::code(frame)->co_nlocalsplus);
  const size_t slot_count = layout::frame_size(layout::code(frame)) - FRAME_SPECIALS_SIZE;
  set_next(frame, 0, static_cast<int>(variables));
  Ref generator = make_generator(thread, frame);
  pop_frame(thread, frame);
  if (generator) memset(static_cast<void*>(slot_base(frame_of(generator.get())) + variables), 0, (slot_count - variables) * sizeof(PyObject*));
  return generator;
}

void suspend_bare_generator(Borrowed object, int unit, int depth, [[maybe_unused]] bool delegates) {
  auto* const generator = object.as<PyGenObject>();
  set_next(frame_of(object), unit, depth);
#if PY_VERSION_HEX >= 0x030D0000
  generator->gi_frame_state = delegates ? FRAME_SUSPENDED_YIELD_FROM : FRAME_SUSPENDED;
#else
  generator->gi_frame_state = FRAME_SUSPENDED;
#endif
}

void set_generator_handled(Borrowed generator, Ref exception) {
  if (exception.get() == Py_None) exception.reset();
  const Ref old = Ref::steal(std::exchange(generator.as<PyGenObject>()->gi_exc_state.exc_value, exception.release()));
}

Ref frame_object_of_generator(Borrowed generator) {
  return Ref::steal(PyObject_GetAttrString(generator.get(), PyCoro_CheckExact(generator.get()) ? "cr_frame" : "gi_frame"));
}

bool end_bare_generator(Borrowed generator) { return static_cast<bool>(Ref::steal(PyObject_CallMethod(generator.get(), "close", nullptr))); }

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

void set_stop_iteration(Ref result) {
  if (result.get() == Py_None) return PyErr_SetNone(PyExc_StopIteration);
  const Ref exception = Ref::steal(PyObject_CallOneArg(PyExc_StopIteration, result.get()));
  if (exception) PyErr_SetObject(PyExc_StopIteration, exception.get());
}

// As gen_close of Objects/genobject.c goes on.
Ref close_with(PyThreadState* thread, Borrowed generator, Ref exception) {
  if (!is_suspended(generator)) return PyErr_SetString(PyExc_ValueError, "generator already executing"), Ref();
  Frame* const frame = resume_generator(thread, generator, Ref::borrow(Py_None));
  set_thrown(generator, std::move(exception));
  bool yielded = false;
  Ref result = run_generator_in_cpython(thread, frame, true, yielded);
  if (yielded) return PyErr_Format(PyExc_RuntimeError, "%s ignored GeneratorExit", PyCoro_CheckExact(generator.get()) ? "coroutine" : "generator"), Ref();
  if (result) return layout::kCloseGivesResult ? std::move(result) : Ref::borrow(Py_None);
  if (!PyErr_ExceptionMatches(PyExc_StopIteration) && !PyErr_ExceptionMatches(PyExc_GeneratorExit)) return Ref();
  PyErr_Clear();
  return Ref::borrow(Py_None);
}

// What the generator handles is the context, and nothing else is.
void set_thrown(Borrowed generator, Ref exception) {
  PyObject* const handled = generator.as<PyGenObject>()->gi_exc_state.exc_value;
  if (!handled || handled == Py_None) return set_raised(std::move(exception));
  PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(exception.get())), exception.get());
}

Ref awaited_by(Borrowed generator) {
  Ref awaited = Ref::steal(PyObject_GetAttrString(generator.get(), PyCoro_CheckExact(generator.get()) ? "cr_await" : "gi_yieldfrom"));
  return awaited && awaited.get() != Py_None ? std::move(awaited) : Ref();
}

}  // namespace evalframe::cpython
