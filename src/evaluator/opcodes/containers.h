// Instructions that build, extend and unpack containers.
#pragma once

#include "evaluator/handlers.h"

namespace evalframe::evaluator {

inline Outcome Handlers::BUILD_TUPLE(Activation& a, const Instruction& i) {
  PyObject* const tuple = PyTuple_New(i.arg);
  if (!tuple) return Outcome::kRaised;
  for (int index = i.arg; index-- > 0;) PyTuple_SET_ITEM(tuple, index, pop_owned(a));
  push(a, tuple);
  return Outcome::kDone;
}
inline Outcome Handlers::BUILD_LIST(Activation& a, const Instruction& i) {
  PyObject* const list = PyList_New(i.arg);
  if (!list) return Outcome::kRaised;
  for (int index = i.arg; index-- > 0;) PyList_SET_ITEM(list, index, pop_owned(a));
  push(a, list);
  return Outcome::kDone;
}
inline Outcome Handlers::BUILD_SET(Activation& a, const Instruction& i) {
  Ref set = Ref::steal(PySet_New(nullptr));
  bool ok = static_cast<bool>(set);
  for (int distance = i.arg; distance > 0; --distance) {
    ok = ok && PySet_Add(set.get(), peek(a, distance)) == 0;
    Py_CLEAR(peek(a, distance));
  }
  if (!ok) set.reset();
  return replace(a, i.arg, set.release());
}
inline Outcome Handlers::BUILD_MAP(Activation& a, const Instruction& i) {
  Ref map = Ref::steal(PyDict_New());
  for (int distance = 2 * i.arg; map && distance > 0; distance -= 2) {
    if (PyDict_SetItem(map.get(), peek(a, distance), peek(a, distance - 1)) < 0) map.reset();
  }
  return replace_backwards(a, 2 * i.arg, map.release());
}
inline Outcome Handlers::BUILD_CONST_KEY_MAP(Activation& a, const Instruction& i) {
  PyObject* const keys = peek(a, 1);
  Ref map = Ref::steal(PyDict_New());
  for (int index = 0; map && index < i.arg; ++index) {
    if (PyDict_SetItem(map.get(), PyTuple_GET_ITEM(keys, index), peek(a, i.arg + 1 - index)) < 0) map.reset();
  }
  return replace_backwards(a, i.arg + 1, map.release());
}
inline Outcome Handlers::BUILD_STRING(Activation& a, const Instruction& i) {
  static PyObject* const empty = PyUnicode_New(0, 0);
  return replace_backwards(a, i.arg, _PyUnicode_JoinArray(empty, &peek(a, i.arg), i.arg));
}
inline Outcome Handlers::BUILD_SLICE(Activation& a, const Instruction& i) {
  PyObject* const step = i.arg == 3 ? peek(a, 1) : nullptr;
  return replace(a, i.arg, PySlice_New(peek(a, i.arg), peek(a, i.arg - 1), step));
}

inline Outcome Handlers::LIST_APPEND(Activation& a, const Instruction& i) {
  return consume(a, 1, PyList_Append(peek(a, i.arg + 1), peek(a, 1)) == 0);
}
inline Outcome Handlers::SET_ADD(Activation& a, const Instruction& i) {
  return consume(a, 1, PySet_Add(peek(a, i.arg + 1), peek(a, 1)) == 0);
}
inline Outcome Handlers::MAP_ADD(Activation& a, const Instruction& i) {
  return consume(a, 2, PyDict_SetItem(peek(a, i.arg + 2), peek(a, 2), peek(a, 1)) == 0);
}
inline bool looks_iterable(PyObject* object) { return Py_TYPE(object)->tp_iter || PySequence_Check(object); }
inline Outcome raise_type_error(const char* format, PyObject* object) {
  PyErr_Format(PyExc_TypeError, format, Py_TYPE(object)->tp_name);
  return Outcome::kRaised;
}
inline Outcome Handlers::LIST_EXTEND(Activation& a, const Instruction& i) {
  if (!looks_iterable(peek(a, 1))) return raise_type_error("Value after * must be an iterable, not %.200s", peek(a, 1));
  const Ref same = Ref::steal(PySequence_InPlaceConcat(peek(a, i.arg + 1), peek(a, 1)));
  return consume(a, 1, static_cast<bool>(same));
}
inline Outcome Handlers::SET_UPDATE(Activation& a, const Instruction& i) {
  return consume(a, 1, _PySet_Update(peek(a, i.arg + 1), peek(a, 1)) == 0);
}
inline Outcome Handlers::DICT_UPDATE(Activation& a, const Instruction& i) {
  if (PyDict_Update(peek(a, i.arg + 1), peek(a, 1)) == 0) return consume(a, 1, true);
  if (!PyErr_ExceptionMatches(PyExc_AttributeError)) return Outcome::kRaised;
  PyErr_Clear();
  return raise_type_error("'%.200s' object is not a mapping", peek(a, 1));
}
inline Outcome Handlers::LIST_TO_TUPLE(Activation& a, const Instruction&) { return replace(a, 1, PyList_AsTuple(peek(a, 1))); }

// The items of an iterable that is neither a list nor a tuple, as UNPACK_SEQUENCE and UNPACK_EX count them:
// `before` items, and with `after` >= 0 a list of the rest and `after` more. Pushed with the first on top.
inline Ref unpacked(PyObject* iterable, int before, int after) {
  const Ref iterator = Ref::steal(PyObject_GetIter(iterable));
  Ref items = Ref::steal(PyList_New(0));
  if (!iterator || !items) return Ref();
  for (int index = 0; index < before; ++index) {
    const Ref item = Ref::steal(PyIter_Next(iterator.get()));
    if (!item) {
      if (PyErr_Occurred()) return Ref();
      if (after < 0) {
        PyErr_Format(PyExc_ValueError, "not enough values to unpack (expected %d, got %d)", before, index);
      } else {
        PyErr_Format(PyExc_ValueError, "not enough values to unpack (expected at least %d, got %d)", before + after, index);
      }
      return Ref();
    }
    if (PyList_Append(items.get(), item.get()) < 0) return Ref();
  }
  if (after < 0) {
    const Ref more = Ref::steal(PyIter_Next(iterator.get()));
    if (more) PyErr_Format(PyExc_ValueError, "too many values to unpack (expected %d)", before);
    return more || PyErr_Occurred() ? Ref() : std::move(items);
  }
  const Ref rest = Ref::steal(PySequence_List(iterator.get()));
  if (!rest) return Ref();
  const Py_ssize_t size = PyList_GET_SIZE(rest.get());
  if (size < after) {
    PyErr_Format(PyExc_ValueError, "not enough values to unpack (expected at least %d, got %zd)", before + after, before + size);
    return Ref();
  }
  const Ref middle = Ref::steal(PyList_GetSlice(rest.get(), 0, size - after));
  if (!middle || PyList_Append(items.get(), middle.get()) < 0) return Ref();
  for (Py_ssize_t index = size - after; index < size; ++index) {
    if (PyList_Append(items.get(), PyList_GET_ITEM(rest.get(), index)) < 0) return Ref();
  }
  return items;
}
inline Outcome Handlers::UNPACK_SEQUENCE(Activation& a, const Instruction& i) {
  PyObject* const source = peek(a, 1);
  if (!looks_iterable(source)) return raise_type_error("cannot unpack non-iterable %.200s object", source);
  const bool direct = (PyTuple_CheckExact(source) || PyList_CheckExact(source)) && PySequence_Fast_GET_SIZE(source) == i.arg;
  const Ref items = direct ? Ref::borrow(source) : unpacked(source, i.arg, -1);
  if (!items) return Outcome::kRaised;
  const Ref consumed = pop(a);
  for (int index = i.arg; index-- > 0;) push(a, Py_NewRef(PySequence_Fast_GET_ITEM(items.get(), index)));
  return Outcome::kRan;
}
inline Outcome Handlers::UNPACK_EX(Activation& a, const Instruction& i) {
  const int before = i.arg & 0xFF, after = i.arg >> 8;
  if (!looks_iterable(peek(a, 1))) return raise_type_error("cannot unpack non-iterable %.200s object", peek(a, 1));
  const Ref items = unpacked(peek(a, 1), before, after);
  if (!items) return Outcome::kRaised;
  const Ref consumed = pop(a);
  for (int index = before + 1 + after; index-- > 0;) push(a, Py_NewRef(PyList_GET_ITEM(items.get(), index)));
  return Outcome::kRan;
}

}  // namespace evalframe::evaluator
