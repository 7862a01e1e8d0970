// Rules for the names of the frame that asks for them: locals(), vars() and dir() without arguments, and eval() and exec().
#include <cstring>

#include "core/builtins.h"
#include "cpython/codec.h"
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

// Compiled as eval() and exec() do it in the thread's current frame; null: not without an error or warning.
Ref compiled(PyObject* text, bool expression) {
  const char* source = PyUnicode_AsUTF8(text);
  if (!source || strlen(source) != static_cast<size_t>(PyUnicode_GET_LENGTH(text))) return PyErr_Clear(), Ref();
  while (expression && (*source == ' ' || *source == '\t')) source++;
  // A warning is an error as long as the compiler runs, which runs no Python code.
  PyObject* const modules = PyImport_GetModuleDict();
  PyObject* const warnings = PyDict_CheckExact(modules) ? PyDict_GetItemString(modules, "warnings") : nullptr;
  PyObject* const names = warnings && PyModule_CheckExact(warnings) ? PyModule_GetDict(warnings) : nullptr;
  const Ref filters = Ref::borrow(names ? PyDict_GetItemString(names, "filters") : nullptr);
  const Ref strict = Ref::steal(Py_BuildValue("[(sOOOi)]", "error", Py_None, PyExc_Warning, Py_None, 0));
  if (!filters || !strict || PyDict_SetItemString(names, "filters", strict.get()) < 0) return PyErr_Clear(), Ref();
  PyCompilerFlags flags{0, PY_MINOR_VERSION};
  PyEval_MergeCompilerFlags(&flags);
  flags.cf_flags |= PyCF_SOURCE_IS_UTF8;
  Ref code = Ref::steal(Py_CompileStringExFlags(source, "<string>", expression ? Py_eval_input : Py_file_input, &flags, -1));
  if (!code) PyErr_Clear();
  if (PyDict_SetItemString(names, "filters", filters.get()) < 0) return PyErr_Clear(), Ref();
  return code && PyCode_Check(code.get()) ? std::move(code) : Ref();
}

// The dict of globals or names that it is given: of the recorded code's, or from outside and known from here on; null: not known.
bool is_dict_of_names(Recorder& recorder, Operated& dict) {
  if (!PyDict_CheckExact(dict.object) || !enter(recorder, dict)) return false;
  return recorder.value(dict.label).kind == Value::Kind::kDict && !recorder.class_of_attributes(dict.label);
}

PyObject* builtins_name() {
  static PyObject* const name = PyUnicode_InternFromString("__builtins__");
  return name;
}

// exec() gives a dict of globals the builtins of the frame. False: it has others.
bool gives_builtins(const Site& site, const Operated& globals) {
  Recorder& recorder = site.recorder;
  PyObject* const builtins = cpython::builtins_of(site.frame.frame()).get();
  const Value dict = recorder.value(globals.label);
  PyObject* const present = PyDict_GetItemWithError(globals.object, builtins_name());
  if (present) {
    const uint32_t known = recorder.value_of_key(dict, builtins_name());
    return present == builtins && known && fixes_object(recorder, known, present);
  }
  if (recorder.is_iterated(globals.label) || PyDict_SetItem(globals.object, builtins_name(), builtins) < 0) return PyErr_Clear(), false;
  std::vector<uint32_t> items = recorder.copied_elements(dict);
  items.insert(items.end(), {recorder.constant(builtins_name()), recorder.fixed(builtins)});
  recorder.replace(dict, items);
  return true;
}

// The code has no names of its own but those of a dict, and gives nothing where exec() runs it.
bool runs_in_dict(PyObject* code) {
  const auto* const of = reinterpret_cast<PyCodeObject*>(code);
  return !(of->co_flags & (CO_OPTIMIZED | CO_NEWLOCALS | CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR)) && !PyCode_GetNumFree(const_cast<PyCodeObject*>(of));
}

// What has loops may be a program of its own, which CPython runs faster than we do where it isn't recorded to its end.
bool has_loops(PyObject* code) {
  const bytecode::Code* const decoded = cpython::decoded(code);
  if (!decoded) return PyErr_Clear(), true;
  for (size_t i = 0; i < decoded->instructions.size(); i++) {
    const int32_t target = decoded->instructions[i].target;
    if (target >= 0 && static_cast<size_t>(target) <= i) return true;
  }
  return false;
}

// Functions that are made there, of one code in all runs, have another dict of globals in each.
bool makes_functions(PyObject* code) {
  PyObject* const constants = reinterpret_cast<PyCodeObject*>(code)->co_consts;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(constants); i++) {
    if (PyCode_Check(PyTuple_GET_ITEM(constants, i))) return true;
  }
  return false;
}

// The code that the call runs, which is always this one; null: not known, or nothing that is followed.
Ref code_given(const Site& site, const Activation::CallSite& call, bool expression) {
  Recorder& recorder = site.recorder;
  PyObject* const given = site.frame.slot(call.first);
  Ref code;
  if (PyUnicode_CheckExact(given) && recorder.known(recorder.label(call.first), given)) {
    code = compiled(given, expression);
  } else if (expression && PyCode_Check(given) && fixes_object(recorder, recorder.label(call.first), given)) {
    code = Ref::borrow(given);
  }
  return code && runs_in_dict(code.get()) && !has_loops(code.get()) ? std::move(code) : Ref();
}

// Where the code runs: its globals, which are the frame's own or a dict, and its names. No object: those of the frame.
struct Scope {
  bool own = false;
  Operated globals{0, nullptr}, names{0, nullptr};
};

// Says what isn't known; null: all is.
const char* read_scope(const Site& site, const Activation::CallSite& call, PyObject* code, Scope& scope) {
  Recorder& recorder = site.recorder;
  const Borrowed present = cpython::globals_of(site.frame.frame());
  auto& [own, globals, names] = scope;
  for (int i = 1; i < call.count; i++) {
    PyObject* const object = site.frame.slot(call.first + i);
    if (object != Py_None) (i == 1 ? globals : names) = {recorder.label(call.first + i), object};
    if (object == Py_None && !recorder.known(recorder.label(call.first + i), Py_None)) return " with names that aren't known";
  }
  const bool other_names = names.object && names.object != globals.object;
  own = !globals.object || (globals.object == present.get() && fixes_object(recorder, globals.label, globals.object));
  if (own && (recorder.globals() || !PyDict_CheckExact(present.get()) || !PyDict_GetItemWithError(present.get(), builtins_name()))) return " with other globals";
  if (other_names && !is_dict_of_names(recorder, names)) return " with names that aren't known";
  if (own) return globals.object && !other_names ? " in a module's names" : nullptr;
  if (makes_functions(code) || !is_dict_of_names(recorder, globals) || other_names || !gives_builtins(site, globals)) return " with other globals";
  names = globals;
  return nullptr;
}

// The frame's own names are what locals() gives: what calls do, but for the frame that they push, is done in front of it. Null: not known.
Ref take_names_of_frame(const Site& site, Scope& scope) {
  Recorder& recorder = site.recorder;
  const std::optional<Plan> found = names_of_frame(site);
  if (!found || found->kind == Plan::Kind::kBreak || recorder.value(found->label).kind != Value::Kind::kDict) return Ref();
  if (found->changed) recorder.replace(recorder.value(found->changed), found->contents);
  if (found->locals) recorder.keep_locals(found->locals);
  scope.names.label = found->label;
  return cpython::present_locals();
}

}  // namespace

std::optional<Plan> code_call(const Site& site, const Activation::CallSite& call, PyObject* callable) {
  const bool expression = callable == builtin<"eval">().get();
  if (!expression && callable != builtin<"exec">().get()) return std::nullopt;
  Recorder& recorder = site.recorder;
  const auto unknown = [&](const char* what) { return plan_break(Break::kUnknownCall, callable_name(callable) + what); };
  if (call.count < 1 || call.count > 3 || call.keyword_names || recorder.is_hidden_frame()) return unknown("");
  const Ref code = code_given(site, call, expression);
  if (!code) return unknown(" of other code");
  Scope scope;
  if (const char* const what = read_scope(site, call, code.get(), scope)) return unknown(what);
  const Borrowed present = cpython::globals_of(site.frame.frame());
  Ref function = Ref::steal(PyFunction_New(code.get(), scope.own ? present.get() : scope.globals.object));
  if (!function) return PyErr_Clear(), unknown("");
  Ref names = scope.names.object ? Ref::borrow(scope.names.object) : take_names_of_frame(site, scope);
  if (!names) return PyErr_Clear(), unknown(" with names that aren't known");
  if (scope.own) recorder.guards().require_name(present, builtins_name(), PyDict_GetItemWithError(present.get(), builtins_name()));
  Plan plan;
  plan.kind = Plan::Kind::kInline;
  plan.function = function.get();
  recorder.calls(recorder.constant(scope.own ? function.get() : Py_None));
  plan.names = scope.names.label;
  plan.globals = scope.own ? 0 : scope.globals.label;
  plan.namespace_dict = names.get();
  plan.held.push_back(std::move(function));
  plan.held.push_back(std::move(names));
  recorder.recording().needs_frames = true;
  return plan;
}

std::optional<Plan> scope_call(const Site& site, const Activation::CallSite& call, PyObject* callable) {
  const bool lists = callable == builtin<"dir">().get();
  if ((callable != builtin<"locals">().get() && callable != builtin<"vars">().get() && !lists) || call.count || call.keyword_names) return std::nullopt;
  std::optional<Plan> plan = names_of_frame(site);
  if (!plan || !lists || plan->kind == Plan::Kind::kBreak) return plan ? std::move(plan) : plan_break(Break::kUnknownCall, callable_name(callable));
  if (site.recorder.value(plan->label).kind != Value::Kind::kDict) return plan_break(Break::kUnknownCall, "dir");
  plan->kind = Plan::Kind::kConstant;
  return plan;
}

}  // namespace evalframe::recorder
