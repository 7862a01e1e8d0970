// Keys of dicts by the hashes that they are stored under, without a question to the keys themselves.
#pragma once

#include <vector>

#include "core/ref.h"

namespace evalframe::cpython {

// The dict's keys under this hash, in the order in which it compares them with one that is looked for.
std::vector<PyObject*> keys_with_hash(Borrowed dict, Py_hash_t hash);
// The item of this very key; null: the dict hasn't got it.
PyObject* item_of_key(Borrowed dict, Borrowed key);
// Stores the item under the hash, or (value null) takes it out. Any other object is another key: none is asked. False with an exception.
bool store_under_hash(Borrowed dict, Borrowed key, Py_hash_t hash, PyObject* value);

}  // namespace evalframe::cpython
