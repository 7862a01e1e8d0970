// Rules for the names of the frame that asks for them: locals(), vars() and dir() without arguments.
#include "core/builtins.h"
#include "cpython/frame.h"
#include "cpython/layout.h"
#include "cpython/variables.h"
#include "recorder/rules/rules.h"

namespace evalframe::recorder {

namespace {

using evaluator::Activation;

// What the variable in the slot has; 0: not known, or nothing.
uint32_t value_of_variable(const Site& site, int slot) {
  Recorder& recorder = site.recorder;
  const uint32_t label = recorder.label(slot);
  const uint8_t kind = cpython::variable_kind(site.frame.code().code, slot);
  const Value value = recorder.value(label);
  PyObject* const object = site.frame.slot(slot);
  if (value.kind == Value::Kind::kCell) return recorder.elements(value).back();
  if (!(kind & (cpython::kCellVariable | cpython::kFreeVariable))) return label;
  if (!object || !PyCell_Check(object) || !PyCell_GET(object)) return 0;
  if (value.kind != Value::Kind::kSource && value.kind != Value::Kind::kConstant) return 0;
  if (value.kind == Value::Kind::kSource) recorder.guards().require_type(value.a, object);
  const uint32_t stored = recorder.stored_in_cell(label, object);
  return stored ? stored : content_of_cell(recorder, label, object);
}

int slot_of_variable(const Site& site, PyObject* name) {
  const Borrowed code = site.frame.code().code;
  int slot = cpython::variable_count(code) - 1;
  while (slot >= 0 && PyUnicode_Compare(cpython::variable_name(code, slot).get(), name) != 0) slot--;
  return slot;
}

// The items of locals(), in the order that CPython gives them; none: not known.
std::optional<std::vector<uint32_t>> items_of_frame(const Site& site) {
  Recorder& recorder = site.recorder;
  const Ref present = cpython::present_locals();
  if (!present || !PyDict_CheckExact(present.get())) return PyErr_Clear(), std::nullopt;
  std::vector<uint32_t> items;
  PyObject *name = nullptr, *object = nullptr;
  for (Py_ssize_t at = 0; PyDict_Next(present.get(), &at, &name, &object);) {
    if (!PyUnicode_CheckExact(name)) return std::nullopt;
    const int slot = slot_of_variable(site, name);
    // What a program has put into the dict stays there.
    const uint32_t label = slot >= 0 ? value_of_variable(site, slot) : recorder.locals() ? recorder.value_of_key(recorder.value(recorder.locals()), name) : 0;
    if (!label) return std::nullopt;
    items.insert(items.end(), {recorder.constant(name), label});
  }
  return items;
}

// The dict that locals() gives; none: it isn't known.
std::optional<Plan> names_of_frame(const Site& site) {
  Recorder& recorder = site.recorder;
  if (recorder.names()) return plan_value(recorder.names());
  if (!(site.frame.code().code.as<PyCodeObject>()->co_flags & CO_OPTIMIZED)) {
    const Borrowed names = cpython::locals_dict_of(site.frame.frame()), globals = cpython::globals_of(site.frame.frame());
    return names && names.get() == globals.get() ? std::optional(plan_value(recorder.fixed(globals))) : std::nullopt;
  }
  const bool kept = cpython::layout::kLocalsAreKept;
  if (recorder.is_hidden_frame() || (kept && !recorder.knows_what_frame_keeps())) return std::nullopt;
  std::optional<std::vector<uint32_t>> items = items_of_frame(site);
  if (!items) return std::nullopt;
  if (const uint32_t known = recorder.locals()) return plan_change(recorder, known, *std::move(items), plan_value(known));
  Plan plan = plan_value(recorder.container(Value::Kind::kDict, *std::move(items)));
  if (kept) plan.locals = plan.label;
  return plan;
}

}  // namespace

std::optional<Plan> scope_call(const Site& site, const Activation::CallSite& call, PyObject* callable) {
  const bool lists = callable == builtin("dir").get();
  if ((callable != builtin("locals").get() && callable != builtin("vars").get() && !lists) || call.count || call.keyword_names) return std::nullopt;
  std::optional<Plan> plan = names_of_frame(site);
  if (!plan || !lists || plan->kind == Plan::Kind::kBreak) return plan ? std::move(plan) : plan_break(Break::kUnknownCall, callable_name(callable));
  if (site.recorder.value(plan->label).kind != Value::Kind::kDict) return plan_break(Break::kUnknownCall, "dir");
  plan->kind = Plan::Kind::kConstant;
  return plan;
}

}  // namespace evalframe::recorder
