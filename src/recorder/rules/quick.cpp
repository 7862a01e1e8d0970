// Operations on numbers and arrays alone, which are most of what array code does: they fill a plan that has served before, as no rule
// but theirs has a say in them.
#include <algorithm>

#include "core/few.h"
#include "frontends/numpy/calls.h"
#include "recorder/policy.h"
#include "recorder/rules/rules.h"

namespace evalframe::recorder {

using graph::Form;
using numpy::CallKind;

bool is_number_or_array(PyObject* object) {
  return PyFloat_CheckExact(object) || PyLong_CheckExact(object) || PyBool_Check(object) || numpy::is_exact_array(object);
}

PyObject* fill_node(Recorder& recorder, Plan& plan, std::span<const Operated> inputs) {
  plan.kind = Plan::Kind::kNode;
  plan.operands.clear();
  for (const Operated& input : inputs) {
    plan.operands.push_back(recorder.operand(input.label, input.object));
    if (!plan.operands.back()) return input.object;
  }
  return nullptr;
}

static bool is_of_shapes(const Recorder& recorder, const Value& value) {
  if (value.kind == Value::Kind::kSlice || value.kind == Value::Kind::kTuple) {
    const std::span<const uint32_t> parts = recorder.elements(value);
    return std::all_of(parts.begin(), parts.end(), [&](uint32_t part) { return is_of_shapes(recorder, recorder.value(part)); });
  }
  return value.kind == Value::Kind::kNode ? value.of_shapes : value.kind == Value::Kind::kConstant;
}

void tell_numbers(Recorder& recorder, Plan& plan, std::span<const Operated> inputs) {
  plan.of_shapes = plan.of_numbers = true;
  for (const Operated& input : inputs) {
    plan.of_shapes = plan.of_shapes && is_of_shapes(recorder, recorder.value(input.label));
    plan.of_numbers = plan.of_numbers && recorder.is_number(input.label, input.object);
  }
}

namespace {

using Inputs = Few<Operated, 4>;

// Numbers and arrays, one of which is in the graph.
bool are_operated_on(const Recorder& recorder, const Inputs& inputs) {
  bool in_graph = false;
  for (const Operated& input : inputs) {
    if (!input.object || !is_number_or_array(input.object)) return false;
    in_graph = in_graph || recorder.is_graph_value(input.label, input.object);
  }
  return in_graph;
}

bool binary_op(const Site& site, Plan& plan) {
  Inputs inputs;
  for (int slot = site.depth - 2; slot < site.depth; slot++) inputs.push_back(in_slot(site, slot));
  if (!are_operated_on(site.recorder, inputs)) return false;
  plan.form = Form::kBinary;
  plan.code = static_cast<uint8_t>(site.instruction.arg);
  plan.callable = {};
  plan.check_result = false;
  tell_numbers(site.recorder, plan, inputs);
  return !fill_node(site.recorder, plan, inputs);
}

// Of a universal function, or of a method of arrays.
bool call(const Site& site, Plan& plan) {
  const auto found = site.frame.call_site();
  if (!found || found->keyword_names) return false;
  Recorder& recorder = site.recorder;
  PyObject* const callable = site.frame.slot(found->callable);
  const bool known = recorder.value_at(found->callable).kind == Value::Kind::kConstant && policy_of(callable) == Policy::kFollowed;
  if (!known || (!Py_IS_TYPE(callable, &PyMethodDescr_Type) && numpy::call_kind(callable) != CallKind::kUfunc)) return false;
  Inputs inputs;
  for (int slot = found->first; slot < found->first + found->count; slot++) inputs.push_back(in_slot(site, slot));
  if (!are_operated_on(recorder, inputs)) return false;
  const CallKind kind = numpy::call_kind(callable);
  if (kind != CallKind::kUfunc && kind != CallKind::kOpaque) return false;
  plan.form = Form::kCall;
  plan.code = 0;
  plan.callable = callable;
  plan.check_result = !numpy::result_follows(callable);
  plan.of_shapes = plan.of_numbers = false;
  return !fill_node(recorder, plan, inputs);
}

}  // namespace

void add_quick_rules(RuleTable& table) {
  const auto add = [&](bytecode::Op op, bool (*operates)(const Site&, Plan&)) { table[static_cast<size_t>(op)].operates = operates; };
  add(bytecode::Op::BINARY_OP, binary_op);
  add(bytecode::Op::CALL, call);
}

}  // namespace evalframe::recorder
