// Makes and runs the check program of a recording.
#include "guards/guards.h"

#include <cstring>

#include "cpython/versions.h"
#include "frontends/numpy/numpy_api.h"

namespace evalframe::guards {

namespace {

// Flags of an array that kernels and replays depend on.
constexpr int kArrayFlags = NPY_ARRAY_ALIGNED | NPY_ARRAY_WRITEABLE;

bool same_array(const Source& source, PyObject* object) {
  if (Py_TYPE(object) != &PyArray_Type) return false;
  PyArrayObject* array = numpy::as_array(object);
  if (PyArray_NDIM(array) != source.meta.rank || (PyArray_FLAGS(array) & kArrayFlags) != source.length) return false;
  if (PyArray_DESCR(array) == source.want.as<PyArray_Descr>()) return true;
  return PyArray_EquivTypes(PyArray_DESCR(array), source.want.as<PyArray_Descr>());
}

bool equal(PyObject* object, PyObject* want) {
  if (object == want) return true;
  if (Py_TYPE(object) != Py_TYPE(want)) return false;
  if (PyTuple_CheckExact(want)) {
    if (PyTuple_GET_SIZE(object) != PyTuple_GET_SIZE(want)) return false;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(want); i++) {
      if (!equal(PyTuple_GET_ITEM(object, i), PyTuple_GET_ITEM(want, i))) return false;
    }
    return true;
  }
  // -0.0 == 0.0 and nan != nan: floats are compared by their bits.
  if (PyFloat_CheckExact(want)) {
    const double a = PyFloat_AS_DOUBLE(object), b = PyFloat_AS_DOUBLE(want);
    return std::memcmp(&a, &b, sizeof a) == 0;
  }
  const int result = PyObject_RichCompareBool(object, want, Py_EQ);
  if (result < 0) PyErr_Clear();
  return result > 0;
}

bool holds(const Source& source, PyObject* object) {
  switch (source.check) {
    case Check::kNone: return true;
    case Check::kType: return Py_TYPE(object) == source.want.as<PyTypeObject>();
    case Check::kEqual: return equal(object, source.want.get());
    case Check::kIdentity: return object == source.want.get();
    case Check::kArray: return same_array(source, object);
    case Check::kTypeVersion:
      return Py_TYPE(object) == source.want.as<PyTypeObject>() &&
             cpython::current_type_version(Py_TYPE(object)) == source.type_version;
    case Check::kLength:
      return Py_TYPE(object) == source.want.as<PyTypeObject>() && PyObject_Size(object) == source.length;
  }
  return false;
}

Ref item(const Source& source, PyObject* parent) {
  if (PyDict_CheckExact(parent)) return Ref::borrow(PyDict_GetItemWithError(parent, source.object.get()));
  if (PyList_CheckExact(parent) && source.index < PyList_GET_SIZE(parent)) return Ref::borrow(PyList_GET_ITEM(parent, source.index));
  if (PyTuple_Check(parent) && source.index < PyTuple_GET_SIZE(parent)) return Ref::borrow(PyTuple_GET_ITEM(parent, source.index));
  return Ref();
}

Ref read(const Source& source, PyObject* const* const* frames, const std::vector<Ref>& objects) {
  PyObject* parent = source.parent >= 0 ? objects[source.parent].get() : nullptr;
  switch (source.reach) {
    case Reach::kSlot: return Ref::borrow(frames[source.frame][source.index]);
    case Reach::kAttribute: return Ref::steal(PyObject_GetAttr(parent, source.object.get()));
    case Reach::kMethod: return cpython::bound_function(parent, source.object.get());
    case Reach::kItem: return item(source, parent);
    case Reach::kCell: return Ref::borrow(PyCell_GET(source.object.get()));
    case Reach::kObject: return Ref::borrow(source.object.get());
  }
  return Ref();
}

bool names_hold(const DictGuard& guard) {
  const uint64_t version = cpython::dict_version(guard.dict.get());
  if (version == guard.version) return true;
  for (const auto& [name, value] : guard.names) {
    if (PyDict_GetItemWithError(guard.dict.get(), name.get()) != value.get()) return PyErr_Clear(), false;
  }
  guard.version = version;
  return true;
}

bool function_holds(const FunctionGuard& guard) {
  auto* function = guard.function.as<PyFunctionObject>();
  return function->func_code == guard.code.get() && function->func_defaults == guard.defaults.get() &&
         function->func_kwdefaults == guard.keyword_defaults.get();
}

constexpr const char* kCheckTexts[] = {
#define EVALFRAME_CHECK(name, text) text,
#include "guards/checks.def"
#undef EVALFRAME_CHECK
};

std::string text_of(PyObject* object, size_t limit = 60) {
  Ref text = Ref::steal(PyType_Check(object) ? PyObject_GetAttrString(object, "__qualname__") : PyObject_Repr(object));
  const char* utf8 = text ? PyUnicode_AsUTF8(text.get()) : nullptr;
  if (!utf8) return PyErr_Clear(), "?";
  std::string result(utf8);
  return result.size() > limit ? result.substr(0, limit - 3) + "..." : result;
}

}  // namespace

int32_t GuardTable::add(Source source) {
  for (size_t i = 0; i < sources.size(); i++) {
    const Source& other = sources[i];
    if (other.reach == source.reach && other.parent == source.parent && other.frame == source.frame &&
        other.index == source.index && other.object.get() == source.object.get()) {
      return static_cast<int32_t>(i);
    }
  }
  sources.push_back(std::move(source));
  return static_cast<int32_t>(sources.size()) - 1;
}

void GuardTable::require_type(int32_t index, Borrowed object) {
  Source& source = sources[index];
  if (source.check != Check::kNone) return;
  source.check = Check::kType;
  source.want = Ref::borrow(Py_TYPE(object.get()));
}

void GuardTable::require_equal(int32_t index, Borrowed object) {
  Source& source = sources[index];
  if (source.check == Check::kIdentity) return;
  source.check = Check::kEqual;
  source.want = Ref::borrow(object);
}

void GuardTable::require_identity(int32_t index, Borrowed object) {
  Source& source = sources[index];
  source.check = Check::kIdentity;
  source.want = Ref::borrow(object);
}

void GuardTable::require_array(int32_t index, Borrowed object) {
  Source& source = sources[index];
  if (source.check == Check::kArray || source.check == Check::kIdentity) return;
  PyArrayObject* array = numpy::as_array(object.get());
  source.check = Check::kArray;
  source.want = Ref::borrow(PyArray_DESCR(array));
  source.length = PyArray_FLAGS(array) & kArrayFlags;
  std::vector<int64_t> sizes;
  source.meta = graph::meta_of(object, sizes);
}

bool GuardTable::require_type_version(int32_t index, Borrowed object) {
  Source& source = sources[index];
  if (source.check == Check::kTypeVersion) return true;
  PyTypeObject* type = Py_TYPE(object.get());
  const uint32_t version = cpython::type_version(type);
  if (!version) return false;
  if (source.check == Check::kIdentity) {
    // Identity doesn't say that the class is unchanged: a second source for the same place asks for that.
    Source twin{source.reach, Check::kTypeVersion, source.parent, source.frame, source.index, Ref::borrow(source.object.get())};
    twin.want = Ref::borrow(type);
    twin.type_version = version;
    sources.push_back(std::move(twin));
    return true;
  }
  source.check = Check::kTypeVersion;
  source.want = Ref::borrow(type);
  source.type_version = version;
  return true;
}

void GuardTable::require_length(int32_t index, Borrowed object) {
  Source& source = sources[index];
  if (source.check == Check::kLength || source.check == Check::kEqual) return;
  source.check = Check::kLength;
  source.want = Ref::borrow(Py_TYPE(object.get()));
  source.length = PyObject_Size(object.get());
}

void GuardTable::require_name(Borrowed dict, Borrowed name, Borrowed value) {
  for (DictGuard& guard : dicts) {
    if (guard.dict.get() != dict.get()) continue;
    for (const auto& [known, unused] : guard.names) {
      if (known.get() == name.get()) return;
    }
    guard.names.emplace_back(Ref::borrow(name), Ref::borrow(value));
    return;
  }
  DictGuard guard{Ref::borrow(dict), cpython::dict_version(dict), {}};
  guard.names.emplace_back(Ref::borrow(name), Ref::borrow(value));
  dicts.push_back(std::move(guard));
}

void GuardTable::require_function(Borrowed object) {
  auto* function = reinterpret_cast<PyFunctionObject*>(object.get());
  for (const FunctionGuard& guard : functions) {
    if (guard.function.get() == object.get()) return;
  }
  functions.push_back({Ref::borrow(object), Ref::borrow(function->func_code), Ref::borrow(function->func_defaults),
                       Ref::borrow(function->func_kwdefaults)});
}

bool GuardTable::check(PyObject* const* const* frames, std::vector<Ref>& objects, int32_t* failed) const {
  int32_t position = -1;
  auto fail = [&] {
    if (failed) *failed = position;
    objects.clear();
    return false;
  };
  for (const FunctionGuard& guard : functions) {
    if (!function_holds(guard)) return fail();
  }
  for (const DictGuard& guard : dicts) {
    if (!names_hold(guard)) return fail();
  }
  objects.reserve(sources.size());
  for (const Source& source : sources) {
    position++;
    Ref object = read(source, frames, objects);
    if (!object) {
      PyErr_Clear();
      return fail();
    }
    if (!holds(source, object.get())) return fail();
    objects.push_back(std::move(object));
  }
  return true;
}

std::string GuardTable::path(int32_t index) const {
  const Source& source = sources[index];
  const std::string parent = source.parent >= 0 ? path(source.parent) : std::string();
  const std::string object = std::to_string(reinterpret_cast<uintptr_t>(source.object.get()));
  switch (source.reach) {
    case Reach::kSlot: return "s" + std::to_string(source.frame) + "." + std::to_string(source.index) + ";";
    case Reach::kAttribute:
    case Reach::kMethod: return parent + "a" + object + ";";
    case Reach::kItem: return parent + "i" + (source.object ? object : std::to_string(source.index)) + ";";
    case Reach::kCell: return "c" + object + ";";
    case Reach::kObject: return "o" + object + ";";
  }
  return parent;
}

namespace {
bool is_number(PyObject* object) { return PyLong_CheckExact(object) || PyFloat_CheckExact(object); }
// A check that a value which changes from run to run makes fail, and that a more general recording can do without.
bool fixes(const Source& source) {
  return source.check == Check::kLength || (source.check == Check::kEqual && is_number(source.want.get()));
}
}  // namespace

void GuardTable::collect_changed(PyObject* const* const* frames, Paths& changed) const {
  std::vector<Ref> objects;
  for (size_t i = 0; i < sources.size(); i++) {
    Ref object = read(sources[i], frames, objects);
    if (!object) return PyErr_Clear();
    const bool same_type = sources[i].want && (Py_TYPE(object.get()) == Py_TYPE(sources[i].want.get()) ||
                                               Py_TYPE(object.get()) == sources[i].want.as<PyTypeObject>());
    if (!holds(sources[i], object.get())) {
      // What lies behind another failed check may run Python code when it is read.
      if (!fixes(sources[i]) || !same_type) return;
      changed.insert(path(static_cast<int32_t>(i)));
    }
    objects.push_back(std::move(object));
  }
}

bool GuardTable::fixes_any_of(const Paths& paths) const {
  for (size_t i = 0; !paths.empty() && i < sources.size(); i++) {
    if (fixes(sources[i]) && paths.count(path(static_cast<int32_t>(i)))) return true;
  }
  return false;
}

std::string GuardTable::source_name(int32_t index) const {
  const Source& source = sources[index];
  switch (source.reach) {
    case Reach::kSlot:
      if (source.frame == 0 && static_cast<size_t>(source.index) < slot_names.size()) return slot_names[source.index];
      return "slot " + std::to_string(source.index) + " of frame " + std::to_string(source.frame);
    case Reach::kAttribute:
    case Reach::kMethod: return source_name(source.parent) + "." + text_of(source.object.get());
    case Reach::kItem:
      return source_name(source.parent) + "[" + (source.object ? text_of(source.object.get()) : std::to_string(source.index)) + "]";
    case Reach::kCell: return "cell";
    case Reach::kObject: return "global " + text_of(source.object.get());
  }
  return "?";
}

std::vector<std::string> GuardTable::describe() const {
  std::vector<std::string> lines;
  for (const FunctionGuard& guard : functions) lines.push_back(text_of(guard.function.get()) + " has the same code and defaults");
  for (const DictGuard& guard : dicts) {
    for (const auto& [name, value] : guard.names) {
      const char* utf8 = PyUnicode_AsUTF8(name.get());
      lines.push_back(std::string("name ") + (utf8 ? utf8 : "?") + (value ? " is the same object" : " is not defined here"));
    }
  }
  for (size_t i = 0; i < sources.size(); i++) {
    const Source& source = sources[i];
    std::string line = source_name(static_cast<int32_t>(i)) + " " + kCheckTexts[static_cast<int>(source.check)];
    if (source.check == Check::kArray) {
      line += std::string(": ") + graph::name(source.meta.dtype) + ", " + std::to_string(source.meta.rank);
    } else if (source.check == Check::kLength) {
      line += " " + text_of(source.want.get()) + ", " + std::to_string(source.length);
    } else if (source.want) {
      line += " " + text_of(source.want.get());
    }
    lines.push_back(std::move(line));
  }
  return lines;
}

}  // namespace evalframe::guards
