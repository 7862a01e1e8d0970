// Finds the places of attributes, as CPython's own inline caches do.
#define Py_BUILD_CORE 1
#include "cpython/attributes.h"

#include <structmember.h>

#include <algorithm>
#include <span>

#include "core/kept_name.h"
#include "core/made_once.h"
#include "cpython/objects.h"
#include "cpython/pycore.h"
#include "cpython/versions.h"

namespace evalframe::cpython {

PyObject* lookup(const PyTypeObject* type, const char* name) {
  PyObject* const text = kept_name(name);
  return text ? _PyType_Lookup(const_cast<PyTypeObject*>(type), text) : nullptr;
}

namespace {

using Kind = AttributePlace::Kind;

static_assert(offsetof(PyDictKeysObject, dk_nentries) == 3 * sizeof(Py_ssize_t));
#if PY_VERSION_HEX >= 0x030D0000
static_assert(kHasInlineValues == Py_TPFLAGS_INLINE_VALUES && offsetof(PyDictValues, capacity) == 0 && offsetof(PyDictValues, size) == 1);
static_assert(offsetof(PyDictValues, valid) == 3 && offsetof(PyDictValues, values) == sizeof(PyObject*));
#else
static_assert(kHasInlineValues == Py_TPFLAGS_MANAGED_DICT);
#endif

bool has_inline_values(PyTypeObject* type) {
  constexpr unsigned long kNeeded = Py_TPFLAGS_HEAPTYPE | kHasInlineValues;
  return (type->tp_flags & kNeeded) == kNeeded && reinterpret_cast<PyHeapTypeObject*>(type)->ht_cached_keys;
}
bool has_dict(PyTypeObject* type) { return type->tp_dictoffset != 0 || (type->tp_flags & Py_TPFLAGS_MANAGED_DICT); }

// Where all keys are exact strings, looking one up runs no Python code.
bool has_string_keys(PyObject* dict) { return dict && DK_IS_UNICODE(reinterpret_cast<PyDictObject*>(dict)->ma_keys); }

// What the class has as `name`, as _PyType_Lookup. False where asking for it may run Python code.
bool find_in_class(PyTypeObject* type, PyObject* name, PyObject*& found) {
  PyObject* const bases = type->tp_mro;
  const Py_ssize_t count = bases ? PyTuple_GET_SIZE(bases) : 0;
  for (Py_ssize_t index = 0; index < count; ++index) {
    auto* const base = reinterpret_cast<PyTypeObject*>(PyTuple_GET_ITEM(bases, index));
    if (!PyType_HasFeature(base, Py_TPFLAGS_IMMUTABLETYPE) && !has_string_keys(base->tp_dict)) return false;
  }
  found = _PyType_Lookup(type, name);
  return true;
}

// Where the name stands among those that instances have had; -1: none had it.
Py_ssize_t index_of_name(PyTypeObject* type, PyObject* name) {
  PyDictKeysObject* const keys = reinterpret_cast<PyHeapTypeObject*>(type)->ht_cached_keys;
  if (!DK_IS_UNICODE(keys)) return -1;
  const PyDictUnicodeEntry* const entries = DK_UNICODE_ENTRIES(keys);
  for (Py_ssize_t index = 0; index < keys->dk_nentries; ++index) {
    if (entries[index].me_key == name) return index;
  }
  return -1;
}

// The offset of a slot made by __slots__, or -1.
Py_ssize_t offset_of_slot(PyTypeObject* type, PyObject* descriptor, bool to_store) {
  if (!descriptor || !Py_IS_TYPE(descriptor, &PyMemberDescr_Type) || !PyType_IsSubtype(type, PyDescr_TYPE(descriptor))) return -1;
  const PyMemberDef* const member = reinterpret_cast<PyMemberDescrObject*>(descriptor)->d_member;
  if (member->type != T_OBJECT_EX || (member->flags & ~READONLY) || (to_store && (member->flags & READONLY))) return -1;
  return member->offset;
}

// A class of Python's may get __get__ and __set__ later, which no version of the owner's class tells.
bool may_become_descriptor(PyObject* found) { return found && !PyType_HasFeature(Py_TYPE(found), Py_TPFLAGS_IMMUTABLETYPE); }

// Whether getting what the class has runs no Python code.
bool binds_quietly(PyObject* found) {
  PyTypeObject* const type = Py_TYPE(found);
  if (!type->tp_descr_get || type == &PyFunction_Type || type == &PyStaticMethod_Type || type == &PyMemberDescr_Type) return true;
  if (type == &PyMethodDescr_Type || type == &PyWrapperDescr_Type) return true;
  if (type != &PyClassMethod_Type) return false;
  // It asks what it holds, which may be a property.
  const Ref held = Ref::steal(PyObject_GetAttrString(found, "__func__"));
  if (!held) PyErr_Clear();
  return held && PyFunction_Check(held.get());
}

AttributePlace place_in_module(PyObject* module, PyObject* name) {
  PyObject* const dict = PyModule_GetDict(module);
  if (_PyType_Lookup(&PyModule_Type, name) || !has_string_keys(dict)) return {};
  PyObject* const value = PyDict_GetItemWithError(dict, name);
  if (!value) {
    PyErr_Clear();
    return {};
  }
  return {Kind::kModule, 0, dict_version(dict), value};
}

AttributePlace place_in_class(PyTypeObject* owner, PyObject* name) {
  if (Py_TYPE(owner) != &PyType_Type || _PyType_Lookup(&PyType_Type, name)) return {};
  PyObject* value;
  if (!find_in_class(owner, name, value)) return {};
  const uint32_t version = type_version(owner);
  // A function of a class is got as it is.
  if (!value || !version || may_become_descriptor(value) || (Py_TYPE(value)->tp_descr_get && !PyFunction_Check(value))) return {};
  return {Kind::kOwner, version, 0, value};
}

}  // namespace

bool is_slot(PyTypeObject* type, PyObject* descriptor) { return offset_of_slot(type, descriptor, false) >= 0; }

// What getters of functions and of classes of Python's read: Objects/funcobject.c, Objects/typeobject.c (type_name, type_qualname).
using NamePlace = std::pair<const char*, Py_ssize_t>;
static constexpr NamePlace kFunctionNames[] = {{"__name__", offsetof(PyFunctionObject, func_name)}, {"__qualname__", offsetof(PyFunctionObject, func_qualname)},
                                               {"__globals__", offsetof(PyFunctionObject, func_globals)}, {"__annotations__", offsetof(PyFunctionObject, func_annotations)}},
                           kClassNames[] = {{"__name__", offsetof(PyHeapTypeObject, ht_name)}, {"__qualname__", offsetof(PyHeapTypeObject, ht_qualname)}};

Py_ssize_t offset_of_field(PyObject* object, PyObject* name) {
  PyTypeObject* const type = Py_TYPE(object);
  PyObject* found;
  if (!find_in_class(type, name, found)) return -1;
  const bool is_class = PyType_Check(object) && PyType_HasFeature(reinterpret_cast<PyTypeObject*>(object), Py_TPFLAGS_HEAPTYPE) && found == _PyType_Lookup(&PyType_Type, name);
  if (!is_class && !PyFunction_Check(object)) return offset_of_slot(type, found, false);
  for (const auto& [known, offset] : is_class ? std::span<const NamePlace>(kClassNames) : kFunctionNames) {
    if (PyUnicode_CompareWithASCIIString(name, known) == 0) return offset;
  }
  return -1;
}

AttributePlace place_to_load(PyObject* object, PyObject* name) {
  if (PyModule_CheckExact(object)) return place_in_module(object, name);
  PyTypeObject* const type = Py_TYPE(object);
  if (PyType_Check(object)) return place_in_class(reinterpret_cast<PyTypeObject*>(object), name);
  PyObject* found;
  if (type->tp_getattro != PyObject_GenericGetAttr || !find_in_class(type, name, found)) return {};
  const uint32_t version = type_version(type);
  if (!version || may_become_descriptor(found)) return {};
  if (const Py_ssize_t offset = offset_of_slot(type, found, false); offset >= 0) return {Kind::kSlot, version, static_cast<uint64_t>(offset)};
  if (found && Py_TYPE(found)->tp_descr_set) return {};
  const bool has_values = has_inline_values(type);
  if (!has_values && has_dict(type)) return {};
  const Py_ssize_t index = has_values ? index_of_name(type, name) : -1;
  if (index >= 0) return {Kind::kInline, version, static_cast<uint64_t>(index)};
  if (!found) return {};
  const bool is_method = PyType_HasFeature(Py_TYPE(found), Py_TPFLAGS_METHOD_DESCRIPTOR);
  if (!is_method && Py_TYPE(found)->tp_descr_get) return {};
  return {is_method ? Kind::kMethod : Kind::kClass, version, has_values ? instance_names(type) : AttributePlace::kNoDict, found};
}

PyObject* own_value(PyObject* object, PyObject* name) {
  PyTypeObject* const type = Py_TYPE(object);
  PyObject* found;
  if (!find_in_class(type, name, found)) return nullptr;
  if (const Py_ssize_t offset = offset_of_slot(type, found, false); offset >= 0) {
    return *reinterpret_cast<PyObject**>(reinterpret_cast<char*>(object) + offset);
  }
  if (!has_dict(type)) return nullptr;
  if (PyObject** const values = has_inline_values(type) ? inline_values(object) : nullptr) {
    const Py_ssize_t index = index_of_name(type, name);
    return index < 0 ? nullptr : values[index];
  }
  PyObject** const dict = _PyObject_GetDictPtr(object);
  PyObject* const value = dict && has_string_keys(*dict) ? PyDict_GetItemWithError(*dict, name) : nullptr;
  if (!value) PyErr_Clear();
  return value;
}

PyObject* own_dict(PyObject* object) {
  PyTypeObject* const type = Py_TYPE(object);
  if (!has_dict(type)) return nullptr;
  if (has_inline_values(type) && inline_values(object)) return layout::k313 ? reinterpret_cast<PyObject**>(object)[-3] : nullptr;
  PyObject** const dict = _PyObject_GetDictPtr(object);
  return dict ? *dict : nullptr;
}

std::optional<DictPlace> dict_place(PyObject* object) {
  PyTypeObject* const type = Py_TYPE(object);
  if (!has_dict(type)) return DictPlace{};
  if (has_inline_values(type) && inline_values(object)) return std::nullopt;
  PyObject* const dict = own_dict(object);
  // Of a managed dict that isn't there yet the object may get values instead.
  if (type->tp_flags & Py_TPFLAGS_MANAGED_DICT) return dict && version_tells_all(dict) ? std::optional(DictPlace{-3 * Py_ssize_t{sizeof(PyObject*)}, dict}) : std::nullopt;
  if (dict && !version_tells_all(dict)) return std::nullopt;
  // Of an object with elements in itself (an int, a tuple) it stands behind these, of which there are always as many.
  const auto* const place = reinterpret_cast<const char*>(_PyObject_GetDictPtr(object));
  return DictPlace{place - reinterpret_cast<const char*>(object), dict};
}

bool may_have_values_alone(PyObject* object) { return has_inline_values(Py_TYPE(object)) && has_values_alone(object); }

std::vector<Word> words_of_values(PyObject* object) {
  constexpr uint64_t kMost = 16;
  // 3.13 counts them elsewhere.
  if (layout::k313 || !may_have_values_alone(object)) return {};
  const uint64_t count = instance_names(Py_TYPE(object));
  if (count > kMost) return {};
  const auto* const pointers = reinterpret_cast<PyObject* const*>(object);
  PyObject* const* const values = inline_values(object);
  std::vector<Word> words = {word_at(pointers - (layout::k311 ? 4 : 3))};
  // Before the values stands how many there are, behind the order in which they came: one that comes or goes changes that.
  for (PyObject* const* at = values - 1; at != values + count; at++) words.push_back(word_at(at));
  return words;
}

bool dict_comes_first(PyTypeObject* type, PyObject* name) {
  PyObject* found;
  return find_in_class(type, name, found) && !may_become_descriptor(found) && !(found && Py_TYPE(found)->tp_descr_set);
}

namespace {

PyObject* name_of_lookup() {
  static PyObject* const name = PyUnicode_InternFromString("__getattribute__");
  return name;
}

// The class has the __getattribute__ of `base`, so that its hook asks that first.
bool inherits_lookup(PyTypeObject* type, PyTypeObject* base) {
  PyObject* found = nullptr;
  return find_in_class(type, name_of_lookup(), found) && found == _PyType_Lookup(base, name_of_lookup());
}

}  // namespace

bool looks_up_plainly(PyTypeObject* type) { return type->tp_getattro == PyObject_GenericGetAttr || inherits_lookup(type, &PyBaseObject_Type); }
bool looks_up_class_plainly(PyTypeObject* metaclass) { return metaclass->tp_getattro == PyType_Type.tp_getattro || inherits_lookup(metaclass, &PyType_Type); }

bool is_plain_to_hold(PyObject* object) {
  PyTypeObject* const type = Py_TYPE(object);
  if (!has_dict(type) || (has_inline_values(type) && inline_values(object))) return true;
  PyObject** const dict = _PyObject_GetDictPtr(object);
  return !dict || !*dict || has_string_keys(*dict);
}

bool gives_its_module(PyTypeObject* metaclass) {
  static PyObject* const name = PyUnicode_InternFromString("__module__");
  PyObject* found;
  return find_in_class(metaclass, name, found) && found == _PyType_Lookup(&PyType_Type, name);
}

bool gives_its_dict(PyTypeObject* type) {
  static PyObject* const name = PyUnicode_InternFromString("__dict__");
  PyObject* found = nullptr;
  if (PyType_IsSubtype(type, &PyType_Type) || PyType_IsSubtype(type, &PyModule_Type)) return false;
  if (!has_dict(type) || !name || !find_in_class(type, name, found) || !found) return false;
  return Py_IS_TYPE(found, &PyGetSetDescr_Type) || Py_IS_TYPE(found, &PyMemberDescr_Type);
}

bool lacks_attribute(PyObject* object, PyObject* name) {
  PyTypeObject* const type = Py_TYPE(object);
  if (!has_dict(type)) return true;
  if (PyObject** const values = has_inline_values(type) ? inline_values(object) : nullptr) {
    const Py_ssize_t index = index_of_name(type, name);
    return index < 0 || !values[index];
  }
  PyObject** const dict = _PyObject_GetDictPtr(object);
  return !dict || !*dict || (has_string_keys(*dict) && !PyDict_GetItemWithError(*dict, name));
}

bool is_plain_to_load(PyObject* object, PyObject* name) {
  PyTypeObject* const type = Py_TYPE(object);
  PyObject* found;
  // Its names.
  if (PyType_Check(object)) return find_in_class(type, name, found) && found && found == _PyType_Lookup(&PyType_Type, name) && Py_IS_TYPE(found, &PyGetSetDescr_Type);
  if (!looks_up_plainly(type) || !find_in_class(type, name, found)) return false;
  if (type == &PyFunction_Type && found) return Py_IS_TYPE(found, &PyGetSetDescr_Type) || Py_IS_TYPE(found, &PyMemberDescr_Type);
  if (type == &PyCFunction_Type && found && Py_IS_TYPE(found, &PyGetSetDescr_Type)) {  // others may ask the class of what it is bound to
    return PyUnicode_CompareWithASCIIString(name, "__name__") == 0 || PyUnicode_CompareWithASCIIString(name, "__self__") == 0;
  }
  if (!found && type->tp_getattro != PyObject_GenericGetAttr) return own_value(object, name);
  if (!found) return true;
  if (Py_IS_TYPE(found, &PyMemberDescr_Type)) return type->tp_getattro == PyObject_GenericGetAttr || own_value(object, name);
  if (Py_TYPE(found)->tp_descr_set) return PyUnicode_CompareWithASCIIString(name, "__dict__") == 0 && gives_its_dict(type);
  return binds_quietly(found) || own_value(object, name);
}

Ref plain_attribute(PyObject* object, PyObject* name) {
  return is_plain_to_load(object, name) ? Ref::steal(PyObject_GenericGetAttr(object, name)) : Ref();
}

namespace {

// By a property of a type written in C.
bool is_computed_by_c(PyObject* object, PyObject* name) {
  PyObject* const found = PyType_Check(object) || Py_TYPE(object)->tp_getattro != PyObject_GenericGetAttr ? nullptr : _PyType_Lookup(Py_TYPE(object), name);
  return found && Py_IS_TYPE(found, &PyGetSetDescr_Type) && !PyType_HasFeature(PyDescr_TYPE(found), Py_TPFLAGS_HEAPTYPE);
}

}  // namespace

Ref attribute_past_hooks(PyObject* object, PyObject* name) {
  PyTypeObject* const type = Py_TYPE(object);
  PyObject* found;
  if (is_computed_by_c(object, name)) {
    Ref computed = Ref::steal(PyObject_GenericGetAttr(object, name));
    return computed ? std::move(computed) : (PyErr_Clear(), Ref());
  }
  if (PyType_Check(object) || !PyFunction_Check(_PyType_Lookup(type, name_of_lookup()))) return plain_attribute(object, name);
  if (!find_in_class(type, name, found)) return Ref();
  const bool of_class = found && Py_TYPE(found)->tp_descr_set && !is_slot(type, found);
  const bool own = of_class ? PyUnicode_CompareWithASCIIString(name, "__dict__") == 0 && gives_its_dict(type) : own_value(object, name) != nullptr;
  return own ? Ref::steal(PyObject_GenericGetAttr(object, name)) : Ref();
}

OwnNames own_names(PyObject* object) {
  static_assert(sizeof(PyDictUnicodeEntry) == 2 * sizeof(PyObject*) && offsetof(PyDictUnicodeEntry, me_value) == sizeof(PyObject*));
  PyTypeObject* const type = Py_TYPE(object);
  OwnNames names{object};
  PyDictKeysObject* keys = nullptr;
  if (PyObject** const values = has_inline_values(type) ? inline_values(object) : nullptr) {
    keys = reinterpret_cast<PyHeapTypeObject*>(type)->ht_cached_keys;
    names.values = values;
  } else if (auto* const dict = reinterpret_cast<PyDictObject*>(own_dict(object))) {
    keys = dict->ma_keys;
    if (dict->ma_values) names.values = dict->ma_values->values;
  }
  if (!keys || !DK_IS_UNICODE(keys)) return names;
  names.version = current_type_version(type);
  names.count = keys->dk_nentries;
  names.entries = reinterpret_cast<PyObject* const*>(DK_UNICODE_ENTRIES(keys));
  return names;
}

void AttributeHint::learn(PyObject* object, PyObject* name) {
  *this = {};
  PyTypeObject* const type = Py_TYPE(object);
  PyObject* found;
  if (PyType_Check(object) || !find_in_class(type, name, found)) return;
  if (may_become_descriptor(found) || (found && Py_TYPE(found)->tp_descr_set)) return;
  const OwnNames names = own_names(object);
  constexpr Py_ssize_t kMost = 256;  // that are gone through: it is done anew wherever objects differ
  const Py_ssize_t count = std::min(kMost, names.count);
  while (index_ < count && names.entries[2 * index_] != name) index_++;
  if (index_ < count) version_ = names.version;
}

bool is_plain_to_store(PyObject* object, PyObject* name) {
  return Py_TYPE(object)->tp_setattro == PyObject_GenericSetAttr && is_plain_to_keep(object, name);
}

bool is_plain_to_keep(PyObject* object, PyObject* name) {
  PyTypeObject* const type = Py_TYPE(object);
  PyObject* found;
  if (PyType_Check(object) || !find_in_class(type, name, found) || !type_version(type)) return false;
  if (offset_of_slot(type, found, true) >= 0) return true;
  return has_dict(type) && !may_become_descriptor(found) && !(found && Py_TYPE(found)->tp_descr_set);
}

namespace {

// What classes have in tp_new that have a __new__ of Python's.
newfunc python_new() {
  static MadeOnce<newfunc> found;
  return found.get([] {
    const Ref type = Ref::steal(PyObject_CallFunction(reinterpret_cast<PyObject*>(&PyType_Type), "s(){sO}", "made", "__new__", &PyType_Type));
    return type ? type.as<PyTypeObject>()->tp_new : nullptr;
  });
}

}  // namespace

// As object.__new__ looks whether it is safe.
bool makes_plain_instances(PyTypeObject* type) {
  if (!PyType_HasFeature(type, Py_TPFLAGS_HEAPTYPE) || (type->tp_flags & Py_TPFLAGS_IS_ABSTRACT) || type->tp_finalize || type->tp_del) return false;
  const PyTypeObject* base = type;
  while (base && base->tp_new == python_new()) base = base->tp_base;
  return base && base->tp_new == PyBaseObject_Type.tp_new && type_version(type);
}

bool constructs_plainly(PyTypeObject* type) {
  return Py_TYPE(type)->tp_call == PyType_Type.tp_call && type->tp_new == PyBaseObject_Type.tp_new && !type->tp_vectorcall && makes_plain_instances(type);
}

Ref bare_instance(PyTypeObject* type) {
  static PyObject* const nothing = PyTuple_New(0);
  // With arguments of its own, `object` refuses to make one where __init__ isn't the class's.
  const newfunc make = type->tp_new == python_new() ? PyBaseObject_Type.tp_new : type->tp_new;
  return Ref::steal(make(type, nothing, nullptr));
}

PyTypeObject* builtin_base(PyTypeObject* type) {
  if (!PyType_HasFeature(type, Py_TPFLAGS_HEAPTYPE) || PyType_HasFeature(type, Py_TPFLAGS_IMMUTABLETYPE)) return nullptr;
  PyTypeObject* base = type->tp_base;
  while (base && PyType_HasFeature(base, Py_TPFLAGS_HEAPTYPE) && !PyType_HasFeature(base, Py_TPFLAGS_IMMUTABLETYPE)) base = base->tp_base;
  for (PyTypeObject* const known : {&PyTuple_Type, &PyList_Type, &PyDict_Type, &PyODict_Type, &PyLong_Type, &PyUnicode_Type, &PyFloat_Type}) {
    if (base == known) return base;
  }
  return nullptr;
}

Ref instance_of_builtin(PyTypeObject* type, PyObject* contents) {
  const Ref arguments = Ref::steal(contents ? PyTuple_Pack(1, contents) : PyTuple_New(0));
  return arguments ? Ref::steal(builtin_base(type)->tp_new(type, arguments.get(), nullptr)) : Ref();
}

// _tuplegetter has no header.
Py_ssize_t index_of_field(PyObject* descriptor) {
  static MadeOnce<Ref> type;
  const Ref& known = type.get([] {
    const Ref module = Ref::steal(PyImport_ImportModule("_collections"));
    Ref found = module ? Ref::steal(PyObject_GetAttrString(module.get(), "_tuplegetter")) : Ref();
    if (!found) PyErr_Clear();
    return found;
  });
  struct Getter {
    PyObject_HEAD
    Py_ssize_t index;
  };
  return known && Py_IS_TYPE(descriptor, known.as<PyTypeObject>()) ? reinterpret_cast<Getter*>(descriptor)->index : -1;
}

PyObject* initializer_of(PyTypeObject* type) {
  if (Py_TYPE(type) != &PyType_Type || type->tp_new != PyBaseObject_Type.tp_new || type->tp_init == PyBaseObject_Type.tp_init) return nullptr;
  if (type->tp_vectorcall || (type->tp_flags & Py_TPFLAGS_IS_ABSTRACT) || !type_version(type)) return nullptr;
  static PyObject* const name = PyUnicode_InternFromString("__init__");
  PyObject* found = nullptr;
  if (name && !find_in_class(type, name, found)) return nullptr;
  return found && PyFunction_Check(found) ? found : nullptr;
}

AttributePlace place_to_store(PyObject* object, PyObject* name) {
  PyTypeObject* const type = Py_TYPE(object);
  PyObject* found;
  if (type->tp_setattro != PyObject_GenericSetAttr || !find_in_class(type, name, found)) return {};
  const uint32_t version = type_version(type);
  if (!version || may_become_descriptor(found)) return {};
  if (const Py_ssize_t offset = offset_of_slot(type, found, true); offset >= 0) return {Kind::kSlot, version, static_cast<uint64_t>(offset)};
  if ((found && Py_TYPE(found)->tp_descr_set) || !has_inline_values(type)) return {};
  const Py_ssize_t index = index_of_name(type, name);
  return index < 0 ? AttributePlace{} : AttributePlace{Kind::kInline, version, static_cast<uint64_t>(index)};
}

}  // namespace evalframe::cpython
