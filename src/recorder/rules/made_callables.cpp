// Rules for callables that C functions make of other things: functools.partial and cmp_to_key, operator.itemgetter, attrgetter and
// methodcaller.
#include <algorithm>

#include "core/c_function.h"
#include "core/made_once.h"
#include "frontends/numpy/calls.h"
#include "recorder/rules/rules.h"
#include "recorder/stand_ins.h"

namespace evalframe::recorder {

namespace {

using evaluator::Activation;

struct Types {
  PyObject *partial = nullptr, *update_wrapper = nullptr, *item = nullptr, *attribute = nullptr, *method = nullptr, *makes_key = nullptr;
};
const Types& types() {
  static MadeOnce<Types> found;
  return found.get([] {
    const Ref functools = Ref::steal(PyImport_ImportModule("functools")), of_operator = Ref::steal(PyImport_ImportModule("operator"));
    const auto named = [](const Ref& module, const char* name) { return module ? Ref::steal(PyObject_GetAttrString(module.get(), name)).release() : nullptr; };
    Types made{named(functools, "partial"), named(functools, "update_wrapper"), named(of_operator, "itemgetter"), named(of_operator, "attrgetter"), named(of_operator, "methodcaller"), named(functools, "cmp_to_key")};
    PyErr_Clear();
    return made;
  });
}

bool is_class_of_c(PyObject* type) { return PyType_Check(type) && PyType_HasFeature(reinterpret_cast<PyTypeObject*>(type), Py_TPFLAGS_IMMUTABLETYPE); }

bool is_a_partial(const Recorder& recorder, uint32_t label) {
  const Value value = recorder.value(label);
  return value.kind == Value::Kind::kMade && recorder.constant_of(recorder.elements(value)[0]) == types().partial;
}

// What functools.cmp_to_key has made, called with an object, for an exit.
PyObject* make_key(PyObject*, PyObject* const* arguments, Py_ssize_t) { return PyObject_CallOneArg(arguments[0], arguments[1]); }
PyObject* maker_of_keys() { return c_function<make_key>("make_key"); }

// The function that a key compares with: the first that it refers to, but for its type.
struct Referred {
  PyObject* type;
  PyObject* found = nullptr;
};
int visit_referred(PyObject* object, void* context) {
  auto* const search = static_cast<Referred*>(context);
  if (!search->found && object != search->type) search->found = object;
  return 0;
}
PyObject* function_of_key(PyObject* key) {
  Referred search{reinterpret_cast<PyObject*>(Py_TYPE(key))};
  if (Py_TYPE(key)->tp_traverse) Py_TYPE(key)->tp_traverse(key, visit_referred, &search);
  return search.found;
}

bool is_made_by(const Recorder& recorder, uint32_t label, PyObject* callable) {
  const Value value = recorder.value(label);
  return value.kind == Value::Kind::kMade && callable && recorder.constant_of(recorder.elements(value)[0]) == callable;
}

Plan call_of_stand_in(const Site& site, const char* name) {
  std::optional<Plan> plan = stand_in_call(site, name);
  return plan ? *std::move(plan) : plan_break(Break::kUnknownCall, name);
}

// What a partial calls: of a bound method that the recorded code made the function, with what that is bound to.
struct Called {
  Operated function;
  std::optional<Operated> self;
};
Called called_by_partial(Recorder& recorder, uint32_t label, PyObject* function) {
  if (!PyMethod_Check(function) || !is_made_by(recorder, label, reinterpret_cast<PyObject*>(&PyMethod_Type))) return {{label, function}, std::nullopt};
  const std::span<const uint32_t> parts = recorder.elements(recorder.value(label));
  return {{parts[2], PyMethod_GET_FUNCTION(function)}, Operated{parts[3], PyMethod_GET_SELF(function)}};
}

// What it was made of, as of one that the recorded code made: its type, names of keywords, function and arguments. One from outside is
// always the same, and so are its function and arguments, and the dict of its keywords, though not what that holds.
std::optional<std::vector<uint32_t>> parts_of_partial(Recorder& recorder, uint32_t label, PyObject* partial, PyObject* function, PyObject* arguments, PyObject* keywords) {
  if (is_a_partial(recorder, label)) return recorder.copied_elements(recorder.value(label));
  if (!fixes_object(recorder, label, partial) || !PyTuple_CheckExact(arguments) || !PyDict_CheckExact(keywords) || PyDict_GET_SIZE(keywords) > kMaxParts) return std::nullopt;
  std::vector<uint32_t> parts{recorder.constant(Py_TYPE(partial)), 0, recorder.fixed(function)};
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(arguments); i++) parts.push_back(recorder.fixed(PyTuple_GET_ITEM(arguments, i)));
  const Value dict = recorder.value(recorder.fixed(keywords));
  const Ref names = Ref::steal(PySequence_Tuple(keywords));
  if (!names || dict.kind != Value::Kind::kSource || !require_keys(recorder, dict, keywords)) return PyErr_Clear(), std::nullopt;
  if (PyTuple_GET_SIZE(names.get()) > 0) parts[1] = recorder.constant(names.get());
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(names.get()); i++) parts.push_back(key_source(recorder, dict, PyTuple_GET_ITEM(names.get(), i)));
  return parts;
}

// All that a call of a partial passes on. Keywords of the call go before those of the partial.
struct PassedOn {
  std::vector<Operated> arguments;
  PyObject* names = nullptr;  // of the last of them
};
std::optional<PassedOn> passed_on(Recorder& recorder, const Given& given, const std::vector<uint32_t>& parts, PyObject* arguments, PyObject* keywords) {
  PyObject* const names = parts[1] ? recorder.constant_of(parts[1]) : nullptr;
  const size_t positional = parts.size() - 3 - (names ? static_cast<size_t>(PyTuple_GET_SIZE(names)) : 0);
  if (static_cast<size_t>(PyTuple_GET_SIZE(arguments)) != positional) return std::nullopt;
  PassedOn passed;
  const size_t named = given.keywords(), more = given.labels.size() - named;
  for (size_t i = 0; i < positional; i++) passed.arguments.push_back({parts[3 + i], PyTuple_GET_ITEM(arguments, static_cast<Py_ssize_t>(i))});
  for (size_t i = 0; i < more; i++) passed.arguments.push_back({given.labels[i], given.objects[i]});
  std::vector<Operated> values;
  const Ref all_names = Ref::steal(PyList_New(0));
  for (Py_ssize_t i = 0; names && i < PyTuple_GET_SIZE(names); i++) {
    PyObject* const name = PyTuple_GET_ITEM(names, i);
    PyObject* const object = PyDict_GetItemWithError(keywords, name);
    if (!object || PyList_Append(all_names.get(), name) < 0) return PyErr_Clear(), std::nullopt;
    values.push_back({parts[3 + positional + static_cast<size_t>(i)], object});
  }
  for (size_t i = 0; i < named; i++) {
    PyObject* const name = PyTuple_GET_ITEM(given.keyword_names.get(), static_cast<Py_ssize_t>(i));
    const Operated value{given.labels[more + i], given.objects[more + i]};
    const Py_ssize_t place = PySequence_Contains(all_names.get(), name) ? PySequence_Index(all_names.get(), name) : -1;
    if (place < 0 && PyList_Append(all_names.get(), name) < 0) return PyErr_Clear(), std::nullopt;
    place < 0 ? values.push_back(value) : void(values[static_cast<size_t>(place)] = value);
  }
  const Ref tuple = Ref::steal(PyList_AsTuple(all_names.get()));
  if (tuple && PyTuple_GET_SIZE(tuple.get()) > 0) passed.names = recorder.constant_of(recorder.constant(tuple.get()));
  passed.arguments.insert(passed.arguments.end(), values.begin(), values.end());
  return passed;
}

// partial(partial(f, ...), ...): what the inner one was made of, and more. One with attributes of its own is called as it is.
std::optional<Plan> partial_of_partial(Recorder& recorder, const Operated& inner, const Given& more) {
  PyObject** const attributes = _PyObject_GetDictPtr(inner.object);
  const Ref function = Ref::steal(PyObject_GetAttrString(inner.object, "func")), arguments = Ref::steal(PyObject_GetAttrString(inner.object, "args"));
  const Ref keywords = Ref::steal(PyObject_GetAttrString(inner.object, "keywords"));
  if (!function || !arguments || !keywords || !attributes || *attributes) return PyErr_Clear(), std::nullopt;
  const auto parts = parts_of_partial(recorder, inner.label, inner.object, function.get(), arguments.get(), keywords.get());
  const std::optional<PassedOn> passed = parts ? passed_on(recorder, more, *parts, arguments.get(), keywords.get()) : std::nullopt;
  if (!passed) return std::nullopt;
  std::vector<uint32_t> labels{(*parts)[2]};
  for (const Operated& argument : passed->arguments) labels.push_back(argument.label);
  return plan_value(recorder.made(Py_TYPE(inner.object), passed->names, labels));
}

// partial(f, ...), itemgetter(...), attrgetter(...), methodcaller(name, ...).
std::optional<Plan> made_here(const Site& site, const Activation::CallSite& call, PyObject* type) {
  Recorder& recorder = site.recorder;
  const int keywords = call.keywords();
  if (call.count - keywords < 1 || !is_class_of_c(type)) return std::nullopt;
  std::vector<uint32_t> labels;
  for (int i = call.first; i < call.first + call.count; i++) labels.push_back(recorder.label(i));
  if (type == types().partial) return making_of_partial(recorder, type, given_at(site, call));
  if (type == types().method) {
    const bool named = PyUnicode_CheckExact(site.frame.slot(call.first)) && recorder.known(labels[0], site.frame.slot(call.first));
    return named && !keywords ? std::optional<Plan>(plan_value(recorder.made(type, nullptr, labels))) : std::nullopt;
  }
  for (int i = call.first; i < call.first + call.count; i++) {
    if (keywords || !recorder.known(recorder.label(i), site.frame.slot(i))) return std::nullopt;
    if (type == types().attribute && !PyUnicode_CheckExact(site.frame.slot(i))) return std::nullopt;
  }
  return plan_value(recorder.made(type, nullptr, labels));
}

// A function in C: of torch's, or one that is called without keywords.
std::optional<Plan> passed_to_c(const Site& site, const Operated& callee, const PassedOn& passed) {
  Given given{{}, {}, passed.names};
  for (const Operated& argument : passed.arguments) given.labels.push_back(argument.label), given.objects.push_back(argument.object);
  if (torch::is_watched()) {
    if (std::optional<Plan> plan = torch_call(site.recorder, callee.label, callee.object, given)) return plan;
  }
  return call_by_count(site, callee, given);
}

}  // namespace

std::optional<Plan> call_by_count(const Site& site, const Operated& callee, const Given& given) {
  const std::string name = "call_of_" + std::to_string(given.labels.size());
  if (given.keyword_names || !stand_in_named(name.c_str())) return std::nullopt;
  Plan plan = call_of_stand_in(site, name.c_str());
  give(plan, callee);
  for (size_t i = 0; i < given.labels.size(); i++) give(plan, {given.labels[i], given.objects[i]});
  return plan;
}

std::optional<Plan> making_of_partial(Recorder& recorder, PyObject* type, Given given) {
  const size_t names = given.keywords();
  if (type != types().partial || !is_class_of_c(type) || given.labels.size() <= names) return std::nullopt;
  const Operated function{given.labels[0], given.objects[0]};
  const bool is_callable = PyCallable_Check(function.object) && fixes_type(recorder, function.label, function.object);
  if (!is_partial(function.object)) return is_callable ? std::optional(plan_value(recorder.made(type, given.keyword_names, given.labels))) : std::nullopt;
  given.labels.erase(given.labels.begin());
  given.objects.erase(given.objects.begin());
  return partial_of_partial(recorder, function, given);
}

bool is_partial(PyObject* callable) { return types().partial && reinterpret_cast<PyObject*>(Py_TYPE(callable)) == types().partial; }

std::optional<Plan> call_of_partial(const Site& site, uint32_t label, PyObject* partial, const Given& given) {
  Recorder& recorder = site.recorder;
  const bool from_outside = is_partial(partial) && recorder.value(label).kind == Value::Kind::kSource;
  if (!is_a_partial(recorder, label) && !from_outside) return std::nullopt;
  const Ref function = Ref::steal(PyObject_GetAttrString(partial, "func")), arguments = Ref::steal(PyObject_GetAttrString(partial, "args"));
  const Ref keywords = Ref::steal(PyObject_GetAttrString(partial, "keywords"));
  if (!function || !arguments || !keywords) return PyErr_Clear(), std::nullopt;
  const auto parts = parts_of_partial(recorder, label, partial, function.get(), arguments.get(), keywords.get());
  const std::optional<PassedOn> passed = parts ? passed_on(recorder, given, *parts, arguments.get(), keywords.get()) : std::nullopt;
  if (!passed) return std::nullopt;
  const auto [callee, self] = called_by_partial(recorder, (*parts)[2], function.get());
  const bool followed = is_plain_function(callee.object) && numpy::call_kind(callee.object) == numpy::CallKind::kUnknown;
  std::optional<Plan> plan;
  if (followed) {
    if (!fixes_object(recorder, callee.label, callee.object)) return std::nullopt;
    PyObject* const instead = self ? nullptr : stand_in_function(site, callee.object);
    plan = instead ? inlined_call(site, recorder.constant(instead), instead, passed->names) : inlined_call(site, callee.label, callee.object, passed->names);
    if (self) give(*plan, *self);
    for (const Operated& argument : passed->arguments) give(*plan, argument);
  } else {
    plan = passed_to_c(site, {(*parts)[2], function.get()}, *passed);
  }
  if (plan) plan->held.push_back(Ref::borrow(partial));
  return plan;
}

namespace {

// What the getter was made of, from the object itself.
std::optional<Plan> call_of_getter(const Site& site, const Activation::CallSite& call, PyObject* getter) {
  Recorder& recorder = site.recorder;
  if (call.count != 1 || call.keyword_names) return std::nullopt;
  const Ref reduced = Ref::steal(PyObject_CallMethod(getter, "__reduce__", nullptr));
  if (!reduced || !PyTuple_CheckExact(reduced.get()) || PyTuple_GET_SIZE(reduced.get()) < 2) return PyErr_Clear(), std::nullopt;
  Ref keys = Ref::borrow(PyTuple_GET_ITEM(reduced.get(), 1));
  if (!PyTuple_CheckExact(keys.get()) || !is_immutable(keys.get())) return std::nullopt;
  const bool of_items = Py_IS_TYPE(getter, reinterpret_cast<PyTypeObject*>(types().item)), single = PyTuple_GET_SIZE(keys.get()) == 1;
  if (!of_items && !single) return std::nullopt;
  if (!of_items) {
    keys = Ref::steal(PyObject_CallMethod(PyTuple_GET_ITEM(keys.get(), 0), "split", "s", "."));
    keys = keys ? Ref::steal(PySequence_Tuple(keys.get())) : Ref();
    if (!keys) return PyErr_Clear(), std::nullopt;
  }
  Plan plan = call_of_stand_in(site, !of_items ? "attribute_of" : single ? "item_of" : "items_of");
  give(plan, {recorder.label(call.first), site.frame.slot(call.first)});
  PyObject* const held = recorder.constant_of(recorder.constant(keys.get()));
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(held); i++) give(plan, {recorder.constant(PyTuple_GET_ITEM(held, i)), PyTuple_GET_ITEM(held, i)});
  return plan;
}

// methodcaller(name, ...)(item), of one that is made here: its arguments are what the call was given.
std::optional<Plan> call_of_methodcaller(const Site& site, const Activation::CallSite& call, PyObject* caller) {
  Recorder& recorder = site.recorder;
  const std::vector<uint32_t> parts = recorder.copied_elements(recorder.value_at(call.callable));
  Ref reduced = Ref::steal(PyObject_CallMethod(caller, "__reduce__", nullptr));
  PyObject* const made_of = reduced && PyTuple_CheckExact(reduced.get()) && PyTuple_GET_SIZE(reduced.get()) == 2 ? PyTuple_GET_ITEM(reduced.get(), 1) : nullptr;
  if (call.count != 1 || call.keyword_names || !made_of || !PyTuple_CheckExact(made_of) || static_cast<size_t>(PyTuple_GET_SIZE(made_of)) + 2 != parts.size()) {
    return PyErr_Clear(), std::nullopt;
  }
  PyObject* const item = site.frame.slot(call.first);
  PyObject* const method = _PyType_Lookup(Py_TYPE(item), PyTuple_GET_ITEM(made_of, 0));
  // That of a builtin type is bound to nothing: the instruction does the same with the item as its argument.
  const bool of_c = method && Py_IS_TYPE(method, &PyMethodDescr_Type) && is_written_in_c(Py_TYPE(item)) && !Py_TYPE(item)->tp_dictoffset;
  if (of_c && !fixes_type(recorder, recorder.label(call.first), item)) return std::nullopt;
  const std::string name = of_c ? "call_of_" + std::to_string(PyTuple_GET_SIZE(made_of)) : "method_of";
  if (!stand_in_named(name.c_str())) return std::nullopt;
  Plan plan = call_of_stand_in(site, name.c_str());
  if (of_c) give(plan, {recorder.constant(method), method});
  give(plan, {recorder.label(call.first), item});
  for (Py_ssize_t i = of_c ? 1 : 0; i < PyTuple_GET_SIZE(made_of); i++) give(plan, {parts[static_cast<size_t>(i) + 2], PyTuple_GET_ITEM(made_of, i)});
  plan.held.push_back(std::move(reduced));
  return plan;
}

}  // namespace

std::optional<Plan> comparison_of_keys(const Site& site, const Operated& left, const Operated& right, bool gives_truth) {
  Recorder& recorder = site.recorder;
  if (!is_made_by(recorder, left.label, maker_of_keys()) || !is_made_by(recorder, right.label, maker_of_keys())) return std::nullopt;
  const Ref objects[] = {Ref::steal(PyObject_GetAttrString(left.object, "obj")), Ref::steal(PyObject_GetAttrString(right.object, "obj"))};
  const std::vector<uint32_t> parts = recorder.copied_elements(recorder.value(left.label)), others = recorder.copied_elements(recorder.value(right.label));
  const uint32_t function = recorder.elements(recorder.value(parts[2]))[2];
  PyObject* const compares = function_of_key(left.object);
  const Ref number = Ref::steal(PyLong_FromLong(site.instruction.arg));
  if (!objects[0] || !objects[1] || !compares || !number) return PyErr_Clear(), std::nullopt;
  Plan plan = call_of_stand_in(site, "compared");
  give(plan, {function, compares});
  give(plan, {parts[3], objects[0].get()});
  give(plan, {others[3], objects[1].get()});
  give(plan, {recorder.constant(number.get()), number.get()});
  give(plan, {recorder.constant(gives_truth ? Py_True : Py_False), gives_truth ? Py_True : Py_False});
  return plan;
}

std::optional<Plan> call_of_made(const Site& site, const Activation::CallSite& call) {
  Recorder& recorder = site.recorder;
  PyObject* const callable = site.frame.slot(call.callable);
  const uint32_t label = recorder.label(call.callable);
  if (callable == types().partial || callable == types().item || callable == types().attribute || callable == types().method) {
    return recorder.constant_of(label) ? made_here(site, call, callable) : std::nullopt;
  }
  if (callable == types().makes_key) {
    const bool plain = recorder.constant_of(label) && PyCFunction_CheckExact(callable) && call.count == 1 && !call.keyword_names;
    return plain ? std::optional<Plan>(plan_value(recorder.made(callable, nullptr, {recorder.label(call.first)}))) : std::nullopt;
  }
  if (is_made_by(recorder, label, types().makes_key)) {
    if (call.count != 1 || call.keyword_names) return std::nullopt;
    return plan_value(recorder.made(maker_of_keys(), nullptr, {label, recorder.label(call.first)}));
  }
  PyObject* const type = reinterpret_cast<PyObject*>(Py_TYPE(callable));
  if (is_a_partial(recorder, label) || is_partial(callable)) return call_of_partial(site, label, callable, given_at(site, call));
  const bool made_now = recorder.value(label).kind == Value::Kind::kMade;
  if (type == types().method) return made_now && is_class_of_c(type) ? call_of_methodcaller(site, call, callable) : std::nullopt;
  if (type != types().item && type != types().attribute) return std::nullopt;
  const Value value = recorder.value(label);
  const bool fixed = value.kind == Value::Kind::kMade || fixes_object(recorder, label, callable);
  return fixed && is_class_of_c(type) ? call_of_getter(site, call, callable) : std::nullopt;
}

}  // namespace evalframe::recorder
