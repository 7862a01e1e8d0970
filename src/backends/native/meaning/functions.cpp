// Looks NumPy's functions up once for the process, by the names in the tables.
#include "backends/native/meaning/functions.h"

#include <stdexcept>
#include <unordered_map>

#include "core/made_once.h"
#include "frontends/numpy/calls.h"
#include "frontends/numpy/numpy_api.h"

namespace evalframe::native {
namespace {

using bytecode::BinaryOp, bytecode::UnaryOp;
using KnownFunctions = std::unordered_map<PyObject*, Known>;

struct Loaded {
  KnownFunctions functions;
  Ufuncs ufuncs;
};

Ref attribute_of(PyObject* object, const char* name) {
  Ref value = Ref::steal(PyObject_GetAttrString(object, name));
  if (!value) PyErr_Clear();
  return value;
}

// `owner`: a type; null: numpy.
void add(KnownFunctions& functions, PyObject* owner, const char* name, const Known& known) {
  Ref function = owner ? attribute_of(owner, name) : numpy::own_attribute(name);
  if (function) functions.emplace(function.release(), known);
}

KnownFunctions load_functions() {
  PyObject* const numpy = nullptr;
  PyObject* const ndarray = reinterpret_cast<PyObject*>(&PyArray_Type);
  KnownFunctions functions;
#define EVALFRAME_UFUNC(name, scalar_op) add(functions, numpy, #name, {.function = Function::kUfunc, .op = ScalarOp::scalar_op});
#include "backends/native/meaning/ufuncs.def"
#undef EVALFRAME_UFUNC
#define EVALFRAME_REDUCTION(name, reduce_op, its_statistic)                                                                 \
  for (PyObject* const owner : {numpy, ndarray}) {                                                                          \
    add(functions, owner, #name,                                                                                            \
        {.function = Function::kReduction, .reduce = ReduceOp::reduce_op, .statistic = Statistic::its_statistic}); \
  }
#include "backends/native/reduce/reductions.def"
#undef EVALFRAME_REDUCTION
#define EVALFRAME_VIEW(name, its_view) \
  for (PyObject* const owner : {numpy, ndarray}) add(functions, owner, #name, {.function = Function::kView, .view = View::its_view});
#include "backends/native/meaning/views.def"
#undef EVALFRAME_VIEW
#define EVALFRAME_FUNCTION(owner, name, its_function) add(functions, owner, #name, {.function = Function::its_function});
#define EVALFRAME_FILLING(name, its_filling) \
  add(functions, numpy, #name, {.function = Function::kFill, .filling = Filling::its_filling});
#include "backends/native/meaning/functions.def"
#undef EVALFRAME_FUNCTION
#undef EVALFRAME_FILLING
  return functions;
}

Ufuncs load_ufuncs(PyObject* umath) {
  Ufuncs ufuncs;
#define EVALFRAME_BINARY(number, name, symbol, function, ufunc) \
  ufuncs.by_binary[static_cast<int>(BinaryOp::k##name)] = numpy::own_attribute(ufunc).release();
#define EVALFRAME_UNARY(name, symbol, function, ufunc) \
  ufuncs.by_unary[static_cast<int>(UnaryOp::k##name)] = numpy::own_attribute(ufunc).release();
#define EVALFRAME_COMPARE(name, symbol, function, ufunc) ufuncs.by_compare[Py_##name] = numpy::own_attribute(ufunc).release();
#include "bytecode/operators.def"
  ufuncs.clip = attribute_of(umath, "clip").release();
  ufuncs.maximum = attribute_of(umath, "maximum").release();
  ufuncs.minimum = attribute_of(umath, "minimum").release();
  ufuncs.rint = attribute_of(umath, "rint").release();
  return ufuncs;
}

Loaded load() {
  if (!numpy::load_api()) throw std::runtime_error("NumPy 2 can't be imported");
  const Ref umath = Ref::steal(PyImport_ImportModule("numpy._core.umath"));
  if (!umath) throw std::runtime_error("NumPy 2 can't be imported");
  return {load_functions(), load_ufuncs(umath.get())};
}

const Loaded& loaded() {
  static MadeOnce<Loaded> once;
  return once.get(load);
}

// scipy.special.erf, if the program has imported SciPy.
PyObject* scipy_erf() {
  const Ref name = Ref::steal(PyUnicode_FromString("scipy.special"));
  const Ref module = name ? Ref::steal(PyImport_GetModule(name.get())) : Ref();
  if (!module) {
    PyErr_Clear();
    return nullptr;
  }
  return attribute_of(module.get(), "erf").get();  // the module keeps it
}

}  // namespace

std::optional<Known> known_function(PyObject* callable) {
  const KnownFunctions& functions = loaded().functions;
  const auto found = functions.find(callable);
  if (found != functions.end()) return found->second;
  if (Py_TYPE(callable) == &PyUFunc_Type && callable == scipy_erf()) return Known{Function::kUfunc, ScalarOp::erf};
  return std::nullopt;
}

const Ufuncs& ufuncs() { return loaded().ufuncs; }

}  // namespace evalframe::native
