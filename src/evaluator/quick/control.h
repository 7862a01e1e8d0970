// The usual case of jumps, loops and returns.
#pragma once

#include "evaluator/opcodes/control.h"
#include "evaluator/quick/calls.h"

namespace evalframe::evaluator {

EVALFRAME_QUICK(JUMP_FORWARD) {
  r.jump(i);
  return Outcome::kDone;
}
EVALFRAME_QUICK(JUMP_BACKWARD_NO_INTERRUPT) {
  r.jump(i);
  return Outcome::kDone;
}
EVALFRAME_QUICK(JUMP_BACKWARD) {
  if (r.breaker.is_set()) return Outcome::kHandOver;
  r.jump(i);
  return Outcome::kRan;
}

// 3.11 has conditional jumps that go back, where others get their turn.
EVALFRAME_INLINE inline bool must_service(const Registers& r, const Instruction& i) {
  return layout::k311 && r.instructions + i.target < &i && r.breaker.is_set();
}
// Of an object that has one without being asked; -1: it has to be asked.
EVALFRAME_INLINE inline int known_truth(PyObject* object) {
  if (object == Py_True) return 1;
  if (object == Py_False || object == Py_None) return 0;
  if (PyLong_CheckExact(object)) return !cpython::is_small_int(object) || cpython::small_int_value(object) != 0;
  if (PyUnicode_CheckExact(object)) return PyUnicode_GET_LENGTH(object) != 0;
  if (PyList_CheckExact(object)) return PyList_GET_SIZE(object) != 0;
  if (PyDict_CheckExact(object)) return PyDict_GET_SIZE(object) != 0;
  return -1;
}
// Jumps where the truth of the top entry is `wanted`. drop: it's taken off where it doesn't jump, and where it does.
EVALFRAME_INLINE inline Outcome jump_if(Registers& r, const Instruction& i, int truth, int wanted, bool drop_on_jump) {
  if (truth < 0 || must_service(r, i)) return Outcome::kHandOver;
  const bool drops = truth != wanted || drop_on_jump;
  if (truth == wanted) r.jump(i);
  return drops ? let_go(r.pop()) : Outcome::kDone;
}
EVALFRAME_QUICK(POP_JUMP_IF_FALSE) { return jump_if(r, i, known_truth(r.peek(1)), 0, true); }
EVALFRAME_QUICK(POP_JUMP_IF_TRUE) { return jump_if(r, i, known_truth(r.peek(1)), 1, true); }
EVALFRAME_QUICK(POP_JUMP_IF_NONE) { return jump_if(r, i, r.peek(1) == Py_None, 1, true); }
EVALFRAME_QUICK(POP_JUMP_IF_NOT_NONE) { return jump_if(r, i, r.peek(1) == Py_None, 0, true); }
EVALFRAME_QUICK(JUMP_IF_FALSE_OR_POP) { return jump_if(r, i, known_truth(r.peek(1)), 0, false); }
EVALFRAME_QUICK(JUMP_IF_TRUE_OR_POP) { return jump_if(r, i, known_truth(r.peek(1)), 1, false); }

EVALFRAME_QUICK(FOR_ITER) {
  PyObject* const iterator = r.peek(1);
  if (PyGen_CheckExact(iterator)) {
    r.callee = cpython::enter_generator(r.thread, iterator, cpython::new_ref(Py_None));
    if (r.callee.frame) return Outcome::kSwitched;
    cpython::decref(Py_None);
    return Outcome::kHandOver;
  }
  if (PyObject* const item = Py_TYPE(iterator)->tp_iternext(iterator)) {
    r.push(item);
    return Outcome::kRan;
  }
  if (PyErr_Occurred()) {
    if (!PyErr_ExceptionMatches(PyExc_StopIteration)) return Outcome::kRaised;
    PyErr_Clear();
  }
  r.drop(1);
  r.next = r.instructions + i.target + layout::kForIterSkip;
  return Outcome::kRan;
}
EVALFRAME_QUICK(END_FOR) {
  r.drop(layout::kEndForPops);
  return Outcome::kRan;
}

}  // namespace evalframe::evaluator
