// Where attributes are found without asking the class again, as long as its version stays. Runs no Python code.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/ref.h"
#include "core/word.h"
#include "cpython/layout.h"

namespace evalframe::cpython {

// What the class or a base of it has under the name, borrowed; null: nothing.
PyObject* lookup(const PyTypeObject* type, const char* name);

struct AttributePlace {
  enum Kind : uint8_t {
    kNowhere,  // it has to be asked for
    kInline,   // among the values in the instance, at `where`
    kSlot,     // in the instance, `where` bytes from its beginning (__slots__)
    kClass,    // `value` of the class, as long as instances have had `where` names (instance_names)
    kMethod,   // the same, and to be called with the instance
    kOwner,    // `value` of the owner, which is a class
    kModule,   // `value` of the owner, a module whose dict has version `where`
  };
  static constexpr uint64_t kNoDict = ~uint64_t{0};  // `where` of a class whose instances have no dict
  Kind kind = kNowhere;
  uint32_t version = 0;  // of the object's class; kOwner: of the object
  uint64_t where = 0;
  PyObject* value = nullptr;  // borrowed: it's there as long as the version is
};
// Of what `object` has as `name`: to be read, or to be set.
AttributePlace place_to_load(PyObject* object, PyObject* name);
AttributePlace place_to_store(PyObject* object, PyObject* name);

// The object's own value, in its dict or a slot: borrowed. Null: it has none, or none that is found without asking anyone.
PyObject* own_value(PyObject* object, PyObject* name);
// Whether the descriptor is that of a slot, made by __slots__ of the class or of a base.
bool is_slot(PyTypeObject* type, PyObject* descriptor);
// The dict that the object has its attributes in, borrowed; null: it has none (yet).
PyObject* own_dict(PyObject* object);
// Where the object has its own attributes, for those who look again whether anything has changed: in `dict`, which stands `offset`
// bytes from the object, and whose version tells of all stores. offset 0: it has no place for any.
struct DictPlace {
  Py_ssize_t offset = 0;
  PyObject* dict = nullptr;
};
// Nothing: they are in the object itself, or are stored past the dict.
std::optional<DictPlace> dict_place(PyObject* object);
// Where the object has the very thing that reading the attribute gives, in bytes from its beginning: a slot, and names that functions
// and classes keep. Good as long as its class has this version. -1: nowhere, or it isn't known where.
Py_ssize_t offset_of_field(PyObject* object, PyObject* name);
// Whether the class has no descriptor that stands before what the dict has under the name.
bool dict_comes_first(PyTypeObject* type, PyObject* name);
// `object.name` where reading it runs no Python code, whatever has become of object and class. Null, with an exception or
// without: it would, or there is none.
Ref plain_attribute(PyObject* object, PyObject* name);
bool is_plain_to_load(PyObject* object, PyObject* name);
// The same, where a __getattribute__ of Python's is before it: what that gets from object's, of the object's own.
Ref attribute_past_hooks(PyObject* object, PyObject* name);

// What an object keeps under which names, as it stands now: good until any code runs.
struct OwnNames {
  PyObject* object = nullptr;
  uint32_t version = 0;               // of its class; 0: names can't be looked for here
  Py_ssize_t count = 0;
  PyObject* const* entries = nullptr;  // names and values in turns
  PyObject* const* values = nullptr;   // where the values aren't in the entries
};
OwnNames own_names(PyObject* object);

// Where an object's own attribute stood last, for those who read it again and again.
class AttributeHint {
 public:
  // What attribute_past_hooks would give, borrowed; null: it has to be asked.
  PyObject* value(const OwnNames& names, PyObject* name) const {
    if (!version_ || names.version != version_ || index_ >= names.count || names.entries[2 * index_] != name) return nullptr;
    return names.values ? names.values[index_] : names.entries[2 * index_ + 1];
  }
  void learn(PyObject* object, PyObject* name);

 private:
  uint32_t version_ = 0;  // of the object's class, which has no say in it
  Py_ssize_t index_ = 0;
};
// Whether reading an attribute asks neither __getattribute__ nor, as long as it is found, __getattr__.
bool looks_up_plainly(PyTypeObject* type);
// The same of a class's attributes, by its metaclass.
bool looks_up_class_plainly(PyTypeObject* metaclass);
// Whether an attribute of the object's own, if there is one, can be looked for without running code.
bool is_plain_to_hold(PyObject* object);
// Whether a class of this metaclass has its `__module__` in its own dict, if there is one, and nothing else has a say in it.
bool gives_its_module(PyTypeObject* metaclass);
// Whether `object.__dict__` is the dict of the attributes, and nothing of the class's has a say in it.
bool gives_its_dict(PyTypeObject* type);
// Whether the object has no attribute of this name in its dict. Runs no code.
bool lacks_attribute(PyObject* object, PyObject* name);
// Whether `object.name = value` does nothing but keep the value, as long as the class stays.
bool is_plain_to_store(PyObject* object, PyObject* name);

// The same of what object.__setattr__ does, whatever the class has for it.
bool is_plain_to_keep(PyObject* object, PyObject* name);

// Whether object.__new__ makes an empty instance of the class, and nobody is told when that dies.
bool makes_plain_instances(PyTypeObject* type);
// Whether calling the class does so, and calls __init__ with it.
bool constructs_plainly(PyTypeObject* type);
// An instance as it is before __init__. Null with an exception.
Ref bare_instance(PyTypeObject* type);

// The same of a class that inherits from a builtin type, with what an object of that type has, or (null) nothing.
Ref instance_of_builtin(PyTypeObject* type, PyObject* contents);
// The builtin type that the class inherits from, of those whose objects are made of values; null: another, or none but object.
PyTypeObject* builtin_base(PyTypeObject* type);
// Which element of a named tuple the descriptor gives; -1: it is another descriptor.
Py_ssize_t index_of_field(PyObject* descriptor);

// The Python function that sets up an instance behind its making, where calling the class does just these two; else null.
PyObject* initializer_of(PyTypeObject* type);

// How many names instances of the class have had; none is ever taken away. Of classes with kHasInlineValues.
inline uint64_t instance_names(PyTypeObject* type) {
  const auto* const keys = reinterpret_cast<const Py_ssize_t*>(reinterpret_cast<PyHeapTypeObject*>(type)->ht_cached_keys);
  constexpr int kEntries = 3;
  return static_cast<uint64_t>(keys[kEntries]);
}

constexpr unsigned long kHasInlineValues = layout::k313 ? 1UL << 2 : 1UL << 4;  // Py_TPFLAGS_INLINE_VALUES, Py_TPFLAGS_MANAGED_DICT

// The instance's values in the order of those names, null where they have moved to a dict. Of classes with kHasInlineValues.
inline PyObject** inline_values(PyObject* object) {
  if (layout::k311) return reinterpret_cast<PyObject***>(object)[-4];
  if (layout::k312) {
    const auto values = reinterpret_cast<uintptr_t*>(object)[-3];
    return values & 1 ? reinterpret_cast<PyObject**>(values + 1) : nullptr;
  }
  auto* const values = reinterpret_cast<unsigned char*>(object) + sizeof(PyObject);
  constexpr int kValid = 3;
  return values[kValid] ? reinterpret_cast<PyObject**>(values + sizeof(PyObject*)) : nullptr;
}
// 3.13: the values may be a dict's at the same time, which counts them.
inline bool values_are_shared(PyObject* object) { return layout::k313 && reinterpret_cast<PyObject**>(object)[-3]; }
// Whether there is no dict of the object's attributes.
inline bool has_values_alone(PyObject* object) { return inline_values(object) && !values_are_shared(object); }
// ... of any object's, as long as its class has kHasInlineValues.
bool may_have_values_alone(PyObject* object);
// Of an object without a dict the words that tell of all of its values, as long as its class has this version: the first leads to the others. None: they
// are too many, or nothing does.
std::vector<Word> words_of_values(PyObject* object);

// A value was put where there was none: dicts made of the values have them in the order in which they came.
inline void note_insertion(PyObject** values, uint64_t index) {
  if (layout::k313) {
    auto* const header = reinterpret_cast<uint8_t*>(values) - sizeof(PyObject*);
    constexpr int kCapacity = 0, kSize = 1;
    reinterpret_cast<uint8_t*>(values + header[kCapacity])[header[kSize]++] = static_cast<uint8_t>(index);
    return;
  }
  uint8_t* const size = reinterpret_cast<uint8_t*>(values) - 2;
  ++*size;
  size[-static_cast<int>(*size)] = static_cast<uint8_t>(index);
}

}  // namespace evalframe::cpython
