// Inline caches of attributes: their place in the instance, in its class, in a class or module itself.
#pragma once

#include "evaluator/quick.h"

namespace evalframe::evaluator {

// An AttributePlace as a note, with the number of times that it wasn't the one wanted.
class PlaceNote {
 public:
  explicit PlaceNote(bytecode::Note& note) : note_(note) {}
  uint32_t version() const { return static_cast<uint32_t>(note_.first); }
  cpython::AttributePlace::Kind kind() const { return static_cast<cpython::AttributePlace::Kind>(note_.first >> 32 & 0xFF); }
  uint64_t where() const { return note_.second; }
  PyObject* value() const { return note_.value; }
  // What runs once needs no place, and where objects of many classes pass by, looking for places takes longer than they save.
  bool wants_another(uint64_t from = 1) {
    constexpr uint64_t kFirst = 8, kThenEach = 64;
    const uint64_t misses = note_.first >> 40;
    note_.first += uint64_t{1} << 40;
    return (misses >= from && misses < kFirst) || (misses + 1) % kThenEach == 0;
  }
  void set(const cpython::AttributePlace& place) {
    const uint64_t misses = note_.first >> 40 << 40;
    note_ = {misses | uint64_t{place.kind} << 32 | place.version, place.where, place.value};
  }

 private:
  bytecode::Note& note_;
};

// Of what is found in classes with `where` names or none: no instance's own value hides it.
EVALFRAME_INLINE inline bool is_not_hidden(PyObject* object, uint64_t where) {
  if (where == cpython::AttributePlace::kNoDict) return true;
  return cpython::inline_values(object) && cpython::instance_names(Py_TYPE(object)) == where;
}
// The value (borrowed), or null where it has to be asked for.
EVALFRAME_INLINE inline PyObject* value_in_place(PyObject* object, const PlaceNote& known) {
  using enum cpython::AttributePlace::Kind;
  PyTypeObject* const type = Py_TYPE(object);
  switch (known.kind()) {
    case kNowhere: return nullptr;
    case kInline: {
      if (type->tp_version_tag != known.version()) return nullptr;
      PyObject** const values = cpython::inline_values(object);
      return values ? values[known.where()] : nullptr;
    }
    case kSlot:
      if (type->tp_version_tag != known.version()) return nullptr;
      return *reinterpret_cast<PyObject**>(reinterpret_cast<char*>(object) + known.where());
    case kClass:
    case kMethod: return type->tp_version_tag == known.version() && is_not_hidden(object, known.where()) ? known.value() : nullptr;
    case kOwner: {
      const bool same = type == &PyType_Type && reinterpret_cast<PyTypeObject*>(object)->tp_version_tag == known.version();
      return same ? known.value() : nullptr;
    }
    case kModule:
      return type == &PyModule_Type && cpython::dict_version(PyModule_GetDict(object)) == known.where() ? known.value() : nullptr;
  }
  return nullptr;
}

EVALFRAME_INLINE inline void learn_place(const Registers& r, const Instruction& i, bool to_store) {
  PlaceNote known(r.note(i));
  if (!known.wants_another()) return;
  PyObject* const object = r.top[-1];
  known.set(to_store ? cpython::place_to_store(object, r.name(i)) : cpython::place_to_load(object, r.name(i)));
}

EVALFRAME_QUICK(LOAD_ATTR) {
  const PlaceNote known(r.note(i));
  PyObject* const object = r.peek(1);
  if (known.kind() == cpython::AttributePlace::kMethod) return Outcome::kHandOver;
  PyObject* const value = value_in_place(object, known);
  if (!value) return Outcome::kHandOver;
  r.peek(1) = cpython::new_ref(value);
  cpython::decref(object);
  return Outcome::kRan;
}
EVALFRAME_LEARN(LOAD_ATTR) { learn_place(r, i, false); }

EVALFRAME_QUICK(LOAD_METHOD) {
  const PlaceNote known(r.note(i));
  PyObject* const object = r.peek(1);
  PyObject* const value = value_in_place(object, known);
  if (!value) return Outcome::kHandOver;
  if (known.kind() == cpython::AttributePlace::kMethod) {
    r.peek(1) = cpython::new_ref(value);
    r.push(object);
    return Outcome::kDone;
  }
  r.peek(1) = layout::kSelfAfterCallable ? cpython::new_ref(value) : nullptr;
  r.push(layout::kSelfAfterCallable ? nullptr : cpython::new_ref(value));
  cpython::decref(object);
  return Outcome::kRan;
}
EVALFRAME_LEARN(LOAD_METHOD) { learn_place(r, i, false); }

EVALFRAME_QUICK(STORE_ATTR) {
  using enum cpython::AttributePlace::Kind;
  const PlaceNote known(r.note(i));
  PyObject* const object = r.peek(1);
  if (known.kind() == kNowhere || Py_TYPE(object)->tp_version_tag != known.version()) return Outcome::kHandOver;
  PyObject* old;
  if (known.kind() == kInline) {
    PyObject** const values = cpython::inline_values(object);
    if (!values || cpython::values_are_shared(object)) return Outcome::kHandOver;
    old = std::exchange(values[known.where()], r.peek(2));
    if (!old) cpython::note_insertion(values, known.where());
  } else {
    old = std::exchange(*reinterpret_cast<PyObject**>(reinterpret_cast<char*>(object) + known.where()), r.peek(2));
  }
  r.top -= 2;
  cpython::xdecref(old);
  cpython::decref(object);
  return Outcome::kRan;
}
EVALFRAME_LEARN(STORE_ATTR) { learn_place(r, i, true); }

}  // namespace evalframe::evaluator
