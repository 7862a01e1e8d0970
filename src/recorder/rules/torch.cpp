// Rules for PyTorch: its functions, and methods, operators and attributes of tensors.
#include <algorithm>

#include "bytecode/operators.h"
#include "core/object_text.h"
#include "cpython/attributes.h"
#include "frontends/numpy/calls.h"
#include "frontends/torch/calls.h"
#include "frontends/torch/bodies.h"
#include "frontends/torch/checkpoints.h"
#include "frontends/torch/names.h"
#include "frontends/torch/tensors.h"
#include "graph/graph.h"
#include "recorder/rules/rules.h"

namespace evalframe::recorder {

namespace {

using graph::Form;
using graph::Operand;
using torch::CallKind;

constexpr int kMostNesting = 8;  // of lists and tuples, which may be in themselves; what is deeper may be anything

// The elements of a list or tuple from outside are known one by one.
Operand operand_of(Recorder& recorder, uint32_t label, PyObject* object) {
  if (const Operand operand = recorder.operand(label, object)) return operand;
  const bool row = PyList_CheckExact(object) || PyTuple_CheckExact(object);
  if (!row || recorder.value(label).kind != Value::Kind::kSource) return {};
  std::optional<std::vector<uint32_t>> parts = parts_of(recorder, label, object);
  if (!parts) return {};
  const Value::Kind kind = PyList_CheckExact(object) ? Value::Kind::kList : Value::Kind::kTuple;
  return recorder.operand(recorder.container(kind, *std::move(parts)), object);
}

// What the guards fix of the object is all that a fact is about.
bool fixes_metadata(Recorder& recorder, uint32_t label, PyObject* object, bool type_is_enough, int depth = 0) {
  if (depth > kMostNesting) return false;
  if (torch::is_tensor(object)) return static_cast<bool>(recorder.operand(label, object));
  if (recorder.known(label, object)) return true;
  if (PyTuple_CheckExact(object) || PyList_CheckExact(object)) {
    const std::optional<std::vector<uint32_t>> parts = parts_of(recorder, label, object);
    if (!parts || static_cast<Py_ssize_t>(parts->size()) != PySequence_Fast_GET_SIZE(object)) return false;
    for (size_t i = 0; i < parts->size(); i++) {
      if (!fixes_metadata(recorder, (*parts)[i], PySequence_Fast_GET_ITEM(object, static_cast<Py_ssize_t>(i)), type_is_enough, depth + 1)) return false;
    }
    return true;
  }
  return type_is_enough && fixes_type(recorder, label, object);
}

Plan fact(Recorder& recorder, PyObject* callable, const Given& given) {
  const bool of_types = callable_name(callable).find("has_torch_function") != std::string::npos;
  for (size_t i = 0; i < given.labels.size(); i++) {
    if (!fixes_metadata(recorder, given.labels[i], given.objects[i], of_types)) {
      return plan_break(Break::kUnknownCall, callable_name(callable) + " with " + type_name(given.objects[i]));
    }
  }
  return plan_constant();
}

Plan operation(Recorder& recorder, PyObject* callable, const Given& given) {
  Plan plan;
  plan.kind = Plan::Kind::kNode;
  plan.of_torch = true;
  plan.callable = callable;
  plan.keyword_names = given.keyword_names;
  plan.keywords = given.keywords();
  for (size_t i = 0; i < given.labels.size(); i++) {
    plan.operands.push_back(operand_of(recorder, given.labels[i], given.objects[i]));
    if (!plan.operands.back()) return plan_break(Break::kUnknownCall, callable_name(callable) + " with " + type_name(given.objects[i]));
  }
  return plan;
}

// Whether what is asked of tensors follows from the guards.
bool is_fixed(const Recorder& recorder, CallKind kind, uint32_t label, PyObject* object) {
  if (kind == CallKind::kFact || !torch::is_tensor(object) || recorder.has_fixed_sizes(label, object)) return true;
  return kind == CallKind::kLayout && recorder.value(label).kind == Value::Kind::kSource;
}

// Sizes, and what is computed of them: where they vary, the graph asks for them.
Plan size(Recorder& recorder, CallKind kind, PyObject* callable, const Given& given) {
  bool fixed = true;
  for (size_t i = 0; i < given.labels.size(); i++) fixed = fixed && is_fixed(recorder, kind, given.labels[i], given.objects[i]);
  if (fixed) return fact(recorder, callable, given);
  Plan plan = operation(recorder, callable, given);
  plan.of_torch = false;
  plan.of_shapes = plan.of_numbers = true;
  return plan;
}

bool has_array(const Given& given) {
  return std::any_of(given.objects.begin(), given.objects.end(), numpy::is_array);
}

// What is no operation with its one argument alone: torch.where(condition) gives the places where it holds, x.type() a text.
std::optional<Plan> operation_alone(Recorder& recorder, PyObject* callable, const Given& given) {
  if (given.labels.size() != 1) return std::nullopt;
  const std::string name = callable_name(callable);
  if (name.ends_with(".type")) return fact(recorder, callable, given);
  return name.ends_with("where") ? std::optional(plan_break(Break::kTensorValue, name)) : std::nullopt;
}

// How many pieces a tensor is cut into depends on its size.
bool gives_any_number(Recorder& recorder, int32_t node, PyObject* result) {
  const graph::Node& made = recorder.recording().graph.nodes[node];
  const bool cuts = made.form == Form::kCall && !torch::has_effect(recorder.recording().graph.constants[made.callable].get());
  return recorder.sizes_vary() && cuts && (PyTuple_CheckExact(result) || PyList_CheckExact(result));
}

// A part of what an operation gave: tensors one by one.
uint32_t parts_of_result(Recorder& recorder, int32_t node, PyObject* result) {
  if (gives_any_number(recorder, node, result)) recorder.check_length(Operand::node(node), result);
  std::vector<uint32_t> parts;
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(result); i++) {
    const Ref index = Ref::steal(PyLong_FromSsize_t(i));
    const Operand key = Operand::constant(recorder.value(recorder.constant(index.get())).a);
    PyObject* const part = PySequence_Fast_GET_ITEM(result, i);
    parts.push_back(tensor_result(recorder, recorder.add_plain_node(Form::kGetItem, 0, nullptr, {Operand::node(node), key}, part), part));
  }
  return recorder.container(PyList_CheckExact(result) ? Value::Kind::kList : Value::Kind::kTuple, std::move(parts));
}

// What several results are, by their places; null: another value.
const Value* parts_of_results(const Recorder& recorder, uint32_t label, PyObject* object) {
  if (!torch::is_return_type(object) || recorder.value(label).kind != Value::Kind::kMade) return nullptr;
  return &recorder.value(recorder.elements(recorder.value(label))[2]);
}

// An object of C's, which is entered and left.
Plan new_inference_mode(Recorder& recorder, uint32_t label, PyObject* type, const Given& given) {
  if (!fixes_object(recorder, label, type)) return plan_break(Break::kUnknownCall, callable_name(type));
  Plan plan = operation(recorder, type, given);
  plan.of_torch = false;
  return plan;
}

// ... which the guards ask for with the arguments that it has here.
Plan asked(Recorder& recorder, PyObject* callable, const Given& given) {
  if (given.objects.empty()) return present_state(recorder, callable);
  bool known = !given.keyword_names;
  for (size_t i = 0; known && i < given.objects.size(); i++) {
    known = recorder.known(given.labels[i], given.objects[i]) || fixes_object(recorder, given.labels[i], given.objects[i]);
  }
  const Ref functools = known ? Ref::steal(PyImport_ImportModule("functools")) : Ref(), partial = functools ? Ref::steal(PyObject_GetAttrString(functools.get(), "partial")) : Ref();
  std::vector<PyObject*> parts{callable};
  parts.insert(parts.end(), given.objects.begin(), given.objects.end());
  const Ref asks = partial ? Ref::steal(PyObject_Vectorcall(partial.get(), parts.data(), parts.size(), nullptr)) : Ref();
  if (!asks) return PyErr_Clear(), plan_break(Break::kUnknownCall, callable_name(callable));
  return present_state(recorder, asks.get());
}

// Whether the tensors have one dtype, and the same sizes and strides.
bool are_alike(PyObject* tensor, PyObject* other) {
  std::vector<int64_t> sizes, of_other;
  const graph::Meta meta = graph::meta_of(tensor, sizes), other_meta = graph::meta_of(other, of_other);
  return meta.kind == other_meta.kind && meta.dtype == other_meta.dtype && sizes == of_other;
}

// What the function of a body gives behind a tuple of tensors that the first of them are to be like: new ones, each of them its own.
Plan end_of_body(Recorder& recorder, const Given& given) {
  PyObject* const like = given.objects.empty() ? nullptr : given.objects[0];
  if (!like || !PyTuple_CheckExact(like) || static_cast<size_t>(PyTuple_GET_SIZE(like)) >= given.objects.size()) return plan_break(Break::kOperator, "one gives fewer tensors");
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(like); i++) {
    if (!are_alike(PyTuple_GET_ITEM(like, i), given.objects[static_cast<size_t>(i) + 1])) return plan_break(Break::kOperator, "one gives a tensor of another kind, or other sizes or strides");
  }
  std::vector<int32_t> nodes;
  for (size_t i = 1; i < given.labels.size(); i++) {
    const Value value = recorder.value(given.labels[i]);
    const bool fits = value.kind == Value::Kind::kNode && torch::is_tensor(given.objects[i]) && std::ranges::find(nodes, value.a) == nodes.end();
    if (!fits) return plan_break(Break::kOperator, "one gives " + (torch::is_tensor(given.objects[i]) ? std::string("a tensor that isn't new") : type_name(given.objects[i])));
    nodes.push_back(value.a);
  }
  const bool ends = !nodes.empty() && recorder.bodies().end(static_cast<int32_t>(recorder.recording().graph.nodes.size()), std::move(nodes));
  return ends ? plan_constant() : plan_break(Break::kOperator, "one gives no new tensors");
}

// What the first argument makes of bodies, the second, and of what is told of them is the same whenever the guards hold.
Plan taken_bodies(Recorder& recorder, const Given& given) {
  const OfBodies* const backends = recorder.purpose().bodies;
  PyObject* const bodies = backends && given.objects.size() == 2 && PyTuple_CheckExact(given.objects[1]) ? given.objects[1] : nullptr;
  const std::optional<Bodies::Taken> taken = bodies ? recorder.bodies().take(static_cast<size_t>(PyTuple_GET_SIZE(bodies)), recorder.recording().graph, *backends) : std::nullopt;
  if (!taken) return PyErr_Clear(), plan_break(Break::kOperator, "one does more than to compute tensors");
  const Ref modules = Ref::steal(PyTuple_New(PyTuple_GET_SIZE(bodies))), outer = Ref::steal(PyTuple_New(static_cast<Py_ssize_t>(taken->outer.size())));
  std::vector<uint32_t> module_labels, outer_labels;
  for (Py_ssize_t i = 0; modules && i < PyTuple_GET_SIZE(bodies); i++) {
    PyObject* const module = PyObject_CallFunctionObjArgs(given.objects[0], taken->told[static_cast<size_t>(i)].get(), PyTuple_GET_ITEM(bodies, i), nullptr);
    if (!module) return PyErr_Clear(), plan_break(Break::kOperator, "one has what graphs of torch's haven't");
    PyTuple_SET_ITEM(modules.get(), i, module);
    module_labels.push_back(recorder.constant(module));
  }
  for (size_t i = 0; outer && i < taken->outer.size(); i++) {
    PyTuple_SET_ITEM(outer.get(), static_cast<Py_ssize_t>(i), Ref::borrow(taken->outer[i]->object.get()).release());
    outer_labels.push_back(taken->outer[i]->label);
  }
  Ref both = modules && outer ? Ref::steal(PyTuple_Pack(2, modules.get(), outer.get())) : Ref();
  if (!both) return PyErr_Clear(), plan_break(Break::kTooLong);
  torch::give_bodies(std::move(both));
  const auto tuple = [&](std::vector<uint32_t> labels) { return recorder.container(Value::Kind::kTuple, std::move(labels)); };
  const uint32_t first = tuple(std::move(module_labels)), second = tuple(std::move(outer_labels));
  return plan_value(tuple({first, second}));
}

// The call that stands between graphs, and what was found in one of its functions.
Plan operator_as_it_is(const Given& given) {
  std::string why;
  for (PyObject* const argument : given.objects) {
    if (why.empty() && PyCallable_Check(argument)) why = torch::why_not_followed(argument);
  }
  const Ref name = given.objects.size() > 1 ? torch::attribute(given.objects[1], "__name__") : Ref();
  return plan_break(Break::kOperator, (name && PyUnicode_Check(name.get()) ? std::string(utf8(name.get())) : "?") + (why.empty() ? "" : ": " + why));
}

// Where the function of one of torch's operators begins and ends.
Plan mark_of_body(Recorder& recorder, PyObject* callable, const Given& given) {
  torch::expect_sizes_to_vary(recorder.sizes_vary());
  if (callable == torch::call_operator()) return operator_as_it_is(given);
  if (callable == torch::follows_body()) return plan_constant();
  if (callable == torch::body_input()) return operation(recorder, callable, given);
  if (callable == torch::end_body()) return end_of_body(recorder, given);
  if (callable == torch::take_bodies()) return taken_bodies(recorder, given);
  if (given.objects.size() != 1) return plan_break(Break::kUnknownCall, callable_name(callable));
  recorder.begin_body(given.objects[0]);
  return plan_constant();
}

// In the graph it is told the last argument alone.
Plan mark(Recorder& recorder, PyObject* callable, const Given& given) {
  if (torch::is_of_body(callable)) return mark_of_body(recorder, callable, given);
  if (callable == torch::follows_checkpoint()) return plan_constant();  // whether it did is part of what is recorded
  if (given.keyword_names || given.labels.empty()) return plan_break(Break::kUnknownCall, callable_name(callable));
  Plan plan = operation(recorder, callable, {{given.labels.back()}, {given.objects.back()}, nullptr});
  plan.of_torch = false;
  return plan;
}

// torch._C._set_grad_enabled(True), where gradients are recorded.
bool sets_what_holds(Recorder& recorder, const Given& given) {
  const bool plain = given.labels.size() == 1 && !given.keyword_names && PyBool_Check(given.objects[0]) && recorder.known(given.labels[0], given.objects[0]);
  return plain && torch::records_gradients() == (given.objects[0] == Py_True);
}

// x.item() and float(x) of a tensor of floats: a number that the graph has, as any other Python computes with.
std::optional<Plan> number_of(Recorder& recorder, PyObject* callable, const Given& given) {
  const bool asks = callable == reinterpret_cast<PyObject*>(&PyFloat_Type) || callable_name(callable).ends_with(".item");
  if (!asks || given.labels.size() != 1 || given.keyword_names || !torch::is_tensor(given.objects[0]) || !torch::is_of_floats(given.objects[0])) return std::nullopt;
  Plan plan = operation(recorder, callable, given);
  plan.of_torch = false;
  plan.of_numbers = true;
  return plan.kind == Plan::Kind::kNode ? std::optional(std::move(plan)) : std::nullopt;
}

// The argument of that name, or at that place; null: it isn't given.
PyObject* argument_named(const Given& given, const char* name, size_t place) {
  const size_t positional = given.objects.size() - static_cast<size_t>(given.keywords());
  if (place < positional) return given.objects[place];
  for (size_t i = 0; positional + i < given.objects.size(); i++) {
    if (is_named(PyTuple_GET_ITEM(given.keyword_names.get(), static_cast<Py_ssize_t>(i)), name)) return given.objects[positional + i];
  }
  return nullptr;
}

// x.repeat_interleave(2), whose sizes follow from the number, and F.one_hot(x, 10), which looks at the elements, too: the recorded calls run it.
std::optional<Plan> sized_by_number(Recorder& recorder, PyObject* callable, const Given& given) {
  const std::string name = callable_name(callable);
  const bool repeats = name.ends_with("repeat_interleave"), one_hot = name.ends_with("one_hot");
  if (given.objects.empty() || !torch::is_tensor(given.objects[0]) || (!repeats && !one_hot)) return std::nullopt;
  PyObject* const number = argument_named(given, repeats ? "repeats" : "num_classes", 1);
  if (!number || !PyLong_CheckExact(number) || (one_hot && PyLong_AsLong(number) <= 0)) return PyErr_Clear(), std::nullopt;
  return operation(recorder, callable, given);
}

// abs(x) and the like, and operator.add: operations of tensors. float(x), and max(x, y), which compares: values.
std::optional<Plan> builtin_call(Recorder& recorder, PyObject* callable, const Given& given) {
  if (numpy::call_kind(callable) != numpy::CallKind::kPure) return std::nullopt;
  const auto has_tensor = [](PyObject* object) {
    if (!PyTuple_CheckExact(object) && !PyList_CheckExact(object)) return torch::is_tensor(object);
    PyObject** const items = PySequence_Fast_ITEMS(object);
    return std::any_of(items, items + PySequence_Fast_GET_SIZE(object), torch::is_tensor);
  };
  if (std::none_of(given.objects.begin(), given.objects.end(), has_tensor)) return std::nullopt;
  if (PyType_Check(callable) && (callable == reinterpret_cast<PyObject*>(&PyTuple_Type) || callable == reinterpret_cast<PyObject*>(&PySlice_Type))) return std::nullopt;
  if (std::optional<Plan> plan = number_of(recorder, callable, given)) return recorder.depends_on_torch(), std::move(plan);
  if (!torch::is_builtin_operation(callable)) return plan_break(Break::kTensorValue, callable_name(callable));
  recorder.depends_on_torch();
  return operation(recorder, callable, given);
}

// Which transformations there are is known from here on, as the guards ask for what there was.
Plan transform(Recorder& recorder, PyObject* callable, const Given& given) {
  recorder.depends_on_transforms();
  Plan plan = operation(recorder, callable, given);
  plan.of_torch = false;
  plan.follows = true;
  return plan;
}

// Of what a transformation has wrapped: the tensor outside isn't changed.
Plan tracks(Recorder& recorder, PyObject* callable, const Given& given) {
  const bool wrapped = given.labels.size() == 1 && torch::is_tensor(given.objects[0]) && torch::is_wrapped(given.objects[0]) && recorder.looks_at_transforms();
  if (!wrapped) return plan_break(Break::kUnknownCall, callable_name(callable));
  Plan plan = operation(recorder, callable, given);
  plan.of_torch = false;
  plan.label = given.labels[0];
  return plan;
}

// _unwrap_for_grad(x, level) of a tensor that the transformation of this level hasn't wrapped.
bool leaves_as_it_is(Recorder& recorder, PyObject* callable, const Given& given) {
  const bool fits = !given.keyword_names && given.labels.size() == 2 && torch::is_tensor(given.objects[0]) && PyLong_CheckExact(given.objects[1]);
  if (!fits || !callable_name(callable).ends_with("_unwrap_for_grad") || !recorder.known(given.labels[1], given.objects[1])) return false;
  return recorder.operand(given.labels[0], given.objects[0]) && torch::level_of(given.objects[0]) != PyLong_AsLongLong(given.objects[1]);
}

constexpr std::pair<std::string_view, const char*> kConversions[] = {{"float", "float32"}, {"double", "float64"}, {"half", "float16"}, {"bfloat16", "bfloat16"}, {"int", "int32"}, {"long", "int64"}, {"bool", "bool"}};

// Whether the method gives tensors of this dtype back.
bool converts_to(std::string_view method, const Given& given, PyObject* dtype) {
  if (method == "to") return given.objects.size() == 2 && given.objects[1] == dtype;
  const auto conversion = std::ranges::find(kConversions, method, [](const auto& row) { return row.first; });
  return conversion != std::end(kConversions) && given.objects.size() == 1 && torch::attribute_of("torch", conversion->second).get() == dtype;
}

// torch.as_tensor(x, dtype=..., device=...): whether x has these already.
bool is_as_asked(Recorder& recorder, const Given& given) {
  for (size_t i = 1; i < given.objects.size(); i++) {
    const auto named = static_cast<Py_ssize_t>(i) - static_cast<Py_ssize_t>(given.objects.size()) + given.keywords();
    const std::string_view name = named >= 0 ? utf8(PyTuple_GET_ITEM(given.keyword_names.get(), named)) : i == 1 ? "dtype" : "device";
    const Ref own = name == "dtype" || name == "device" ? torch::attribute(given.objects[0], name == "dtype" ? "dtype" : "device") : Ref();
    const bool same = own && (given.objects[i] == Py_None || PyObject_RichCompareBool(own.get(), given.objects[i], Py_EQ) > 0);
    if (PyErr_Occurred()) PyErr_Clear();
    if (!same || !(recorder.known(given.labels[i], given.objects[i]) || fixes_object(recorder, given.labels[i], given.objects[i]))) return false;
  }
  return true;
}

// x.contiguous() of one from outside that is, and x.to(dtype) of one of that dtype: torch gives the tensor itself, by what the guards ask of it. Of one that
// the graph has made a backend may have its own idea.
bool is_given_back(Recorder& recorder, PyObject* callable, const Given& given) {
  const bool fits = !given.objects.empty() && torch::is_tensor(given.objects[0]) && recorder.value(given.labels[0]).kind == Value::Kind::kSource;
  if (!fits || !torch::is_plain(given.objects[0]) || !recorder.operand(given.labels[0], given.objects[0])) return false;
  const std::string name = callable_name(callable), method = name.substr(name.rfind('.') + 1);
  if (method == "as_tensor") return is_as_asked(recorder, given);
  if (given.keyword_names) return false;
  if (method == "contiguous") {
    if (given.objects.size() != 1 || !is_fixed(recorder, CallKind::kLayout, given.labels[0], given.objects[0])) return false;
    return Ref::steal(PyObject_CallMethod(given.objects[0], "is_contiguous", nullptr)).get() == Py_True;
  }
  const Ref dtype = torch::attribute(given.objects[0], "dtype");
  return dtype && converts_to(method, given, dtype.get()) && (given.objects.size() == 1 || fixes_object(recorder, given.labels[1], given.objects[1]));
}

// x.requires_grad_() of one that requires gradients already, or the same of False, which the guards ask for.
bool requires_gradients_already(Recorder& recorder, PyObject* callable, const Given& given) {
  const bool asks = callable_name(callable).ends_with("requires_grad_") && !given.keyword_names && (given.labels.size() == 1 || given.labels.size() == 2);
  if (!asks || !torch::is_tensor(given.objects[0]) || !recorder.operand(given.labels[0], given.objects[0])) return false;
  PyObject* const wanted = given.objects.size() == 2 ? given.objects[1] : Py_True;
  const Ref requires_grad = Ref::steal(PyObject_GetAttrString(given.objects[0], "requires_grad"));
  if (!requires_grad) PyErr_Clear();
  return PyBool_Check(wanted) && requires_grad.get() == wanted && (given.objects.size() == 1 || recorder.known(given.labels[1], wanted));
}

bool picks_by_elements(PyObject* key, int depth = 0) {
  if (depth > kMostNesting) return true;
  if (torch::is_tensor(key)) return torch::is_mask(key);
  // x[:n], of a tensor without dimensions: it is asked for its element.
  if (PySlice_Check(key)) {
    const auto* const slice = reinterpret_cast<PySliceObject*>(key);
    return torch::is_tensor(slice->start) || torch::is_tensor(slice->stop) || torch::is_tensor(slice->step);
  }
  if (PyTuple_CheckExact(key) || PyList_CheckExact(key)) {
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(key); i++) {
      if (picks_by_elements(PySequence_Fast_GET_ITEM(key, i), depth + 1)) return true;
    }
  }
  return false;
}

// A tensor without dimensions, which torch takes for a number where it wants one: a size, a length, a dimension.
bool may_be_number(PyObject* tensor) {
  const Ref rank = torch::is_plain(tensor) ? Ref::steal(PyObject_GetAttrString(tensor, "ndim")) : Ref();
  if (!rank) return PyErr_Clear(), false;
  return PyLong_Check(rank.get()) && PyLong_AsLong(rank.get()) == 0;
}

template <class Is>
bool has_tensor_that(PyObject* object, Is is, int depth = 0) {
  if (depth > kMostNesting) return true;
  if (torch::is_tensor(object)) return is(object);
  if (!PyTuple_CheckExact(object) && !PyList_CheckExact(object)) return false;
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(object); i++) {
    if (has_tensor_that(PySequence_Fast_GET_ITEM(object, i), is, depth + 1)) return true;
  }
  return false;
}

// Whether what the operation gives has sizes that only elements tell: torch.zeros(n), x.narrow(0, 0, n). Floats count for those functions alone
// that go by them, and of what vmap maps nothing can be asked for its element.
bool is_sized_by_elements(PyObject* callable, const Given& given) {
  const auto any = [&](auto is) { return std::any_of(given.objects.begin(), given.objects.end(), [&](PyObject* object) { return has_tensor_that(object, is); }); };
  if (!any(may_be_number)) return false;
  const std::string name = callable_name(callable);
  const bool counts_by_floats = name.find("range") != std::string::npos || name.find("space") != std::string::npos;
  if (!counts_by_floats && !any([](PyObject* tensor) { return may_be_number(tensor) && !torch::is_of_floats(tensor); })) return false;
  return any(torch::is_wrapped) || !torch::results_follow(callable, given.objects, given.keyword_names.get());
}

}  // namespace

std::optional<Plan> torch_call(Recorder& recorder, uint32_t label, PyObject* callable, const Given& given) {
  if (!torch::is_watched()) return std::nullopt;
  // torch.device("cpu"), torch.finfo(dtype).
  if (PyType_Check(callable) && torch::is_immutable_type(callable)) {
    for (size_t i = 0; i < given.labels.size(); i++) {
      if (!fixes_metadata(recorder, given.labels[i], given.objects[i], false)) return plan_break(Break::kUnknownCall, callable_name(callable));
    }
    return fixes_object(recorder, label, callable) ? std::optional<Plan>(plan_constant()) : std::nullopt;
  }
  if (torch::is_inference_mode(callable)) return new_inference_mode(recorder, label, callable, given);
  if (std::optional<Plan> plan = builtin_call(recorder, callable, given)) return plan;
  if (!torch::is_torchs(callable)) return std::nullopt;
  if (!fixes_object(recorder, label, callable)) return plan_break(Break::kUnknownCall, callable_name(callable));
  recorder.depends_on_torch();
  if (torch::is_of_attention(callable)) recorder.depends_on_kernels();
  switch (torch::call_kind(callable)) {
    case CallKind::kFact: return fact(recorder, callable, given);
    case CallKind::kLayout: case CallKind::kSize: return size(recorder, torch::call_kind(callable), callable, given);
    case CallKind::kOperation:
      if (std::optional<Plan> plan = operation_alone(recorder, callable, given)) return plan;
      if (leaves_as_it_is(recorder, callable, given) || is_given_back(recorder, callable, given)) return plan_value(given.labels[0]);
      if (is_sized_by_elements(callable, given)) return plan_break(Break::kTensorValue, callable_name(callable) + ", with a tensor where it takes a number");
      if (has_array(given)) return plan_break(Break::kUnknownCall, callable_name(callable) + " with an array");
      return operation(recorder, callable, given);
    case CallKind::kDescribed:
      if (!torch::results_follow(callable, given.objects, given.keyword_names.get())) return plan_break(Break::kTensorValue, callable_name(callable) + ", an operator whose results aren't known to follow from its arguments' metadata");
      return operation(recorder, callable, given);
    case CallKind::kNoted: {
      Plan plan = operation(recorder, callable, given);
      plan.of_torch = false;
      return plan;
    }
    case CallKind::kState:
      return sets_what_holds(recorder, given) ? plan_constant() : operation(recorder, callable, given);
    case CallKind::kMode:
      recorder.keep_torch_modes();
      return operation(recorder, callable, given);
    case CallKind::kNesting: {
      recorder.keep_torch_modes();
      Plan plan = operation(recorder, callable, given);
      plan.of_torch = false;
      plan.stays = true;
      return plan;
    }
    case CallKind::kAsked: return asked(recorder, callable, given);
    case CallKind::kItself:
      if (given.labels.size() == 1 && torch::is_tensor(given.objects[0]) && recorder.operand(given.labels[0], given.objects[0])) return plan_value(given.labels[0]);
      break;
    case CallKind::kMark: return mark(recorder, callable, given);
    case CallKind::kTransform: return transform(recorder, callable, given);
    case CallKind::kTransformState:
      if (callable_name(callable).ends_with("_are_functorch_transforms_active") && !recorder.looks_at_transforms()) return asked(recorder, callable, given);
      recorder.depends_on_transforms();
      return given.objects.empty() ? plan_constant() : plan_break(Break::kUnknownCall, callable_name(callable));
    case CallKind::kTracks: return tracks(recorder, callable, given);
    case CallKind::kValue:
      if (std::optional<Plan> plan = number_of(recorder, callable, given)) return *std::move(plan);
      if (std::optional<Plan> plan = sized_by_number(recorder, callable, given)) return *std::move(plan);
      return plan_break(Break::kTensorValue, callable_name(callable));
    case CallKind::kUnknown: if (requires_gradients_already(recorder, callable, given)) return plan_value(given.labels[0]); break;
  }
  return plan_break(Break::kUnknownCall, callable_name(callable));
}

std::optional<Plan> method_of_inference_mode(Recorder& recorder, const Asked& asked) {
  PyObject* const method = torch::method_of_inference_mode(asked.object, asked.name);
  if (!method || !torch::is_torchs(method)) return std::nullopt;
  return plan_value(recorder.made(reinterpret_cast<PyObject*>(&PyMethod_Type), nullptr, {recorder.constant(method), asked.label}));
}

std::string tensor_obstacle(const Recorder& recorder, const Plan& plan, PyObject* result) {
  if (torch::is_tensor(result)) return torch::is_plain(result) || (recorder.looks_at_transforms() && torch::is_wrapped(result)) ? "" : "a tensor that isn't dense";
  if (result == Py_None || torch::is_return_type(result)) return "";
  if (PyTuple_CheckExact(result) || PyList_CheckExact(result)) {
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(result); i++) {
      if (std::string inner = tensor_obstacle(recorder, plan, PySequence_Fast_GET_ITEM(result, i)); !inner.empty()) return inner;
    }
    return "";
  }
  return (plan.callable ? callable_name(plan.callable.get()) + ", which gives " : std::string()) + type_name(result);
}

// What an operation in place, or one with `out`, gives is what it has written into: the input of this number; -1: it is none.
static int32_t input_given_back(Recorder& recorder, int32_t node, PyObject* result) {
  const Recording& recording = recorder.recorded();
  const graph::Node& made = recording.graph.nodes[static_cast<size_t>(node)];
  PyObject* const names = made.keywords ? recording.graph.constants[static_cast<size_t>(made.keyword_names)].get() : nullptr;
  static PyObject* const out = PyUnicode_InternFromString("out");
  const bool writes = made.form == Form::kCall && (torch::is_in_place(recording.graph.constants[static_cast<size_t>(made.callable)].get()) || (names && PySequence_Contains(names, out) > 0));
  const Operand* const operands = recording.graph.operands_of(made);
  const auto is_result = [&](Operand operand) {
    const auto at = static_cast<size_t>(operand.index);
    return operand.space == Operand::Space::kInput && at < recording.examples.size() && recording.examples[at].get() == result;
  };
  const Operand* const found = writes ? std::find_if(operands, operands + made.count, is_result) : operands + made.count;
  return found == operands + made.count ? -1 : found->index;
}

uint32_t tensor_result(Recorder& recorder, int32_t node, PyObject* result) {
  if (const int32_t input = input_given_back(recorder, node, result); input >= 0) return recorder.source_value(recorder.recorded().input_sources[static_cast<size_t>(input)]);
  if (result == Py_None) return recorder.constant(Py_None);
  if (PyTuple_CheckExact(result) || PyList_CheckExact(result)) return parts_of_result(recorder, node, result);
  if (torch::is_return_type(result)) return recorder.made(Py_TYPE(result), nullptr, {parts_of_result(recorder, node, result)});
  return recorder.node_value(node, false);
}

std::optional<Plan> tensor_operation(Recorder& recorder, Form form, uint8_t code, std::initializer_list<Operated> operands) {
  if (!torch::is_watched()) return std::nullopt;
  if (std::none_of(operands.begin(), operands.end(), [](const Operated& operand) { return torch::is_tensor(operand.object); })) return std::nullopt;
  // `rows += tensor` is the list's own doing: a graph would extend a list of its own.
  const bool changes_list = form == Form::kBinary && code >= bytecode::kBinaryOps && PyList_CheckExact(operands.begin()->object);
  if (changes_list) return plan_break(Break::kUnknownObject, "a list changed by a tensor");
  recorder.depends_on_torch();
  Plan plan;
  plan.kind = Plan::Kind::kNode;
  plan.form = form;
  plan.code = code;
  for (const Operated& operand : operands) {
    plan.operands.push_back(numpy::is_array(operand.object) ? Operand{} : operand_of(recorder, operand.label, operand.object));
    if (!plan.operands.back()) return plan_break(Break::kUnknownObject, "tensor operator with " + type_name(operand.object));
  }
  return plan;
}

std::optional<Plan> item_of_tensor(Recorder& recorder, const Operated& container, const Operated& key) {
  if (const Value* const parts = parts_of_results(recorder, container.label, container.object)) {
    const Py_ssize_t at = PyLong_CheckExact(key.object) && recorder.known(key.label, key.object) ? PyLong_AsSsize_t(key.object) : PY_SSIZE_T_MAX;
    const auto count = static_cast<Py_ssize_t>(recorder.elements(*parts).size());
    if (PyErr_Occurred() || at < -count || at >= count) return PyErr_Clear(), plan_break(Break::kUnknownObject, "subscript of " + type_name(container.object));
    return plan_value(recorder.elements(*parts)[static_cast<size_t>(at < 0 ? at + count : at)]);
  }
  if (!torch::is_tensor(container.object)) return std::nullopt;
  if (picks_by_elements(key.object)) return plan_break(Break::kTensorValue, "a mask, or a tensor as a bound, in a subscript");
  return tensor_operation(recorder, Form::kGetItem, 0, {container, key});
}

std::optional<std::vector<uint32_t>> parts_of_tensors(const Recorder& recorder, uint32_t label, PyObject* object) {
  const Value* const parts = parts_of_results(recorder, label, object);
  return parts ? std::optional(recorder.copied_elements(*parts)) : std::nullopt;
}

std::optional<Plan> attribute_of_results(Recorder& recorder, const Asked& asked) {
  const Value* const parts = parts_of_results(recorder, asked.label, asked.object);
  PyObject* const field = parts ? _PyType_Lookup(Py_TYPE(asked.object), asked.name) : nullptr;
  if (!field || !Py_IS_TYPE(field, &PyMemberDescr_Type)) return std::nullopt;
  const Ref found = Ref::steal(PyObject_GetAttr(asked.object, asked.name));
  for (Py_ssize_t i = 0; found && i < PyTuple_GET_SIZE(asked.object); i++) {
    if (PyTuple_GET_ITEM(asked.object, i) == found.get()) return plan_value(recorder.elements(*parts)[static_cast<size_t>(i)]);
  }
  return PyErr_Clear(), std::nullopt;
}

bool is_made_in_each_run(Recorder& recorder, const Operated& tensor) {
  const std::vector<Ref>& inputs = recorder.recording().examples;
  const bool all_known = inputs.size() == recorder.recording().graph.inputs.size();
  const bool given = !all_known || std::any_of(inputs.begin(), inputs.end(), [&](const Ref& input) { return input.get() == tensor.object; });
  return !given && recorder.value(tensor.label).kind == Value::Kind::kNode;
}

namespace {

// Whether the tensor has no attribute of this name in any run. What an operation has made is new, as long as it is none of the inputs.
bool lacks_in_every_run(Recorder& recorder, const Asked& asked) {
  const auto [label, object, name] = asked;
  const Value value = recorder.value(label);
  const bool plain = Py_TYPE(object)->tp_getattro == PyObject_GenericGetAttr && cpython::lacks_attribute(object, name);
  if (!plain || !recorder.fix_class(reinterpret_cast<PyObject*>(Py_TYPE(object)))) return false;
  if (value.kind == Value::Kind::kSource) return recorder.guards().require_lacks(value.a, name), true;
  return is_made_in_each_run(recorder, {label, object});
}

// Of a parameter from outside, which is a leaf: others warn. Nothing that is recorded gives it another one but a store of None: `backward()` is a break.
bool is_gradient_of_parameter(const Recorder& recorder, const Asked& asked) {
  const bool from_outside = recorder.value(asked.label).kind == Value::Kind::kSource && torch::is_parameter_type(reinterpret_cast<PyObject*>(Py_TYPE(asked.object)));
  return from_outside && PyUnicode_CompareWithASCIIString(asked.name, "grad") == 0;
}

// Of a tensor that requires no gradient, as the guards say: it is a leaf, and nothing has made it.
bool follows_from_no_gradient(const Asked& asked) {
  const bool asks = PyUnicode_CompareWithASCIIString(asked.name, "grad_fn") == 0 || PyUnicode_CompareWithASCIIString(asked.name, "is_leaf") == 0;
  return asks && torch::is_plain(asked.object) && torch::attribute(asked.object, "requires_grad").get() == Py_False;
}

}  // namespace

Plan attribute_of_tensor(Recorder& recorder, const Asked& asked) {
  const auto [label, object, name] = asked;
  const auto unknown = [&] { return plan_break(Break::kAttribute, "of a tensor"); };
  const Operand tensor = recorder.operand(label, object);
  if (!tensor) return plan_break(Break::kUnknownObject, "a tensor that isn't dense");
  recorder.depends_on_torch();
  if (is_gradient_of_parameter(recorder, asked)) {
    const uint32_t stored = recorder.stored_attribute(label, object, name);
    return plan_value(stored ? stored : attribute_source(recorder, recorder.value(label).a, name));
  }
  if (follows_from_no_gradient(asked)) return plan_constant();
  PyObject* const found = _PyType_Lookup(Py_TYPE(object), name);
  if (!found && lacks_in_every_run(recorder, asked)) return plan_raise();
  const CallKind kind = torch::attribute_kind(name);
  switch (kind) {
    case CallKind::kFact: case CallKind::kLayout: case CallKind::kSize: if (is_fixed(recorder, kind, label, object)) return plan_constant(); [[fallthrough]];
    case CallKind::kOperation: {
      Plan plan;
      plan.of_shapes = plan.of_numbers = kind != CallKind::kOperation;
      plan.kind = Plan::Kind::kNode;
      plan.form = Form::kGetAttr;
      plan.callable = name;
      plan.operands = {tensor};
      return plan;
    }
    case CallKind::kDescribed: case CallKind::kNoted: case CallKind::kState: case CallKind::kMode: case CallKind::kNesting: case CallKind::kMark: case CallKind::kValue: case CallKind::kAsked: case CallKind::kItself: case CallKind::kTransform: case CallKind::kTransformState: case CallKind::kTracks: case CallKind::kUnknown: break;
  }
  // x.relu, to be called later.
  if (!found || !torch::is_torchs(found)) return unknown();
  if (PyFunction_Check(found)) return plan_value(recorder.made(reinterpret_cast<PyObject*>(&PyMethod_Type), nullptr, {recorder.constant(found), label}));
  return plan_value(recorder.made(builtin_getattr(), nullptr, {label, recorder.constant(name)}));
}

// parameter.grad = None, as zero_grad() does: put off, as stores into other objects are.
Plan store_into_tensor(Recorder& recorder, const Asked& asked, const Operated& value) {
  constexpr size_t kMostStores = 512;  // each is told apart from each
  const auto [label, object, name] = asked;
  const bool clears = value.object == Py_None && is_gradient_of_parameter(recorder, asked) && recorder.recorded().names.size() < kMostStores;
  const Ref old = clears && recorder.operand(label, object) ? Ref::steal(PyObject_GetAttr(object, name)) : Ref();
  if (!old) return PyErr_Clear(), plan_break(Break::kStore, "attribute of " + type_name(object));
  if (!recorder.known(value.label, value.object) || recorder.tells_if_dropped_outside(old.get())) return plan_break(Break::kStore, "attribute of " + type_name(object));
  if (!recorder.may_put_off()) return plan_break(Break::kStore, "an object with a finaliser was dropped");
  recorder.depends_on_torch();
  recorder.stored_attribute(label, object, name);  // asks for its guards
  Plan plan;
  plan.stored_into = Ref::borrow(object), plan.stored_name = Ref::borrow(name), plan.stored_value = value.label, plan.stored_owner = label;
  return plan;
}

}  // namespace evalframe::recorder
