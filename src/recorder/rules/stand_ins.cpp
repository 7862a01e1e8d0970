// Rules for C functions that call back into Python: a Python function is followed in their place.
#include "recorder/stand_ins.h"

#include <string_view>

#include "core/builtins.h"
#include "recorder/rules/rules.h"

namespace evalframe::recorder {

namespace {

using evaluator::Activation;

// The elements of more than these are a break of one call, not of each turn.
constexpr Py_ssize_t kMostElements = 32;

bool is_short(PyObject* container) {
  const bool builtin = PyList_CheckExact(container) || PyTuple_CheckExact(container) || PyDict_CheckExact(container) || PyAnySet_CheckExact(container) ||
                       PyUnicode_CheckExact(container) || PyRange_Check(container);
  return builtin && length_of(container) <= kMostElements;
}

// A generator expression over an iterator from outside has a step that isn't recorded.
bool goes_through_outer(const Recorder& recorder, const Value& generator) {
  const Generator& of = recorder.recorded().generators[static_cast<size_t>(generator.a)];
  PyObject* const names = of.code->code.as<PyCodeObject>()->co_localsplusnames;
  const bool is_expression = PyTuple_GET_SIZE(names) > 0 && PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(names, 0), ".0") == 0;
  return is_expression && recorder.value(recorder.first_slot_of(of)).kind == Value::Kind::kSource;
}

// ... of arrays, where nothing is asked of them but to be put together.
bool puts_together(PyObject* callable) {
  return callable == reinterpret_cast<PyObject*>(&PyList_Type) || callable == reinterpret_cast<PyObject*>(&PyTuple_Type) || callable == builtin<"sum">().get() || callable == list_extend();
}

bool is_gone_through(Recorder& recorder, uint32_t label, PyObject* object) {
  const Value value = recorder.value(label);
  switch (value.kind) {
    case Value::Kind::kGenerator: return PyGen_CheckExact(object) && (recorder.waits(value) || recorder.has_ended(value)) && !goes_through_outer(recorder, value);
    case Value::Kind::kSource: return iterates_by_methods(recorder, {label, object}) || (!recorder.parts_vary(value.a, object) && is_short(object));
    case Value::Kind::kTuple:
    case Value::Kind::kList:
    case Value::Kind::kDict:
    case Value::Kind::kConstant: return is_short(object);
    case Value::Kind::kReplayed: return is_short(object) && !holds_placed(object);
    case Value::Kind::kIterator: return true;
    case Value::Kind::kMade: return recorder.is_iterator(label) || is_lazy(recorder, label);
    default: return iterates_by_methods(recorder, {label, object});
  }
}

bool has_keys(PyObject* object) {
  static PyObject* const name = PyUnicode_InternFromString("keys");
  return _PyType_Lookup(Py_TYPE(object), name);
}

// What the type in C gives for one of its class methods is another object each time.
const StandIn* stand_in_at(PyObject* callable) {
  const bool of_dict = PyCFunction_CheckExact(callable) && PyCFunction_GET_SELF(callable) == reinterpret_cast<PyObject*>(&PyDict_Type);
  if (of_dict && std::string_view(reinterpret_cast<PyCFunctionObject*>(callable)->m_ml->ml_name) == "fromkeys") return stand_in_named("dict.fromkeys");
  return stand_in_of(callable);
}

bool is_ordered_dict(PyObject* callable) { return callable == reinterpret_cast<PyObject*>(&PyODict_Type); }

// Keys of a sort that are instances of classes of the program's, or that functools.cmp_to_key has made.
bool compares_by_methods(PyObject* keys) {
  for (Py_ssize_t i = 0; PyList_CheckExact(keys) && i < PyList_GET_SIZE(keys); i++) {
    PyTypeObject* const type = Py_TYPE(PyList_GET_ITEM(keys, i));
    if (PyType_HasFeature(type, Py_TPFLAGS_HEAPTYPE) && !PyType_HasFeature(type, Py_TPFLAGS_IMMUTABLETYPE)) return true;
    if (std::string_view(type->tp_name) == "functools.KeyWrapper") return true;
  }
  return false;
}

bool stands_in_here(const Site& site, const StandIn& stand_in) {
  const Purpose& purpose = site.recorder.purpose();
  if (stand_in.through == StandIn::kOnlyCompiling) return purpose.compiling;
  return stand_in.through != StandIn::kOnlyTorch || purpose.fixes_numbers;
}

// The function itself leaves what it doesn't do to what it stands for.
bool is_itself(const Site& site, const StandIn& stand_in) { return site.frame.code().code.get() == stand_in.function.as<PyFunctionObject>()->func_code; }

// list(x) and tuple(x) of an instance whose class has a `__len__` of Python's: they ask for it behind `__iter__`.
std::optional<Plan> call_of_sized(const Site& site, const Activation::CallSite& call, PyObject* callable) {
  const char* const name = callable == reinterpret_cast<PyObject*>(&PyList_Type) ? "sized_list" : callable == reinterpret_cast<PyObject*>(&PyTuple_Type) ? "sized_tuple" : nullptr;
  if (!name || call.count != 1 || call.keyword_names) return std::nullopt;
  const Operated operand{site.recorder.label(call.first), site.frame.slot(call.first)};
  static PyObject* const hint = PyUnicode_InternFromString("__length_hint__");
  const bool sized = has_method(site.recorder, operand, "__iter__") && has_method(site.recorder, operand, "__len__") && !_PyType_Lookup(Py_TYPE(operand.object), hint);
  std::optional<Plan> plan = sized ? stand_in_call(site, name) : std::nullopt;
  if (plan) give(*plan, operand);
  return plan;
}

}  // namespace

PyObject* stand_in_function(const Site& site, PyObject* function) {
  const StandIn* const stand_in = PyFunction_Check(function) ? stand_in_of(function) : nullptr;
  return stand_in && stands_in_here(site, *stand_in) && !is_itself(site, *stand_in) ? stand_in->function.get() : nullptr;
}

std::optional<Plan> extension_call(const Site& site) {
  const int list = site.depth - 2, more = site.depth - 1;
  Recorder& recorder = site.recorder;
  const bool generated = recorder.value_at(more).kind == Value::Kind::kGenerator;
  if (site.instruction.arg != 1 || !generated || !is_gone_through(recorder, recorder.label(more), site.frame.slot(more))) return std::nullopt;
  std::optional<Plan> plan = stand_in_call(site, "extended_list");
  for (const int slot : {list, more}) {
    if (plan) give(*plan, {recorder.label(slot), site.frame.slot(slot)});
  }
  return plan;
}

std::optional<Plan> stand_in_call(const Site& site, const Activation::CallSite& call) {
  Recorder& recorder = site.recorder;
  PyObject* const callable = site.frame.slot(call.callable);
  const StandIn* const stand_in = stand_in_at(callable);
  if (PyFunction_Check(callable) && !stand_in) return std::nullopt;
  if (stand_in && !stands_in_here(site, *stand_in)) return std::nullopt;
  if (std::optional<Plan> plan = call_of_made(site, call)) return plan;
  if (std::optional<Plan> plan = call_of_cache(site, call)) return plan;
  if (!stand_in || !fixes_object(recorder, recorder.label(call.callable), callable)) return std::nullopt;
  if (is_itself(site, *stand_in)) return std::nullopt;
  // Methods of a subclass may be others than those that the stand-in calls.
  if (Py_IS_TYPE(callable, &PyMethodDescr_Type) && (call.count < 1 || !Py_IS_TYPE(site.frame.slot(call.first), PyDescr_TYPE(callable)))) return std::nullopt;
  if (Py_IS_TYPE(callable, &PyMethodDescr_Type) && PyDescr_TYPE(callable) == &PyDict_Type) {
    const bool keyed = call.count > 1 && is_key_of_class(recorder, {recorder.label(call.first + 1), site.frame.slot(call.first + 1)});
    if (!keyed) return std::nullopt;
  }
  // What has keys isn't gone through as pairs.
  if (callable == reinterpret_cast<PyObject*>(&PyDict_Type) && call.count > 0 && has_keys(site.frame.slot(call.first))) return std::nullopt;
  // An OrderedDict asks what it is given for items first, which a generator hasn't got.
  if (is_ordered_dict(callable) && (call.count < 1 || recorder.value_at(call.first).kind != Value::Kind::kGenerator)) return std::nullopt;
  // A set takes the hashes of a dict's or a set's elements over.
  const bool makes_set = callable == reinterpret_cast<PyObject*>(&PySet_Type) || callable == reinterpret_cast<PyObject*>(&PyFrozenSet_Type);
  if (makes_set && call.count > 0 && (PyDict_CheckExact(site.frame.slot(call.first)) || PyAnySet_Check(site.frame.slot(call.first)))) return std::nullopt;
  // A tuple of a tuple is that.
  const bool makes_tuple = PyCFunction_CheckExact(callable) && PyCFunction_GET_SELF(callable) == reinterpret_cast<PyObject*>(&PyTuple_Type) && call.count == 2;
  if (makes_tuple && site.frame.slot(call.first) == PyCFunction_GET_SELF(callable) && PyTuple_CheckExact(site.frame.slot(call.first + 1))) return std::nullopt;
  if (callable == places_in_order() && !compares_by_methods(site.frame.slot(call.first))) return std::nullopt;
  if (std::optional<Plan> plan = call_of_sized(site, call, callable)) return plan;
  const int keywords = call.keywords();
  const int through = call.first + stand_in->through, positional = call.count - keywords;
  // A list that gets its own elements would go on for ever, element by element.
  if (through > call.first && through < call.first + call.count && site.frame.slot(through) == site.frame.slot(call.first)) return std::nullopt;
  const bool is_of_several = positional > 1 && (callable == builtin<"max">().get() || callable == builtin<"min">().get());
  if (stand_in->through >= 0 && !is_of_several && positional <= stand_in->through) return std::nullopt;
  if (stand_in->through >= 0 && !is_of_several && !(puts_together(callable) && fixes_rows(recorder, {recorder.label(through), site.frame.slot(through)}, kMostElements))) {
    if (!is_gone_through(recorder, recorder.label(through), site.frame.slot(through))) return std::nullopt;
  }
  for (int i = call.first; i < call.first + call.count; i++) {
    if (!fixes_type(recorder, recorder.label(i), site.frame.slot(i))) return std::nullopt;
  }
  Plan plan = inlined_call(site, recorder.constant(stand_in->function.get()), stand_in->function.get(), call.keyword_names);
  for (int i = call.first; i < call.first + call.count; i++) give(plan, {recorder.label(i), site.frame.slot(i)});
  return plan;
}

}  // namespace evalframe::recorder
