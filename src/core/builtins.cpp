// Keeps a copy of the dict of the module builtins.
#include "core/builtins.h"

#include <string_view>
#include <unordered_map>

namespace evalframe {
namespace {

// Names and objects are those of the copy, which is never let go. Rules ask for a dozen of them at each call that they see.
using ByName = std::unordered_map<std::string_view, PyObject*>;
const ByName* builtins = nullptr;

}  // namespace

void remember_builtins() {
  if (builtins) return;
  PyObject* const copy = PyDict_Copy(PyModule_GetDict(PyImport_AddModule("builtins")));
  auto* const by_name = new ByName;
  PyObject *name = nullptr, *object = nullptr;
  for (Py_ssize_t at = 0; copy && PyDict_Next(copy, &at, &name, &object);) {
    const char* const text = PyUnicode_CheckExact(name) ? PyUnicode_AsUTF8(name) : nullptr;
    if (text) by_name->emplace(text, object);
  }
  PyErr_Clear();  // a name that is no text
  builtins = by_name;
}

Borrowed builtin(const char* name) {
  const auto found = builtins->find(name);
  return found == builtins->end() ? Borrowed() : Borrowed(found->second);
}

}  // namespace evalframe
