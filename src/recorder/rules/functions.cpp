// Rules for attributes of functions: of those that the recorded code has made, which are parts of their value, and of others.
#include <string_view>

#include "core/builtins.h"
#include "cpython/attributes.h"
#include "cpython/objects.h"
#include "recorder/rules/rules.h"

namespace evalframe::recorder {

namespace {

using evaluator::Activation;
using guards::Reach;

constexpr size_t kParts = 6;  // of a function's value, behind which stand names and values of what was stored

// What each function has, whatever was stored into it.
bool is_of_type(PyObject* name) { return _PyType_Lookup(&PyFunction_Type, name); }

int part_of(PyObject* name) {
  return is_named(name, "__code__") ? 0 : is_named(name, "__defaults__") ? 2 : is_named(name, "__closure__") ? 3 : is_named(name, "__annotations__") ? 4 : is_named(name, "__kwdefaults__") ? 5 : -1;
}

// The annotations become a dict when they are first asked for.
Plan annotations_of(Recorder& recorder, uint32_t function, PyObject* object) {
  std::vector<uint32_t> parts = recorder.copied_elements(recorder.value(function));
  const Value known = recorder.value(parts[4]);
  if (parts[4] && known.kind == Value::Kind::kDict) return plan_value(parts[4]);
  std::vector<uint32_t> entries;
  PyObject* const given = reinterpret_cast<PyFunctionObject*>(object)->func_annotations;
  if (parts[4] && known.kind == Value::Kind::kTuple) {
    entries = recorder.copied_elements(known);
  } else if (parts[4]) {
    if (known.kind != Value::Kind::kConstant || !PyTuple_CheckExact(given)) return plan_break(Break::kAttribute, "annotations of a function");
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(given); i++) entries.push_back(recorder.constant(PyTuple_GET_ITEM(given, i)));
  }
  Plan plan = plan_value(recorder.container(Value::Kind::kDict, std::move(entries)));
  parts[4] = plan.label;
  plan.changed = function;
  plan.contents = std::move(parts);
  return plan;
}

Plan attribute_of_made(Recorder& recorder, const Asked& asked) {
  const auto [label, object, name] = asked;
  const std::vector<uint32_t> parts = recorder.copied_elements(recorder.value(label));
  for (size_t i = kParts; i < parts.size(); i += 2) {
    if (recorder.constant_of(parts[i]) == name) return plan_value(parts[i + 1]);
  }
  if (is_named(name, "__annotations__")) return annotations_of(recorder, label, object);
  if (const int part = part_of(name); part >= 0) return plan_value(parts[static_cast<size_t>(part)] ? parts[static_cast<size_t>(part)] : recorder.constant(Py_None));
  if (is_named(name, "__dict__")) return plan_value(recorder.made(builtin_getattr(), nullptr, {label, recorder.constant(name)}));
  if (!is_of_type(name)) return plan_raise();
  // A function's module is what its globals say.
  PyObject* const globals = reinterpret_cast<PyFunctionObject*>(object)->func_globals;
  const Ref value = Ref::steal(PyObject_GenericGetAttr(object, name));
  if (!value) return PyErr_Clear(), plan_break(Break::kAttribute, "of function");
  const Ref module = Ref::steal(PyUnicode_InternFromString("__name__"));
  if (is_named(name, "__module__")) return recorder.known(recorder.name_source(globals, module.get()), value.get()) ? plan_value(recorder.constant(value.get())) : plan_break(Break::kAttribute, "of function");
  const bool fact = is_named(name, "__name__") || is_named(name, "__qualname__") || is_named(name, "__doc__") || is_named(name, "__type_params__");
  return fact && is_immutable(value.get()) ? plan_value(recorder.constant(value.get())) : plan_break(Break::kAttribute, "of function");
}

Plan attribute_of_other(Recorder& recorder, const Asked& asked) {
  const auto [label, object, name] = asked;
  const Value owner = recorder.value(label);
  if (const uint32_t stored = recorder.stored_attribute(label, object, name)) return plan_value(stored);
  if (is_named(name, "__code__") || is_named(name, "__defaults__") || is_named(name, "__kwdefaults__") || is_named(name, "__closure__")) {
    const Ref value = Ref::steal(PyObject_GenericGetAttr(object, name));
    if (!value) return PyErr_Clear(), plan_break(Break::kAttribute, "of function");
    recorder.guards().require_identity(owner.a, object);
    recorder.guards().require_function(object);
    return plan_value(recorder.fixed(value.get()));
  }
  if (is_named(name, "__dict__")) {
    recorder.guards().require_type(owner.a, object);
    return plan_value(recorder.made(builtin_getattr(), nullptr, {label, recorder.constant(name)}));
  }
  if (is_of_type(name) && !cpython::is_plain_to_load(object, name)) return plan_break(Break::kAttribute, "of function");
  if (!recorder.may_touch_attributes(owner.a, object, false)) return plan_break(Break::kAttribute, "of function");
  recorder.guards().require_type(owner.a, object);
  if (!is_of_type(name) && !cpython::own_value(object, name)) {
    recorder.guards().require_lacks(owner.a, name);
    return plan_raise();
  }
  return plan_value(attribute_source(recorder, owner.a, name));
}

// Names and values of what was stored into a function, which its __dict__ shows; none: not known.
std::optional<std::vector<uint32_t>> entries_of(Recorder& recorder, uint32_t label, PyObject* dict) {
  std::vector<uint32_t> entries;
  const Value value = recorder.value(label);
  if (value.kind == Value::Kind::kDict) return recorder.copied_elements(value);
  if (!is_dict_of_function(recorder, label)) return std::nullopt;
  const uint32_t function = recorder.elements(value)[2];
  const Value of = recorder.value(function);
  if (of.kind == Value::Kind::kFunction) {
    const std::vector<uint32_t> parts = recorder.copied_elements(of);
    for (size_t i = kParts; i < parts.size(); i += 2) {
      if (!is_of_type(recorder.constant_of(parts[i]))) entries.insert(entries.end(), {parts[i], parts[i + 1]});
    }
    return entries;
  }
  const uint32_t shown = attribute_source(recorder, of.a, "__dict__");
  if (!recorder.may_touch_dict(recorder.value(shown).a, dict, false) || !require_keys(recorder, recorder.value(shown), dict)) return std::nullopt;
  PyObject* key = nullptr;
  for (Py_ssize_t at = 0; PyDict_Next(dict, &at, &key, nullptr);) entries.insert(entries.end(), {recorder.constant(key), key_source(recorder, recorder.value(shown), key)});
  return entries;
}

std::vector<uint32_t> with_attribute(Recorder& recorder, std::vector<uint32_t> parts, PyObject* name, uint32_t value) {
  for (size_t i = kParts; i < parts.size(); i += 2) {
    if (recorder.constant_of(parts[i]) == name) return parts[i + 1] = value, parts;
  }
  parts.insert(parts.end(), {recorder.constant(name), value});
  return parts;
}

}  // namespace

bool is_dict_of_function(Recorder& recorder, uint32_t label) {
  const Value value = recorder.value(label);
  if (value.kind != Value::Kind::kMade || recorder.elements(value).size() != 4 || recorder.constant_of(recorder.elements(value)[0]) != builtin_getattr()) return false;
  PyObject* const name = recorder.constant_of(recorder.elements(value)[3]);
  const Value owner = recorder.value(recorder.elements(value)[2]);
  return name && PyUnicode_CheckExact(name) && is_named(name, "__dict__") && (owner.kind == Value::Kind::kFunction || owner.kind == Value::Kind::kSource);
}

// One from outside, which is a constant where it's fixed, as a place that has attributes.
uint32_t place_of_function(Recorder& recorder, uint32_t label, PyObject* function) {
  if (recorder.value(label).kind != Value::Kind::kConstant) return label;
  guards::Source at{Reach::kObject};
  at.object = Ref::borrow(function);
  return recorder.source(std::move(at));
}

std::optional<Plan> function_attribute(Recorder& recorder, const Asked& asked) {
  if (!PyFunction_Check(asked.object)) return std::nullopt;
  if (recorder.value(asked.label).kind == Value::Kind::kFunction) return attribute_of_made(recorder, asked);
  const Asked placed{place_of_function(recorder, asked.label, asked.object), asked.object, asked.name};
  return recorder.value(placed.label).kind == Value::Kind::kSource ? std::optional<Plan>(attribute_of_other(recorder, placed)) : std::nullopt;
}

Plan store_into_made_function(Recorder& recorder, const Asked& asked, const Operated& value) {
  const auto [label, object, name] = asked;
  const auto unknown = [&] { return plan_break(Break::kStore, "attribute of function"); };
  const bool text = is_named(name, "__name__") || is_named(name, "__qualname__");
  const bool known = text || is_named(name, "__doc__") || is_named(name, "__module__") || (is_named(name, "__type_params__") && PyTuple_CheckExact(value.object)) ||
                     (is_named(name, "__annotations__") && PyDict_CheckExact(value.object));
  if ((is_of_type(name) && !known) || (text && !PyUnicode_CheckExact(value.object)) || !fixes_type(recorder, value.label, value.object)) return unknown();
  PyObject* const old = cpython::own_value(object, name);
  if (recorder.tells_if_dropped(old)) return unknown();
  Plan plan;
  plan.changed = label;
  plan.contents = with_attribute(recorder, recorder.copied_elements(recorder.value(label)), name, value.label);
  return plan;
}

namespace {

PyObject* method_of_dict(const char* name) { return PyObject_GetAttrString(reinterpret_cast<PyObject*>(&PyDict_Type), name); }

// wrapper.__dict__.pop(name, default)
Plan pop_of_function_dict(const Site& site, const Activation::CallSite& call) {
  Recorder& recorder = site.recorder;
  const uint32_t function = recorder.elements(recorder.value_at(call.first))[2];
  PyObject *const dict = site.frame.slot(call.first), *const name = site.frame.slot(call.first + 1);
  const bool made = recorder.value(function).kind == Value::Kind::kFunction && PyDict_CheckExact(dict);
  const bool known = made && PyUnicode_CheckExact(name) && recorder.known(recorder.label(call.first + 1), name);
  PyObject* const there = known ? PyDict_GetItemWithError(dict, name) : nullptr;
  if (there && is_of_type(name)) return plan_break(Break::kStore, "attributes of function");
  if (known && !there && !PyErr_Occurred()) return call.count == 3 ? plan_value(recorder.label(call.first + 2)) : plan_raise();
  std::vector<uint32_t> parts = known ? recorder.copied_elements(recorder.value(function)) : std::vector<uint32_t>();
  for (size_t i = kParts; there && i < parts.size(); i += 2) {
    if (PyUnicode_Compare(recorder.constant_of(parts[i]), name) != 0) continue;
    Plan plan = plan_value(parts[i + 1]);
    parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(i), parts.begin() + static_cast<std::ptrdiff_t>(i) + 2);
    plan.changed = function;
    plan.contents = std::move(parts);
    return plan;
  }
  return PyErr_Clear(), plan_break(Break::kStore, "attributes of function");
}

}  // namespace

// wrapper.__dict__.update(wrapped.__dict__), as functools.wraps has it.
std::optional<Plan> change_of_function_dict(const Site& site, const Activation::CallSite& call, PyObject* callable) {
  static PyObject *const update = method_of_dict("update"), *const pop = method_of_dict("pop");
  Recorder& recorder = site.recorder;
  if ((callable != update && callable != pop) || call.count < 2 || call.count > 3 || call.keyword_names || !is_dict_of_function(recorder, recorder.label(call.first))) return std::nullopt;
  if (callable == pop) return pop_of_function_dict(site, call);
  if (call.count != 2) return std::nullopt;
  const uint32_t function = recorder.elements(recorder.value_at(call.first))[2];
  PyObject* const from = site.frame.slot(call.first + 1);
  const bool made = recorder.value(function).kind == Value::Kind::kFunction && PyDict_CheckExact(from);
  const std::optional<std::vector<uint32_t>> entries = made ? entries_of(recorder, recorder.label(call.first + 1), from) : std::nullopt;
  if (!entries) return plan_break(Break::kStore, "attributes of function");
  Plan plan = plan_value(recorder.constant(Py_None));
  plan.changed = function;
  plan.contents = recorder.copied_elements(recorder.value(function));
  for (size_t i = 0; i < entries->size(); i += 2) {
    PyObject* const name = recorder.constant_of((*entries)[i]);
    if (!name || !PyUnicode_CheckExact(name) || !PyUnicode_CHECK_INTERNED(name) || is_of_type(name)) return plan_break(Break::kStore, "attributes of function");
    plan.contents = with_attribute(recorder, std::move(plan.contents), name, (*entries)[i + 1]);
  }
  return plan;
}

}  // namespace evalframe::recorder
