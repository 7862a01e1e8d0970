// The usual case of operators, comparisons and subscripts: of plain numbers, text, lists, tuples and dicts.
#pragma once

#include "evaluator/opcodes/numbers.h"
#include "evaluator/opcodes/operators.h"
#include "evaluator/quick.h"

namespace evalframe::evaluator {

// A float that only the stack holds is given the result: no one else can see it.
EVALFRAME_INLINE inline bool reuse_float(Registers& r, double value) {
  PyObject* const left = r.peek(2);
  PyObject* const right = r.peek(1);
  if (PyFloat_CheckExact(left) && cpython::has_one_reference(left)) {
    reinterpret_cast<PyFloatObject*>(left)->ob_fval = value;
    r.drop(1);
    return true;
  }
  if (!PyFloat_CheckExact(right) || !cpython::has_one_reference(right)) return false;
  reinterpret_cast<PyFloatObject*>(right)->ob_fval = value;
  std::swap(r.peek(1), r.peek(2));
  r.drop(1);
  return true;
}
EVALFRAME_INLINE inline Outcome quick_float(Registers& r, double value) {
  if (reuse_float(r, value)) return Outcome::kDone;
  PyObject* const result = PyFloat_FromDouble(value);
  if (!result) return Outcome::kRaised;
  r.replace(2, result);
  return Outcome::kDone;
}
// The same of an int of one digit.
EVALFRAME_INLINE inline bool reuse_int(Registers& r, int64_t value) {
  if (!cpython::is_own_small_int(value)) return false;
  if (cpython::has_one_reference(r.peek(2))) {
    cpython::set_small_int(r.peek(2), value);
  } else if (cpython::has_one_reference(r.peek(1))) {
    cpython::set_small_int(r.peek(1), value);
    std::swap(r.peek(1), r.peek(2));
  } else {
    return false;
  }
  r.drop(1);
  return true;
}
EVALFRAME_INLINE inline Outcome quick_int(Registers& r, int64_t value) {
  if (reuse_int(r, value)) return Outcome::kDone;
  PyObject* const result = PyLong_FromLongLong(value);
  if (!result) return Outcome::kRaised;
  r.replace(2, result);
  return Outcome::kDone;
}

// `text += more` where the variable is the text's only other holder: it grows in its place.
EVALFRAME_INLINE inline Outcome append_text(Registers& r) {
  PyObject* const left = r.peek(2);
  if (r.next->op != bytecode::Op::STORE_FAST || r.base()[r.next->arg] != left) return Outcome::kHandOver;
  r.base()[r.next->arg] = nullptr;
  cpython::decref(left);
  PyUnicode_Append(&r.peek(2), r.peek(1));
  PyObject* const result = r.peek(2);
  if (!result) return Outcome::kRaised;
  r.drop(1);
  return Outcome::kDone;
}

EVALFRAME_QUICK(BINARY_OP) {
  PyObject* const left = r.peek(2);
  PyObject* const right = r.peek(1);
  const BinaryOp op = bytecode::binary_op(i.arg);
  if (PyFloat_CheckExact(left) && PyFloat_CheckExact(right)) {
    const double first = PyFloat_AS_DOUBLE(left), second = PyFloat_AS_DOUBLE(right);
    if (op == BinaryOp::kAdd) return quick_float(r, first + second);
    if (op == BinaryOp::kMultiply) return quick_float(r, first * second);
    if (op == BinaryOp::kSubtract) return quick_float(r, first - second);
    if (op == BinaryOp::kTrueDivide && second != 0.0) return quick_float(r, first / second);
    return Outcome::kHandOver;
  }
  if (is_small_int(left) && is_small_int(right)) {
    const auto value = small_int_operation(op, cpython::small_int_value(left), cpython::small_int_value(right));
    return value ? quick_int(r, *value) : Outcome::kHandOver;
  }
  if (op == BinaryOp::kAdd && PyUnicode_CheckExact(left) && PyUnicode_CheckExact(right)) return append_text(r);
  PyObject* const result = number_result(i.arg, left, right);
  if (!result) return PyErr_Occurred() ? Outcome::kRaised : Outcome::kHandOver;
  r.replace(2, result);
  return Outcome::kDone;
}

// The answer of a comparison is mostly what the jump behind it wants to know: both are done in one.
EVALFRAME_INLINE inline Outcome answer(Registers& r, bool truth) {
  const Instruction& then = *r.next;
  const bool jumps_if_false = then.op == bytecode::Op::POP_JUMP_IF_FALSE;
  if ((!jumps_if_false && then.op != bytecode::Op::POP_JUMP_IF_TRUE) || must_service(r, then)) {
    r.push(new_bool(truth));
    return Outcome::kDone;
  }
  r.next = truth != jumps_if_false ? r.instructions + then.target : r.next + 1;
  return Outcome::kDone;
}
EVALFRAME_QUICK(COMPARE_OP) {
  PyObject* const left = r.peek(2);
  PyObject* const right = r.peek(1);
  if (const std::optional<bool> known = number_comparison(i.arg, left, right)) {
    r.drop(2);
    return answer(r, *known);
  }
  if (!PyUnicode_CheckExact(left) || !PyUnicode_CheckExact(right)) return Outcome::kHandOver;
  const Ref result = Ref::steal(PyUnicode_RichCompare(left, right, i.arg));
  if (!result) return Outcome::kRaised;
  r.drop(2);
  return answer(r, result.get() == Py_True);
}
EVALFRAME_QUICK(IS_OP) {
  PyObject* const second = r.pop();
  PyObject* const first = r.pop();
  const bool same = first == second;
  const Outcome left = let_go(first), right = let_go(second);
  if (right == Outcome::kDone && left == Outcome::kDone) return answer(r, same != (i.arg != 0));
  r.push(new_bool(same != (i.arg != 0)));
  return Outcome::kRan;
}
EVALFRAME_QUICK(CONTAINS_OP) {
  PyObject* const container = r.peek(1);
  if (!PyDict_CheckExact(container) && !PyUnicode_CheckExact(container) && !PyTuple_CheckExact(container)) return Outcome::kHandOver;
  const int found = PySequence_Contains(container, r.peek(2));
  if (found < 0) return Outcome::kRaised;
  r.replace(2, new_bool((found != 0) != (i.arg != 0)));
  return Outcome::kRan;
}
EVALFRAME_QUICK(UNARY_NOT) {
  const int truth = known_truth(r.peek(1));
  if (truth < 0) return Outcome::kHandOver;
  return let_go(std::exchange(r.peek(1), new_bool(!truth)));
}
EVALFRAME_QUICK(TO_BOOL) {
  const int truth = known_truth(r.peek(1));
  if (truth < 0) return Outcome::kHandOver;
  return let_go(std::exchange(r.peek(1), new_bool(truth)));
}

EVALFRAME_QUICK(BINARY_SUBSCR) {
  PyObject* const container = r.peek(2);
  if (PyObject** const item = item_at(container, r.peek(1))) {
    r.replace(2, cpython::new_ref(*item));
    return Outcome::kRan;
  }
  if (!PyDict_CheckExact(container)) return Outcome::kHandOver;
  PyObject* const value = PyDict_GetItemWithError(container, r.peek(1));
  if (!value) {
    if (!PyErr_Occurred()) _PyErr_SetKeyError(r.peek(1));
    return Outcome::kRaised;
  }
  r.replace(2, cpython::new_ref(value));
  return Outcome::kRan;
}
EVALFRAME_QUICK(STORE_SUBSCR) {
  PyObject* const container = r.peek(2);
  if (PyDict_CheckExact(container)) {
    if (PyDict_SetItem(container, r.peek(1), r.peek(3)) < 0) return Outcome::kRaised;
    r.drop(3);
    return Outcome::kRan;
  }
  PyObject** const item = PyList_CheckExact(container) ? item_at(container, r.peek(1)) : nullptr;
  if (!item) return Outcome::kHandOver;
  let_go(std::exchange(*item, cpython::new_ref(r.peek(3))));
  r.drop(3);
  return Outcome::kRan;
}
EVALFRAME_QUICK(LIST_APPEND) {
  if (PyList_Append(r.peek(i.arg + 1), r.peek(1)) < 0) return Outcome::kRaised;
  r.drop(1);
  return Outcome::kDone;
}
EVALFRAME_QUICK(BUILD_TUPLE) {
  PyObject* const tuple = PyTuple_New(i.arg);
  if (!tuple) return Outcome::kRaised;
  for (int index = i.arg; index-- > 0;) PyTuple_SET_ITEM(tuple, index, r.pop());
  r.push(tuple);
  return Outcome::kDone;
}
EVALFRAME_QUICK(UNPACK_SEQUENCE) {
  PyObject* const source = r.peek(1);
  if (!PyTuple_CheckExact(source) || PyTuple_GET_SIZE(source) != i.arg) return Outcome::kHandOver;
  r.pop();
  for (int index = i.arg; index-- > 0;) r.push(cpython::new_ref(PyTuple_GET_ITEM(source, index)));
  cpython::decref(source);
  return Outcome::kRan;
}

}  // namespace evalframe::evaluator
