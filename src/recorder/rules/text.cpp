// Rules for text made of what is known: formatted strings.
#include "recorder/rules/rules.h"

namespace evalframe::recorder {

namespace {

// What Python code can't be part of formatting, and no locale: `n` asks for the process's.
bool is_plain_spec(PyObject* spec) { return PyUnicode_CheckExact(spec) && PyUnicode_FindChar(spec, 'n', 0, PyUnicode_GET_LENGTH(spec), 1) < 0; }

Plan constant_of_top(const Site& site, int count) {
  for (int slot = site.depth - count; slot < site.depth; slot++) {
    PyObject* object = site.frame.slot(slot);
    const uint32_t label = site.recorder.label(slot);
    if (!is_known_through(site.recorder, label, object)) {
      return plan_break(Break::kUnknownObject, "text of " + type_name(object));
    }
  }
  return plan_constant();
}

Plan build_string(const Site& site) { return constant_of_top(site, site.instruction.arg); }
Plan format_simple(const Site& site) { return constant_of_top(site, 1); }

Plan format_with_spec(const Site& site) {
  if (!is_plain_spec(site.frame.slot(site.depth - 1))) return plan_break(Break::kUnknownObject, "format of a locale");
  return constant_of_top(site, 2);
}

Plan format_value(const Site& site) {
  constexpr int kHasSpec = 4;
  return site.instruction.arg & kHasSpec ? format_with_spec(site) : format_simple(site);
}

}  // namespace

void add_text_rules(RuleTable& table) {
  auto add = [&](bytecode::Op op, Plan (*before)(const Site&)) { table[static_cast<size_t>(op)] = {before, nullptr}; };
  using enum bytecode::Op;
  add(BUILD_STRING, build_string);
  add(FORMAT_VALUE, format_value);
  add(FORMAT_SIMPLE, format_simple);
  add(CONVERT_VALUE, format_simple);
  add(FORMAT_WITH_SPEC, format_with_spec);
}

}  // namespace evalframe::recorder
