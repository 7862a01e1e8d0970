// Rules for what is gone through: sequences whose elements are known, views of dicts, and iterators over them.
#include <algorithm>

#include "core/builtins.h"
#include "cpython/objects.h"
#include "frontends/torch/tensors.h"
#include "recorder/nan.h"
#include "recorder/rules/rules.h"

namespace evalframe::recorder {

namespace {

using evaluator::Activation;

bool is_builtin_container(PyObject* object) {
  return PyList_CheckExact(object) || PyTuple_CheckExact(object) || PyDict_CheckExact(object) || PyRange_Check(object) || PyUnicode_CheckExact(object) || PyAnySet_CheckExact(object);
}

using Items = std::optional<std::vector<uint32_t>>;

std::vector<uint32_t> constants_of(Recorder& recorder, PyObject* object) {
  std::vector<uint32_t> parts;
  const Ref items = Ref::steal(PySequence_Tuple(object));
  if (!items) return PyErr_Clear(), parts;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(items.get()); i++) parts.push_back(recorder.constant(PyTuple_GET_ITEM(items.get(), i)));
  return parts;
}

std::optional<std::vector<uint32_t>> parts_of_source(Recorder& recorder, const Value value, PyObject* object) {
  if (recorder.parts_vary(value.a, object)) return std::nullopt;
  if (PyDict_CheckExact(object)) {
    if (!require_keys(recorder, value, object)) return std::nullopt;
    recorder.goes_through(recorder.source_value(value.a), object);
    return constants_of(recorder, object);
  }
  if (PySet_CheckExact(object)) {
    if (!recorder.require_elements(recorder.source_value(value.a), object)) return std::nullopt;
    recorder.goes_through(recorder.source_value(value.a), object);
    return constants_of(recorder, object);
  }
  if (!PyList_CheckExact(object) && !PyTuple_CheckExact(object) && !torch::is_size(object)) return std::nullopt;
  recorder.guards().require_length(value.a, object);
  if (PyList_CheckExact(object)) recorder.goes_through(recorder.source_value(value.a), object);
  std::vector<uint32_t> parts;
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(object); i++) parts.push_back(item_source(recorder, value, i));
  return parts;
}

// x.shape and the like: elements are read in the graph.
std::vector<uint32_t> parts_of_node(Recorder& recorder, const Value value, PyObject* tuple) {
  std::vector<uint32_t> parts;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple); i++) {
    const Ref index = Ref::steal(PyLong_FromSsize_t(i));
    const graph::Operand key = graph::Operand::constant(recorder.value(recorder.constant(index.get())).a);
    const int32_t node = recorder.add_plain_node(graph::Form::kGetItem, 0, nullptr, {graph::Operand::node(value.a), key}, PyTuple_GET_ITEM(tuple, i));
    parts.push_back(recorder.node_value(node, true));
  }
  return parts;
}

std::vector<uint32_t> every_second(std::span<const uint32_t> elements, size_t from) {
  std::vector<uint32_t> parts;
  for (size_t i = from; i < elements.size(); i += 2) parts.push_back(elements[i]);
  return parts;
}

std::vector<uint32_t> pairs_of(Recorder& recorder, const std::vector<uint32_t>& keys, const std::vector<uint32_t>& values) {
  std::vector<uint32_t> parts;
  for (size_t i = 0; i < keys.size(); i++) parts.push_back(recorder.container(Value::Kind::kTuple, {keys[i], values[i]}));
  return parts;
}

bool is_method_named(PyObject* method, const char* name) {
  return PyUnicode_CompareWithASCIIString(reinterpret_cast<PyDescrObject*>(method)->d_name, name) == 0;
}

// Views of dicts: which method made it, and what it gives.
std::optional<std::vector<uint32_t>> parts_of_view(Recorder& recorder, const Value view, PyObject* object) {
  const std::span<const uint32_t> made = recorder.elements(view);
  PyObject* const method = recorder.recording().graph.constants[recorder.value(made[0]).a].get();
  const Value dict = recorder.value(made[2]);
  std::vector<uint32_t> keys, values;
  if (is_made_dict(dict)) {
    const std::vector<uint32_t> all = recorder.copied_elements(dict);
    keys = every_second(all, 0), values = every_second(all, 1);
  } else {
    // The keys are guarded since the view was made.
    const Ref copy = cpython::copy_of_dict(cpython::dict_of_view(object));
    const Ref live = copy ? Ref::steal(PySequence_Tuple(copy.get())) : Ref();
    if (!live) return PyErr_Clear(), std::nullopt;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(live.get()); i++) {
      keys.push_back(recorder.constant(PyTuple_GET_ITEM(live.get(), i)));
      values.push_back(key_source(recorder, dict, PyTuple_GET_ITEM(live.get(), i)));
    }
  }
  if (is_method_named(method, "keys")) return keys;
  return is_method_named(method, "values") ? values : pairs_of(recorder, keys, values);
}

}  // namespace

Py_ssize_t length_of(PyObject* container) {
  const Py_ssize_t length = PyObject_Size(container);
  return length >= 0 ? length : (PyErr_Clear(), PY_SSIZE_T_MAX);
}

uint32_t item_source(Recorder& recorder, const Value& owner, Py_ssize_t index) {
  guards::Source source{guards::Reach::kItem};
  source.parent = owner.a;
  source.index = static_cast<int32_t>(index);
  return recorder.source(std::move(source));
}

uint32_t key_source(Recorder& recorder, const Value& owner, PyObject* key) {
  guards::Source source{guards::Reach::kItem};
  source.parent = owner.a;
  source.object = Ref::borrow(key);
  return recorder.source(std::move(source));
}

uint32_t attribute_source(Recorder& recorder, int32_t parent, Borrowed name) {
  guards::Source source{guards::Reach::kAttribute};
  source.parent = parent;
  source.object = Ref::borrow(name);
  return recorder.source(std::move(source));
}

uint32_t attribute_source(Recorder& recorder, int32_t parent, const char* name) {
  return attribute_source(recorder, parent, Ref::steal(PyUnicode_InternFromString(name)).get());
}

bool require_keys(Recorder& recorder, const Value& source, PyObject* dict) {
  PyObject* key = nullptr;
  for (Py_ssize_t at = 0; PyDict_Next(dict, &at, &key, nullptr);) {
    if (!is_immutable(key) || holds_nan(key)) return false;
  }
  recorder.guards().require_keys(source.a, dict);
  return true;
}

std::optional<std::vector<uint32_t>> parts_of(Recorder& recorder, uint32_t label, PyObject* object) {
  const Value value = recorder.value(label);
  if (is_builtin_container(object) && length_of(object) > kMaxParts) return std::nullopt;
  switch (value.kind) {
    case Value::Kind::kTuple:
    case Value::Kind::kDeque:
    case Value::Kind::kList: return recorder.copied_elements(value);
    case Value::Kind::kMapping:
      [[fallthrough]];
    case Value::Kind::kDict: return every_second(recorder.elements(value), 0);
    case Value::Kind::kConstant:
      if (!PyTuple_CheckExact(object) && !PyRange_Check(object) && !PyUnicode_CheckExact(object) && !PyFrozenSet_CheckExact(object) && !torch::is_size(object)) return std::nullopt;
      return constants_of(recorder, object);
    case Value::Kind::kReplayed: return PySet_Check(object) && PySet_GET_SIZE(object) <= kMaxParts && !holds_placed(object) ? Items(constants_of(recorder, object)) : std::nullopt;
    case Value::Kind::kSource: return parts_of_source(recorder, value, object);
    case Value::Kind::kNode:
      if ((!PyTuple_CheckExact(object) && !torch::is_size(object)) || !value.of_shapes) return std::nullopt;
      if (torch::is_size(object)) recorder.check_length(graph::Operand::node(value.a), object);
      return parts_of_node(recorder, value, object);
    case Value::Kind::kMade:
      if (Items parts = parts_of_tensors(recorder, label, object)) return parts;
      if (recorder.is_iterator(label)) return recorder.is_endless(label) ? std::nullopt : Items(recorder.items_to_come(label));
      if (PyDictViewSet_Check(object) || PyDictValues_Check(object)) return parts_of_view(recorder, value, object);
      return std::nullopt;
    default: return std::nullopt;
  }
}

void exhaust(Plan& plan, const Recorder& recorder, uint32_t label, PyObject* object) {
  if (!recorder.is_iterator(label)) return;
  plan.consumed = label;
  plan.steps = recorder.steps_to_end(label);
  plan.dropped = Py_REFCNT(object) == 1;  // the stack's
}

namespace {

// The labels and objects of a call's arguments.
struct Arguments {
  std::vector<uint32_t> labels;
  std::vector<PyObject*> objects;
  // An iterator that is held beside the call: what is made over it would advance it, unseen.
  bool shared_iterator = false;
};
Arguments arguments_of(const Site& site, const Activation::CallSite& call) {
  Arguments arguments;
  for (int i = 0; i < call.count; i++) {
    arguments.labels.push_back(site.recorder.label(call.first + i));
    arguments.objects.push_back(site.frame.slot(call.first + i));
    arguments.shared_iterator |= site.recorder.is_iterator(arguments.labels.back()) && Py_REFCNT(arguments.objects.back()) > 1;
  }
  return arguments;
}

Items items_of_enumerate(Recorder& recorder, const Arguments& arguments) {
  if (arguments.objects.empty() || arguments.objects.size() > 2) return std::nullopt;
  Py_ssize_t start = 0;
  if (arguments.objects.size() == 2) {
    if (!PyLong_CheckExact(arguments.objects[1]) || !recorder.known(arguments.labels[1], arguments.objects[1])) return std::nullopt;
    start = PyLong_AsSsize_t(arguments.objects[1]);
    if (start == -1 && PyErr_Occurred()) return PyErr_Clear(), std::nullopt;
  }
  const Items parts = parts_of(recorder, arguments.labels[0], arguments.objects[0]);
  if (!parts || start > PY_SSIZE_T_MAX - std::ssize(*parts)) return std::nullopt;
  std::vector<uint32_t> numbers;
  for (size_t i = 0; i < parts->size(); i++) numbers.push_back(recorder.constant(Ref::steal(PyLong_FromSsize_t(start + static_cast<Py_ssize_t>(i))).get()));
  return pairs_of(recorder, numbers, *parts);
}

// With strict=True only where nothing is left over, for then it raises nothing.
Items items_of_zip(Recorder& recorder, const Arguments& arguments, size_t count, bool strict) {
  std::vector<std::vector<uint32_t>> columns;
  size_t length = SIZE_MAX;
  bool ends = count == 0;
  for (size_t i = 0; i < count; i++) {
    const bool endless = recorder.is_endless(arguments.labels[i]);
    Items parts = endless ? Items(recorder.items_to_come(arguments.labels[i])) : parts_of(recorder, arguments.labels[i], arguments.objects[i]);
    ends = ends || !endless;
    if (endless && strict) return std::nullopt;
    if (!parts || (strict && !columns.empty() && parts->size() != length)) return std::nullopt;
    // What an iterator gives to a zip that ends early is lost.
    if (!endless && recorder.is_iterator(arguments.labels[i]) && !columns.empty() && parts->size() != length) return std::nullopt;
    length = std::min(length, parts->size());
    columns.push_back(*std::move(parts));
  }
  if (!ends) return std::nullopt;
  std::vector<uint32_t> items;
  for (size_t i = 0; count && i < length; i++) {
    std::vector<uint32_t> row;
    for (const std::vector<uint32_t>& column : columns) row.push_back(column[i]);
    items.push_back(recorder.container(Value::Kind::kTuple, std::move(row)));
  }
  return items;
}

Items items_of_reversed(Recorder& recorder, const Arguments& arguments) {
  const Value::Kind kind = recorder.value(arguments.labels[0]).kind;
  PyObject* const object = arguments.objects[0];
  const bool view = PyDictViewSet_Check(object) || PyDictValues_Check(object);
  if (arguments.objects.size() != 1 || (kind == Value::Kind::kMade && !view) || PyAnySet_Check(object)) return std::nullopt;
  Items parts = parts_of(recorder, arguments.labels[0], object);
  if (parts) std::reverse(parts->begin(), parts->end());
  return parts;
}

bool is_strict(PyObject* keyword_names, const Arguments& arguments, bool* strict) {
  *strict = false;
  if (!keyword_names) return true;
  if (PyTuple_GET_SIZE(keyword_names) != 1 || PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(keyword_names, 0), "strict")) return false;
  *strict = arguments.objects.back() == Py_True;
  return PyBool_Check(arguments.objects.back());
}

Plan plan_next(const Site& site, const Activation::CallSite& call) {
  const uint32_t iterator = site.recorder.label(call.first);
  if (call.count > 2 || call.keyword_names || !site.recorder.is_iterator(iterator)) return plan_break(Break::kIterator, "next");
  const std::vector<uint32_t>& items = site.recorder.items(iterator);
  const uint32_t at = site.recorder.given(iterator);
  if (at >= items.size() && site.recorder.is_endless(iterator)) return plan_break(Break::kIterator, "next");
  Plan plan = at < items.size() ? plan_value(items[at]) : call.count == 2 ? plan_value(site.recorder.label(call.first + 1)) : plan_raise();
  plan.consumed = iterator;
  plan.steps = at <= items.size();
  return plan;
}

}  // namespace

std::optional<uint32_t> enumeration_of(Recorder& recorder, uint32_t label, PyObject* object) {
  auto* const enumerate = reinterpret_cast<PyObject*>(&PyEnum_Type);
  Items items = items_of_enumerate(recorder, {{label}, {object}});
  return items ? std::optional(recorder.iterator(enumerate, nullptr, {label}, *std::move(items))) : std::nullopt;
}

std::optional<Plan> iterator_call(const Site& site, const Activation::CallSite& call, PyObject* callable) {
  static PyObject* const next = builtin<"next">().get();
  static PyObject* const iter = builtin<"iter">().get();
  if (callable == next && call.count > 0 && site.recorder.value_at(call.first).kind == Value::Kind::kMade) return plan_next(site, call);
  const bool is_zip = callable == reinterpret_cast<PyObject*>(&PyZip_Type);
  const bool is_enumerate = callable == reinterpret_cast<PyObject*>(&PyEnum_Type);
  const bool is_reversed = callable == reinterpret_cast<PyObject*>(&PyReversed_Type);
  if ((!is_zip && !is_enumerate && !is_reversed && callable != iter) || call.count < 1) return std::nullopt;
  Recorder& recorder = site.recorder;
  const Arguments arguments = arguments_of(site, call);
  Items items;
  bool strict = false;
  if (arguments.shared_iterator) return plan_break(Break::kIterator, "over an iterator that is held elsewhere");
  if (is_zip && is_strict(call.keyword_names.get(), arguments, &strict)) {
    items = items_of_zip(recorder, arguments, arguments.labels.size() - (call.keyword_names ? 1 : 0), strict);
  } else if (is_enumerate && (!call.keyword_names || call.count == 2)) {
    items = items_of_enumerate(recorder, arguments);
  } else if (is_reversed && !call.keyword_names) {
    items = items_of_reversed(recorder, arguments);
  } else if (callable == iter && call.count == 1 && !recorder.is_iterator(arguments.labels[0])) {
    items = parts_of(recorder, arguments.labels[0], arguments.objects[0]);
  }
  const bool asks_once = call.count == 1 && (is_enumerate || callable == iter);
  if (!items && asks_once && has_method(recorder, {arguments.labels[0], arguments.objects[0]}, "__iter__")) return std::nullopt;
  if (!items) return plan_break(Break::kUnknownCall, type_name(callable) + " over " + type_name(arguments.objects[0]));
  return plan_value(recorder.iterator(callable, call.keyword_names, arguments.labels, *std::move(items)));
}

std::optional<Plan> iterator_of(const Site& site, uint32_t label, PyObject* object) {
  Recorder& recorder = site.recorder;
  const Value value = recorder.value(label);
  if (value.kind == Value::Kind::kMade && recorder.is_iterator(label)) {
    return recorder.steps_to_end(label) > static_cast<uint32_t>(recorder.most_turns(site.frame)) + 1 ? plan_break(Break::kLoop, type_name(object)) : plan_value(label);
  }
  const bool over_parts = is_made_dict(value) || value.kind == Value::Kind::kDeque || value.kind == Value::Kind::kReplayed ||
                          (value.kind == Value::Kind::kConstant && (PyUnicode_CheckExact(object) || PyFrozenSet_CheckExact(object))) || value.kind == Value::Kind::kMade ||
                          (value.kind == Value::Kind::kSource && (PyDict_CheckExact(object) || PySet_CheckExact(object))) ||
                          (value.kind == Value::Kind::kNode && PyTuple_CheckExact(object));
  if (!over_parts) return std::nullopt;
  Items items = parts_of(recorder, label, object);
  if (!items) return std::nullopt;
  if (items->size() > static_cast<size_t>(recorder.most_turns(site.frame))) return plan_break(Break::kLoop, type_name(object));
  return plan_value(recorder.iterator(builtin<"iter">(), nullptr, {label}, *std::move(items)));
}

}  // namespace evalframe::recorder
