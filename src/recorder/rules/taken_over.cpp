#include "recorder/rules/taken_over.h"

#include "cpython/attributes.h"
#include "recorder/rules/rules.h"

namespace evalframe::recorder {

namespace {

constexpr int kMaxDepth = 20;

bool is_found_by_type(PyObject* object) {
  const PyTypeObject* const type = Py_TYPE(object);
  PyObject* const self = PyCFunction_CheckExact(object) ? PyCFunction_GET_SELF(object) : nullptr;
  if (PyCFunction_CheckExact(object)) return !self || PyModule_Check(self) || PyType_Check(self);
  return PyType_Check(object) || PyModule_CheckExact(object) || type == &PyMethodDescr_Type || type == &PyWrapperDescr_Type;
}

// The names of a module that is loaded.
bool is_of_module(PyObject* globals) {
  PyObject *const name = PyDict_GetItemString(globals, "__name__"), *const modules = PyImport_GetModuleDict();
  PyObject* const module = name && PyUnicode_CheckExact(name) && PyDict_CheckExact(modules) ? PyDict_GetItemWithError(modules, name) : nullptr;
  return module && PyModule_CheckExact(module) && PyModule_GetDict(module) == globals;
}

// What a new function has that depends on its code and globals alone, unless something else is stored.
constexpr const char* kNames[] = {"__name__", "__qualname__", "__doc__", "__module__", "__type_params__"};

// What an instance has of the builtin type that its class inherits from; null: not known.
Ref contents_of(PyTypeObject* base, PyObject* object) {
  if (base == &PyLong_Type) return Ref::steal(PyLong_Type.tp_as_number->nb_int(object));
  return base == &PyUnicode_Type ? Ref::steal(PyUnicode_FromObject(object)) : Ref();
}

}  // namespace

bool is_put_by_type(PyTypeObject* type, PyObject* value) {
  return Py_IS_TYPE(value, &PyGetSetDescr_Type) || (Py_IS_TYPE(value, &PyMemberDescr_Type) && PyDescr_TYPE(value) == type);
}

bool TakenOver::is_of_library(PyObject* object) const {
  PyObject* value = nullptr;
  for (Py_ssize_t at = 0; PyDict_Next(library_.get(), &at, nullptr, &value);) {
    if (value == object) return true;
  }
  return false;
}

void TakenOver::add(uint32_t label, PyObject* object) {
  // Immutable ones are shared by what has nothing to do with one another.
  if (!label || !object || is_immutable(object) || !known_.emplace(object, label).second) return;
  held_.push_back(Ref::borrow(object));
  const Value value = recorder_.value(label);
  const bool instance = value.kind == Value::Kind::kInstance && !recorder_.contents(label) && is_of_library(reinterpret_cast<PyObject*>(Py_TYPE(object)));
  if (instance) instances_.emplace_back(label, object);
  if (value.kind == Value::Kind::kTuple || value.kind == Value::Kind::kDict || instance) {
    const std::vector<uint32_t> parts = recorder_.copied_elements(value);
    for (size_t i = 0; value.kind == Value::Kind::kTuple && i < parts.size(); i++) add(parts[i], PyTuple_GET_ITEM(object, static_cast<Py_ssize_t>(i)));
    for (size_t i = 0; value.kind != Value::Kind::kTuple && i < parts.size(); i += 2) {
      PyObject* const name = recorder_.constant_of(parts[i]);
      if (!name || !PyUnicode_Check(name)) continue;
      add(parts[i + 1], instance ? cpython::own_value(object, name) : PyDict_GetItemWithError(object, name));
    }
  }
}

uint32_t TakenOver::label_of(PyObject* object) {
  if (const auto found = known_.find(object); found != known_.end()) return found->second;
  if (recorder_.is_adopted(object) || PyCode_Check(object)) return recorder_.constant(object);
  if (is_immutable(object) || is_found_by_type(object) || fixed_.contains(object) || is_of_library(object)) return recorder_.fixed(object);
  if (depth_ >= kMaxDepth) return 0;
  depth_++;
  const uint32_t label = made_of(object);
  depth_--;
  if (!label) return 0;
  known_.emplace(object, label);
  held_.push_back(Ref::borrow(object));
  recorder_.adopt(label, object);
  return label;
}

bool TakenOver::add_part(std::vector<uint32_t>& parts, PyObject* object) {
  parts.push_back(object ? label_of(object) : 0);
  return !object || parts.back();
}

bool TakenOver::add_attribute(std::vector<uint32_t>& parts, PyObject* name, PyObject* value) {
  parts.push_back(recorder_.constant(name));
  return PyUnicode_CheckExact(name) && add_part(parts, value);
}

uint32_t TakenOver::made_of(PyObject* object) {
  std::vector<uint32_t> parts;
  if (PyFunction_Check(object)) return function(reinterpret_cast<PyFunctionObject*>(object));
  if (PyTuple_CheckExact(object) || PyList_CheckExact(object)) {
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(object); i++) {
      if (!add_part(parts, PySequence_Fast_GET_ITEM(object, i))) return 0;
    }
    return recorder_.container(PyTuple_CheckExact(object) ? Value::Kind::kTuple : Value::Kind::kList, std::move(parts));
  }
  if (PyDict_CheckExact(object)) {
    PyObject *key = nullptr, *value = nullptr;
    for (Py_ssize_t at = 0; PyDict_Next(object, &at, &key, &value);) {
      if (!is_immutable(key) || !add_part(parts, key) || !add_part(parts, value)) return 0;
    }
    return recorder_.container(Value::Kind::kDict, std::move(parts));
  }
  if (PyCell_Check(object)) return add_part(parts, PyCell_GET(object)) ? recorder_.container(Value::Kind::kCell, std::move(parts)) : 0;
  if (PySet_CheckExact(object) && PySet_GET_SIZE(object) == 0) {
    return recorder_.container(Value::Kind::kReplayed, {recorder_.made(reinterpret_cast<PyObject*>(&PySet_Type), nullptr, {})});
  }
  if (Py_IS_TYPE(object, &PyStaticMethod_Type)) {
    const Ref function = Ref::steal(PyObject_GetAttrString(object, "__func__"));
    if (!function) PyErr_Clear();
    const uint32_t of = function ? label_of(function.get()) : 0;
    return of ? recorder_.made(reinterpret_cast<PyObject*>(&PyStaticMethod_Type), nullptr, {of}) : 0;
  }
  PyObject* const type = reinterpret_cast<PyObject*>(Py_TYPE(object));
  return is_of_library(type) || recorder_.made_class(type) ? instance(object) : 0;
}

uint32_t TakenOver::function(PyFunctionObject* made) {
  PyObject* const object = reinterpret_cast<PyObject*>(made);
  if (!is_plain_function(object) || (made->func_globals != globals_.get() && !is_of_module(made->func_globals))) return 0;
  const Ref fresh = Ref::steal(PyFunction_New(made->func_code, made->func_globals));
  if (!fresh) return PyErr_Clear(), 0;
  std::vector<uint32_t> parts{recorder_.constant(made->func_code), recorder_.constant(made->func_globals)};
  for (PyObject* const part : {made->func_defaults, made->func_closure, made->func_annotations, made->func_kwdefaults}) {
    if (!add_part(parts, part)) return 0;
  }
  for (const char* const text : kNames) {
    const Ref name = Ref::steal(PyUnicode_InternFromString(text));
    const Ref has = Ref::steal(PyObject_GenericGetAttr(object, name.get())), had = Ref::steal(PyObject_GenericGetAttr(fresh.get(), name.get()));
    if (!has || !had) {
      PyErr_Clear();
    } else if (has.get() != had.get() && !add_attribute(parts, name.get(), has.get())) {
      return 0;
    }
  }
  PyObject *name = nullptr, *value = nullptr;
  for (Py_ssize_t at = 0; made->func_dict && PyDict_Next(made->func_dict, &at, &name, &value);) {
    if (!add_attribute(parts, name, value)) return 0;
  }
  return recorder_.container(Value::Kind::kFunction, std::move(parts));
}

bool TakenOver::attributes_of(PyObject* object, std::vector<uint32_t>& parts) {
  PyTypeObject* const type = Py_TYPE(object);
  if (!cpython::looks_up_plainly(type)) return false;
  PyObject *name = nullptr, *value = nullptr;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(type->tp_mro); i++) {
    PyObject* const dict = reinterpret_cast<PyTypeObject*>(PyTuple_GET_ITEM(type->tp_mro, i))->tp_dict;
    for (Py_ssize_t at = 0; dict && PyDict_Next(dict, &at, &name, &value);) {
      PyObject* const own = cpython::is_slot(type, value) ? cpython::own_value(object, name) : nullptr;
      if (own && !add_attribute(parts, name, own)) return false;
    }
  }
  const Ref dict = type->tp_dictoffset ? Ref::steal(PyObject_GenericGetDict(object, nullptr)) : Ref();
  for (Py_ssize_t at = 0; dict && PyDict_Next(dict.get(), &at, &name, &value);) {
    if (!add_attribute(parts, name, value)) return false;
  }
  return dict || !type->tp_dictoffset || (PyErr_Clear(), false);
}

uint32_t TakenOver::instance(PyObject* object) {
  PyTypeObject* const type = Py_TYPE(object);
  std::vector<uint32_t> parts;
  if (!recorder_.fix_class(reinterpret_cast<PyObject*>(type)) || !attributes_of(object, parts)) return 0;
  PyTypeObject* const base = cpython::builtin_base(type);
  const Ref contents = base ? contents_of(base, object) : Ref();
  if (base && !contents) return PyErr_Clear(), 0;
  const uint32_t known = base ? recorder_.constant(contents.get()) : 0;
  const uint32_t made = recorder_.instance(reinterpret_cast<PyObject*>(type), known);
  if (known) parts.insert(parts.begin(), {0, known});
  recorder_.replace(recorder_.value(made), parts);
  return made;
}

bool TakenOver::reread() {
  for (const auto& [label, object] : instances_) {
    std::vector<uint32_t> parts;
    if (!attributes_of(object, parts)) return false;
    recorder_.replace(recorder_.value(label), parts);
  }
  return true;
}

}  // namespace evalframe::recorder
