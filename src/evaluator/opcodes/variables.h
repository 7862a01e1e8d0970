// Instructions that load, store and delete variables, constants and attributes, and that shuffle the stack.
#pragma once

#include "cpython/versions.h"
#include "evaluator/handlers.h"

namespace evalframe::evaluator {

inline Outcome Handlers::raise_name_error(PyObject* type, const char* format, PyObject* name) {
  const char* const text = PyUnicode_AsUTF8(name);
  if (!text) return Outcome::kRaised;  // as CPython does, with a UnicodeEncodeError
  PyErr_Format(type, format, text);
  if (type != PyExc_NameError) return Outcome::kRaised;
  // Suggestions are made from the name.
  Ref error = cpython::take_raised();
  if (PyObject_SetAttrString(error.get(), "name", name) < 0) PyErr_Clear();
  cpython::set_raised(std::move(error));
  return Outcome::kRaised;
}

inline Outcome Handlers::raise_unbound(Activation& a, int index) {
  PyObject* const name = PyTuple_GET_ITEM(code(a)->co_localsplusnames, index);
  if (index < code(a)->co_nlocalsplus - code(a)->co_nfreevars) {
    return raise_name_error(PyExc_UnboundLocalError,
                            "cannot access local variable '%.200s' where it is not associated with a value", name);
  }
  return raise_name_error(PyExc_NameError,
                          "cannot access free variable '%.200s' where it is not associated with a value in enclosing scope",
                          name);
}

inline Outcome Handlers::NOP(Activation&, const Instruction&) { return Outcome::kDone; }
inline Outcome Handlers::RESUME(Activation& a, const Instruction& i) {
  return (i.arg & 3) < 2 ? service_breaker(a) : Outcome::kDone;
}
inline Outcome Handlers::POP_TOP(Activation& a, const Instruction&) { return let_go_if_any(pop_owned(a)); }
inline Outcome Handlers::PUSH_NULL(Activation& a, const Instruction&) {
  push(a, static_cast<PyObject*>(nullptr));
  return Outcome::kDone;
}
inline Outcome Handlers::COPY(Activation& a, const Instruction& i) {
  push(a, Py_XNewRef(peek(a, i.arg)));
  return Outcome::kDone;
}
inline Outcome Handlers::SWAP(Activation& a, const Instruction& i) {
  std::swap(peek(a, 1), peek(a, i.arg));
  return Outcome::kDone;
}

inline Outcome Handlers::LOAD_CONST(Activation& a, const Instruction& i) {
  push(a, Py_NewRef(constant(a, i.arg)));
  return Outcome::kDone;
}
inline Outcome Handlers::LOAD_FAST(Activation& a, const Instruction& i) {
  PyObject* const value = local(a, i.arg);
  if (!value) return raise_unbound(a, i.arg);
  push(a, Py_NewRef(value));
  return Outcome::kDone;
}
inline Outcome Handlers::LOAD_FAST_CHECK(Activation& a, const Instruction& i) { return LOAD_FAST(a, i); }
inline Outcome Handlers::LOAD_FAST_AND_CLEAR(Activation& a, const Instruction& i) {
  push(a, std::exchange(local(a, i.arg), nullptr));
  return Outcome::kDone;
}
inline Outcome Handlers::STORE_FAST(Activation& a, const Instruction& i) { return set_local(a, i.arg, pop_owned(a)); }
inline Outcome Handlers::DELETE_FAST(Activation& a, const Instruction& i) {
  if (!local(a, i.arg)) return raise_unbound(a, i.arg);
  return set_local(a, i.arg, nullptr);
}
inline Outcome Handlers::LOAD_CLOSURE(Activation& a, const Instruction& i) { return LOAD_FAST(a, i); }

inline Outcome Handlers::MAKE_CELL(Activation& a, const Instruction& i) {
  PyObject* const cell = PyCell_New(local(a, i.arg));
  if (!cell) return Outcome::kRaised;
  set_local(a, i.arg, cell);
  return Outcome::kDone;
}
inline Outcome Handlers::COPY_FREE_VARS(Activation& a, const Instruction& i) {
  const auto* const function = reinterpret_cast<PyFunctionObject*>(cpython::function_of(frame(a)).get());
  const int first = code(a)->co_nlocalsplus - i.arg;
  for (int index = 0; index < i.arg; ++index) local(a, first + index) = Py_NewRef(PyTuple_GET_ITEM(function->func_closure, index));
  return Outcome::kDone;
}
inline Outcome Handlers::LOAD_DEREF(Activation& a, const Instruction& i) {
  PyObject* const value = PyCell_GET(local(a, i.arg));
  if (!value) return raise_unbound(a, i.arg);
  push(a, Py_NewRef(value));
  return Outcome::kDone;
}
inline Outcome Handlers::STORE_DEREF(Activation& a, const Instruction& i) {
  PyObject* const cell = local(a, i.arg);
  const Ref old = Ref::steal(PyCell_GET(cell));
  PyCell_SET(cell, pop_owned(a));
  return Outcome::kRan;
}
inline Outcome Handlers::DELETE_DEREF(Activation& a, const Instruction& i) {
  PyObject* const cell = local(a, i.arg);
  const Ref old = Ref::steal(PyCell_GET(cell));
  if (!old) return raise_unbound(a, i.arg);
  PyCell_SET(cell, nullptr);
  return Outcome::kRan;
}

// The entry of a namespace, which may be any mapping; null without an exception where it has none.
inline Ref entry_of(PyObject* mapping, PyObject* name) {
  if (PyDict_CheckExact(mapping)) return Ref::borrow(PyDict_GetItemWithError(mapping, name));
  Ref value = Ref::steal(PyObject_GetItem(mapping, name));
  if (!value && PyErr_ExceptionMatches(PyExc_KeyError)) PyErr_Clear();
  return value;
}
inline int set_entry(PyObject* mapping, PyObject* name, PyObject* value) {
  return PyDict_CheckExact(mapping) ? PyDict_SetItem(mapping, name, value) : PyObject_SetItem(mapping, name, value);
}
// A global or else a builtin. Null with an exception, NameError where there is neither.
// as_dict: names of module and class bodies ask a subclass of dict that is the globals past its own __getitem__.
inline Ref Handlers::global_value(Activation& a, const Instruction& i, bool as_dict) {
  PyObject* const globals = cpython::globals_of(frame(a)).get();
  PyObject* const builtins = cpython::builtins_of(frame(a)).get();
  Ref value = as_dict ? Ref::borrow(PyDict_GetItemWithError(globals, name(a, i))) : entry_of(globals, name(a, i));
  if (!value && !PyErr_Occurred()) value = entry_of(builtins, name(a, i));
  if (!value && !PyErr_Occurred()) raise_name_error(PyExc_NameError, "name '%.200s' is not defined", name(a, i));
  return value;
}
// The note of a LOAD_GLOBAL tells the versions of both dicts, and what was found in them: no store, no change.
inline Ref Handlers::noted_global(Activation& a, const Instruction& i) {
  PyObject* const globals = cpython::globals_of(frame(a)).get();
  PyObject* const builtins = cpython::builtins_of(frame(a)).get();
  if (!PyDict_CheckExact(globals) || !PyDict_CheckExact(builtins)) return global_value(a, i, false);
  bytecode::Note& known = note(a);
  if (known.first == cpython::dict_version(globals) && known.second == cpython::dict_version(builtins)) return Ref::borrow(known.value);
  // Looking may run code, which may change the dicts.
  const uint64_t of_globals = cpython::dict_version(globals), of_builtins = cpython::dict_version(builtins);
  Ref value = global_value(a, i, false);
  if (value && cpython::version_tells_all(globals) && cpython::version_tells_all(builtins)) known = {of_globals, of_builtins, value.get()};
  return value;
}
inline Outcome Handlers::LOAD_GLOBAL(Activation& a, const Instruction& i) {
  Ref value = noted_global(a, i);
  if (!value) return Outcome::kRaised;
  if (i.arg2 == 1 && !layout::kGlobalThenNull) push(a, static_cast<PyObject*>(nullptr));
  push(a, std::move(value));
  if (i.arg2 == 1 && layout::kGlobalThenNull) push(a, static_cast<PyObject*>(nullptr));
  return Outcome::kRan;
}
inline Outcome Handlers::STORE_GLOBAL(Activation& a, const Instruction& i) {
  return consume(a, 1, PyDict_SetItem(cpython::globals_of(frame(a)).get(), name(a, i), peek(a, 1)) == 0);
}
inline Outcome Handlers::DELETE_GLOBAL(Activation& a, const Instruction& i) {
  if (PyDict_DelItem(cpython::globals_of(frame(a)).get(), name(a, i)) == 0) return Outcome::kRan;
  if (!PyErr_ExceptionMatches(PyExc_KeyError)) return Outcome::kRaised;
  PyErr_Clear();
  return raise_name_error(PyExc_NameError, "name '%.200s' is not defined", name(a, i));
}

// The namespace of a module or class body. CPython never makes a frame that uses it without one, so the texts don't matter much.
inline PyObject* Handlers::namespace_of(Activation& a) {
  PyObject* const locals = cpython::locals_dict_of(frame(a)).get();
  if (!locals) PyErr_SetString(PyExc_SystemError, "no locals");
  return locals;
}
inline Outcome Handlers::LOAD_NAME(Activation& a, const Instruction& i) {
  PyObject* const locals = namespace_of(a);
  if (!locals) return Outcome::kRaised;
  Ref value = entry_of(locals, name(a, i));
  if (!value && !PyErr_Occurred()) value = global_value(a, i, true);
  if (!value) return Outcome::kRaised;
  push(a, std::move(value));
  return Outcome::kRan;
}
inline Outcome Handlers::STORE_NAME(Activation& a, const Instruction& i) {
  PyObject* const locals = namespace_of(a);
  return locals ? consume(a, 1, set_entry(locals, name(a, i), peek(a, 1)) == 0) : Outcome::kRaised;
}
// Whatever went wrong, CPython says that there is no such name.
inline Outcome Handlers::DELETE_NAME(Activation& a, const Instruction& i) {
  PyObject* const locals = namespace_of(a);
  if (!locals) return Outcome::kRaised;
  if (PyObject_DelItem(locals, name(a, i)) == 0) return Outcome::kRan;
  return raise_name_error(PyExc_NameError, "name '%.200s' is not defined", name(a, i));
}
inline Outcome Handlers::LOAD_LOCALS(Activation& a, const Instruction&) {
  PyObject* const locals = namespace_of(a);
  if (!locals) return Outcome::kRaised;
  push(a, Py_NewRef(locals));
  return Outcome::kDone;
}

// A free variable that the class body's namespace may shadow. `taken`: entries that the value takes the place of.
inline Outcome Handlers::load_from(Activation& a, const Instruction& i, PyObject* shadowing, int taken) {
  Ref value = entry_of(shadowing, PyTuple_GET_ITEM(code(a)->co_localsplusnames, i.arg));
  if (!value && PyErr_Occurred()) return Outcome::kRaised;
  if (!value) value = Ref::borrow(PyCell_GET(local(a, i.arg)));
  return value ? replace(a, taken, value.release()) : raise_unbound(a, i.arg);
}
inline Outcome Handlers::LOAD_CLASSDEREF(Activation& a, const Instruction& i) {
  PyObject* const locals = namespace_of(a);
  return locals ? load_from(a, i, locals, 0) : Outcome::kRaised;
}
inline Outcome Handlers::LOAD_FROM_DICT_OR_DEREF(Activation& a, const Instruction& i) { return load_from(a, i, peek(a, 1), 1); }
inline Outcome Handlers::LOAD_FROM_DICT_OR_GLOBALS(Activation& a, const Instruction& i) {
  Ref value = entry_of(peek(a, 1), name(a, i));
  if (!value && !PyErr_Occurred()) value = global_value(a, i, layout::k312);
  return replace(a, 1, value.release());
}

inline Outcome Handlers::SETUP_ANNOTATIONS(Activation& a, const Instruction&) {
  PyObject* const locals = namespace_of(a);
  const Ref key = Ref::steal(PyUnicode_InternFromString("__annotations__"));
  if (!locals || !key) return Outcome::kRaised;
  if (entry_of(locals, key.get())) return Outcome::kRan;
  const Ref annotations = PyErr_Occurred() ? Ref() : Ref::steal(PyDict_New());
  return annotations && set_entry(locals, key.get(), annotations.get()) == 0 ? Outcome::kRan : Outcome::kRaised;
}

inline Outcome Handlers::LOAD_BUILD_CLASS(Activation& a, const Instruction&) {
  const Ref key = Ref::steal(PyUnicode_InternFromString("__build_class__"));
  Ref build = key ? entry_of(cpython::builtins_of(frame(a)).get(), key.get()) : Ref();
  if (!build) {
    if (!PyErr_Occurred()) PyErr_SetString(PyExc_NameError, "__build_class__ not found");
    return Outcome::kRaised;
  }
  push(a, std::move(build));
  return Outcome::kRan;
}
inline Outcome Handlers::LOAD_ASSERTION_ERROR(Activation& a, const Instruction&) {
  push(a, Py_NewRef(PyExc_AssertionError));
  return Outcome::kDone;
}

inline Outcome Handlers::LOAD_ATTR(Activation& a, const Instruction& i) {
  return replace(a, 1, PyObject_GetAttr(peek(a, 1), name(a, i)));
}
// Leaves [method, self], or [NULL, attribute] (3.13: [attribute, NULL]).
inline Outcome Handlers::LOAD_METHOD(Activation& a, const Instruction& i) {
  PyObject* found = nullptr;
  const bool unbound = _PyObject_GetMethod(peek(a, 1), name(a, i), &found) != 0;
  if (!found) return Outcome::kRaised;
  Ref owner = pop(a);
  if (unbound) {
    push(a, found);
    push(a, std::move(owner));
    return Outcome::kRan;
  }
  push(a, layout::kSelfAfterCallable ? found : nullptr);
  push(a, layout::kSelfAfterCallable ? nullptr : found);
  return Outcome::kRan;
}
inline Outcome Handlers::LOAD_SUPER_ATTR(Activation& a, const Instruction& i) {
  const Ref super = Ref::steal(PyObject_Vectorcall(peek(a, 3), &peek(a, 2), i.arg2 & 2, nullptr));
  if (!super) return Outcome::kRaised;
  PyObject* const value = PyObject_GetAttr(super.get(), name(a, i));
  if (!value) return Outcome::kRaised;
  drop(a, 3);
  const bool method = i.arg2 & 1;
  if (method && !layout::kSelfAfterCallable) push(a, static_cast<PyObject*>(nullptr));
  push(a, value);
  if (method && layout::kSelfAfterCallable) push(a, static_cast<PyObject*>(nullptr));
  return Outcome::kRan;
}
inline Outcome Handlers::STORE_ATTR(Activation& a, const Instruction& i) {
  return consume(a, 2, PyObject_SetAttr(peek(a, 1), name(a, i), peek(a, 2)) == 0);
}
inline Outcome Handlers::DELETE_ATTR(Activation& a, const Instruction& i) {
  return consume(a, 1, PyObject_SetAttr(peek(a, 1), name(a, i), nullptr) == 0);
}

}  // namespace evalframe::evaluator
