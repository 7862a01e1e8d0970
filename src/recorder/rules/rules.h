// The recorder's rules, grouped by language feature; each group fills its rows of the table.
#pragma once

#include <array>
#include <optional>

#include "recorder/recorder.h"

namespace evalframe::recorder {

using RuleTable = std::array<Rule, static_cast<size_t>(bytecode::Op::kCount)>;

void add_stack_rules(RuleTable& table);      // constants, locals, stack shuffling
void add_name_rules(RuleTable& table);       // globals, attributes, closures
void add_operator_rules(RuleTable& table);   // arithmetic, comparison, subscripts
void add_call_rules(RuleTable& table);
void add_container_rules(RuleTable& table);  // building, unpacking
void add_text_rules(RuleTable& table);       // formatted strings
void add_control_rules(RuleTable& table);    // branches, loops, returns

// A call whose result follows from metadata that the guards fix; none where it isn't one.
std::optional<Plan> metadata_call(const Site& site, const evaluator::Activation::CallSite& call, PyObject* callable);
// An attribute of an element type that never changes.
bool is_dtype_fact(Borrowed dtype, Borrowed name);

// A method of str whose result follows from its arguments.
bool is_text_method(PyObject* callable);

// Plans that rules share.
Plan plan_break(Break why, std::string detail = {});
Plan plan_constant();
Plan plan_value(uint32_t label);
// The name of the object's type, for details of breaks.
std::string type_name(PyObject* object);

}  // namespace evalframe::recorder
