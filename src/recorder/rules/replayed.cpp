// Rules for mutable objects of C types that the recorded code makes: sets and the like. How they were made, and each change since,
// is in the journal, and an exit does the same once more.
#include <algorithm>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include "core/made_once.h"
#include "cpython/objects.h"
#include "frontends/torch/tensors.h"
#include "recorder/rules/rules.h"

namespace evalframe::recorder {

namespace {

using evaluator::Activation;

enum class Effect : uint8_t { kReads, kMakes, kChanges };

// By name: no other types in C have these.
struct ReplayedRows {
  std::unordered_map<std::string_view, Effect> methods;
  std::unordered_set<std::string_view> types, makers;
};

const ReplayedRows& replayed() {
  static const ReplayedRows* const made = [] {
    auto* const all = new ReplayedRows;  // lives as long as the process
#define EVALFRAME_REPLAYED(type) all->types.insert(type);
#define EVALFRAME_MAKER(module, function) all->makers.insert(module "." #function);
#define EVALFRAME_READS(type, name) all->methods.emplace(type "." #name, Effect::kReads);
#define EVALFRAME_MAKES(type, name) all->methods.emplace(type "." #name, Effect::kMakes);
#define EVALFRAME_CHANGES(type, name) all->methods.emplace(type "." #name, Effect::kChanges);
#include "recorder/replayed.def"
#undef EVALFRAME_REPLAYED
#undef EVALFRAME_MAKER
#undef EVALFRAME_READS
#undef EVALFRAME_MAKES
#undef EVALFRAME_CHANGES
    return all;
  }();
  return *made;
}

bool is_replayed(const Recorder& recorder, uint32_t label) { return recorder.value(label).kind == Value::Kind::kReplayed; }

PyObject* set_method(const char* name) {
  return PyObject_GetAttrString(reinterpret_cast<PyObject*>(&PySet_Type), name);  // which the type holds for good
}

// The call once more, with what its arguments are now; 0: it can't be made again.
uint32_t call_again(Recorder& recorder, PyObject* callable, PyObject* keyword_names, std::span<const Operated> given) {
  std::vector<uint32_t> arguments;
  for (const Operated& one : given) {
    arguments.push_back(frozen(recorder, one.label, one.object));
    if (!arguments.back()) return 0;
  }
  return recorder.made(callable, keyword_names, arguments);
}
// ... of these slots.
uint32_t call_again(const Site& site, PyObject* callable, PyObject* keyword_names, int from, int count) {
  std::vector<Operated> given;
  for (int slot = from; slot < from + count; slot++) given.push_back({site.recorder.label(slot), site.frame.slot(slot)});
  return call_again(site.recorder, callable, keyword_names, given);
}

// The plan, of a change of the object by the call.
Plan changed_by(Recorder& recorder, uint32_t object, uint32_t call, Plan plan) {
  if (!call) return plan_break(Break::kStore, "a set from outside as an argument");
  if (recorder.is_iterated(object) && !recorder.tells_iterators(object)) return plan_break(Break::kStore, "a container changes while it is iterated over");
  if (!recorder.may_change(object)) return plan_break(Break::kStore, "an object whose end is told may be dropped");
  if (static_cast<Py_ssize_t>(recorder.elements(recorder.value(object)).size()) >= kMaxParts) return plan_break(Break::kTooLong, "changes of one object");
  plan.replayed = object;
  plan.call = call;
  return plan;
}

Plan made_by(Recorder& recorder, uint32_t call) {
  return call ? plan_value(recorder.container(Value::Kind::kReplayed, {call})) : plan_break(Break::kUnknownObject, "a set from outside");
}

// What goes through an iterator uses it up.
bool any_iterator(const Site& site, int first, int count) {
  for (int slot = first; slot < first + count; slot++) {
    if (site.recorder.is_iterator(site.recorder.label(slot))) return true;
  }
  return false;
}

// set.update(list): the elements in front of the first that can't be hashed are in the set when that is told. none: all can be, or it isn't known.
std::optional<Plan> update_of_half(Recorder& recorder, PyObject* callable, const Operated& set, const Operated& items) {
  const Value given = recorder.value(items.label);
  const bool built = (given.kind == Value::Kind::kList && PyList_CheckExact(items.object)) || (given.kind == Value::Kind::kTuple && PyTuple_CheckExact(items.object));
  if (!built || !is_replayed(recorder, set.label) || recorder.outer_of(set.label)) return std::nullopt;
  std::vector<uint32_t> front;
  for (const uint32_t label : recorder.copied_elements(given)) {
    PyObject* const item = PySequence_Fast_GET_ITEM(items.object, static_cast<Py_ssize_t>(front.size()));
    if (PyList_CheckExact(item) || PyDict_CheckExact(item) || PySet_CheckExact(item)) {
      if (!fixes_type(recorder, label, item)) return std::nullopt;
      if (front.empty()) return plan_raise();
      return changed_by(recorder, set.label, recorder.made(callable, nullptr, {recorder.container(Value::Kind::kTuple, std::move(front))}), plan_raise());
    }
    if (!is_immutable(item) || !is_known_flat(recorder, label, item)) return std::nullopt;
    front.push_back(label);
  }
  return std::nullopt;
}

// set.add() of what is in it, and set.discard() of what isn't, leave the set as it is.
bool changes_nothing(PyObject* callable, PyObject* set, PyObject* element) {
  const std::string name = name_in_type(callable);
  if (!PySet_CheckExact(set) || (name != "set.add" && name != "set.discard") || (!is_immutable(element) && !PyType_Check(element))) return false;
  const int has = PySet_Contains(set, element);
  if (has < 0) PyErr_Clear();
  return has == (name == "set.add");
}

// A class of C's that nothing changes is hashed by its place.
bool is_fixed_class(Recorder& recorder, const Operated& element) {
  const bool fixed = PyType_Check(element.object) && Py_IS_TYPE(element.object, &PyType_Type) && is_written_in_c(reinterpret_cast<PyTypeObject*>(element.object));
  return fixed && PyType_HasFeature(reinterpret_cast<PyTypeObject*>(element.object), Py_TPFLAGS_IMMUTABLETYPE) && fixes_object(recorder, element.label, element.object);
}

// An object from outside that is hashed by its place, and equal to itself alone. Tensors say so in Python: their hash is id().
bool is_placed(Recorder& recorder, const Operated& element) {
  if (recorder.value(element.label).kind != Value::Kind::kSource || is_immutable(element.object) || PyType_Check(element.object)) return false;
  PyTypeObject* const type = Py_TYPE(element.object);
  const bool plain = type->tp_hash == PyBaseObject_Type.tp_hash && compares_by_identity(type);
  return (plain || torch::is_tensor(element.object)) && !recorder.varies(recorder.value(element.label).a) && fixes_type(recorder, element.label, element.object);
}

// What was put into a set that began empty, one by one; none: it came about in another way.
std::optional<std::vector<uint32_t>> put_into(Recorder& recorder, uint32_t set) {
  static PyObject* const add = set_method("add");
  std::vector<uint32_t> put;
  const std::vector<uint32_t> calls = recorder.copied_elements(recorder.value(set));
  for (size_t i = 0; i < calls.size(); i++) {
    const std::vector<uint32_t> call = recorder.copied_elements(recorder.value(calls[i]));
    PyObject* const callable = recorder.constant_of(call[0]);
    const bool begins = !i && callable == reinterpret_cast<PyObject*>(&PySet_Type) && call.size() == 2;
    if (!begins && (callable != add || call.size() != 3)) return std::nullopt;
    if (!begins) put.push_back(call[2]);
  }
  return put;
}

constexpr size_t kMostPlaced = 64;  // each is told apart from each

// Guards say that the object is in the set, by the very value that was put there, or isn't.
bool fixes_place_in(Recorder& recorder, const Operated& item, const Operated& set) {
  const std::optional<std::vector<uint32_t>> put = put_into(recorder, set.label);
  if (!put || put->size() > kMostPlaced) return false;
  const int there = PySet_Contains(set.object, item.object);
  if (there < 0) return PyErr_Clear(), false;
  const int32_t at = recorder.value(item.label).a;
  const auto is_it = [&](uint32_t label) { return recorder.value(label).kind == Value::Kind::kSource && recorder.value(label).a == at; };
  if (there) return std::any_of(put->begin(), put->end(), is_it);
  for (const uint32_t label : *put) {
    if (recorder.value(label).kind == Value::Kind::kSource) recorder.guards().require_same(at, recorder.value(label).a, false);
  }
  return true;
}

bool is_container(PyObject* object) {
  return PyList_CheckExact(object) || PyTuple_CheckExact(object) || PyAnySet_CheckExact(object) || PyDict_CheckExact(object) || PyRange_Check(object) || PyUnicode_CheckExact(object);
}

// given: the object, and the arguments. What raises has changed nothing: elements can be hashed, and of several arguments the first might have been used.
std::optional<Plan> method_call(Recorder& recorder, PyObject* callable, Effect effect, const std::vector<Operated>& given, PyObject* names) {
  if (given.empty()) return std::nullopt;
  Operated self = given[0];
  const auto arguments = std::span(given).subspan(1);
  const bool outer = recorder.value(self.label).kind == Value::Kind::kSource && PySet_CheckExact(self.object);
  if (!is_replayed(recorder, self.label) && !outer) return std::nullopt;
  const bool iterators = std::any_of(given.begin(), given.end(), [&](const Operated& one) { return recorder.is_iterator(one.label); });
  if (!PyObject_TypeCheck(self.object, PyDescr_TYPE(callable)) || iterators) return not_known(callable);
  const std::string name = name_in_type(callable);
  if (name == "set.update" && arguments.size() == 1 && !names) {
    if (std::optional<Plan> plan = update_of_half(recorder, callable, self, arguments[0])) return plan;
  }
  const bool several = effect == Effect::kChanges && arguments.size() > 1 && PySet_Check(self.object);
  const bool holds = !outer && holds_placed(self.object), adds = name == "set.add" && arguments.size() == 1 && !names;
  if (holds && !adds) return not_known(callable);
  if (adds && !outer && !recorder.outer_of(self.label) && PySet_CheckExact(self.object) && is_placed(recorder, arguments[0])) {
    if (!fixes_place_in(recorder, arguments[0], self)) return not_known(callable);
    return changed_by(recorder, self.label, recorder.made(callable, nullptr, {arguments[0].label}), plan_constant());
  }
  const bool is_element = name == "set.add" || name == "set.discard" || name == "set.__contains__";
  for (const Operated& one : arguments) {
    const bool may_change_half = several && !is_container(one.object);
    const bool known = is_known_flat(recorder, one.label, one.object) || (is_element && is_fixed_class(recorder, one));
    if (may_change_half || !known) return not_known(callable);
  }
  if (outer && effect != Effect::kChanges && !is_known_flat(recorder, self.label, self.object)) return not_known(callable);
  switch (effect) {
    case Effect::kReads: return plan_constant();
    case Effect::kMakes: return made_by(recorder, call_again(recorder, callable, names, given));
    case Effect::kChanges: {
      const bool made_here = !outer && !recorder.outer_of(self.label);
      if (made_here && arguments.size() == 1 && changes_nothing(callable, self.object, arguments[0].object)) return plan_constant();
      if (!enter(recorder, self)) return plan_break(Break::kStore, "a set from outside");
      // A set from outside keeps what is put into it.
      if (!made_here && is_element && !arguments.empty() && PyType_Check(arguments[0].object)) return not_known(callable);
      return changed_by(recorder, self.label, call_again(recorder, callable, names, arguments), plan_constant());
    }
  }
  return std::nullopt;
}

// Null: a callable that has no row.
const Effect* effect_of_method(PyObject* callable) {
  if (Py_TYPE(callable) != &PyMethodDescr_Type || !is_written_in_c(PyDescr_TYPE(callable))) return nullptr;
  const auto method = replayed().methods.find(name_in_type(callable));
  return method == replayed().methods.end() ? nullptr : &method->second;
}

// set(dict), whose values may be anything. None: another call. A set is as large as the dict that it's made of says, so it's made of one.
std::optional<Plan> set_of_keys(const Site& site, const Activation::CallSite& call, PyObject* callable) {
  const bool makes_set = callable == reinterpret_cast<PyObject*>(&PySet_Type) || callable == reinterpret_cast<PyObject*>(&PyFrozenSet_Type);
  if (!makes_set || call.count != 1 || call.keyword_names || !PyDict_CheckExact(site.frame.slot(call.first))) return std::nullopt;
  Recorder& recorder = site.recorder;
  const std::optional<std::vector<uint32_t>> keys = parts_of(recorder, recorder.label(call.first), site.frame.slot(call.first));
  std::vector<uint32_t> items;
  for (size_t i = 0; keys && i < keys->size(); i++) {
    PyObject* const key = recorder.constant_of((*keys)[i]);
    if (!key || !is_immutable(key)) return std::nullopt;
    items.insert(items.end(), {(*keys)[i], recorder.constant(Py_None)});
  }
  return keys ? std::optional(made_by(recorder, recorder.made(callable, nullptr, {recorder.container(Value::Kind::kDict, std::move(items))}))) : std::nullopt;
}

// set(...), of what is known.
Plan type_call(const Site& site, const Activation::CallSite& call, PyObject* callable) {
  if (any_iterator(site, call.first, call.count)) return not_known(callable);
  if (!all_known_through(site, call.first, call.count)) {
    std::optional<Plan> of_keys = set_of_keys(site, call, callable);
    return of_keys ? *std::move(of_keys) : not_known(callable);
  }
  // It shows its argument, and isn't made of it.
  const bool shows = callable == reinterpret_cast<PyObject*>(&PyMemoryView_Type);
  if (shows && (call.count != 1 || !is_immutable(site.frame.slot(call.first)))) return not_known(callable);
  return made_by(site.recorder, call_again(site, callable, call.keyword_names.get(), call.first, call.count));
}

// --- instructions ----------------------------------------------------------------------------------------------------

// Of what stands on the stack, one by one.
Plan build_set(const Site& site) {
  Recorder& recorder = site.recorder;
  const int count = site.instruction.arg, first = site.depth - count;
  std::vector<uint32_t> elements;
  for (int slot = first; slot < site.depth; slot++) {
    if (!is_immutable(site.frame.slot(slot)) || !is_known_through(recorder, recorder.label(slot), site.frame.slot(slot))) {
      return plan_break(Break::kUnknownObject, "set with " + type_name(site.frame.slot(slot)));
    }
    elements.push_back(recorder.label(slot));
  }
  std::vector<uint32_t> arguments;
  if (count) arguments.push_back(recorder.container(Value::Kind::kTuple, std::move(elements)));
  return made_by(recorder, recorder.made(reinterpret_cast<PyObject*>(&PySet_Type), nullptr, arguments));
}

Plan changed_by_instruction(const Site& site, PyObject* method) {
  const int set = site.depth - 1 - site.instruction.arg;
  if (!is_replayed(site.recorder, site.recorder.label(set))) return plan_break(Break::kStore, "set");
  if (!all_known_through(site, site.depth - 1, 1)) return plan_break(Break::kUnknownObject, "set with " + type_name(site.frame.slot(site.depth - 1)));
  return changed_by(site.recorder, site.recorder.label(set), call_again(site, method, nullptr, site.depth - 1, 1), {});
}
Plan set_add(const Site& site) {
  static PyObject* const method = set_method("add");
  return changed_by_instruction(site, method);
}
Plan set_update(const Site& site) {
  static PyObject* const method = set_method("update");
  return changed_by_instruction(site, method);
}

PyObject* operator_function(const std::string& name) {
  const Ref module = Ref::steal(PyImport_ImportModule("_operator"));
  Ref function = module ? Ref::steal(PyObject_GetAttrString(module.get(), name.c_str())) : Ref();
  if (!function) PyErr_Clear();
  return function.release();  // lives as long as the process
}

// Operators by the numbers of the instruction, in place behind the others.
const std::vector<PyObject*>& operator_functions() {
  static MadeOnce<std::vector<PyObject*>> functions;
  return functions.get([] {
    std::vector<PyObject*> found;
    const char* const names[] = {
#define EVALFRAME_BINARY(number, name, symbol, function, ufunc) function,
#include "bytecode/operators.def"
    };
    for (const char* name : names) found.push_back(operator_function(name));
    for (std::string name : names) {
      if (name.back() == '_') name.pop_back();
      found.push_back(operator_function("i" + name));
    }
    return found;
  });
}

}  // namespace

bool holds_placed(PyObject* object) {
  if (!PyAnySet_Check(object)) return false;
  PyObject* element = nullptr;
  Py_hash_t hash = 0;
  for (Py_ssize_t at = 0; _PySet_NextEntry(object, &at, &element, &hash);) {
    if (!is_immutable(element) && !PyType_Check(element)) return true;
  }
  return false;
}

std::optional<Plan> contains_placed(Recorder& recorder, const Operated& item, const Operated& set) {
  if (!is_replayed(recorder, set.label) || !PySet_CheckExact(set.object) || recorder.outer_of(set.label)) return std::nullopt;
  // What else is in it is known, and not equal to any of them.
  if (is_immutable(item.object) && recorder.known(item.label, item.object)) return plan_constant();
  if (!is_placed(recorder, item)) return std::nullopt;
  return fixes_place_in(recorder, item, set) ? std::optional(plan_constant()) : std::nullopt;
}

std::optional<Plan> replayed_call(const Site& site, const Activation::CallSite& call, PyObject* callable) {
  if (PyType_Check(callable)) {
    const auto* const type = reinterpret_cast<PyTypeObject*>(callable);
    return is_written_in_c(type) && replayed().types.contains(type->tp_name) ? std::optional(type_call(site, call, callable)) : std::nullopt;
  }
  if (PyCFunction_CheckExact(callable)) return replayed().makers.contains(name_in_module(callable)) ? std::optional(type_call(site, call, callable)) : std::nullopt;
  if (!effect_of_method(callable)) return std::nullopt;
  std::vector<Operated> given;
  for (int slot = call.first; slot < call.first + call.count; slot++) given.push_back({site.recorder.label(slot), site.frame.slot(slot)});
  return replayed_method(site.recorder, callable, given, call.keyword_names.get());
}

std::optional<Plan> replayed_method(Recorder& recorder, PyObject* callable, const std::vector<Operated>& given, PyObject* keyword_names) {
  const Effect* const effect = effect_of_method(callable);
  return effect ? method_call(recorder, callable, *effect, given, keyword_names) : std::nullopt;
}

Plan replayed_item(Recorder& recorder, const Operated& object, const Operated& key) {
  if (!recorder.known(key.label, key.object)) return plan_break(Break::kUnknownObject, "subscript of " + type_name(object.object));
  if (!PySlice_Check(key.object)) return plan_constant();
  static PyObject* const function = operator_function("getitem");
  const uint32_t whole = frozen(recorder, object.label, object.object);
  return made_by(recorder, whole ? recorder.made(function, nullptr, {whole, key.label}) : 0);
}

Plan store_into_replayed(Recorder& recorder, const Operated& object, const Operated& key, const Operated& value) {
  static PyObject* const stores = operator_function("setitem");
  static PyObject* const deletes = operator_function("delitem");
  const bool known = recorder.known(key.label, key.object) && (!value.label || is_known_flat(recorder, value.label, value.object));
  if (!known || recorder.is_iterator(value.label)) return plan_break(Break::kStore, "item of " + type_name(object.object));
  std::vector<uint32_t> arguments{key.label};
  if (value.label) arguments.push_back(frozen(recorder, value.label, value.object));
  const uint32_t call = arguments.back() ? recorder.made(value.label ? stores : deletes, nullptr, arguments) : 0;
  return changed_by(recorder, object.label, call, {});
}

std::optional<Plan> replayed_operator(const Site& site, int number) {
  Recorder& recorder = site.recorder;
  uint32_t left = recorder.label(site.depth - 2);
  PyObject* const object = site.frame.slot(site.depth - 2);
  const bool of_views = recorder.value(left).kind == Value::Kind::kMade && PyDictViewSet_Check(object);
  const bool outer = recorder.value(left).kind == Value::Kind::kSource && PySet_CheckExact(object);
  const bool of_replayed = is_replayed(recorder, left) || outer, of_right = is_replayed(recorder, recorder.label(site.depth - 1));
  if (!of_views && !of_replayed && !of_right) return std::nullopt;
  if (!all_known_through(site, site.depth - 2, 2)) return plan_break(Break::kUnknownObject, type_name(object));
  const std::vector<PyObject*>& functions = operator_functions();
  PyObject* const function = functions[static_cast<size_t>(number)];
  const bool in_place = static_cast<size_t>(number) >= functions.size() / 2;
  // The others give immutable objects, or raise.
  if (!of_replayed && !of_views) return plan_constant();
  Operated self{left, object};
  if (in_place && outer && !enter(recorder, self)) return plan_break(Break::kStore, "a set from outside");
  left = self.label;
  if (in_place && of_replayed) return changed_by(recorder, left, call_again(site, function, nullptr, site.depth - 1, 1), plan_value(left));
  return made_by(recorder, call_again(site, function, nullptr, site.depth - 2, 2));
}

void add_replayed_rules(RuleTable& table) {
  using enum bytecode::Op;
  table[static_cast<size_t>(BUILD_SET)] = {build_set, nullptr};
  table[static_cast<size_t>(SET_ADD)] = {set_add, nullptr};
  table[static_cast<size_t>(SET_UPDATE)] = {set_update, nullptr};
}

}  // namespace evalframe::recorder
