// Rules for lists and dicts that the recorded code has made: what they hold, and how that changes.
#include <algorithm>
#include <string_view>

#include "cpython/objects.h"
#include "frontends/numpy/calls.h"
#include "frontends/torch/tensors.h"
#include "recorder/rules/rows.h"
#include "cpython/dict_keys.h"
#include "recorder/rules/rules.h"
#include "recorder/stand_ins.h"

namespace evalframe::recorder {

namespace {

using evaluator::Activation;
using Labels = std::vector<uint32_t>;

// Whether an iterator would give something else with the new contents.
bool is_seen_by_iterators(const Recorder& recorder, uint32_t container, const Labels& contents) {
  if (!recorder.is_iterated(container)) return false;
  const auto before = recorder.elements(recorder.value(container));
  if (before.size() != contents.size()) return true;
  for (size_t i = 0; i < contents.size(); i++) {
    if (before[i] != contents[i] && recorder.is_to_come(before[i])) return true;
  }
  return false;
}

// What is stored into the dict of an instance is an attribute: no descriptor of the class's is asked of it, so an exit doesn't, either.
bool may_be_attributes(const Recorder& recorder, PyTypeObject* type, const Labels& contents) {
  for (size_t i = 0; i < contents.size(); i += 2) {
    PyObject* const name = recorder.constant_of(contents[i]);
    if (!name || !PyUnicode_CheckExact(name) || !PyUnicode_CHECK_INTERNED(name)) return false;
    PyObject* const found = _PyType_Lookup(type, name);
    if (found && Py_TYPE(found)->tp_descr_set) return false;
  }
  return true;
}

// The list or dict will hold `contents`. An iterator over an OrderedDict tells of more than changes of its length.
Plan changed(Recorder& recorder, uint32_t container, Labels contents, Plan plan) {
  const bool tells = recorder.value(container).kind == Value::Kind::kMapping && recorder.is_iterated(container);
  if (tells || is_seen_by_iterators(recorder, container, contents)) return plan_break(Break::kStore, "a container changes while it is iterated over");
  if (!recorder.may_change(container)) return plan_break(Break::kStore, "an object whose end is told may be dropped");
  PyTypeObject* const type = recorder.class_of_attributes(container);
  if (type && !may_be_attributes(recorder, type, contents)) return plan_break(Break::kStore, "the dict of an object gets what is no plain attribute");
  plan.changed = container;
  plan.contents = std::move(contents);
  return plan;
}

// An index from the end counts, too. -1: not known, or out of range.
Py_ssize_t known_index(Recorder& recorder, const Operated& key, size_t count) {
  if (!PyLong_CheckExact(key.object) || !recorder.known(key.label, key.object)) return -1;
  Py_ssize_t index = PyLong_AsSsize_t(key.object);
  if (index == -1 && PyErr_Occurred()) return PyErr_Clear(), -1;
  if (index < 0) index += static_cast<Py_ssize_t>(count);
  return index >= 0 && index < static_cast<Py_ssize_t>(count) ? index : -1;
}

// Hashed by its place in memory, and equal to itself alone: a function, a class, an instance whose class says nothing.
bool is_key_by_place(Recorder& recorder, const Operated& key) {
  const Value::Kind kind = recorder.value(key.label).kind;
  const bool one = kind == Value::Kind::kInstance || kind == Value::Kind::kFunction || kind == Value::Kind::kConstant || kind == Value::Kind::kSource;
  const bool plain = Py_TYPE(key.object)->tp_hash == PyBaseObject_Type.tp_hash && compares_by_identity(Py_TYPE(key.object));
  return one && plain && fixes_type(recorder, key.label, key.object);
}

// The dict's keys that are known by their places are this one, or aren't.
bool is_told_apart(Recorder& recorder, const Operated& dict, const Operated& key) {
  const Value value = recorder.value(dict.label);
  if (!is_made_dict(value)) return PyDict_CheckExact(dict.object) && fixes_object(recorder, key.label, key.object);
  if (!PyDict_CheckExact(dict.object)) return false;
  const std::vector<uint32_t> labels = recorder.copied_elements(value);
  PyObject* other = nullptr;
  size_t i = 0;
  for (Py_ssize_t at = 0; PyDict_Next(dict.object, &at, &other, nullptr); i += 2) {
    if (!is_immutable(other) && !fixes_identity(recorder, {labels[i], other}, key)) return false;
  }
  return true;
}

// dict: where it is looked for, if anywhere.
bool is_known_key(Recorder& recorder, const Operated& key, const Operated* dict = nullptr) {
  if (!is_immutable(key.object)) return is_key_by_place(recorder, key) && (!dict || is_told_apart(recorder, *dict, key));
  return recorder.known(key.label, key.object) && !(dict && PyDict_CheckExact(dict->object) && holds_keys_of_classes(dict->object, key.object));
}

// A dict with its keys in the order in which it gives them: an OrderedDict has another one inside.
Ref in_order(PyObject* dict) { return PyODict_Check(dict) ? cpython::copy_of_dict(dict) : Ref::borrow(dict); }

// Whether its metaclass hashes and compares it by its place.
bool is_placed_class(PyObject* object) { return PyType_Check(object) && Py_TYPE(object)->tp_hash == PyType_Type.tp_hash && compares_by_identity(Py_TYPE(object)); }

// (type(x), type(y)): of such classes, and of what is immutable.
bool is_row_of_classes(PyObject* key) {
  for (Py_ssize_t i = 0; PyTuple_CheckExact(key) && i < PyTuple_GET_SIZE(key); i++) {
    if (!is_placed_class(PyTuple_GET_ITEM(key, i)) && !is_immutable(PyTuple_GET_ITEM(key, i))) return false;
  }
  return PyTuple_CheckExact(key);
}

// ... which is the same in every run.
bool fixes_row(Recorder& recorder, const Operated& key) {
  const std::optional<Labels> parts = is_row_of_classes(key.object) ? parts_of(recorder, key.label, key.object) : std::nullopt;
  for (size_t i = 0; parts && i < parts->size(); i++) {
    PyObject* const part = PyTuple_GET_ITEM(key.object, static_cast<Py_ssize_t>(i));
    const bool fixed = is_placed_class(part) ? fixes_metaclass(recorder, part) && fixes_object(recorder, (*parts)[i], part) : recorder.known((*parts)[i], part);
    if (!fixed) return false;
  }
  return parts.has_value();
}

// The dict is asked for the key without code of a program's.
bool is_asked_for_row(PyObject* dict, PyObject* key) {
  const Py_hash_t hash = is_row_of_classes(key) ? PyObject_Hash(key) : -1;
  if (hash == -1) return PyErr_Clear(), false;
  const auto others = cpython::keys_with_hash(dict, hash);
  return std::ranges::all_of(others, [](PyObject* other) { return is_immutable(other) || is_row_of_classes(other); });
}

// Where the key stands in the dict, whose live keys are in the order of what is known of it; -1: it isn't there.
Py_ssize_t place_of(PyObject* of, PyObject* wanted) {
  const Ref ordered = in_order(of);
  PyObject* const dict = ordered ? ordered.get() : of;
  PyObject* key = nullptr;
  for (Py_ssize_t at = 0, place = 0; PyDict_Next(dict, &at, &key, nullptr); place++) {
    if (key == wanted || (is_immutable(key) && is_immutable(wanted) && PyObject_RichCompareBool(key, wanted, Py_EQ) > 0)) return place;
  }
  return -1;
}

// Whether it is one of the dict's keys, none of which is asked by code of a program's.
bool is_key_of(PyObject* dict, PyObject* key) {
  if (!PyDict_CheckExact(dict) || !is_immutable(key)) return place_of(dict, key) >= 0;
  const int there = PyDict_Contains(dict, key);
  return there < 0 ? (PyErr_Clear(), false) : there;
}

// row[start:stop:step] = more, and del row[start:stop:step].
Plan store_slice_of_list(Recorder& recorder, const Operated& list, const Operated& key, const Operated& value) {
  Labels contents = recorder.copied_elements(recorder.value(list.label));
  Py_ssize_t start = 0, stop = 0, step = 0;
  if (!recorder.known(key.label, key.object) || PySlice_Unpack(key.object, &start, &stop, &step) < 0) return PyErr_Clear(), plan_break(Break::kStore, "slice of a list");
  const Py_ssize_t count = PySlice_AdjustIndices(static_cast<Py_ssize_t>(contents.size()), &start, &stop, step);
  const std::optional<Labels> more = value.label ? parts_of(recorder, value.label, value.object) : Labels{};
  if (!more || recorder.is_iterator(value.label)) return plan_break(Break::kStore, "slice of a list");
  if (step == 1) {
    contents.erase(contents.begin() + start, contents.begin() + start + count);
    contents.insert(contents.begin() + start, more->begin(), more->end());
  } else if (value.label) {
    if (static_cast<Py_ssize_t>(more->size()) != count) return plan_raise();
    for (Py_ssize_t i = 0; i < count; i++) contents[start + i * step] = (*more)[i];
  } else {
    for (Py_ssize_t i = 0; i < count; i++) contents[start + i * step] = 0;
    std::erase(contents, 0);
  }
  return changed(recorder, list.label, std::move(contents), {});
}

Plan store_into_list(Recorder& recorder, const Operated& list, const Operated& key, const Operated& stored) {
  if (PySlice_Check(key.object)) return store_slice_of_list(recorder, list, key, stored);
  const uint32_t value = stored.label;
  Labels contents = recorder.copied_elements(recorder.value(list.label));
  const Py_ssize_t index = known_index(recorder, key, contents.size());
  if (index < 0) return plan_break(Break::kStore, "item of a list");
  if (value) {
    contents[index] = value;
  } else {
    contents.erase(contents.begin() + index);
  }
  return changed(recorder, list.label, std::move(contents), {});
}

Labels with_item(Recorder& recorder, const Operated& dict, const Operated& key, uint32_t value) {
  Labels contents = recorder.copied_elements(recorder.value(dict.label));
  const Py_ssize_t place = place_of(dict.object, key.object);
  if (place >= 0) {
    contents[2 * place + 1] = value;
  } else {
    // The name of an attribute, which is known, is one.
    contents.insert(contents.end(), {recorder.class_of_attributes(dict.label) ? recorder.constant(key.object) : key.label, value});
  }
  return contents;
}

Labels without_item(Recorder& recorder, const Operated& dict, Py_ssize_t place) {
  Labels contents = recorder.copied_elements(recorder.value(dict.label));
  contents.erase(contents.begin() + 2 * place, contents.begin() + 2 * place + 2);
  return contents;
}

Plan store_into_dict(Recorder& recorder, const Operated& dict, const Operated& key, uint32_t value) {
  if (!is_known_key(recorder, key, &dict)) return plan_break(Break::kStore, "key of type " + type_name(key.object));
  if (value) return changed(recorder, dict.label, with_item(recorder, dict, key, value), {});
  const Py_ssize_t place = place_of(dict.object, key.object);
  return place < 0 ? plan_raise() : changed(recorder, dict.label, without_item(recorder, dict, place), {});
}

// --- methods ---------------------------------------------------------------------------------------------------------

Operated argument(const Site& site, const Activation::CallSite& call, int i) {
  return {site.recorder.label(call.first + i), site.frame.slot(call.first + i)};
}

Plan unknown_method(const char* method) { return plan_break(Break::kUnknownCall, method); }

Plan list_pop(const Site& site, const Activation::CallSite& call) {
  Recorder& recorder = site.recorder;
  Labels contents = recorder.copied_elements(recorder.value_at(call.first));
  const auto last = static_cast<Py_ssize_t>(contents.size()) - 1;
  const Py_ssize_t index = call.count == 2 ? known_index(recorder, argument(site, call, 1), contents.size()) : last;
  if (contents.empty() && call.count == 1) return plan_raise();
  if (call.count > 2 || index < 0) return unknown_method("list.pop");
  const uint32_t popped = contents[index];
  contents.erase(contents.begin() + index);
  return changed(recorder, recorder.label(call.first), std::move(contents), plan_value(popped));
}

Plan list_insert(const Site& site, const Activation::CallSite& call) {
  Recorder& recorder = site.recorder;
  Labels contents = recorder.copied_elements(recorder.value_at(call.first));
  if (call.count != 3 || !PyLong_CheckExact(argument(site, call, 1).object)) return unknown_method("list.insert");
  if (!recorder.known(argument(site, call, 1).label, argument(site, call, 1).object)) return unknown_method("list.insert");
  Py_ssize_t index = PyLong_AsSsize_t(argument(site, call, 1).object);
  if (index == -1 && PyErr_Occurred()) return PyErr_Clear(), unknown_method("list.insert");
  const auto count = static_cast<Py_ssize_t>(contents.size());
  if (index < 0) index = std::max<Py_ssize_t>(index + count, 0);
  contents.insert(contents.begin() + std::min(index, count), argument(site, call, 2).label);
  return changed(recorder, recorder.label(call.first), std::move(contents), plan_constant());
}

Plan list_reverse(const Site& site, const Activation::CallSite& call) {
  Labels contents = site.recorder.copied_elements(site.recorder.value_at(call.first));
  std::reverse(contents.begin(), contents.end());
  return changed(site.recorder, site.recorder.label(call.first), std::move(contents), plan_constant());
}

Plan clear(const Site& site, const Activation::CallSite& call) {
  return changed(site.recorder, site.recorder.label(call.first), {}, plan_constant());
}

Plan copy(const Site& site, const Activation::CallSite& call) {
  const Value of = site.recorder.value_at(call.first);
  PyObject* const object = site.frame.slot(call.first);
  if (of.kind == Value::Kind::kMapping) return plan_value(site.recorder.mapping(Py_TYPE(object), site.recorder.copied_elements(of), site.recorder.factory_of(of)));
  return plan_value(site.recorder.container(of.kind, site.recorder.copied_elements(of)));
}

// More elements for a list of which nothing is known.
Plan extended_outside(Recorder& recorder, const Operated& list, Labels more, Plan plan) {
  recorder.guards().require_type(recorder.value(list.label).a, list.object);
  plan.extended = list.label;
  plan.stored_into = Ref::borrow(list.object);
  plan.contents = std::move(more);
  return plan;
}

Plan list_extend(const Site& site, const Activation::CallSite& call) {
  if (call.count != 2) return unknown_method("list.extend");
  Plan plan = extended(site.recorder, argument(site, call, 0), argument(site, call, 1));
  if (plan.kind == Plan::Kind::kValue) plan.kind = Plan::Kind::kConstant;  // None
  return plan;
}

Plan append(const Site& site, const Activation::CallSite& call) {
  if (call.count != 2) return unknown_method("list.append");
  Operated list = argument(site, call, 0);
  if (site.recorder.value(list.label).kind == Value::Kind::kSource) {
    if (site.recorder.may_append_outside(list.label, list.object)) return extended_outside(site.recorder, list, {argument(site, call, 1).label}, plan_constant());
    if (!enter(site.recorder, list)) return plan_break(Break::kStore, "a list that may be iterated over");
  }
  if (site.recorder.is_iterated(list.label)) return plan_break(Break::kStore, "a container changes while it is iterated over");
  if (!site.recorder.may_change(list.label)) return plan_break(Break::kStore, "an object whose end is told may be dropped");
  Plan plan = plan_constant();
  plan.appends = true;
  return plan;
}

Plan dict_get(const Site& site, const Activation::CallSite& call) {
  if (call.count < 2 || call.count > 3) return unknown_method("dict.get");
  const Operated dict = argument(site, call, 0), key = argument(site, call, 1);
  const std::optional<bool> there = has_key(site.recorder, dict, key);
  if (!there) return unknown_method("dict.get");
  if (*there) return item_of_dict(site.recorder, dict, key);
  return plan_value(call.count == 3 ? argument(site, call, 2).label : site.recorder.constant(Py_None));
}

Plan dict_pop(const Site& site, const Activation::CallSite& call) {
  if (call.count < 2 || call.count > 3) return unknown_method("dict.pop");
  Recorder& recorder = site.recorder;
  const Operated dict = argument(site, call, 0), key = argument(site, call, 1);
  if (!is_known_key(recorder, key, &dict)) return unknown_method("dict.pop");
  const Py_ssize_t place = place_of(dict.object, key.object);
  if (place < 0) return call.count == 3 ? plan_value(argument(site, call, 2).label) : plan_raise();
  const uint32_t popped = recorder.elements(recorder.value(dict.label))[2 * place + 1];
  return changed(recorder, dict.label, without_item(recorder, dict, place), plan_value(popped));
}

Plan dict_setdefault(const Site& site, const Activation::CallSite& call) {
  if (call.keyword_names || call.count < 2 || call.count > 3) return unknown_method("dict.setdefault");
  Recorder& recorder = site.recorder;
  const Operated dict = argument(site, call, 0), key = argument(site, call, 1);
  const uint32_t otherwise = call.count == 3 ? argument(site, call, 2).label : recorder.constant(Py_None);
  if (!is_known_key(recorder, key, &dict)) return unknown_method("dict.setdefault");
  if (place_of(dict.object, key.object) >= 0) return item_of_dict(recorder, dict, key);
  return changed(recorder, dict.label, with_item(recorder, dict, key, otherwise), plan_value(otherwise));
}

// The contents of a dict with those of another one, or with keywords.
std::optional<Labels> merged(Labels contents, PyObject* live, const Labels& keys, const std::vector<PyObject*>& key_objects, const Labels& values) {
  const Ref places = live ? cpython::copy_of_dict(live) : Ref::steal(PyDict_New());
  if (!places) return PyErr_Clear(), std::nullopt;
  for (size_t i = 0; i < keys.size(); i++) {
    const Py_ssize_t place = place_of(places.get(), key_objects[i]);
    if (place >= 0) {
      contents[2 * place + 1] = values[i];
    } else {
      contents.insert(contents.end(), {keys[i], values[i]});
      if (PyDict_SetItem(places.get(), key_objects[i], Py_None) < 0) return PyErr_Clear(), std::nullopt;
    }
  }
  return contents;
}

// The keys and values of another dict that is known.
struct Entries {
  Labels keys, values;
  std::vector<PyObject*> key_objects;
};
// A key and a value, in a tuple or list. Its object is null where an iterator has yet to give it.
bool add_pair(Recorder& recorder, Entries& entries, uint32_t label, PyObject* pair) {
  const Value value = recorder.value(label);
  PyObject* const object = pair ? pair : recorder.constant_of(label);
  if (object && !PyTuple_CheckExact(object) && !PyList_CheckExact(object)) return false;
  const std::optional<Labels> parts = object ? parts_of(recorder, label, object) : value.kind == Value::Kind::kTuple ? std::optional(recorder.copied_elements(value)) : std::nullopt;
  if (!parts || parts->size() != 2) return false;
  PyObject* const key = object ? PySequence_Fast_GET_ITEM(object, 0) : recorder.constant_of((*parts)[0]);
  if (!key || !is_immutable(key) || !is_known_key(recorder, {(*parts)[0], key})) return false;
  entries.keys.push_back((*parts)[0]);
  entries.values.push_back((*parts)[1]);
  entries.key_objects.push_back(key);
  return true;
}

// [(key, value), ...], the items of a dict, or an iterator that gives such.
std::optional<Entries> entries_of_pairs(Recorder& recorder, const Operated& pairs) {
  const bool sequence = PyList_CheckExact(pairs.object) || PyTuple_CheckExact(pairs.object);
  const std::optional<Labels> parts = sequence || PyDictItems_Check(pairs.object) || recorder.is_iterator(pairs.label) ? parts_of(recorder, pairs.label, pairs.object) : std::nullopt;
  if (!parts) return std::nullopt;
  Entries entries;
  for (size_t i = 0; i < parts->size(); i++) {
    PyObject* const pair = sequence ? PySequence_Fast_GET_ITEM(pairs.object, static_cast<Py_ssize_t>(i)) : nullptr;
    if (!add_pair(recorder, entries, (*parts)[i], pair)) return std::nullopt;
  }
  return entries;
}

std::optional<Entries> entries_of(Recorder& recorder, const Operated& dict) {
  const Value value = recorder.value(dict.label);
  Entries entries;
  const bool made = is_made_dict(value);
  if (!made && !PyDict_CheckExact(dict.object)) return entries_of_pairs(recorder, dict);
  if (!made && (value.kind != Value::Kind::kSource || recorder.keys_vary(value.a) || !require_keys(recorder, value, dict.object))) return std::nullopt;
  const Ref ordered = in_order(dict.object);
  if (!ordered) return std::nullopt;
  PyObject* key = nullptr;
  size_t i = 0;
  for (Py_ssize_t at = 0; PyDict_Next(ordered.get(), &at, &key, nullptr); i++) {
    if (!is_immutable(key)) return std::nullopt;
    entries.key_objects.push_back(key);
    entries.keys.push_back(made ? recorder.elements(value)[2 * i] : recorder.constant(key));
    entries.values.push_back(made ? recorder.elements(value)[2 * i + 1] : key_source(recorder, value, key));
  }
  return entries;
}

Plan updated(Recorder& recorder, const Operated& dict, const Operated& other, Plan plan) {
  if (recorder.is_iterator(other.label)) return unknown_method("dict.update");
  const std::optional<Entries> more = entries_of(recorder, other);
  if (!more) return unknown_method("dict.update");
  std::optional<Labels> contents = merged(recorder.copied_elements(recorder.value(dict.label)), dict.object, more->keys, more->key_objects, more->values);
  return contents ? changed(recorder, dict.label, *std::move(contents), std::move(plan)) : unknown_method("dict.update");
}

// update(other), update(other, key=value): the dict has the items of one, then those of the other.
Plan dict_update(const Site& site, const Activation::CallSite& call) {
  Recorder& recorder = site.recorder;
  const int keywords = call.keywords();
  if (call.count - keywords > 2) return unknown_method("dict.update");
  const Operated dict = argument(site, call, 0);
  if (call.count - keywords == 2 && recorder.is_iterator(argument(site, call, 1).label)) return unknown_method("dict.update");
  std::optional<Entries> more = call.count - keywords == 2 ? entries_of(recorder, argument(site, call, 1)) : Entries{};
  for (int i = 0; more && i < keywords; i++) {
    PyObject* const name = PyTuple_GET_ITEM(call.keyword_names.get(), i);
    more->key_objects.push_back(name);
    more->keys.push_back(recorder.constant(name));
    more->values.push_back(recorder.label(call.first + call.count - keywords + i));
  }
  std::optional<Labels> contents;
  if (more) contents = merged(recorder.copied_elements(recorder.value(dict.label)), dict.object, more->keys, more->key_objects, more->values);
  return contents ? changed(recorder, dict.label, *std::move(contents), plan_constant()) : unknown_method("dict.update");
}

Plan dict_view(const Site& site, const Activation::CallSite& call) {
  Operated dict = argument(site, call, 0);
  if (site.recorder.value(dict.label).kind == Value::Kind::kSource && !enter(site.recorder, dict)) return unknown_method("view of a dict");
  return plan_value(site.recorder.made(site.frame.slot(call.callable), nullptr, {site.recorder.label(call.first)}));
}

// The argument `last` of an OrderedDict's methods; none: not known.
std::optional<bool> is_last(const Site& site, const Activation::CallSite& call, int place) {
  if (call.count == place) return true;
  const Operated last = argument(site, call, place);
  const bool named = !call.keyword_names || PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(call.keyword_names.get(), 0), "last") == 0;
  if (call.count != place + 1 || !named || !PyBool_Check(last.object) || !site.recorder.known(last.label, last.object)) return std::nullopt;
  return last.object == Py_True;
}

Plan dict_popitem(const Site& site, const Activation::CallSite& call) {
  Recorder& recorder = site.recorder;
  const Operated dict = argument(site, call, 0);
  const Labels contents = recorder.copied_elements(recorder.value(dict.label));
  const std::optional<bool> last = is_last(site, call, 1);
  if (!last || (call.count != 1 && !PyODict_CheckExact(dict.object))) return unknown_method("dict.popitem");
  if (contents.empty()) return plan_raise();
  const auto from = *last ? contents.end() - 2 : contents.begin();
  const uint32_t popped = recorder.container(Value::Kind::kTuple, {from, from + 2});
  return changed(recorder, dict.label, *last ? Labels(contents.begin(), from) : Labels(from + 2, contents.end()), plan_value(popped));
}

Plan move_to_end(const Site& site, const Activation::CallSite& call) {
  Recorder& recorder = site.recorder;
  const Operated dict = argument(site, call, 0);
  const std::optional<bool> last = call.count > 1 ? is_last(site, call, 2) : std::nullopt;
  if (!last || !is_immutable(argument(site, call, 1).object) || !is_known_key(recorder, argument(site, call, 1))) return unknown_method("OrderedDict.move_to_end");
  const Py_ssize_t place = place_of(dict.object, argument(site, call, 1).object);
  if (place < 0) return plan_raise();
  Labels contents = recorder.copied_elements(recorder.value(dict.label));
  const auto item = contents.begin() + 2 * place;
  *last ? std::rotate(item, item + 2, contents.end()) : std::rotate(contents.begin(), item, item + 2);
  return changed(recorder, dict.label, std::move(contents), plan_constant());
}

struct Method {
  PyTypeObject* type;
  const char* name;
  Plan (*plan)(const Site&, const Activation::CallSite&);
  bool of_sources;  // of those from outside, too
};
const Method kMethods[] = {
    {&PyList_Type, "append", append, true},       {&PyList_Type, "extend", list_extend, true},
    {&PyList_Type, "pop", list_pop, false},       {&PyList_Type, "insert", list_insert, false},
    {&PyList_Type, "reverse", list_reverse, false}, {&PyList_Type, "clear", clear, false},
    {&PyList_Type, "copy", copy, false},          {&PyDict_Type, "copy", copy, false},
    {&PyDict_Type, "clear", clear, false},        {&PyDict_Type, "get", dict_get, true},
    {&PyDict_Type, "pop", dict_pop, false},       {&PyDict_Type, "setdefault", dict_setdefault, false},
    {&PyDict_Type, "update", dict_update, false}, {&PyDict_Type, "keys", dict_view, true},
    {&PyDict_Type, "values", dict_view, true},    {&PyDict_Type, "items", dict_view, true},
    {&PyDict_Type, "popitem", dict_popitem, false}, {&PyODict_Type, "popitem", dict_popitem, false},
    {&PyODict_Type, "pop", dict_pop, false},      {&PyODict_Type, "setdefault", dict_setdefault, false},
    {&PyODict_Type, "update", dict_update, false}, {&PyODict_Type, "clear", clear, false},
    {&PyODict_Type, "keys", dict_view, false},    {&PyODict_Type, "values", dict_view, false},
    {&PyODict_Type, "items", dict_view, false},   {&PyODict_Type, "copy", copy, false},
    {&PyODict_Type, "move_to_end", move_to_end, false}};

// What a method of dict's own does with an object of a subclass: it asks nothing of that, unless the object keeps an order of its own.
bool is_for_mapping(const Method& method, PyObject* object) {
  if (method.type == &PyODict_Type) return PyODict_CheckExact(object);
  return method.type == &PyDict_Type && method.plan != copy && (method.plan == dict_get || !PyODict_Check(object));
}

// A view of an OrderedDict from outside, whose keys are guarded from here on.
std::optional<Plan> view_of_ordered(const Site& site, const Activation::CallSite& call) {
  const Operated dict = argument(site, call, 0);
  const Value value = site.recorder.value(dict.label);
  if (site.recorder.varies(value.a)) return std::nullopt;
  if (PyDict_GET_SIZE(dict.object) == 0) {
    site.recorder.guards().require_type(value.a, dict.object);
    site.recorder.guards().require_length(value.a, dict.object);
  } else if (site.recorder.keys_vary(value.a) || PyDict_GET_SIZE(dict.object) > kMaxParts || !require_keys(site.recorder, value, dict.object)) {
    return std::nullopt;
  }
  return plan_value(site.recorder.made(site.frame.slot(call.callable), nullptr, {dict.label}));
}

std::optional<Plan> method_call(const Site& site, const Activation::CallSite& call, PyObject* callable) {
  const auto* descriptor = reinterpret_cast<PyDescrObject*>(callable);
  if (call.count < 1) return std::nullopt;
  const Value::Kind kind = site.recorder.value_at(call.first).kind;
  for (const Method& method : kMethods) {
    if (descriptor->d_type != method.type || PyUnicode_CompareWithASCIIString(descriptor->d_name, method.name)) continue;
    if (call.keyword_names && method.plan != dict_update && method.plan != dict_popitem && method.plan != move_to_end) return std::nullopt;
    Operated self = argument(site, call, 0);
    const bool mapping = kind == Value::Kind::kMapping && is_for_mapping(method, self.object);
    const bool made = mapping || (method.type != &PyODict_Type && kind == (method.type == &PyList_Type ? Value::Kind::kList : Value::Kind::kDict));
    const bool source = kind == Value::Kind::kSource && Py_TYPE(self.object) == method.type;
    if (source && method.plan == dict_view && PyODict_CheckExact(self.object)) return view_of_ordered(site, call);
    if (made || (source && (method.of_sources || enter(site.recorder, self)))) return method.plan(site, call);
  }
  return std::nullopt;
}

// --- constructors ----------------------------------------------------------------------------------------------------

// list(x), tuple(x). A tuple of a tuple is that.
std::optional<Plan> sequence_of(const Site& site, const Activation::CallSite& call, Value::Kind kind) {
  Recorder& recorder = site.recorder;
  if (call.count == 0) return plan_value(recorder.container(kind, {}));
  const Operated from = argument(site, call, 0);
  if (kind == Value::Kind::kTuple && PyTuple_CheckExact(from.object) && fixes_type(recorder, from.label, from.object)) return plan_value(from.label);
  std::optional<Labels> parts = parts_of(recorder, from.label, from.object);
  if (!parts) return std::nullopt;
  Plan plan;
  exhaust(plan, recorder, from.label, from.object);
  plan.kind = Plan::Kind::kValue;
  // CPython has one empty tuple.
  plan.label = kind == Value::Kind::kTuple && parts->empty() ? recorder.constant(Ref::steal(PyTuple_New(0)).get()) : recorder.container(kind, *std::move(parts));
  return plan;
}

Plan dict_of(const Site& site, const Activation::CallSite& call) {
  Plan used;
  std::optional<Labels> contents = items_of_dict_call(site, call, 0, used);
  if (!contents) return unknown_method("dict");
  used.kind = Plan::Kind::kValue;
  used.label = site.recorder.container(Value::Kind::kDict, *std::move(contents));
  return used;
}

}  // namespace

std::optional<Labels> items_of_dict_call(const Site& site, const Activation::CallSite& call, int from, Plan& used) {
  Recorder& recorder = site.recorder;
  const int keywords = call.keywords();
  const int positional = call.count - keywords;
  if (positional > from + 1) return std::nullopt;
  Labels contents, keys, values;
  std::vector<PyObject*> key_objects;
  PyObject* live = nullptr;
  if (positional > from) {
    const Operated first = argument(site, call, from);
    const std::optional<Entries> entries = entries_of(recorder, first);
    if (!entries) return std::nullopt;
    if (PyDict_Check(first.object)) {
      for (size_t i = 0; i < entries->keys.size(); i++) contents.insert(contents.end(), {entries->keys[i], entries->values[i]});
      live = first.object;
    } else {
      exhaust(used, recorder, first.label, first.object);
      keys = entries->keys, values = entries->values, key_objects = entries->key_objects;
    }
  }
  for (int i = 0; i < keywords; i++) {
    key_objects.push_back(PyTuple_GET_ITEM(call.keyword_names.get(), i));
    keys.push_back(recorder.constant(key_objects.back()));
    values.push_back(argument(site, call, positional + i).label);
  }
  return merged(std::move(contents), live, keys, key_objects, values);
}

namespace {

// dict.fromkeys(names, value), which is bound to the class.
Plan dict_from_keys(const Site& site, const Activation::CallSite& call) {
  Recorder& recorder = site.recorder;
  if (call.count < 1 || call.count > 2 || call.keyword_names || recorder.is_iterator(argument(site, call, 0).label)) return unknown_method("dict.fromkeys");
  const Operated from = argument(site, call, 0);
  const std::optional<Labels> keys = parts_of(recorder, from.label, from.object);
  const Ref objects = keys ? Ref::steal(PySequence_Tuple(from.object)) : Ref();
  if (!objects) return PyErr_Clear(), unknown_method("dict.fromkeys");
  const uint32_t value = call.count == 2 ? argument(site, call, 1).label : recorder.constant(Py_None);
  std::vector<PyObject*> key_objects;
  for (size_t i = 0; i < keys->size(); i++) {
    key_objects.push_back(PyTuple_GET_ITEM(objects.get(), static_cast<Py_ssize_t>(i)));
    if (!is_immutable(key_objects.back()) || !is_known_key(recorder, {(*keys)[i], key_objects.back()})) return unknown_method("dict.fromkeys");
  }
  std::optional<Labels> contents = merged({}, nullptr, *keys, key_objects, Labels(keys->size(), value));
  return contents ? plan_value(recorder.container(Value::Kind::kDict, *std::move(contents))) : unknown_method("dict.fromkeys");
}

bool is_from_keys(PyObject* callable) {
  if (!PyCFunction_CheckExact(callable) || PyCFunction_GET_SELF(callable) != reinterpret_cast<PyObject*>(&PyDict_Type)) return false;
  return std::string_view(reinterpret_cast<PyCFunctionObject*>(callable)->m_ml->ml_name) == "fromkeys";
}

// --- instructions ----------------------------------------------------------------------------------------------------

// A dict of keys and values that stand on the stack.
Plan dict_from(const Site& site, const std::vector<Operated>& keys, const Labels& values) {
  Labels labels;
  std::vector<PyObject*> objects;
  for (const Operated& key : keys) {
    if (!is_known_key(site.recorder, key)) return plan_break(Break::kUnknownObject, "key of type " + type_name(key.object));
    for (const Operated& other : keys) {
      if (&other == &key) break;
      const bool both_by_place = !is_immutable(key.object) && !is_immutable(other.object);
      if (both_by_place && !fixes_identity(site.recorder, other, key)) return plan_break(Break::kUnknownObject, "key of type " + type_name(key.object));
    }
    labels.push_back(key.label);
    objects.push_back(key.object);
  }
  std::optional<Labels> contents = merged({}, nullptr, labels, objects, values);
  return contents ? plan_value(site.recorder.container(Value::Kind::kDict, *std::move(contents))) : plan_break(Break::kUnknownObject, "dict");
}

Plan build_map(const Site& site) {
  std::vector<Operated> keys, parts;
  Labels values;
  for (int slot = site.depth - 2 * site.instruction.arg; slot < site.depth; slot += 2) {
    keys.push_back(in_slot(site, slot));
    values.push_back(site.recorder.label(slot + 1));
    parts.insert(parts.end(), {keys.back(), in_slot(site, slot + 1)});
  }
  if (std::optional<Plan> plan = dict_of_keys(site, parts)) return *std::move(plan);
  return dict_from(site, keys, values);
}

Plan build_const_key_map(const Site& site) {
  PyObject* const names = site.frame.slot(site.depth - 1);
  std::vector<Operated> keys;
  Labels values;
  for (int i = 0; i < site.instruction.arg; i++) {
    keys.push_back({site.recorder.constant(PyTuple_GET_ITEM(names, i)), PyTuple_GET_ITEM(names, i)});
    values.push_back(site.recorder.label(site.depth - 1 - site.instruction.arg + i));
  }
  return dict_from(site, keys, values);
}

Plan map_add(const Site& site) {
  const int dict = site.depth - 2 - site.instruction.arg;
  if (site.recorder.value_at(dict).kind != Value::Kind::kDict) return plan_break(Break::kStore, "item of a dict");
  return store_into_dict(site.recorder, in_slot(site, dict), in_slot(site, site.depth - 2), site.recorder.label(site.depth - 1));
}

Plan dict_merge(const Site& site) {
  const int dict = site.depth - 1 - site.instruction.arg;
  if (site.recorder.value_at(dict).kind != Value::Kind::kDict) return plan_break(Break::kStore, "dict");
  return updated(site.recorder, in_slot(site, dict), in_slot(site, site.depth - 1), {});
}

Plan list_extend_instruction(const Site& site) {
  const int list = site.depth - 1 - site.instruction.arg;
  if (site.recorder.value_at(list).kind != Value::Kind::kList) return plan_break(Break::kStore, "items of a list");
  if (std::optional<Plan> followed = extension_call(site)) return *std::move(followed);
  Plan plan = extended(site.recorder, in_slot(site, list), in_slot(site, site.depth - 1));
  if (plan.kind == Plan::Kind::kValue) plan.kind = Plan::Kind::kLabels;
  return plan;
}

Plan list_append_instruction(const Site& site) {
  const bool made = site.recorder.value_at(site.depth - 1 - site.instruction.arg).kind == Value::Kind::kList;
  return made ? Plan{} : plan_break(Break::kStore, "append to a list");
}
void list_append_after(const Site& site, const Plan&) {
  const int list = site.depth - 1 - site.instruction.arg;
  site.recorder.append(site.recorder.value_at(list), site.recorder.label(site.depth - 1));
  site.recorder.set_label(site.depth - 1, 0);
}

Plan delete_subscript(const Site& site) {
  Operated container = in_slot(site, site.depth - 2);
  const Operated key = in_slot(site, site.depth - 1);
  if (std::optional<Plan> plan = keyed_instruction(site, "keyed_delete", {container, key})) return *std::move(plan);
  enter(site.recorder, container);
  const Value::Kind kind = site.recorder.value(container.label).kind;
  if (kind == Value::Kind::kReplayed) return store_into_replayed(site.recorder, container, key, {0, nullptr});
  if (std::optional<Plan> plan = item_call(site, "__delitem__", {container, key})) return *std::move(plan);
  if (kind == Value::Kind::kDeque) return store_into_deque(site, container, key, 0);
  if (kind != Value::Kind::kList && !is_made_dict(site.recorder.value(container.label))) return plan_break(Break::kStore, "item of " + type_name(container.object));
  return store_into_made(site.recorder, container, key, {0, nullptr});
}

}  // namespace

Plan list_to_tuple(const Site& site) {
  Recorder& recorder = site.recorder;
  const Value value = recorder.value_at(site.depth - 1);
  if (value.kind != Value::Kind::kList) return plan_break(Break::kInstruction, "tuple of a list");
  return plan_value(recorder.container(Value::Kind::kTuple, recorder.copied_elements(value)));
}

Plan store_into_made(Recorder& recorder, const Operated& container, const Operated& key, const Operated& value) {
  const bool list = recorder.value(container.label).kind == Value::Kind::kList;
  return list ? store_into_list(recorder, container, key, value) : store_into_dict(recorder, container, key, value.label);
}

Plan item_of_dict(Recorder& recorder, const Operated& dict, const Operated& key) {
  const Value value = recorder.value(dict.label);
  if (value.kind == Value::Kind::kSource && is_weak_reference_to_class(recorder, key) && PyDict_GetItemWithError(dict.object, key.object)) {
    recorder.guards().require_type(value.a, dict.object);
    return plan_value(key_source(recorder, value, key.object));
  }
  const bool by_row = value.kind == Value::Kind::kSource && PyDict_CheckExact(dict.object) && !is_immutable(key.object) && is_asked_for_row(dict.object, key.object);
  if (by_row && fixes_row(recorder, key)) {
    const bool there = PyDict_GetItemWithError(dict.object, key.object);
    recorder.guards().require_type(value.a, dict.object);
    if (there) return plan_value(key_source(recorder, value, key.object));
    recorder.guards().require_member(value.a, key.object, false);  // once it is, the recording that ends here gives way
  }
  if (!is_known_key(recorder, key, &dict)) return plan_break(Break::kUnknownObject, "subscript of dict");
  const bool made = is_made_dict(value);
  const Py_ssize_t place = made ? place_of(dict.object, key.object) : is_key_of(dict.object, key.object) ? 0 : -1;
  if (place < 0 && value.kind == Value::Kind::kMapping) return missing_item(recorder, dict, key);
  if (place < 0 && (value.kind == Value::Kind::kDict || require_keys(recorder, value, dict.object))) return plan_raise();
  if (place < 0) return plan_break(Break::kException, "no such key");
  if (made) return plan_value(recorder.elements(value)[2 * place + 1]);
  recorder.guards().require_type(value.a, dict.object);
  return plan_value(key_source(recorder, value, key.object));
}

std::optional<bool> has_key(Recorder& recorder, const Operated& dict, const Operated& key) {
  const Value value = recorder.value(dict.label);
  const bool made = is_made_dict(value);
  if ((!made && !PyDict_CheckExact(dict.object) && !PyODict_CheckExact(dict.object)) || !is_known_key(recorder, key, &dict) || (!made && value.kind != Value::Kind::kSource)) return std::nullopt;
  if (!made && (recorder.keys_vary(value.a) || !require_keys(recorder, value, dict.object))) return std::nullopt;
  return is_key_of(dict.object, key.object);
}

bool enter(Recorder& recorder, Operated& container) {
  if (recorder.value(container.label).kind != Value::Kind::kSource) return true;
  const uint32_t entered = recorder.enter(container.label, container.object);
  if (entered) container.label = entered;
  return entered;
}

Plan plan_change(Recorder& recorder, uint32_t container, std::vector<uint32_t> contents, Plan plan) { return changed(recorder, container, std::move(contents), std::move(plan)); }

Plan extended(Recorder& recorder, Operated list, const Operated& more) {
  std::optional<Labels> parts = parts_or_rows(recorder, more);
  if (!parts) return plan_break(Break::kUnknownObject, "list with the items of " + type_name(more.object));
  Plan plan;
  if (recorder.value(list.label).kind == Value::Kind::kSource && list.object != more.object && recorder.may_append_outside(list.label, list.object)) {
    plan = extended_outside(recorder, list, *std::move(parts), plan_value(list.label));
  } else {
    if (!enter(recorder, list)) return plan_break(Break::kStore, "items of a list");
    Labels contents = recorder.copied_elements(recorder.value(list.label));
    contents.insert(contents.end(), parts->begin(), parts->end());
    plan = changed(recorder, list.label, std::move(contents), plan_value(list.label));
  }
  if (plan.kind != Plan::Kind::kBreak) exhaust(plan, recorder, more.label, more.object);
  return plan;
}

Plan dict_union(Recorder& recorder, Operated left, const Operated& right, bool in_place) {
  if (in_place) return enter(recorder, left) ? updated(recorder, left, right, plan_value(left.label)) : unknown_method("dict.update");
  const std::optional<Entries> first = entries_of(recorder, left), second = first ? entries_of(recorder, right) : std::nullopt;
  if (!second) return unknown_method("union of dicts");
  Labels contents;
  for (size_t i = 0; i < first->keys.size(); i++) contents.insert(contents.end(), {first->keys[i], first->values[i]});
  std::optional<Labels> both = merged(std::move(contents), left.object, second->keys, second->key_objects, second->values);
  if (!both) return unknown_method("union of dicts");
  for (const Operated& operand : {left, right}) {
    const Value value = recorder.value(operand.label);
    if (value.kind == Value::Kind::kMapping) return plan_value(recorder.mapping(Py_TYPE(operand.object), *std::move(both), recorder.factory_of(value)));
  }
  return plan_value(recorder.container(Value::Kind::kDict, *std::move(both)));
}

bool holds_copies(PyObject* row) {
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(row); i++) {
    PyObject* const element = PySequence_Fast_GET_ITEM(row, i);
    const bool is_itself = is_immutable(element) || numpy::is_array(element) || torch::is_tensor(element);
    if (!is_itself && (!PyTuple_CheckExact(element) || holds_copies(element))) return true;
  }
  return false;
}

// rows.__setitem__(key, value), as hooks that are lambdas store what they see; none: another callable, or nothing known of the object.
static std::optional<Plan> store_by_call(const Site& site, const Activation::CallSite& call, PyObject* callable) {
  static PyObject* const of_list = PyObject_GetAttrString(reinterpret_cast<PyObject*>(&PyList_Type), "__setitem__");
  static PyObject* const of_dict = PyObject_GetAttrString(reinterpret_cast<PyObject*>(&PyDict_Type), "__setitem__");
  if ((callable != of_list && callable != of_dict) || call.count != 3 || call.keyword_names) return std::nullopt;
  Operated self = argument(site, call, 0);
  const bool fits = callable == of_list ? PyList_CheckExact(self.object) : PyDict_CheckExact(self.object);
  if (!fits || !enter(site.recorder, self)) return std::nullopt;
  const Value::Kind kind = site.recorder.value(self.label).kind;
  if (kind != Value::Kind::kList && kind != Value::Kind::kDict) return std::nullopt;
  Plan plan = store_into_made(site.recorder, self, argument(site, call, 1), argument(site, call, 2));
  if (plan.kind == Plan::Kind::kLabels) plan.kind = Plan::Kind::kConstant;
  return plan;
}

std::optional<Plan> container_call(const Site& site, const Activation::CallSite& call, PyObject* callable) {
  if (Py_IS_TYPE(callable, &PyWrapperDescr_Type)) return store_by_call(site, call, callable);
  if (Py_TYPE(callable) == &PyMethodDescr_Type) return method_call(site, call, callable);
  if (callable == reinterpret_cast<PyObject*>(&PyDict_Type)) return dict_of(site, call);
  if (is_from_keys(callable)) return dict_from_keys(site, call);
  if (call.keyword_names || call.count > 1) return std::nullopt;
  if (callable == reinterpret_cast<PyObject*>(&PyList_Type)) return sequence_of(site, call, Value::Kind::kList);
  if (callable == reinterpret_cast<PyObject*>(&PyTuple_Type)) return sequence_of(site, call, Value::Kind::kTuple);
  return std::nullopt;
}

void add_list_rules(RuleTable& table) {
  auto add = [&](bytecode::Op op, Plan (*before)(const Site&), void (*after)(const Site&, const Plan&) = nullptr) {
    table[static_cast<size_t>(op)] = {before, after};
  };
  using enum bytecode::Op;
  add(BUILD_MAP, build_map);
  add(BUILD_CONST_KEY_MAP, build_const_key_map);
  add(MAP_ADD, map_add);
  add(DICT_UPDATE, dict_merge);
  add(DICT_MERGE, dict_merge);
  add(LIST_EXTEND, list_extend_instruction);
  add(LIST_APPEND, list_append_instruction, list_append_after);
  add(LIST_TO_TUPLE, list_to_tuple);
  add(DELETE_SUBSCR, delete_subscript);
}

PyObject* list_append() {
  static PyObject* const found = PyObject_GetAttrString(reinterpret_cast<PyObject*>(&PyList_Type), "append");
  return found;
}

PyObject* list_extend() {
  static PyObject* const found = PyObject_GetAttrString(reinterpret_cast<PyObject*>(&PyList_Type), "extend");
  return found;
}

}  // namespace evalframe::recorder
