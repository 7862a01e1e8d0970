// Rules for functions of the standard library that finish a class which the recorded code has made: a call runs as it is while it is recorded,
// and what it has put into the class is taken over.
#include <string_view>
#include <unordered_set>

#include "core/object_text.h"
#include "cpython/attributes.h"
#include "cpython/classes.h"
#include "recorder/rules/rules.h"
#include "recorder/rules/taken_over.h"

namespace evalframe::recorder {

namespace {

using evaluator::Activation;

bool finishes_classes(PyObject* function) {
  static const auto* const rows = new std::unordered_set<std::string_view>{
#define EVALFRAME_FINISHES(module, function) #module "." #function,
#include "recorder/finishing.def"
#undef EVALFRAME_FINISHES
  };
  return rows->contains(name_in_library(function));
}

PyObject* name_of_fields() {
  static PyObject* const name = PyUnicode_InternFromString("__dataclass_fields__");
  return name;
}

// The fields that the class itself has; null: none. Types of CPython's own have no dict of their own from 3.12 on.
PyObject* fields_of(PyTypeObject* type) { return type->tp_dict ? PyDict_GetItemWithError(type->tp_dict, name_of_fields()) : nullptr; }

bool is_special(PyObject* name) {
  const std::string_view text = utf8(name);
  return text.starts_with("__") && text.ends_with("__");
}

// Nobody is asked for it, or for its text, its hash or what it is compared to.
bool is_plain_class(PyObject* object) { return PyType_Check(object) && Py_IS_TYPE(object, &PyType_Type); }

// The name that a text begins with is what it is now, among these names. False: it isn't known what it is.
bool fixes_first_name(Recorder& recorder, PyObject* text, PyObject* globals) {
  const std::string_view whole = utf8(text);
  const size_t begin = whole.find_first_not_of(" \t");
  const size_t end = begin == std::string_view::npos ? begin : whole.find_first_of(" \t.[]|()'\",", begin);
  if (begin == std::string_view::npos) return true;
  const std::string_view first = whole.substr(begin, end == std::string_view::npos ? end : end - begin);
  const Ref name = Ref::steal(PyUnicode_FromStringAndSize(first.data(), static_cast<Py_ssize_t>(first.size())));
  if (!name) return PyErr_Clear(), false;
  Ref interned = Ref::borrow(name.get());
  PyObject* held = interned.release();
  PyUnicode_InternInPlace(&held);
  interned = Ref::steal(held);
  PyObject* const value = PyDict_GetItemWithError(globals, interned.get());
  if (recorder.stored(globals, interned.get()) || recorder.has_forgotten(globals, interned.get())) return false;
  recorder.guards().require_name(globals, interned.get(), value);
  return true;
}

// The class's text stays as it is.
bool fixes_text(Recorder& recorder, PyObject* type) {
  if (recorder.is_adopted(type) || is_written_in_c(reinterpret_cast<PyTypeObject*>(type))) return true;
  guards::Source parent{guards::Reach::kObject};
  parent.object = Ref::borrow(type);
  const uint32_t source = attribute_source(recorder, recorder.value(recorder.source(std::move(parent))).a, "__qualname__");
  const Ref text = Ref::steal(PyObject_GetAttrString(type, "__qualname__"));
  if (!text) return PyErr_Clear(), false;
  return recorder.fix_class(type) && recorder.known(source, text.get());
}

// A class, or what typing makes of such: its text runs no code of the program's, and stays as it is.
bool is_plain_type(Recorder& recorder, PyObject* object) {
  if (object == Py_None || object == Py_Ellipsis) return true;
  if (is_plain_class(object)) return fixes_text(recorder, object);
  PyObject* const modules = PyImport_GetModuleDict();
  PyObject* const typing = PyDict_CheckExact(modules) ? PyDict_GetItemString(modules, "typing") : nullptr;
  if (!typing || !PyModule_CheckExact(typing)) return false;
  if (object == PyDict_GetItemString(PyModule_GetDict(typing), "Any")) return true;
  PyObject* const alias = PyDict_GetItemString(PyModule_GetDict(typing), "_GenericAlias");
  const bool of_typing = alias && PyType_Check(alias) && PyObject_TypeCheck(object, reinterpret_cast<PyTypeObject*>(alias));
  if (!of_typing && !Py_IS_TYPE(object, &Py_GenericAliasType)) return false;
  const Ref arguments = Ref::steal(PyObject_GetAttrString(object, "__args__")), origin = Ref::steal(PyObject_GetAttrString(object, "__origin__"));
  if (!arguments || !origin || !PyTuple_CheckExact(arguments.get())) return PyErr_Clear(), false;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(arguments.get()); i++) {
    if (!is_plain_type(recorder, PyTuple_GET_ITEM(arguments.get(), i))) return false;
  }
  return of_typing || (is_plain_class(origin.get()) && fixes_text(recorder, origin.get()));
}

// What a field is said to be: a text, or a type.
bool is_plain_annotation(Recorder& recorder, uint32_t label, PyObject* object, PyObject* library, PyObject* globals) {
  if (PyUnicode_CheckExact(object)) return recorder.known(label, object) && fixes_first_name(recorder, object, globals);
  const Value value = recorder.value(label);
  static PyObject* const name = PyUnicode_InternFromString("type");
  if (value.kind == Value::Kind::kInstance && reinterpret_cast<PyObject*>(Py_TYPE(object)) == PyDict_GetItemString(library, "InitVar")) {
    PyObject* const of = cpython::own_value(object, name);
    return of && is_plain_type(recorder, of) && !PyUnicode_Check(of);
  }
  PyObject* const maker = value.kind == Value::Kind::kMade ? recorder.constant_of(recorder.elements(value)[0]) : nullptr;
  return is_plain_type(recorder, object) && (maker == reinterpret_cast<PyObject*>(&Py_GenericAliasType) || fixes_object(recorder, label, object));
}

// Asking it for its hash, its text or its descriptor's methods runs nothing of the program's.
bool is_plain_default(Recorder& recorder, uint32_t label, PyObject* object, PyObject* library, bool is_field) {
  if (is_immutable(object)) return recorder.known(label, object);
  // A function's text has its place, which the text of the class would have, too.
  if (recorder.value(label).kind == Value::Kind::kFunction) return !is_field;
  if (is_plain_class(object)) return fixes_object(recorder, label, object) && fixes_text(recorder, object);
  if (recorder.value(label).kind != Value::Kind::kInstance) return false;
  // A field.
  PyObject* const field = PyDict_GetItemString(library, "Field");
  PyObject* const missing = PyDict_GetItemString(library, "MISSING");
  static PyObject* const name = PyUnicode_InternFromString("default");
  PyObject* const value = reinterpret_cast<PyObject*>(Py_TYPE(object)) == field ? cpython::own_value(object, name) : nullptr;
  const uint32_t known = value ? recorder.attribute_of(recorder.value(label), "default") : 0;
  return known && (value == missing || (is_immutable(value) && recorder.known(known, value)));
}

// Whether what the class itself has is plain.
bool has_plain_contents(Recorder& recorder, PyTypeObject* type, PyObject* library, PyObject* globals) {
  PyObject *name = nullptr, *value = nullptr;
  PyObject* const annotations = PyDict_GetItemString(type->tp_dict, "__annotations__");
  for (Py_ssize_t at = 0; PyDict_Next(type->tp_dict, &at, &name, &value);) {
    if (value == annotations || Py_IS_TYPE(value, &PyGetSetDescr_Type) || Py_IS_TYPE(value, &PyMemberDescr_Type)) continue;
    const uint32_t label = recorder.value_in_class(type, name, value);
    const bool is_field = annotations && PyDict_Contains(annotations, name) > 0;
    const bool plain = (!is_field && is_made_descriptor(recorder, label)) || is_plain_default(recorder, label, value, library, is_field);
    if ((is_special(name) || is_field) && !plain) return false;
  }
  if (!annotations) return true;
  static PyObject* const of_annotations = PyUnicode_InternFromString("__annotations__");
  const Value value_of = recorder.value(recorder.value_in_class(type, of_annotations, annotations));
  if (value_of.kind != Value::Kind::kDict || !PyDict_CheckExact(annotations)) return false;
  const std::vector<uint32_t> items = recorder.copied_elements(value_of);
  for (size_t i = 0; i < items.size(); i += 2) {
    PyObject* const key = recorder.constant_of(items[i]);
    PyObject* const annotation = key && PyUnicode_CheckExact(key) ? PyDict_GetItemWithError(annotations, key) : nullptr;
    if (!annotation || !is_plain_annotation(recorder, items[i + 1], annotation, library, globals)) return false;
  }
  return true;
}

// The fields of a base from outside are those that it has now.
bool fixes_bases(Recorder& recorder, PyTypeObject* type) {
  for (Py_ssize_t i = 1; i < PyTuple_GET_SIZE(type->tp_mro); i++) {
    PyObject* const base = PyTuple_GET_ITEM(type->tp_mro, i);
    bool told = false;
    if (is_plain_class(base)) cpython::init_subclass_of(reinterpret_cast<PyTypeObject*>(base), &told);
    if (!is_plain_class(base) || told) return false;
    PyObject* const fields = recorder.made_class(base) ? nullptr : fields_of(reinterpret_cast<PyTypeObject*>(base));
    if (fields && !PyDict_CheckExact(fields)) return false;
    if (fields) recorder.guards().fix_attribute(base, name_of_fields());
  }
  return true;
}

// All that is known of the class, and of those that it inherits from.
void add_classes(Recorder& recorder, TakenOver& made, PyTypeObject* type) {
  made.add(recorder.constant(reinterpret_cast<PyObject*>(type)), reinterpret_cast<PyObject*>(type));
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(type->tp_mro); i++) {
    auto* const base = reinterpret_cast<PyTypeObject*>(PyTuple_GET_ITEM(type->tp_mro, i));
    PyObject *name = nullptr, *value = nullptr;
    if (recorder.made_class(reinterpret_cast<PyObject*>(base))) {
      for (Py_ssize_t at = 0; PyDict_Next(base->tp_dict, &at, &name, &value);) {
        if (!is_put_by_type(base, value)) made.add(recorder.value_in_class(base, name, value), value);
      }
    } else if (PyObject* const fields = fields_of(base)) {
      for (Py_ssize_t at = 0; PyDict_Next(fields, &at, nullptr, &value);) made.add_fixed(value);
    }
  }
}

// What has been put into the class, or taken out. False: it isn't known what that is.
bool take_changes(Recorder& recorder, TakenOver& made, PyTypeObject* type, PyObject* had) {
  PyObject *name = nullptr, *value = nullptr;
  std::vector<std::pair<PyObject*, uint32_t>> changes;
  for (Py_ssize_t at = 0; PyDict_Next(had, &at, &name, nullptr);) {
    if (!PyDict_GetItemWithError(type->tp_dict, name)) changes.emplace_back(name, 0);
  }
  for (Py_ssize_t at = 0; PyDict_Next(type->tp_dict, &at, &name, &value);) {
    if (PyDict_GetItemWithError(had, name) == value) continue;
    changes.emplace_back(name, made.label_of(value));
    if (!changes.back().second) return false;
  }
  for (const auto& [changed, label] : changes) recorder.change_class(reinterpret_cast<PyObject*>(type), changed, label);
  return true;
}

// A class with slots is another one, made of what the first has. 0: something in it isn't known.
uint32_t second_class(Recorder& recorder, TakenOver& made, PyTypeObject* first, PyTypeObject* second) {
  static PyObject *const of_name = PyUnicode_InternFromString("__name__"), *const of_qualified = PyUnicode_InternFromString("__qualname__");
  const Ref name = Ref::steal(PyType_Type.tp_getattro(reinterpret_cast<PyObject*>(second), of_name));
  const Ref qualified = Ref::steal(PyType_Type.tp_getattro(reinterpret_cast<PyObject*>(second), of_qualified));
  if (!name || !qualified || Py_TYPE(second) != Py_TYPE(first)) return PyErr_Clear(), 0;
  std::vector<uint32_t> body{recorder.constant(of_qualified), recorder.constant(qualified.get())};
  std::vector<std::pair<PyObject*, uint32_t>> later;
  bool is_done = false;  // what comes then was stored into it
  PyObject *key = nullptr, *value = nullptr;
  for (Py_ssize_t at = 0; PyDict_Next(second->tp_dict, &at, &key, &value);) {
    if (is_put_by_type(second, value)) {
      is_done = true;
      continue;
    }
    const bool same = PyDict_GetItemWithError(first->tp_dict, key) == value;
    const uint32_t label = same ? recorder.value_in_class(first, key, value) : made.label_of(value);
    if (!label) return 0;
    if (is_done) later.emplace_back(key, label);
    if (!is_done) body.insert(body.end(), {recorder.constant(key), label});
  }
  if (second->tp_bases != first->tp_bases) return 0;
  const uint32_t bases = recorder.made_class(reinterpret_cast<PyObject*>(first))->bases;
  const uint32_t label = recorder.new_class(recorder.constant(reinterpret_cast<PyObject*>(Py_TYPE(second))), recorder.constant(name.get()), bases, body);
  recorder.made_class(label, reinterpret_cast<PyObject*>(second));
  for (const auto& [changed, put] : later) recorder.change_class(reinterpret_cast<PyObject*>(second), changed, put);
  return label;
}

// Behind the call.
uint32_t finished_class(Recorder& recorder, const Plan& plan, PyObject* result) {
  PyObject* const type = recorder.constant_of(plan.label);
  auto* const first = reinterpret_cast<PyTypeObject*>(type);
  if (!PyType_Check(result) || !take_changes(recorder, *plan.taken_over, first, plan.finishes.get()) || !plan.taken_over->reread()) return 0;
  return result == type ? plan.label : second_class(recorder, *plan.taken_over, first, reinterpret_cast<PyTypeObject*>(result));
}

}  // namespace

std::optional<Plan> class_finishing(const Site& site, const Activation::CallSite& call, PyObject* callable) {
  if (!PyFunction_Check(callable) || call.count < 1 || call.keyword_names || !finishes_classes(callable)) return std::nullopt;
  Recorder& recorder = site.recorder;
  PyObject* const type = site.frame.slot(call.first);
  const auto unknown = [&] { return plan_break(Break::kUnknownCall, callable_name(callable)); };
  if (!PyType_Check(type) || !recorder.made_class(type) || !is_plain_class(type) || recorder.has_stored_into(type)) return unknown();
  auto* const of = reinterpret_cast<PyTypeObject*>(type);
  for (int i = call.first + 1; i < call.first + call.count; i++) {
    PyObject* const option = recorder.constant_of(recorder.label(i));
    if (!option || !PyBool_Check(option)) return unknown();
  }
  PyObject* const module_name = PyDict_GetItemString(of->tp_dict, "__module__");
  PyObject* const module = module_name && PyUnicode_CheckExact(module_name) ? loaded(recorder, module_name) : nullptr;
  PyObject* const library = reinterpret_cast<PyFunctionObject*>(callable)->func_globals;
  if (!module || !has_plain_contents(recorder, of, library, PyModule_GetDict(module)) || !fixes_bases(recorder, of)) return unknown();
  recorder.guards().require_function(callable);
  Plan plan = plan_value(recorder.label(call.first));
  plan.finishes = Ref::steal(PyDict_Copy(of->tp_dict));
  if (!plan.finishes) return PyErr_Clear(), unknown();
  plan.taken_over = std::make_shared<TakenOver>(recorder, library, PyModule_GetDict(module));
  add_classes(recorder, *plan.taken_over, of);
  plan.takes_over = finished_class;
  return plan;
}

}  // namespace evalframe::recorder
