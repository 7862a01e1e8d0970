// Instructions that decide what runs next: jumps, loops and returns.
#pragma once

#include "evaluator/handlers.h"

namespace evalframe::evaluator {

// Loops are where signals, other threads and the GC get their turn.
#define EVALFRAME_JUMP_BACK(a, i)              \
  do {                                         \
    if (cpython::breaker_is_set(thread(a))) {  \
      handle_before(a, (i).target);            \
      return service_breaker(a);               \
    }                                          \
    return Outcome::kRan;                      \
  } while (false)

inline Outcome Handlers::JUMP_FORWARD(Activation& a, const Instruction& i) {
  jump(a, i.target);
  return Outcome::kDone;
}
inline Outcome Handlers::JUMP_BACKWARD(Activation& a, const Instruction& i) {
  jump(a, i.target);
  EVALFRAME_JUMP_BACK(a, i);
}
inline Outcome Handlers::JUMP_BACKWARD_NO_INTERRUPT(Activation& a, const Instruction& i) {
  jump(a, i.target);
  return Outcome::kDone;
}

// After the decision: 3.11 has conditional jumps that go back.
inline Outcome Handlers::branch(Activation& a, const Instruction& i, bool taken) {
  if (!taken) return Outcome::kRan;
  jump(a, i.target);
  if (!layout::k311 || !goes_back(a, i)) return Outcome::kRan;
  EVALFRAME_JUMP_BACK(a, i);
}
#undef EVALFRAME_JUMP_BACK

// The truth of the top entry, or -1 with an exception.
inline int truth_of(PyObject* object) {
  if (object == Py_True) return 1;
  if (object == Py_False) return 0;
  return PyObject_IsTrue(object);
}
inline Outcome Handlers::POP_JUMP_IF_FALSE(Activation& a, const Instruction& i) {
  const int truth = truth_of(peek(a, 1));
  if (truth < 0) return Outcome::kRaised;
  drop(a, 1);
  return branch(a, i, !truth);
}
inline Outcome Handlers::POP_JUMP_IF_TRUE(Activation& a, const Instruction& i) {
  const int truth = truth_of(peek(a, 1));
  if (truth < 0) return Outcome::kRaised;
  drop(a, 1);
  return branch(a, i, truth);
}
inline Outcome Handlers::POP_JUMP_IF_NONE(Activation& a, const Instruction& i) {
  const bool none = peek(a, 1) == Py_None;
  drop(a, 1);
  return branch(a, i, none);
}
inline Outcome Handlers::POP_JUMP_IF_NOT_NONE(Activation& a, const Instruction& i) {
  const bool none = peek(a, 1) == Py_None;
  drop(a, 1);
  return branch(a, i, !none);
}
inline Outcome Handlers::JUMP_IF_FALSE_OR_POP(Activation& a, const Instruction& i) {
  const int truth = truth_of(peek(a, 1));
  if (truth < 0) return Outcome::kRaised;
  if (truth) drop(a, 1);
  return branch(a, i, !truth);
}
inline Outcome Handlers::JUMP_IF_TRUE_OR_POP(Activation& a, const Instruction& i) {
  const int truth = truth_of(peek(a, 1));
  if (truth < 0) return Outcome::kRaised;
  if (!truth) drop(a, 1);
  return branch(a, i, truth);
}

inline Outcome Handlers::GET_ITER(Activation& a, const Instruction&) { return replace(a, 1, PyObject_GetIter(peek(a, 1))); }
inline Outcome Handlers::FOR_ITER(Activation& a, const Instruction& i) {
  PyObject* const iterator = peek(a, 1);
  PyObject* const item = Py_TYPE(iterator)->tp_iternext(iterator);
  if (item) {
    push(a, item);
    return Outcome::kRan;
  }
  if (PyErr_Occurred()) {
    if (!PyErr_ExceptionMatches(PyExc_StopIteration)) return Outcome::kRaised;
    PyErr_Clear();
  }
  drop(a, 1);
  jump(a, i.target + layout::kForIterSkip);
  return Outcome::kRan;
}
inline Outcome Handlers::END_FOR(Activation& a, const Instruction&) {
  drop(a, layout::kEndForPops);
  return Outcome::kRan;
}
inline Outcome Handlers::RETURN_VALUE(Activation& a, const Instruction&) {
  set_result(a, pop(a));
  return Outcome::kReturned;
}
inline Outcome Handlers::RETURN_CONST(Activation& a, const Instruction& i) {
  set_result(a, Ref::borrow(constant(a, i.arg)));
  return Outcome::kReturned;
}

}  // namespace evalframe::evaluator
