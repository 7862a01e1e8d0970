// Rules for calls of classes of the program's: what the metaclass does, __new__ and __init__, as type.__call__ has them.
#include "cpython/attributes.h"
#include "cpython/objects.h"
#include "evaluator/rest.h"
#include "recorder/rules/rules.h"

namespace evalframe::recorder {

namespace {

using evaluator::Activation;

void append(Plan& plan, const Given& given) {
  plan.contents.insert(plan.contents.end(), given.labels.begin(), given.labels.end());
  plan.arguments.insert(plan.arguments.end(), given.objects.begin(), given.objects.end());
}

// A call of a function with `first` before all else.
Plan call_with(const Site& site, PyObject* function, const Operated& first, const Given& given) {
  Plan plan = inlined_call(site, site.recorder.constant(function), function, given.keyword_names);
  give(plan, first);
  append(plan, given);
  return plan;
}

// The instance is the result, whatever __init__ gives.
void keep_instance(Recorder& recorder, Plan& plan, Ref object, uint32_t instance) {
  plan.kept.emplace_back(std::move(object), instance);
  plan.kept.emplace_back(Ref::borrow(Activation::instance_mark()), recorder.constant(Activation::instance_mark()));
}

// The class's own __new__, a function of Python's; null: another one.
PyObject* python_new(PyTypeObject* type) {
  PyObject* const found = cpython::lookup(type, "__new__");
  if (!found || !Py_IS_TYPE(found, &PyStaticMethod_Type)) return nullptr;
  const Ref function = Ref::steal(PyObject_GetAttrString(found, "__func__"));  // which the method holds
  if (!function) PyErr_Clear();
  return function && is_plain_function(function.get()) ? function.get() : nullptr;
}

// The arguments again, for an exit in __new__: as a tuple and a dict.
struct Packed {
  Ref positional, keywords;
  std::vector<uint32_t> positional_labels, keyword_labels;
};
Packed pack(Recorder& recorder, const Given& given) {
  const Py_ssize_t named = given.keyword_names ? PyTuple_GET_SIZE(given.keyword_names.get()) : 0;
  const Py_ssize_t plain = static_cast<Py_ssize_t>(given.labels.size()) - named;
  Packed packed{Ref::steal(PyTuple_New(plain)), named ? Ref::steal(PyDict_New()) : Ref::borrow(Py_None), {}, {}};
  if (!packed.positional || !packed.keywords) return PyErr_Clear(), Packed{};
  for (Py_ssize_t i = 0; i < plain; i++) {
    PyTuple_SET_ITEM(packed.positional.get(), i, Py_NewRef(given.objects[i]));
    packed.positional_labels.push_back(given.labels[i]);
  }
  for (Py_ssize_t i = 0; i < named; i++) {
    PyObject* const name = PyTuple_GET_ITEM(given.keyword_names.get(), i);
    if (PyDict_SetItem(packed.keywords.get(), name, given.objects[plain + i]) < 0) return PyErr_Clear(), Packed{};
    packed.keyword_labels.insert(packed.keyword_labels.end(), {recorder.constant(name), given.labels[plain + i]});
  }
  return packed;
}

std::optional<Plan> call_of_new(const Site& site, PyTypeObject* type, PyObject* function, const Given& given) {
  Recorder& recorder = site.recorder;
  Packed packed = pack(recorder, given);
  if (!packed.positional) return std::nullopt;
  const Ref parts = Ref::steal(PyTuple_Pack(4, Py_Ellipsis, type, packed.positional.get(), packed.keywords.get()));
  Ref rest = parts ? evaluator::make_rest(parts.get()) : Ref();
  if (!rest) return PyErr_Clear(), std::nullopt;
  const uint32_t of_type = recorder.constant(type);
  const uint32_t keywords = given.keyword_names ? recorder.container(Value::Kind::kDict, std::move(packed.keyword_labels)) : recorder.constant(Py_None);
  const uint32_t positional = recorder.container(Value::Kind::kTuple, std::move(packed.positional_labels));
  const uint32_t whole = recorder.container(Value::Kind::kTuple, {recorder.constant(Py_Ellipsis), of_type, positional, keywords});
  Plan plan = call_with(site, function, {of_type, reinterpret_cast<PyObject*>(type)}, given);
  plan.kept.emplace_back(std::move(rest), recorder.made(evaluator::rest_type(), nullptr, {whole}));
  plan.rest = std::make_shared<Rest>();
  plan.rest->constructs = Ref::borrow(type);
  plan.rest->operands = given.labels;
  for (PyObject* const object : given.objects) plan.rest->objects.push_back(Ref::borrow(object));
  if (given.keyword_names) plan.rest->keyword_names = Ref::borrow(given.keyword_names);
  return plan;
}

// A new instance, and __init__ is followed.
std::optional<Plan> plain_construction(const Site& site, PyTypeObject* type, const Given& given) {
  Recorder& recorder = site.recorder;
  PyObject* const initializer = cpython::lookup(type, "__init__");
  const bool bare = initializer == object_initializer() && given.labels.empty();
  if (!bare && !is_plain_function(initializer)) return std::nullopt;
  const uint32_t instance = recorder.instance(type);
  if (bare) return plan_value(instance);
  Ref object = cpython::bare_instance(type);
  if (!object) return PyErr_Clear(), std::nullopt;
  return call_of_initializer(site, initializer, std::move(object), instance, given);
}

}  // namespace

Plan call_of_initializer(const Site& site, PyObject* initializer, Ref object, uint32_t instance, const Given& given) {
  Plan plan = call_with(site, initializer, {instance, object.get()}, given);
  keep_instance(site.recorder, plan, std::move(object), instance);
  return plan;
}

std::optional<Plan> construction(const Site& site, PyTypeObject* type, const Given& given, bool past_metaclass) {
  Recorder& recorder = site.recorder;
  if (!fixes_metaclass(recorder, reinterpret_cast<PyObject*>(type))) return std::nullopt;
  if (!past_metaclass && Py_TYPE(type)->tp_call != PyType_Type.tp_call) {
    PyObject* const call = cpython::lookup(Py_TYPE(type), "__call__");
    if (!call || !is_plain_function(call)) return std::nullopt;
    return call_with(site, call, {recorder.constant(type), reinterpret_cast<PyObject*>(type)}, given);
  }
  if (type->tp_vectorcall || !cpython::looks_up_class_plainly(Py_TYPE(type)) || !recorder.fix_class(type)) return std::nullopt;
  if (PyObject* const function = python_new(type)) return call_of_new(site, type, function, given);
  if (cpython::builtin_base(type)) return construction_of_builtin(site, type, given);
  return type->tp_new == PyBaseObject_Type.tp_new && cpython::makes_plain_instances(type) ? plain_construction(site, type, given) : std::nullopt;
}

std::optional<Plan> new_of_object(const Site& site, const Given& given, PyObject* callable) {
  static PyObject* const of_object = cpython::lookup(&PyBaseObject_Type, "__new__");
  if (!PyCFunction_CheckExact(callable) || given.labels.empty()) return std::nullopt;
  Recorder& recorder = site.recorder;
  PyObject* const type = given.objects[0];
  if (!PyType_Check(type) || !fixes_object(recorder, given.labels[0], type)) return std::nullopt;
  PyTypeObject* const base = cpython::builtin_base(reinterpret_cast<PyTypeObject*>(type));
  if (base && callable == cpython::lookup(base, "__new__")) {
    return new_of_builtin(site, reinterpret_cast<PyTypeObject*>(type), {{given.labels.begin() + 1, given.labels.end()}, {given.objects.begin() + 1, given.objects.end()}, given.keyword_names});
  }
  if (callable != of_object || given.labels.size() != 1 || given.keyword_names) return std::nullopt;
  if (!cpython::makes_plain_instances(reinterpret_cast<PyTypeObject*>(type)) || !recorder.fix_class(type)) return std::nullopt;
  return plan_value(recorder.instance(type));
}

PyObject* initializer_of_type() {
  static PyObject* const found = cpython::lookup(&PyType_Type, "__init__");
  return found;
}

PyObject* call_of_type() {
  static PyObject* const found = cpython::lookup(&PyType_Type, "__call__");
  return found;
}

PyTypeObject* class_of_bound_call(Recorder& recorder, uint32_t label) {
  static PyObject* const get = PyObject_GetAttrString(call_of_type(), "__get__");
  const Value value = recorder.value(label);
  if (value.kind != Value::Kind::kMade || recorder.elements(value).size() != 3) return nullptr;
  PyObject* const callable = recorder.constant_of(recorder.elements(value)[0]);
  if (!callable || !Py_IS_TYPE(callable, Py_TYPE(get)) || PyObject_RichCompareBool(callable, get, Py_EQ) <= 0) return PyErr_Clear(), nullptr;
  PyObject* const type = recorder.constant_of(recorder.elements(value)[2]);
  return type && PyType_Check(type) ? reinterpret_cast<PyTypeObject*>(type) : nullptr;
}

std::optional<Plan> return_to_construction(Recorder& recorder, uint32_t label, PyObject* object) {
  const Rest& rest = *recorder.rest();
  auto* const type = rest.constructs.as<PyTypeObject>();
  PyTypeObject* const of = Py_TYPE(object);
  const auto unknown = [&] { return plan_break(Break::kResult, type_name(object)); };
  if (!fixes_type(recorder, label, object)) return unknown();
  if (!PyType_IsSubtype(of, type)) return recorder.conclude({label}), std::nullopt;
  PyObject* const initializer = cpython::lookup(of, "__init__");
  if (initializer == object_initializer()) {
    // It refuses arguments that nobody else has taken.
    if (of->tp_new == PyBaseObject_Type.tp_new && !rest.operands.empty()) return unknown();
    return recorder.conclude({label}), std::nullopt;
  }
  // type's own has a look at how many arguments there are, and no other.
  const size_t named = rest.keyword_names ? static_cast<size_t>(PyTuple_GET_SIZE(rest.keyword_names.get())) : 0;
  if (PyType_Check(object) && initializer == initializer_of_type() && rest.operands.size() == 3 + named) return recorder.conclude({label}), std::nullopt;
  if (!is_plain_function(initializer)) return unknown();
  Plan plan;
  plan.kind = Plan::Kind::kInline;
  plan.function = initializer;
  recorder.require_function(initializer);
  recorder.calls(recorder.constant(initializer));
  plan.contents = {label};
  plan.arguments = {object};
  plan.contents.insert(plan.contents.end(), rest.operands.begin(), rest.operands.end());
  for (const Ref& argument : rest.objects) {
    plan.arguments.push_back(argument.get());
    plan.held.push_back(Ref::borrow(argument.get()));
  }
  if (rest.keyword_names) plan.keyword_names = recorder.recording().graph.constants[recorder.value(recorder.constant(rest.keyword_names.get())).a].get();
  keep_instance(recorder, plan, Ref::borrow(object), label);
  recorder.follow_up(std::move(plan));
  return std::nullopt;
}

}  // namespace evalframe::recorder
