// Rules for what the module collections has in C, where the recorded code makes it: deques, and dicts that do more than a dict.
#include <algorithm>
#include <string_view>

#include "core/made_once.h"
#include "recorder/rules/rules.h"

namespace evalframe::recorder {

namespace {

using evaluator::Activation;
using Labels = std::vector<uint32_t>;
using CallSite = Activation::CallSite;

bool is_type_of_c(PyObject* type, std::string_view name) {
  auto* const of = reinterpret_cast<PyTypeObject*>(type);
  return PyType_Check(type) && is_written_in_c(of) && of->tp_name == name;
}

Operated argument(const Site& site, const CallSite& call, int i) { return {site.recorder.label(call.first + i), site.frame.slot(call.first + i)}; }

// --- deques ----------------------------------------------------------------------------------------------------------

struct Deque {
  uint32_t label;
  PyObject* object;
  Labels contents;
  Py_ssize_t maximum;  // -1: none
};

Py_ssize_t maximum_of(PyObject* maximum) { return maximum == Py_None ? -1 : PyLong_AsSsize_t(maximum); }

Deque deque_at(const Site& site, const Operated& of) {
  const Value value = site.recorder.value(of.label);
  return {of.label, of.object, site.recorder.copied_elements(value), maximum_of(site.recorder.recording().graph.constants[value.b].get())};
}

void cut_front(Labels& contents, Py_ssize_t maximum) {
  const auto over = maximum < 0 ? 0 : static_cast<Py_ssize_t>(contents.size()) - maximum;
  if (over > 0) contents.erase(contents.begin(), contents.begin() + over);
}
void cut_back(Labels& contents, Py_ssize_t maximum) {
  if (maximum >= 0 && static_cast<Py_ssize_t>(contents.size()) > maximum) contents.resize(static_cast<size_t>(maximum));
}

// An iterator over a deque tells of changes of its size, and of others.
Plan changed(Recorder& recorder, const Deque& deque, Labels contents, Plan plan) {
  const bool told = PyObject_Size(deque.object) != static_cast<Py_ssize_t>(contents.size()) && recorder.tells_iterators(deque.label);
  if (recorder.is_iterated(deque.label) && !told) return plan_break(Break::kStore, "a container changes while it is iterated over");
  plan.changed = deque.label;
  plan.contents = std::move(contents);
  return plan;
}

// An index that is known; none: another key, or out of range.
std::optional<size_t> index_in(Recorder& recorder, const Deque& deque, const Operated& key) {
  if (!PyLong_CheckExact(key.object) || !recorder.known(key.label, key.object)) return std::nullopt;
  const auto count = static_cast<Py_ssize_t>(deque.contents.size());
  Py_ssize_t index = PyLong_AsSsize_t(key.object);
  if (index == -1 && PyErr_Occurred()) return PyErr_Clear(), std::nullopt;
  if (index < 0) index += count;
  return index >= 0 && index < count ? std::optional(static_cast<size_t>(index)) : std::nullopt;
}

// deque(iterable, maxlen).
Plan make_deque(const Site& site, const CallSite& call, PyObject* callable) {
  Recorder& recorder = site.recorder;
  const int positional = call.count - call.keywords();
  std::optional<Operated> given[2];
  if (call.count > 2) return not_known(callable);
  for (int i = 0; i < call.count; i++) {
    PyObject* const name = i < positional ? nullptr : PyTuple_GET_ITEM(call.keyword_names.get(), i - positional);
    const int place = !name ? i : PyUnicode_CompareWithASCIIString(name, "maxlen") == 0 ? 1 : PyUnicode_CompareWithASCIIString(name, "iterable") == 0 ? 0 : -1;
    if (place < 0 || given[place]) return not_known(callable);
    given[place] = argument(site, call, i);
  }
  PyObject* const maximum = given[1] ? given[1]->object : Py_None;
  const bool limited = maximum != Py_None;
  if (given[1] && !recorder.known(given[1]->label, maximum)) return not_known(callable);
  if (limited && (!PyLong_CheckExact(maximum) || PyLong_AsSsize_t(maximum) < 0)) return PyErr_Clear(), not_known(callable);
  std::optional<Labels> contents = given[0] ? parts_or_rows(recorder, *given[0]) : Labels{};
  if (!contents) return not_known(callable);
  Plan plan;
  if (given[0]) exhaust(plan, recorder, given[0]->label, given[0]->object);
  cut_front(*contents, maximum_of(maximum));
  plan.kind = Plan::Kind::kValue;
  plan.label = recorder.deque(*std::move(contents), maximum);
  return plan;
}

using Method = Plan (*)(const Site&, const CallSite&, Deque);

Plan append(const Site& site, const CallSite& call, Deque deque) {
  deque.contents.push_back(argument(site, call, 1).label);
  cut_front(deque.contents, deque.maximum);
  return changed(site.recorder, deque, std::move(deque.contents), plan_constant());
}
Plan append_left(const Site& site, const CallSite& call, Deque deque) {
  deque.contents.insert(deque.contents.begin(), argument(site, call, 1).label);
  cut_back(deque.contents, deque.maximum);
  return changed(site.recorder, deque, std::move(deque.contents), plan_constant());
}
Plan pop(const Site& site, const CallSite&, Deque deque) {
  if (deque.contents.empty()) return plan_raise();
  const uint32_t popped = deque.contents.back();
  deque.contents.pop_back();
  return changed(site.recorder, deque, std::move(deque.contents), plan_value(popped));
}
Plan pop_left(const Site& site, const CallSite&, Deque deque) {
  if (deque.contents.empty()) return plan_raise();
  const uint32_t popped = deque.contents.front();
  deque.contents.erase(deque.contents.begin());
  return changed(site.recorder, deque, std::move(deque.contents), plan_value(popped));
}

Plan extended(Recorder& recorder, Deque deque, const Operated& more, bool left, Plan plan) {
  std::optional<Labels> parts = parts_or_rows(recorder, more);
  if (!parts) return plan_break(Break::kUnknownCall, "deque.extend");
  if (left) {
    deque.contents.insert(deque.contents.begin(), parts->rbegin(), parts->rend());
    cut_back(deque.contents, deque.maximum);
  } else {
    deque.contents.insert(deque.contents.end(), parts->begin(), parts->end());
    cut_front(deque.contents, deque.maximum);
  }
  plan = changed(recorder, deque, std::move(deque.contents), std::move(plan));
  if (plan.kind != Plan::Kind::kBreak) exhaust(plan, recorder, more.label, more.object);
  return plan;
}
Plan extend(const Site& site, const CallSite& call, Deque deque) { return extended(site.recorder, std::move(deque), argument(site, call, 1), false, plan_constant()); }
Plan extend_left(const Site& site, const CallSite& call, Deque deque) { return extended(site.recorder, std::move(deque), argument(site, call, 1), true, plan_constant()); }

Plan rotate(const Site& site, const CallSite& call, Deque deque) {
  Py_ssize_t steps = 1;
  if (call.count == 2) {
    const Operated by = argument(site, call, 1);
    if (!PyLong_CheckExact(by.object) || !site.recorder.known(by.label, by.object)) return plan_break(Break::kUnknownCall, "deque.rotate");
    steps = PyLong_AsSsize_t(by.object);
    if (steps == -1 && PyErr_Occurred()) return PyErr_Clear(), plan_break(Break::kUnknownCall, "deque.rotate");
  }
  const auto count = static_cast<Py_ssize_t>(deque.contents.size());
  if (count) std::rotate(deque.contents.begin(), deque.contents.begin() + ((-steps % count) + count) % count, deque.contents.end());
  return changed(site.recorder, deque, std::move(deque.contents), plan_constant());
}
Plan clear(const Site& site, const CallSite&, Deque deque) { return changed(site.recorder, deque, {}, plan_constant()); }
Plan reverse(const Site& site, const CallSite&, Deque deque) {
  std::reverse(deque.contents.begin(), deque.contents.end());
  return changed(site.recorder, deque, std::move(deque.contents), plan_constant());
}
Plan copy(const Site& site, const CallSite&, Deque deque) {
  PyObject* const maximum = site.recorder.recording().graph.constants[site.recorder.value(deque.label).b].get();
  return plan_value(site.recorder.deque(std::move(deque.contents), maximum));
}
Plan insert(const Site& site, const CallSite& call, Deque deque) {
  const Operated at = argument(site, call, 1);
  const auto count = static_cast<Py_ssize_t>(deque.contents.size());
  if (!PyLong_CheckExact(at.object) || !site.recorder.known(at.label, at.object)) return plan_break(Break::kUnknownCall, "deque.insert");
  if (count == deque.maximum) return plan_raise();
  Py_ssize_t index = PyLong_AsSsize_t(at.object);
  if (index == -1 && PyErr_Occurred()) return PyErr_Clear(), plan_break(Break::kUnknownCall, "deque.insert");
  if (index < 0) index = std::max<Py_ssize_t>(index + count, 0);
  deque.contents.insert(deque.contents.begin() + std::min(index, count), argument(site, call, 2).label);
  return changed(site.recorder, deque, std::move(deque.contents), plan_constant());
}
// What compares elements knows them.
Plan searched(const Site& site, const CallSite& call, Deque) {
  return all_known_through(site, call.first, call.count) ? plan_constant() : plan_break(Break::kUnknownCall, "search in a deque");
}
Plan remove(const Site& site, const CallSite& call, Deque deque) {
  if (!all_known_through(site, call.first, call.count)) return plan_break(Break::kUnknownCall, "deque.remove");
  const Py_ssize_t place = PySequence_Index(deque.object, argument(site, call, 1).object);
  if (place < 0) return PyErr_Clear(), plan_raise();
  deque.contents.erase(deque.contents.begin() + place);
  return changed(site.recorder, deque, std::move(deque.contents), plan_constant());
}

struct DequeMethod {
  std::string_view name;
  Method plan;
  int least, most;  // arguments, the deque among them
};
constexpr DequeMethod kDequeMethods[] = {
    {"append", append, 2, 2},       {"appendleft", append_left, 2, 2}, {"pop", pop, 1, 1},     {"popleft", pop_left, 1, 1}, {"extend", extend, 2, 2},
    {"extendleft", extend_left, 2, 2}, {"rotate", rotate, 1, 2},      {"clear", clear, 1, 1}, {"reverse", reverse, 1, 1},  {"copy", copy, 1, 1},
    {"insert", insert, 3, 3},       {"count", searched, 2, 2},         {"index", searched, 2, 4}, {"remove", remove, 2, 2}, {"__copy__", copy, 1, 1}};

std::optional<Plan> method_of_deque(const Site& site, const CallSite& call, PyObject* method) {
  constexpr std::string_view kPrefix = "collections.deque.";
  if (call.count < 1 || call.keyword_names || site.recorder.value_at(call.first).kind != Value::Kind::kDeque) return std::nullopt;
  const std::string name = name_in_type(method);
  for (const DequeMethod& row : kDequeMethods) {
    if (!name.starts_with(kPrefix) || name.substr(kPrefix.size()) != row.name) continue;
    if (call.count < row.least || call.count > row.most) return not_known(method);
    return row.plan(site, call, deque_at(site, argument(site, call, 0)));
  }
  return std::nullopt;
}

// --- dicts that do more ----------------------------------------------------------------------------------------------

// OrderedDict(...), and defaultdict(factory, ...).
Plan make_mapping(const Site& site, const CallSite& call, PyObject* type, bool with_factory) {
  const bool factory = with_factory && call.count > call.keywords();
  const Operated first = factory ? argument(site, call, 0) : Operated{0, Py_None};
  if (first.object != Py_None && !PyCallable_Check(first.object)) return not_known(type);
  if (factory && !fixes_type(site.recorder, first.label, first.object)) return not_known(type);
  // None is none.
  if (factory && first.object == Py_None && !fixes_object(site.recorder, first.label, Py_None)) return not_known(type);
  Plan used;
  std::optional<Labels> contents = items_of_dict_call(site, call, factory ? 1 : 0, used);
  if (!contents) return not_known(type);
  used.kind = Plan::Kind::kValue;
  used.label = site.recorder.mapping(type, *std::move(contents), first.object == Py_None ? 0 : first.label);
  return used;
}

// types.SimpleNamespace(name=value): an instance that has these attributes.
std::optional<Plan> make_namespace(const Site& site, const CallSite& call, PyObject* type) {
  if (call.count != call.keywords()) return std::nullopt;
  Recorder& recorder = site.recorder;
  Labels attributes;
  for (int i = 0; i < call.count; i++) {
    PyObject* const name = PyTuple_GET_ITEM(call.keyword_names.get(), i);
    PyObject* const found = _PyType_Lookup(reinterpret_cast<PyTypeObject*>(type), name);
    if (!PyUnicode_CHECK_INTERNED(name) || (found && Py_TYPE(found)->tp_descr_set)) return std::nullopt;
    attributes.insert(attributes.end(), {recorder.constant(name), argument(site, call, i).label});
  }
  Plan plan = plan_value(recorder.instance(type));
  plan.changed = plan.label;
  plan.contents = std::move(attributes);
  return plan;
}

// defaultdict.copy(): the class's own, as the others' are dict's.
std::optional<Plan> copy_of_defaultdict(const Site& site, const CallSite& call, PyObject* method) {
  const std::string name = name_in_type(method);
  if (call.count != 1 || call.keyword_names || (name != "collections.defaultdict.copy" && name != "collections.defaultdict.__copy__")) return std::nullopt;
  Recorder& recorder = site.recorder;
  const Value value = recorder.value_at(call.first);
  if (value.kind != Value::Kind::kMapping) return std::nullopt;
  return plan_value(recorder.mapping(Py_TYPE(site.frame.slot(call.first)), recorder.copied_elements(value), recorder.factory_of(value)));
}

// What a call of a type of C's without arguments makes; 0: it isn't known.
uint32_t made_by_factory(Recorder& recorder, PyObject* factory) {
  if (factory == reinterpret_cast<PyObject*>(&PyList_Type)) return recorder.container(Value::Kind::kList, {});
  if (factory == reinterpret_cast<PyObject*>(&PyDict_Type)) return recorder.container(Value::Kind::kDict, {});
  if (factory == reinterpret_cast<PyObject*>(&PySet_Type)) return recorder.container(Value::Kind::kReplayed, {recorder.made(factory, nullptr, {})});
  for (PyTypeObject* const type : {&PyLong_Type, &PyFloat_Type, &PyBool_Type, &PyUnicode_Type, &PyTuple_Type, &PyComplex_Type}) {
    if (factory == reinterpret_cast<PyObject*>(type)) return recorder.constant(Ref::steal(PyObject_CallNoArgs(factory)).get());
  }
  if (is_type_of_c(factory, "collections.deque")) return recorder.deque({}, Py_None);
  if (is_type_of_c(factory, "collections.OrderedDict")) return recorder.mapping(factory, {}, 0);
  return 0;
}

}  // namespace

PyObject* type_of_deques() {
  static MadeOnce<PyObject*> type;
  return type.get([] {
    const Ref module = Ref::steal(PyImport_ImportModule("_collections"));
    return module ? PyObject_GetAttrString(module.get(), "deque") : nullptr;  // lives as long as the process
  });
}

uint32_t Recorder::deque(std::vector<uint32_t> elements, Borrowed maximum) {
  const int32_t limit = recording_->values[constant(maximum)].a;
  const uint32_t made = container(Value::Kind::kDeque, std::move(elements));
  recording_->values[made].b = limit;
  return made;
}

uint32_t Recorder::mapping(Borrowed type, std::vector<uint32_t> items, uint32_t factory) {
  const int32_t of = recording_->values[constant(type)].a;
  const uint32_t made = container(Value::Kind::kMapping, std::move(items));
  recording_->values[made].b = of;
  recording_->containers[recording_->values[made].a].factory = factory;
  return made;
}

uint32_t Recorder::factory_of(const Value& mapping) const { return recording_->containers[mapping.a].factory; }

std::optional<Plan> collection_call(const Site& site, const CallSite& call, PyObject* callable) {
  if (Py_TYPE(callable) == &PyMethodDescr_Type) {
    std::optional<Plan> copied = copy_of_defaultdict(site, call, callable);
    return copied ? std::move(copied) : method_of_deque(site, call, callable);
  }
  if (is_type_of_c(callable, "types.SimpleNamespace")) return make_namespace(site, call, callable);
  if (is_type_of_c(callable, "collections.deque")) return make_deque(site, call, callable);
  if (is_type_of_c(callable, "collections.OrderedDict")) return make_mapping(site, call, callable, false);
  if (is_type_of_c(callable, "collections.defaultdict")) return make_mapping(site, call, callable, true);
  return std::nullopt;
}

Plan item_of_deque(const Site& site, const Operated& of, const Operated& key) {
  const Deque deque = deque_at(site, of);
  const std::optional<size_t> index = index_in(site.recorder, deque, key);
  if (index) return plan_value(deque.contents[*index]);
  return site.recorder.known(key.label, key.object) ? plan_raise() : plan_break(Break::kUnknownObject, "subscript of a deque");
}

Plan store_into_deque(const Site& site, const Operated& of, const Operated& key, uint32_t value) {
  Deque deque = deque_at(site, of);
  const std::optional<size_t> index = index_in(site.recorder, deque, key);
  if (!index) return site.recorder.known(key.label, key.object) ? plan_raise() : plan_break(Break::kStore, "item of a deque");
  if (value) {
    deque.contents[*index] = value;
  } else {
    deque.contents.erase(deque.contents.begin() + static_cast<std::ptrdiff_t>(*index));
  }
  return changed(site.recorder, deque, std::move(deque.contents), {});
}

Plan extended_deque(const Site& site, const Operated& of, const Operated& more) {
  return extended(site.recorder, deque_at(site, of), more, false, plan_value(of.label));
}

Plan missing_item(Recorder& recorder, const Operated& mapping, const Operated& key) {
  const Value value = recorder.value(mapping.label);
  const uint32_t factory = recorder.factory_of(value);
  if (!factory) return plan_raise();
  const bool is_source = recorder.value(factory).kind == Value::Kind::kSource;
  const Ref object = Ref::steal(PyObject_GetAttrString(mapping.object, "default_factory"));
  if (!object || (is_source && !fixes_object(recorder, factory, object.get()))) return PyErr_Clear(), plan_break(Break::kUnknownCall, "the factory of a defaultdict");
  const uint32_t made = made_by_factory(recorder, object.get());
  if (!made) return plan_break(Break::kUnknownCall, "the factory of a defaultdict");
  std::vector<uint32_t> contents = recorder.copied_elements(value);
  contents.insert(contents.end(), {key.label, made});
  return plan_change(recorder, mapping.label, std::move(contents), plan_value(made));
}

}  // namespace evalframe::recorder
