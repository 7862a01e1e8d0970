// The usual case of calls and returns: a Python function gets its frame without a way through C.
#pragma once

#include "evaluator/opcodes/calls.h"
#include "evaluator/quick.h"

namespace evalframe::evaluator {

// The operands of a CALL have become its result.
[[gnu::always_inline]] inline Outcome finish_quick_call(Registers& r, PyObject* result) {
  if (!result) return Outcome::kRaised;
  r.push(result);
  return r.breaker.is_set() ? Outcome::kServe : Outcome::kRan;
}

EVALFRAME_QUICK(CALL) {
  if (i.arg2 >= 0) return Outcome::kHandOver;
  PyObject** const arguments = r.top - i.arg;
  PyObject* const lower = arguments[-2];
  PyObject* const upper = arguments[-1];
  const bool has_self = (layout::kSelfAfterCallable ? upper : lower) != nullptr;
  PyObject* const callable = layout::kSelfAfterCallable || has_self ? lower : upper;
  if (PyFunction_Check(callable)) {
    cpython::EnteredCall entered;
    if (!Handlers::has_stack(r.activation) || !cpython::enter_call(r.thread, callable, arguments - has_self, i.arg + has_self, entered)) {
      return Outcome::kHandOver;
    }
    r.top = arguments - 2;
    return finish_quick_call(r, Handlers::run_entered(r.activation, entered));
  }
  if (!PyCFunction_CheckExact(callable) && !Py_IS_TYPE(callable, &PyMethodDescr_Type)) return Outcome::kHandOver;
  const size_t count = static_cast<size_t>(i.arg + has_self);
  PyObject* const result = PyObject_Vectorcall(callable, arguments - has_self, count | PY_VECTORCALL_ARGUMENTS_OFFSET, nullptr);
  if (!result) return Outcome::kRaised;
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
