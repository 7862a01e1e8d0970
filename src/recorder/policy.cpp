#include "recorder/policy.h"

#include <unordered_map>
#include <unordered_set>

namespace evalframe::recorder {

namespace {

// Held, so that addresses stay their own. All of it is under the interpreter's lock.
struct Registry {
  std::unordered_map<PyObject*, std::pair<Ref, Policy>> policies;
  std::unordered_map<PyObject*, std::pair<Ref, Marks>> marks;
  std::unordered_set<std::string> skipped;
};
Registry& registry() {
  static auto* const made = new Registry;  // lives as long as the process
  return *made;
}

PyObject* function_in(PyObject* callable) { return PyMethod_Check(callable) ? PyMethod_GET_FUNCTION(callable) : callable; }
// The module that the function is of; empty: it doesn't say.
std::string module_of(PyObject* function) {
  PyObject* const name = PyDict_GetItemString(reinterpret_cast<PyFunctionObject*>(function)->func_globals, "__name__");
  const char* const text = name && PyUnicode_Check(name) ? PyUnicode_AsUTF8(name) : nullptr;
  return text ? text : (PyErr_Clear(), "");
}

// ... or one around it.
bool is_skipped(PyObject* function) {
  for (std::string module = module_of(function); !module.empty();) {
    if (registry().skipped.contains(module)) return true;
    const size_t dot = module.rfind('.');
    module.resize(dot == std::string::npos ? 0 : dot);
  }
  return false;
}

// What torch.compiler.disable has made a function of; null: another function.
PyObject* disabled_by_torch(PyObject* function) {
  PyObject* const attributes = PyFunction_Check(function) ? reinterpret_cast<PyFunctionObject*>(function)->func_dict : nullptr;
  static PyObject *const marked = PyUnicode_InternFromString("_torchdynamo_disable"), *const original = PyUnicode_InternFromString("_torchdynamo_orig_callable");
  // functools.wraps copies it to others.
  if (!attributes || PyDict_GetItemWithError(attributes, marked) != Py_True || !is_in_torch(function)) return PyErr_Clear(), nullptr;
  PyObject* const of = PyDict_GetItemWithError(attributes, original);
  return of && PyFunction_Check(of) ? of : (PyErr_Clear(), nullptr);
}

PyObject* key_of(PyObject* callable) {
  PyObject* const given = function_in(callable);
  PyObject *const original = disabled_by_torch(given), *const function = original ? original : given;
  return PyFunction_Check(function) ? reinterpret_cast<PyFunctionObject*>(function)->func_code : function;
}

}  // namespace

bool is_in_torch(PyObject* function) { return module_of(function).starts_with("torch."); }

bool is_of_torch(PyTypeObject* type) {
  static PyObject* const name = PyUnicode_InternFromString("__module__");
  PyObject* const module = PyType_HasFeature(type, Py_TPFLAGS_HEAPTYPE) ? PyDict_GetItemWithError(type->tp_dict, name) : nullptr;
  const char* const text = module && PyUnicode_Check(module) ? PyUnicode_AsUTF8(module) : nullptr;
  return text ? std::string_view(text).starts_with("torch.") : (PyErr_Clear(), false);
}

PyObject* followed_instead(PyObject* function) {
  PyObject* const original = disabled_by_torch(function);
  return original && policy_of(function) == Policy::kFollowed ? original : nullptr;
}

void set_policy(Borrowed callable, Policy policy) {
  PyObject* const key = key_of(callable.get());
  registry().policies.insert_or_assign(key, std::pair{Ref::borrow(key), policy});
}

Policy policy_of(PyObject* callable) {
  const Registry& said = registry();
  if (!said.policies.empty()) {
    const auto found = said.policies.find(key_of(callable));
    if (found != said.policies.end()) return found->second.second;
  }
  PyObject* const function = function_in(callable);
  if (PyObject* const original = disabled_by_torch(function); original && !is_in_torch(original)) return Policy::kUncaptured;
  return !said.skipped.empty() && PyFunction_Check(function) && is_skipped(function) ? Policy::kUncaptured : Policy::kFollowed;
}

void skip_module(std::string name) { registry().skipped.insert(std::move(name)); }

void mark_parameter(Borrowed code, int index, bool input) {
  auto& [held, marks] = registry().marks[code.get()];
  held = Ref::borrow(code);
  std::erase_if(marks, [&](const auto& mark) { return mark.first == index; });
  marks.emplace_back(index, input);
}

const Marks& marks_of(PyObject* code) {
  static const Marks none;
  const auto& marks = registry().marks;
  const auto found = marks.empty() ? marks.end() : marks.find(code);
  return found == marks.end() ? none : found->second.second;
}

}  // namespace evalframe::recorder
