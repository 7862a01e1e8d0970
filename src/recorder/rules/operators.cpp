// Rules for arithmetic, comparison and subscripts.
#include <optional>

#include "cpython/dict_keys.h"
#include "cpython/intrinsics.h"
#include "cpython/objects.h"
#include "frontends/numpy/calls.h"
#include "frontends/torch/tensors.h"
#include "recorder/rules/rows.h"
#include "recorder/rules/rules.h"

namespace evalframe::recorder {

namespace {

using graph::Form;
using graph::Operand;

void value_after(const Site& site, const Plan& plan) {
  const int slot = site.frame.depth() - 1;
  uint32_t label = 0;
  int32_t node = -1;
  if (plan.kind == Plan::Kind::kNode) {
    node = site.recorder.add_node(plan, site.frame.slot(slot));
    label = site.recorder.node_value(node, plan.of_shapes, plan.of_numbers);
  } else {
    label = plan.kind == Plan::Kind::kConstant ? site.recorder.constant(site.frame.slot(slot)) : plan.label;
  }
  for (int i = slot + 1; i < site.depth; i++) site.recorder.set_label(i, 0);
  site.recorder.set_label(slot, label);
  if (plan.check_result) site.recorder.check_result(site.frame, node);
}

// An operation on arrays, NumPy scalars and numbers is a node; on things known here, a constant.
Plan operation(const Site& site, Form form, uint8_t code, std::initializer_list<Operated> inputs) {
  Recorder& recorder = site.recorder;
  bool in_graph = false, all_known = true;
  for (const Operated& input : inputs) in_graph = in_graph || recorder.is_graph_value(input.label, input.object);
  // Arithmetic on a float argument, or an int that changes, stays in the graph.
  for (const Operated& input : inputs) in_graph = in_graph || recorder.is_input_number(input.label, input.object);
  if (!in_graph) {
    for (const Operated& input : inputs) all_known = all_known && recorder.known(input.label, input.object);
    return all_known ? plan_constant() : plan_break(Break::kUnknownObject, type_name(inputs.begin()->object));
  }
  Plan plan;
  plan.form = form;
  plan.code = code;
  const std::span<const Operated> operands(inputs.begin(), inputs.size());
  if (PyObject* const unknown = fill_node(recorder, plan, operands)) return plan_break(Break::kUnknownObject, type_name(unknown));
  tell_numbers(recorder, plan, operands);
  return plan;
}

bool is_replayed(const Site& site, int from_top) { return site.recorder.value_at(site.depth - from_top).kind == Value::Kind::kReplayed; }

constexpr int kAdd = 0, kMultiply = 5, kRemainder = 6, kOr = 7, kInplaceAdd = 13, kInplaceOr = 20;  // NB_ADD, NB_MULTIPLY, NB_OR, NB_INPLACE_ADD, NB_INPLACE_OR

// [a] + [b] of what the recorded code has put together: a new one of both.
Plan joined_lists(const Site& site) {
  Recorder& recorder = site.recorder;
  std::vector<uint32_t> both = recorder.copied_elements(recorder.value(at(site, 2).label));
  const std::span<const uint32_t> more = recorder.elements(recorder.value(at(site, 1).label));
  both.insert(both.end(), more.begin(), more.end());
  return plan_value(recorder.container(Value::Kind::kList, std::move(both)));
}

// (a, b) + (c,): a new one of both, or the one of them, if the other is empty (tupleconcat() in Objects/tupleobject.c).
std::optional<Plan> joined_tuples(const Site& site) {
  Recorder& recorder = site.recorder;
  const Operated left = at(site, 2), right = at(site, 1);
  const Value::Kind kinds[] = {recorder.value(left.label).kind, recorder.value(right.label).kind};
  const auto is_of_parts = [](Value::Kind kind) { return kind == Value::Kind::kTuple || kind == Value::Kind::kConstant || kind == Value::Kind::kSource; };
  if (!PyTuple_CheckExact(left.object) || !PyTuple_CheckExact(right.object) || !std::all_of(std::begin(kinds), std::end(kinds), is_of_parts)) return std::nullopt;
  if (kinds[0] == Value::Kind::kConstant && kinds[1] == Value::Kind::kConstant) return std::nullopt;
  std::optional<std::vector<uint32_t>> both = parts_of(recorder, left.label, left.object);
  const std::optional<std::vector<uint32_t>> more = both ? parts_of(recorder, right.label, right.object) : std::nullopt;
  if (!more) return std::nullopt;
  if (both->empty()) return plan_value(right.label);
  if (more->empty()) return plan_value(left.label);
  both->insert(both->end(), more->begin(), more->end());
  return plan_value(recorder.container(Value::Kind::kTuple, *std::move(both)));
}

// [None] * 3 or 3 * [None], of a number that is known. Once a tuple is the tuple itself, and less often none that is made here.
Plan repeated(const Site& site, const Operated& row, const Operated& times) {
  Recorder& recorder = site.recorder;
  constexpr Py_ssize_t kMost = 256;
  const Value& of = recorder.value(row.label);
  const std::vector<uint32_t> once = recorder.copied_elements(of);
  const bool known = PyLong_CheckExact(times.object) && recorder.known(times.label, times.object);
  const Py_ssize_t count = known ? PyLong_AsSsize_t(times.object) : 0;
  if (PyErr_Occurred()) return PyErr_Clear(), plan_break(Break::kUnknownObject, "repeated list");
  if (!known || (count < 2 && of.kind != Value::Kind::kList) || count > kMost / std::max<Py_ssize_t>(std::ssize(once), 1)) return plan_break(Break::kUnknownObject, "repeated list");
  std::vector<uint32_t> all;
  for (Py_ssize_t i = 0; i < count; i++) all.insert(all.end(), once.begin(), once.end());
  return plan_value(recorder.container(of.kind, std::move(all)));
}

// What it is added to is asked before a list or a deque is extended: an array, a number of NumPy's.
bool may_be_added(PyObject* object) {
  const PyNumberMethods* const methods = Py_TYPE(object)->tp_as_number;
  return methods && methods->nb_add;
}

// The usual operands, of types that no rule but `operation` is for.
bool are_numbers_or_arrays(const Site& site) { return is_number_or_array(at(site, 2).object) && is_number_or_array(at(site, 1).object); }

Plan binary_op(const Site& site) {
  if (std::optional<Plan> plan = tensor_operation(site.recorder, Form::kBinary, static_cast<uint8_t>(site.instruction.arg), {at(site, 2), at(site, 1)})) return *std::move(plan);
  if (are_numbers_or_arrays(site)) return operation(site, Form::kBinary, static_cast<uint8_t>(site.instruction.arg), {at(site, 2), at(site, 1)});
  if (std::optional<Plan> plan = decimal_operator(site)) return *std::move(plan);
  const Value::Kind left = site.recorder.value(at(site, 2).label).kind, right = site.recorder.value(at(site, 1).label).kind;
  const bool made = left == Value::Kind::kTuple || left == Value::Kind::kList;
  if (site.instruction.arg == kAdd && left == right && left == Value::Kind::kList) return joined_lists(site);
  if (site.instruction.arg == kAdd || site.instruction.arg == kInplaceAdd) {
    if (std::optional<Plan> plan = joined_tuples(site)) return *std::move(plan);
  }
  const bool extends = site.instruction.arg == kInplaceAdd && !may_be_added(at(site, 1).object);
  const bool list = left == Value::Kind::kList || (left == Value::Kind::kSource && PyList_CheckExact(at(site, 2).object));
  if (extends && left == Value::Kind::kDeque) return extended_deque(site, at(site, 2), at(site, 1));
  if (extends && list) return extended(site.recorder, at(site, 2), at(site, 1));
  if (site.instruction.arg == kMultiply && made && PyLong_CheckExact(at(site, 1).object)) return repeated(site, at(site, 2), at(site, 1));
  const bool made_right = right == Value::Kind::kTuple || right == Value::Kind::kList;
  if (site.instruction.arg == kMultiply && made_right && PyLong_CheckExact(at(site, 2).object)) return repeated(site, at(site, 1), at(site, 2));
  if (std::optional<Plan> plan = replayed_operator(site, site.instruction.arg)) return *std::move(plan);
  const bool text = PyUnicode_CheckExact(at(site, 2).object) || PyBytes_CheckExact(at(site, 2).object);
  if (site.instruction.arg == kRemainder && PyUnicode_CheckExact(at(site, 2).object)) {
    if (std::optional<Plan> plan = format_of_attributes(site.recorder, at(site, 2), at(site, 1))) return *std::move(plan);
  }
  const bool looks_up_plainly = !adds_missing_keys(site.recorder, at(site, 1).label);
  if (site.instruction.arg == kRemainder && text && looks_up_plainly && all_known_through(site, site.depth - 2, 2)) return plan_constant();
  const auto is_dict = [&](const Operated& input) {
    const bool mapping = site.recorder.value(input.label).kind == Value::Kind::kMapping && is_written_in_c(Py_TYPE(input.object));
    return mapping || PyDict_CheckExact(input.object);
  };
  const bool dicts = is_dict(at(site, 2)) && is_dict(at(site, 1));
  if (site.instruction.arg == kOr) {
    if (std::optional<Plan> plan = union_of_types(site.recorder, at(site, 2), at(site, 1))) return *std::move(plan);
  }
  if (dicts && (site.instruction.arg == kOr || site.instruction.arg == kInplaceOr)) {
    return dict_union(site.recorder, at(site, 2), at(site, 1), site.instruction.arg == kInplaceOr);
  }
  if (std::optional<Plan> plan = operator_call(site, at(site, 2), at(site, 1))) return *std::move(plan);
  return operation(site, Form::kBinary, static_cast<uint8_t>(site.instruction.arg), {at(site, 2), at(site, 1)});
}
// 3.13 may ask for the truth in the same instruction.
bool asks_for_truth(const Site& site) { return site.instruction.arg2 > 0 && (site.instruction.arg2 & 16); }
// Functions, modules and the like.
bool is_compared_by_place(Recorder& recorder, const Operated& one) {
  const bool is_one = is_written_in_c(Py_TYPE(one.object)) && !PyType_Check(one.object) && compares_by_identity(Py_TYPE(one.object));
  return is_one && fixes_type(recorder, one.label, one.object);
}

Plan compare_op(const Site& site) {
  if (std::optional<Plan> plan = tensor_operation(site.recorder, Form::kCompare, static_cast<uint8_t>(site.instruction.arg), {at(site, 2), at(site, 1)})) {
    return asks_for_truth(site) ? plan_break(Break::kDataBranch, "comparison of tensors") : *std::move(plan);
  }
  const bool of_equality = site.instruction.arg == Py_EQ || site.instruction.arg == Py_NE;
  if (of_equality && never_equal(site.recorder, at(site, 2), at(site, 1))) return plan_constant();
  if (of_equality && is_compared_by_place(site.recorder, at(site, 2)) && is_compared_by_place(site.recorder, at(site, 1)) && fixes_identity(site.recorder, at(site, 2), at(site, 1))) {
    return plan_constant();
  }
  if (of_equality && same_identity(site.recorder, at(site, 2), at(site, 1))) return plan_constant();
  if (are_numbers_or_arrays(site)) return operation(site, Form::kCompare, static_cast<uint8_t>(site.instruction.arg), {at(site, 2), at(site, 1)});
  if (std::optional<Plan> plan = decimal_operator(site)) return *std::move(plan);
  // A shape is compared in the graph, so that the recording serves others, too.
  const auto is_container = [&](const Operated& input) {
    PyObject* const object = input.object;
    const Value::Kind kind = site.recorder.value(input.label).kind;
    const bool is_one = PyList_CheckExact(object) || PyDict_CheckExact(object) || kind == Value::Kind::kMapping || kind == Value::Kind::kDeque || PyAnySet_Check(object) || PyTuple_CheckExact(object);
    return is_one && kind != Value::Kind::kNode;
  };
  const bool containers = is_container(at(site, 2)) && is_container(at(site, 1));
  const bool replayed = is_replayed(site, 2) || is_replayed(site, 1);
  if ((containers || replayed) && all_known_through(site, site.depth - 2, 2)) return plan_constant();
  if (std::optional<Plan> plan = comparison_of_keys(site, at(site, 2), at(site, 1), asks_for_truth(site))) return *std::move(plan);
  if (std::optional<Plan> plan = comparison_call(site, at(site, 2), at(site, 1))) return *std::move(plan);
  if (std::optional<Plan> plan = of_equality ? comparison_of_elements(site, at(site, 2), at(site, 1)) : std::nullopt) return *std::move(plan);
  return operation(site, Form::kCompare, static_cast<uint8_t>(site.instruction.arg), {at(site, 2), at(site, 1)});
}
bool compares_scalars(Recorder& recorder, const Plan& plan) {
  const graph::Graph& graph = recorder.recording().graph;
  for (const Operand& operand : plan.operands) {
    const graph::Meta* meta = graph.meta_of(operand);
    if (meta ? meta->kind == graph::Kind::kNumpyScalar : numpy::is_scalar(graph.constants[operand.index].get())) return true;
  }
  return false;
}
Plan compare_op_checked(const Site& site) {
  Plan plan = compare_op(site);
  // The truth of arrays may raise, and is no fact of their types.
  if (plan.kind != Plan::Kind::kNode || !asks_for_truth(site) || plan.of_shapes || plan.of_numbers) return plan;
  for (const Operated& input : {at(site, 2), at(site, 1)}) {
    if (numpy::is_exact_array(input.object)) return plan_break(Break::kDataBranch, "comparison of arrays");
  }
  return plan;
}
// Of a NumPy scalar the graph has the comparison, and the interpreter the truth of its result.
void compare_op_after(const Site& site, const Plan& plan) {
  Recorder& recorder = site.recorder;
  const int slot = site.depth - 2;
  const bool of_scalars = plan.kind == Plan::Kind::kNode && asks_for_truth(site) && !plan.of_shapes && !plan.of_numbers && compares_scalars(recorder, plan);
  if (!of_scalars) return value_after(site, plan);
  const int32_t node = recorder.add_node(plan, numpy::truth_scalar(site.frame.slot(slot) == Py_True));
  recorder.set_label(site.depth - 1, 0);
  recorder.set_label(slot, recorder.add_value({Value::Kind::kTruth, false, static_cast<int32_t>(recorder.node_value(node, false))}));
}

Plan unary(const Site& site, uint8_t code, const char* method) {
  if (std::optional<Plan> plan = tensor_operation(site.recorder, Form::kUnary, code, {at(site, 1)})) return *std::move(plan);
  if (std::optional<Plan> plan = decimal_unary(site, code)) return *std::move(plan);
  if (std::optional<Plan> plan = unary_call(site, method)) return *std::move(plan);
  return operation(site, Form::kUnary, code, {at(site, 1)});
}
Plan unary_negative(const Site& site) { return unary(site, 0, "__neg__"); }
Plan unary_positive(const Site& site) { return unary(site, 1, "__pos__"); }
Plan unary_invert(const Site& site) { return unary(site, 2, "__invert__"); }

Plan unary_intrinsic(const Site& site) {
  if (site.instruction.arg == cpython::kUnaryPositive) return unary_positive(site);
  if (site.instruction.arg == cpython::kListToTuple) return list_to_tuple(site);
  if (site.instruction.arg == cpython::kAsyncGenWrap && site.recorder.is_resumed()) return plan_break(Break::kYield);
  // Around the body of a generator.
  const uint32_t label = site.recorder.label(site.depth - 1);
  const bool passes = site.recorder.is_exception(label) && !PyErr_GivenExceptionMatches(site.frame.slot(site.depth - 1), PyExc_StopIteration);
  if (site.instruction.arg == cpython::kStopIterationError && passes) return plan_value(label);
  return plan_break(Break::kInstruction, bytecode::name(site.instruction.op));
}

Plan truth(const Site& site) {
  Recorder& recorder = site.recorder;
  const Operated input = at(site, 1);
  if (torch::is_tensor(input.object)) return tests_for_errors(site) && recorder.check_truth_of_tensor(input.label, input.object) ? plan_constant() : plan_break(Break::kDataBranch, type_name(input.object));
  if (recorder.check_truth(input.label, input.object) || recorder.check_truth_in_call(input.label, input.object)) return plan_constant();
  const Value& value = recorder.value(input.label);
  if (is_made_container(value)) return plan_constant();
  // A subclass in C, as OrderedDict is.
  const bool mapping = PyDict_Check(input.object) && is_written_in_c(Py_TYPE(input.object));
  if (value.kind == Value::Kind::kSource && (PyList_CheckExact(input.object) || mapping || PyTuple_CheckExact(input.object) || PySet_CheckExact(input.object))) {
    recorder.guards().require_length(value.a, input.object);
    return plan_constant();
  }
  if (recorder.known(input.label, input.object)) return plan_constant();
  if (std::optional<Plan> plan = truth_of_object(site)) return *std::move(plan);
  if (is_always_true(Py_TYPE(input.object)) && fixes_type(recorder, input.label, input.object)) return plan_constant();
  return plan_break(Break::kDataBranch, type_name(input.object));
}

// The place that the guards know an object by; -1: it is made anew by the recorded code, or computed.
int32_t place_of(Recorder& recorder, const Operated& input) {
  const uint32_t outer = recorder.outer_of(input.label);
  const Value value = recorder.value(outer ? outer : input.label);
  if (value.kind == Value::Kind::kSource) return value.a;
  if (value.kind != Value::Kind::kConstant) return -1;
  guards::Source at{guards::Reach::kObject};
  at.object = Ref::borrow(input.object);
  return recorder.value(recorder.source(std::move(at))).a;
}

// Two objects are the same or not as long as each is what the guards say.
Plan is_op(const Site& site) {
  return fixes_identity(site.recorder, at(site, 2), at(site, 1)) ? plan_constant() : plan_break(Break::kUnknownObject, "identity of a computed value");
}

// Whether all elements with this hash are told apart without code of the program's.
bool is_found_plainly(PyObject* set, PyObject* wanted) {
  const Py_hash_t hash = PyObject_Hash(wanted);
  if (hash == -1) return PyErr_Clear(), false;
  PyObject* element = nullptr;
  Py_hash_t of_element = 0;
  for (Py_ssize_t at = 0; _PySet_NextEntry(set, &at, &element, &of_element);) {
    if (of_element == hash && element != wanted && !is_immutable(element)) return false;
  }
  return true;
}

// type(x) in (Row, Column): classes whose metaclass has no say are equal where they are the same, and hashed by their places.
bool is_plain_type(Recorder& recorder, const Operated& operand) {
  const bool plain = PyType_Check(operand.object) && Py_TYPE(operand.object)->tp_hash == PyType_Type.tp_hash && compares_by_identity(Py_TYPE(operand.object));
  return plain && fixes_object(recorder, operand.label, operand.object) && fixes_metaclass(recorder, operand.object);
}
bool is_class_among_known(Recorder& recorder, const Operated& item, const Operated& container) {
  if (!is_plain_type(recorder, item)) return false;
  if (PyFrozenSet_CheckExact(container.object)) {
    if (recorder.known(container.label, container.object)) return true;
    return is_found_plainly(container.object, item.object) && fixes_object(recorder, container.label, container.object);
  }
  if (!PyTuple_CheckExact(container.object) && !PyList_CheckExact(container.object)) return false;
  const std::optional<std::vector<uint32_t>> parts = parts_of(recorder, container.label, container.object);
  for (size_t i = 0; parts && i < parts->size(); i++) {
    if (!is_plain_type(recorder, {(*parts)[i], PySequence_Fast_GET_ITEM(container.object, static_cast<Py_ssize_t>(i))})) return false;
  }
  return parts.has_value();
}

// kind in (FIRST, SECOND): members of enumerations, and the like.
bool is_among_plain(Recorder& recorder, const Operated& item, const Operated& container) {
  const Value::Kind kind = recorder.value(container.label).kind;
  if (!PyTuple_CheckExact(container.object) && !PyList_CheckExact(container.object)) return false;
  if (kind == Value::Kind::kConstant && is_immutable(container.object)) return compares_plainly(recorder, item.label, item.object);
  if ((kind != Value::Kind::kTuple && kind != Value::Kind::kList) || !compares_plainly(recorder, item.label, item.object)) return false;
  const std::vector<uint32_t> parts = recorder.copied_elements(recorder.value(container.label));
  for (size_t i = 0; i < parts.size(); i++) {
    const Operated part{parts[i], PySequence_Fast_GET_ITEM(container.object, static_cast<Py_ssize_t>(i))};
    if (!compares_plainly(recorder, part.label, part.object)) return false;
    // One of them alone is immutable: they are of two types.
    if (!is_immutable(item.object) && !is_immutable(part.object) && !fixes_identity(recorder, item, part)) return false;
  }
  return true;
}

// Of a set or dict from outside, whose other elements nobody asks about.
bool guards_membership(Recorder& recorder, const Operated& item, const Operated& container) {
  const Value of = recorder.value(container.label);
  if (of.kind != Value::Kind::kSource || recorder.keys_vary(of.a)) return false;
  if (!is_plain_type(recorder, item) && (!is_immutable(item.object) || !recorder.known(item.label, item.object))) return false;
  const bool dict = PyDict_CheckExact(container.object);
  if (!dict && !PySet_CheckExact(container.object)) return false;
  if (dict ? holds_keys_of_classes(container.object, item.object) : !is_found_plainly(container.object, item.object)) return false;
  const int there = PySequence_Contains(container.object, item.object);
  if (there < 0) return PyErr_Clear(), false;
  recorder.guards().require_type(of.a, container.object);
  recorder.guards().require_member(of.a, item.object, there > 0);
  return true;
}

Plan contains_op(const Site& site) {
  const Operated item = at(site, 2), container = at(site, 1);
  if (std::optional<bool> there = has_key(site.recorder, container, item)) return plan_constant();
  // `in {1, 2}`: the compiler has made a constant of it.
  const bool constant_set = PyFrozenSet_CheckExact(container.object) && site.recorder.value(container.label).kind == Value::Kind::kConstant;
  if (site.recorder.known(item.label, item.object) && (constant_set || site.recorder.known(container.label, container.object))) return plan_constant();
  if (all_known_through(site, site.depth - 2, 2)) return plan_constant();
  if (is_class_among_known(site.recorder, item, container) || is_among_plain(site.recorder, item, container)) return plan_constant();
  if (guards_membership(site.recorder, item, container)) return plan_constant();
  if (std::optional<Plan> plan = contains_placed(site.recorder, item, container)) return *std::move(plan);
  if (std::optional<Plan> plan = contains_call(site, item, container)) return *std::move(plan);
  return plan_break(Break::kUnknownObject, "membership in " + type_name(container.object));
}

Plan slice_of(Recorder& recorder, uint32_t whole, Value::Kind kind, const std::vector<uint32_t>& all, PyObject* slice) {
  Py_ssize_t start = 0, stop = 0, step = 0;
  if (PySlice_Unpack(slice, &start, &stop, &step) < 0) return PyErr_Clear(), plan_break(Break::kException, "slice");
  const Py_ssize_t count = PySlice_AdjustIndices(static_cast<Py_ssize_t>(all.size()), &start, &stop, step);
  // CPython gives the tuple itself for a slice of all of it.
  if (kind == Value::Kind::kTuple && step == 1 && count == static_cast<Py_ssize_t>(all.size())) return plan_value(whole);
  std::vector<uint32_t> part;
  for (Py_ssize_t i = 0; i < count; i++) part.push_back(all[start + i * step]);
  return plan_value(recorder.container(kind, std::move(part)));
}

Plan slice_of_container(Recorder& recorder, uint32_t label, PyObject* slice) {
  const Value owner = recorder.value(label);
  return slice_of(recorder, label, owner.kind, recorder.copied_elements(owner), slice);
}

Plan slice_of_source(Recorder& recorder, const Operated& container, PyObject* slice) {
  const std::optional<std::vector<uint32_t>> all = parts_of(recorder, container.label, container.object);
  if (!all) return plan_break(Break::kUnknownObject, "slice of " + type_name(container.object));
  return slice_of(recorder, container.label, PyList_CheckExact(container.object) ? Value::Kind::kList : Value::Kind::kTuple, *all, slice);
}

// A subscript of a Python container that came from outside is a source of its own.
// A tensor from outside is hashed by its place, as the state of optimizers knows parameters.
bool is_fixed_tensor(Recorder& recorder, const Operated& key) {
  const Value of = recorder.value(key.label);
  if (!torch::is_tensor(key.object) || of.kind != Value::Kind::kSource || recorder.varies(of.a)) return false;
  recorder.guards().require_identity(of.a, key.object);
  return true;
}

bool is_tensor_in(Recorder& recorder, const Operated& key, PyObject* dict) { return torch::is_tensor(key.object) && cpython::item_of_key(dict, key.object) && is_fixed_tensor(recorder, key); }

// What isn't in the mapping, whose class makes it then, is there next time, as the state of an optimizer is: the recording that ends here gives way.
void give_way_once_there(Recorder& recorder, const Value& owner, PyObject* mapping, const Operated& key) {
  const bool known = is_immutable(key.object) ? recorder.known(key.label, key.object) && !holds_keys_of_classes(mapping, key.object) : is_fixed_tensor(recorder, key);
  if (known) recorder.guards().require_member(owner.a, key.object, false);
}

Plan item_of_source(const Site& site, const Operated& container, const Operated& key) {
  Recorder& recorder = site.recorder;
  const Value owner = recorder.value(container.label);
  const bool sequence = PyList_CheckExact(container.object) || PyTuple_CheckExact(container.object) || torch::is_size(container.object);
  if (owner.kind == Value::Kind::kSource && PyDict_CheckExact(container.object)) return item_of_dict(recorder, container, key);
  // A subclass in C: what is there is given as a dict gives it.
  const bool mapping = owner.kind == Value::Kind::kSource && PyDict_Check(container.object) && is_written_in_c(Py_TYPE(container.object));
  const bool by_value = mapping && is_immutable(key.object) && recorder.known(key.label, key.object) && PyDict_GetItemWithError(container.object, key.object);
  if (by_value || (mapping && is_tensor_in(recorder, key, container.object))) {
    recorder.guards().require_type(owner.a, container.object);
    return plan_value(key_source(recorder, owner, key.object));
  }
  if (PyErr_Occurred()) PyErr_Clear();
  if (mapping) give_way_once_there(recorder, owner, container.object, key);
  if (owner.kind != Value::Kind::kSource || !sequence || !recorder.known(key.label, key.object)) {
    return plan_break(Break::kUnknownObject, "subscript of " + type_name(container.object));
  }
  if (PySlice_Check(key.object)) return slice_of_source(recorder, container, key.object);
  if (!PyLong_CheckExact(key.object)) return plan_break(Break::kUnknownObject, "subscript of " + type_name(container.object));
  recorder.guards().require_length(owner.a, container.object);
  Py_ssize_t index = PyLong_AsSsize_t(key.object);
  if (index < 0) index += PySequence_Fast_GET_SIZE(container.object);
  if (PyErr_Occurred() || index < 0 || index >= PySequence_Fast_GET_SIZE(container.object)) return PyErr_Clear(), plan_raise();
  return plan_value(item_source(recorder, owner, index));
}

// An element of a tuple or list that the recorded code made.
Plan item_of_container(const Site& site, const Operated& container, const Operated& key) {
  Recorder& recorder = site.recorder;
  const Value owner = recorder.value(container.label);
  if (PySlice_Check(key.object) && recorder.known(key.label, key.object)) return slice_of_container(recorder, container.label, key.object);
  if (!PyLong_CheckExact(key.object) || !recorder.known(key.label, key.object)) {
    return plan_break(Break::kUnknownObject, "subscript of " + type_name(container.object));
  }
  Py_ssize_t index = PyLong_AsSsize_t(key.object);
  const auto count = static_cast<Py_ssize_t>(recorder.elements(owner).size());
  if (index < 0) index += count;
  if (index < 0 || index >= count) return PyErr_Clear(), plan_raise();
  return plan_value(recorder.elements(owner)[index]);
}

// row[n], of a number that only the graph knows: the graph has the row.
std::optional<Plan> item_at_number(Recorder& recorder, const Operated& container, const Operated& key) {
  const bool row = PyTuple_CheckExact(container.object) || PyList_CheckExact(container.object) || PyUnicode_CheckExact(container.object);
  if (!row || !PyLong_CheckExact(key.object) || recorder.value(key.label).kind != Value::Kind::kNode || recorder.value(key.label).of_shapes) return std::nullopt;
  if (!PyUnicode_CheckExact(container.object) && holds_copies(container.object)) return std::nullopt;
  Plan plan;
  plan.kind = Plan::Kind::kNode;
  plan.form = Form::kGetItem;
  plan.operands = {recorder.operand(container.label, container.object), recorder.operand(key.label, key.object)};
  plan.check_result = true;
  return plan.operands[0] && plan.operands[1] ? std::optional<Plan>(std::move(plan)) : std::nullopt;
}

Plan subscript_of(const Site& site, const Operated& container, const Operated& key) {
  Recorder& recorder = site.recorder;
  if (std::optional<Plan> plan = item_of_tensor(recorder, container, key)) return *std::move(plan);
  if (recorder.is_graph_value(container.label, container.object)) {
    // Which elements an index means is a fact of the recording; an index array is a value like any other.
    if (PyLong_CheckExact(key.object) && recorder.value(key.label).kind == Value::Kind::kSource && recorder.known(key.label, key.object)) {
      Plan plan;
      plan.kind = Plan::Kind::kNode;
      plan.form = Form::kGetItem;
      plan.operands = {recorder.operand(container.label, container.object), Operand::constant(recorder.value(recorder.constant(key.object)).a)};
      plan.of_shapes = recorder.value(container.label).of_shapes;
      return plan.operands[0] ? std::move(plan) : plan_break(Break::kUnknownObject, type_name(container.object));
    }
    Plan plan = operation(site, Form::kGetItem, 0, {container, key});
    // What stands in the result of a call may be of any type.
    plan.check_result = plan.kind == Plan::Kind::kNode && !numpy::is_array(container.object) && !plan.of_shapes;
    return plan;
  }
  if (std::optional<Plan> item = item_at_number(recorder, container, key)) return *std::move(item);
  if (std::optional<Plan> item = keyed_instruction(site, "keyed_item", {container, key})) return *std::move(item);
  const Value::Kind kind = recorder.value(container.label).kind;
  if (kind == Value::Kind::kTuple || kind == Value::Kind::kList) return item_of_container(site, container, key);
  if (is_made_dict(recorder.value(container.label))) return item_of_dict(recorder, container, key);
  if (kind == Value::Kind::kDeque) return item_of_deque(site, container, key);
  if (kind == Value::Kind::kReplayed) return replayed_item(recorder, container, key);
  const bool constant = kind == Value::Kind::kConstant && is_immutable(container.object) && !PyType_Check(container.object);
  const bool size = kind == Value::Kind::kSource && torch::is_size(container.object) && PySlice_Check(key.object) && recorder.known(container.label, container.object);
  if ((constant || size) && recorder.known(key.label, key.object)) return plan_constant();
  if (PySlice_Check(key.object) && recorder.is_size_that_varies(recorder.value(container.label), container.object)) {
    Plan plan;
    plan.kind = Plan::Kind::kNode;
    plan.form = Form::kGetItem;
    plan.of_shapes = true;
    plan.operands = {recorder.operand(container.label, container.object), recorder.operand(key.label, key.object)};
    return plan.operands[0] && plan.operands[1] ? std::move(plan) : plan_break(Break::kUnknownObject, type_name(container.object));
  }
  if (std::optional<Plan> plan = item_call(site, "__getitem__", {container, key})) return *std::move(plan);
  if (std::optional<Plan> plan = item_of_class(recorder, container, key)) return *std::move(plan);
  if (std::optional<Plan> plan = index_call(site, container, key)) return *std::move(plan);
  return item_of_source(site, container, key);
}

Plan subscript(const Site& site) { return subscript_of(site, at(site, 2), at(site, 1)); }

// 3.12+: container[start:stop] without a slice on the stack.
class SliceOnStack {
 public:
  explicit SliceOnStack(const Site& site) : slice_(Ref::steal(PySlice_New(at(site, 2).object, at(site, 1).object, nullptr))) {
    if (!slice_) PyErr_Clear();
    label_ = site.recorder.container(Value::Kind::kSlice, {at(site, 2).label, at(site, 1).label, site.recorder.constant(Py_None)});
  }
  explicit operator bool() const { return static_cast<bool>(slice_); }
  Operated input() const { return {label_, slice_.get()}; }

 private:
  Ref slice_;
  uint32_t label_ = 0;
};

Plan binary_slice(const Site& site) {
  const SliceOnStack slice(site);
  if (!slice) return plan_break(Break::kUnknownObject, "slice");
  Plan plan = subscript_of(site, at(site, 3), slice.input());
  plan.held.push_back(Ref::borrow(slice.input().object));
  return plan;
}

Plan store(const Site& site, const Operated& value, Operated container, const Operated& key) {
  Recorder& recorder = site.recorder;
  if (std::optional<Plan> plan = keyed_instruction(site, "keyed_store", {container, key, value})) return *std::move(plan);
  enter(recorder, container);
  const Value::Kind kind = recorder.value(container.label).kind;
  if (kind == Value::Kind::kList || is_made_dict(recorder.value(container.label))) return store_into_made(recorder, container, key, value);
  if (kind == Value::Kind::kDeque) return store_into_deque(site, container, key, value.label);
  if (kind == Value::Kind::kReplayed) return store_into_replayed(recorder, container, key, value);
  if (std::optional<Plan> plan = item_call(site, "__setitem__", {container, key, value})) return *std::move(plan);
  if (!recorder.is_graph_value(container.label, container.object)) return plan_break(Break::kStore, "item of " + type_name(container.object));
  Plan plan;
  plan.kind = Plan::Kind::kNode;
  plan.form = Form::kSetItem;
  plan.no_result = true;
  Operand key_operand;
  if (PyLong_CheckExact(key.object) && recorder.value(key.label).kind == Value::Kind::kSource && recorder.known(key.label, key.object)) {
    key_operand = Operand::constant(recorder.value(recorder.constant(key.object)).a);
  } else {
    key_operand = recorder.operand(key.label, key.object);
  }
  plan.operands = {recorder.operand(container.label, container.object), key_operand, recorder.operand(value.label, value.object)};
  for (const Operand& operand : plan.operands) {
    if (!operand) return plan_break(Break::kUnknownObject, "store of " + type_name(value.object));
  }
  return plan;
}

Plan store_subscript(const Site& site) { return store(site, at(site, 3), at(site, 2), at(site, 1)); }
Plan store_slice(const Site& site) {
  const SliceOnStack slice(site);
  if (!slice) return plan_break(Break::kUnknownObject, "slice");
  Plan plan = store(site, at(site, 4), at(site, 3), slice.input());
  plan.held.push_back(Ref::borrow(slice.input().object));
  return plan;
}

}  // namespace

bool fixes_identity(Recorder& recorder, const Operated& left, const Operated& right) {
  if (left.label == right.label) return true;
  // What an operation gives is new, or what it was given, by what is guarded of its arguments.
  const bool tensors = torch::is_tensor(left.object) && torch::is_tensor(right.object) && !recorder.sizes_vary();
  if (tensors && (is_made_in_each_run(recorder, left) || is_made_in_each_run(recorder, right))) return true;
  for (const auto& [tensor, other] : {std::pair(left, right), std::pair(right, left)}) {
    const bool differ = torch::is_tensor(tensor.object) && !torch::is_tensor(other.object) && recorder.value(tensor.label).kind == Value::Kind::kNode;
    if (differ && fixes_type(recorder, other.label, other.object)) return true;
  }
  const bool with_none = left.object == Py_None || right.object == Py_None;
  bool open = false;  // one of them is known by its place only
  for (const Operated& input : {left, right}) {
    const Value& value = recorder.value(input.label);
    if (value.kind == Value::Kind::kNode && !with_none) return false;
    if (value.kind != Value::Kind::kSource) continue;
    if (input.object == Py_None || PyType_Check(input.object) || PyBool_Check(input.object)) {
      recorder.guards().require_identity(value.a, input.object);
    } else if (with_none) {
      if (!recorder.operand(input.label, input.object)) recorder.guards().require_type(value.a, input.object);
    } else {
      open = true;
    }
  }
  const int32_t first = open ? place_of(recorder, left) : -1, second = open ? place_of(recorder, right) : -1;
  if (first >= 0 && second >= 0 && first != second) recorder.guards().require_same(first, second, left.object == right.object);
  return true;
}

void add_operator_rules(RuleTable& table) {
  auto add = [&](bytecode::Op op, Plan (*before)(const Site&), void (*after)(const Site&, const Plan&) = nullptr) {
    table[static_cast<size_t>(op)] = {before, after};
  };
  using enum bytecode::Op;
  add(BINARY_OP, binary_op);
  add(COMPARE_OP, compare_op_checked, compare_op_after);
  add(UNARY_NEGATIVE, unary_negative);
  add(UNARY_POSITIVE, unary_positive);
  add(UNARY_INVERT, unary_invert);
  add(CALL_INTRINSIC_1, unary_intrinsic);
  add(UNARY_NOT, truth);
  add(TO_BOOL, truth);
  add(IS_OP, is_op);
  add(CONTAINS_OP, contains_op);
  add(BINARY_SUBSCR, subscript, value_after);
  add(STORE_SUBSCR, store_subscript);
  add(BINARY_SLICE, binary_slice, value_after);
  add(STORE_SLICE, store_slice);
}

}  // namespace evalframe::recorder
