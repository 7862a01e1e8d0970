// Instructions of generators, coroutines and asynchronous generators.
#pragma once

#include "cpython/generators.h"
#include "cpython/intrinsics.h"
#include "evaluator/handlers.h"
#include "evaluator/opcodes/containers.h"
#include "evaluator/opcodes/exceptions.h"

namespace evalframe::evaluator {

// The generator object takes over what the frame has, whose rest runs when it's resumed.
inline Outcome Handlers::RETURN_GENERATOR(Activation& a, const Instruction&) {
  a.save();
  Ref generator = cpython::make_generator(thread(a), frame(a));
  if (!generator) {
    cpython::set_depth(frame(a), -1);
    return Outcome::kRaised;
  }
  a.stack_pointer_ = a.base();
  set_result(a, std::move(generator));
  return Outcome::kReturned;
}

inline Outcome Handlers::YIELD_VALUE(Activation& a, const Instruction& i) {
  set_result(a, pop(a));
  return suspend(a, i);
}

// [receiver, value] -> [receiver, what it yields]; or it has returned, and its result is left.
inline Outcome Handlers::SEND(Activation& a, const Instruction& i) {
  PyObject* sent = nullptr;
  const PySendResult outcome = PyIter_Send(peek(a, 2), peek(a, 1), &sent);
  if (outcome == PYGEN_ERROR) return Outcome::kRaised;
  if (outcome == PYGEN_NEXT) return replace(a, 1, sent);
  jump(a, i.target);
  drop(a, 1);
  return replace(a, layout::kSendPopsReceiver ? 1 : 0, sent);
}
inline Outcome Handlers::END_SEND(Activation& a, const Instruction&) {
  const Ref value = pop(a);
  return replace(a, 1, Py_NewRef(value.get()));
}

inline Outcome Handlers::GET_YIELD_FROM_ITER(Activation& a, const Instruction&) {
  PyObject* const iterable = peek(a, 1);
  if (PyCoro_CheckExact(iterable)) {
    if (code(a)->co_flags & (CO_COROUTINE | CO_ITERABLE_COROUTINE)) return Outcome::kDone;
    PyErr_SetString(PyExc_TypeError, "cannot 'yield from' a coroutine object in a non-coroutine generator");
    return Outcome::kRaised;
  }
  return PyGen_CheckExact(iterable) ? Outcome::kDone : replace(a, 1, PyObject_GetIter(iterable));
}

// What an `async with` got from __aenter__ (1) or __aexit__ (2) reads better named in the error.
inline void name_source_of_awaitable(PyObject* value, int source) {
  const PyAsyncMethods* const methods = Py_TYPE(value)->tp_as_async;
  if ((methods && methods->am_await) || source == 0) return;
  PyErr_Format(PyExc_TypeError,
               source == 1 ? "'async with' received an object from __aenter__ that does not implement __await__: %.100s"
                           : "'async with' received an object from __aexit__ that does not implement __await__: %.100s",
               Py_TYPE(value)->tp_name);
}
inline Outcome Handlers::GET_AWAITABLE(Activation& a, const Instruction& i) {
  Ref iterator = cpython::awaitable_iterator(peek(a, 1));
  if (!iterator) {
    name_source_of_awaitable(peek(a, 1), i.arg);
    return Outcome::kRaised;
  }
  if (PyCoro_CheckExact(iterator.get()) && cpython::awaited_by(iterator.get())) {
    PyErr_SetString(PyExc_RuntimeError, "coroutine is being awaited already");
    return Outcome::kRaised;
  }
  return replace(a, 1, iterator.release());
}
inline Outcome Handlers::GET_AITER(Activation& a, const Instruction&) {
  const PyAsyncMethods* methods = Py_TYPE(peek(a, 1))->tp_as_async;
  if (!methods || !methods->am_aiter) return raise_type_error("'async for' requires an object with __aiter__ method, got %.100s", peek(a, 1));
  Ref iterator = Ref::steal(methods->am_aiter(peek(a, 1)));
  if (!iterator) return Outcome::kRaised;
  methods = Py_TYPE(iterator.get())->tp_as_async;
  if (!methods || !methods->am_anext) {
    return raise_type_error("'async for' received an object from __aiter__ that does not implement __anext__: %.100s", iterator.get());
  }
  return replace(a, 1, iterator.release());
}
inline Outcome Handlers::GET_ANEXT(Activation& a, const Instruction&) {
  PyObject* const iterator = peek(a, 1);
  const PyAsyncMethods* const methods = Py_TYPE(iterator)->tp_as_async;
  if (!methods || !methods->am_anext) return raise_type_error("'async for' requires an iterator with __anext__ method, got %.100s", iterator);
  const Ref next = Ref::steal(methods->am_anext(iterator));
  if (!next || PyAsyncGen_CheckExact(iterator)) return replace(a, 0, Py_XNewRef(next.get()));
  Ref awaitable = cpython::awaitable_iterator(next.get());
  if (!awaitable) {
    _PyErr_FormatFromCause(PyExc_TypeError, "'async for' received an invalid object from __anext__: %.100s", Py_TYPE(next.get())->tp_name);
  }
  return replace(a, 0, awaitable.release());
}
// [iterator, exception]: the loop ends with StopAsyncIteration, another exception goes on.
inline Outcome Handlers::END_ASYNC_FOR(Activation& a, const Instruction&) {
  if (PyErr_GivenExceptionMatches(peek(a, 1), PyExc_StopAsyncIteration)) {
    drop(a, 2);
    return Outcome::kRan;
  }
  cpython::set_raised(pop(a));
  return Outcome::kReraised;
}
inline Outcome Handlers::ASYNC_GEN_WRAP(Activation& a, const Instruction&) {
  return replace(a, 1, cpython::async_generator_value(peek(a, 1)).release());
}
// [receiver, last value sent, exception] -> [None, result]: a receiver that was closed or thrown into has returned.
inline Outcome Handlers::CLEANUP_THROW(Activation& a, const Instruction&) {
  PyObject* const exception = peek(a, 1);
  if (!PyErr_GivenExceptionMatches(exception, PyExc_StopIteration)) {
    cpython::set_raised(Ref::borrow(exception));
    return Outcome::kReraised;
  }
  Ref value = Ref::borrow(reinterpret_cast<PyStopIterationObject*>(exception)->value);
  drop(a, 3);
  push(a, Ref::borrow(Py_None));
  push(a, std::move(value));
  return Outcome::kRan;
}

inline Outcome Handlers::BEFORE_ASYNC_WITH(Activation& a, const Instruction&) {
  return enter_context(a, "__aenter__", "__aexit__", "'%.200s' object does not support the asynchronous context manager protocol",
                       "'%.200s' object does not support the asynchronous context manager protocol (missed __aexit__ method)");
}

}  // namespace evalframe::evaluator
