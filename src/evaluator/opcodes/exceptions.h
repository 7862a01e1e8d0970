// Instructions that raise and handle exceptions, and the with statement.
#pragma once

#include <optional>

#include "cpython/intrinsics.h"
#include "evaluator/handlers.h"

namespace evalframe::evaluator {

// An instance of the exception class or the instance itself; null with TypeError for anything else.
inline Ref exception_instance(PyObject* exception, const char* otherwise, bool checks_instance) {
  if (PyExceptionInstance_Check(exception)) return Ref::borrow(exception);
  if (!PyExceptionClass_Check(exception)) {
    PyErr_SetString(PyExc_TypeError, otherwise);
    return Ref();
  }
  Ref instance = Ref::steal(PyObject_CallNoArgs(exception));
  if (!instance || !checks_instance || PyExceptionInstance_Check(instance.get())) return instance;
  PyErr_Format(PyExc_TypeError, "calling %R should have returned an instance of BaseException, not %R", exception,
               Py_TYPE(instance.get()));
  return Ref();
}

inline Outcome Handlers::RAISE_VARARGS(Activation& a, const Instruction& i) {
  if (i.arg == 0) {
    Ref handled = cpython::handled_exception(thread(a));
    if (handled) {
      cpython::set_raised(std::move(handled));
      return Outcome::kReraised;
    }
    PyErr_SetString(PyExc_RuntimeError, "No active exception to reraise");
    return Outcome::kRaised;
  }
  PyObject* const cause = i.arg == 2 ? peek(a, 1) : nullptr;
  const Ref exception = exception_instance(peek(a, i.arg), "exceptions must derive from BaseException", true);
  if (!exception) return Outcome::kRaised;
  if (cause) {
    // Up to 3.12 a class may give anything as the cause.
    Ref instance = cause == Py_None ? Ref() : exception_instance(cause, "exception causes must derive from BaseException", layout::k313);
    if (!instance && cause != Py_None) return Outcome::kRaised;
    PyException_SetCause(exception.get(), instance.release());
  }
  PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(exception.get())), exception.get());
  return Outcome::kRaised;
}

inline Outcome Handlers::RERAISE(Activation& a, const Instruction& i) {
  if (i.arg) {
    PyObject* const lasti = peek(a, i.arg + 1);
    if (!PyLong_Check(lasti)) {
      PyErr_SetString(PyExc_SystemError, "lasti is not an int");
      return Outcome::kRaised;
    }
    set_running(a, static_cast<int>(PyLong_AsLong(lasti)));
  }
  cpython::set_raised(pop(a));
  return Outcome::kReraised;
}

inline Outcome Handlers::PUSH_EXC_INFO(Activation& a, const Instruction&) {
  Ref exception = pop(a);
  Ref outer = cpython::exchange_handled(thread(a), Ref::borrow(exception.get()));
  push(a, outer ? std::move(outer) : Ref::borrow(Py_None));
  push(a, std::move(exception));
  return Outcome::kDone;
}
inline Outcome Handlers::POP_EXCEPT(Activation& a, const Instruction&) {
  const Ref finished = cpython::exchange_handled(thread(a), pop(a));
  return Outcome::kRan;
}

inline bool is_exception_class(PyObject* object) { return PyExceptionClass_Check(object); }
inline bool can_be_caught(PyObject* classes) {
  if (!PyTuple_Check(classes)) return is_exception_class(classes);
  for (Py_ssize_t index = 0; index < PyTuple_GET_SIZE(classes); ++index) {
    if (!is_exception_class(PyTuple_GET_ITEM(classes, index))) return false;
  }
  return true;
}
inline Outcome Handlers::CHECK_EXC_MATCH(Activation& a, const Instruction&) {
  if (!can_be_caught(peek(a, 1))) {
    PyErr_SetString(PyExc_TypeError, "catching classes that do not inherit from BaseException is not allowed");
    return Outcome::kRaised;
  }
  const bool matches = PyErr_GivenExceptionMatches(peek(a, 2), peek(a, 1));
  return replace(a, 1, Py_NewRef(matches ? Py_True : Py_False));
}
// 1: except* may catch it; else an exception is set.
inline bool can_be_caught_in_part(PyObject* classes) {
  if (!can_be_caught(classes)) {
    PyErr_SetString(PyExc_TypeError, "catching classes that do not inherit from BaseException is not allowed");
    return false;
  }
  const bool several = PyTuple_Check(classes);
  for (Py_ssize_t index = 0; index < (several ? PyTuple_GET_SIZE(classes) : 1); ++index) {
    const int is_group = PyObject_IsSubclass(several ? PyTuple_GET_ITEM(classes, index) : classes, PyExc_BaseExceptionGroup);
    if (is_group == 0) continue;
    if (is_group > 0) PyErr_SetString(PyExc_TypeError, "catching ExceptionGroup with except* is not allowed. Use except instead.");
    return false;
  }
  return true;
}
// What of the exception is of the classes, and the rest of it; each None where there is nothing.
struct Division {
  Ref match, rest;
};
inline std::optional<Division> divide(PyObject* exception, PyObject* classes) {
  if (exception == Py_None) return Division{Ref::borrow(Py_None), Ref::borrow(Py_None)};
  const bool is_group = PyObject_TypeCheck(exception, reinterpret_cast<PyTypeObject*>(PyExc_BaseExceptionGroup));
  if (PyErr_GivenExceptionMatches(exception, classes)) {
    Ref match = is_group ? Ref::borrow(exception) : Ref::steal(PyObject_CallFunction(PyExc_BaseExceptionGroup, "s(O)", "", exception));
    if (!match) return std::nullopt;
    return Division{std::move(match), Ref::borrow(Py_None)};
  }
  if (!is_group) return Division{Ref::borrow(Py_None), Ref::borrow(exception)};
  const Ref pair = Ref::steal(PyObject_CallMethod(exception, "split", "(O)", classes));
  if (!pair) return std::nullopt;
  if (!PyTuple_CheckExact(pair.get()) || PyTuple_GET_SIZE(pair.get()) < 2) {
    PyErr_Format(PyExc_TypeError, "%.200s.split must return a 2-tuple", Py_TYPE(exception)->tp_name);
    return std::nullopt;
  }
  return Division{Ref::borrow(PyTuple_GET_ITEM(pair.get(), 0)), Ref::borrow(PyTuple_GET_ITEM(pair.get(), 1))};
}
// [exception, classes] -> [rest, match]
inline Outcome Handlers::CHECK_EG_MATCH(Activation& a, const Instruction&) {
  if (!can_be_caught_in_part(peek(a, 1))) return Outcome::kRaised;
  std::optional<Division> division = divide(peek(a, 2), peek(a, 1));
  if (!division) return Outcome::kRaised;
  const bool matches = division->match.get() != Py_None;
  Ref rest = matches || !layout::kUnmatchedGroupStays ? std::move(division->rest) : Ref::borrow(peek(a, 2));
  if (matches) const Ref outer = cpython::exchange_handled(thread(a), Ref::borrow(division->match.get()));
  drop(a, 2);
  push(a, std::move(rest));
  push(a, std::move(division->match));
  return Outcome::kRan;
}
// [exception, list of what handlers raised and left] -> the exception to raise, or None
inline Outcome Handlers::PREP_RERAISE_STAR(Activation& a, const Instruction&) {
  return replace(a, 2, cpython::prep_reraise_star(peek(a, 2), peek(a, 1)).release());
}

// The special method bound to `object`; null without an exception where its type has none.
inline Ref special_method(PyObject* object, const char* method_name) {
  const Ref name = Ref::steal(PyUnicode_InternFromString(method_name));
  PyObject* const found = name ? _PyType_Lookup(Py_TYPE(object), name.get()) : nullptr;
  if (!found) return Ref();
  const Ref keep = Ref::borrow(found);
  const descrgetfunc get = Py_TYPE(found)->tp_descr_get;
  return get ? Ref::steal(get(found, object, reinterpret_cast<PyObject*>(Py_TYPE(object)))) : Ref::borrow(found);
}
inline Outcome raise_no_context_manager(PyObject* manager, const char* format) {
  if (!PyErr_Occurred()) PyErr_Format(PyExc_TypeError, format, Py_TYPE(manager)->tp_name);
  return Outcome::kRaised;
}
// [manager] -> [its bound exit method, what its enter method gives]
inline Outcome Handlers::enter_context(Activation& a, const char* enter_name, const char* exit_name, const char* no_enter,
                                       const char* no_exit) {
  PyObject* const manager = peek(a, 1);
  const Ref enter = special_method(manager, enter_name);
  if (!enter) return raise_no_context_manager(manager, no_enter);
  Ref exit = special_method(manager, exit_name);
  if (!exit) return raise_no_context_manager(manager, no_exit);
  drop(a, 1);
  push(a, std::move(exit));
  return replace(a, 0, PyObject_CallNoArgs(enter.get()));
}
inline Outcome Handlers::BEFORE_WITH(Activation& a, const Instruction&) {
  return enter_context(a, "__enter__", "__exit__", "'%.200s' object does not support the context manager protocol",
                       "'%.200s' object does not support the context manager protocol (missed __exit__ method)");
}
// [exit, lasti, outer exception, exception] -> the same and exit's answer.
inline Outcome Handlers::WITH_EXCEPT_START(Activation& a, const Instruction&) {
  PyObject* const exception = peek(a, 1);
  const Ref traceback = Ref::steal(PyException_GetTraceback(exception));
  PyObject* arguments[] = {nullptr, reinterpret_cast<PyObject*>(Py_TYPE(exception)), exception, traceback ? traceback.get() : Py_None};
  PyObject* const answer = PyObject_Vectorcall(peek(a, 4), arguments + 1, 3 | PY_VECTORCALL_ARGUMENTS_OFFSET, nullptr);
  if (!answer) return Outcome::kRaised;
  push(a, answer);
  return Outcome::kRan;
}

}  // namespace evalframe::evaluator
