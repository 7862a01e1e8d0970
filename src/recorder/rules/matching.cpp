// Rules for `match`: what patterns ask of a subject follows from its type, its length, its keys and its attributes.
#include "recorder/rules/rules.h"

namespace evalframe::recorder {

namespace {

uint32_t none(Recorder& recorder) { return recorder.constant(Py_None); }

uint32_t tuple_of(Recorder& recorder, std::vector<uint32_t> parts) {
  // CPython has one empty tuple.
  return parts.empty() ? recorder.constant(Ref::steal(PyTuple_New(0)).get()) : recorder.container(Value::Kind::kTuple, std::move(parts));
}

// Whether the patterns for sequences and mappings are for its class may be changed by registering that with an ABC.
bool fixes_pattern(Recorder& recorder, const Operated& subject) {
  if (!fixes_type(recorder, subject.label, subject.object)) return false;
  PyTypeObject* const type = Py_TYPE(subject.object);
  if (PyType_HasFeature(type, Py_TPFLAGS_IMMUTABLETYPE)) return true;
  guards::Source at{guards::Reach::kObject};
  at.object = Ref::borrow(reinterpret_cast<PyObject*>(type));
  recorder.guards().require_pattern(recorder.value(recorder.source(std::move(at))).a, type);
  return true;
}

// [subject] -> [subject, whether it is a sequence, or a mapping]
Plan match_kind(const Site& site) {
  const Operated subject = at(site, 1);
  return fixes_pattern(site.recorder, subject) ? plan_constant() : plan_break(Break::kUnknownObject, "match of " + type_name(subject.object));
}

// [subject] -> [subject, its length]
Plan get_len(const Site& site) {
  if (std::optional<Plan> plan = length_call_of(site)) return *std::move(plan);
  return length_of(site.recorder, at(site, 1).label, at(site, 1).object);
}

bool are_distinct(PyObject* keys) {
  const Ref set = Ref::steal(PySet_New(keys));
  if (!set) PyErr_Clear();
  return set && PySet_GET_SIZE(set.get()) == PyTuple_GET_SIZE(keys);
}

// [subject, keys] -> [subject, keys, values or None]
Plan match_keys(const Site& site) {
  Recorder& recorder = site.recorder;
  const Operated subject = at(site, 2), keys = at(site, 1);
  const std::optional<std::vector<uint32_t>> labels = parts_of(recorder, keys.label, keys.object);
  if (!labels || !is_immutable(keys.object) || !are_distinct(keys.object)) return plan_break(Break::kUnknownObject, "match of " + type_name(subject.object));
  std::vector<uint32_t> values;
  for (size_t i = 0; i < labels->size(); i++) {
    const Operated key{(*labels)[i], PyTuple_GET_ITEM(keys.object, static_cast<Py_ssize_t>(i))};
    const std::optional<bool> there = has_key(recorder, subject, key);
    if (!there) return plan_break(Break::kUnknownObject, "match of " + type_name(subject.object));
    if (!*there) return plan_value(none(recorder));
    values.push_back(item_of_dict(recorder, subject, key).label);
  }
  return plan_value(tuple_of(recorder, std::move(values)));
}

// The names of the attributes that the positional subpatterns ask for; none: it can't be told. `itself`: the subject is the attribute.
std::optional<std::vector<PyObject*>> positional_names(Recorder& recorder, PyObject* type, int count, bool& itself) {
  static PyObject* const match_args = PyUnicode_InternFromString("__match_args__");
  std::vector<PyObject*> names;
  auto* const of = reinterpret_cast<PyTypeObject*>(type);
  PyObject* const found = _PyType_Lookup(of, match_args);
  itself = false;
  if (count == 0) return names;
  // The class may get others.
  if (PyType_HasFeature(of, Py_TPFLAGS_HEAPTYPE) && !recorder.fix_class(type)) return std::nullopt;
  if (Py_TYPE(type)->tp_getattro != PyType_Type.tp_getattro || _PyType_Lookup(Py_TYPE(type), match_args) || !fixes_metaclass(recorder, type)) return std::nullopt;
  if (!found) return (itself = count == 1 && PyType_HasFeature(of, _Py_TPFLAGS_MATCH_SELF)) ? std::optional(names) : std::nullopt;
  if (!PyTuple_CheckExact(found) || PyTuple_GET_SIZE(found) < count) return std::nullopt;
  for (Py_ssize_t i = 0; i < count; i++) {
    if (!PyUnicode_CheckExact(PyTuple_GET_ITEM(found, i))) return std::nullopt;
    names.push_back(PyTuple_GET_ITEM(found, i));
  }
  return names;
}

// [subject, class, keyword names] -> [attributes or None]
Plan match_class(const Site& site) {
  Recorder& recorder = site.recorder;
  const Operated subject = at(site, 3), type = at(site, 2);
  PyObject* const keywords = at(site, 1).object;
  const auto unknown = [&] { return plan_break(Break::kUnknownObject, "match of " + type_name(subject.object)); };
  if (!PyType_Check(type.object) || !is_plain_class(recorder, subject, type.label, type.object) || !fixes_kind(recorder, subject.label, subject.object)) return unknown();
  if (!PyType_IsSubtype(Py_TYPE(subject.object), reinterpret_cast<PyTypeObject*>(type.object))) return plan_value(none(recorder));
  bool itself = false;
  std::optional<std::vector<PyObject*>> names = positional_names(recorder, type.object, site.instruction.arg, itself);
  if (!names) return unknown();
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(keywords); i++) names->push_back(PyTuple_GET_ITEM(keywords, i));
  std::vector<uint32_t> values;
  if (itself) values.push_back(subject.label);
  for (size_t i = 0; i < names->size(); i++) {
    // A name that two subpatterns ask for is an error.
    for (size_t other = 0; other < i; other++) {
      if (PyUnicode_Compare((*names)[i], (*names)[other]) == 0) return unknown();
    }
    const Attribute attribute = known_attribute(recorder, subject.label, subject.object, (*names)[i]);
    if (attribute.state == Attribute::State::kUnknown) return unknown();
    if (attribute.state == Attribute::State::kMissing) return plan_value(none(recorder));
    values.push_back(attribute.label);
  }
  return plan_value(tuple_of(recorder, std::move(values)));
}

// The operands stay.
void push_after(const Site& site, const Plan& plan) {
  Recorder& recorder = site.recorder;
  PyObject* const object = site.frame.slot(site.depth);
  if (plan.kind != Plan::Kind::kNode) return recorder.set_label(site.depth, plan.kind == Plan::Kind::kConstant ? recorder.constant(object) : plan.label);
  recorder.set_label(site.depth, recorder.node_value(recorder.add_node(plan, object), plan.of_shapes));
}

}  // namespace

void add_matching_rules(RuleTable& table) {
  using enum bytecode::Op;
  table[static_cast<size_t>(MATCH_SEQUENCE)] = {match_kind, push_after};
  table[static_cast<size_t>(MATCH_MAPPING)] = {match_kind, push_after};
  table[static_cast<size_t>(MATCH_KEYS)] = {match_keys, push_after};
  table[static_cast<size_t>(MATCH_CLASS)] = {match_class, nullptr};
  table[static_cast<size_t>(GET_LEN)] = {get_len, push_after};
}

}  // namespace evalframe::recorder
