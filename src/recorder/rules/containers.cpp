// Rules for building tuples, lists and slices, and for taking apart what is unpacked.
#include "frontends/numpy/calls.h"
#include "recorder/rules/rules.h"

namespace evalframe::recorder {

namespace {

using graph::Form;
using graph::Operand;

std::vector<uint32_t> labels_from(const Site& site, int first, int count) {
  std::vector<uint32_t> labels;
  for (int i = 0; i < count; i++) labels.push_back(site.recorder.label(first + i));
  return labels;
}

Plan build(const Site& site, Value::Kind kind) {
  const int count = site.instruction.arg;
  return plan_value(site.recorder.container(kind, labels_from(site, site.depth - count, count)));
}
Plan build_tuple(const Site& site) { return build(site, Value::Kind::kTuple); }
Plan build_list(const Site& site) { return build(site, Value::Kind::kList); }

Plan build_slice(const Site& site) {
  const int count = site.instruction.arg;
  std::vector<uint32_t> parts = labels_from(site, site.depth - count, count);
  if (count == 2) parts.push_back(site.recorder.constant(Py_None));
  return plan_value(site.recorder.container(Value::Kind::kSlice, std::move(parts)));
}

// The elements of an array, or of a tuple or list that a call gave, are read in the graph, which checks how many there are.
Plan unpack_node(const Site& site) {
  Recorder& recorder = site.recorder;
  const int top = site.depth - 1;
  PyObject* const object = site.frame.slot(top);
  const bool plain = Py_TYPE(object)->tp_iter == PyTuple_Type.tp_iter || PyList_CheckExact(object);
  const bool array = numpy::is_exact_array(object);
  const Operand whole = array || plain ? recorder.operand(recorder.label(top), object) : Operand{};
  if (!whole || PyObject_Size(object) != site.instruction.arg) return PyErr_Clear(), plan_break(Break::kUnknownObject, "unpacking of " + type_name(object));
  if (!array) recorder.check_type(whole, object);
  recorder.check_length(whole, object);
  Plan plan;
  plan.operands = {whole};
  plan.check_result = !array;
  return plan;
}

Plan unpack_parts(const Site& site) {
  Recorder& recorder = site.recorder;
  const uint32_t label = recorder.label(site.depth - 1);
  PyObject* const object = site.frame.slot(site.depth - 1);
  std::optional<std::vector<uint32_t>> parts = parts_of(recorder, label, object);
  if (!parts || parts->size() != static_cast<size_t>(site.instruction.arg)) return plan_break(Break::kUnknownObject, "unpacking of " + type_name(object));
  Plan plan;
  exhaust(plan, recorder, label, object);
  plan.contents = *std::move(parts);
  return plan;
}

Plan unpack_sequence(const Site& site) {
  PyObject* const object = site.frame.slot(site.depth - 1);
  const Value value = site.recorder.value_at(site.depth - 1);
  const bool sequence = PyTuple_CheckExact(object) || PyList_CheckExact(object);
  if (sequence && PySequence_Fast_GET_SIZE(object) != site.instruction.arg) {
    const bool known = value.kind != Value::Kind::kNode && parts_of(site.recorder, site.recorder.label(site.depth - 1), object);
    return known ? plan_raise() : plan_break(Break::kException, "wrong number of values to unpack");
  }
  if (std::optional<Plan> plan = unpack_call(site)) return *std::move(plan);
  if (std::optional<Plan> plan = unpacked_generator(site)) return *std::move(plan);
  const bool of_graph = value.kind == Value::Kind::kNode ? !value.of_shapes : numpy::is_exact_array(object);
  return of_graph ? unpack_node(site) : unpack_parts(site);
}

// The first element ends up on top of the stack.
void unpack_sequence_after(const Site& site, const Plan& plan) {
  Recorder& recorder = site.recorder;
  const int count = site.instruction.arg;
  std::vector<uint32_t> labels = plan.contents;
  std::vector<int32_t> nodes;
  auto slot_of = [&](int i) { return site.depth - 1 + count - 1 - i; };
  for (int i = 0; !plan.operands.empty() && i < count; i++) {
    const Ref index = Ref::steal(PyLong_FromLong(i));
    const Operand key = Operand::constant(recorder.value(recorder.constant(index.get())).a);
    nodes.push_back(recorder.add_plain_node(Form::kGetItem, 0, nullptr, {plan.operands[0], key}, site.frame.slot(slot_of(i))));
    labels.push_back(recorder.node_value(nodes.back(), false));
  }
  if (count == 0) recorder.set_label(site.depth - 1, 0);
  for (int i = 0; i < count; i++) recorder.set_label(slot_of(i), labels[i]);
  if (!plan.check_result) return;
  for (const int32_t node : nodes) recorder.check_result(site.frame, node);
}

// a, *b, c = items: what stands in the middle becomes a new list. The last ends up lowest on the stack.
int before_star(const Site& site) { return site.instruction.arg & 0xFF; }
int behind_star(const Site& site) { return site.instruction.arg >> 8; }

Plan unpack_ex(const Site& site) {
  Recorder& recorder = site.recorder;
  const uint32_t label = recorder.label(site.depth - 1);
  PyObject* const object = site.frame.slot(site.depth - 1);
  std::optional<std::vector<uint32_t>> parts = parts_or_rows(recorder, {label, object});
  if (!parts) return plan_break(Break::kUnknownObject, "unpacking of " + type_name(object));
  if (static_cast<int>(parts->size()) < before_star(site) + behind_star(site)) return plan_raise();
  Plan plan;
  exhaust(plan, recorder, label, object);
  plan.contents = *std::move(parts);
  return plan;
}

void unpack_ex_after(const Site& site, const Plan& plan) {
  Recorder& recorder = site.recorder;
  const std::vector<uint32_t>& all = plan.contents;
  const auto first = all.begin() + before_star(site), last = all.end() - behind_star(site);
  int slot = site.depth - 1;
  for (auto item = all.end(); item != last;) recorder.set_label(slot++, *--item);
  recorder.set_label(slot++, recorder.container(Value::Kind::kList, std::vector<uint32_t>(first, last)));
  for (auto item = first; item != all.begin();) recorder.set_label(slot++, *--item);
}

}  // namespace

void add_container_rules(RuleTable& table) {
  auto add = [&](bytecode::Op op, Plan (*before)(const Site&), void (*after)(const Site&, const Plan&) = nullptr) {
    table[static_cast<size_t>(op)] = {before, after};
  };
  using enum bytecode::Op;
  add(BUILD_TUPLE, build_tuple);
  add(BUILD_LIST, build_list);
  add(BUILD_SLICE, build_slice);
  add(UNPACK_SEQUENCE, unpack_sequence, unpack_sequence_after);
  add(UNPACK_EX, unpack_ex, unpack_ex_after);
}

}  // namespace evalframe::recorder
