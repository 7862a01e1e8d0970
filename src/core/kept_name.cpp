#include "core/kept_name.h"

#include <unordered_map>

namespace evalframe {

PyObject* kept_name(std::string_view name) {
  static auto* const all = new std::unordered_map<std::string_view, PyObject*>;
  if (const auto found = all->find(name); found != all->end()) return found->second;
  PyObject* made = PyUnicode_FromStringAndSize(name.data(), static_cast<Py_ssize_t>(name.size()));
  if (!made) return PyErr_Clear(), nullptr;
  PyUnicode_InternInPlace(&made);
  const char* const text = PyUnicode_AsUTF8(made);  // it lies in the object, which is kept
  if (text) all->emplace(text, made);
  return made;
}

}  // namespace evalframe
