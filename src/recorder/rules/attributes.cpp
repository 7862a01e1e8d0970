// Rules for attributes: of arrays, modules, ordinary objects and instances that the recorded code makes; properties; super().
#include "core/builtins.h"
#include "cpython/attributes.h"
#include "cpython/exceptions.h"
#include "cpython/layout.h"
#include "cpython/objects.h"
#include "cpython/versions.h"
#include "frontends/numpy/calls.h"
#include "recorder/rules/rules.h"

namespace evalframe::recorder {

namespace {

using guards::Reach;

// By the recorded code: its attributes are in the journal.
bool is_made(const Value& value) { return value.kind == Value::Kind::kInstance || value.kind == Value::Kind::kException; }

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
  if (!fixes_class(recorder, recorder.value_at(site.depth - 1), object)) return plan_break(Break::kAttribute, "of " + type_name(object));
  Plan plan = inlined_call(site, recorder.constant(function), function, nullptr);
  for (const int slot : arguments) {
    plan.contents.push_back(recorder.label(slot));
    plan.arguments.push_back(site.frame.slot(slot));
  }
  return plan;
}

Plan store_into_instance(Recorder& recorder, uint32_t instance, PyObject* name, uint32_t value) {
  Plan plan;
  plan.changed = instance;
  plan.contents = recorder.copied_elements(recorder.value(instance));
  for (size_t i = 0; i < plan.contents.size(); i += 2) {
    if (recorder.constant_of(plan.contents[i]) == name) return plan.contents[i + 1] = value, std::move(plan);
  }
  plan.contents.insert(plan.contents.end(), {recorder.constant(name), value});
  return plan;
}

// Whether it is this module in every run, by a guard if need be: its attributes are the names of its dict then.
bool is_fixed_module(const Site& site, PyObject* object) {
  Recorder& recorder = site.recorder;
  const Value owner = recorder.value_at(site.depth - 1);
  if (!PyModule_CheckExact(object) || owner.kind == Value::Kind::kConstant) return PyModule_CheckExact(object);
  if (owner.kind != Value::Kind::kSource || recorder.varies(owner.a)) return false;
  recorder.guards().require_identity(owner.a, object);
  return true;
}

// The store is put off to the exit, as that into a name.
Plan store_attr(const Site& site) {
  Recorder& recorder = site.recorder;
  PyObject* const object = site.frame.slot(site.depth - 1);
  PyObject* const name = name_of(site);
  const Value owner = recorder.value_at(site.depth - 1);
  if (PyModule_Check(object)) {
    if (_PyType_Lookup(&PyModule_Type, name) || !is_fixed_module(site, object)) return plan_break(Break::kStore, "attribute of " + type_name(object));
    Plan plan = store_into(recorder, PyModule_GetDict(object), name);
    recorder.guards().require_module(object);
    plan.stored_into = Ref::borrow(object);
    return plan;
  }
  const bool generic = Py_TYPE(object)->tp_setattro == PyObject_GenericSetAttr;
  if (PyObject* const setter = generic ? function_of_property(object, name, "fset") : nullptr) return property_call(site, setter, {site.depth - 1, site.depth - 2});
  const bool plain = is_object(owner) && cpython::is_plain_to_store(object, name);
  PyObject* const old = plain ? cpython::own_value(object, name) : nullptr;
  if (!plain || (old && Py_REFCNT(old) == 1 && tells_of_its_end(old)) || !fixes_class(recorder, owner, object)) return plan_break(Break::kStore, "attribute of " + type_name(object));
  if (is_made(owner)) return store_into_instance(recorder, recorder.label(site.depth - 1), name, recorder.label(site.depth - 2));
  if (!recorder.may_put_off()) return plan_break(Break::kStore, "an object with a finaliser was dropped");
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

PyObject* builtin_getattr() {
  static PyObject* const function = builtin("getattr").get();
  return function;
}

// What `object.method` without a call gives: made again at exits from the function and the object, or (of types in C) by asking
// for it once more.
Plan bound_method(const Site& site, PyObject* method) {
  Recorder& recorder = site.recorder;
  if (!PyFunction_Check(method)) return plan_value(recorder.made(builtin_getattr(), nullptr, {recorder.label(site.depth - 1), recorder.constant(name_of(site))}));
  return plan_value(recorder.made(reinterpret_cast<PyObject*>(&PyMethod_Type), nullptr, {recorder.constant(method), recorder.label(site.depth - 1)}));
}

Plan method_of_array(const Site& site, PyObject* object, PyObject* name) {
  Recorder& recorder = site.recorder;
  PyObject* const found = _PyType_Lookup(Py_TYPE(object), name);
  const uint32_t label = recorder.label(site.depth - 1);
  if (!found && numpy::is_exact_array(object) && recorder.operand(label, object)) return plan_raise();
  if (!found || Py_TYPE(found) != &PyMethodDescr_Type || !recorder.operand(label, object)) return plan_break(Break::kAttribute, "attribute of an array");
  return plan_value(recorder.made(builtin_getattr(), nullptr, {label, recorder.constant(name)}));
}

// --- super() ---------------------------------------------------------------------------------------------------------

// What the classes behind `type` in the order of the object's class have under the name; null: nothing.
Ref found_behind(PyTypeObject* type, PyObject* object, PyObject* name) {
  PyObject* const order = Py_TYPE(object)->tp_mro;
  bool behind = false;
  for (Py_ssize_t i = 0; order && i < PyTuple_GET_SIZE(order); i++) {
    PyObject* const base = PyTuple_GET_ITEM(order, i);
    if (behind) {
      const Ref names = Ref::steal(PyObject_GetAttrString(base, "__dict__"));
      Ref found = names ? Ref::steal(PyObject_GetItem(names.get(), name)) : Ref();
      if (found) return found;
      PyErr_Clear();
    }
    behind = behind || base == reinterpret_cast<PyObject*>(type);
  }
  return Ref();
}

// super(type, object).name, of a method.
Plan super_attribute(const Site& site, uint32_t type, uint32_t self, PyObject* object) {
  Recorder& recorder = site.recorder;
  PyObject* const of = recorder.constant_of(type);
  if (!of || !is_object(recorder.value(self)) || !fixes_class(recorder, recorder.value(self), object)) return plan_break(Break::kAttribute, "of super");
  const Ref found = found_behind(reinterpret_cast<PyTypeObject*>(of), object, name_of(site));
  if (found && PyFunction_Check(found.get())) {
    return plan_value(recorder.made(reinterpret_cast<PyObject*>(&PyMethod_Type), nullptr, {recorder.constant(found.get()), self}));
  }
  if (found && recorder.is_exception(self) && cpython::keeps_arguments_only(found.get())) return exception_initializer(recorder, found.get(), self);
  if (found && found.get() == object_initializer()) return plan_value(recorder.made(bound_initializer(), nullptr, {self}));
  return plan_break(Break::kAttribute, "of super");
}

// An attribute of an array is read in the graph, or is a constant where the guards already fix it.
Plan array_attribute(const Site& site, PyObject* object, PyObject* name) {
  Recorder& recorder = site.recorder;
  if (!numpy::is_array_attribute(name)) return method_of_array(site, object, name);
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

// A list, a dict or a bound method of C's: what a library puts in its place is another object each time (warnings.filters).
bool is_replaced_by_habit(PyObject* value) {
  const bool bound = PyCFunction_Check(value) && PyCFunction_GET_SELF(value) && !PyModule_Check(PyCFunction_GET_SELF(value));
  return bound || PyList_CheckExact(value) || PyDict_CheckExact(value);
}

Plan module_attribute(const Site& site, PyObject* module, PyObject* name) {
  PyObject* dict = PyModule_GetDict(module);
  site.recorder.guards().require_module(module);
  if (const uint32_t stored = site.recorder.stored(dict, name)) return plan_value(stored);
  PyObject* value = PyDict_GetItemWithError(dict, name);
  if (!value) return plan_break(Break::kAttribute, "made by the module's __getattr__");
  if (is_replaced_by_habit(value)) return plan_value(site.recorder.name_source(dict, name));
  site.recorder.guards().require_name(dict, name, value);
  return plan_constant();
}

// The function that the object's class gives for the name, where nothing of the instance's own is before it; guarded. Null:
// another attribute.
PyObject* method_of(const Site& site, PyObject* object, PyObject* name) {
  Recorder& recorder = site.recorder;
  const uint32_t label = recorder.label(site.depth - 1);
  const Value owner = recorder.value(label);
  if (!is_object(owner) || Py_TYPE(object)->tp_getattro != PyObject_GenericGetAttr) return nullptr;
  PyObject* const found = _PyType_Lookup(Py_TYPE(object), name);
  if (!found || !PyType_HasFeature(Py_TYPE(found), Py_TPFLAGS_METHOD_DESCRIPTOR) || !fixes_class(recorder, owner, object)) return nullptr;
  if (is_made(owner)) return recorder.attribute_of(owner, name) ? nullptr : found;
  const Ref method = cpython::bound_function(object, name);
  if (!method || recorder.stored_attribute(label, object, name)) return nullptr;
  guards::Source source{Reach::kMethod};
  source.parent = owner.a;
  source.object = Ref::borrow(name);
  recorder.guards().require_identity(recorder.value(recorder.source(std::move(source))).a, method.get());
  return found;
}

// What an instance has itself is known; what its class has stays as it is.
Plan instance_attribute(const Site& site, const Value& owner, PyObject* object, PyObject* name) {
  if (const uint32_t own = site.recorder.attribute_of(owner, name)) return plan_value(own);
  PyObject* const found = _PyType_Lookup(Py_TYPE(object), name);
  if (!found) return plan_raise();
  if (Py_IS_TYPE(found, &PyMemberDescr_Type)) return plan_break(Break::kException, "no such attribute");
  return Py_TYPE(found)->tp_descr_get && !Py_IS_TYPE(found, &PyStaticMethod_Type) ? plan_break(Break::kAttribute, "of " + type_name(object)) : plan_constant();
}

// Whether Class.name is looked up in the class and its bases alone, and that stays so.
bool reads_class_plainly(Recorder& recorder, PyObject* type, PyObject* name) {
  return Py_TYPE(type)->tp_getattro == PyType_Type.tp_getattro && !_PyType_Lookup(Py_TYPE(type), name) && fixes_metaclass(recorder, type);
}

std::string class_name(PyObject* type) { return reinterpret_cast<PyTypeObject*>(type)->tp_name; }

// Class.name: what the class has, as long as it stays as it is.
Plan class_attribute(const Site& site, PyObject* object, PyObject* name) {
  Recorder& recorder = site.recorder;
  PyObject* const found = _PyType_Lookup(reinterpret_cast<PyTypeObject*>(object), name);
  if (!reads_class_plainly(recorder, object, name) || !found || !PyType_HasFeature(Py_TYPE(found), Py_TPFLAGS_IMMUTABLETYPE)) return plan_break(Break::kAttribute, "of class " + class_name(object));
  // A method of C's class is bound to the class: it is another object each time, and does the same.
  const bool of_class = Py_IS_TYPE(found, &PyClassMethodDescr_Type) && is_written_in_c(reinterpret_cast<PyTypeObject*>(object));
  const bool plain = !Py_TYPE(found)->tp_descr_get || PyFunction_Check(found) || Py_IS_TYPE(found, &PyStaticMethod_Type) || of_class;
  if (!plain || !recorder.fix_class(object)) return plan_break(Break::kAttribute, "of class " + class_name(object));
  return plan_constant();
}

// The function of a class method that the class gives for the name; null: another attribute.
Ref function_of_class_method(PyTypeObject* type, PyObject* name) {
  PyObject* const found = _PyType_Lookup(type, name);
  Ref function = found && Py_IS_TYPE(found, &PyClassMethod_Type) ? Ref::steal(PyObject_GetAttrString(found, "__func__")) : Ref();
  if (!function) PyErr_Clear();
  return function && PyFunction_Check(function.get()) ? std::move(function) : Ref();
}

Plan class_method(Recorder& recorder, PyObject* function, PyTypeObject* type) {
  return plan_value(recorder.made(reinterpret_cast<PyObject*>(&PyMethod_Type), nullptr, {recorder.constant(function), recorder.constant(type)}));
}

// (3).real, date.year: what types in C keep in their immutable objects.
bool is_fact_of_immutable(Recorder& recorder, uint32_t label, PyObject* object, PyObject* name) {
  if (!is_written_in_c(Py_TYPE(object)) || Py_TYPE(object)->tp_getattro != PyObject_GenericGetAttr || !is_immutable(object) || PyType_Check(object)) return false;
  PyObject* const found = _PyType_Lookup(Py_TYPE(object), name);
  const bool kept = found && (Py_IS_TYPE(found, &PyGetSetDescr_Type) || Py_IS_TYPE(found, &PyMemberDescr_Type));
  // Ranges that are equal may have other ends.
  if (PyRange_Check(object) && recorder.value(label).kind != Value::Kind::kConstant) return false;
  return kept && !recorder.is_input_number(label, object) && recorder.known(label, object);
}

Plan object_attribute(const Site& site, PyObject* object, PyObject* name) {
  Recorder& recorder = site.recorder;
  const uint32_t label = recorder.label(site.depth - 1);
  const Value owner = recorder.value(label);
  if (owner.kind == Value::Kind::kConstant && PyType_Check(object)) {
    const Ref function = function_of_class_method(reinterpret_cast<PyTypeObject*>(object), name);
    if (function && reads_class_plainly(recorder, object, name) && recorder.fix_class(object)) {
      return class_method(recorder, function.get(), reinterpret_cast<PyTypeObject*>(object));
    }
    return class_attribute(site, object, name);
  }
  if (owner.kind == Value::Kind::kConstant && is_dtype_fact(object, name)) return plan_constant();
  if (is_fact_of_immutable(recorder, label, object, name)) return plan_constant();
  if (!is_object(owner) || !cpython::is_plain_to_load(object, name) || !fixes_class(recorder, owner, object)) {
    return plan_break(Break::kAttribute, "of " + type_name(object));
  }
  if (is_made(owner) && !recorder.attribute_of(owner, name)) {
    if (const Ref function = function_of_class_method(Py_TYPE(object), name)) return class_method(recorder, function.get(), Py_TYPE(object));
  }
  if (is_made(owner)) return instance_attribute(site, owner, object, name);
  // 0: the label is made once the attribute is there.
  return plan_value(recorder.stored_attribute(label, object, name));
}

Plan load_attr(const Site& site) {
  PyObject* object = site.frame.slot(site.depth - 1);
  PyObject* name = name_of(site);
  if (site.recorder.is_graph_value(site.recorder.label(site.depth - 1), object)) return array_attribute(site, object, name);
  if (is_fixed_module(site, object)) return module_attribute(site, object, name);
  if (PyModule_Check(object)) return plan_break(Break::kAttribute, "of " + type_name(object));
  if (std::optional<Plan> plan = exception_attribute(site, object, name)) return *std::move(plan);
  const bool generic = Py_TYPE(object)->tp_getattro == PyObject_GenericGetAttr;
  if (PyObject* const getter = generic ? function_of_property(object, name, "fget") : nullptr) return property_call(site, getter, {site.depth - 1});
  if (PyObject* const method = method_of(site, object, name)) return bound_method(site, method);
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
  if (is_fixed_module(site, object)) return module_attribute(site, object, name);
  if (PyModule_Check(object)) return plan_break(Break::kAttribute, "of " + type_name(object));
  PyObject* found = _PyType_Lookup(Py_TYPE(object), name);
  const bool is_method = found && PyType_HasFeature(Py_TYPE(found), Py_TPFLAGS_METHOD_DESCRIPTOR);
  const Value owner = recorder.value_at(site.depth - 1);
  if (is_method && recorder.is_graph_value(recorder.label(site.depth - 1), object)) {
    return recorder.operand(recorder.label(site.depth - 1), object) ? plan_value(0) : plan_break(Break::kAttribute, type_name(object));
  }
  if (is_method && owner.kind == Value::Kind::kList && PyList_CheckExact(object)) return plan_value(0);
  if (is_method && owner.kind == Value::Kind::kDict && PyDict_CheckExact(object)) return plan_value(0);
  if (is_method && owner.kind == Value::Kind::kReplayed) return plan_value(0);
  if (is_method && owner.kind == Value::Kind::kSource && (PyDict_CheckExact(object) || PyList_CheckExact(object))) {
    recorder.guards().require_type(owner.a, object);
    return plan_value(0);
  }
  if (recorder.is_super(recorder.label(site.depth - 1))) {
    const Ref self = Ref::steal(PyObject_GetAttrString(object, "__self__"));
    return super_attribute(site, recorder.elements(owner)[2], recorder.elements(owner)[3], self.get());
  }
  if (std::optional<Plan> plan = exception_attribute(site, object, name)) return *std::move(plan);
  if (method_of(site, object, name)) return plan_value(0);
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

// [super, class, object] -> what super(class, object) has; behind it or below it NULL, where it is to be called.
Plan load_super_attr(const Site& site) {
  Recorder& recorder = site.recorder;
  const int global = site.depth - 3;
  if (recorder.constant_of(recorder.label(global)) != reinterpret_cast<PyObject*>(&PySuper_Type)) return plan_break(Break::kAttribute, "of super");
  PyObject* const type = site.frame.slot(global + 1);
  const Value of = recorder.value_at(global + 1);
  if (of.kind == Value::Kind::kSource) recorder.guards().require_identity(of.a, type);
  if ((of.kind != Value::Kind::kSource && of.kind != Value::Kind::kConstant) || !PyType_Check(type)) return plan_break(Break::kAttribute, "of super");
  return super_attribute(site, recorder.constant(type), recorder.label(global + 2), site.frame.slot(global + 2));
}

void load_super_attr_after(const Site& site, const Plan& plan) {
  const int depth = site.frame.depth();
  for (int i = site.depth - 3; i < site.depth; i++) site.recorder.set_label(i, 0);
  const bool method = depth == site.depth - 1;
  site.recorder.set_label(method && cpython::layout::kSelfAfterCallable ? depth - 2 : depth - 1, plan.label);
}

}  // namespace

// What the class has, if getting it is no more than that; the class is guarded.
static Attribute attribute_of_class(Recorder& recorder, PyObject* found) {
  PyTypeObject* const type = Py_TYPE(found);
  if (type->tp_descr_get) return {};
  const bool may_become_descriptor = !PyType_HasFeature(type, Py_TPFLAGS_IMMUTABLETYPE);
  if (may_become_descriptor && !recorder.fix_class(reinterpret_cast<PyObject*>(type))) return {};
  return {Attribute::State::kKnown, recorder.fixed(found)};
}

Attribute known_attribute(Recorder& recorder, uint32_t label, PyObject* object, PyObject* name) {
  const Value owner = recorder.value(label);
  PyTypeObject* const type = Py_TYPE(object);
  if (owner.kind == Value::Kind::kException || !is_object(owner)) return {};
  if (!cpython::is_plain_to_load(object, name) || !fixes_class(recorder, owner, object)) return {};
  PyObject* const found = _PyType_Lookup(type, name);
  const Attribute missing{type->tp_getattro == PyObject_GenericGetAttr ? Attribute::State::kMissing : Attribute::State::kUnknown};
  if (is_made(owner)) {
    if (const uint32_t own = recorder.attribute_of(owner, name)) return {Attribute::State::kKnown, own};
    if (!found || Py_IS_TYPE(found, &PyMemberDescr_Type)) return missing;
    return attribute_of_class(recorder, found);
  }
  if (const uint32_t stored = recorder.stored_attribute(label, object, name)) return {Attribute::State::kKnown, stored};
  if (!cpython::own_value(object, name)) {
    if (found) return Py_IS_TYPE(found, &PyMemberDescr_Type) ? Attribute{} : attribute_of_class(recorder, found);
    if (missing.state == Attribute::State::kMissing) recorder.guards().require_lacks(owner.a, name);
    return missing;
  }
  guards::Source source{Reach::kAttribute};
  source.parent = owner.a;
  source.object = Ref::borrow(name);
  return {Attribute::State::kKnown, recorder.source(std::move(source))};
}

bool is_object(const Value& value) { return value.kind == Value::Kind::kSource || is_made(value); }
bool fixes_class(Recorder& recorder, const Value& owner, PyObject* object) {
  return is_made(owner) || (owner.kind == Value::Kind::kSource && recorder.guards().require_type_version(owner.a, object));
}

bool fixes_metaclass(Recorder& recorder, PyObject* type) { return Py_TYPE(type) == &PyType_Type || recorder.fix_class(Py_TYPE(type)); }

PyObject* object_initializer() {
  static PyObject* const found = PyObject_GetAttrString(reinterpret_cast<PyObject*>(&PyBaseObject_Type), "__init__");
  return found;
}
PyObject* bound_initializer() {
  static PyObject* const get = PyObject_GetAttrString(object_initializer(), "__get__");
  return get;
}

void add_attribute_rules(RuleTable& table) {
  using enum bytecode::Op;
  table[static_cast<size_t>(LOAD_ATTR)] = {load_attr, load_attr_after};
  table[static_cast<size_t>(LOAD_METHOD)] = {load_method, load_method_after};
  table[static_cast<size_t>(LOAD_SUPER_ATTR)] = {load_super_attr, load_super_attr_after};
  table[static_cast<size_t>(STORE_ATTR)] = {store_attr, store_attr_after};
}

}  // namespace evalframe::recorder
