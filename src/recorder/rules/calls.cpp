// Rules for calls, by what is called: a Python function is recorded, too; NumPy's functions become nodes; a builtin that
// only looks at what is known here gives a constant; anything else breaks.
#include "core/builtins.h"
#include "cpython/attributes.h"
#include "cpython/classes.h"
#include "cpython/codec.h"
#include "cpython/frame.h"
#include "core/object_text.h"
#include "cpython/layout.h"
#include "cpython/lru_caches.h"
#include "cpython/objects.h"
#include "frontends/numpy/calls.h"
#include "frontends/numpy/error_state.h"
#include "frontends/numpy/numpy_api.h"
#include "frontends/torch/calls.h"
#include "frontends/torch/tensors.h"
#include "recorder/policy.h"
#include "recorder/rules/rows.h"
#include "recorder/rules/rules.h"
#include "recorder/stand_ins.h"

namespace evalframe::recorder {

namespace {

using evaluator::Activation;
using graph::Operand;
using numpy::CallKind;

PyObject* interned(const char* text) { return PyUnicode_InternFromString(text); }
PyObject* enter_name() {
  static PyObject* const name = interned("__enter__");  // lives as long as the process
  return name;
}
PyObject* exit_name() {
  static PyObject* const name = interned("__exit__");
  return name;
}

// The methods of a context manager that the instruction asks for.
PyObject* enter_name(const Site& site) {
  static PyObject* const name = interned("__aenter__");
  return site.instruction.op == bytecode::Op::BEFORE_ASYNC_WITH ? name : enter_name();
}
PyObject* exit_name(const Site& site) {
  static PyObject* const name = interned("__aexit__");
  return site.instruction.op == bytecode::Op::BEFORE_ASYNC_WITH ? name : exit_name();
}

// Every argument as an operand; the detail of the first that can't be one.
bool add_operands(const Site& site, const Activation::CallSite& call, Plan& plan) {
  for (int i = 0; i < call.count; i++) {
    PyObject* object = site.frame.slot(call.first + i);
    plan.operands.push_back(site.recorder.operand(site.recorder.label(call.first + i), object));
    if (plan.operands.back()) continue;
    plan.detail = type_name(object);
    return false;
  }
  return true;
}

bool any_in_graph(const Site& site, const Activation::CallSite& call) {
  for (int i = 0; i < call.count; i++) {
    if (site.recorder.is_graph_value(site.recorder.label(call.first + i), site.frame.slot(call.first + i))) return true;
  }
  return false;
}

bool is_python_number(PyObject* object) {
  return guards::is_number(object) || PyBool_Check(object);
}

bool all_known(const Site& site, const Activation::CallSite& call) {
  for (int i = 0; i < call.count; i++) {
    if (!site.recorder.known(site.recorder.label(call.first + i), site.frame.slot(call.first + i))) return false;
  }
  return true;
}

void add_arguments(const Site& site, const Activation::CallSite& call, Plan& plan) {
  plan.contents.reserve(plan.contents.size() + static_cast<size_t>(call.count));
  plan.arguments.reserve(plan.arguments.size() + static_cast<size_t>(call.count));
  for (int i = call.first; i < call.first + call.count; i++) give(plan, {site.recorder.label(i), site.frame.slot(i)});
}

}  // namespace

bool looks_at_arguments_alone(PyObject* callable) {
  if (numpy::call_kind(callable) == CallKind::kPure) return true;
  if (PyType_Check(callable)) {  // a class is made in the module of who calls
    const bool asks_caller = callable == reinterpret_cast<PyObject*>(&PyType_Type) || callable == reinterpret_cast<PyObject*>(&PySuper_Type);
    return !asks_caller && is_written_in_c(reinterpret_cast<PyTypeObject*>(callable));
  }
  static constexpr std::string_view kFunctions[] = {"all", "any", "callable", "getattr", "hasattr", "isinstance", "issubclass", "iter", "len", "max", "min", "next", "sorted"};
  const auto* const function = PyCFunction_CheckExact(callable) ? reinterpret_cast<PyCFunctionObject*>(callable) : nullptr;
  const bool is_builtin = function && function->m_module && PyUnicode_Check(function->m_module) && PyUnicode_CompareWithASCIIString(function->m_module, "builtins") == 0;
  return is_builtin && std::find(std::begin(kFunctions), std::end(kFunctions), function->m_ml->ml_name) != std::end(kFunctions);
}

Given given_at(const Site& site, const Activation::CallSite& call) {
  Given given{{}, {}, call.keyword_names};
  given.labels.reserve(static_cast<size_t>(call.count));
  given.objects.reserve(static_cast<size_t>(call.count));
  for (int i = call.first; i < call.first + call.count; i++) {
    given.labels.push_back(site.recorder.label(i));
    given.objects.push_back(site.frame.slot(i));
  }
  return given;
}

namespace {

std::optional<Plan> pure_call_at(const Site& site, const Activation::CallSite& call, PyObject* callable) {
  return pure_function_call(site.recorder, callable, given_at(site, call));
}

Plan node_call(const Site& site, const Activation::CallSite& call, PyObject* callable, bool check_result) {
  Plan plan;
  plan.kind = Plan::Kind::kNode;
  plan.form = graph::Form::kCall;
  plan.callable = callable;
  plan.keyword_names = call.keyword_names;
  plan.keywords = call.keywords();
  plan.check_result = check_result;
  if (!add_operands(site, call, plan)) return plan_break(Break::kUnknownCall, callable_name(callable) + " with " + plan.detail);
  return plan;
}

// The arguments are known, if only element by element.
bool contents_known(const Site& site, const Activation::CallSite& call) {
  for (int i = call.first; i < call.first + call.count; i++) {
    if (!is_known_flat(site.recorder, site.recorder.label(i), site.frame.slot(i))) return false;
  }
  return call.count > 0;
}

// sorted(...), of what is known: a new list of constants.
std::optional<Plan> sorted_call(const Site& site, const Activation::CallSite& call, PyObject* callable) {
  const bool sorts = (callable == builtin<"sorted">().get() || callable == places_in_order() || callable == step_of_sort()) && contents_known(site, call);
  return sorts ? std::optional<Plan>(plan_constant()) : std::nullopt;
}

// math.sqrt(x), int(x), float(x): of things known here a constant, of arrays and computed numbers a node.
// sum([...]) of what the recorded code has put together: numbers, of which some are the graph's.
bool sums_numbers_of_graph(const Site& site, const Activation::CallSite& call, PyObject* callable) {
  const Recorder& recorder = site.recorder;
  if (callable != builtin<"sum">().get() || call.count != 1 || call.keyword_names) return false;
  const Value row = recorder.value_at(call.first);
  PyObject* const object = site.frame.slot(call.first);
  if (row.kind != Value::Kind::kTuple && row.kind != Value::Kind::kList) return false;
  bool all = true, any = false;
  for (size_t i = 0; all && i < recorder.elements(row).size(); i++) {
    const uint32_t label = recorder.elements(row)[i];
    all = recorder.is_number(label, PySequence_Fast_GET_ITEM(object, static_cast<Py_ssize_t>(i)));
    any = any || recorder.value(label).kind == Value::Kind::kNode;
  }
  return all && any;
}

bool may_give_argument(PyObject* callable) { return callable == builtin<"max">().get() || callable == builtin<"min">().get() || callable == builtin<"sum">().get(); }

// Whether rows of the recorded code's are among the arguments, and the graph may have them: nothing that can be written into comes out of it.
bool may_have_rows(const Site& site, const Activation::CallSite& call, PyObject* callable) {
  bool any = false;
  for (int i = 0; i < call.count; i++) {
    const Value::Kind kind = site.recorder.value_at(call.first + i).kind;
    if (kind != Value::Kind::kTuple && kind != Value::Kind::kList) continue;
    if (holds_copies(site.frame.slot(call.first + i)) || (i > 0 && may_give_argument(callable))) return false;
    any = true;
  }
  return any;
}

// max(a, b), min(a, default=b), sum([], a): which argument such a call, of what is known, gives as it is; 0: none, or it raises.
uint32_t argument_given_back(const Site& site, const Activation::CallSite& call, PyObject* callable) {
  static PyObject* const key = PyUnicode_InternFromString("key");
  if (!may_give_argument(callable) || (call.keyword_names && PySequence_Contains(call.keyword_names.get(), key) != 0)) return 0;
  std::vector<PyObject*> arguments;
  for (int i = 0; i < call.count; i++) arguments.push_back(site.frame.slot(call.first + i));
  const auto positional = static_cast<size_t>(call.count) - call.keywords();
  const Ref result = Ref::steal(PyObject_Vectorcall(callable, arguments.data(), positional, call.keyword_names.get()));
  if (!result) PyErr_Clear();
  const auto found = std::find(arguments.begin(), arguments.end(), result.get());
  return found == arguments.end() ? 0 : site.recorder.label(call.first + static_cast<int>(found - arguments.begin()));
}

// A constant, or the argument that it is.
Plan known_result(const Site& site, const Activation::CallSite& call, PyObject* callable) {
  const uint32_t same = argument_given_back(site, call, callable);
  return same ? plan_value(same) : plan_constant();
}

Plan pure_call(const Site& site, const Activation::CallSite& call, PyObject* callable) {
  bool in_graph = any_in_graph(site, call), numbers = true;
  for (int i = 0; i < call.count; i++) {
    PyObject* object = site.frame.slot(call.first + i);
    in_graph = in_graph || site.recorder.is_input_number(site.recorder.label(call.first + i), object);
    numbers = numbers && site.recorder.is_number(site.recorder.label(call.first + i), object);
  }
  if (in_graph) {
    Plan plan = node_call(site, call, callable, true);
    plan.of_numbers = numbers;
    return plan;
  }
  if (sums_numbers_of_graph(site, call, callable)) {
    Plan plan = node_call(site, call, callable, false);
    plan.of_shapes = plan.of_numbers = true;
    return plan;
  }
  if (all_known(site, call)) return known_result(site, call, callable);
  const bool gives_text = callable == builtin<"repr">().get() || callable == builtin<"str">().get();
  if (gives_text && all_known_through(site, call.first, call.count)) return plan_constant();
  bool looks_up_plainly = true;
  for (int i = 0; i < call.count; i++) looks_up_plainly = looks_up_plainly && !adds_missing_keys(site.recorder, site.recorder.label(call.first + i));
  if (!gives_text && looks_up_plainly && contents_known(site, call)) return known_result(site, call, callable);
  // sum([...]) of what the recorded code has put together.
  if (may_have_rows(site, call, callable)) return node_call(site, call, callable, true);
  return plan_break(Break::kUnknownCall, callable_name(callable));
}

Plan length_call(const Site& site, const Activation::CallSite& call, PyObject* callable) {
  if (call.count != 1 || call.keyword_names) return plan_break(Break::kUnknownCall, callable_name(callable));
  return length_of(site.recorder, site.recorder.label(call.first), site.frame.slot(call.first));
}

std::vector<Operated> operands_at(const Site& site, const Activation::CallSite& call) {
  std::vector<Operated> operands;
  for (int i = call.first; i < call.first + call.count; i++) operands.push_back({site.recorder.label(i), site.frame.slot(i)});
  return operands;
}

// What a bound method of an object's own hooks (super().__setattr__) is bound from; null: another value.
PyObject* bound_hook(Recorder& recorder, const Value& value) {
  PyObject* const get = recorder.constant_of(recorder.elements(value)[0]);
  const Ref hook = get && !PyType_Check(get) ? Ref::steal(PyObject_GetAttrString(get, "__self__")) : Ref();
  if (!hook) PyErr_Clear();
  return hook && is_hook_of_object(hook.get()) ? hook.get() : nullptr;
}

// A method in C that super() has bound, of an instance whose contents are known, or can be asked for; null: another value.
Ref inherited_method(Recorder& recorder, const Value& value) {
  if (recorder.elements(value).size() != 3) return Ref();
  const uint32_t self = recorder.elements(value)[2];
  if (!recorder.contents(self) && recorder.value(self).kind != Value::Kind::kSource) return Ref();
  PyObject* const get = recorder.constant_of(recorder.elements(value)[0]);
  Ref method = get && Py_IS_TYPE(get, Py_TYPE(bound_initializer())) ? Ref::steal(PyObject_GetAttrString(get, "__self__")) : Ref();
  if (!method) PyErr_Clear();
  return method && (Py_IS_TYPE(method.get(), &PyWrapperDescr_Type) || Py_IS_TYPE(method.get(), &PyMethodDescr_Type)) ? std::move(method) : Ref();
}

PyObject* self_of_wrapper(PyObject* wrapper) {
  const Ref self = Ref::steal(PyObject_GetAttrString(wrapper, "__self__"));  // which the wrapper holds
  return self.get();
}

// A bound method that is a value: what it calls, and with what as the first argument.
struct BoundMethod {
  uint32_t label = 0;  // of the function; 0: a constant
  PyObject* function = nullptr;
  uint32_t self = 0;
  PyObject* object = nullptr;
};
BoundMethod bound_at(const Site& site, int slot) {
  Recorder& recorder = site.recorder;
  PyObject* const bound = site.frame.slot(slot);
  const Value value = recorder.value_at(slot);
  if (value.kind != Value::Kind::kMade) return {};
  const std::span<const uint32_t> parts = recorder.elements(value);
  if (PyMethod_Check(bound)) return {parts[2], PyMethod_GET_FUNCTION(bound), parts[3], PyMethod_GET_SELF(bound)};
  PyObject* name = parts.size() == 4 ? recorder.constant_of(parts[3]) : nullptr;
  if (name && !PyUnicode_Check(name)) name = nullptr;
  if (Py_IS_TYPE(bound, Py_TYPE(bound_initializer())) && name) {
    const Ref self = Ref::steal(PyObject_GetAttrString(bound, "__self__"));  // a member
    return {0, _PyType_Lookup(Py_TYPE(self.get()), name), parts[2], self.get()};
  }
  if (!PyCFunction_Check(bound) || !name) return {};
  PyObject* const self = PyCFunction_GET_SELF(bound);
  return {0, _PyType_Lookup(Py_TYPE(self), name), parts[2], self};
}

Given given_with(const BoundMethod& bound, Given given) {
  given.labels.insert(given.labels.begin(), bound.self);
  given.objects.insert(given.objects.begin(), bound.object);
  return given;
}

// A function or method in C, with arguments one by one, that is known by what it does; none: another callable, or arguments that aren't known.
std::optional<Plan> call_of_c(Recorder& recorder, PyObject* callable, const Given& given) {
  if (is_method_of_containers(callable) && !given.labels.empty()) {
    std::vector<Operated> operands;
    for (size_t i = 1; i < given.labels.size(); i++) operands.push_back({given.labels[i], given.objects[i]});
    return call_of_container_method(recorder, callable, {given.labels[0], given.objects[0]}, operands, static_cast<bool>(given.keyword_names));
  }
  if (has_effect(callable)) return effect_call(recorder, callable, given);
  if (std::optional<Plan> plan = pure_function_call(recorder, callable, given)) return plan;
  return is_pure_method(callable) ? std::optional<Plan>(call_of_pure_method(recorder, callable, given)) : std::nullopt;
}

// object.__init_subclass__, which super() has bound to a class.
bool is_bound_init_subclass(Recorder& recorder, const Value& value, PyObject* callable) {
  static PyObject* const get = PyObject_GetAttrString(cpython::init_subclass_of_object(), "__get__");
  if (value.kind != Value::Kind::kMade || !PyCFunction_Check(callable)) return false;
  PyObject* const maker = recorder.constant_of(recorder.elements(value)[0]);
  const bool same = maker && Py_IS_TYPE(maker, Py_TYPE(get)) && PyObject_RichCompareBool(maker, get, Py_EQ) > 0;
  if (PyErr_Occurred()) PyErr_Clear();
  return same;
}

// The class that a method of C's class is bound to by super(); 0: another value.
uint32_t class_that_c_is_bound_to(const Recorder& recorder, const Value& value, PyObject* callable) {
  if (value.kind != Value::Kind::kMade || !PyCFunction_Check(callable) || recorder.elements(value).size() != 4) return 0;
  return recorder.constant_of(recorder.elements(value)[2]) == Py_None ? recorder.elements(value)[3] : 0;
}

// type.__init__, which super() has bound to a class: it does nothing.
bool is_bound_initializer_of_type(Recorder& recorder, const Value& value) {
  static PyObject* const get = PyObject_GetAttrString(initializer_of_type(), "__get__");
  PyObject* const maker = recorder.constant_of(recorder.elements(value)[0]);
  const bool same = maker && Py_IS_TYPE(maker, Py_TYPE(get)) && PyObject_RichCompareBool(maker, get, Py_EQ) > 0;
  if (PyErr_Occurred()) PyErr_Clear();
  return same;
}

// The bound __exit__ that `with` keeps on the stack, or one of the program's: it is made again at exits.
Plan call_of_bound(const Site& site, const Activation::CallSite& call) {
  Recorder& recorder = site.recorder;
  PyObject* const callable = site.frame.slot(call.callable);
  if (recorder.constant_of(recorder.elements(recorder.value_at(call.callable))[0]) == bound_initializer() && call.count == 0) return plan_constant();
  if (is_bound_initializer_of_type(recorder, recorder.value_at(call.callable)) && call.count - call.keywords() == 3) return plan_constant();
  if (call.count == 0 && is_bound_init_subclass(recorder, recorder.value_at(call.callable), callable)) return plan_constant();
  if (PyTypeObject* const type = class_of_bound_call(recorder, recorder.label(call.callable))) {
    std::optional<Plan> made = construction(site, type, given_at(site, call), true);
    return made ? *std::move(made) : plan_break(Break::kUnknownCall, type->tp_name);
  }
  if (PyObject* const hook = bound_hook(recorder, recorder.value_at(call.callable))) {
    std::vector<Operated> operands = operands_at(site, call);
    const Ref self = Ref::steal(PyObject_GetAttrString(callable, "__self__"));
    operands.insert(operands.begin(), {recorder.elements(recorder.value_at(call.callable))[2], self.get()});
    return call_by_name(site, operands, call.keyword_names, hook).value();
  }
  if (const Ref method = inherited_method(recorder, recorder.value_at(call.callable))) {
    const Operated self{recorder.elements(recorder.value_at(call.callable))[2], self_of_wrapper(callable)};
    std::optional<Plan> plan = call_of_inherited(site, method.get(), self, given_at(site, call), &call);
    return plan ? *std::move(plan) : plan_break(Break::kUnknownCall, callable_name(callable));
  }
  const BoundMethod bound = bound_at(site, call.callable);
  if (!bound.function) return plan_break(Break::kUnknownCall, callable_name(callable));
  if (torch::is_watched() && (!bound.label || torch::is_torchs(bound.function))) {
    if (std::optional<Plan> plan = torch_call(recorder, recorder.constant(bound.function), bound.function, given_with(bound, given_at(site, call)))) return *std::move(plan);
  }
  if (policy_of(bound.function) != Policy::kFollowed) {
    return marked_call(recorder, recorder.constant(bound.function), bound.function, given_with(bound, given_at(site, call))).value();
  }
  if (is_made_descriptor(recorder, bound.self)) {
    std::vector<Operated> operands = operands_at(site, call);
    operands.insert(operands.begin(), {bound.self, bound.object});
    if (std::optional<Plan> plan = descriptor_made(recorder, bound.function, operands, call.keyword_names)) return *std::move(plan);
  }
  if (is_method_of_containers(bound.function)) {
    return call_of_container_method(recorder, bound.function, {bound.self, bound.object}, operands_at(site, call), static_cast<bool>(call.keyword_names));
  }
  if (is_plain_function(bound.function) && numpy::call_kind(bound.function) == CallKind::kUnknown) {
    PyObject* const instead = stand_in_function(site, bound.function);
    Plan plan = instead ? inlined_call(site, recorder.constant(instead), instead, call.keyword_names) : inlined_call(site, bound.label, bound.function, call.keyword_names);
    give(plan, {bound.self, bound.object});
    add_arguments(site, call, plan);
    return plan;
  }
  std::vector<Operated> operands = operands_at(site, call);
  operands.insert(operands.begin(), {bound.self, bound.object});
  if (std::optional<Plan> plan = generator_call(recorder, bound.function, operands, static_cast<bool>(call.keyword_names))) return *std::move(plan);
  if (std::optional<Plan> plan = replayed_method(recorder, bound.function, operands, call.keyword_names.get())) return *std::move(plan);
  if (std::optional<Plan> plan = call_of_c(recorder, bound.function, given_with(bound, given_at(site, call)))) return *std::move(plan);
  const bool exit = numpy::is_error_state(Py_TYPE(bound.object));
  if (!exit && numpy::call_kind(bound.function) != CallKind::kOpaque) return plan_break(Break::kUnknownCall, callable_name(callable));
  Plan plan = node_call(site, call, bound.function, !exit);
  if (plan.kind != Plan::Kind::kNode) return plan;
  const graph::Operand self = recorder.operand(bound.self, bound.object);
  if (!self) return plan_break(Break::kUnknownCall, callable_name(callable) + " of " + type_name(bound.object));
  plan.operands.insert(plan.operands.begin(), self);
  return plan;
}

// types.MethodType(function, object); none: another callable, or function.
std::optional<Plan> binding(const Site& site, const Activation::CallSite& call, PyObject* callable) {
  if (callable != reinterpret_cast<PyObject*>(&PyMethod_Type) || call.count != 2 || call.keyword_names) return std::nullopt;
  Recorder& recorder = site.recorder;
  PyObject *const function = site.frame.slot(call.first), *const self = site.frame.slot(call.first + 1);
  const uint32_t label = recorder.label(call.first);
  const bool made_here = recorder.value(label).kind == Value::Kind::kFunction;
  if (!is_plain_function(function) || self == Py_None || (!made_here && !fixes_object(recorder, label, function))) return std::nullopt;
  return plan_value(recorder.made(callable, nullptr, {made_here ? label : recorder.constant(function), recorder.label(call.first + 1)}));
}

bool is_of_frame(Recorder& recorder, const Value& value) {
  return value.kind == Value::Kind::kSource && recorder.recording().guards.sources[static_cast<size_t>(value.a)].reach == guards::Reach::kSlot;
}

// function.__get__(object, type), as functions are bound to what they are asked of; none: another callable.
std::optional<Plan> binding_by_get(const Site& site, const Activation::CallSite& call, PyObject* callable) {
  static PyObject* const get = PyObject_GetAttrString(reinterpret_cast<PyObject*>(&PyFunction_Type), "__get__");
  if (callable != get || call.count < 2 || call.count > 3 || call.keyword_names) return std::nullopt;
  Recorder& recorder = site.recorder;
  PyObject *const function = site.frame.slot(call.first), *const self = site.frame.slot(call.first + 1);
  const uint32_t label = recorder.label(call.first);
  const bool made_here = recorder.value(label).kind == Value::Kind::kFunction;
  if (!is_plain_function(function) || self == Py_None || (!made_here && !fixes_object(recorder, label, function))) return std::nullopt;
  return plan_value(recorder.made(reinterpret_cast<PyObject*>(&PyMethod_Type), nullptr, {made_here ? label : recorder.constant(function), recorder.label(call.first + 1)}));
}

// Whether it's a bound method that something keeps: random.uniform, or a global `step = machine.step`. One that a frame has was
// made by the call, most likely, and never is the same.
bool is_kept(Recorder& recorder, uint32_t label, PyObject* callable) {
  return !is_of_frame(recorder, recorder.value(label)) && fixes_object(recorder, label, callable);
}
bool is_kept_method(Recorder& recorder, uint32_t label, PyObject* callable) {
  if (!PyMethod_Check(callable) || !is_plain_function(PyMethod_GET_FUNCTION(callable)) || numpy::call_kind(callable) != CallKind::kUnknown) return false;
  return is_kept(recorder, label, callable);
}
Plan call_of_kept_method(const Site& site, const Activation::CallSite& call, PyObject* method) {
  Recorder& recorder = site.recorder;
  PyObject* const function = PyMethod_GET_FUNCTION(method);
  Plan plan = inlined_call(site, recorder.constant(function), function, call.keyword_names);
  give(plan, {recorder.fixed(PyMethod_GET_SELF(method)), PyMethod_GET_SELF(method)});
  add_arguments(site, call, plan);
  return plan;
}

// A method in C that something keeps, bound to an immutable object: keyword.iskeyword, or a global `join = ",".join`. none: another callable.
std::optional<Plan> call_of_kept_c_method(const Site& site, const Activation::CallSite& call, PyObject* callable) {
  PyObject* const self = PyCFunction_CheckExact(callable) ? PyCFunction_GET_SELF(callable) : nullptr;
  Recorder& recorder = site.recorder;
  if (!self || !is_immutable(self) || !is_kept(recorder, recorder.label(call.callable), callable)) return std::nullopt;
  const Ref name = Ref::steal(PyUnicode_InternFromString(reinterpret_cast<PyCFunctionObject*>(callable)->m_ml->ml_name));
  PyObject* const method = name ? _PyType_Lookup(Py_TYPE(self), name.get()) : nullptr;
  if (!method || !Py_IS_TYPE(method, &PyMethodDescr_Type)) return PyErr_Clear(), std::nullopt;
  Given given = given_at(site, call);
  given.labels.insert(given.labels.begin(), recorder.constant(self));
  given.objects.insert(given.objects.begin(), self);
  return call_of_c(recorder, method, given);
}

// A method in C that a frame has, as `with` keeps __exit__: it is bound anew in each run, and known by its name and by what it is bound to.
// None: another callable, or one of a class that may have inherited it.
std::optional<Plan> call_of_passed_c_method(const Site& site, const Activation::CallSite& call, PyObject* callable) {
  Recorder& recorder = site.recorder;
  const Value value = recorder.value_at(call.callable);
  PyObject* const self = PyCFunction_CheckExact(callable) && is_of_frame(recorder, value) ? PyCFunction_GET_SELF(callable) : nullptr;
  if (!self || PyModule_Check(self) || PyType_Check(self) || !is_written_in_c(Py_TYPE(self)) || Py_TYPE(self)->tp_base != &PyBaseObject_Type) return std::nullopt;
  PyMethodDef* const definition = reinterpret_cast<PyCFunctionObject*>(callable)->m_ml;
  const Ref name = Ref::steal(PyUnicode_InternFromString(definition->ml_name));
  PyObject* const method = name ? _PyType_Lookup(Py_TYPE(self), name.get()) : nullptr;
  const bool own = method && Py_IS_TYPE(method, &PyMethodDescr_Type) && reinterpret_cast<PyMethodDescrObject*>(method)->d_method == definition;
  if (!own || PyDescr_TYPE(method) != Py_TYPE(self)) return PyErr_Clear(), std::nullopt;
  recorder.guards().require_type(value.a, callable);
  const uint32_t called = attribute_source(recorder, value.a, "__name__"), of = attribute_source(recorder, value.a, "__self__");
  if (!recorder.known(called, name.get())) return std::nullopt;
  recorder.guards().require_type(recorder.value(of).a, self);
  Given given = given_at(site, call);
  given.labels.insert(given.labels.begin(), of);
  given.objects.insert(given.objects.begin(), self);
  return call_of_c(recorder, method, given);
}

// super(type, object).
Plan explicit_super_call(const Site& site, const Activation::CallSite& call) {
  Recorder& recorder = site.recorder;
  PyObject *const type = site.frame.slot(call.first), *const object = site.frame.slot(call.first + 1);
  const uint32_t self = recorder.label(call.first + 1);
  const auto unknown = [] { return plan_break(Break::kUnknownCall, "super"); };
  // One that is a super object itself is asked in its own way.
  if (!PyType_Check(type) || PyObject_TypeCheck(object, &PySuper_Type) || !fixes_object(recorder, recorder.label(call.first), type)) return unknown();
  auto* const of = reinterpret_cast<PyTypeObject*>(type);
  const bool of_class = PyType_Check(object) && PyType_IsSubtype(reinterpret_cast<PyTypeObject*>(object), of);
  const bool fixed = of_class ? fixes_object(recorder, self, object) : PyObject_TypeCheck(object, of) && is_object(recorder.value(self)) && fixes_class(recorder, recorder.value(self), object);
  if (!fixed) return unknown();
  Plan plan = plan_value(0);
  plan.contents = {self};
  return plan;
}

// super(), in a method: of the class whose body has it, and the first argument.
Plan super_call(const Site& site) {
  Recorder& recorder = site.recorder;
  const Value first = recorder.value_at(0);
  const uint32_t self = first.kind == Value::Kind::kCell ? recorder.elements(first).back() : recorder.label(0);
  const Value::Kind kind = recorder.value(self).kind;
  PyObject* const slot = site.frame.slot(0);
  PyObject* const object = first.kind == Value::Kind::kCell && slot && PyCell_Check(slot) ? PyCell_GET(slot) : slot;
  const bool is_class = object && PyType_Check(object) && fixes_object(recorder, self, object);
  if (!is_class && kind != Value::Kind::kSource && kind != Value::Kind::kInstance && kind != Value::Kind::kException) return plan_break(Break::kUnknownCall, "super");
  Plan plan = plan_value(0);
  plan.contents = {self};
  return plan;
}

// with manager: __enter__ is followed, and later __exit__. None: they are no functions of Python's.
std::optional<Plan> enter_followed(const Site& site, PyObject* manager) {
  Recorder& recorder = site.recorder;
  const uint32_t label = recorder.label(site.depth - 1);
  PyObject* const enter = _PyType_Lookup(Py_TYPE(manager), enter_name(site));
  PyObject* const exit = _PyType_Lookup(Py_TYPE(manager), exit_name(site));
  if (!enter || !exit || !PyFunction_Check(exit) || !is_plain_function(enter) || numpy::is_error_state(Py_TYPE(manager))) return std::nullopt;
  if (!is_object(recorder.value(label)) || !fixes_class(recorder, recorder.value(label), manager)) return std::nullopt;
  Plan plan = inlined_call(site, recorder.constant(enter), enter, nullptr);
  give(plan, {label, manager});
  Ref bound = Ref::steal(PyMethod_New(exit, manager));
  if (!bound) return PyErr_Clear(), std::nullopt;
  plan.kept.emplace_back(std::move(bound), recorder.made(reinterpret_cast<PyObject*>(&PyMethod_Type), nullptr, {recorder.constant(exit), label}));
  return plan;
}

// with lock, with open(...): a node, and later another of __exit__. None: it isn't known what they do.
std::optional<Plan> enter_of_c(const Site& site, PyObject* manager) {
  PyObject* const enter = _PyType_Lookup(Py_TYPE(manager), enter_name());
  PyObject* const exit = _PyType_Lookup(Py_TYPE(manager), exit_name());
  const bool methods = enter && exit && Py_IS_TYPE(enter, &PyMethodDescr_Type) && Py_IS_TYPE(exit, &PyMethodDescr_Type);
  if (!methods || !has_effect(enter) || !has_effect(exit)) return std::nullopt;
  return effect_call(site.recorder, enter, {{site.recorder.label(site.depth - 1)}, {manager}, nullptr});
}

// with np.errstate(...): [manager] -> [bound __exit__, result of __enter__].
Plan before_with(const Site& site) {
  PyObject* const manager = site.frame.slot(site.depth - 1);
  if (torch::is_watched() && is_of_torch(Py_TYPE(manager))) site.recorder.handler_passes_on(site.frame.code(), static_cast<int32_t>(&site.instruction - site.frame.code().instructions.data()) + 1);
  if (std::optional<Plan> followed = enter_followed(site, manager)) return *std::move(followed);
  if (site.instruction.op == bytecode::Op::BEFORE_ASYNC_WITH) return plan_break(Break::kUnknownObject, "async with " + type_name(manager));
  if (std::optional<Plan> entered = enter_of_c(site, manager)) return *std::move(entered);
  Plan plan;
  plan.kind = Plan::Kind::kNode;
  plan.callable = _PyType_Lookup(Py_TYPE(manager), enter_name());
  if (numpy::is_error_state(Py_TYPE(manager)) && numpy::will_tell_program(manager)) return plan_break(Break::kUnknownObject, "numpy.errstate that calls a function");
  plan.operands = {numpy::is_error_state(Py_TYPE(manager)) ? site.recorder.operand(site.recorder.label(site.depth - 1), manager) : Operand{}};
  return plan.operands[0] ? std::move(plan) : plan_break(Break::kUnknownObject, "with " + type_name(manager));
}

void before_with_after(const Site& site, const Plan& plan) {
  Recorder& recorder = site.recorder;
  const int low = site.depth - 1;
  PyObject* const exit = site.frame.slot(low);
  const int32_t node = recorder.add_node(plan, site.frame.slot(low + 1));
  const uint32_t manager = recorder.label(low);
  const bool of_python = PyMethod_Check(exit);
  recorder.set_label(low, of_python ? recorder.made(&PyMethod_Type, nullptr, {recorder.constant(PyMethod_GET_FUNCTION(exit)), manager})
                                    : recorder.made(builtin<"getattr">(), nullptr, {manager, recorder.constant(exit_name())}));
  if (plan.holds) recorder.hold(plan.holds);
  recorder.set_label(low + 1, plan.label ? plan.label : recorder.node_value(node, false));
  if (plan.check_result && !plan.label) recorder.check_result(site.frame, node);
}

// --- f(*args, **keywords) --------------------------------------------------------------------------------------------

// The arguments, one by one; false: not known. Names are kept by the graph. rows: of an array, which are new objects; null: no array.
bool spread(const Site& site, int tuple, Plan& plan, std::vector<Ref>* rows = nullptr) {
  Recorder& recorder = site.recorder;
  PyObject* const positional = site.frame.slot(tuple);
  const bool sequence = PyTuple_CheckExact(positional) || PyList_CheckExact(positional) || torch::is_size(positional), array = rows && numpy::is_exact_array(positional);
  std::optional<std::vector<uint32_t>> parts = sequence || array ? parts_or_rows(recorder, {recorder.label(tuple), positional}, rows) : std::nullopt;
  if (!parts) return false;
  plan.contents = *std::move(parts);
  for (size_t i = 0; i < plan.contents.size(); i++) plan.arguments.push_back(array ? (*rows)[i].get() : PySequence_Fast_GET_ITEM(positional, i));
  if (!(site.instruction.arg & 1)) return true;
  PyObject* const keywords = site.frame.slot(tuple + 1);
  const Value dict = recorder.value_at(tuple + 1);
  const bool source = dict.kind == Value::Kind::kSource && PyDict_CheckExact(keywords) && !recorder.keys_vary(dict.a) && require_keys(recorder, dict, keywords);
  if (dict.kind != Value::Kind::kDict && !source) return false;
  PyObject *key = nullptr, *value = nullptr;
  size_t i = 0;
  for (Py_ssize_t at = 0; PyDict_Next(keywords, &at, &key, &value); i++) {
    if (!PyUnicode_CheckExact(key)) return false;
    give(plan, {source ? key_source(recorder, dict, key) : recorder.elements(dict)[2 * i + 1], value});
  }
  const Ref names = Ref::steal(PySequence_Tuple(keywords));
  if (!names) return PyErr_Clear(), false;
  plan.keywords = static_cast<uint16_t>(i);
  if (i) plan.keyword_names = recorder.recording().graph.constants[recorder.value(recorder.constant(names.get())).a].get();
  return true;
}

// The class that calling what is in the slot makes an instance of, if by type.__call__ alone; null: another callable.
PyTypeObject* class_called(const Site& site, int slot) {
  Recorder& recorder = site.recorder;
  PyObject* const callable = site.frame.slot(slot);
  if (PyTypeObject* const type = class_of_bound_call(recorder, recorder.label(slot))) return type;
  const bool constructs = PyType_Check(callable) && numpy::call_kind(callable) == CallKind::kUnknown && !is_written_in_c(reinterpret_cast<PyTypeObject*>(callable));
  return constructs && fixes_object(recorder, recorder.label(slot), callable) ? reinterpret_cast<PyTypeObject*>(callable) : nullptr;
}

// instance(*args, **keywords): __call__ of its class, which is bound to it.
BoundMethod call_method_at(const Site& site, int slot) {
  const Operated instance{site.recorder.label(slot), site.frame.slot(slot)};
  const bool known_otherwise = torch::is_torchs(instance.object) || numpy::call_kind(instance.object) != CallKind::kUnknown;
  if (known_otherwise || policy_of(instance.object) != Policy::kFollowed) return {};
  return {0, call_method_of(site.recorder, instance), instance.label, instance.object};
}

// f(*generator): its steps are followed before the call.
std::optional<Plan> call_with_generated(const Site& site, int callee, int tuple) {
  Recorder& recorder = site.recorder;
  if (recorder.value_at(tuple).kind != Value::Kind::kGenerator) return std::nullopt;
  std::optional<Plan> plan = stand_in_call(site, "called_with");
  for (const int slot : {callee, tuple, tuple + 1}) {
    if (plan && slot < site.depth) give(*plan, {recorder.label(slot), site.frame.slot(slot)});
  }
  return plan;
}

Plan call_spread(const Site& site) {
  Recorder& recorder = site.recorder;
  const int tuple = site.depth - 1 - (site.instruction.arg & 1);
  const int callee = cpython::layout::kCallExNullAfterCallable ? tuple - 2 : tuple - 1;
  if (std::optional<Plan> plan = call_with_generated(site, callee, tuple)) return *std::move(plan);
  const Value inherited = recorder.value_at(callee);
  if (const Ref method = inherited.kind == Value::Kind::kMade ? inherited_method(recorder, inherited) : Ref()) {
    Plan starred;
    std::optional<Plan> plan;
    const Operated self{recorder.elements(inherited)[2], self_of_wrapper(site.frame.slot(callee))};
    if (spread(site, tuple, starred)) plan = call_of_inherited(site, method.get(), self, {std::move(starred.contents), std::move(starred.arguments), starred.keyword_names}, nullptr);
    return plan ? *std::move(plan) : plan_break(Break::kUnknownCall, callable_name(site.frame.slot(callee)));
  }
  if (is_bound_init_subclass(recorder, inherited, site.frame.slot(callee))) {
    Plan starred;
    if (spread(site, tuple, starred) && starred.arguments.empty()) return plan_constant();
  }
  if (const uint32_t type = class_that_c_is_bound_to(recorder, inherited, site.frame.slot(callee))) {
    Plan starred;
    std::optional<Plan> plan;
    if (spread(site, tuple, starred)) plan = apply_of_function(site, type, site.frame.slot(callee), {std::move(starred.contents), std::move(starred.arguments), starred.keyword_names});
    return plan ? *std::move(plan) : plan_break(Break::kUnknownCall, callable_name(site.frame.slot(callee)));
  }
  BoundMethod bound = bound_at(site, callee);
  if (!bound.function) bound = call_method_at(site, callee);
  if (PyTypeObject* const type = class_called(site, callee)) {
    Plan starred;
    if (!spread(site, tuple, starred)) return plan_break(Break::kUnknownCall, std::string(type->tp_name) + " with starred arguments");
    const bool past_metaclass = !PyType_Check(site.frame.slot(callee));
    std::optional<Plan> made = construction(site, type, {std::move(starred.contents), std::move(starred.arguments), starred.keyword_names}, past_metaclass);
    return made ? *std::move(made) : plan_break(Break::kUnknownCall, type->tp_name);
  }
  PyObject* const callable = bound.function ? bound.function : site.frame.slot(callee);
  const uint32_t label = bound.label ? bound.label : bound.function ? recorder.constant(callable) : recorder.label(callee);
  if (policy_of(callable) != Policy::kFollowed) return plan_break(Break::kMarked, callable_name(callable) + " with starred arguments");
  if (torch::is_torchs(callable)) {
    Plan starred;
    if (!spread(site, tuple, starred)) return plan_break(Break::kUnknownCall, callable_name(callable) + " with starred arguments");
    Given given{std::move(starred.contents), std::move(starred.arguments), starred.keyword_names};
    if (bound.function) given = given_with(bound, std::move(given));
    if (std::optional<Plan> plan = torch_call(recorder, label, callable, given)) return *std::move(plan);
  }
  const CallKind kind = numpy::call_kind(callable);
  const bool node = kind == CallKind::kUfunc || kind == CallKind::kOpaque, followed = kind == CallKind::kUnknown && is_plain_function(callable);
  if (!node && !followed && (recorder.constant_of(label) || is_partial(callable) || cpython::is_lru_cache(callable))) {
    Plan starred;
    if (!spread(site, tuple, starred)) return plan_break(Break::kUnknownCall, callable_name(callable) + " with starred arguments");
    Given given{std::move(starred.contents), std::move(starred.arguments), starred.keyword_names};
    if (bound.function) given = given_with(bound, std::move(given));
    if (std::optional<Plan> plan = is_partial(callable) ? call_of_partial(site, label, callable, given) : making_of_partial(recorder, callable, given)) return *std::move(plan);
    if (std::optional<Plan> plan = call_of_c(recorder, callable, given)) return *std::move(plan);
    if (looks_at_arguments_alone(callable) || cpython::is_lru_cache(callable)) {
      if (std::optional<Plan> plan = call_by_count(site, {label, callable}, given)) return *std::move(plan);
    }
  }
  if ((!node && !followed) || !fixes_object(recorder, label, callable)) return plan_break(Break::kUnknownCall, callable_name(callable));
  Plan plan;
  if (!spread(site, tuple, plan, &plan.held)) return plan_break(Break::kUnknownCall, callable_name(callable) + " with starred arguments");
  if (bound.function) {
    plan.contents.insert(plan.contents.begin(), bound.self);
    plan.arguments.insert(plan.arguments.begin(), bound.object);
  }
  if (followed) {
    PyObject* const instead = stand_in_function(site, callable);
    Plan inlined = instead ? inlined_call(site, recorder.constant(instead), instead, plan.keyword_names) : inlined_call(site, label, callable, plan.keyword_names);
    inlined.contents = std::move(plan.contents);
    inlined.arguments = std::move(plan.arguments);
    inlined.held = std::move(plan.held);
    return inlined;
  }
  plan.kind = Plan::Kind::kNode;
  plan.callable = callable;
  plan.check_result = kind == CallKind::kOpaque && !numpy::result_follows(callable);
  for (size_t i = 0; i < plan.contents.size(); i++) {
    plan.operands.push_back(recorder.operand(plan.contents[i], plan.arguments[i]));
    if (!plan.operands.back()) return plan_break(Break::kUnknownCall, callable_name(callable) + " with " + type_name(plan.arguments[i]));
  }
  return plan;
}

// A class whose metaclass has a type of C's for its __call__ (a TypedDict: dict) is called by calling that; null: another callable.
PyObject* called_by_metaclass(const Site& site, const Activation::CallSite& call) {
  PyObject* const type = site.frame.slot(call.callable);
  if (!PyType_Check(type) || Py_TYPE(type)->tp_call == PyType_Type.tp_call) return nullptr;
  static PyObject* const name = interned("__call__");
  PyObject* const found = _PyType_Lookup(Py_TYPE(type), name);
  const bool plain = found && PyType_CheckExact(found) && is_written_in_c(reinterpret_cast<PyTypeObject*>(found));
  return plain && fixes_object(site.recorder, site.recorder.label(call.callable), type) && fixes_metaclass(site.recorder, type) ? found : nullptr;
}

Plan followed_call(const Site& site, const Activation::CallSite& call, PyObject* function) {
  const uint32_t label = site.recorder.label(call.callable);
  if (!is_plain_function(function) || !fixes_object(site.recorder, label, function)) return plan_break(Break::kUnknownCall, callable_name(function));
  Plan plan = inlined_call(site, label, function, call.keyword_names);
  add_arguments(site, call, plan);
  return plan;
}

Plan call_itself(const Site& site, const Activation::CallSite& call) {
  Recorder& recorder = site.recorder;
  PyObject* callable = site.frame.slot(call.callable);
  if (PyObject* const instead = called_by_metaclass(site, call)) callable = instead;
  // What recorded code of NumPy's itself has made is another function in each run.
  const bool made_here = recorder.value_at(call.callable).kind == Value::Kind::kFunction;
  const CallKind kind = made_here ? CallKind::kUnknown : numpy::call_kind(callable);
  if (torch::is_watched() && !made_here && recorder.value_at(call.callable).kind != Value::Kind::kMade) {
    if (std::optional<Plan> plan = torch_call(recorder, recorder.label(call.callable), callable, given_at(site, call))) return *std::move(plan);
  }
  if (std::optional<Plan> plan = call_of_initializer(site, call)) return *std::move(plan);
  if (std::optional<Plan> plan = call_of_weak_reference(site, call)) return *std::move(plan);
  if (recorder.value_at(call.callable).kind == Value::Kind::kMade) return call_of_bound(site, call);
  if (policy_of(callable) != Policy::kFollowed) return marked_call(recorder, recorder.label(call.callable), callable, given_at(site, call)).value();
  if (PyFunction_Check(callable)) {
    if (std::optional<Plan> breaks = loading_call(site, call, callable)) return *std::move(breaks);
    if (std::optional<Plan> followed = stand_in_call(site, call)) return *std::move(followed);
  }
  // No rule is for the functions of a program.
  if (kind == CallKind::kUnknown && PyFunction_Check(callable) && !is_in_library(callable)) return followed_call(site, call, callable);
  if (std::optional<Plan> plan = change_of_function_dict(site, call, callable)) return *std::move(plan);
  // What breaks anyway isn't asked to be the same next time: a bound method never is.
  const bool of_c = Py_IS_TYPE(callable, &PyMethodDescr_Type) && recorder.value_at(call.callable).kind == Value::Kind::kSource;
  const bool is_type = (PyType_Check(callable) || of_c) && fixes_object(recorder, recorder.label(call.callable), callable);
  if (recorder.constant_of(recorder.label(call.callable))) {
    if (std::optional<Plan> plan = generator_call(recorder, callable, operands_at(site, call), static_cast<bool>(call.keyword_names))) return *std::move(plan);
  }
  if (is_type || recorder.value(recorder.label(call.callable)).kind == Value::Kind::kConstant) {
    for (const auto rule : {keyed_call, cache_step, step_of_autograd, decimal_call, class_making, class_statement, class_body, class_cell_check, class_finishing, enum_making,
                            descriptor_making, outside_call, copying_call, count_of_elements, collection_call,
                            container_call, scope_call, code_call, replayed_call, rearranging_call, binding, binding_by_get,
                            lazy_call, iterator_call, arranging_call, pure_call_at, metadata_call, sorted_call,
                            group_construction, group_call, exception_construction, exception_call, class_test, frame_function}) {
      if (std::optional<Plan> plan = rule(site, call, callable)) return *std::move(plan);
    }
  }
  if (site.recorder.value_at(call.callable).kind == Value::Kind::kConstant) {
    if (std::optional<Plan> plan = protocol_call(site, call, callable)) return *std::move(plan);
    if (std::optional<Plan> plan = call_by_name(site, operands_at(site, call), call.keyword_names, callable)) return *std::move(plan);
  }
  if (callable == builtin<"globals">().get() && call.count == 0 && fixes_object(recorder, recorder.label(call.callable), callable)) {
    return plan_value(recorder.globals() ? recorder.globals() : recorder.fixed(cpython::globals_of(site.frame.frame())));
  }
  if (callable == reinterpret_cast<PyObject*>(&PyBaseObject_Type) && is_type && call.count == 0) return plan_value(recorder.made(callable, nullptr, {}));
  if (std::optional<Plan> plan = call_of_instance(site, call)) return *std::move(plan);
  if (PyTypeObject* const type = class_called(site, call.callable)) {
    if (std::optional<Plan> plan = construction(site, type, given_at(site, call))) return *std::move(plan);
  }
  if (std::optional<Plan> plan = new_of_object(site, given_at(site, call), callable)) return *std::move(plan);
  if (callable == reinterpret_cast<PyObject*>(&PySuper_Type) && call.count == 0 && recorder.constant_of(recorder.label(call.callable))) return super_call(site);
  if (callable == reinterpret_cast<PyObject*>(&PySuper_Type) && call.count == 2 && !call.keyword_names && recorder.constant_of(recorder.label(call.callable))) return explicit_super_call(site, call);
  const auto& instructions = site.frame.code().instructions;
  const bool drops_result = instructions[static_cast<size_t>(site.frame.next()) + 1].op == bytecode::Op::POP_TOP;
  if (collects_garbage(callable) && !drops_result) return plan_break(Break::kGarbage, callable_name(callable));
  if (std::optional<Plan> plan = call_of_passed_c_method(site, call, callable)) return *std::move(plan);
  if (kind == CallKind::kUnknown && has_effect(callable) && fixes_object(recorder, recorder.label(call.callable), callable)) return effect_call(recorder, callable, given_at(site, call));
  if (is_kept_method(recorder, recorder.label(call.callable), callable)) return call_of_kept_method(site, call, callable);
  if (std::optional<Plan> plan = call_of_kept_c_method(site, call, callable)) return *std::move(plan);
  const bool pure = is_pure_method(callable);
  const bool unknown = kind == CallKind::kUnknown && !is_plain_function(callable) && !pure;
  if (unknown || !fixes_object(recorder, recorder.label(call.callable), callable)) return plan_break(Break::kUnknownCall, callable_name(callable));
  if (pure) return call_of_pure_method(recorder, callable, given_at(site, call));
  switch (kind) {
    case CallKind::kUfunc: return node_call(site, call, callable, false);
    case CallKind::kOpaque: return node_call(site, call, callable, !numpy::result_follows(callable));
    case CallKind::kLength: return length_call(site, call, callable);
    case CallKind::kPure: return pure_call(site, call, callable);
    case CallKind::kTypeTest: return type_test(site, call, callable);
    case CallKind::kUnknown: break;
  }
  return followed_call(site, call, callable);
}

Plan call(const Site& site) {
  const auto found = site.frame.call_site();
  if (!found) return plan_break(Break::kInstruction, bytecode::name(site.instruction.op));
  Plan plan = call_itself(site, *found);
  if (plan.kind != Plan::Kind::kBreak) return plan;
  std::optional<Plan> followed = stand_in_call(site, *found);
  return followed ? *std::move(followed) : std::move(plan);
}

void call_after(const Site& site, const Plan& plan) {
  const int depth = site.frame.depth();
  PyObject* result = site.frame.slot(depth - 1);
  Recorder& recorder = site.recorder;
  uint32_t label = 0;
  if (plan.kind == Plan::Kind::kNode) {
    if (plan.of_torch) {
      if (std::string obstacle = tensor_obstacle(recorder, plan, result); !obstacle.empty()) return recorder.stop_in_front(Break::kTensorValue, std::move(obstacle));
    }
    const int32_t node = recorder.add_node(plan, result);
    label = plan.of_torch ? tensor_result(recorder, node, result) : plan.label ? plan.label : recorder.node_value(node, plan.of_shapes, plan.of_numbers && is_python_number(result));
    if (plan.holds) recorder.hold(plan.holds);
    if (plan.stays) recorder.check_constant(label, result);
    if (plan.stays || plan.follows) label = recorder.constant(result);
    for (int i = depth - 1; i < site.depth; i++) recorder.set_label(i, 0);
    recorder.set_label(depth - 1, label);
    if (plan.check_result && !plan.stays && !plan.label) recorder.check_result(site.frame, node);
    return;
  }
  if (plan.appends) recorder.append(recorder.value_at(site.depth - 2), recorder.label(site.depth - 1));
  if (Py_TYPE(result) == &PySuper_Type && !plan.contents.empty()) {
    const Ref type = Ref::steal(PyObject_GetAttrString(result, "__thisclass__"));
    label = recorder.made(reinterpret_cast<PyObject*>(&PySuper_Type), nullptr, {recorder.constant(type.get()), plan.contents[0]});
    for (int i = depth - 1; i < site.depth; i++) recorder.set_label(i, 0);
    return recorder.set_label(depth - 1, label);
  }
  // What has attributes of its own is a place to read them from.
  const bool fixed = plan.same_object || PyType_HasFeature(Py_TYPE(result), Py_TPFLAGS_HEAPTYPE);
  if (plan.makes_class) {
    recorder.made_class(plan.label, result);
    if (plan.contents[0]) recorder.append(recorder.value(plan.contents[0]), plan.label);
  }
  if (plan.takes_over) {
    label = plan.takes_over(recorder, plan, result);
    if (!label) return recorder.stop_in_front(Break::kUnknownCall, "what the library makes of a class");
    for (int i = depth - 1; i < site.depth; i++) recorder.set_label(i, 0);
    return recorder.set_label(depth - 1, label);
  }
  label = plan.kind == Plan::Kind::kValue ? plan.label : fixed ? recorder.fixed(result) : value_of_constant_result(recorder, result);
  for (int i = depth - 1; i < site.depth; i++) recorder.set_label(i, 0);
  recorder.set_label(depth - 1, label);
}

}  // namespace

namespace {

// MAKE_FUNCTION's flags, and where a function's value has each.
struct Attribute {
  int flag, part;
};
constexpr Attribute kAttributes[] = {{8, 3}, {4, 4}, {2, 5}, {1, 2}};  // closure, annotations, keyword defaults, defaults

// Defaults that were there before the recorded code made the function, which has broken in between, are known one by one, as calls take
// them: none where they may be others.
std::optional<uint32_t> known_defaults(Recorder& recorder, const Operated& defaults) {
  const Value value = recorder.value(defaults.label);
  if (value.kind != Value::Kind::kSource) return defaults.label;
  if (PyTuple_CheckExact(defaults.object)) {
    std::optional<std::vector<uint32_t>> parts = parts_of(recorder, defaults.label, defaults.object);
    return parts ? std::optional(recorder.container(Value::Kind::kTuple, *std::move(parts))) : std::nullopt;
  }
  const bool known = PyDict_CheckExact(defaults.object) && !recorder.keys_vary(value.a) && require_keys(recorder, value, defaults.object);
  if (!known) return std::nullopt;
  std::vector<uint32_t> parts;
  PyObject* key = nullptr;
  for (Py_ssize_t at = 0; PyDict_Next(defaults.object, &at, &key, nullptr);) parts.insert(parts.end(), {recorder.constant(key), key_source(recorder, value, key)});
  return recorder.container(Value::Kind::kDict, std::move(parts));
}

// What the function has of it: the same, but for defaults.
std::optional<uint32_t> attribute_given(const Site& site, const Attribute& attribute, int slot) {
  const Operated given{site.recorder.label(slot), site.frame.slot(slot)};
  return attribute.flag <= 2 ? known_defaults(site.recorder, given) : given.label;
}

Plan break_at_defaults() { return plan_break(Break::kInstruction, "defaults of a function that may be others"); }

// Below the code lie, as the flags say, what the function has (3.13: SET_FUNCTION_ATTRIBUTE adds it).
int flags_of_function(const Site& site) { return cpython::layout::kMakeFunctionTakesAttributes ? site.instruction.arg : 0; }

Plan make_function(const Site& site) {
  Plan plan;
  int below = site.depth - 2;
  for (const Attribute& attribute : kAttributes) {
    if (!(flags_of_function(site) & attribute.flag)) continue;
    const std::optional<uint32_t> given = attribute_given(site, attribute, below--);
    if (!given) return break_at_defaults();
    plan.contents.push_back(*given);
  }
  return plan;
}

void make_function_after(const Site& site, const Plan& plan) {
  Recorder& recorder = site.recorder;
  std::vector<uint32_t> parts{recorder.label(site.depth - 1), recorder.constant(cpython::globals_of(site.frame.frame())), 0, 0, 0, 0};
  size_t next = 0;
  for (const Attribute& attribute : kAttributes) {
    if (flags_of_function(site) & attribute.flag) parts[attribute.part] = plan.contents[next++];
  }
  const uint32_t made = recorder.container(Value::Kind::kFunction, std::move(parts));
  const int place = site.depth - 1 - static_cast<int>(next);
  for (int i = place; i < site.depth; i++) recorder.set_label(i, 0);
  recorder.set_label(place, made);
}

Plan set_function_attribute(const Site& site) {
  if (site.recorder.value_at(site.depth - 1).kind != Value::Kind::kFunction) return plan_break(Break::kInstruction, "SET_FUNCTION_ATTRIBUTE");
  Plan plan;
  for (const Attribute& attribute : kAttributes) {
    if (site.instruction.arg != attribute.flag) continue;
    const std::optional<uint32_t> given = attribute_given(site, attribute, site.depth - 2);
    if (!given) return break_at_defaults();
    plan.contents = {*given};
  }
  return plan;
}

void set_function_attribute_after(const Site& site, const Plan& plan) {
  Recorder& recorder = site.recorder;
  std::vector<uint32_t> parts = recorder.copied_elements(recorder.value_at(site.depth - 1));
  for (const Attribute& attribute : kAttributes) {
    if (site.instruction.arg == attribute.flag) parts[attribute.part] = plan.contents[0];
  }
  recorder.set_label(site.depth - 1, 0);
  recorder.set_label(site.depth - 2, recorder.container(Value::Kind::kFunction, std::move(parts)));
}

}  // namespace

std::string callable_name(PyObject* callable) {
  std::string name = qualified_name(callable);
  if (!name.empty()) return name;
  const Ref text = torch::is_torchs(callable) ? Ref::steal(PyObject_Str(callable)) : Ref();  // an operator of torch.ops
  if (!text) PyErr_Clear();
  return text ? std::string(utf8(text.get())) : type_name(callable);
}

bool is_plain_function(PyObject* callable) {
  if (!PyFunction_Check(callable)) return false;
  const auto* const function = reinterpret_cast<PyFunctionObject*>(callable);
  const auto* code = reinterpret_cast<PyCodeObject*>(function->func_code);
  return function->vectorcall == cpython::vectorcall_of_functions() && (code->co_flags & CO_OPTIMIZED) && !(code->co_flags & CO_ASYNC_GENERATOR);
}

// A call of a Python function: the driver makes its frame.
Plan inlined_call(const Site& site, uint32_t label, PyObject* function, Borrowed keyword_names) {
  const Codes* const barren = site.recorder.purpose().barren;
  if (barren && barren->count(reinterpret_cast<PyFunctionObject*>(function)->func_code)) return plan_break(Break::kBarrenCall, callable_name(function));
  Plan plan;
  plan.kind = Plan::Kind::kInline;
  plan.function = function;
  plan.keyword_names = keyword_names;
  site.recorder.calls(label);
  if (site.recorder.value(label).kind != Value::Kind::kFunction) site.recorder.require_function(function);
  return plan;
}

std::optional<Plan> stand_in_call(const Site& site, const char* name, Borrowed keyword_names) {
  const StandIn* const stand_in = stand_in_named(name);
  if (!stand_in) return std::nullopt;
  return inlined_call(site, site.recorder.constant(stand_in->function.get()), stand_in->function.get(), keyword_names);
}

void give(Plan& call, const Operated& argument) {
  call.contents.push_back(argument.label);
  call.arguments.push_back(argument.object);
}

void add_call_rules(RuleTable& table) {
  using enum bytecode::Op;
  table[static_cast<size_t>(CALL)] = {call, call_after};
  table[static_cast<size_t>(MAKE_FUNCTION)] = {make_function, make_function_after};
  table[static_cast<size_t>(SET_FUNCTION_ATTRIBUTE)] = {set_function_attribute, set_function_attribute_after};
  table[static_cast<size_t>(CALL_KW)] = {call, call_after};
  table[static_cast<size_t>(CALL_FUNCTION_EX)] = {call_spread, call_after};
  table[static_cast<size_t>(BEFORE_WITH)] = {before_with, before_with_after};
  table[static_cast<size_t>(BEFORE_ASYNC_WITH)] = {before_with, before_with_after};
}

}  // namespace evalframe::recorder
