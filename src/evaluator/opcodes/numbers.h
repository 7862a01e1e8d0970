// Arithmetic and comparisons of floats and of ints of one digit, without a call through the number protocol.
#pragma once

#include <optional>

#include "bytecode/operators.h"
#include "cpython/small_int.h"

namespace evalframe::evaluator {

using bytecode::BinaryOp;

inline bool is_small_int(PyObject* object) { return PyLong_CheckExact(object) && cpython::is_small_int(object); }

// The value of a float or a small int, which a double holds exactly.
inline std::optional<double> small_number(PyObject* object) {
  if (PyFloat_CheckExact(object)) return PyFloat_AS_DOUBLE(object);
  if (is_small_int(object)) return static_cast<double>(cpython::small_int_value(object));
  return std::nullopt;
}

// Both of one digit: no result overflows. None where it isn't done here.
[[gnu::always_inline]] inline std::optional<int64_t> small_int_operation(BinaryOp op, int64_t left, int64_t right) {
  switch (op) {
    case BinaryOp::kAdd: return left + right;
    case BinaryOp::kSubtract: return left - right;
    case BinaryOp::kMultiply: return left * right;
    case BinaryOp::kAnd: return left & right;
    case BinaryOp::kOr: return left | right;
    case BinaryOp::kXor: return left ^ right;
    case BinaryOp::kRshift: return right >= 0 ? std::optional(left >> (right < 63 ? right : 63)) : std::nullopt;
    // C rounds to zero, Python down: the same where neither is negative.
    case BinaryOp::kFloorDivide: return left >= 0 && right > 0 ? std::optional(left / right) : std::nullopt;
    case BinaryOp::kRemainder: return left >= 0 && right > 0 ? std::optional(left % right) : std::nullopt;
    default: return std::nullopt;
  }
}
inline PyObject* float_result(BinaryOp op, double left, double right) {
  switch (op) {
    case BinaryOp::kAdd: return PyFloat_FromDouble(left + right);
    case BinaryOp::kSubtract: return PyFloat_FromDouble(left - right);
    case BinaryOp::kMultiply: return PyFloat_FromDouble(left * right);
    case BinaryOp::kTrueDivide: return right != 0.0 ? PyFloat_FromDouble(left / right) : nullptr;
    default: return nullptr;
  }
}

// The result of an operator on two plain numbers; null without an exception where the number protocol is to be asked.
inline PyObject* number_result(int operation, PyObject* left, PyObject* right) {
  const BinaryOp op = bytecode::binary_op(operation);
  if (is_small_int(left) && is_small_int(right)) {
    const std::optional<int64_t> value = small_int_operation(op, cpython::small_int_value(left), cpython::small_int_value(right));
    return value ? PyLong_FromLongLong(*value) : nullptr;
  }
  if (!PyFloat_CheckExact(left) && !PyFloat_CheckExact(right)) return nullptr;
  const std::optional<double> first = small_number(left), second = small_number(right);
  return first && second ? float_result(op, *first, *second) : nullptr;
}

template <class Number>
[[gnu::always_inline]] inline bool compare(int operation, Number left, Number right) {
  switch (operation) {
    case Py_LT: return left < right;
    case Py_LE: return left <= right;
    case Py_EQ: return left == right;
    case Py_NE: return left != right;
    case Py_GT: return left > right;
    default: return left >= right;
  }
}
// The answer for two plain numbers, or none where they aren't.
[[gnu::always_inline]] inline std::optional<bool> number_comparison(int operation, PyObject* left, PyObject* right) {
  if (is_small_int(left) && is_small_int(right)) {
    return compare(operation, cpython::small_int_value(left), cpython::small_int_value(right));
  }
  if (!PyFloat_CheckExact(left) && !PyFloat_CheckExact(right)) return std::nullopt;
  const std::optional<double> first = small_number(left), second = small_number(right);
  return first && second ? std::optional(compare(operation, *first, *second)) : std::nullopt;
}

// The item of an exact list or tuple at a small int that isn't negative and within; null where it isn't that.
inline PyObject** item_at(PyObject* sequence, PyObject* index) {
  if (!is_small_int(index)) return nullptr;
  const int64_t at = cpython::small_int_value(index);
  if (PyList_CheckExact(sequence)) {
    return at >= 0 && at < PyList_GET_SIZE(sequence) ? &reinterpret_cast<PyListObject*>(sequence)->ob_item[at] : nullptr;
  }
  if (!PyTuple_CheckExact(sequence)) return nullptr;
  return at >= 0 && at < PyTuple_GET_SIZE(sequence) ? &reinterpret_cast<PyTupleObject*>(sequence)->ob_item[at] : nullptr;
}

}  // namespace evalframe::evaluator
