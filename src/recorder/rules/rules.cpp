// The table of rules.
#include "recorder/rules/rules.h"

namespace evalframe::recorder {

namespace {

Plan not_recorded(const Site& site) { return plan_break(Break::kInstruction, bytecode::name(site.instruction.op)); }

RuleTable make_table() {
  RuleTable table;
  table.fill({not_recorded, nullptr});
  add_stack_rules(table);
  add_name_rules(table);
  add_attribute_rules(table);
  add_operator_rules(table);
  add_call_rules(table);
  add_container_rules(table);
  add_list_rules(table);
  add_text_rules(table);
  add_control_rules(table);
  add_matching_rules(table);
  add_exception_rules(table);
  add_exception_group_rules(table);
  add_generator_rules(table);
  add_quick_rules(table);
  add_import_rules(table);
  add_replayed_rules(table);
  return table;
}

}  // namespace

static const RuleTable kTable = make_table();

const Rule& rule(bytecode::Op op) { return kTable[static_cast<size_t>(op)]; }

Plan plan_break(Break why, std::string detail) {
  Plan plan;
  plan.kind = Plan::Kind::kBreak;
  plan.why = why;
  plan.detail = std::move(detail);
  return plan;
}

Plan not_known(PyObject* callable) { return plan_break(Break::kUnknownCall, callable_name(callable)); }

bool is_one_object(const Value& value, PyObject* object) {
  const bool made = value.kind != Value::Kind::kSource && value.kind != Value::Kind::kNode && value.kind != Value::Kind::kConstant;
  return !made || (value.kind == Value::Kind::kTuple && is_immutable(object));
}

Operated in_slot(const Site& site, int slot) { return {site.recorder.label(slot), site.frame.slot(slot)}; }

Operated at(const Site& site, int from_top) { return in_slot(site, site.depth - from_top); }

void pop_after(const Site& site, const Plan&) {
  for (int i = site.frame.depth(); i < site.depth; i++) site.recorder.set_label(i, 0);
}

Plan plan_constant() {
  Plan plan;
  plan.kind = Plan::Kind::kConstant;
  return plan;
}

Plan plan_value(uint32_t label) {
  Plan plan;
  plan.kind = Plan::Kind::kValue;
  plan.label = label;
  return plan;
}

std::string type_name(PyObject* object) { return Py_TYPE(object)->tp_name; }

}  // namespace evalframe::recorder
