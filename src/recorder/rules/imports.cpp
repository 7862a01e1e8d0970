// Rules for imports inside of functions: a module that is loaded already is a constant, as long as sys.modules has it.
#include "core/builtins.h"
#include "core/object_text.h"
#include "cpython/frame.h"
#include "recorder/imports.h"
#include "recorder/rules/rules.h"

namespace evalframe::recorder {

namespace {

PyObject* import_name_text() {
  static PyObject* const text = PyUnicode_InternFromString("__import__");
  return text;
}

// The package that `import a.b.c` gives: a.
Ref outermost(PyObject* name) {
  const Py_ssize_t dot = PyUnicode_FindChar(name, '.', 0, PyUnicode_GET_LENGTH(name), 1);
  return dot < 0 ? Ref::borrow(name) : Ref::steal(PyUnicode_Substring(name, 0, dot));
}

// A name that isn't there might be that of a submodule, which `from` loads.
bool has_all(PyObject* module, PyObject* names) {
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(names); i++) {
    PyObject* const name = PyTuple_GET_ITEM(names, i);
    if (PyUnicode_CompareWithASCIIString(name, "*") == 0 || !PyDict_GetItemWithError(PyModule_GetDict(module), name)) return false;
  }
  return true;
}

Plan import_name(const Site& site) {
  Recorder& recorder = site.recorder;
  const auto no = [] { return plan_break(Break::kInstruction, "IMPORT_NAME"); };
  PyObject* const names = site.frame.slot(site.depth - 1);
  PyObject* const level = recorder.constant_of(recorder.label(site.depth - 2));
  if (!level || !PyLong_CheckExact(level) || PyLong_AsLong(level) != 0 || recorder.constant_of(recorder.label(site.depth - 1)) != names) return no();
  Borrowed builtins = cpython::builtins_of(site.frame.frame());
  PyObject* const importer = builtin<"__import__">().get();
  if (!PyDict_CheckExact(builtins.get()) || PyDict_GetItemWithError(builtins.get(), import_name_text()) != importer) return no();
  recorder.guards().require_name(builtins, import_name_text(), importer);
  if (!is_loaded(name_of(site))) recorder.recording().awaited = Ref::borrow(name_of(site));
  PyObject* const module = loaded(recorder, name_of(site));
  if (!module) return no();
  if (names == Py_None) {
    const Ref first = outermost(name_of(site));
    return first && loaded(recorder, first.get()) ? plan_constant() : no();
  }
  return PyTuple_CheckExact(names) && has_all(module, names) ? plan_constant() : no();
}

Plan import_from(const Site& site) {
  Recorder& recorder = site.recorder;
  PyObject* const module = recorder.constant_of(recorder.label(site.depth - 1));
  if (!module || !PyModule_CheckExact(module)) return plan_break(Break::kInstruction, "IMPORT_FROM");
  PyObject *const dict = PyModule_GetDict(module), *const name = name_of(site);
  if (const uint32_t stored = recorder.stored(dict, name)) return plan_value(stored);
  PyObject* const value = PyDict_GetItemWithError(dict, name);
  if (!value) return plan_break(Break::kInstruction, "IMPORT_FROM");
  recorder.guards().require_module(module);
  recorder.guards().require_name(dict, name, value);
  return plan_constant();
}

void import_from_after(const Site& site, const Plan& plan) {
  Recorder& recorder = site.recorder;
  recorder.set_label(site.depth, plan.kind == Plan::Kind::kValue ? plan.label : recorder.fixed(site.frame.slot(site.depth)));
}

}  // namespace

bool is_loaded(PyObject* name) {
  PyObject* const modules = PyImport_GetModuleDict();
  return PyDict_CheckExact(modules) && PyDict_GetItemWithError(modules, name);
}

PyObject* loaded(Recorder& recorder, PyObject* name) {
  PyObject* const modules = PyImport_GetModuleDict();
  PyObject* const module = PyDict_CheckExact(modules) ? PyDict_GetItemWithError(modules, name) : nullptr;
  if (!module || !PyModule_CheckExact(module)) return nullptr;
  recorder.guards().require_name(modules, name, module);
  recorder.guards().require_module(module);
  return module;
}

std::optional<Plan> loading_call(const Site& site, const evaluator::Activation::CallSite& call, PyObject* function) {
  const auto* const code = reinterpret_cast<PyCodeObject*>(PyFunction_GET_CODE(function));
  const auto is = [](PyObject* text, const char* name) { return PyUnicode_CompareWithASCIIString(text, name) == 0; };
  if (call.count < 1 || !is(code->co_name, "_find_and_load") || !is(code->co_filename, "<frozen importlib._bootstrap>")) return std::nullopt;
  PyObject* const name = site.frame.slot(call.first);
  if (!PyUnicode_CheckExact(name) || is_loaded(name)) return std::nullopt;
  site.recorder.recording().awaited = Ref::borrow(name);
  return plan_break(Break::kUnknownCall, "import of " + std::string(utf8(name)));
}

void add_import_rules(RuleTable& table) {
  using enum bytecode::Op;
  table[static_cast<size_t>(IMPORT_NAME)] = {import_name, nullptr};
  table[static_cast<size_t>(IMPORT_FROM)] = {import_from, import_from_after};
}

}  // namespace evalframe::recorder
