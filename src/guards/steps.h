// What each step of a check program does: how an object is reached, and what is asked of it. Inlined where calls are served: a guard
// costs a few nanoseconds, and so does a call.
#pragma once

#include <cstring>

#include "cpython/attributes.h"
#include "cpython/dict_keys.h"
#include "cpython/iterators.h"
#include "cpython/objects.h"
#include "cpython/refcounts.h"
#include "cpython/versions.h"
#include "frontends/numpy/calls.h"
#include "frontends/numpy/numpy_api.h"
#include "guards/program.h"

namespace evalframe::guards {

// --- what is asked of an object: one function for each row of checks.def --------------------------------------------

inline bool equal(PyObject* object, PyObject* want) {
  if (object == want) return true;
  if (Py_TYPE(object) != Py_TYPE(want)) return false;
  if (PyTuple_CheckExact(want)) {
    if (PyTuple_GET_SIZE(object) != PyTuple_GET_SIZE(want)) return false;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(want); i++) {
      if (!equal(PyTuple_GET_ITEM(object, i), PyTuple_GET_ITEM(want, i))) return false;
    }
    return true;
  }
  // -0.0 == 0.0 and nan != nan: floats are compared by their bits.
  if (PyFloat_CheckExact(want)) {
    const double a = PyFloat_AS_DOUBLE(object), b = PyFloat_AS_DOUBLE(want);
    return std::memcmp(&a, &b, sizeof a) == 0;
  }
  if (PyComplex_CheckExact(want)) {
    const Py_complex a = PyComplex_AsCComplex(object), b = PyComplex_AsCComplex(want);
    return std::memcmp(&a, &b, sizeof a) == 0;
  }
  if (PyArray_DescrCheck(want) && (numpy::has_metadata(object) || numpy::has_metadata(want))) return false;
  // Its class may have methods of Python's.
  if (PyType_HasFeature(Py_TYPE(want), Py_TPFLAGS_HEAPTYPE) && !PyType_HasFeature(Py_TYPE(want), Py_TPFLAGS_IMMUTABLETYPE)) return false;
  const int result = PyObject_RichCompareBool(object, want, Py_EQ);
  if (result < 0) PyErr_Clear();
  return result > 0;
}

inline bool has_type(const Step& step, PyObject* object) { return reinterpret_cast<PyObject*>(Py_TYPE(object)) == step.want; }

[[gnu::noinline]] inline bool is_as_it_was(const Step& step, PyTypeObject* type) {
  if (!step.contents || !step.contents->holds()) return false;
  if (const uint32_t version = cpython::type_version(type)) step.type_version = version;
  return true;
}

using Items = PyObject* const*;  // the objects of the sources so far

inline bool is_set_or_dict(PyObject* object) { return PySet_CheckExact(object) || PyDict_Check(object); }

// A key whose class may hash it by code of a program's, as tensors are, is known by its place.
inline bool is_known_by_place(PyObject* key) { return PyType_HasFeature(Py_TYPE(key), Py_TPFLAGS_HEAPTYPE) && !PyType_Check(key); }

// 1, 0, or -1: it is neither a set nor a dict. Of a class that inherits from dict: what it has as one, whatever the class says.
inline int has(PyObject* object, PyObject* element) {
  if (!is_set_or_dict(object)) return -1;
  if (PyDict_Check(object) && is_known_by_place(element)) return cpython::item_of_key(object, element) != nullptr;
  const int there = PyDict_Check(object) ? PyDict_Contains(object, element) : PySet_Contains(object, element);
  if (there < 0) PyErr_Clear();
  return there;
}

struct Checks {
  static bool kNone(const Step&, PyObject*, Items) { return true; }
  static bool kType(const Step& step, PyObject* object, Items) { return has_type(step, object); }
  static bool kEqual(const Step& step, PyObject* object, Items) { return object == step.want || equal(object, step.want); }
  static bool kIdentity(const Step& step, PyObject* object, Items) { return object == step.want; }
  static bool kArray(const Step& step, PyObject* object, Items) {
    if (Py_TYPE(object) != &PyArray_Type) return false;
    PyArrayObject* array = numpy::as_array(object);
    if (PyArray_NDIM(array) != step.rank || (PyArray_FLAGS(array) & kArrayFlags) != step.array_flags) return false;
    auto* want = reinterpret_cast<PyArray_Descr*>(step.want);
    // Types of one size may have several names, which a program can ask for.
    PyArray_Descr* const descr = PyArray_DESCR(array);
    return descr == want || (descr->type_num == want->type_num && PyArray_EquivTypes(descr, want) && !PyDataType_METADATA(descr));
  }
  static bool kTensor(const Step& step, PyObject* object, Items) { return torch::has_facts(object, *step.tensor); }
  static bool kTypeVersion(const Step& step, PyObject* object, Items) {
    return has_type(step, object) && (cpython::current_type_version(Py_TYPE(object)) == step.type_version || is_as_it_was(step, Py_TYPE(object)));
  }
  static bool kClassVersion(const Step& step, PyObject* object, Items) {
    auto* const type = reinterpret_cast<PyTypeObject*>(object);
    return object == step.want && (cpython::current_type_version(type) == step.type_version || is_as_it_was(step, type));
  }
  static bool kKeys(const Step& step, PyObject* object, Items) {
    if (!PyDict_CheckExact(object) || PyDict_GET_SIZE(object) != PyTuple_GET_SIZE(step.want)) return false;
    PyObject* key = nullptr;
    for (Py_ssize_t at = 0, i = 0; PyDict_Next(object, &at, &key, nullptr); i++) {
      PyObject* const want = PyTuple_GET_ITEM(step.want, i);
      if (key != want && !equal(key, want)) return false;
    }
    return true;
  }
  // It has an order of its own, which its version as a dict doesn't tell of.
  static bool kOrderedKeys(const Step& step, PyObject* object, Items) {
    if (!PyODict_CheckExact(object) || PyODict_SIZE(object) != PyTuple_GET_SIZE(step.want)) return false;
    const Ref keys = Ref::steal(PyODict_Type.tp_iter(object));
    for (Py_ssize_t i = 0; keys && i < PyTuple_GET_SIZE(step.want); i++) {
      PyObject* const want = PyTuple_GET_ITEM(step.want, i);
      const Ref key = Ref::steal(PyODictIter_Type.tp_iternext(keys.get()));
      if (!key || (key.get() != want && !equal(key.get(), want))) return PyErr_Clear(), false;
    }
    return keys ? true : (PyErr_Clear(), false);
  }
  static bool kElements(const Step& step, PyObject* object, Items) {
    if (!PySet_CheckExact(object) || PySet_GET_SIZE(object) != PyTuple_GET_SIZE(step.want)) return false;
    PyObject* element = nullptr;
    Py_hash_t hash = 0;
    for (Py_ssize_t at = 0, i = 0; _PySet_NextEntry(object, &at, &element, &hash); i++) {
      PyObject* const want = PyTuple_GET_ITEM(step.want, i);
      if (element != want && !equal(element, want)) return false;
    }
    return true;
  }
  static bool kHas(const Step& step, PyObject* object, Items) { return has(object, step.want) > 0; }
  static bool kHasNot(const Step& step, PyObject* object, Items) { return has(object, step.want) == 0; }
  static bool kLength(const Step& step, PyObject* object, Items) {
    return has_type(step, object) && PyObject_Size(object) == step.length;
  }
  static bool kLacks(const Step& step, PyObject* object, Items) { return cpython::lacks_attribute(object, step.want); }
  static bool kPattern(const Step& step, PyObject*, Items) {
    return static_cast<Py_ssize_t>(reinterpret_cast<PyTypeObject*>(step.want)->tp_flags & kPatternFlags) == step.length;
  }
  static bool kSame(const Step& step, PyObject* object, Items items) { return items[step.other] == object; }
  static bool kDistinct(const Step& step, PyObject* object, Items items) { return items[step.other] != object; }
  static bool kApart(const Step& step, PyObject* object, Items items) {
    PyObject* const other = items[step.other];
    PyObject *const dict = cpython::own_dict(object), *const others = cpython::own_dict(other);
    return dict != other && others != object && (!dict || dict != others);
  }
};

[[gnu::always_inline]] inline bool holds(const Step& step, PyObject* object, Items items) {
  switch (step.check) {
#define EVALFRAME_CHECK(name, text, hint) \
  case Check::name: return Checks::name(step, object, items);
#include "guards/checks.def"
#undef EVALFRAME_CHECK
  }
  return false;
}

// --- how an object is reached: a new reference, but for slots --------------------------------------------------------

inline PyObject* item(const Step& step, PyObject* parent) {
  PyObject* found = nullptr;
  if (PyDict_Check(parent)) {
    found = is_known_by_place(step.object) ? cpython::item_of_key(parent, step.object) : PyDict_GetItemWithError(parent, step.object);
  } else if (PyList_CheckExact(parent)) {
    if (step.index < PyList_GET_SIZE(parent)) found = PyList_GET_ITEM(parent, step.index);
  } else if (PyTuple_Check(parent)) {
    if (step.index < PyTuple_GET_SIZE(parent)) found = PyTuple_GET_ITEM(parent, step.index);
  } else if (PyType_Check(parent) && step.object) {
    found = PyDict_GetItemWithError(reinterpret_cast<PyTypeObject*>(parent)->tp_dict, step.object);
  }
  return Ref::borrow(found).release();
}

// Many attributes of one object follow one another.
inline PyObject* attribute(const Step& step, PyObject* parent, cpython::OwnNames& names) {
  if (names.object != parent) names = cpython::own_names(parent);
  if (PyObject* const value = step.hint.value(names, step.object)) return cpython::new_ref(value);
  PyObject* const found = cpython::attribute_past_hooks(parent, step.object).release();
  if (found) step.hint.learn(parent, step.object);
  names = {};  // looking for it may have made the object a dict
  return found;
}

inline PyObject* reach(const Step& step, PyObject* const* const* frames, PyObject* const* objects, cpython::OwnNames& names) {
  switch (step.reach) {
    case Reach::kSlot: return frames[step.frame][step.index];
    case Reach::kAttribute: return attribute(step, objects[step.parent], names);
    case Reach::kMethod: return cpython::bound_function(objects[step.parent], step.object).release();
    case Reach::kItem: return item(step, objects[step.parent]);
    case Reach::kTurn: return cpython::ahead(objects[step.parent], step.index).release();
    case Reach::kCell: return Ref::borrow(PyCell_GET(step.object ? step.object : objects[step.parent])).release();
    case Reach::kReferent: return cpython::referent(objects[step.parent]).release();
    case Reach::kObject: return Ref::borrow(step.object).release();
  }
  return nullptr;
}

}  // namespace evalframe::guards
