// Methods of immutable builtin types, of what is known: their results are known, too.
#include <unordered_set>
#include <vector>

#include "core/made_once.h"
#include "recorder/rules/rules.h"

namespace evalframe::recorder {

namespace {

std::unordered_set<PyObject*> find_methods() {
  std::unordered_set<PyObject*> found;
  const auto add = [&](PyTypeObject& type, const char* name) {
    // Not every version has all of them. The types have them for good.
    const Ref method = Ref::steal(PyObject_GetAttrString(reinterpret_cast<PyObject*>(&type), name));
    if (method) found.insert(method.get());
    PyErr_Clear();
  };
#define EVALFRAME_METHOD(type, name) add(type##_Type, #name);
#include "recorder/methods.def"
#undef EVALFRAME_METHOD
  return found;
}

}  // namespace

bool is_pure_method(PyObject* callable) {
  static MadeOnce<std::unordered_set<PyObject*>> methods;
  return Py_TYPE(callable) == &PyMethodDescr_Type && methods.get(find_methods).contains(callable);
}

Plan call_of_pure_method(Recorder& recorder, PyObject* callable, const Given& given) {
  for (size_t i = 0; i < given.labels.size(); i++) {
    const bool flat = !adds_missing_keys(recorder, given.labels[i]) && is_known_flat(recorder, given.labels[i], given.objects[i]);
    const bool known = flat || recorder.known(given.labels[i], given.objects[i]);
    if (!known) return plan_break(Break::kUnknownCall, callable_name(callable));
  }
  return plan_known_call(recorder, callable, given);
}

uint32_t value_of_constant_result(Recorder& recorder, PyObject* result) {
  const bool sequence = PyList_CheckExact(result) || PyTuple_CheckExact(result);
  if ((!sequence && !PyDict_CheckExact(result)) || is_immutable(result)) return recorder.constant(result);
  std::vector<uint32_t> parts;
  PyObject *key = nullptr, *value = nullptr;
  for (Py_ssize_t at = 0; !sequence && PyDict_Next(result, &at, &key, &value);) {
    parts.push_back(recorder.constant(key));
    parts.push_back(value_of_constant_result(recorder, value));
  }
  for (Py_ssize_t i = 0; sequence && i < PySequence_Fast_GET_SIZE(result); i++) parts.push_back(value_of_constant_result(recorder, PySequence_Fast_GET_ITEM(result, i)));
  const Value::Kind kind = !sequence ? Value::Kind::kDict : PyList_CheckExact(result) ? Value::Kind::kList : Value::Kind::kTuple;
  return recorder.container(kind, std::move(parts));
}

}  // namespace evalframe::recorder
