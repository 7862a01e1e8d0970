// The usual case of calls and returns: a Python function gets its frame without a way through C.
#pragma once

#include "cpython/c_call.h"
#include "evaluator/opcodes/calls.h"
#include "evaluator/quick.h"
#include "evaluator/quick/attributes.h"

namespace evalframe::evaluator {

// The operands of a CALL have become its result.
EVALFRAME_INLINE inline Outcome finish_quick_call(Registers& r, PyObject* result) {
  if (!result) return Outcome::kRaised;
  r.push(result);
  return r.breaker.is_set() ? Outcome::kServe : Outcome::kRan;
}

// Of a frame that has its arguments; null where it couldn't be made.
inline Outcome enter_bound(PyThreadState* thread, cpython::Frame* frame, cpython::EnteredFrame& callee) {
  if (frame) callee = cpython::enter_frame(thread, frame);
  if (callee.frame) return Outcome::kSwitched;
  if (frame) cpython::pop_frame(thread, frame);
  return PyErr_Occurred() ? Outcome::kRaised : Outcome::kHandOver;
}
// A call whose arguments don't fit one by one. Leaves the operands to its caller; raised where there's neither frame nor handing over.
inline Outcome bind_and_enter(PyThreadState* thread, PyObject* function, PyObject* const* arguments, int count, PyObject* keyword_names,
                              cpython::EnteredFrame& callee) {
  if (!cpython::all_frames_are_taken(thread)) return Outcome::kHandOver;
  const int keywords = keyword_names ? static_cast<int>(PyTuple_GET_SIZE(keyword_names)) : 0;
  return enter_bound(thread, bound_frame(thread, function, arguments, static_cast<size_t>(count - keywords), keyword_names), callee);
}
// The same of f(*arguments, **named), the latter or null.
inline Outcome bind_starred_and_enter(PyThreadState* thread, PyObject* function, PyObject* arguments, PyObject* named, cpython::EnteredFrame& callee) {
  if (!cpython::all_frames_are_taken(thread)) return Outcome::kHandOver;
  return enter_bound(thread, frame_of_starred_call(thread, function, arguments, named), callee);
}
// The `count` arguments, those of keywords last, end `above` entries below the top; below them stand the callable, and self or NULL.
EVALFRAME_INLINE inline Outcome enter_function(Registers& r, const Instruction& i, PyObject* function, bool has_self, PyObject* keyword_names,
                                               int above) {
  PyObject** const first = r.top - above - i.arg - has_self;
  r.callee = keyword_names ? cpython::EnteredFrame() : cpython::enter_call(r.thread, function, first, i.arg + has_self);
  if (r.callee.frame) {
    r.top -= i.arg + 2;
  } else {
    cpython::EnteredFrame callee;
    const Outcome outcome = bind_and_enter(r.thread, function, first, i.arg + has_self, keyword_names, callee);
    if (outcome != Outcome::kSwitched) return outcome;
    r.drop(i.arg + 2 + above);
    r.callee = callee;
  }
  Handlers::stand_in_call(r.running(), i);
  return Outcome::kSwitched;
}

// `initializer`, called with the instance and the arguments, has to give None: the instance is what the program gets.
inline bool gives_instance(const Ref& result) {
  if (result && result.get() != Py_None) PyErr_Format(PyExc_TypeError, "__init__() should return None, not '%.200s'", Py_TYPE(result.get())->tp_name);
  return result.get() == Py_None;
}
inline bool takes_just(PyObject* function, int count) {
  return reinterpret_cast<PyCodeObject*>(reinterpret_cast<PyFunctionObject*>(function)->func_code)->co_argcount == count;
}
// make_instance where the initializer isn't entered in one step. Leaves the operands to its caller.
[[gnu::noinline]] inline Outcome set_up_instance(PyThreadState* thread, PyObject* initializer, PyObject* const* arguments, int count,
                                                 cpython::EnteredFrame& callee) {
  const Outcome outcome = bind_and_enter(thread, initializer, arguments, count, nullptr, callee);
  if (outcome != Outcome::kHandOver) return outcome;
  const Ref result = Ref::steal(cpython::call(thread, initializer, arguments, static_cast<size_t>(count), nullptr));
  return gives_instance(result) ? Outcome::kRan : Outcome::kRaised;
}
// [class and NULL, arguments] -> [instance, class, arguments or NULLs], and a frame of `initializer`, which sets the instance up; or
// that has been done already, or has raised.
inline Outcome make_instance(PyThreadState* thread, PyTypeObject* type, PyObject* initializer, PyObject** arguments, int count,
                             cpython::EnteredFrame& callee) {
  static PyObject* const no_arguments = PyTuple_New(0);
  Ref held = Ref::borrow(initializer);  // making the instance may run any code
  PyObject* const instance = type->tp_new(type, no_arguments, nullptr);
  if (!instance) return Outcome::kRaised;
  arguments[-2] = cpython::new_ref(instance);
  arguments[-1] = instance;
  callee = cpython::enter_call(thread, initializer, arguments - 1, count + 1);
  Outcome outcome = Outcome::kSwitched;
  if (callee.frame) {
    (void)held.release();  // the frame has it, and the instance and the arguments
    const bool moves = layout::kInstanceTakesArguments && takes_just(initializer, count + 1) && (type->tp_flags & cpython::kHasInlineValues);
    for (int index = 0; index < count; ++index) moves ? void(arguments[index] = nullptr) : void(cpython::new_ref(arguments[index]));
  } else {
    outcome = set_up_instance(thread, initializer, arguments - 1, count + 1, callee);
    cpython::decref(instance);
  }
  if (callee.frame) cpython::mark_of(callee.frame) = cpython::kMakesInstance;
  arguments[-1] = reinterpret_cast<PyObject*>(type);
  return outcome;
}

EVALFRAME_LEARN(CALL) {
  PyObject* const callable = r.top[-i.arg - (layout::kSelfAfterCallable ? 2 : 1)];
  if (!callable || !PyType_Check(callable)) return;
  PlaceNote known(r.note(i));
  // As soon as CPython: when the arguments are dropped depends on it.
  if (!known.wants_another(layout::kInstanceTakesArguments ? 0 : 1)) return;
  auto* const type = reinterpret_cast<PyTypeObject*>(callable);
  PyObject* const initializer = cpython::initializer_of(type);
  known.set(initializer ? cpython::AttributePlace{cpython::AttributePlace::kOwner, type->tp_version_tag, 0, initializer} : cpython::AttributePlace{});
}
EVALFRAME_QUICK(CALL) {
  PyObject** const arguments = r.top - i.arg;
  PyObject*& lower = arguments[-2];
  PyObject*& upper = arguments[-1];
  if (PyObject* const alone = layout::kSelfAfterCallable ? lower : upper; !(layout::kSelfAfterCallable ? upper : lower) && PyMethod_Check(alone)) {
    take_method_apart(lower, upper);
  }
  const bool has_self = (layout::kSelfAfterCallable ? upper : lower) != nullptr;
  PyObject* const callable = layout::kSelfAfterCallable || has_self ? lower : upper;
  if (PyFunction_Check(callable)) return enter_function(r, i, callable, has_self, i.arg2 >= 0 ? r.constants[i.arg2] : nullptr, 0);
  if (i.arg2 >= 0) return Outcome::kHandOver;
  if (PyType_Check(callable)) {
    const PlaceNote known(r.note(i));
    auto* const type = reinterpret_cast<PyTypeObject*>(callable);
    if (known.kind() != cpython::AttributePlace::kOwner || type->tp_version_tag != known.version() || has_self) return Outcome::kHandOver;
    cpython::EnteredFrame callee;
    const Outcome outcome = make_instance(r.thread, type, known.value(), arguments, i.arg, callee);
    r.callee = callee;
    if (outcome == Outcome::kSwitched) return outcome;
    r.drop(outcome == Outcome::kRan ? i.arg + 1 : i.arg + 2);
    return outcome == Outcome::kRan && r.breaker.is_set() ? Outcome::kServe : outcome;
  }
  if (!PyCFunction_CheckExact(callable) && !Py_IS_TYPE(callable, &PyMethodDescr_Type)) return Outcome::kHandOver;
  const size_t count = static_cast<size_t>(i.arg + has_self);
  PyObject* const result = cpython::call_c(r.thread, callable, arguments - has_self, count | PY_VECTORCALL_ARGUMENTS_OFFSET, nullptr);
  r.drop(i.arg + 2);
  return finish_quick_call(r, result);
}
EVALFRAME_QUICK(CALL_KW) {
  PyObject** const arguments = r.top - 1 - i.arg;
  PyObject* const callable = arguments[-2];
  return PyFunction_Check(callable) ? enter_function(r, i, callable, arguments[-1] != nullptr, r.peek(1), 1) : Outcome::kHandOver;
}

EVALFRAME_QUICK(CALL_FUNCTION_EX) {
  if (layout::kStarredCallKeepsArguments) return Outcome::kHandOver;
  const int keywords = i.arg & 1;
  PyObject* const callable = r.peek(layout::kCallExNullAfterCallable ? 3 + keywords : 2 + keywords);
  PyObject* const arguments = r.peek(1 + keywords);
  PyObject* const named = keywords ? r.peek(1) : nullptr;
  if (!PyFunction_Check(callable) || !PyTuple_CheckExact(arguments) || (named && !PyDict_CheckExact(named))) return Outcome::kHandOver;
  cpython::EnteredFrame callee;
  const Outcome outcome = bind_starred_and_enter(r.thread, callable, arguments, named, callee);
  if (outcome != Outcome::kSwitched) return outcome;
  r.drop(3 + keywords);
  r.callee = callee;
  Handlers::stand_in_call(r.running(), i);
  return outcome;
}

// Those whose end can be asked for again.
EVALFRAME_INLINE inline bool is_plain_iterator(PyObject* object) {
  const PyTypeObject* const type = Py_TYPE(object);
  return type == &PyRangeIter_Type || type == &PyListIter_Type || type == &PyTupleIter_Type;
}
// Generators and coroutines go on in this loop.
EVALFRAME_QUICK(SEND) {
  PyObject* const receiver = r.peek(2);
  if (is_plain_iterator(receiver) && r.peek(1) == Py_None) {
    PyObject* const item = Py_TYPE(receiver)->tp_iternext(receiver);
    if (!item) return PyErr_Occurred() ? Outcome::kRaised : Outcome::kHandOver;
    r.replace(1, item);
    return Outcome::kDone;
  }
  r.callee = cpython::enter_generator(r.thread, receiver, r.peek(1));
  if (!r.callee.frame) return Outcome::kHandOver;
  r.pop();
  return Outcome::kSwitched;
}

EVALFRAME_QUICK(YIELD_VALUE) {
  r.result = r.pop();
  return Outcome::kReturned;
}
EVALFRAME_QUICK(RETURN_VALUE) {
  r.result = r.pop();
  return Outcome::kReturned;
}
EVALFRAME_QUICK(RETURN_CONST) {
  r.result = cpython::new_ref(r.constants[i.arg]);
  return Outcome::kReturned;
}

}  // namespace evalframe::evaluator
