// Recognises NumPy's functions by the objects themselves, never by the names a program gives them.
#include "frontends/numpy/calls.h"

#include <algorithm>
#include <cstring>
#include <string_view>
#include <unordered_map>

#include "core/builtins.h"
#include "core/made_once.h"
#include "core/object_text.h"
#include "frontends/numpy/numpy_api.h"

namespace evalframe::numpy {

namespace {

bool known_dtype(PyObject* object) {
  std::vector<int64_t> sizes;
  return graph::meta_of(object, sizes).dtype != graph::DType::kNone;
}

bool starts_with_package(PyObject* module) {
  if (!module || !PyUnicode_Check(module)) return false;
  const char* utf8 = PyUnicode_AsUTF8(module);
  if (!utf8) return PyErr_Clear(), false;
  const std::string_view name(utf8);
  for (std::string_view package : {"numpy", "scipy"}) {
    if (name.substr(0, package.size()) == package && (name.size() == package.size() || name[package.size()] == '.')) return true;
  }
  return false;
}

// The module a callable says it is from; null where it says nothing.
Ref module_of(PyObject* callable) {
  if (PyFunction_Check(callable)) return Ref::borrow(reinterpret_cast<PyFunctionObject*>(callable)->func_module);
  Ref module = Ref::steal(PyObject_GetAttrString(callable, "__module__"));
  if (!module) PyErr_Clear();
  return module;
}

// Functions that call back into Python, or whose effects go beyond their arguments.
bool calls_back(PyObject* callable) {
  static constexpr std::string_view kNames[] = {
      "vectorize", "apply_along_axis", "apply_over_axes", "fromfunction", "frompyfunc", "piecewise", "seterr", "errstate",
      "seterrcall", "setbufsize", "set_printoptions", "printoptions", "save", "savez", "savez_compressed", "savetxt", "load",
      "loadtxt", "genfromtxt", "fromfile", "memmap", "nditer", "array_repr", "array_str", "array2string", "info", "show_config",
      "test", "get_printoptions", "geterr", "tofile", "dump", "dumps", "tolist", "item", "setflags",
      "resize", "__setstate__", "getfield", "setfield", "data"};
  Ref name = Ref::steal(PyObject_GetAttrString(callable, "__name__"));
  const char* utf8 = name && PyUnicode_Check(name.get()) ? PyUnicode_AsUTF8(name.get()) : nullptr;
  if (!utf8) return PyErr_Clear(), true;
  for (std::string_view known : kNames) {
    if (known == utf8) return true;
  }
  return false;
}

CallKind builtin_kind(PyObject* callable) {
  struct Row {
    const char* name;
    CallKind kind;
  };
  static constexpr Row kRows[] = {
      {"len", CallKind::kLength}, {"isinstance", CallKind::kTypeTest}, {"callable", CallKind::kTypeTest},
      {"abs", CallKind::kPure},   {"min", CallKind::kPure},            {"max", CallKind::kPure},
      {"round", CallKind::kPure}, {"divmod", CallKind::kPure},         {"pow", CallKind::kPure},
      {"range", CallKind::kPure}, {"int", CallKind::kPure},            {"float", CallKind::kPure},
      {"bool", CallKind::kPure},  {"complex", CallKind::kPure},        {"str", CallKind::kPure},
      {"ord", CallKind::kPure},   {"chr", CallKind::kPure},            {"slice", CallKind::kPure},
      {"sum", CallKind::kPure},   {"tuple", CallKind::kPure},          {"any", CallKind::kPure},
      {"all", CallKind::kPure},   {"repr", CallKind::kPure},           {"bin", CallKind::kPure},     {"hash", CallKind::kPure},
      {"hex", CallKind::kPure},   {"oct", CallKind::kPure}};
  static const auto* const kinds = [] {
    auto* const made = new std::unordered_map<PyObject*, CallKind>;  // lives as long as the process
    for (const Row& row : kRows) made->emplace(builtin(row.name).get(), row.kind);
    return made;
  }();
  const auto found = kinds->find(callable);
  return found == kinds->end() ? CallKind::kUnknown : found->second;
}

CallKind method_kind_by_name(PyObject* callable) {
  auto* type = reinterpret_cast<PyMethodDescrObject*>(callable)->d_common.d_type;
  const bool of_arrays = type == &PyArray_Type || PyType_IsSubtype(type, &PyGenericArrType_Type);
  if (!of_arrays || calls_back(callable)) return CallKind::kUnknown;
  return CallKind::kOpaque;
}
// Those of arrays, which live as long as the process, are looked at once.
CallKind method_kind(PyObject* callable) {
  if (PyDescr_TYPE(callable) != &PyArray_Type) return method_kind_by_name(callable);
  static auto* const kinds = new std::unordered_map<PyObject*, CallKind>;
  const auto found = kinds->find(callable);
  return found != kinds->end() ? found->second : kinds->emplace(callable, method_kind_by_name(callable)).first->second;
}

// Those that write into an argument, or call another.
bool is_pure_operator(const PyObject* callable) {
  static constexpr std::string_view kOthers[] = {"setitem", "delitem", "call", "iadd", "iand", "iconcat", "ifloordiv", "ilshift", "imatmul", "imod", "imul",
                                                 "ior", "ipow", "irshift", "isub", "itruediv", "ixor"};
  return std::find(std::begin(kOthers), std::end(kOthers), reinterpret_cast<const PyCFunctionObject*>(callable)->m_ml->ml_name) == std::end(kOthers);
}

CallKind c_function_kind(PyObject* callable) {
  PyObject* self = PyCFunction_GET_SELF(callable);
  const CallKind kind = builtin_kind(callable);
  if (kind != CallKind::kUnknown) return kind;
  if (self && is_random_generator(self)) return CallKind::kOpaque;
  PyObject* module = reinterpret_cast<PyCFunctionObject*>(callable)->m_module;
  if (module && PyUnicode_Check(module)) {
    if (PyUnicode_CompareWithASCIIString(module, "math") == 0) return CallKind::kPure;
    if (PyUnicode_CompareWithASCIIString(module, "_operator") == 0) return is_pure_operator(callable) ? CallKind::kPure : CallKind::kUnknown;
    if (starts_with_package(module) && !calls_back(callable)) return CallKind::kOpaque;
  }
  return CallKind::kUnknown;
}

CallKind other_kind(PyObject* callable) {
  const std::string_view type(Py_TYPE(callable)->tp_name);
  // numpy.random.normal and the like are methods of a generator that NumPy keeps.
  if (PyMethod_Check(callable)) return is_random_generator(PyMethod_GET_SELF(callable)) ? other_kind(PyMethod_GET_FUNCTION(callable)) : CallKind::kUnknown;
  // Each release of Cython has a type of its own for the functions that it compiles.
  if (type == "numpy._ArrayFunctionDispatcher" || type.ends_with("cython_function_or_method") || PyFunction_Check(callable)) {
    Ref module = module_of(callable);
    return starts_with_package(module.get()) && !calls_back(callable) ? CallKind::kOpaque : CallKind::kUnknown;
  }
  return CallKind::kUnknown;
}

}  // namespace

bool is_exact_array(PyObject* object) {
  return Py_TYPE(object) == &PyArray_Type && dtype_of(reinterpret_cast<PyObject*>(PyArray_DESCR(as_array(object)))) != graph::DType::kNone;
}

bool is_scalar(PyObject* object) {
  if (PyLong_CheckExact(object) || PyFloat_CheckExact(object)) return false;  // what most programs have
  // NumPy's own scalar types are static; a subclass in Python is a heap type.
  if (!PyArray_IsScalar(object, Generic) || PyArray_IsScalar(object, Flexible) || !known_dtype(object)) return false;
  PyTypeObject* type = Py_TYPE(object);
  return !PyType_HasFeature(type, Py_TPFLAGS_HEAPTYPE);
}

static bool makes_random_generators(const PyTypeObject* type) {
  const std::string_view name(type->tp_name);
  return name == "numpy.random.mtrand.RandomState" || name == "numpy.random._generator.Generator";
}

bool is_error_state(const PyTypeObject* type) {
  static MadeOnce<Ref> error_state;
  const Ref& known = error_state.get([] {
    return own_attribute("errstate");
  });
  return reinterpret_cast<const PyObject*>(type) == known.get();
}

// Programs change the attributes of numpy. What isn't in numpy._core, where most of these are from, says itself what it is.
Ref own_attribute(const char* name) {
  for (const char* const from : {"numpy._core", "numpy"}) {
    const Ref module = Ref::steal(PyImport_ImportModule(from));
    Ref found = module ? Ref::steal(PyObject_GetAttrString(module.get(), name)) : Ref();
    if (!found) {
      PyErr_Clear();
      continue;
    }
    if (std::string_view(from) == "numpy._core") return found;
    const Ref own_name = Ref::steal(PyObject_GetAttrString(found.get(), "__name__"));
    if (!own_name) PyErr_Clear();
    const bool is_own = own_name && PyUnicode_Check(own_name.get()) && utf8(own_name.get()) == name;
    if (is_own && std::string_view(Py_TYPE(found.get())->tp_name) == "numpy._ArrayFunctionDispatcher") return found;
  }
  return Ref();
}

bool is_random_generator(PyObject* object) { return makes_random_generators(Py_TYPE(object)); }

bool is_bound_to_random_generator(PyObject* callable) {
  if (PyMethod_Check(callable)) return is_random_generator(PyMethod_GET_SELF(callable));
  PyObject* const self = PyCFunction_CheckExact(callable) ? PyCFunction_GET_SELF(callable) : nullptr;
  return self && is_random_generator(self);
}

bool is_method_of_random_generators(PyObject* callable) {
  if (!std::string_view(Py_TYPE(callable)->tp_name).ends_with("cython_function_or_method")) return false;
  const Ref name = Ref::steal(PyObject_GetAttrString(callable, "__qualname__")), module = module_of(callable);
  if (!name) PyErr_Clear();
  if (!name || !PyUnicode_Check(name.get()) || !module || !PyUnicode_Check(module.get())) return false;
  const std::string text = std::string(utf8(module.get())) + "." + std::string(utf8(name.get()));
  return text.starts_with("numpy.random._generator.Generator.") || text.starts_with("numpy.random.mtrand.RandomState.");
}

bool is_plain_dtype(PyObject* object) {
  if (!PyArray_DescrCheck(object)) return false;
  const int number = reinterpret_cast<PyArray_Descr*>(object)->type_num;
  if (number < 0 || (number >= NPY_OBJECT && number != NPY_HALF)) return false;
  const Ref singleton = Ref::steal(PyArray_DescrFromType(number));
  return singleton.get() == object;
}

bool is_array(PyObject* object) { return is_exact_array(object) || is_scalar(object); }

Borrowed truth_scalar(bool truth) { return truth ? PyArrayScalar_True : PyArrayScalar_False; }

bool has_metadata(PyObject* object) {
  const auto* descr = reinterpret_cast<PyArray_Descr*>(object);
  if (PyDataType_METADATA(descr)) return true;
  if (const PyArray_ArrayDescr* const parts = PyDataType_SUBARRAY(descr)) return has_metadata(reinterpret_cast<PyObject*>(parts->base));
  PyObject *name = nullptr, *field = nullptr;
  for (Py_ssize_t at = 0; PyDataType_HASFIELDS(descr) && PyDict_Next(PyDataType_FIELDS(descr), &at, &name, &field);) {
    if (has_metadata(PyTuple_GET_ITEM(field, 0))) return true;
  }
  return false;
}

bool is_warned_of(PyObject* name) {
  if (!PyUnicode_Check(name)) return false;
  std::string_view text = utf8(name);
  text.remove_prefix(std::min(text.find_first_not_of("<>=|"), text.size()));
  return text.starts_with('a');
}

graph::DType dtype_of(PyObject* object) {
  if (!PyArray_DescrCheck(object)) return graph::DType::kNone;
  const auto* descr = reinterpret_cast<PyArray_Descr*>(object);
  if (!PyArray_ISNBO(descr->byteorder) || PyDataType_METADATA(descr)) return graph::DType::kNone;
  switch (descr->type_num) {
#define EVALFRAME_DTYPE(name, number, size, kind, llvm) \
  case number: return graph::DType::name;
#include "graph/dtypes.def"
#undef EVALFRAME_DTYPE
  }
  return graph::DType::kNone;
}

int type_number(graph::DType dtype) {
  switch (dtype) {
#define EVALFRAME_DTYPE(name, number, size, kind, llvm) \
  case graph::DType::name: return number;
#include "graph/dtypes.def"
#undef EVALFRAME_DTYPE
    case graph::DType::kNone: return -1;
  }
  return -1;
}

Ref dtype_object(graph::DType dtype) { return Ref::steal(PyArray_DescrFromType(type_number(dtype))); }

CallKind call_kind(Borrowed borrowed) {
  PyObject* callable = borrowed.get();
  // One that numpy.frompyfunc has made calls a function of the program's.
  if (Py_TYPE(callable) == &PyUFunc_Type) return reinterpret_cast<PyUFuncObject*>(callable)->obj ? CallKind::kUnknown : CallKind::kUfunc;
  if (Py_TYPE(callable) == &PyMethodDescr_Type) return method_kind(callable);
  if (PyCFunction_Check(callable)) return c_function_kind(callable);
  if (PyType_Check(callable)) {
    auto* type = reinterpret_cast<PyTypeObject*>(callable);
    if (type == &PyType_Type) return CallKind::kTypeTest;
    if (PyType_IsSubtype(type, &PyGenericArrType_Type) || makes_random_generators(type) || is_error_state(type)) return CallKind::kOpaque;
    return builtin_kind(callable);
  }
  return other_kind(callable);
}

bool result_follows(Borrowed callable) {
  return Py_TYPE(callable.get()) == &PyUFunc_Type;
}

bool is_metadata_attribute(Borrowed name) {
  for (const char* known : {"shape", "ndim", "size", "nbytes", "itemsize"}) {
    if (PyUnicode_CompareWithASCIIString(name.get(), known) == 0) return true;
  }
  return false;
}

bool is_array_attribute(Borrowed name) {
  if (is_metadata_attribute(name)) return true;
  for (const char* known : {"T", "mT", "real", "imag", "dtype"}) {
    if (PyUnicode_CompareWithASCIIString(name.get(), known) == 0) return true;
  }
  return false;
}

}  // namespace evalframe::numpy
