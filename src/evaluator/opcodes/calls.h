// Instructions that call and that make functions.
#pragma once

#include <vector>

#include "cpython/hook.h"
#include "evaluator/bind_arguments.h"
#include "evaluator/handlers.h"
#include "evaluator/opcodes/containers.h"

namespace evalframe::evaluator {

// Set while this thread's calls of Python functions stay in our evaluator.
inline thread_local bool deep_evaluation = false;

inline bool stays_in_our_evaluator(PyThreadState* thread, PyObject* callable) {
  return PyFunction_Check(callable) && (deep_evaluation || cpython::all_frames_are_taken(thread));
}
// CPython's evaluator enters Python functions itself, and their frames get the operands, where no hook is to see them.
inline bool gives_operands_away(PyThreadState* thread, PyObject* callable) {
  return PyFunction_Check(callable) && (stays_in_our_evaluator(thread, callable) || cpython::enters_functions(thread));
}
// The callee's frame with the arguments; null where CPython must make the call, or with an exception.
inline cpython::Frame* bound_frame(PyThreadState* thread, PyObject* function, PyObject* const* arguments, size_t count, PyObject* keyword_names) {
  cpython::Frame* const frame = cpython::push_frame(thread, function);
  if (!frame || bind_into(frame, function, arguments, count, keyword_names)) return frame;
  cpython::pop_frame(thread, frame);
  return nullptr;
}

// The result replaces `entries` operands, and then CPython lets others have their turn.
inline Outcome Handlers::finish(Activation& a, int entries, PyObject* result) {
  const Outcome outcome = replace(a, entries, result);
  return outcome == Outcome::kRaised ? outcome : service_breaker(a);
}

// The callee's frame has its arguments for itself: the operands go before it runs.
inline Outcome Handlers::run_bound(Activation& a, int entries, cpython::Frame* callee) {
  drop(a, entries);
  stand_in_call(a.running(), *a.current_);
  const bool is_ours = deep_evaluation || cpython::all_frames_are_taken(thread(a));
  return finish(a, 0, (is_ours ? evaluate(thread(a), callee) : cpython::run_in_cpython(thread(a), callee, false)).release());
}

// [NULL, bound method] -> [function, self], in the version's order.
inline void take_method_apart(PyObject*& lower, PyObject*& upper) {
  const Ref method = Ref::steal(layout::kSelfAfterCallable ? lower : upper);
  lower = Py_NewRef(PyMethod_GET_FUNCTION(method.get()));
  upper = Py_NewRef(PyMethod_GET_SELF(method.get()));
}
inline Outcome Handlers::call_entries(Activation& a, int count, PyObject* keyword_names, int above) {
  PyObject** const arguments = &peek(a, count + above);
  PyObject*& lower = arguments[-2];
  PyObject*& upper = arguments[-1];
  PyObject* const alone = !(layout::kSelfAfterCallable ? upper : lower) ? (layout::kSelfAfterCallable ? lower : upper) : nullptr;
  if (alone && PyMethod_Check(alone)) take_method_apart(lower, upper);
  const bool has_self = (layout::kSelfAfterCallable ? upper : lower) != nullptr;
  PyObject* const callable = layout::kSelfAfterCallable || has_self ? lower : upper;
  PyObject** const first = arguments - has_self;
  const size_t given = static_cast<size_t>(count) + has_self - (keyword_names ? static_cast<size_t>(PyTuple_GET_SIZE(keyword_names)) : 0);
  const int entries = count + 2 + above;
  const auto called_by_cpython = [&] { return cpython::call(thread(a), callable, first, given | PY_VECTORCALL_ARGUMENTS_OFFSET, keyword_names); };
  if (!gives_operands_away(thread(a), callable)) return finish(a, entries, called_by_cpython());
  cpython::Frame* const callee = cpython::push_frame(thread(a), callable);
  if (!callee) return Outcome::kRaised;
  if (bind_into(callee, callable, first, given, keyword_names)) return run_bound(a, entries, callee);
  // CPython knows why the arguments don't fit. Those that do are dropped last, as its frame has them.
  PyObject* const result = PyErr_Occurred() ? nullptr : called_by_cpython();
  const Outcome outcome = replace(a, entries, result);
  cpython::pop_frame(thread(a), callee);
  return outcome == Outcome::kRaised ? outcome : service_breaker(a);
}
inline Outcome Handlers::CALL(Activation& a, const Instruction& i) {
  return call_entries(a, i.arg, i.arg2 >= 0 ? constant(a, i.arg2) : nullptr, 0);
}
inline Outcome Handlers::CALL_KW(Activation& a, const Instruction& i) { return call_entries(a, i.arg, peek(a, 1), 1); }

// How error texts name a callable: "module.function()".
inline Outcome raise_about(PyObject* callable, const char* format, PyObject* detail) {
  PyErr_Clear();
  if (const Ref name = Ref::steal(_PyObject_FunctionStr(callable))) PyErr_Format(PyExc_TypeError, format, name.get(), detail);
  return Outcome::kRaised;
}
inline Outcome raise_about_type(PyObject* callable, const char* format, PyObject* argument) {
  PyErr_Clear();
  if (const Ref name = Ref::steal(_PyObject_FunctionStr(callable))) PyErr_Format(PyExc_TypeError, format, name.get(), Py_TYPE(argument)->tp_name);
  return Outcome::kRaised;
}
// Merging `keywords` into those of a call of `callable` has failed: says so in terms of the call.
inline Outcome keywords_refused(PyObject* callable, PyObject* keywords) {
  if (PyErr_ExceptionMatches(PyExc_AttributeError)) {
    return raise_about_type(callable, "%U argument after ** must be a mapping, not %.200s", keywords);
  }
  const Ref twice = cpython::take_refused_key();
  return twice ? raise_about(callable, "%U got multiple values for keyword argument '%S'", twice.get()) : Outcome::kRaised;
}
inline Outcome Handlers::DICT_MERGE(Activation& a, const Instruction& i) {
  constexpr int kRefuseDuplicates = 2;
  if (_PyDict_MergeEx(peek(a, i.arg + 1), peek(a, 1), kRefuseDuplicates) == 0) return consume(a, 1, true);
  // Below the keywords: the positional arguments, and (3.13: NULL and) the callable.
  return keywords_refused(peek(a, (layout::kCallExNullAfterCallable ? 4 : 3) + i.arg), peek(a, 1));
}
// As bound_frame, of a tuple and a dict or null.
inline cpython::Frame* frame_of_starred_call(PyThreadState* thread, PyObject* function, PyObject* arguments, PyObject* named) {
  const Py_ssize_t count = PyTuple_GET_SIZE(arguments);
  PyObject** const given = &PyTuple_GET_ITEM(arguments, 0);
  if (!named || PyDict_GET_SIZE(named) == 0) return bound_frame(thread, function, given, static_cast<size_t>(count), nullptr);
  std::vector<PyObject*> values(given, given + count);
  const Ref names = Ref::steal(PyTuple_New(PyDict_GET_SIZE(named)));
  if (!names) return nullptr;
  PyObject *name, *value;
  for (Py_ssize_t at = 0, index = 0; PyDict_Next(named, &at, &name, &value); ++index) {
    PyTuple_SET_ITEM(names.get(), index, Py_NewRef(name));
    values.push_back(value);
  }
  return bound_frame(thread, function, values.data(), static_cast<size_t>(count), names.get());
}
inline Outcome Handlers::CALL_FUNCTION_EX(Activation& a, const Instruction& i) {
  const int keywords = i.arg & 1;
  PyObject* const callable = peek(a, layout::kCallExNullAfterCallable ? 3 + keywords : 2 + keywords);
  if (keywords && !PyDict_CheckExact(peek(a, 1))) {
    Ref dict = Ref::steal(PyDict_New());
    if (!dict) return Outcome::kRaised;
    if (_PyDict_MergeEx(dict.get(), peek(a, 1), 2) < 0) return keywords_refused(callable, peek(a, 1));
    const Ref given = Ref::steal(std::exchange(peek(a, 1), dict.release()));
  }
  if (PyObject* const arguments = peek(a, 1 + keywords); !PyTuple_CheckExact(arguments)) {
    if (!looks_iterable(arguments)) return raise_about_type(callable, "%U argument after * must be an iterable, not %.200s", arguments);
    PyObject* const tuple = PySequence_Tuple(arguments);
    if (!tuple) return Outcome::kRaised;
    const Ref given = Ref::steal(std::exchange(peek(a, 1 + keywords), tuple));
  }
  PyObject* const named = keywords ? peek(a, 1) : nullptr;
  if (!layout::kStarredCallKeepsArguments && gives_operands_away(thread(a), callable)) {
    if (cpython::Frame* const callee = frame_of_starred_call(thread(a), callable, peek(a, 1 + keywords), named)) {
      return run_bound(a, 3 + keywords, callee);
    }
    if (PyErr_Occurred()) return Outcome::kRaised;
  }
  return finish(a, 3 + keywords, PyObject_Call(callable, peek(a, 1 + keywords), named));
}

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

}  // namespace evalframe::evaluator
