// The border for version tags: one number that changes whenever a dict or a class does.
#pragma once

#include <cstdint>

#include "core/ref.h"
#include "core/word.h"
#include "cpython/layout.h"

namespace evalframe::cpython {

// Changes with every store into or deletion from the dict (ma_version_tag, 3.11-3.13). Also changes on stores that don't
// concern the reader: re-read the value and re-arm then.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
inline uint64_t dict_version(Borrowed dict) { return dict.as<PyDictObject>()->ma_version_tag; }
inline Word word_of_version(Borrowed dict) { return word_at(&dict.as<PyDictObject>()->ma_version_tag); }
#pragma GCC diagnostic pop

// Whether the version does change with every store. In 3.13 the values of an object's dict are the object's own attributes, which
// are stored without telling the dict.
inline bool version_tells_all(Borrowed dict) { return !layout::k313 || !dict.as<PyDictObject>()->ma_values; }

// Changes with every change of the class or its bases (tp_version_tag); 0: the class can't be versioned.
// Assigns a version where the class has none yet.
uint32_t type_version(PyTypeObject* type);
// The version it has now, assigning none.
inline uint32_t current_type_version(PyTypeObject* type) {
#if PY_VERSION_HEX < 0x030D0000
  if (!PyType_HasFeature(type, Py_TPFLAGS_VALID_VERSION_TAG)) return 0;  // 3.13 sets no flag: no version is 0 there
#endif
  return type->tp_version_tag;
}

// The version of a class that has one. A class that is changed loses it (PyType_Modified sets 0), and what lies behind it up to the next word is
// never written.
static_assert(offsetof(PyTypeObject, tp_version_tag) % sizeof(uint64_t) == 0 && offsetof(PyTypeObject, tp_finalize) - offsetof(PyTypeObject, tp_version_tag) == sizeof(uint64_t));
inline Word word_of_version(PyTypeObject* type) { return word_at(&type->tp_version_tag); }

// What `object.name` binds: the function on the class, not shadowed by the instance; null without an exception where
// that isn't what the attribute is. Runs no Python code if the class looks attributes up the generic way.
Ref bound_function(Borrowed object, Borrowed name);

}  // namespace evalframe::cpython
