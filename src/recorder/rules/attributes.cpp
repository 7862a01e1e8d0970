// Rules for attributes: of arrays, modules, ordinary objects and instances that the recorded code makes; properties; super().
#include <algorithm>
#include <string_view>

#include "core/builtins.h"
#include "core/kept_name.h"
#include "core/object_text.h"
#include "cpython/attributes.h"
#include "cpython/classes.h"
#include "cpython/exceptions.h"
#include "cpython/layout.h"
#include "cpython/objects.h"
#include "cpython/versions.h"
#include "frontends/numpy/calls.h"
#include "frontends/torch/tensors.h"
#include "recorder/rules/rules.h"
#include "recorder/rules/torch_modules.h"

namespace evalframe::recorder {

PyObject* builtin_getattr() {
  static PyObject* const function = builtin<"getattr">().get();
  return function;
}

namespace {

using guards::Reach;

// By the recorded code: its attributes are in the journal.
bool is_made(const Value& value) { return value.kind == Value::Kind::kInstance || value.kind == Value::Kind::kMapping || value.kind == Value::Kind::kException; }

// A property, or an instance of a class of the program's that gets and stores as properties do.
bool is_property(PyObject* object) {
  const PyTypeObject* const type = Py_TYPE(object);
  return PyObject_TypeCheck(object, &PyProperty_Type) && type->tp_descr_get == PyProperty_Type.tp_descr_get && type->tp_descr_set == PyProperty_Type.tp_descr_set;
}

// The Python function that a property of the class calls ("fget", "fset", "fdel"), to be followed as a call of it; null: another attribute.
PyObject* function_of_property(PyTypeObject* type, PyObject* name, const char* which) {
  PyObject* const found = _PyType_Lookup(type, name);
  if (!found || !is_property(found)) return nullptr;
  PyObject* const member = _PyType_Lookup(&PyProperty_Type, kept_name(which));
  const Ref function = Ref::steal(Py_TYPE(member)->tp_descr_get(member, found, nullptr));  // which the property holds
  if (!function) PyErr_Clear();
  return function && is_plain_function(function.get()) ? function.get() : nullptr;
}

// A function of Python's that the class has under the name; null: nothing, or something else.
PyObject* python_method(PyTypeObject* type, const char* text) {
  PyObject* const found = cpython::lookup(type, text);
  return found && is_plain_function(found) ? found : nullptr;
}

bool has(PyTypeObject* type, const char* text) { return cpython::lookup(type, text); }

// obj.prop, obj.prop = value and the like, where the class has a function for it.
Plan hook_call(const Site& site, PyObject* function, std::initializer_list<Operated> arguments) {
  Plan plan = inlined_call(site, site.recorder.constant(function), function, nullptr);
  for (const Operated& argument : arguments) give(plan, argument);
  return plan;
}
Operated constant_argument(Recorder& recorder, PyObject* object) { return {recorder.fixed(object), object}; }

Asked asked_by(const Site& site) { return {site.recorder.label(site.depth - 1), site.frame.slot(site.depth - 1), name_of(site)}; }

// What a function of the class's gives for an attribute. If it raises AttributeError, the class's __getattr__ is asked.
Plan getter_call(const Site& site, const Asked& asked, PyObject* function, std::initializer_list<Operated> arguments) {
  if (!has(Py_TYPE(asked.object), "__getattr__")) return hook_call(site, function, arguments);
  PyObject* const hook = python_method(Py_TYPE(asked.object), "__getattr__");
  std::optional<Plan> plan = hook ? stand_in_call(site, "attribute_or_asked", nullptr) : std::nullopt;
  if (!plan) return plan_break(Break::kAttribute, "of " + type_name(asked.object));
  Recorder& recorder = site.recorder;
  give(*plan, {asked.label, asked.object});
  for (PyObject* const known : {asked.name, hook, function}) give(*plan, {recorder.constant(known), known});
  for (const Operated& argument : arguments) give(*plan, argument);
  return *std::move(plan);
}

// What a class has stays what it is, and so do its own __get__ and __set__.
bool fixes_descriptor(Recorder& recorder, PyObject* found) {
  PyTypeObject* const type = Py_TYPE(found);
  return PyType_HasFeature(type, Py_TPFLAGS_IMMUTABLETYPE) || recorder.fix_class(reinterpret_cast<PyObject*>(type));
}

Plan store_into_instance(Recorder& recorder, uint32_t instance, PyObject* name, uint32_t value) {
  Plan plan;
  plan.changed = instance;
  plan.contents = recorder.copied_elements(recorder.value(instance));
  for (size_t i = 0; i < plan.contents.size(); i += 2) {
    if (recorder.constant_of(plan.contents[i]) == name) return plan.contents[i + 1] = value, std::move(plan);
  }
  if (recorder.is_iterated(instance)) return plan_break(Break::kStore, "a container changes while it is iterated over");
  plan.contents.insert(plan.contents.end(), {recorder.constant(name), value});
  return plan;
}

// Whether it is this module in every run, by a guard if need be: its attributes are the names of its dict then.
bool is_fixed_module(Recorder& recorder, uint32_t label, PyObject* object) {
  const Value owner = recorder.value(label);
  if (!PyModule_CheckExact(object) || owner.kind == Value::Kind::kConstant) return PyModule_CheckExact(object);
  if (owner.kind != Value::Kind::kSource || recorder.varies(owner.a)) return false;
  recorder.guards().require_identity(owner.a, object);
  return true;
}

// A store or (value null) deletion that the object's class has a function of Python's for: a property's, a descriptor's, __setattr__.
// None: it has none that can be followed. past_hooks: __setattr__ and __delattr__ aren't asked.
std::optional<Plan> store_hook(const Site& site, const Operated& self, PyObject* name, const Operated& value, bool past_hooks) {
  Recorder& recorder = site.recorder;
  PyTypeObject* const type = Py_TYPE(self.object);
  const Value owner = recorder.value(self.label);
  if (!is_object(owner) || owner.kind == Value::Kind::kException) return std::nullopt;
  PyObject* const found = _PyType_Lookup(type, name);
  PyObject* function = nullptr;
  if (type->tp_setattro != PyObject_GenericSetAttr && !past_hooks) {
    function = python_method(type, value.object ? "__setattr__" : "__delattr__");
    if (!function || !fixes_class(recorder, owner, self.object)) return std::nullopt;
    const Operated named{recorder.constant(name), name};
    return value.object ? hook_call(site, function, {self, named, value}) : hook_call(site, function, {self, named});
  }
  if (!found || !fixes_class(recorder, owner, self.object)) return std::nullopt;
  function = function_of_property(type, name, value.object ? "fset" : "fdel");
  if (function) return value.object ? hook_call(site, function, {self, value}) : hook_call(site, function, {self});
  function = python_method(Py_TYPE(found), value.object ? "__set__" : "__delete__");
  if (!function || !fixes_descriptor(recorder, found)) return std::nullopt;
  const Operated descriptor = constant_argument(recorder, found);
  return value.object ? hook_call(site, function, {descriptor, self, value}) : hook_call(site, function, {descriptor, self});
}

// Which of the classes's hooks is asked, if it isn't object's own: those of types in C do as they like.
bool has_hooks_of_python(PyTypeObject* type) {
  return type->tp_setattro == PyObject_GenericSetAttr || python_method(type, "__setattr__") || python_method(type, "__delattr__");
}

Plan store_attr(const Site& site) {
  const int self = site.depth - 1, value = site.depth - 2;
  return store_attribute(site, {site.recorder.label(self), site.frame.slot(self), name_of(site)}, {site.recorder.label(value), site.frame.slot(value)}, false);
}

Plan delete_attr(const Site& site) { return delete_attribute(site, asked_by(site), false); }

void clear_after(const Site& site, const Plan&) {
  for (int i = site.frame.depth(); i < site.depth; i++) site.recorder.set_label(i, 0);
}

// What `object.method` without a call gives: made again at exits from the function and the object, or (of types in C) by asking
// for it once more.
Plan bound_method(Recorder& recorder, const Asked& asked, PyObject* method) {
  if (!PyFunction_Check(method)) return plan_value(recorder.made(builtin_getattr(), nullptr, {asked.label, recorder.constant(asked.name)}));
  return plan_value(recorder.made(reinterpret_cast<PyObject*>(&PyMethod_Type), nullptr, {recorder.constant(method), asked.label}));
}

Plan method_of_array(Recorder& recorder, const Asked& asked) {
  const auto [label, object, name] = asked;
  PyObject* const found = _PyType_Lookup(Py_TYPE(object), name);
  if (!found && numpy::is_exact_array(object) && recorder.operand(label, object)) return plan_raise();
  if (!found || Py_TYPE(found) != &PyMethodDescr_Type || !recorder.operand(label, object)) return plan_break(Break::kAttribute, "attribute of an array");
  return plan_value(recorder.made(builtin_getattr(), nullptr, {label, recorder.constant(name)}));
}

// --- super() ---------------------------------------------------------------------------------------------------------

// What the classes behind `type` in the order of `start` have under the name; null: nothing.
Ref found_behind(PyTypeObject* type, PyTypeObject* start, PyObject* name) {
  PyObject* const order = start->tp_mro;
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

// super(type, object).name, in a method of a class or metaclass: the object is a class.
Plan super_attribute_of_class(Recorder& recorder, PyTypeObject* of, const Operated& self, PyObject* name) {
  auto* const type = reinterpret_cast<PyTypeObject*>(self.object);
  const bool in_class = PyType_IsSubtype(type, of);
  const auto unknown = [&] { return plan_break(Break::kAttribute, "of super"); };
  const bool fixed = fixes_object(recorder, self.label, self.object) && fixes_metaclass(recorder, self.object) && (!in_class || recorder.fix_class(self.object));
  const Ref found = fixed ? found_behind(of, in_class ? type : Py_TYPE(type), name) : Ref();
  if (!found) return unknown();
  // A method of C's class is bound to the class: another object each time.
  if (in_class && Py_IS_TYPE(found.get(), &PyClassMethodDescr_Type)) {
    const Ref get = Ref::steal(PyObject_GetAttrString(found.get(), "__get__"));
    return plan_value(recorder.made(get.get(), nullptr, {recorder.constant(Py_None), self.label}));
  }
  const bool made_new = PyCFunction_Check(found.get()) && PyCFunction_GET_SELF(found.get()) && PyType_Check(PyCFunction_GET_SELF(found.get()));
  if (made_new) return plan_value(recorder.constant(found.get()));
  if (Py_IS_TYPE(found.get(), &PyStaticMethod_Type) || Py_IS_TYPE(found.get(), &PyClassMethod_Type)) {
    const Ref function = Ref::steal(PyObject_GetAttrString(found.get(), "__func__"));
    if (!function || !PyFunction_Check(function.get())) return PyErr_Clear(), unknown();
    if (Py_IS_TYPE(found.get(), &PyStaticMethod_Type)) return plan_value(recorder.constant(function.get()));
    return plan_value(recorder.made(reinterpret_cast<PyObject*>(&PyMethod_Type), nullptr, {recorder.constant(function.get()), self.label}));
  }
  if (PyFunction_Check(found.get()) && in_class) return plan_value(recorder.constant(found.get()));
  if (PyFunction_Check(found.get())) return plan_value(recorder.made(reinterpret_cast<PyObject*>(&PyMethod_Type), nullptr, {recorder.constant(found.get()), self.label}));
  if (found.get() != call_of_type() && (in_class || found.get() != initializer_of_type())) return unknown();
  const Ref get = Ref::steal(PyObject_GetAttrString(found.get(), "__get__"));
  return plan_value(recorder.made(get.get(), nullptr, {self.label}));
}

// Whether the method asks a dict from outside for one key alone, whatever its class has for that.
bool asks_dict_for_key(const Value& of, PyObject* object, PyObject* method) {
  if (of.kind != Value::Kind::kSource || !PyDict_Check(object) || PyDescr_TYPE(method) != &PyDict_Type) return false;
  const std::string_view name = PyUnicode_AsUTF8(reinterpret_cast<PyDescrObject*>(method)->d_name);
  return name == "get" || name == "__getitem__" || name == "__contains__";
}

// super(type, object).name, of a method.
Plan super_attribute(Recorder& recorder, uint32_t type, uint32_t self, PyObject* object, PyObject* name) {
  PyObject* const of = recorder.constant_of(type);
  if (of && PyType_Check(object)) return super_attribute_of_class(recorder, reinterpret_cast<PyTypeObject*>(of), {self, object}, name);
  if (!of || !is_object(recorder.value(self)) || !fixes_class(recorder, recorder.value(self), object)) return plan_break(Break::kAttribute, "of super");
  const Ref found = found_behind(reinterpret_cast<PyTypeObject*>(of), Py_TYPE(object), name);
  if (found && PyFunction_Check(found.get())) {
    return plan_value(recorder.made(reinterpret_cast<PyObject*>(&PyMethod_Type), nullptr, {recorder.constant(found.get()), self}));
  }
  if (found && recorder.is_exception(self) && cpython::keeps_arguments_only(found.get())) return exception_initializer(recorder, found.get(), self);
  if (found && is_hook_of_object(found.get())) {
    const Ref get = Ref::steal(PyObject_GetAttrString(found.get(), "__get__"));
    return plan_value(recorder.made(get.get(), nullptr, {self}));
  }
  const bool in_c = found && (Py_IS_TYPE(found.get(), &PyWrapperDescr_Type) || Py_IS_TYPE(found.get(), &PyMethodDescr_Type));
  const bool inherited = in_c && (recorder.contents(self) || asks_dict_for_key(recorder.value(self), object, found.get()));
  if (inherited && PyDescr_TYPE(found.get()) != &PyBaseObject_Type) {
    const Ref get = Ref::steal(PyObject_GetAttrString(found.get(), "__get__"));
    return plan_value(recorder.made(get.get(), nullptr, {self}));
  }
  if (found && found.get() == object_initializer()) return plan_value(recorder.made(bound_initializer(), nullptr, {self}));
  return plan_break(Break::kAttribute, "of super");
}

Plan attribute_of_super(Recorder& recorder, const Asked& asked) {
  const std::vector<uint32_t> parts = recorder.copied_elements(recorder.value(asked.label));
  const Ref self = Ref::steal(PyObject_GetAttrString(asked.object, "__self__"));
  return self ? super_attribute(recorder, parts[2], parts[3], self.get(), asked.name) : (PyErr_Clear(), plan_break(Break::kAttribute, "of super"));
}

// An attribute of an array is read in the graph, or is a constant where the guards already fix it.
Plan array_attribute(Recorder& recorder, const Asked& asked) {
  const auto [label, object, name] = asked;
  if (torch::is_tensor(object)) return attribute_of_tensor(recorder, asked);
  if (!numpy::is_array_attribute(name)) return method_of_array(recorder, asked);
  Plan plan;
  plan.kind = Plan::Kind::kNode;
  plan.form = graph::Form::kGetAttr;
  plan.callable = name;
  plan.of_shapes = numpy::is_metadata_attribute(name);
  plan.operands = {recorder.operand(label, object)};
  if (!plan.operands[0]) return plan_break(Break::kAttribute, "attribute of " + type_name(object));
  const bool is_dtype = PyUnicode_CompareWithASCIIString(name, "dtype") == 0;
  const bool is_rank = PyUnicode_CompareWithASCIIString(name, "ndim") == 0;
  const bool is_input = plan.operands[0].space == graph::Operand::Space::kInput;
  const bool fixes_dtype = is_input || numpy::is_array(object);
  if (is_dtype) return fixes_dtype ? plan_constant() : plan_break(Break::kAttribute, "dtype of a computed object");
  if (is_input && is_rank && numpy::is_exact_array(object)) return plan_constant();
  return plan;
}

// The object is what it was as long as the guards hold, and may have attributes or contents of its own.
Plan plan_place(Recorder& recorder, PyObject* object) { return plan_value(recorder.fixed(object)); }

// A list, a dict or a bound method of C's: what a library puts in its place is another object each time (warnings.filters).
bool is_replaced_by_habit(PyObject* value) {
  const bool bound = PyCFunction_Check(value) && PyCFunction_GET_SELF(value) && !PyModule_Check(PyCFunction_GET_SELF(value));
  return bound || PyList_CheckExact(value) || PyDict_CheckExact(value);
}

Plan module_attribute(Recorder& recorder, PyObject* module, PyObject* name) {
  PyObject* dict = PyModule_GetDict(module);
  recorder.guards().require_module(module);
  if (const uint32_t stored = recorder.stored(dict, name)) return plan_value(stored);
  PyObject* value = PyDict_GetItemWithError(dict, name);
  if (!value) return plan_break(Break::kAttribute, "made by the module's __getattr__");
  if (is_replaced_by_habit(value)) return plan_value(recorder.name_source(dict, name));
  recorder.guards().require_name(dict, name, value);
  return plan_place(recorder, value);
}

// Of a module whose class is the program's (torch.backends), what stands in its dict and in no class, or what its class's __getattr__ gives.
Plan attribute_of_kind_of_module(const Site& site, const Asked& asked) {
  Recorder& recorder = site.recorder;
  const auto [label, object, name] = asked;
  const Value owner = recorder.value(label);
  PyTypeObject* const type = Py_TYPE(object);
  PyObject* const dict = PyModule_GetDict(object);
  PyObject* const value = PyDict_GetItemWithError(dict, name);
  const bool plain = cpython::lookup(type, "__getattribute__") == cpython::lookup(&PyModule_Type, "__getattribute__") && !_PyType_Lookup(type, name);
  PyObject* const hook = value ? nullptr : python_method(type, "__getattr__");
  const bool fixed = (value || hook) && plain && recorder.fix_class(reinterpret_cast<PyObject*>(type)) && fixes_object(recorder, label, object);
  if (!fixed) return PyErr_Clear(), plan_break(Break::kAttribute, "of " + type_name(object));
  guards::Source at{Reach::kObject};
  at.object = Ref::borrow(object);
  recorder.guards().require_type(owner.kind == Value::Kind::kSource ? owner.a : recorder.value(recorder.source(std::move(at))).a, object);
  if (const uint32_t stored = recorder.stored(dict, name)) return plan_value(stored);
  recorder.guards().require_name(dict, name, value);
  return hook ? hook_call(site, hook, {{label, object}, constant_argument(recorder, name)}) : plan_place(recorder, value);
}

// The function that the object's class gives for the name, where nothing of the instance's own is before it; guarded. Null:
// another attribute.
PyObject* method_of(Recorder& recorder, const Asked& asked) {
  const auto [label, object, name] = asked;
  const Value owner = recorder.value(label);
  const bool is_generator = owner.kind == Value::Kind::kGenerator;
  if ((!is_object(owner) && !is_generator) || Py_TYPE(object)->tp_getattro != PyObject_GenericGetAttr) return nullptr;
  PyObject* const found = _PyType_Lookup(Py_TYPE(object), name);
  if (is_generator) return found && PyType_HasFeature(Py_TYPE(found), Py_TPFLAGS_METHOD_DESCRIPTOR) ? found : nullptr;
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

std::string class_name(PyObject* type) { return reinterpret_cast<PyTypeObject*>(type)->tp_name; }

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

// What type itself says of each class: its name, its bases.
bool is_fact_of_class(PyObject* type, PyObject* name) {
  PyObject* const found = _PyType_Lookup(Py_TYPE(type), name);
  return found && found == _PyType_Lookup(&PyType_Type, name) && (Py_IS_TYPE(found, &PyGetSetDescr_Type) || Py_IS_TYPE(found, &PyMemberDescr_Type));
}

// Of one that the recorded code has made, and that nobody else knows.
Plan fact_of_made_class(Recorder& recorder, PyObject* type, PyObject* name) {
  const std::string_view text = utf8(name);
  const auto is_one_of = [&](std::initializer_list<std::string_view> names) { return std::find(names.begin(), names.end(), text) != names.end(); };
  if (is_one_of({"__name__", "__qualname__"})) return plan_constant();
  const auto unknown = [&] { return plan_break(Break::kAttribute, "of class " + class_name(type)); };
  if (is_one_of({"__module__", "__doc__", "__annotations__"})) {
    PyObject* const own = PyDict_GetItemWithError(reinterpret_cast<PyTypeObject*>(type)->tp_dict, name);
    return own ? plan_value(recorder.value_in_class(reinterpret_cast<PyTypeObject*>(type), name, own)) : unknown();
  }
  const Ref value = is_one_of({"__mro__", "__bases__", "__base__"}) ? Ref::steal(PyObject_GetAttr(type, name)) : Ref();
  return value ? plan_value(recorder.constant(value.get())) : (PyErr_Clear(), unknown());
}

Plan fact_of_class(Recorder& recorder, PyObject* type, PyObject* name) {
  const auto is = [&](const char* text) { return PyUnicode_CompareWithASCIIString(name, text) == 0; };
  if (recorder.made_class(type)) return fact_of_made_class(recorder, type, name);
  if (is("__mro__") || is("__bases__") || is("__base__")) {
    // NULL is None.
    const Ref value = Ref::steal(PyObject_GetAttr(type, name));
    return value && recorder.fix_class(type) ? plan_place(recorder, value.get()) : (PyErr_Clear(), plan_break(Break::kAttribute, "of class " + class_name(type)));
  }
  if (!is("__name__") && !is("__qualname__")) return plan_break(Break::kAttribute, "of class " + class_name(type));
  if (!PyType_HasFeature(reinterpret_cast<PyTypeObject*>(type), Py_TPFLAGS_HEAPTYPE)) return plan_constant();
  guards::Source parent{Reach::kObject};
  parent.object = Ref::borrow(type);
  return plan_value(attribute_source(recorder, recorder.value(recorder.source(std::move(parent))).a, name));
}

// What the class has under the name, where nothing asks a descriptor for it.
uint32_t value_in_class(Recorder& recorder, PyTypeObject* type, PyObject* name, PyObject* found) {
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(type->tp_mro); i++) {
    auto* const base = reinterpret_cast<PyTypeObject*>(PyTuple_GET_ITEM(type->tp_mro, i));
    if (PyType_HasFeature(base, Py_TPFLAGS_IMMUTABLETYPE)) continue;
    if (PyDict_GetItemWithError(base->tp_dict, name)) return recorder.value_in_class(base, name, found);
  }
  return recorder.fixed(found);
}

bool is_special(PyObject* name) {
  const std::string_view text = utf8(name);
  return text.starts_with("__") && text.ends_with("__");
}

// Class.name = value, of data: nobody but the class is asked, and no operation on its instances is another one then.
Plan store_into_class(Recorder& recorder, const Asked& asked, const Operated& value) {
  const auto [label, object, name] = asked;
  auto* const type = reinterpret_cast<PyTypeObject*>(object);
  const auto unknown = [&] { return plan_break(Break::kStore, "attribute of class " + class_name(object)); };
  PyObject* const of_metaclass = _PyType_Lookup(Py_TYPE(object), name);
  const bool plain = PyType_HasFeature(type, Py_TPFLAGS_HEAPTYPE) && !PyType_HasFeature(type, Py_TPFLAGS_IMMUTABLETYPE) &&
                     Py_TYPE(object)->tp_setattro == PyType_Type.tp_setattro && !(of_metaclass && Py_TYPE(of_metaclass)->tp_descr_set) && !is_special(name);
  const auto is_data = [](PyObject* kept) {
    return guards::is_class_data(kept) || (!PyType_Check(kept) && !PyCallable_Check(kept) && !Py_TYPE(kept)->tp_descr_get && !Py_TYPE(kept)->tp_descr_set);
  };
  PyObject* const old = plain ? PyDict_GetItemWithError(type->tp_dict, name) : nullptr;
  if (!plain || !is_data(value.object) || (old && (!is_data(old) || recorder.tells_if_dropped_outside(old)))) return unknown();
  if (!recorder.may_put_off()) return plan_break(Break::kStore, "an object with a finaliser was dropped");
  if (!fixes_object(recorder, label, object) || !fixes_metaclass(recorder, object) || !recorder.fix_class(object)) return unknown();
  if (!fixes_type(recorder, value.label, value.object)) return unknown();
  Plan plan;
  plan.stored_into = Ref::borrow(object), plan.stored_name = Ref::borrow(name), plan.stored_value = value.label, plan.stored_owner = recorder.constant(object);
  return plan;
}

// Class.name: what the class has, as long as it stays as it is.
Plan class_attribute(const Site& site, const Asked& asked) {
  Recorder& recorder = site.recorder;
  const auto [label, object, name] = asked;
  auto* const type = reinterpret_cast<PyTypeObject*>(object);
  const auto unknown = [&] { return plan_break(Break::kAttribute, "of class " + class_name(object)); };
  // The metaclass of pybind's classes gives a method in C as it is, and anything else as `type` does.
  const bool plain = cpython::looks_up_class_plainly(Py_TYPE(object)) || torch::is_immutable_type(object);
  if (!plain || !fixes_metaclass(recorder, object)) return unknown();
  PyObject* const of_metaclass = _PyType_Lookup(Py_TYPE(object), name);
  if (of_metaclass && Py_TYPE(of_metaclass)->tp_descr_set) {
    if (is_fact_of_class(object, name)) return fact_of_class(recorder, object, name);
    PyObject* const getter = function_of_property(Py_TYPE(object), name, "fget");
    return getter ? getter_call(site, asked, getter, {{label, object}}) : unknown();
  }
  // It may become one that comes before what the class has.
  if ((of_metaclass && !fixes_descriptor(recorder, of_metaclass)) || !recorder.fix_class(object)) return unknown();
  PyObject* const found = _PyType_Lookup(type, name);
  if (!found) {
    if (of_metaclass && is_plain_function(of_metaclass)) return bound_method(recorder, asked, of_metaclass);
    PyObject* const hook = of_metaclass ? nullptr : python_method(Py_TYPE(object), "__getattr__");
    if (hook) return hook_call(site, hook, {{label, object}, {recorder.constant(name), name}});
    return of_metaclass || Py_TYPE(object)->tp_getattro != PyType_Type.tp_getattro ? unknown() : plan_raise();
  }
  if (const Ref function = function_of_class_method(type, name)) return class_method(recorder, function.get(), type);
  if (!fixes_descriptor(recorder, found)) return unknown();
  const bool is_itself = PyFunction_Check(found) || is_property(found);
  if (!Py_TYPE(found)->tp_descr_get || is_itself) return plan_value(value_in_class(recorder, type, name, found));
  if (Py_IS_TYPE(found, &PyStaticMethod_Type)) return plan_constant();
  // Methods of types in C. One of C's class is bound to the class: it is another object each time, and does the same.
  const bool of_class = Py_IS_TYPE(found, &PyClassMethodDescr_Type) && is_written_in_c(type);
  if (of_class || Py_IS_TYPE(found, &PyMethodDescr_Type) || Py_IS_TYPE(found, &PyWrapperDescr_Type)) return plan_constant();
  PyObject* const get = python_method(Py_TYPE(found), "__get__");
  if (!get) return unknown();
  return getter_call(site, asked, get, {constant_argument(recorder, found), {recorder.constant(Py_None), Py_None}, {label, object}});
}

// What the object has itself, or (0) hasn't.
uint32_t own_attribute(Recorder& recorder, const Asked& asked) {
  const auto [label, object, name] = asked;
  const Value owner = recorder.value(label);
  if (is_made(owner)) return recorder.attribute_of(owner, name);
  if (const uint32_t stored = recorder.stored_attribute(label, object, name)) return stored;
  PyObject* const found = _PyType_Lookup(Py_TYPE(object), name);
  const bool member = found && Py_IS_TYPE(found, &PyMemberDescr_Type);
  const Ref of_member = member ? cpython::plain_attribute(object, name) : Ref();
  if (PyErr_Occurred()) PyErr_Clear();
  if (!of_member && !cpython::own_value(object, name)) return 0;
  return attribute_source(recorder, owner.a, name);
}

// A descriptor's __get__, a function of Python's. past_hooks: __getattr__ isn't asked if it raises AttributeError.
Plan call_of_get(const Site& site, const Asked& asked, PyObject* descriptor, PyObject* get, bool past_hooks) {
  Recorder& recorder = site.recorder;
  const Operated type = constant_argument(recorder, reinterpret_cast<PyObject*>(Py_TYPE(asked.object)));
  const Operated described = constant_argument(recorder, descriptor), self{asked.label, asked.object};
  return past_hooks ? hook_call(site, get, {described, self, type}) : getter_call(site, asked, get, {described, self, type});
}

// Asked is what the class has, as the object has nothing of its own.
Plan attribute_of_class(const Site& site, const Asked& asked, PyObject* found, bool past_hooks) {
  Recorder& recorder = site.recorder;
  const auto [label, object, name] = asked;
  PyTypeObject* const type = Py_TYPE(object);
  if (PyFunction_Check(found)) return bound_method(recorder, asked, found);
  if (const Ref function = function_of_class_method(type, name)) return class_method(recorder, function.get(), type);
  if (!Py_TYPE(found)->tp_descr_get) return plan_value(value_in_class(recorder, type, name, found));
  if (Py_IS_TYPE(found, &PyStaticMethod_Type)) return plan_constant();
  if (Py_IS_TYPE(found, &PyMethodDescr_Type)) return bound_method(recorder, asked, found);
  PyObject* const get = python_method(Py_TYPE(found), "__get__");
  return get ? call_of_get(site, asked, found, get, past_hooks) : plan_break(Break::kAttribute, "of " + type_name(object));
}

// Neither object nor class has it.
Plan missing_attribute(const Site& site, const Asked& asked) {
  const auto [label, object, name] = asked;
  if (Py_TYPE(object)->tp_getattro == PyObject_GenericGetAttr) return plan_raise();
  PyObject* const hook = python_method(Py_TYPE(object), "__getattr__");
  if (!hook) return plan_break(Break::kAttribute, "of " + type_name(object));
  if (std::optional<Plan> plan = attribute_of_module(site.recorder, asked, hook)) return *std::move(plan);
  return hook_call(site, hook, {{label, object}, {site.recorder.constant(name), name}});
}

// An element of a named tuple.
Plan field(Recorder& recorder, const Asked& asked, Py_ssize_t index) {
  const Value owner = recorder.value(asked.label);
  if (index >= PyTuple_GET_SIZE(asked.object)) return plan_break(Break::kException, "no such field");
  if (owner.kind == Value::Kind::kSource) return plan_value(item_source(recorder, owner, index));
  const uint32_t contents = recorder.contents(asked.label);
  return contents ? plan_value(recorder.elements(recorder.value(contents))[static_cast<size_t>(index)]) : plan_break(Break::kAttribute, "of " + type_name(asked.object));
}

// None.shape: nothing can give such an object the attribute.
bool lacks_for_good(PyTypeObject* type, PyObject* name) {
  return PyType_HasFeature(type, Py_TPFLAGS_IMMUTABLETYPE) && !type->tp_dictoffset && !_PyType_Lookup(type, name) && type->tp_getattro == PyObject_GenericGetAttr;
}

// As PyObject_GenericGetAttr looks for it.
Plan generic_attribute(const Site& site, const Asked& asked, bool past_hooks) {
  Recorder& recorder = site.recorder;
  const auto [label, object, name] = asked;
  const Value owner = recorder.value(label);
  PyTypeObject* const type = Py_TYPE(object);
  const auto unknown = [&] { return plan_break(Break::kAttribute, "of " + type_name(object)); };
  if (lacks_for_good(type, name) && fixes_kind(recorder, label, object)) return past_hooks ? plan_raise() : missing_attribute(site, asked);
  if (!is_object(owner) || !fixes_class(recorder, owner, object)) return unknown();
  PyObject* const found = _PyType_Lookup(type, name);
  if (found && !fixes_descriptor(recorder, found)) return unknown();
  const bool member = found && Py_IS_TYPE(found, &PyMemberDescr_Type);
  if (const Py_ssize_t index = found ? cpython::index_of_field(found) : -1; index >= 0 && PyTuple_Check(object)) return field(recorder, asked, index);
  if (found && Py_TYPE(found)->tp_descr_set && !member) {
    if (PyObject* const getter = function_of_property(type, name, "fget")) {
      return past_hooks ? hook_call(site, getter, {{label, object}}) : getter_call(site, asked, getter, {{label, object}});
    }
    PyObject* const get = python_method(Py_TYPE(found), "__get__");
    return get ? call_of_get(site, asked, found, get, past_hooks) : unknown();
  }
  if (!cpython::is_plain_to_hold(object)) return unknown();
  if (const uint32_t own = own_attribute(recorder, asked)) return plan_value(own);
  // A slot of the class's that nothing was stored into yet, as the recorded code knows.
  if (member && (owner.kind != Value::Kind::kInstance || !cpython::is_slot(type, found))) return plan_break(Break::kException, "no such attribute");
  if (member) return past_hooks ? plan_raise() : missing_attribute(site, asked);
  if (!is_made(owner)) recorder.guards().require_lacks(owner.a, name);
  if (found) return attribute_of_class(site, asked, found, past_hooks);
  return past_hooks ? plan_raise() : missing_attribute(site, asked);
}

// (3).real, date.year: what types in C keep in their immutable objects, or in those whose history is known.
bool is_fact_of_immutable(Recorder& recorder, uint32_t label, PyObject* object, PyObject* name) {
  if (!is_written_in_c(Py_TYPE(object)) || Py_TYPE(object)->tp_getattro != PyObject_GenericGetAttr || PyType_Check(object)) return false;
  PyObject* const found = _PyType_Lookup(Py_TYPE(object), name);
  const bool kept = found && (Py_IS_TYPE(found, &PyGetSetDescr_Type) || Py_IS_TYPE(found, &PyMemberDescr_Type));
  if (kept && (recorder.value(label).kind == Value::Kind::kReplayed || recorder.value(label).kind == Value::Kind::kDeque)) return true;
  if (!is_immutable(object) && !PySlice_Check(object)) return false;
  if (PySlice_Check(object)) return kept && recorder.value(label).kind == Value::Kind::kConstant;
  // Ranges that are equal may have other ends.
  if (PyRange_Check(object) && recorder.value(label).kind != Value::Kind::kConstant) return false;
  return kept && !recorder.is_input_number(label, object) && recorder.known(label, object);
}

// "a".upper, which isn't called there.
bool is_method_of_immutable(Recorder& recorder, const Asked& asked) {
  const auto [label, object, name] = asked;
  if (PyType_Check(object) || !is_written_in_c(Py_TYPE(object)) || Py_TYPE(object)->tp_getattro != PyObject_GenericGetAttr) return false;
  PyObject* const found = _PyType_Lookup(Py_TYPE(object), name);
  return found && Py_IS_TYPE(found, &PyMethodDescr_Type) && is_immutable(object) && !recorder.is_input_number(label, object) && recorder.known(label, object);
}

// What a bound method is made of; none: another object, or attribute.
std::optional<Plan> part_of_method(Recorder& recorder, const Asked& asked) {
  const Value of = recorder.value(asked.label);
  if (!PyMethod_Check(asked.object) || of.kind != Value::Kind::kMade || recorder.constant_of(recorder.elements(of)[0]) != reinterpret_cast<PyObject*>(&PyMethod_Type)) return std::nullopt;
  const auto is = [&](const char* text) { return PyUnicode_CompareWithASCIIString(asked.name, text) == 0; };
  if (is("__func__")) return plan_value(recorder.elements(of)[2]);
  return is("__self__") ? std::optional(plan_value(recorder.elements(of)[3])) : std::nullopt;
}

Plan object_attribute(const Site& site, const Asked& asked) {
  Recorder& recorder = site.recorder;
  const auto [label, object, name] = asked;
  const Value owner = recorder.value(label);
  if (std::optional<Plan> part = part_of_method(recorder, asked)) return *std::move(part);
  if (PyType_Check(object) && fixes_object(recorder, label, object)) return class_attribute(site, asked);
  if (owner.kind == Value::Kind::kConstant && is_dtype_fact(object, name)) return plan_constant();
  if (is_fact_of_immutable(recorder, label, object, name)) return plan_constant();
  if (PyUnicode_CompareWithASCIIString(name, "__class__") == 0 && fixes_kind(recorder, label, object)) {
    return plan_value(recorder.constant(reinterpret_cast<PyObject*>(Py_TYPE(object))));
  }
  if (cpython::looks_up_plainly(Py_TYPE(object))) return generic_attribute(site, asked, false);
  PyObject* const hook = python_method(Py_TYPE(object), "__getattribute__");
  if (!hook || !is_object(owner) || !fixes_class(recorder, owner, object)) return plan_break(Break::kAttribute, "of " + type_name(object));
  return getter_call(site, asked, hook, {{label, object}, {recorder.constant(name), name}});
}

Plan load_attr(const Site& site) { return read_attribute(site, asked_by(site)); }

void load_attr_after(const Site& site, const Plan& plan) {
  Recorder& recorder = site.recorder;
  const int slot = site.depth - 1;
  if (plan.kind == Plan::Kind::kNode) {
    const int32_t node = recorder.add_node(plan, site.frame.slot(slot));
    recorder.set_label(slot, recorder.node_value(node, plan.of_shapes, plan.of_numbers && (PyLong_CheckExact(site.frame.slot(slot)) || PyFloat_CheckExact(site.frame.slot(slot)))));
    if (plan.check_result) recorder.check_result(site.frame, node);
    return;
  }
  recorder.set_label(slot, plan.kind == Plan::Kind::kConstant ? recorder.fixed(site.frame.slot(slot)) : plan.label);
}

// LOAD_METHOD on an array or a guarded object: the function is a constant, self keeps its label.
Plan load_method(const Site& site) {
  const Asked asked = asked_by(site);
  PyObject* object = site.frame.slot(site.depth - 1);
  PyObject* name = name_of(site);
  Recorder& recorder = site.recorder;
  if (std::optional<Plan> plan = method_of_inference_mode(recorder, asked)) return *std::move(plan);
  if (is_fixed_module(recorder, asked.label, object)) return module_attribute(recorder, object, name);
  if (PyModule_Check(object)) return attribute_of_kind_of_module(site, asked);
  PyObject* found = _PyType_Lookup(Py_TYPE(object), name);
  const bool is_descriptor = found && PyType_HasFeature(Py_TYPE(found), Py_TPFLAGS_METHOD_DESCRIPTOR);
  // Else the class is asked (numpy.recarray has a __getattribute__), and what it gives isn't taken apart (_PyObject_GetMethod).
  const bool is_method = is_descriptor && Py_TYPE(object)->tp_getattro == PyObject_GenericGetAttr;
  const Value owner = recorder.value_at(site.depth - 1);
  if (is_method && recorder.is_graph_value(recorder.label(site.depth - 1), object)) {
    return recorder.operand(recorder.label(site.depth - 1), object) ? plan_value(0) : plan_break(Break::kAttribute, type_name(object));
  }
  if (is_method && owner.kind == Value::Kind::kList && PyList_CheckExact(object)) return plan_value(0);
  if (is_method && owner.kind == Value::Kind::kDict && PyDict_CheckExact(object)) return plan_value(0);
  const bool of_c = owner.kind == Value::Kind::kReplayed || owner.kind == Value::Kind::kMapping || owner.kind == Value::Kind::kDeque;
  if (is_method && of_c && is_written_in_c(Py_TYPE(object))) return plan_value(0);
  if (is_method && Py_IS_TYPE(object, &PyDictProxy_Type) && dict_behind_proxy(recorder, asked.label)) return plan_value(0);
  if (is_method && owner.kind == Value::Kind::kSource && (PyDict_CheckExact(object) || PyList_CheckExact(object) || PySet_CheckExact(object))) {
    recorder.guards().require_type(owner.a, object);
    return plan_value(0);
  }
  if (recorder.is_super(asked.label)) return attribute_of_super(recorder, asked);
  if (is_method && (is_dict_of_function(recorder, asked.label) || is_known_decimal(recorder, asked.label, object))) return plan_value(0);
  if (!is_descriptor) {
    if (std::optional<Plan> plan = function_attribute(recorder, asked)) return *std::move(plan);
  }
  if (std::optional<Plan> plan = exception_attribute(recorder, asked.label, object, name)) return *std::move(plan);
  if (std::optional<Plan> plan = frame_attribute(recorder, asked.label, object, name)) return *std::move(plan);
  if (method_of(recorder, asked)) return plan_value(0);
  if (is_method && owner.kind == Value::Kind::kConstant && !PyType_Check(object) && PyType_HasFeature(Py_TYPE(object), Py_TPFLAGS_IMMUTABLETYPE)) {
    return plan_value(0);
  }
  return object_attribute(site, asked);
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
  const uint32_t label = plan.kind == Plan::Kind::kConstant ? recorder.fixed(site.frame.slot(slot)) : plan.label;
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
  return super_attribute(recorder, recorder.constant(type), recorder.label(global + 2), site.frame.slot(global + 2), name_of(site));
}

void load_super_attr_after(const Site& site, const Plan& plan) {
  const int depth = site.frame.depth();
  for (int i = site.depth - 3; i < site.depth; i++) site.recorder.set_label(i, 0);
  const bool method = depth == site.depth - 1;
  site.recorder.set_label(method && cpython::layout::kSelfAfterCallable ? depth - 2 : depth - 1, plan.label);
}

// Whether a store of the attribute asks no descriptor: one of the class's, if any, only gives what the object hasn't got yet, by the guards.
bool keeps_plainly(Recorder& recorder, PyObject* object, PyObject* name) {
  if (cpython::is_plain_to_keep(object, name)) return true;
  PyObject* const found = _PyType_Lookup(Py_TYPE(object), name);
  const bool only_gives = found && Py_TYPE(found)->tp_descr_get && !Py_TYPE(found)->tp_descr_set;
  return only_gives && cpython::gives_its_dict(Py_TYPE(object)) && fixes_descriptor(recorder, found);
}

}  // namespace

// The store is put off to the exit, as that into a name.
Plan store_attribute(const Site& site, const Asked& asked_for, const Operated& value, bool past_hooks) {
  Recorder& recorder = site.recorder;
  Asked asked = asked_for;
  if (PyFunction_Check(asked.object)) {
    if (recorder.value(asked.label).kind == Value::Kind::kFunction) return store_into_made_function(recorder, asked, value);
    asked.label = place_of_function(recorder, asked.label, asked.object);
  }
  const auto [label, object, name] = asked;
  const Value owner = recorder.value(label);
  const auto unknown = [&] { return plan_break(Break::kStore, "attribute of " + type_name(object)); };
  if (torch::is_tensor(object)) return past_hooks ? unknown() : store_into_tensor(recorder, asked, value);
  if (PyModule_Check(object)) {
    if (past_hooks || _PyType_Lookup(&PyModule_Type, name) || !is_fixed_module(recorder, label, object)) return unknown();
    Plan plan = store_into(recorder, PyModule_GetDict(object), name);
    recorder.guards().require_module(object);
    plan.stored_into = Ref::borrow(object), plan.stored_name = Ref::borrow(name), plan.stored_value = value.label;
    return plan;
  }
  if (PyType_Check(object) && !past_hooks) return store_into_class(recorder, asked, value);
  if (std::optional<Plan> plan = store_hook(site, {label, object}, name, value, past_hooks)) return *std::move(plan);
  if (std::optional<Plan> plan = store_into_exception(recorder, {label, object}, name, value)) return *std::move(plan);
  const bool plain = is_object(owner) && (past_hooks ? has_hooks_of_python(Py_TYPE(object)) : Py_TYPE(object)->tp_setattro == PyObject_GenericSetAttr) &&
                     keeps_plainly(recorder, object, name);
  PyObject* const old = plain ? cpython::own_value(object, name) : nullptr;
  if (!plain || (is_made(owner) ? recorder.tells_if_dropped(old) : recorder.tells_if_dropped_outside(old)) || !fixes_class(recorder, owner, object)) return unknown();
  if (owner.kind == Value::Kind::kMapping) return unknown();
  if (is_made(owner)) return store_into_instance(recorder, label, name, value.label);
  if (!recorder.may_put_off()) return plan_break(Break::kStore, "an object with a finaliser was dropped");
  if (!recorder.may_touch_attributes(owner.a, object, true)) return plan_break(Break::kStore, "its dict is changed, too");
  recorder.stored_attribute(label, object, name);  // asks for its guards
  Plan plan;
  plan.stored_into = Ref::borrow(object), plan.stored_name = Ref::borrow(name), plan.stored_value = value.label, plan.stored_owner = label;
  return plan;
}

Plan delete_attribute(const Site& site, const Asked& asked, bool past_hooks) {
  Recorder& recorder = site.recorder;
  const auto [label, object, name] = asked;
  const Value owner = recorder.value(label);
  const auto unknown = [&] { return plan_break(Break::kStore, "attribute of " + type_name(object)); };
  if (PyModule_Check(object)) return unknown();
  if (std::optional<Plan> plan = store_hook(site, {label, object}, name, {}, past_hooks)) return *std::move(plan);
  const bool plain = owner.kind == Value::Kind::kInstance && (past_hooks || Py_TYPE(object)->tp_setattro == PyObject_GenericSetAttr) && cpython::is_plain_to_keep(object, name);
  PyObject* const old = plain ? cpython::own_value(object, name) : nullptr;
  if (!old || recorder.tells_if_dropped(old) || !fixes_class(recorder, owner, object) || recorder.is_iterated(label)) return unknown();
  Plan plan;
  plan.changed = label;
  plan.contents = recorder.copied_elements(owner);
  for (size_t i = 0; i < plan.contents.size(); i += 2) {
    if (recorder.constant_of(plan.contents[i]) != name) continue;
    plan.contents.erase(plan.contents.begin() + static_cast<std::ptrdiff_t>(i), plan.contents.begin() + static_cast<std::ptrdiff_t>(i) + 2);
    return plan;
  }
  return unknown();
}

Plan read_generic_attribute(const Site& site, const Asked& asked) {
  if (std::optional<Plan> plan = attributes_as_dict(site.recorder, asked, true)) return *std::move(plan);
  return generic_attribute(site, asked, true);
}

Plan read_attribute(const Site& site, const Asked& asked) {
  Recorder& recorder = site.recorder;
  const auto [label, object, name] = asked;
  if (recorder.is_graph_value(label, object)) return array_attribute(recorder, asked);
  if (std::optional<Plan> plan = attribute_of_results(recorder, asked)) return *std::move(plan);
  if (std::optional<Plan> plan = method_of_inference_mode(recorder, asked)) return *std::move(plan);
  if (is_fixed_module(recorder, label, object)) return module_attribute(recorder, object, name);
  if (PyModule_Check(object)) return attribute_of_kind_of_module(site, asked);
  if (recorder.is_super(label)) return attribute_of_super(recorder, asked);
  if (std::optional<Plan> plan = function_attribute(recorder, asked)) return *std::move(plan);
  if (std::optional<Plan> plan = exception_attribute(recorder, label, object, name)) return *std::move(plan);
  if (std::optional<Plan> plan = frame_attribute(recorder, label, object, name)) return *std::move(plan);
  if (PyObject* const method = method_of(recorder, asked)) return bound_method(recorder, asked, method);
  const Value::Kind kind = recorder.value(label).kind;
  PyObject* const found = kind == Value::Kind::kList || kind == Value::Kind::kDict || kind == Value::Kind::kReplayed ? _PyType_Lookup(Py_TYPE(object), name) : nullptr;
  if (found && Py_IS_TYPE(found, &PyMethodDescr_Type) && is_written_in_c(Py_TYPE(object))) return bound_method(recorder, asked, found);
  if (is_method_of_immutable(recorder, asked)) return bound_method(recorder, asked, _PyType_Lookup(Py_TYPE(object), name));
  if (PyObject* const maker = PyObject_TypeCheck(object, &PyProperty_Type) && is_made_descriptor(recorder, label) ? _PyType_Lookup(Py_TYPE(object), name) : nullptr) {
    if (Py_IS_TYPE(maker, &PyMethodDescr_Type)) return bound_method(recorder, asked, maker);
  }
  if (std::optional<Plan> plan = attribute_of_thread(recorder, asked)) return *std::move(plan);
  if (std::optional<Plan> plan = attributes_as_dict(recorder, asked)) return *std::move(plan);
  return object_attribute(site, asked);
}

// What the class has, if getting it is no more than that; the class is guarded.
static Attribute known_of_class(Recorder& recorder, PyTypeObject* owner, PyObject* name, PyObject* found) {
  PyTypeObject* const type = Py_TYPE(found);
  if (type->tp_descr_get) return {};
  const bool may_become_descriptor = !PyType_HasFeature(type, Py_TPFLAGS_IMMUTABLETYPE);
  if (may_become_descriptor && !recorder.fix_class(reinterpret_cast<PyObject*>(type))) return {};
  return {Attribute::State::kKnown, value_in_class(recorder, owner, name, found)};
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
    return known_of_class(recorder, type, name, found);
  }
  if (const uint32_t stored = recorder.stored_attribute(label, object, name)) return {Attribute::State::kKnown, stored};
  if (!cpython::own_value(object, name)) {
    if (found) return Py_IS_TYPE(found, &PyMemberDescr_Type) ? Attribute{} : known_of_class(recorder, type, name, found);
    if (missing.state == Attribute::State::kMissing) recorder.guards().require_lacks(owner.a, name);
    return missing;
  }
  return {Attribute::State::kKnown, attribute_source(recorder, owner.a, name)};
}

bool is_object(const Value& value) { return value.kind == Value::Kind::kSource || is_made(value); }
bool fixes_class(Recorder& recorder, const Value& owner, PyObject* object) {
  return is_made(owner) || (owner.kind == Value::Kind::kSource && recorder.may_touch_attributes(owner.a, object, false) &&
                            recorder.guards().require_type_version(owner.a, object));
}

// A class of `type` itself keeps it: CPython lets nobody assign another one.
bool fixes_metaclass(Recorder& recorder, PyObject* type) {
  if (Py_TYPE(type) == &PyType_Type) return true;
  if (recorder.made_class(type)) return recorder.fix_class(Py_TYPE(type));
  guards::Source at{guards::Reach::kObject};
  at.object = Ref::borrow(type);
  recorder.guards().require_type(recorder.value(recorder.source(std::move(at))).a, type);
  return recorder.fix_class(Py_TYPE(type));
}

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
  table[static_cast<size_t>(STORE_ATTR)] = {store_attr, clear_after};
  table[static_cast<size_t>(DELETE_ATTR)] = {delete_attr, clear_after};
}

}  // namespace evalframe::recorder
