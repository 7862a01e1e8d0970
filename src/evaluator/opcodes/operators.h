// Instructions that compute: operators, comparisons, subscripts, formatting.
#pragma once

#include "evaluator/handlers.h"
#include "evaluator/opcodes/numbers.h"

namespace evalframe::evaluator {

inline PyObject* new_bool(bool value) { return Py_NewRef(value ? Py_True : Py_False); }

inline Outcome Handlers::BINARY_OP(Activation& a, const Instruction& i) {
  PyObject* const left = peek(a, 2);
  PyObject* const right = peek(a, 1);
  if (PyObject* const result = number_result(i.arg, left, right)) return replace_quietly(a, 2, result);
  return PyErr_Occurred() ? Outcome::kRaised : replace(a, 2, bytecode::kBinaryFunctions[i.arg](left, right));
}
inline Outcome Handlers::UNARY_POSITIVE(Activation& a, const Instruction&) { return replace(a, 1, PyNumber_Positive(peek(a, 1))); }
inline Outcome Handlers::UNARY_NEGATIVE(Activation& a, const Instruction&) { return replace(a, 1, PyNumber_Negative(peek(a, 1))); }
inline Outcome Handlers::UNARY_INVERT(Activation& a, const Instruction&) { return replace(a, 1, PyNumber_Invert(peek(a, 1))); }
inline Outcome Handlers::UNARY_NOT(Activation& a, const Instruction&) {
  const int truth = PyObject_IsTrue(peek(a, 1));
  return truth < 0 ? Outcome::kRaised : replace(a, 1, new_bool(!truth));
}
inline Outcome Handlers::TO_BOOL(Activation& a, const Instruction&) {
  const int truth = PyObject_IsTrue(peek(a, 1));
  return truth < 0 ? Outcome::kRaised : replace(a, 1, new_bool(truth));
}
inline Outcome Handlers::COMPARE_OP(Activation& a, const Instruction& i) {
  if (const std::optional<bool> known = number_comparison(i.arg, peek(a, 2), peek(a, 1))) return replace_quietly(a, 2, new_bool(*known));
  PyObject* result = PyObject_RichCompare(peek(a, 2), peek(a, 1), i.arg);
  drop(a, 2);
  const bool as_bool = i.arg2 > 0 && (i.arg2 & layout::kCompareAsBool);
  if (result && as_bool && !PyBool_Check(result)) {
    const Ref other = Ref::steal(result);
    const int truth = PyObject_IsTrue(other.get());
    result = truth < 0 ? nullptr : new_bool(truth);
  }
  return replace(a, 0, result);
}
inline Outcome Handlers::IS_OP(Activation& a, const Instruction& i) {
  return replace(a, 2, new_bool((peek(a, 2) == peek(a, 1)) != (i.arg != 0)));
}
inline Outcome Handlers::CONTAINS_OP(Activation& a, const Instruction& i) {
  const int found = PySequence_Contains(peek(a, 1), peek(a, 2));
  return replace(a, 2, found < 0 ? nullptr : new_bool((found != 0) != (i.arg != 0)));
}

inline Outcome Handlers::BINARY_SUBSCR(Activation& a, const Instruction&) {
  if (PyObject** const item = item_at(peek(a, 2), peek(a, 1))) return replace(a, 2, Py_NewRef(*item));
  return replace(a, 2, PyObject_GetItem(peek(a, 2), peek(a, 1)));
}
inline Outcome Handlers::STORE_SUBSCR(Activation& a, const Instruction&) {
  PyObject** const item = PyList_CheckExact(peek(a, 2)) ? item_at(peek(a, 2), peek(a, 1)) : nullptr;
  if (!item) return consume(a, 3, PyObject_SetItem(peek(a, 2), peek(a, 1), peek(a, 3)) == 0);
  let_go(std::exchange(*item, Py_NewRef(peek(a, 3))));
  return consume(a, 3, true);
}
inline Outcome Handlers::DELETE_SUBSCR(Activation& a, const Instruction&) {
  return consume(a, 2, PyObject_DelItem(peek(a, 2), peek(a, 1)) == 0);
}
inline Ref Handlers::taken_slice(Activation& a) {
  Ref slice = Ref::steal(PySlice_New(peek(a, 2), peek(a, 1), nullptr));
  drop(a, 2);
  return slice;
}
inline Outcome Handlers::BINARY_SLICE(Activation& a, const Instruction&) {
  Ref slice = taken_slice(a);
  PyObject* const item = slice ? PyObject_GetItem(peek(a, 1), slice.get()) : nullptr;
  slice.reset();
  return replace(a, 1, item);
}
inline Outcome Handlers::STORE_SLICE(Activation& a, const Instruction&) {
  Ref slice = taken_slice(a);
  const bool stored = slice && PyObject_SetItem(peek(a, 1), slice.get(), peek(a, 2)) == 0;
  slice.reset();
  return consume(a, 2, stored);
}
inline Outcome Handlers::GET_LEN(Activation& a, const Instruction&) {
  const Py_ssize_t length = PyObject_Length(peek(a, 1));
  PyObject* const result = length < 0 ? nullptr : PyLong_FromSsize_t(length);
  if (!result) return Outcome::kRaised;
  push(a, result);
  return Outcome::kRan;
}

// `kind`: 0 as it is, 1 str, 2 repr, 3 ascii.
inline Ref converted(PyObject* value, int kind) {
  if (kind == 1) return Ref::steal(PyObject_Str(value));
  if (kind == 2) return Ref::steal(PyObject_Repr(value));
  if (kind == 3) return Ref::steal(PyObject_ASCII(value));
  return Ref::borrow(value);
}
inline PyObject* formatted(PyObject* value, PyObject* spec) {
  if (!spec && PyUnicode_CheckExact(value)) return Py_NewRef(value);
  return PyObject_Format(value, spec);
}
inline Outcome Handlers::FORMAT_VALUE(Activation& a, const Instruction& i) {
  const bool has_spec = i.arg & 4;
  const Ref value = converted(peek(a, 1 + has_spec), i.arg & 3);
  return replace(a, 1 + has_spec, value ? formatted(value.get(), has_spec ? peek(a, 1) : nullptr) : nullptr);
}
inline Outcome Handlers::CONVERT_VALUE(Activation& a, const Instruction& i) {
  return replace(a, 1, converted(peek(a, 1), i.arg).release());
}
inline Outcome Handlers::FORMAT_SIMPLE(Activation& a, const Instruction&) { return replace(a, 1, formatted(peek(a, 1), nullptr)); }
inline Outcome Handlers::FORMAT_WITH_SPEC(Activation& a, const Instruction&) {
  return replace(a, 2, PyObject_Format(peek(a, 2), peek(a, 1)));
}

}  // namespace evalframe::evaluator
