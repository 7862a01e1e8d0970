// Rules for keys of dicts whose classes hash and compare them: what a dict does with one is followed as a Python function that stands in
// for it (python/evalframe/stand_ins.py), and which keys the dict has under a hash is a fact of the recording.
#include <algorithm>

#include "cpython/dict_keys.h"
#include "cpython/objects.h"
#include "recorder/keyed.h"
#include "recorder/rules/rules.h"

namespace evalframe::recorder {

namespace {

using evaluator::Activation;

// A Python function hashes it.
bool is_hashed_by_python(PyObject* object) {
  static PyObject* const name = PyUnicode_InternFromString("__hash__");
  PyTypeObject* const type = Py_TYPE(object);
  if (!PyType_HasFeature(type, Py_TPFLAGS_HEAPTYPE) || PyType_HasFeature(type, Py_TPFLAGS_IMMUTABLETYPE) || PyType_Check(object)) return false;
  PyObject* const found = _PyType_Lookup(type, name);
  return found && is_plain_function(found);
}

// The place of this very object among the dict's keys; -1: it is none of them.
Py_ssize_t place_in(PyObject* dict, PyObject* wanted) {
  PyObject* key = nullptr;
  Py_ssize_t place = 0;
  for (Py_ssize_t at = 0; PyDict_Next(dict, &at, &key, nullptr); place++) {
    if (key == wanted) return place;
  }
  return -1;
}

Py_hash_t hash_of(PyObject* number) {
  const Py_hash_t hash = PyLong_AsSsize_t(number);
  if (hash == -1 && PyErr_Occurred()) PyErr_Clear();
  return hash;
}

Plan keys_like(const Site& site, const std::vector<Operated>& given) {
  Recorder& recorder = site.recorder;
  const auto [label, dict] = given[0];
  const Value value = recorder.value(label);
  if (!PyDict_CheckExact(dict) || !PyLong_CheckExact(given[1].object) || !recorder.known(given[1].label, given[1].object)) return not_known(keyed_function(Keyed::kKeysLike));
  const bool source = value.kind == Value::Kind::kSource && !recorder.keys_vary(value.a) && PyDict_GET_SIZE(dict) <= kMaxParts;
  if (value.kind != Value::Kind::kDict && !source) return not_known(keyed_function(Keyed::kKeysLike));
  if (source) recorder.guards().require_keys(value.a, dict);
  std::vector<uint32_t> labels;
  for (PyObject* const key : cpython::keys_with_hash(dict, hash_of(given[1].object))) {
    // Under its place in memory, which is another one in each run.
    if (!is_immutable(key) && !is_hashed_by_python(key)) return not_known(keyed_function(Keyed::kKeysLike));
    labels.push_back(source ? recorder.fixed(key) : recorder.elements(value)[2 * static_cast<size_t>(place_in(dict, key))]);
  }
  if (labels.empty()) return plan_value(recorder.constant(Ref::steal(PyTuple_New(0)).get()));
  return plan_value(recorder.container(Value::Kind::kTuple, std::move(labels)));
}

Plan item_at(const Site& site, const std::vector<Operated>& given) {
  Recorder& recorder = site.recorder;
  const Value value = recorder.value(given[0].label);
  const Py_ssize_t place = place_in(given[0].object, given[1].object);
  if (place < 0) return plan_raise();
  if (value.kind == Value::Kind::kDict) return plan_value(recorder.elements(value)[2 * static_cast<size_t>(place) + 1]);
  if (value.kind != Value::Kind::kSource) return not_known(keyed_function(Keyed::kItemAt));
  recorder.recording().hashed = true;
  recorder.guards().require_type(value.a, given[0].object);
  return plan_value(key_source(recorder, value, given[1].object));
}

// A dict of the recorded code's alone: exits store into others by asking the keys.
Plan changed_at(const Site& site, const std::vector<Operated>& given, bool stores) {
  Recorder& recorder = site.recorder;
  const Value value = recorder.value(given[0].label);
  if (value.kind != Value::Kind::kDict || recorder.outer_of(given[0].label)) return plan_break(Break::kStore, "item of a dict");
  std::vector<uint32_t> contents = recorder.copied_elements(value);
  const Py_ssize_t place = place_in(given[0].object, given[1].object);
  if (place < 0 && !stores) return not_known(keyed_function(Keyed::kDeleteAt));
  const auto item = contents.begin() + 2 * std::max<Py_ssize_t>(place, 0);
  if (!stores) {
    contents.erase(item, item + 2);
    return plan_change(recorder, given[0].label, std::move(contents), plan_constant());
  }
  if (!recorder.known(given[2].label, given[2].object)) return not_known(keyed_function(Keyed::kStoreAt));
  const Py_hash_t hash = hash_of(given[2].object);
  if (place >= 0) {
    item[1] = given[3].label;
  } else {
    const Value::Kind kind = recorder.value(given[1].label).kind;
    if (kind != Value::Kind::kInstance && kind != Value::Kind::kSource) return not_known(keyed_function(Keyed::kStoreAt));
    const auto [known, is_new] = recorder.recording().hashes.try_emplace(given[1].label, hash);
    if (known->second != hash) return not_known(keyed_function(Keyed::kStoreAt));
    recorder.recording().hashed = true;
    contents.insert(contents.end(), {given[1].label, given[3].label});
  }
  return plan_change(recorder, given[0].label, std::move(contents), plan_constant());
}

// The plan of a call of the Python function that stands in under this name.
std::optional<Plan> stand_in_for(const Site& site, const char* name, const std::vector<Operated>& arguments) {
  std::optional<Plan> plan = stand_in_call(site, name);
  if (!plan) return std::nullopt;
  for (const Operated& argument : arguments) {
    if (ends_here(site.recorder, argument.object)) return plan_break(Break::kUnknownObject, "an operand whose end is told");
    give(*plan, argument);
  }
  return plan;
}

}  // namespace

bool is_key_of_class(Recorder& recorder, const Operated& key) {
  const Value value = recorder.value(key.label);
  const bool known = value.kind == Value::Kind::kInstance || value.kind == Value::Kind::kSource;
  return known && is_hashed_by_python(key.object) && fixes_class(recorder, value, key.object);
}

bool holds_keys_of_classes(PyObject* dict, PyObject* key) {
  const Py_hash_t hash = PyObject_Hash(key);
  if (hash == -1) return PyErr_Clear(), true;
  for (PyObject* const other : cpython::keys_with_hash(dict, hash)) {
    if (!is_immutable(other)) return true;
  }
  return false;
}

std::optional<Plan> keyed_instruction(const Site& site, const char* name, const std::vector<Operated>& operands) {
  Recorder& recorder = site.recorder;
  const Value::Kind kind = recorder.value(operands[0].label).kind;
  if (!PyDict_CheckExact(operands[0].object) || (kind != Value::Kind::kDict && kind != Value::Kind::kSource)) return std::nullopt;
  // The stand-in may end before it asks for its keys: where the key's hash does.
  const bool fixed = is_key_of_class(recorder, operands[1]) && fixes_type(recorder, operands[0].label, operands[0].object);
  return fixed ? stand_in_for(site, name, operands) : std::nullopt;
}

std::optional<Plan> dict_of_keys(const Site& site, const std::vector<Operated>& parts) {
  bool any = false;
  for (size_t i = 0; i < parts.size(); i += 2) any = any || is_key_of_class(site.recorder, parts[i]);
  return any ? stand_in_for(site, "keyed_dict", parts) : std::nullopt;
}

std::optional<Plan> keyed_call(const Site& site, const Activation::CallSite& call, PyObject* callable) {
  if (!PyCFunction_CheckExact(callable) || call.keyword_names) return std::nullopt;
  std::vector<Operated> given;
  for (int i = call.first; i < call.first + call.count; i++) given.push_back({site.recorder.label(i), site.frame.slot(i)});
  if (callable == keyed_function(Keyed::kKeysLike) && call.count == 2) return keys_like(site, given);
  if (callable == keyed_function(Keyed::kItemAt) && call.count == 2) return item_at(site, given);
  if (callable == keyed_function(Keyed::kStoreAt) && call.count == 4) return changed_at(site, given, true);
  if (callable == keyed_function(Keyed::kDeleteAt) && call.count == 3) return changed_at(site, given, false);
  return std::nullopt;
}

}  // namespace evalframe::recorder
