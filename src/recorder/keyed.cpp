#include "recorder/keyed.h"

#include "core/c_function.h"
#include "cpython/dict_keys.h"

namespace evalframe::recorder {

namespace {

// The hash among the arguments, which hash() gave. False with an exception.
bool takes(PyObject* const* arguments, Py_ssize_t count, Py_ssize_t wanted, Py_ssize_t at, Py_hash_t* hash) {
  const bool fits = count == wanted && PyDict_CheckExact(arguments[0]) && PyLong_CheckExact(arguments[at]);
  *hash = fits ? PyLong_AsSsize_t(arguments[at]) : -1;
  if (!fits) PyErr_SetString(PyExc_TypeError, "a dict and a hash are wanted");
  return fits && !PyErr_Occurred();
}

PyObject* keys_like(PyObject*, PyObject* const* arguments, Py_ssize_t count) {
  Py_hash_t hash = 0;
  if (!takes(arguments, count, 2, 1, &hash)) return nullptr;
  const std::vector<PyObject*> keys = cpython::keys_with_hash(arguments[0], hash);
  PyObject* const made = PyTuple_New(static_cast<Py_ssize_t>(keys.size()));
  for (size_t i = 0; made && i < keys.size(); i++) PyTuple_SET_ITEM(made, i, Py_NewRef(keys[i]));
  return made;
}

PyObject* item_at(PyObject*, PyObject* const* arguments, Py_ssize_t count) {
  if (count != 2 || !PyDict_CheckExact(arguments[0])) return PyErr_Format(PyExc_TypeError, "a dict and a key are wanted");
  PyObject* const found = cpython::item_of_key(arguments[0], arguments[1]);
  if (!found) PyErr_SetObject(PyExc_KeyError, arguments[1]);
  return Py_XNewRef(found);
}

PyObject* store_at(PyObject*, PyObject* const* arguments, Py_ssize_t count) {
  Py_hash_t hash = 0;
  if (!takes(arguments, count, 4, 2, &hash) || !cpython::store_under_hash(arguments[0], arguments[1], hash, arguments[3])) return nullptr;
  return Py_NewRef(Py_None);
}

PyObject* delete_at(PyObject*, PyObject* const* arguments, Py_ssize_t count) {
  Py_hash_t hash = 0;
  if (!takes(arguments, count, 3, 2, &hash) || !cpython::store_under_hash(arguments[0], arguments[1], hash, nullptr)) return nullptr;
  return Py_NewRef(Py_None);
}

struct KeyedRow {
  const char* name;
  PyObject* (*function)(const char* name, const char* doc);
};
constexpr KeyedRow kKeyed[] = {{"keys_like", c_function<keys_like>}, {"item_at", c_function<item_at>}, {"store_at", c_function<store_at>}, {"delete_at", c_function<delete_at>}};
static_assert(std::size(kKeyed) == static_cast<size_t>(Keyed::kCount));

}  // namespace

const char* name_of(Keyed which) { return kKeyed[static_cast<size_t>(which)].name; }

PyObject* keyed_function(Keyed which) { return kKeyed[static_cast<size_t>(which)].function(name_of(which), nullptr); }

}  // namespace evalframe::recorder
