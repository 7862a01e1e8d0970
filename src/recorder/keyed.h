// Functions in C for the Python functions that stand in for what dicts do with keys whose classes hash and compare them.
#pragma once

#include "core/ref.h"

namespace evalframe::recorder {

// keys_like(dict, hash): its keys under this hash, a tuple. item_at(dict, key): the item of this very key. store_at(dict, key, hash,
// value), delete_at(dict, key, hash): no key is compared.
enum class Keyed { kKeysLike, kItemAt, kStoreAt, kDeleteAt, kCount };
PyObject* keyed_function(Keyed which);
const char* name_of(Keyed which);

}  // namespace evalframe::recorder
