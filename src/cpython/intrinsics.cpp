// Intrinsic functions: through CPython's table where it is exported (3.13), else made of what is, or as lone instructions.
#define Py_BUILD_CORE 1
#include "cpython/intrinsics.h"

#include "core/check.h"
#include "cpython/layout.h"
#include "cpython/unseen_call.h"
#include "frame_layout.h"

#if PY_VERSION_HEX >= 0x030D0000
extern "C" {
#include "internal/pycore_intrinsics.h"
PyAPI_DATA(const intrinsic_func1_info) _PyIntrinsics_UnaryFunctions[];
PyAPI_DATA(const intrinsic_func2_info) _PyIntrinsics_BinaryFunctions[];
}
#elif PY_VERSION_HEX >= 0x030C0000
extern "C" PyAPI_FUNC(PyObject*) _PyExc_PrepReraiseStar(PyObject* original, PyObject* exceptions);
#endif

namespace evalframe::cpython {

#if PY_VERSION_HEX >= 0x030D0000

Ref unary_intrinsic(PyThreadState* thread, int id, Borrowed value) {
  CHECK(id > 0 && id <= MAX_INTRINSIC_1);
  return Ref::steal(_PyIntrinsics_UnaryFunctions[id].func(thread, value.get()));
}
Ref binary_intrinsic(PyThreadState* thread, int id, Borrowed first, Borrowed second) {
  CHECK(id > 0 && id <= MAX_INTRINSIC_2);
  return Ref::steal(_PyIntrinsics_BinaryFunctions[id].func(thread, first.get(), second.get()));
}
Ref prep_reraise_star(Borrowed original, Borrowed exceptions) {
  return binary_intrinsic(PyThreadState_Get(), INTRINSIC_PREP_RERAISE_STAR, original, exceptions);
}
Ref async_generator_value(Borrowed value) { return unary_intrinsic(PyThreadState_Get(), kAsyncGenWrap, value); }

#else

namespace {

// genobject.c's _PyAsyncGenWrappedValue. Its type is exported, the function that makes one is not.
struct WrappedValue {
  PyObject_HEAD
  PyObject* value;
};

[[maybe_unused]] const char* stop_iteration_text(int flags, PyObject* exception) {
  if (PyErr_GivenExceptionMatches(exception, PyExc_StopIteration)) {
    if (flags & CO_ASYNC_GENERATOR) return "async generator raised StopIteration";
    return flags & CO_COROUTINE ? "coroutine raised StopIteration" : "generator raised StopIteration";
  }
  const bool is_async_end = (flags & CO_ASYNC_GENERATOR) && PyErr_GivenExceptionMatches(exception, PyExc_StopAsyncIteration);
  return is_async_end ? "async generator raised StopAsyncIteration" : nullptr;
}

// StopIteration must not leave a generator, where it would look like its end.
[[maybe_unused]] Ref stop_iteration_error(int flags, PyObject* exception) {
  const char* const text = stop_iteration_text(flags, exception);
  if (!text) return Ref::borrow(exception);
  Ref error = Ref::steal(PyObject_CallFunction(PyExc_RuntimeError, "s", text));
  if (!error) return error;
  PyException_SetCause(error.get(), Py_NewRef(exception));
  PyException_SetContext(error.get(), Py_NewRef(exception));
  return error;
}

}  // namespace

Ref async_generator_value(Borrowed value) {
  WrappedValue* const wrapped = PyObject_GC_New(WrappedValue, &_PyAsyncGenWrappedValue_Type);
  if (!wrapped) return Ref();
  wrapped->value = Py_NewRef(value.get());
  PyObject_GC_Track(wrapped);
  return Ref::steal(wrapped);
}

#if PY_VERSION_HEX >= 0x030C0000

Ref unary_intrinsic(PyThreadState* thread, int id, Borrowed value) {
  if (id == kAsyncGenWrap) return async_generator_value(value);
  if (id == kStopIterationError) return stop_iteration_error(layout::code(layout::current(thread))->co_flags, value.get());
  return run_alone(thread, {bytecode::Op::CALL_INTRINSIC_1, id}, value, Borrowed());
}
Ref binary_intrinsic(PyThreadState* thread, int id, Borrowed first, Borrowed second) {
  if (id == kPrepReraiseStar) return prep_reraise_star(first, second);
  if (id != kSetFunctionTypeParameters) return run_alone(thread, {bytecode::Op::CALL_INTRINSIC_2, id}, first, second);
  const Ref before = Ref::steal(std::exchange(first.as<PyFunctionObject>()->func_typeparams, Py_NewRef(second.get())));
  return Ref::borrow(first);
}
Ref prep_reraise_star(Borrowed original, Borrowed exceptions) {
  return Ref::steal(_PyExc_PrepReraiseStar(original.get(), exceptions.get()));
}
#else
Ref unary_intrinsic(PyThreadState*, int, Borrowed) { CHECK(false); return Ref(); }
Ref binary_intrinsic(PyThreadState*, int, Borrowed, Borrowed) { CHECK(false); return Ref(); }
Ref prep_reraise_star(Borrowed original, Borrowed exceptions) {
  return run_alone(PyThreadState_Get(), {bytecode::Op::PREP_RERAISE_STAR, 0}, original, exceptions);
}
#endif
#endif

}  // namespace evalframe::cpython
