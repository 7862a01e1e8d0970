// Instructions that call, that make functions, and that import.
#pragma once

#include "evaluator/bind_arguments.h"
#include "evaluator/handlers.h"

namespace evalframe::evaluator {

// Set while this thread's calls of Python functions stay in our evaluator.
inline thread_local bool deep_evaluation = false;

// Runs a Python function in our evaluator; nullopt where CPython must call it.
inline std::optional<Ref> evaluate_function(PyThreadState* thread, PyObject* function, PyObject* const* arguments,
                                            size_t count, PyObject* keyword_names) {
  cpython::Frame* const frame = cpython::push_frame(thread, function);
  if (!frame) return Ref();
  if (!bind_into(frame, function, arguments, count, keyword_names)) {
    cpython::pop_frame(thread, frame);
    if (PyErr_Occurred()) return Ref();
    return std::nullopt;
  }
  return evaluate(thread, frame);
}

inline PyObject* Handlers::call(Activation& a, PyObject* callable, PyObject** arguments, size_t count, PyObject* keyword_names) {
  if (deep_evaluation && PyFunction_Check(callable)) {
    std::optional<Ref> result = evaluate_function(thread(a), callable, arguments, count, keyword_names);
    if (result) return result->release();
  }
  return cpython::call(thread(a), callable, arguments, count | PY_VECTORCALL_ARGUMENTS_OFFSET, keyword_names);
}

// The result replaces `entries` operands, and then CPython lets others have their turn.
inline Outcome Handlers::finish(Activation& a, int entries, PyObject* result) {
  const Outcome outcome = replace(a, entries, result);
  return outcome == Outcome::kRaised ? outcome : service_breaker(a);
}

inline Outcome Handlers::call_entries(Activation& a, int count, PyObject* keyword_names, int above) {
  PyObject** const arguments = &peek(a, count + above);
  PyObject* const lower = arguments[-2];
  PyObject* const upper = arguments[-1];
  const bool has_self = (layout::kSelfAfterCallable ? upper : lower) != nullptr;
  PyObject* const callable = layout::kSelfAfterCallable || has_self ? lower : upper;
  const size_t keywords = keyword_names ? static_cast<size_t>(PyTuple_GET_SIZE(keyword_names)) : 0;
  PyObject* const result = call(a, callable, arguments - has_self, static_cast<size_t>(count) + has_self - keywords, keyword_names);
  return finish(a, count + 2 + above, result);
}
inline Outcome Handlers::CALL(Activation& a, const Instruction& i) {
  return call_entries(a, i.arg, i.arg2 >= 0 ? constant(a, i.arg2) : nullptr, 0);
}
inline Outcome Handlers::CALL_KW(Activation& a, const Instruction& i) { return call_entries(a, i.arg, peek(a, 1), 1); }

// The arguments must be a tuple and a dict, as they are but for objects that CPython converts, or refuses by name.
inline Outcome Handlers::CALL_FUNCTION_EX(Activation& a, const Instruction& i) {
  const int keywords = i.arg & 1;
  PyObject* const arguments = peek(a, 1 + keywords);
  if (!PyTuple_CheckExact(arguments)) return Outcome::kHandOver;
  PyObject* const callable = peek(a, layout::kCallExNullAfterCallable ? 3 + keywords : 2 + keywords);
  PyObject* const result = PyObject_Call(callable, arguments, keywords ? peek(a, 1) : nullptr);
  return finish(a, 3 + keywords, result);
}

// IDs of 3.12 and 3.13 (pycore_intrinsics.h); the rest is CPython's.
inline Outcome Handlers::CALL_INTRINSIC_1(Activation& a, const Instruction& i) {
  constexpr int kUnaryPositive = 5, kListToTuple = 6;
  if (i.arg == kUnaryPositive) return UNARY_POSITIVE(a, i);
  if (i.arg == kListToTuple) return LIST_TO_TUPLE(a, i);
  return Outcome::kHandOver;
}
inline Outcome Handlers::CALL_INTRINSIC_2(Activation&, const Instruction&) { return Outcome::kHandOver; }

// MAKE_FUNCTION's flags, also the argument of SET_FUNCTION_ATTRIBUTE. Stored as CPython stores them: no watcher is told.
inline PyObject** function_attribute(PyObject* function, int flag) {
  auto* const made = reinterpret_cast<PyFunctionObject*>(function);
  switch (flag) {
    case 1: return &made->func_defaults;
    case 2: return &made->func_kwdefaults;
    case 4: return &made->func_annotations;
    default: return &made->func_closure;
  }
}
inline Outcome Handlers::MAKE_FUNCTION(Activation& a, const Instruction& i) {
  const Ref made_from = pop(a);
  PyObject* const function = PyFunction_New(made_from.get(), cpython::globals_of(frame(a)).get());
  if (!function) return Outcome::kRaised;
  if (layout::kMakeFunctionTakesAttributes) {
    for (int flag = 8; flag > 0; flag >>= 1) {
      if (i.arg & flag) *function_attribute(function, flag) = pop_owned(a);
    }
  }
  push(a, function);
  return Outcome::kDone;
}
inline Outcome Handlers::SET_FUNCTION_ATTRIBUTE(Activation& a, const Instruction& i) {
  Ref function = pop(a);
  *function_attribute(function.get(), i.arg) = pop_owned(a);
  push(a, std::move(function));
  return Outcome::kDone;
}

inline Outcome Handlers::IMPORT_NAME(Activation& a, const Instruction& i) {
  PyObject* const builtins = cpython::builtins_of(frame(a)).get();
  PyObject* const found = PyDict_CheckExact(builtins) ? PyDict_GetItemString(builtins, "__import__") : nullptr;
  if (!found) return Outcome::kHandOver;
  const Ref import = Ref::borrow(found);
  PyObject* const locals = cpython::locals_dict_of(frame(a)).get();
  PyObject* arguments[] = {nullptr, name(a, i), cpython::globals_of(frame(a)).get(), locals ? locals : Py_None, peek(a, 1), peek(a, 2)};
  return replace(a, 2, PyObject_Vectorcall(import.get(), arguments + 1, 5 | PY_VECTORCALL_ARGUMENTS_OFFSET, nullptr));
}
// A name that the module has; looking further (submodules, the error's text) is CPython's.
inline Outcome Handlers::IMPORT_FROM(Activation& a, const Instruction& i) {
  PyObject* const module = peek(a, 1);
  if (!PyModule_CheckExact(module)) return Outcome::kHandOver;
  PyObject* const value = PyDict_GetItemWithError(PyModule_GetDict(module), name(a, i));
  if (!value) return PyErr_Occurred() ? Outcome::kRaised : Outcome::kHandOver;
  push(a, Py_NewRef(value));
  return Outcome::kRan;
}
inline Outcome Handlers::IMPORT_STAR(Activation&, const Instruction&) { return Outcome::kHandOver; }

}  // namespace evalframe::evaluator
