// The usual case of calls and returns: a Python function gets its frame without a way through C.
#pragma once

#include "cpython/c_call.h"
#include "evaluator/opcodes/calls.h"
#include "evaluator/quick.h"
#include "evaluator/quick/attributes.h"

namespace evalframe::evaluator {

// The operands of a CALL have become its result.
EVALFRAME_INLINE inline Outcome finish_quick_call(Registers& r, PyObject* result) {
  if (!result) return Outcome::kRaised;
  r.push(result);
  return r.breaker.is_set() ? Outcome::kServe : Outcome::kRan;
}

// [..., self, arguments] are a method's: runs it, and consumes them. Null with an exception.
inline PyObject* call_entries_above(Activation& a, PyThreadState* thread, PyObject* function, PyObject** self, int count) {
  cpython::EnteredFrame entered;
  Ref held = Ref::borrow(function);
  if (Handlers::has_stack(a) && cpython::enter_call(thread, function, self, count, entered)) {
    (void)held.release();  // the frame has it
    return Handlers::run_entered(a, entered);
  }
  PyObject* const result = PyObject_Vectorcall(function, self, static_cast<size_t>(count), nullptr);
  while (count > 0) Py_DECREF(self[--count]);
  return result;
}
// A new instance of the class, which `initializer` has set up; takes over the arguments, and the class.
inline PyObject* new_instance(Activation& a, PyThreadState* thread, PyTypeObject* type, PyObject* initializer, PyObject** self, int count) {
  static PyObject* const nothing = PyTuple_New(0);
  Ref instance = Ref::steal(type->tp_new(type, nothing, nullptr));
  *self = Py_XNewRef(instance.get());
  const Ref held = Ref::steal(type);
  if (!instance) {
    while (count > 1) Py_DECREF(self[--count]);
    return nullptr;
  }
  const Ref result = Ref::steal(call_entries_above(a, thread, initializer, self, count));
  if (!result) return nullptr;
  if (result.get() == Py_None) return instance.release();
  PyErr_Format(PyExc_TypeError, "__init__() should return None, not '%.200s'", Py_TYPE(result.get())->tp_name);
  return nullptr;
}

EVALFRAME_LEARN(CALL) {
  PyObject* const callable = r.top[-i.arg - (layout::kSelfAfterCallable ? 2 : 1)];
  if (!callable || !PyType_Check(callable)) return;
  PlaceNote known(r.note(i));
  if (!known.wants_another()) return;
  auto* const type = reinterpret_cast<PyTypeObject*>(callable);
  PyObject* const initializer = cpython::initializer_of(type);
  known.set(initializer ? cpython::AttributePlace{cpython::AttributePlace::kOwner, type->tp_version_tag, 0, initializer} : cpython::AttributePlace{});
}
EVALFRAME_QUICK(CALL) {
  if (i.arg2 >= 0) return Outcome::kHandOver;
  PyObject** const arguments = r.top - i.arg;
  PyObject* const lower = arguments[-2];
  PyObject* const upper = arguments[-1];
  const bool has_self = (layout::kSelfAfterCallable ? upper : lower) != nullptr;
  PyObject* const callable = layout::kSelfAfterCallable || has_self ? lower : upper;
  if (PyFunction_Check(callable)) {
    cpython::EnteredFrame entered;
    if (!Handlers::has_stack(r.activation) || !cpython::enter_call(r.thread, callable, arguments - has_self, i.arg + has_self, entered)) {
      return Outcome::kHandOver;
    }
    r.top = arguments - 2;
    return finish_quick_call(r, Handlers::run_entered(r.activation, entered));
  }
  if (PyType_Check(callable)) {
    const PlaceNote known(r.note(i));
    auto* const type = reinterpret_cast<PyTypeObject*>(callable);
    if (known.kind() != cpython::AttributePlace::kOwner || type->tp_version_tag != known.version() || has_self) return Outcome::kHandOver;
    r.top = arguments - 2;
    return finish_quick_call(r, new_instance(r.activation, r.thread, type, known.value(), arguments - 1, i.arg + 1));
  }
  if (!PyCFunction_CheckExact(callable) && !Py_IS_TYPE(callable, &PyMethodDescr_Type)) return Outcome::kHandOver;
  const size_t count = static_cast<size_t>(i.arg + has_self);
  PyObject* const result = cpython::call_c(r.thread, callable, arguments - has_self, count | PY_VECTORCALL_ARGUMENTS_OFFSET, nullptr);
  r.drop(i.arg + 2);
  return finish_quick_call(r, result);
}

EVALFRAME_QUICK(RETURN_VALUE) {
  Handlers::set_result(r.activation, Ref::steal(r.pop()));
  return Outcome::kReturned;
}
EVALFRAME_QUICK(RETURN_CONST) {
  Handlers::set_result(r.activation, Ref::borrow(r.constants[i.arg]));
  return Outcome::kReturned;
}

}  // namespace evalframe::evaluator
