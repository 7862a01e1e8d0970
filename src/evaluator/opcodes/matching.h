// Instructions of the match statement.
#pragma once

#include "evaluator/handlers.h"

namespace evalframe::evaluator {

inline Outcome Handlers::MATCH_MAPPING(Activation& a, const Instruction&) {
  push(a, Py_NewRef(Py_TYPE(peek(a, 1))->tp_flags & Py_TPFLAGS_MAPPING ? Py_True : Py_False));
  return Outcome::kDone;
}
inline Outcome Handlers::MATCH_SEQUENCE(Activation& a, const Instruction&) {
  push(a, Py_NewRef(Py_TYPE(peek(a, 1))->tp_flags & Py_TPFLAGS_SEQUENCE ? Py_True : Py_False));
  return Outcome::kDone;
}
// The values of the keys as `get` of the mapping finds them; None where one is missing; null with an exception.
inline Ref values_of_keys(PyObject* mapping, PyObject* keys) {
  const Py_ssize_t count = PyTuple_GET_SIZE(keys);
  Ref values = Ref::steal(PyTuple_New(count));
  if (!values || count == 0) return values;
  const Ref get = Ref::steal(PyObject_GetAttrString(mapping, "get"));
  const Ref seen = Ref::steal(PySet_New(nullptr));
  const Ref missing = Ref::steal(PyObject_CallNoArgs(reinterpret_cast<PyObject*>(&PyBaseObject_Type)));
  if (!get || !seen || !missing) return Ref();
  for (Py_ssize_t index = 0; index < count; ++index) {
    PyObject* const key = PyTuple_GET_ITEM(keys, index);
    if (PySet_Contains(seen.get(), key) || PySet_Add(seen.get(), key)) {
      if (!PyErr_Occurred()) PyErr_Format(PyExc_ValueError, "mapping pattern checks duplicate key (%R)", key);
      return Ref();
    }
    PyObject* arguments[] = {nullptr, key, missing.get()};
    Ref value = Ref::steal(PyObject_Vectorcall(get.get(), arguments + 1, 2 | PY_VECTORCALL_ARGUMENTS_OFFSET, nullptr));
    if (!value) return Ref();
    if (value.get() == missing.get()) return Ref::borrow(Py_None);
    PyTuple_SET_ITEM(values.get(), index, value.release());
  }
  return values;
}
// [subject, keys] -> [subject, keys, values or None]
inline Outcome Handlers::MATCH_KEYS(Activation& a, const Instruction&) {
  Ref values = values_of_keys(peek(a, 2), peek(a, 1));
  return replace(a, 0, values.release());
}

// The attributes that a class pattern asks for, each once. Errors read as CPython's.
class ClassPattern {
 public:
  ClassPattern(PyObject* subject, PyObject* type) : subject_(subject), type_(type) {}

  // A tuple with the attributes for `count` positional subpatterns and the keywords; null: no match, or an exception.
  Ref match(Py_ssize_t count, PyObject* keywords) {
    if (!PyType_Check(type_)) {
      PyErr_SetString(PyExc_TypeError, layout::kNoMatchClass);
      return Ref();
    }
    if (PyObject_IsInstance(subject_, type_) <= 0) return Ref();
    seen_ = Ref::steal(PySet_New(nullptr));
    attributes_ = Ref::steal(PyList_New(0));
    if (!seen_ || !attributes_ || (count > 0 && !positional(count))) return Ref();
    for (Py_ssize_t index = 0; index < PyTuple_GET_SIZE(keywords); ++index) {
      if (!add(PyTuple_GET_ITEM(keywords, index))) return Ref();
    }
    return Ref::steal(PyList_AsTuple(attributes_.get()));
  }

 private:
  const char* type_name() const { return reinterpret_cast<PyTypeObject*>(type_)->tp_name; }

  bool positional(Py_ssize_t count) {
    const Ref names = Ref::steal(PyObject_GetAttrString(type_, "__match_args__"));
    if (!names && !PyErr_ExceptionMatches(PyExc_AttributeError)) return false;
    if (!names) PyErr_Clear();
    if (names && !PyTuple_CheckExact(names.get())) {
      PyErr_Format(PyExc_TypeError, "%s.__match_args__ must be a tuple (got %s)", type_name(), Py_TYPE(names.get())->tp_name);
      return false;
    }
    // Types like int and str match themselves, unless they say otherwise.
    const bool itself = !names && PyType_HasFeature(reinterpret_cast<PyTypeObject*>(type_), _Py_TPFLAGS_MATCH_SELF);
    const Py_ssize_t allowed = names ? PyTuple_GET_SIZE(names.get()) : itself;
    if (allowed < count) {
      PyErr_Format(PyExc_TypeError, "%s() accepts %zd positional sub-pattern%s (%zd given)", type_name(), allowed,
                   allowed == 1 ? "" : "s", count);
      return false;
    }
    if (itself) return PyList_Append(attributes_.get(), subject_) == 0;
    for (Py_ssize_t index = 0; index < count; ++index) {
      PyObject* const name = PyTuple_GET_ITEM(names.get(), index);
      if (!PyUnicode_CheckExact(name)) {
        PyErr_Format(PyExc_TypeError, "__match_args__ elements must be strings (got %s)", Py_TYPE(name)->tp_name);
        return false;
      }
      if (!add(name)) return false;
    }
    return true;
  }

  bool add(PyObject* name) {
    const int known = PySet_Contains(seen_.get(), name);
    if (known != 0) {
      if (known > 0) PyErr_Format(PyExc_TypeError, "%s() got multiple sub-patterns for attribute %R", type_name(), name);
      return false;
    }
    if (PySet_Add(seen_.get(), name) < 0) return false;
    const Ref attribute = Ref::steal(PyObject_GetAttr(subject_, name));
    if (attribute) return PyList_Append(attributes_.get(), attribute.get()) == 0;
    if (PyErr_ExceptionMatches(PyExc_AttributeError)) PyErr_Clear();
    return false;
  }

  PyObject* subject_;
  PyObject* type_;
  Ref seen_, attributes_;
};

// [subject, class, keyword names] -> [attributes or None]
inline Outcome Handlers::MATCH_CLASS(Activation& a, const Instruction& i) {
  Ref attributes = ClassPattern(peek(a, 3), peek(a, 2)).match(i.arg, peek(a, 1));
  if (!attributes && PyErr_Occurred()) return Outcome::kRaised;
  return replace(a, 3, attributes ? attributes.release() : Py_NewRef(Py_None));
}

}  // namespace evalframe::evaluator
