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
Plan format_simple(const Site& site) {
  if (std::optional<Plan> plan = decimal_text(site, site.depth - 1, "format", nullptr)) return *std::move(plan);
  if (std::optional<Plan> plan = format_call(site, site.depth - 1, nullptr)) return *std::move(plan);
  return constant_of_top(site, 1);
}
// `kind`: 1 str, 2 repr.
Plan converted(const Site& site, int kind, int slot) {
  if (std::optional<Plan> plan = slot == site.depth - 1 && kind ? decimal_text(site, slot, kind == 1 ? "str" : "repr", nullptr) : std::nullopt) return *std::move(plan);
  if (std::optional<Plan> plan = kind == 1 || kind == 2 ? text_call(site, slot, kind == 1 ? "__str__" : "__repr__") : std::nullopt) return *std::move(plan);
  return constant_of_top(site, site.depth - slot);
}
Plan convert_value(const Site& site) { return converted(site, site.instruction.arg, site.depth - 1); }

Plan format_with_spec(const Site& site) {
  if (!is_plain_spec(site.frame.slot(site.depth - 1))) return plan_break(Break::kUnknownObject, "format of a locale");
  if (std::optional<Plan> plan = site.recorder.known(site.recorder.label(site.depth - 1), site.frame.slot(site.depth - 1)) ? decimal_text(site, site.depth - 2, "format", site.frame.slot(site.depth - 1)) : std::nullopt) {
    return *std::move(plan);
  }
  const Operated spec{site.recorder.label(site.depth - 1), site.frame.slot(site.depth - 1)};
  if (std::optional<Plan> plan = format_call(site, site.depth - 2, &spec)) return *std::move(plan);
  return constant_of_top(site, 2);
}

Plan format_value(const Site& site) {
  constexpr int kHasSpec = 4, kConversion = 3;
  const bool converts = site.instruction.arg & kConversion;
  if (converts) return converted(site, site.instruction.arg & kHasSpec ? 0 : site.instruction.arg & kConversion, site.depth - (site.instruction.arg & kHasSpec ? 2 : 1));
  return site.instruction.arg & kHasSpec ? format_with_spec(site) : format_simple(site);
}

}  // namespace

void add_text_rules(RuleTable& table) {
  auto add = [&](bytecode::Op op, Plan (*before)(const Site&)) { table[static_cast<size_t>(op)] = {before, nullptr}; };
  using enum bytecode::Op;
  add(BUILD_STRING, build_string);
  add(FORMAT_VALUE, format_value);
  add(FORMAT_SIMPLE, format_simple);
  add(CONVERT_VALUE, convert_value);
  add(FORMAT_WITH_SPEC, format_with_spec);
}

}  // namespace evalframe::recorder
