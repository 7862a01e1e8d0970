// What is known through and through: containers of the recorded code's, or from outside, whose elements are all known.
#include "recorder/rules/rules.h"

namespace evalframe::recorder {

namespace {

constexpr int kDeepest = 8;

// An immutable object that is a fact of the recording. A float from outside is another one in each call.
bool is_fact(Recorder& recorder, uint32_t label, PyObject* object) {
  return is_immutable(object) && !recorder.is_input_number(label, object) && recorder.known(label, object);
}

bool are_parts_known(Recorder& recorder, const std::vector<uint32_t>& parts, PyObject* sequence, int depth) {
  if (static_cast<Py_ssize_t>(parts.size()) != PySequence_Fast_GET_SIZE(sequence)) return false;
  for (size_t i = 0; i < parts.size(); i++) {
    if (!is_known_through(recorder, parts[i], PySequence_Fast_GET_ITEM(sequence, static_cast<Py_ssize_t>(i)), depth)) return false;
  }
  return true;
}

bool is_dict_known(Recorder& recorder, const Value dict, PyObject* object, int depth) {
  const std::vector<uint32_t> parts = recorder.copied_elements(dict);
  PyObject *key = nullptr, *value = nullptr;
  size_t i = 0;
  for (Py_ssize_t at = 0; PyDict_Next(object, &at, &key, &value); i += 2) {
    if (i >= parts.size() || !is_fact(recorder, parts[i], key) || !is_known_through(recorder, parts[i + 1], value, depth)) return false;
  }
  return i == parts.size();
}

bool is_outer_known(Recorder& recorder, uint32_t label, PyObject* object, int depth) {
  const Value source = recorder.value(label);
  if (PyDict_CheckExact(object)) {
    if (recorder.varies(source.a) || PyDict_GET_SIZE(object) > kMaxParts || !require_keys(recorder, source, object)) return false;
    PyObject *key = nullptr, *value = nullptr;
    for (Py_ssize_t at = 0; PyDict_Next(object, &at, &key, &value);) {
      if (!is_fact(recorder, key_source(recorder, source, key), value)) return false;
    }
    return true;
  }
  if (!PyList_CheckExact(object) && !PyTuple_CheckExact(object)) return false;
  const std::optional<std::vector<uint32_t>> parts = parts_of(recorder, label, object);
  return parts && are_parts_known(recorder, *parts, object, depth);
}

}  // namespace

bool is_known_through(Recorder& recorder, uint32_t label, PyObject* object, int depth) {
  if (is_fact(recorder, label, object)) return true;
  if (depth > kDeepest) return false;
  const Value value = recorder.value(label);
  switch (value.kind) {
    case Value::Kind::kList:
    case Value::Kind::kTuple:
      return (PyList_CheckExact(object) || PyTuple_CheckExact(object)) && are_parts_known(recorder, recorder.copied_elements(value), object, depth + 1);
    case Value::Kind::kDict: return PyDict_CheckExact(object) && is_dict_known(recorder, value, object, depth + 1);
    case Value::Kind::kReplayed: return true;
    case Value::Kind::kSource: return is_outer_known(recorder, label, object, depth + 1);
    default: return false;
  }
}

bool is_known_flat(Recorder& recorder, uint32_t label, PyObject* object) { return is_known_through(recorder, label, object, kDeepest); }

bool all_known_through(const Site& site, int first, int count) {
  for (int slot = first; slot < first + count; slot++) {
    if (!is_known_through(site.recorder, site.recorder.label(slot), site.frame.slot(slot))) return false;
  }
  return true;
}

uint32_t frozen(Recorder& recorder, uint32_t label, PyObject* object) {
  const Value value = recorder.value(label);
  if (value.kind == Value::Kind::kSource && PyAnySet_Check(object)) return 0;
  if (value.kind == Value::Kind::kReplayed && recorder.outer_of(label)) return 0;
  if (value.kind == Value::Kind::kReplayed) return recorder.container(Value::Kind::kReplayed, recorder.copied_elements(value));
  Ref copy;
  if (PyList_CheckExact(object)) copy = Ref::steal(PyList_GetSlice(object, 0, PY_SSIZE_T_MAX));
  if (PyDict_CheckExact(object)) copy = Ref::steal(PyDict_Copy(object));
  if (PyErr_Occurred()) PyErr_Clear();
  return copy ? recorder.constant(copy.get()) : label;
}

}  // namespace evalframe::recorder
