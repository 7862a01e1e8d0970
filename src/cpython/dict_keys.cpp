// Looks into the tables of dicts, as lookups do.
#define Py_BUILD_CORE 1
#include "cpython/pycore.h"

#include <algorithm>
#include <utility>

#include "cpython/dict_keys.h"

namespace evalframe::cpython {

namespace {

constexpr Py_ssize_t kEmpty = -1;

Py_ssize_t index_at(const PyDictKeysObject* keys, size_t place) {
  const auto* const indices = reinterpret_cast<const char*>(keys->dk_indices);
  if (keys->dk_log2_size < 8) return reinterpret_cast<const int8_t*>(indices)[place];
  if (keys->dk_log2_size < 16) return reinterpret_cast<const int16_t*>(indices)[place];
  if (keys->dk_log2_size < 32) return reinterpret_cast<const int32_t*>(indices)[place];
  return static_cast<Py_ssize_t>(reinterpret_cast<const int64_t*>(indices)[place]);
}

PyObject* key_under(PyDictObject* dict, Py_ssize_t index, Py_hash_t hash) {
  PyDictKeysObject* const keys = dict->ma_keys;
  if (!DK_IS_UNICODE(keys)) {
    const PyDictKeyEntry& entry = DK_ENTRIES(keys)[index];
    return entry.me_value && entry.me_hash == hash ? entry.me_key : nullptr;
  }
  const PyDictUnicodeEntry& entry = DK_UNICODE_ENTRIES(keys)[index];
  PyObject* const value = dict->ma_values ? dict->ma_values->values[index] : entry.me_value;
  return value && entry.me_key && reinterpret_cast<PyASCIIObject*>(entry.me_key)->hash == hash ? entry.me_key : nullptr;
}

PyObject* is_another(PyObject*, PyObject*, int) { return Py_NewRef(Py_False); }

// While this lives, objects of these types are equal to none but themselves. No other code runs meanwhile.
class NoneIsEqual {
 public:
  explicit NoneIsEqual(const std::vector<PyObject*>& objects) {
    for (PyObject* const object : objects) {
      PyTypeObject* const type = Py_TYPE(object);
      if (type->tp_richcompare != is_another) changed_.emplace_back(type, std::exchange(type->tp_richcompare, is_another));
    }
  }
  ~NoneIsEqual() {
    for (const auto& [type, compare] : changed_) type->tp_richcompare = compare;
  }
  NoneIsEqual(const NoneIsEqual&) = delete;
  NoneIsEqual& operator=(const NoneIsEqual&) = delete;

 private:
  std::vector<std::pair<PyTypeObject*, richcmpfunc>> changed_;
};

}  // namespace

std::vector<PyObject*> keys_with_hash(Borrowed object, Py_hash_t hash) {
  auto* const dict = object.as<PyDictObject>();
  const PyDictKeysObject* const keys = dict->ma_keys;
  constexpr int kShift = 5;  // PERTURB_SHIFT
  const size_t mask = (static_cast<size_t>(1) << keys->dk_log2_size) - 1;
  auto perturb = static_cast<size_t>(hash);
  size_t place = perturb & mask;
  std::vector<PyObject*> found;
  for (Py_ssize_t index = index_at(keys, place); index != kEmpty; index = index_at(keys, place)) {
    PyObject* const key = index >= 0 ? key_under(dict, index, hash) : nullptr;
    if (key) found.push_back(key);
    perturb >>= kShift;
    place = mask & (place * 5 + perturb + 1);
  }
  return found;
}

PyObject* item_of_key(Borrowed dict, Borrowed key) {
  PyObject *other = nullptr, *value = nullptr;
  for (Py_ssize_t at = 0; PyDict_Next(dict.get(), &at, &other, &value);) {
    if (other == key.get()) return value;
  }
  return nullptr;
}

bool store_under_hash(Borrowed dict, Borrowed key, Py_hash_t hash, PyObject* value) {
  std::vector<PyObject*> compared = keys_with_hash(dict, hash);
  if (!compared.empty()) compared.push_back(key.get());
  const Ref old = Ref::borrow(item_of_key(dict, key));  // whose end may run code, behind all this
  const NoneIsEqual none(compared);
  if (value) return _PyDict_SetItem_KnownHash(dict.get(), key.get(), value, hash) == 0;
  return _PyDict_DelItem_KnownHash(dict.get(), key.get(), hash) == 0;
}

}  // namespace evalframe::cpython
