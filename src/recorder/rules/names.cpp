// Rules for globals, attributes, methods and closures: what is read from outside becomes a guarded source or a constant.
#include "cpython/attributes.h"
#include "cpython/frame.h"
#include "cpython/layout.h"
#include "cpython/objects.h"
#include "cpython/versions.h"
#include "frontends/numpy/calls.h"
#include "recorder/rules/rules.h"

namespace evalframe::recorder {

namespace {

namespace layout = cpython::layout;
using guards::Reach;

PyObject* name_of(const Site& site) {
  return PyTuple_GET_ITEM(site.frame.code().code.as<PyCodeObject>()->co_names, site.instruction.arg);
}

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
  if (!value) {
    value = PyDict_GetItemWithError(builtins.get(), name);
    if (!value) return plan_break(Break::kException, "name is not defined");
    guards.require_name(builtins, name, value);
    guards.require_name(globals, name, nullptr);
    return plan_constant();
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

// What stays the same is guarded by identity, as a global is; values are read anew.
Plan load_name(const Site& site) {
  Borrowed dict = module_dict(site);
  if (!dict) return plan_break(Break::kInstruction, "name outside a module");
  Recorder& recorder = site.recorder;
  if (const uint32_t stored = recorder.stored(dict, name_of(site))) return plan_value(stored);
  PyObject* value = PyDict_GetItemWithError(dict.get(), name_of(site));
  const bool stays = !value || PyModule_Check(value) || PyType_Check(value) || PyCallable_Check(value);
  return stays ? load_global(site) : plan_value(recorder.name_source(dict, name_of(site)));
}

void load_name_after(const Site& site, const Plan& plan) {
  site.recorder.set_label(site.depth, plan.kind == Plan::Kind::kConstant ? site.recorder.fixed(site.frame.slot(site.depth)) : plan.label);
}

// The store is put off to the exit. An old value that dies there, and not here, must not be able to tell.
Plan store_into(Borrowed dict, PyObject* name) {
  if (!dict || !PyDict_CheckExact(dict.get())) return plan_break(Break::kStore, "name outside a module");
  PyObject* old = PyDict_GetItemWithError(dict.get(), name);
  const bool may_tell = old && Py_REFCNT(old) == 1 && PyType_HasFeature(Py_TYPE(old), Py_TPFLAGS_HEAPTYPE);
  return may_tell ? plan_break(Break::kStore, "old value of type " + type_name(old)) : Plan{};
}
Plan store_name(const Site& site) { return store_into(module_dict(site), name_of(site)); }
Plan store_global(const Site& site) { return store_into(cpython::globals_of(site.frame.frame()), name_of(site)); }

void store_name_after(const Site& site, const Plan&) {
  site.recorder.store(cpython::globals_of(site.frame.frame()), name_of(site), site.recorder.label(site.depth - 1));
  site.recorder.set_label(site.depth - 1, 0);
}

// The Python function that a property of the class calls ("fget", "fset"), to be followed as a call of it; null: another attribute.
PyObject* function_of_property(PyObject* object, PyObject* name, const char* which) {
  PyObject* const found = _PyType_Lookup(Py_TYPE(object), name);
  if (!found || Py_TYPE(found) != &PyProperty_Type) return nullptr;
  const Ref function = Ref::steal(PyObject_GetAttrString(found, which));  // a member, which the property holds
  if (!function) PyErr_Clear();
  return function && is_plain_function(function.get()) ? function.get() : nullptr;
}

// obj.prop and obj.prop = value: the operands are the arguments.
Plan property_call(const Site& site, PyObject* function, const std::vector<int>& arguments) {
  Recorder& recorder = site.recorder;
  PyObject* const object = site.frame.slot(site.depth - 1);
  const Value owner = recorder.value_at(site.depth - 1);
  if (owner.kind != Value::Kind::kSource || !recorder.guards().require_type_version(owner.a, object)) return plan_break(Break::kAttribute, "of " + type_name(object));
  Plan plan = inlined_call(site, recorder.constant(function), function, nullptr);
  for (const int slot : arguments) {
    plan.contents.push_back(recorder.label(slot));
    plan.arguments.push_back(site.frame.slot(slot));
  }
  return plan;
}

// Whether someone is told when the object dies: a finaliser, or a weak reference.
bool tells_of_its_end(PyObject* object) {
  const PyTypeObject* const type = Py_TYPE(object);
  if (Py_REFCNT(object) != 1) return false;
  return type->tp_finalize || type->tp_del || (type->tp_weaklistoffset && *reinterpret_cast<PyObject**>(reinterpret_cast<char*>(object) + type->tp_weaklistoffset));
}

// The store is put off to the exit, as that into a name.
Plan store_attr(const Site& site) {
  Recorder& recorder = site.recorder;
  PyObject* const object = site.frame.slot(site.depth - 1);
  PyObject* const name = name_of(site);
  const Value owner = recorder.value_at(site.depth - 1);
  if (PyModule_CheckExact(object) && owner.kind == Value::Kind::kConstant && !_PyType_Lookup(&PyModule_Type, name)) {
    Plan plan = store_into(PyModule_GetDict(object), name);
    plan.stored_into = Ref::borrow(object);
    return plan;
  }
  const bool generic = Py_TYPE(object)->tp_setattro == PyObject_GenericSetAttr;
  if (PyObject* const setter = generic ? function_of_property(object, name, "fset") : nullptr) return property_call(site, setter, {site.depth - 1, site.depth - 2});
  const bool plain = owner.kind == Value::Kind::kSource && cpython::is_plain_to_store(object, name);
  PyObject* const old = plain ? cpython::own_value(object, name) : nullptr;
  if (!plain || (old && tells_of_its_end(old)) || !recorder.guards().require_type_version(owner.a, object)) {
    return plan_break(Break::kStore, "attribute of " + type_name(object));
  }
  recorder.stored_attribute(recorder.label(site.depth - 1), object, name);  // asks for its guards
  Plan plan;
  plan.stored_into = Ref::borrow(object);
  return plan;
}

void store_attr_after(const Site& site, const Plan& plan) {
  Recorder& recorder = site.recorder;
  const uint32_t owner = recorder.label(site.depth - 1), stored = recorder.label(site.depth - 2);
  if (plan.stored_into && PyModule_CheckExact(plan.stored_into.get())) {
    recorder.store(PyModule_GetDict(plan.stored_into.get()), name_of(site), stored);
  } else if (plan.stored_into) {
    recorder.store_attribute(owner, plan.stored_into.get(), name_of(site), stored);
  }
  recorder.set_label(site.depth - 1, 0);
  recorder.set_label(site.depth - 2, 0);
}

// An attribute of an array is read in the graph, or is a constant where the guards already fix it.
Plan array_attribute(const Site& site, PyObject* object, PyObject* name) {
  if (!numpy::is_array_attribute(name)) return plan_break(Break::kAttribute, "attribute of an array");
  Recorder& recorder = site.recorder;
  Plan plan;
  plan.kind = Plan::Kind::kNode;
  plan.form = graph::Form::kGetAttr;
  plan.callable = name;
  plan.of_shapes = numpy::is_metadata_attribute(name);
  plan.operands = {recorder.operand(recorder.label(site.depth - 1), object)};
  if (!plan.operands[0]) return plan_break(Break::kAttribute, "attribute of " + type_name(object));
  const bool is_dtype = PyUnicode_CompareWithASCIIString(name, "dtype") == 0;
  const bool is_rank = PyUnicode_CompareWithASCIIString(name, "ndim") == 0;
  const bool is_input = plan.operands[0].space == graph::Operand::Space::kInput;
  const bool fixes_dtype = is_input || numpy::is_array(object);
  if (is_dtype) return fixes_dtype ? plan_constant() : plan_break(Break::kAttribute, "dtype of a computed object");
  if (is_input && is_rank && numpy::is_exact_array(object)) return plan_constant();
  return plan;
}

Plan module_attribute(const Site& site, PyObject* module, PyObject* name) {
  PyObject* dict = PyModule_GetDict(module);
  if (const uint32_t stored = site.recorder.stored(dict, name)) return plan_value(stored);
  PyObject* value = PyDict_GetItemWithError(dict, name);
  if (!value) return plan_break(Break::kAttribute, "made by the module's __getattr__");
  site.recorder.guards().require_name(dict, name, value);
  return plan_constant();
}

// The source of a value, making one for a constant object where needed: constants are reached by identity already.
Plan object_attribute(const Site& site, PyObject* object, PyObject* name) {
  Recorder& recorder = site.recorder;
  const Value owner = recorder.value_at(site.depth - 1);
  if (owner.kind == Value::Kind::kConstant && is_dtype_fact(object, name)) return plan_constant();
  if (owner.kind != Value::Kind::kSource || !cpython::is_plain_to_load(object, name)) return plan_break(Break::kAttribute, "of " + type_name(object));
  if (!recorder.guards().require_type_version(owner.a, object)) return plan_break(Break::kAttribute, "of " + type_name(object));
  // 0: the label is made once the attribute is there.
  return plan_value(recorder.stored_attribute(recorder.label(site.depth - 1), object, name));
}

Plan load_attr(const Site& site) {
  PyObject* object = site.frame.slot(site.depth - 1);
  PyObject* name = name_of(site);
  if (site.recorder.is_graph_value(site.recorder.label(site.depth - 1), object)) return array_attribute(site, object, name);
  if (PyModule_CheckExact(object) && site.recorder.value_at(site.depth - 1).kind == Value::Kind::kConstant) return module_attribute(site, object, name);
  const bool generic = Py_TYPE(object)->tp_getattro == PyObject_GenericGetAttr;
  if (PyObject* const getter = generic ? function_of_property(object, name, "fget") : nullptr) return property_call(site, getter, {site.depth - 1});
  return object_attribute(site, object, name);
}

uint32_t attribute_label(const Site& site, const Plan& plan, int slot, const Value& owner) {
  if (plan.label) return plan.label;
  if (plan.kind == Plan::Kind::kConstant) return site.recorder.fixed(site.frame.slot(slot));
  guards::Source source{Reach::kAttribute};
  source.parent = owner.a;
  source.object = Ref::borrow(name_of(site));
  return site.recorder.source(std::move(source));
}

void load_attr_after(const Site& site, const Plan& plan) {
  const int slot = site.depth - 1;
  if (plan.kind == Plan::Kind::kNode) {
    const int32_t node = site.recorder.add_node(plan, site.frame.slot(slot));
    return site.recorder.set_label(slot, site.recorder.node_value(node, plan.of_shapes));
  }
  const Value owner = site.recorder.value_at(slot);
  site.recorder.set_label(slot, attribute_label(site, plan, slot, owner));
}

// LOAD_METHOD on an array or a guarded object: the function is a constant, self keeps its label.
Plan load_method(const Site& site) {
  PyObject* object = site.frame.slot(site.depth - 1);
  PyObject* name = name_of(site);
  Recorder& recorder = site.recorder;
  if (PyModule_CheckExact(object) && recorder.value_at(site.depth - 1).kind == Value::Kind::kConstant) return module_attribute(site, object, name);
  PyObject* found = _PyType_Lookup(Py_TYPE(object), name);
  const bool is_method = found && PyType_HasFeature(Py_TYPE(found), Py_TPFLAGS_METHOD_DESCRIPTOR);
  const Value owner = recorder.value_at(site.depth - 1);
  if (is_method && recorder.is_graph_value(recorder.label(site.depth - 1), object)) {
    return recorder.operand(recorder.label(site.depth - 1), object) ? plan_value(0) : plan_break(Break::kAttribute, type_name(object));
  }
  if (is_method && owner.kind == Value::Kind::kList && PyList_CheckExact(object)) return plan_value(0);
  if (is_method && owner.kind == Value::Kind::kDict && PyDict_CheckExact(object)) return plan_value(0);
  if (is_method && owner.kind == Value::Kind::kSource && PyDict_CheckExact(object)) {
    recorder.guards().require_type(owner.a, object);
    return plan_value(0);
  }
  if (is_method && owner.kind == Value::Kind::kSource && Py_TYPE(object)->tp_getattro == PyObject_GenericGetAttr &&
      recorder.guards().require_type_version(owner.a, object)) {
    const Ref method = cpython::bound_function(object, name);
    if (!method || recorder.stored_attribute(recorder.label(site.depth - 1), object, name)) return object_attribute(site, object, name);
    guards::Source source{Reach::kMethod};
    source.parent = owner.a;
    source.object = Ref::borrow(name);
    recorder.guards().require_identity(recorder.value(recorder.source(std::move(source))).a, method.get());
    return plan_value(0);
  }
  if (is_method && owner.kind == Value::Kind::kConstant && !PyType_Check(object) && PyType_HasFeature(Py_TYPE(object), Py_TPFLAGS_IMMUTABLETYPE)) {
    return plan_value(0);
  }
  return object_attribute(site, object, name);
}

void load_method_after(const Site& site, const Plan& plan) {
  Recorder& recorder = site.recorder;
  const int low = site.depth - 1;
  const uint32_t self = recorder.label(low);
  // [method, self] or, where nothing was bound, [NULL, value] (3.13: [value, NULL]).
  const bool bound = site.frame.slot(low) && site.frame.slot(low + 1);
  if (bound) {
    recorder.set_label(low, recorder.constant(site.frame.slot(low)));
    return recorder.set_label(low + 1, self);
  }
  const int slot = site.frame.slot(low) ? low : low + 1;
  const Value owner = recorder.value(self);
  const uint32_t label = attribute_label(site, plan, slot, owner);
  recorder.set_label(low, 0);
  recorder.set_label(low + 1, 0);
  recorder.set_label(slot, label);
}

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

Plan store_deref(const Site& site) {
  const bool made_here = site.recorder.value_at(site.instruction.arg).kind == Value::Kind::kCell;
  return made_here ? Plan{} : plan_break(Break::kStore, "variable shared with other functions");
}
void store_deref_after(const Site& site, const Plan&) {
  site.recorder.append(site.recorder.value_at(site.instruction.arg), site.recorder.label(site.depth - 1));
  site.recorder.set_label(site.depth - 1, 0);
}

Plan load_deref(const Site& site) {
  const Value cell = site.recorder.value_at(site.instruction.arg);
  if (cell.kind == Value::Kind::kCell) {
    const uint32_t content = site.recorder.elements(cell).back();
    return content ? plan_value(content) : plan_break(Break::kException, "variable without a value");
  }
  if (cell.kind != Value::Kind::kConstant) return plan_break(Break::kInstruction, "variable shared with an inner function");
  return plan_value(0);
}

void load_deref_after(const Site& site, const Plan& plan) {
  if (plan.label) return site.recorder.set_label(site.depth, plan.label);
  guards::Source source{Reach::kCell};
  source.object = Ref::borrow(site.frame.slot(site.instruction.arg));
  site.recorder.set_label(site.depth, site.recorder.source(std::move(source)));
}

}  // namespace

void add_name_rules(RuleTable& table) {
  using enum bytecode::Op;
  table[static_cast<size_t>(LOAD_GLOBAL)] = {load_global, load_global_after};
  table[static_cast<size_t>(LOAD_NAME)] = {load_name, load_name_after};
  table[static_cast<size_t>(STORE_NAME)] = {store_name, store_name_after};
  table[static_cast<size_t>(STORE_GLOBAL)] = {store_global, store_name_after};
  table[static_cast<size_t>(LOAD_ATTR)] = {load_attr, load_attr_after};
  table[static_cast<size_t>(STORE_ATTR)] = {store_attr, store_attr_after};
  table[static_cast<size_t>(LOAD_METHOD)] = {load_method, load_method_after};
  table[static_cast<size_t>(COPY_FREE_VARS)] = {no_condition, copy_free_vars_after};
  table[static_cast<size_t>(MAKE_CELL)] = {no_condition, make_cell_after};
  table[static_cast<size_t>(LOAD_CLOSURE)] = {no_condition, load_closure_after};
  table[static_cast<size_t>(STORE_DEREF)] = {store_deref, store_deref_after};
  table[static_cast<size_t>(LOAD_DEREF)] = {load_deref, load_deref_after};
}

}  // namespace evalframe::recorder
