// What is known through and through: containers of the recorded code's, or from outside, whose elements are all known.
#include <algorithm>

#include "cpython/objects.h"
#include "recorder/rules/rules.h"

namespace evalframe::recorder {

namespace {

constexpr int kDeepest = 8;

// Containers that stand in each other several times are gone through as often.
struct Search {
  Recorder& recorder;
  int parts_left = 4 * kMaxParts;
  std::vector<uint32_t> open;  // what is being gone through: a list may hold itself
};

bool is_known(Search& search, uint32_t label, PyObject* object, int depth);
bool are_contents_known(Search& search, uint32_t label, PyObject* object, int depth);

// An immutable object that is a fact of the recording. A float from outside is another one in each call.
bool is_fact(Recorder& recorder, uint32_t label, PyObject* object) {
  return is_immutable(object) && !recorder.is_input_number(label, object) && recorder.known(label, object);
}

bool are_parts_known(Search& search, const std::vector<uint32_t>& parts, PyObject* sequence, int depth) {
  if (static_cast<Py_ssize_t>(parts.size()) != PySequence_Fast_GET_SIZE(sequence)) return false;
  for (size_t i = 0; i < parts.size(); i++) {
    if (!is_known(search, parts[i], PySequence_Fast_GET_ITEM(sequence, static_cast<Py_ssize_t>(i)), depth)) return false;
  }
  return true;
}

bool is_dict_known(Search& search, const Value dict, PyObject* object, int depth) {
  Recorder& recorder = search.recorder;
  const std::vector<uint32_t> parts = recorder.copied_elements(dict);
  PyObject *key = nullptr, *value = nullptr;
  size_t i = 0;
  for (Py_ssize_t at = 0; PyDict_Next(object, &at, &key, &value); i += 2) {
    if (i >= parts.size() || !is_fact(recorder, parts[i], key) || !is_known(search, parts[i + 1], value, depth)) return false;
  }
  return i == parts.size();
}

bool is_sequence_known(Search& search, const Value of, PyObject* object, int depth) {
  if (!is_written_in_c(Py_TYPE(object))) return false;
  const Ref items = Ref::steal(PySequence_Tuple(object));
  return items ? are_parts_known(search, search.recorder.copied_elements(of), items.get(), depth) : (PyErr_Clear(), false);
}

// The text of a factory may have its address.
bool is_mapping_known(Search& search, const Value mapping, PyObject* object, int depth) {
  Recorder& recorder = search.recorder;
  const uint32_t factory = recorder.factory_of(mapping);
  PyObject* const of = recorder.constant_of(factory);
  if (!is_written_in_c(Py_TYPE(object)) || (factory && (!of || !PyType_Check(of)))) return false;
  const Ref keys = Ref::steal(PySequence_Tuple(object));
  const std::vector<uint32_t> parts = recorder.copied_elements(mapping);
  if (!keys || 2 * static_cast<size_t>(PyTuple_GET_SIZE(keys.get())) != parts.size()) return PyErr_Clear(), false;
  for (size_t i = 0; i < parts.size(); i += 2) {
    PyObject* const key = PyTuple_GET_ITEM(keys.get(), static_cast<Py_ssize_t>(i / 2));
    PyObject* const item = PyDict_GetItemWithError(object, key);
    if (!item || !is_fact(recorder, parts[i], key) || !is_known(search, parts[i + 1], item, depth)) return false;
  }
  return true;
}

bool is_outer_known(Search& search, uint32_t label, PyObject* object, int depth) {
  Recorder& recorder = search.recorder;
  const Value source = recorder.value(label);
  if (PyDict_CheckExact(object)) {
    if (recorder.keys_vary(source.a) || PyDict_GET_SIZE(object) > kMaxParts || !require_keys(recorder, source, object)) return false;
    PyObject *key = nullptr, *value = nullptr;
    for (Py_ssize_t at = 0; PyDict_Next(object, &at, &key, &value);) {
      if (!is_known(search, key_source(recorder, source, key), value, depth)) return false;
    }
    return true;
  }
  if (PySet_CheckExact(object)) return recorder.require_elements(label, object);
  if (!PyList_CheckExact(object) && !PyTuple_CheckExact(object)) return false;
  const std::optional<std::vector<uint32_t>> parts = parts_of(recorder, label, object);
  return parts && are_parts_known(search, *parts, object, depth);
}

bool has_immutable_keys(PyObject* dict) {
  PyObject* key = nullptr;
  for (Py_ssize_t at = 0; PyDict_Next(dict, &at, &key, nullptr);) {
    if (!is_immutable(key)) return false;
  }
  return true;
}

// The keys of a view are known; those of a dict that a source has are guarded since the view was made.
bool is_view_known(Search& search, const Value view, PyObject* object, int depth) {
  const uint32_t label = search.recorder.elements(view)[2];
  auto* const dict = cpython::dict_of_view(object);
  return PyDict_CheckExact(dict) && has_immutable_keys(dict) && (PyDictKeys_Check(object) || is_known(search, label, dict, depth));
}

bool is_view(PyObject* object) { return PyDictViewSet_Check(object) || PyDictValues_Check(object); }

bool is_known(Search& search, uint32_t label, PyObject* object, int depth) {
  Recorder& recorder = search.recorder;
  if (is_fact(recorder, label, object)) return true;
  if (depth > kDeepest || search.parts_left-- <= 0) return false;
  if (std::find(search.open.begin(), search.open.end(), label) != search.open.end()) return true;
  search.open.push_back(label);
  const bool known = are_contents_known(search, label, object, depth);
  search.open.pop_back();
  return known;
}

bool are_contents_known(Search& search, uint32_t label, PyObject* object, int depth) {
  Recorder& recorder = search.recorder;
  const Value value = recorder.value(label);
  switch (value.kind) {
    case Value::Kind::kList:
    case Value::Kind::kTuple:
      return (PyList_CheckExact(object) || PyTuple_CheckExact(object)) && are_parts_known(search, recorder.copied_elements(value), object, depth + 1);
    case Value::Kind::kDeque: return is_sequence_known(search, value, object, depth + 1);
    case Value::Kind::kMapping: return is_mapping_known(search, value, object, depth + 1);
    case Value::Kind::kDict: return PyDict_CheckExact(object) && is_dict_known(search, value, object, depth + 1);
    case Value::Kind::kReplayed: return !holds_placed(object);
    case Value::Kind::kMade: return is_view(object) && is_view_known(search, value, object, depth);
    case Value::Kind::kSource: return is_outer_known(search, label, object, depth + 1);
    default: return false;
  }
}

}  // namespace

bool is_known_through(Recorder& recorder, uint32_t label, PyObject* object) {
  Search search{recorder};
  return is_known(search, label, object, 0);
}

bool is_known_flat(Recorder& recorder, uint32_t label, PyObject* object) {
  Search search{recorder};
  return is_known(search, label, object, kDeepest);
}

bool all_known_through(const Site& site, int first, int count) {
  for (int slot = first; slot < first + count; slot++) {
    if (!is_known_through(site.recorder, site.recorder.label(slot), site.frame.slot(slot))) return false;
  }
  return true;
}

bool adds_missing_keys(const Recorder& recorder, uint32_t label) {
  const Value of = recorder.value(label);
  return of.kind == Value::Kind::kMapping && recorder.factory_of(of);
}

uint32_t frozen(Recorder& recorder, uint32_t label, PyObject* object) {
  const Value value = recorder.value(label);
  if (value.kind == Value::Kind::kSource && PyAnySet_Check(object)) return 0;
  if (value.kind == Value::Kind::kReplayed && recorder.outer_of(label)) return 0;
  if (value.kind == Value::Kind::kReplayed) return recorder.container(Value::Kind::kReplayed, recorder.copied_elements(value));
  if (value.kind == Value::Kind::kMade && is_view(object)) {
    auto* const dict = cpython::dict_of_view(object);
    const Ref of = PyDictKeys_Check(object) ? Ref::steal(PyObject_CallMethod(reinterpret_cast<PyObject*>(&PyDict_Type), "fromkeys", "O", dict)) : cpython::copy_of_dict(dict);
    if (!of) return PyErr_Clear(), 0;
    return recorder.made(recorder.constant_of(recorder.elements(value)[0]), nullptr, {recorder.constant(of.get())});
  }
  if (value.kind == Value::Kind::kDeque) return recorder.deque(recorder.copied_elements(value), recorder.recording().graph.constants[value.b].get());
  if (value.kind == Value::Kind::kMapping) return recorder.mapping(Py_TYPE(object), recorder.copied_elements(value), recorder.factory_of(value));
  Ref copy;
  if (PyList_CheckExact(object)) copy = Ref::steal(PyList_GetSlice(object, 0, PY_SSIZE_T_MAX));
  if (PyDict_CheckExact(object)) copy = Ref::steal(PyDict_Copy(object));
  if (PyErr_Occurred()) PyErr_Clear();
  return copy ? recorder.constant(copy.get()) : label;
}

}  // namespace evalframe::recorder
