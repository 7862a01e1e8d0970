// The usual case of loading and storing variables and constants, and of shuffling the stack.
#pragma once

#include "cpython/versions.h"
#include "evaluator/quick.h"

namespace evalframe::evaluator {

EVALFRAME_QUICK(NOP) { return Outcome::kDone; }
EVALFRAME_QUICK(RESUME) { return (i.arg & 3) < 2 && r.breaker.is_set() ? Outcome::kHandOver : Outcome::kDone; }
EVALFRAME_QUICK(POP_TOP) { return let_go_if_any(r.pop()); }
EVALFRAME_QUICK(PUSH_NULL) {
  r.push(nullptr);
  return Outcome::kDone;
}
EVALFRAME_QUICK(COPY) {
  r.push(cpython::xnew_ref(r.peek(i.arg)));
  return Outcome::kDone;
}
EVALFRAME_QUICK(SWAP) {
  std::swap(r.peek(1), r.peek(i.arg));
  return Outcome::kDone;
}
EVALFRAME_QUICK(LOAD_CONST) {
  r.push(cpython::new_ref(r.constants[i.arg]));
  return Outcome::kDone;
}
EVALFRAME_QUICK(LOAD_FAST) {
  PyObject* const value = r.base()[i.arg];
  if (!value) return Outcome::kHandOver;
  r.push(cpython::new_ref(value));
  return Outcome::kDone;
}
EVALFRAME_QUICK(LOAD_FAST_CHECK) { return quick<bytecode::Op::LOAD_FAST>(r, i); }
EVALFRAME_QUICK(LOAD_CLOSURE) { return quick<bytecode::Op::LOAD_FAST>(r, i); }
EVALFRAME_QUICK(STORE_FAST) { return let_go_if_any(std::exchange(r.base()[i.arg], r.pop())); }
EVALFRAME_QUICK(LOAD_DEREF) {
  PyObject* const value = PyCell_GET(r.base()[i.arg]);
  if (!value) return Outcome::kHandOver;
  r.push(cpython::new_ref(value));
  return Outcome::kDone;
}
EVALFRAME_QUICK(STORE_DEREF) {
  PyObject* const cell = r.base()[i.arg];
  PyObject* const old = PyCell_GET(cell);
  PyCell_SET(cell, r.pop());
  cpython::xdecref(old);
  return Outcome::kRan;
}

// The note of a LOAD_GLOBAL tells the versions of both dicts, and what was found in them.
EVALFRAME_QUICK(LOAD_GLOBAL) {
  const bytecode::Note& known = r.note(i);
  const Borrowed globals = cpython::globals_of(r.frame), builtins = cpython::builtins_of(r.frame);
  if (!PyDict_CheckExact(globals.get()) || !PyDict_CheckExact(builtins.get())) return Outcome::kHandOver;
  if (known.first != cpython::dict_version(globals) || known.second != cpython::dict_version(builtins)) return Outcome::kHandOver;
  if (i.arg2 == 1 && !layout::kGlobalThenNull) r.push(nullptr);
  r.push(cpython::new_ref(known.value));
  if (i.arg2 == 1 && layout::kGlobalThenNull) r.push(nullptr);
  return Outcome::kDone;
}

}  // namespace evalframe::evaluator
