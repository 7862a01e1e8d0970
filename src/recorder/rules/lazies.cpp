// Rules for map and filter, which call their function when they are asked: a step of theirs is a call that is followed.
#include "core/builtins.h"
#include "recorder/rules/rules.h"
#include "recorder/stand_ins.h"

namespace evalframe::recorder {

namespace {

using evaluator::Activation;

bool is_lazy_type(PyObject* type) { return type == reinterpret_cast<PyObject*>(&PyMap_Type) || type == reinterpret_cast<PyObject*>(&PyFilter_Type); }

// What it makes of an argument; 0: that isn't known.
uint32_t iterator_over(Recorder& recorder, uint32_t label, PyObject* object) {
  const Value value = recorder.value(label);
  if (value.kind == Value::Kind::kGenerator) return PyGen_CheckExact(object) ? label : 0;
  if (recorder.is_iterator(label) || is_lazy(recorder, label)) return label;
  std::optional<std::vector<uint32_t>> parts = parts_of(recorder, label, object);
  return parts ? recorder.iterator(builtin("iter"), nullptr, {label}, *std::move(parts)) : 0;
}

}  // namespace

bool is_lazy(const Recorder& recorder, uint32_t label) {
  const Value value = recorder.value(label);
  return value.kind == Value::Kind::kMade && is_lazy_type(recorder.constant_of(recorder.elements(value)[0]));
}

std::optional<Plan> lazy_call(const Site& site, const Activation::CallSite& call, PyObject* callable) {
  Recorder& recorder = site.recorder;
  const bool filters = callable == reinterpret_cast<PyObject*>(&PyFilter_Type);
  if (!is_lazy_type(callable) || call.keyword_names || call.count < 2 || call.count > (filters ? 2 : 3)) return std::nullopt;
  std::vector<uint32_t> labels{recorder.label(call.first)};
  for (int i = call.first + 1; i < call.first + call.count; i++) {
    labels.push_back(iterator_over(recorder, recorder.label(i), site.frame.slot(i)));
    if (!labels.back()) return std::nullopt;
  }
  return plan_value(recorder.made(callable, nullptr, labels));
}

std::optional<Plan> lazy_step(const Site& site) {
  Recorder& recorder = site.recorder;
  const uint32_t label = recorder.label(site.depth - 1);
  if (!is_lazy(recorder, label)) return std::nullopt;
  PyObject* const object = site.frame.slot(site.depth - 1);
  const std::vector<uint32_t> parts = recorder.copied_elements(recorder.value(label));
  const bool filters = Py_IS_TYPE(object, &PyFilter_Type);
  const StandIn* const stand_in = stand_in_named(filters ? "filter_next" : parts.size() == 4 ? "map_next" : "map_next_2");
  Ref reduced = Ref::steal(PyObject_CallMethod(object, "__reduce__", nullptr));
  PyObject* const arguments = reduced ? PyTuple_GET_ITEM(reduced.get(), 1) : nullptr;
  if (!stand_in || !arguments || PyTuple_GET_SIZE(arguments) + 2 != static_cast<Py_ssize_t>(parts.size())) return PyErr_Clear(), std::nullopt;
  Plan plan = inlined_call(site, recorder.constant(stand_in->function.get()), stand_in->function.get(), nullptr);
  for (size_t i = 2; i < parts.size(); i++) {
    plan.contents.push_back(parts[i]);
    plan.arguments.push_back(PyTuple_GET_ITEM(arguments, static_cast<Py_ssize_t>(i) - 2));
  }
  plan.held.push_back(std::move(reduced));
  return plan;
}

}  // namespace evalframe::recorder
