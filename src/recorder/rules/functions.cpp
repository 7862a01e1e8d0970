// Rules for attributes of functions that the recorded code has made.
#include "recorder/rules/rules.h"

namespace evalframe::recorder {

namespace {

// Where the value of a function has what it was made with; attributes stand behind these parts, as names and values.
enum Part : size_t { kCode, kGlobals, kDefaults, kClosure, kAnnotations, kKeywordDefaults, kParts };

bool is(PyObject* name, const char* text) { return PyUnicode_CompareWithASCIIString(name, text) == 0; }

// The function's own dict may have it: its type has nothing of this name.
bool is_in_dict(PyObject* function, PyObject* name) { return !_PyType_Lookup(Py_TYPE(function), name); }

uint32_t stored(const Recorder& recorder, const Value& function, PyObject* name) {
  const std::span<const uint32_t> parts = recorder.elements(function);
  for (size_t i = kParts; i < parts.size(); i += 2) {
    if (PyUnicode_Compare(recorder.constant_of(parts[i]), name) == 0) return parts[i + 1];
  }
  return 0;
}

// What was made of a tuple of names and values is a dict from the first look on.
std::optional<Plan> annotations(Recorder& recorder, uint32_t label, PyObject* function) {
  std::vector<uint32_t> parts = recorder.copied_elements(recorder.value(label));
  PyObject* const live = reinterpret_cast<PyFunctionObject*>(function)->func_annotations;
  const Value known = recorder.value(parts[kAnnotations]);
  if (known.kind == Value::Kind::kDict) return plan_value(parts[kAnnotations]);
  std::vector<uint32_t> pairs;
  if (live) {
    const auto elements = PyTuple_CheckExact(live) ? parts_of(recorder, parts[kAnnotations], live) : std::nullopt;
    if (!elements) return std::nullopt;
    pairs = *elements;
  }
  Plan plan = plan_value(recorder.container(Value::Kind::kDict, std::move(pairs)));
  parts[kAnnotations] = plan.label;
  plan.changed = label;
  plan.contents = std::move(parts);
  return plan;
}

}  // namespace

std::optional<Plan> function_attribute(Recorder& recorder, uint32_t label, PyObject* object, PyObject* name) {
  const Value value = recorder.value(label);
  if (value.kind != Value::Kind::kFunction) return std::nullopt;
  if (const uint32_t own = stored(recorder, value, name)) return plan_value(own);
  // As its code says.
  if (is(name, "__name__") || is(name, "__qualname__")) return plan_constant();
  const auto part = [&](Part at) { return plan_value(recorder.elements(value)[at] ? recorder.elements(value)[at] : recorder.constant(Py_None)); };
  if (is(name, "__code__")) return part(kCode);
  if (is(name, "__defaults__")) return part(kDefaults);
  if (is(name, "__kwdefaults__")) return part(kKeywordDefaults);
  if (is(name, "__closure__")) return part(kClosure);
  if (is(name, "__annotations__")) return annotations(recorder, label, object);
  return std::nullopt;
}

std::optional<Plan> store_into_function(Recorder& recorder, const Operated& function, PyObject* name, const Operated& given) {
  const Value value = recorder.value(function.label);
  if (value.kind != Value::Kind::kFunction || !given.label) return std::nullopt;
  const bool named = (is(name, "__name__") || is(name, "__qualname__")) && PyUnicode_CheckExact(given.object);
  if (!named && !is_in_dict(function.object, name)) return std::nullopt;
  PyObject* const own = reinterpret_cast<PyFunctionObject*>(function.object)->func_dict;
  PyObject* const old = own ? PyDict_GetItemWithError(own, name) : nullptr;
  if (old && tells_of_its_end(old)) return std::nullopt;
  Plan plan;
  plan.changed = function.label;
  plan.contents = recorder.copied_elements(value);
  for (size_t i = kParts; i < plan.contents.size(); i += 2) {
    if (PyUnicode_Compare(recorder.constant_of(plan.contents[i]), name) == 0) return plan.contents[i + 1] = given.label, std::move(plan);
  }
  plan.contents.insert(plan.contents.end(), {recorder.constant(name), given.label});
  return plan;
}

}  // namespace evalframe::recorder
