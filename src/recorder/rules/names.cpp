// Rules for globals and closures: what is read from outside becomes a guarded source or a constant.
#include "cpython/frame.h"
#include "cpython/layout.h"
#include "frontends/numpy/calls.h"
#include "recorder/rules/rules.h"

namespace evalframe::recorder {

namespace {

namespace layout = cpython::layout;
using guards::Reach;

// A value found through a dict that is guarded name by name: functions, modules, classes are constants; so is all else
// by identity, for a global that is rebound changes its dict.
Plan load_global(const Site& site) {
  Borrowed globals = cpython::globals_of(site.frame.frame()), builtins = cpython::builtins_of(site.frame.frame());
  if (!PyDict_CheckExact(globals.get()) || !PyDict_CheckExact(builtins.get())) return plan_break(Break::kAttribute, "globals are no plain dict");
  PyObject* name = name_of(site);
  if (const uint32_t stored = site.recorder.stored(globals, name)) return plan_value(stored);
  PyObject* value = PyDict_GetItemWithError(globals.get(), name);
  if (value && guards::is_data(value) && site.recorder.name_varies(globals, name)) return plan_value(site.recorder.name_source(globals, name));
  guards::GuardTable& guards = site.recorder.guards();
  if (!value && site.recorder.has_forgotten(globals, name)) return plan_break(Break::kAttribute, "a name that was deleted");
  if (!value) {
    value = PyDict_GetItemWithError(builtins.get(), name);
    guards.require_name(builtins, name, value);
    guards.require_name(globals, name, nullptr);
    return value ? plan_constant() : plan_raise();
  }
  guards.require_name(globals, name, value);
  return plan_constant();
}

void load_global_after(const Site& site, const Plan& plan) {
  const bool with_null = site.instruction.arg2 == 1;
  const int slot = site.depth + (with_null && !layout::kGlobalThenNull ? 1 : 0);
  if (with_null) site.recorder.set_label(site.depth + (layout::kGlobalThenNull ? 1 : 0), 0);
  site.recorder.set_label(slot, plan.kind == Plan::Kind::kConstant ? site.recorder.fixed(site.frame.slot(slot)) : plan.label);
}

// The dict of a module's frame, whose names are its globals; null for class bodies and the like.
Borrowed module_dict(const Site& site) {
  Borrowed locals = cpython::locals_dict_of(site.frame.frame()), globals = cpython::globals_of(site.frame.frame());
  return locals && locals.get() == globals.get() && PyDict_CheckExact(locals.get()) ? locals : Borrowed();
}

// Where exec() was given a dict for the globals.
Plan load_name_of_builtins(const Site& site, uint32_t globals) {
  Recorder& recorder = site.recorder;
  if (const uint32_t known = recorder.value_of_key(recorder.value(globals), name_of(site))) return plan_value(known);
  Borrowed builtins = cpython::builtins_of(site.frame.frame());
  PyObject* const value = PyDict_GetItemWithError(builtins.get(), name_of(site));
  recorder.guards().require_name(builtins, name_of(site), value);
  return value ? plan_constant() : plan_raise();
}

// In a class body that is followed, or what eval() and exec() run.
Plan load_name_of_class(const Site& site) {
  const uint32_t known = site.recorder.value_of_key(site.recorder.value(site.recorder.names()), name_of(site));
  if (known) return plan_value(known);
  if (const uint32_t globals = site.recorder.globals()) return load_name_of_builtins(site, globals);
  return load_global(site);
}

// What stays the same is guarded by identity, as a global is; values are read anew.
Plan load_name(const Site& site) {
  Borrowed dict = module_dict(site);
  Recorder& recorder = site.recorder;
  if (recorder.names()) return load_name_of_class(site);
  if (!dict) return plan_break(Break::kInstruction, "name outside a module");
  if (const uint32_t stored = recorder.stored(dict, name_of(site))) return plan_value(stored);
  PyObject* value = PyDict_GetItemWithError(dict.get(), name_of(site));
  const bool stays = !value || PyModule_Check(value) || PyType_Check(value) || PyCallable_Check(value);
  return stays ? load_global(site) : plan_value(recorder.name_source(dict, name_of(site)));
}

void load_name_after(const Site& site, const Plan& plan) {
  site.recorder.set_label(site.depth, plan.kind == Plan::Kind::kConstant ? site.recorder.fixed(site.frame.slot(site.depth)) : plan.label);
}

void give_name_to_class(Recorder& recorder, PyObject* name, uint32_t label) {
  std::vector<uint32_t> items = recorder.copied_elements(recorder.value(recorder.names()));
  const auto at = [&](size_t i) { return recorder.constant_of(items[i]); };
  size_t place = 0;
  while (place < items.size() && !(at(place) && PyUnicode_CheckExact(at(place)) && PyUnicode_Compare(at(place), name) == 0)) place += 2;
  if (place == items.size()) items.insert(items.end(), {recorder.constant(name), 0});
  items[place + 1] = label;
  recorder.replace(recorder.value(recorder.names()), items);
}
void store_name_of_class(Recorder& recorder, PyObject* name, int slot) {
  give_name_to_class(recorder, name, recorder.label(slot));
  recorder.set_label(slot, 0);
}

Plan store_name(const Site& site) {
  if (const uint32_t names = site.recorder.names()) return site.recorder.is_iterated(names) ? plan_break(Break::kStore, "names that are gone through") : Plan{};
  return store_into(site.recorder, module_dict(site), name_of(site));
}
Plan store_global(const Site& site) { return store_into(site.recorder, cpython::globals_of(site.frame.frame()), name_of(site)); }

void store_name_after(const Site& site, const Plan&) {
  if (site.recorder.names() && site.instruction.op == bytecode::Op::STORE_NAME) return store_name_of_class(site.recorder, name_of(site), site.depth - 1);
  site.recorder.store(cpython::globals_of(site.frame.frame()), name_of(site), site.recorder.label(site.depth - 1));
  site.recorder.set_label(site.depth - 1, 0);
}

// The name is there in every run: the recorded code has stored it, or a guard asks for it. Deleting it is put off, too.
Plan forget(const Site& site, Borrowed dict) {
  Recorder& recorder = site.recorder;
  PyObject* const name = name_of(site);
  Plan plan = store_into(recorder, dict, name);
  if (plan.kind == Plan::Kind::kBreak) return plan;
  if (!PyDict_GetItemWithError(dict.get(), name)) return plan_break(Break::kException, "no such name");
  if (!recorder.stored(dict, name)) recorder.name_source(dict, name);
  return plan;
}
Plan delete_name(const Site& site) { return site.recorder.names() ? plan_break(Break::kInstruction, "del in a class body") : forget(site, module_dict(site)); }
Plan delete_global(const Site& site) { return forget(site, cpython::globals_of(site.frame.frame())); }
void delete_name_after(const Site& site, const Plan&) { site.recorder.forget(cpython::globals_of(site.frame.frame()), name_of(site)); }

Plan no_condition(const Site&) { return {}; }
void copy_free_vars_after(const Site& site, const Plan&) {
  const auto* code = site.frame.code().code.as<PyCodeObject>();
  const int first = code->co_nlocalsplus - site.instruction.arg;
  // The function is guarded and its closure can't change: the cells are constants, their contents are not.
  const uint32_t closure = site.recorder.closure();
  for (int i = first; i < code->co_nlocalsplus; i++) {
    const bool made_here = closure && site.recorder.value(closure).kind == Value::Kind::kTuple;
    site.recorder.set_label(i, made_here ? site.recorder.elements(site.recorder.value(closure))[i - first] : site.recorder.constant(site.frame.slot(i)));
  }
}

// The variable's value moves into a cell, which is known from here on.
void make_cell_after(const Site& site, const Plan&) {
  const int slot = site.instruction.arg;
  site.recorder.set_label(slot, site.recorder.container(Value::Kind::kCell, {site.recorder.label(slot)}));
}

void load_closure_after(const Site& site, const Plan&) {
  site.recorder.set_label(site.depth, site.recorder.label(site.instruction.arg));
}

Plan setup_annotations(const Site& site) { return site.recorder.names() ? Plan{} : plan_break(Break::kInstruction, "SETUP_ANNOTATIONS"); }
void setup_annotations_after(const Site& site, const Plan&) {
  const Ref name = Ref::steal(PyUnicode_InternFromString("__annotations__"));
  if (site.recorder.value_of_key(site.recorder.value(site.recorder.names()), name.get())) return;
  give_name_to_class(site.recorder, name.get(), site.recorder.container(Value::Kind::kDict, {}));
}

Plan load_build_class(const Site& site) {
  Borrowed builtins = cpython::builtins_of(site.frame.frame());
  const Ref name = Ref::steal(PyUnicode_InternFromString("__build_class__"));
  PyObject* const found = PyDict_CheckExact(builtins.get()) ? PyDict_GetItemWithError(builtins.get(), name.get()) : nullptr;
  if (!found) return plan_break(Break::kInstruction, "LOAD_BUILD_CLASS");
  site.recorder.guards().require_name(builtins, name.get(), found);
  return plan_constant();
}

Plan load_locals(const Site& site) { return site.recorder.names() ? plan_value(site.recorder.names()) : plan_break(Break::kInstruction, "LOAD_LOCALS"); }

// The store into a cell from outside is put off to the exit.
Plan store_deref(const Site& site) {
  Recorder& recorder = site.recorder;
  const Value cell = recorder.value_at(site.instruction.arg);
  if (cell.kind == Value::Kind::kCell) return {};
  PyObject* const object = site.frame.slot(site.instruction.arg);
  const bool outside = object && PyCell_Check(object) && (cell.kind == Value::Kind::kSource || cell.kind == Value::Kind::kConstant);
  PyObject* const old = outside ? PyCell_GET(object) : nullptr;
  if (!outside || !recorder.may_put_off() || recorder.tells_if_dropped_outside(old)) {
    return plan_break(Break::kStore, "variable shared with other functions");
  }
  if (cell.kind == Value::Kind::kSource) recorder.guards().require_type(cell.a, object);
  recorder.stored_in_cell(recorder.label(site.instruction.arg), object);  // asks for its guards
  return {};
}
void store_deref_after(const Site& site, const Plan&) {
  Recorder& recorder = site.recorder;
  const Value cell = recorder.value_at(site.instruction.arg);
  const uint32_t stored = recorder.label(site.depth - 1);
  if (cell.kind == Value::Kind::kCell) {
    recorder.append(cell, stored);
  } else {
    recorder.store_in_cell(recorder.label(site.instruction.arg), site.frame.slot(site.instruction.arg), stored);
  }
  recorder.set_label(site.depth - 1, 0);
}

Plan load_deref(const Site& site) {
  const Value cell = site.recorder.value_at(site.instruction.arg);
  if (cell.kind == Value::Kind::kCell) {
    const uint32_t content = site.recorder.elements(cell).back();
    return content ? plan_value(content) : plan_raise();
  }
  if (cell.kind == Value::Kind::kSource) {
    site.recorder.guards().require_type(cell.a, site.frame.slot(site.instruction.arg));
  } else if (cell.kind != Value::Kind::kConstant) {
    return plan_break(Break::kInstruction, "variable shared with an inner function");
  }
  // 0: the label is made once the value is there.
  return plan_value(site.recorder.stored_in_cell(site.recorder.label(site.instruction.arg), site.frame.slot(site.instruction.arg)));
}

uint32_t label_of_cell(const Site& site) { return content_of_cell(site.recorder, site.recorder.label(site.instruction.arg), site.frame.slot(site.instruction.arg)); }

void load_deref_after(const Site& site, const Plan& plan) { site.recorder.set_label(site.depth, plan.label ? plan.label : label_of_cell(site)); }

// A free variable that a name of the class body may be before. 3.12: the names are on the stack.
Plan load_class_deref(const Site& site) {
  Recorder& recorder = site.recorder;
  const bool of_names = site.instruction.op == bytecode::Op::LOAD_CLASSDEREF || recorder.label(site.depth - 1) == recorder.names();
  if (!recorder.names() || !of_names) return plan_break(Break::kInstruction, "variable in a class body");
  PyObject* const name = PyTuple_GET_ITEM(site.frame.code().code.as<PyCodeObject>()->co_localsplusnames, site.instruction.arg);
  const uint32_t known = recorder.value_of_key(recorder.value(recorder.names()), name);
  return known ? plan_value(known) : load_deref(site);
}
void load_class_deref_after(const Site& site, const Plan& plan) {
  const int slot = site.frame.depth() - 1;
  if (plan.label) return site.recorder.set_label(slot, plan.label);
  site.recorder.set_label(slot, label_of_cell(site));
}

// The same of a global.
Plan load_class_global(const Site& site) {
  Recorder& recorder = site.recorder;
  const uint32_t names = recorder.names();
  if (!names || recorder.label(site.depth - 1) != names) return plan_break(Break::kInstruction, "name in a class body");
  return load_name_of_class(site);
}
void load_class_global_after(const Site& site, const Plan& plan) {
  const int slot = site.depth - 1;
  site.recorder.set_label(slot, plan.kind == Plan::Kind::kConstant ? site.recorder.fixed(site.frame.slot(slot)) : plan.label);
}

}  // namespace

uint32_t content_of_cell(Recorder& recorder, uint32_t label, PyObject* cell) {
  const Value of = recorder.value(label);
  guards::Source source{Reach::kCell};
  if (of.kind == Value::Kind::kSource) {
    source.parent = of.a;
  } else {
    source.object = Ref::borrow(cell);
  }
  return recorder.source(std::move(source));
}

PyObject* name_of(const Site& site) {
  return PyTuple_GET_ITEM(site.frame.code().code.as<PyCodeObject>()->co_names, site.instruction.arg);
}

// The store is put off to the exit. An old value that dies there, and not here, must not be able to tell.
Plan store_into(Recorder& recorder, Borrowed dict, PyObject* name) {
  if (!dict || !PyDict_CheckExact(dict.get())) return plan_break(Break::kStore, "name outside a module");
  PyObject* old = PyDict_GetItemWithError(dict.get(), name);
  const bool may_tell = old && ((recorder.is_last_reference(old) && PyType_HasFeature(Py_TYPE(old), Py_TPFLAGS_HEAPTYPE)) || recorder.tells_if_dropped_outside(old));
  if (may_tell) return plan_break(Break::kStore, "old value of type " + type_name(old));
  return recorder.may_put_off() ? Plan{} : plan_break(Break::kStore, "an object with a finaliser was dropped");
}

void add_name_rules(RuleTable& table) {
  using enum bytecode::Op;
  table[static_cast<size_t>(LOAD_GLOBAL)] = {load_global, load_global_after};
  table[static_cast<size_t>(LOAD_NAME)] = {load_name, load_name_after};
  table[static_cast<size_t>(STORE_NAME)] = {store_name, store_name_after};
  table[static_cast<size_t>(STORE_GLOBAL)] = {store_global, store_name_after};
  table[static_cast<size_t>(DELETE_NAME)] = {delete_name, delete_name_after};
  table[static_cast<size_t>(DELETE_GLOBAL)] = {delete_global, delete_name_after};
  table[static_cast<size_t>(COPY_FREE_VARS)] = {no_condition, copy_free_vars_after};
  table[static_cast<size_t>(MAKE_CELL)] = {no_condition, make_cell_after};
  table[static_cast<size_t>(LOAD_CLOSURE)] = {no_condition, load_closure_after};
  table[static_cast<size_t>(STORE_DEREF)] = {store_deref, store_deref_after};
  table[static_cast<size_t>(LOAD_CLASSDEREF)] = {load_class_deref, load_class_deref_after};
  table[static_cast<size_t>(LOAD_FROM_DICT_OR_DEREF)] = {load_class_deref, load_class_deref_after};
  table[static_cast<size_t>(LOAD_FROM_DICT_OR_GLOBALS)] = {load_class_global, load_class_global_after};
  table[static_cast<size_t>(LOAD_LOCALS)] = {load_locals, nullptr};
  table[static_cast<size_t>(SETUP_ANNOTATIONS)] = {setup_annotations, setup_annotations_after};
  table[static_cast<size_t>(LOAD_BUILD_CLASS)] = {load_build_class, nullptr};
  table[static_cast<size_t>(LOAD_DEREF)] = {load_deref, load_deref_after};
}

}  // namespace evalframe::recorder
