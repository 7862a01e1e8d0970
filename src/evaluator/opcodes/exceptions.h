// Instructions that raise and handle exceptions, and the with statement.
#pragma once

#include "evaluator/handlers.h"

namespace evalframe::evaluator {

// An instance of the exception class or the instance itself; null with TypeError for anything else.
inline Ref exception_instance(PyObject* exception, const char* otherwise) {
  if (PyExceptionInstance_Check(exception)) return Ref::borrow(exception);
  if (!PyExceptionClass_Check(exception)) {
    PyErr_SetString(PyExc_TypeError, otherwise);
    return Ref();
  }
  Ref instance = Ref::steal(PyObject_CallNoArgs(exception));
  if (!instance || PyExceptionInstance_Check(instance.get())) return instance;
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
  const Ref exception = exception_instance(peek(a, i.arg), "exceptions must derive from BaseException");
  if (!exception) return Outcome::kRaised;
  if (cause) {
    Ref instance = cause == Py_None ? Ref() : exception_instance(cause, "exception causes must derive from BaseException");
    if (!instance && cause != Py_None) return Outcome::kRaised;
    PyException_SetCause(exception.get(), instance.release());
  }
  PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(exception.get())), exception.get());
  return Outcome::kRaised;
}

inline Outcome Handlers::RERAISE(Activation& a, const Instruction& i) {
  if (i.arg) {
    PyObject* const lasti = peek(a, i.arg + 1);
    if (!PyLong_Check(lasti)) return Outcome::kHandOver;
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
inline Outcome Handlers::CHECK_EG_MATCH(Activation&, const Instruction&) { return Outcome::kHandOver; }
inline Outcome Handlers::PREP_RERAISE_STAR(Activation&, const Instruction&) { return Outcome::kHandOver; }

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
inline Outcome Handlers::BEFORE_WITH(Activation& a, const Instruction&) {
  PyObject* const manager = peek(a, 1);
  const Ref enter = special_method(manager, "__enter__");
  if (!enter) return raise_no_context_manager(manager, "'%.200s' object does not support the context manager protocol");
  Ref exit = special_method(manager, "__exit__");
  if (!exit) {
    return raise_no_context_manager(
        manager, "'%.200s' object does not support the context manager protocol (missed __exit__ method)");
  }
  Ref entered = Ref::steal(PyObject_CallNoArgs(enter.get()));
  if (!entered) return Outcome::kRaised;
  drop(a, 1);
  push(a, std::move(exit));
  push(a, std::move(entered));
  return Outcome::kRan;
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
