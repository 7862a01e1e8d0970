#include "regions/type.h"

#include <bit>
#include <cstring>
#include <string>

#include "backends/native/code/element.h"
#include "cpython/iterators.h"
#include "frontends/numpy/calls.h"
#include "frontends/numpy/numpy_api.h"
#include "guards/guards.h"

namespace evalframe::regions {

using Kind = Type::Kind;

bool is_computed(DType dtype) { return dtype != DType::kNone && dtype != DType::float16 && graph::kind_of(dtype) != 'c'; }

std::vector<std::string> words_of(const Type& type) {
  switch (type.kind) {
    case Kind::kUnbound:
    case Kind::kObject: return {};
    case Kind::kInt: return {"i64"};
    case Kind::kFloat: return {"double"};
    case Kind::kBool: return {"i1"};
    case Kind::kNumpy: return {native::register_type(type.dtype)};
    case Kind::kArray: return {"ptr"};
    case Kind::kRange: return {"i64", "i64", "i64", "i64"};
    case Kind::kRangeIterator: return {"i64", "i64", "i64"};
  }
  return {};
}

namespace {

bool fits(PyObject* exact_int) {
  int overflow = 0;
  PyLong_AsLongLongAndOverflow(exact_int, &overflow);
  return !overflow;
}

// The element type's own object: `longlong`, of as many bits as int64, makes other scalars, and metadata is seen by the program.
bool is_standard(PyObject* descr, DType dtype) {
  const Ref standard = Ref::steal(reinterpret_cast<PyObject*>(PyArray_DescrFromType(numpy::type_number(dtype))));
  return standard.get() == descr;
}

Type type_of_scalar(PyObject* scalar) {
  const Ref descr = Ref::steal(reinterpret_cast<PyObject*>(PyArray_DescrFromScalar(scalar)));
  if (!descr) return PyErr_Clear(), Type{Kind::kObject};
  const DType dtype = numpy::dtype_of(descr.get());
  if (!is_computed(dtype) || !is_standard(descr.get(), dtype)) return {Kind::kObject};
  return {Kind::kNumpy, dtype};
}

Type type_of_array(PyArrayObject* array) {
  PyObject* const descr = reinterpret_cast<PyObject*>(PyArray_DESCR(array));
  const DType dtype = numpy::dtype_of(descr);
  if (dtype == DType::kNone || !is_standard(descr, dtype)) return {Kind::kObject};
  return {Kind::kArray, dtype, static_cast<int8_t>(PyArray_NDIM(array)), PyArray_FLAGS(array) & guards::kArrayFlags};
}

}  // namespace

Type type_of(Borrowed object) {
  PyObject* const o = object.get();
  if (!o) return {Kind::kUnbound};
  if (PyLong_CheckExact(o)) return {fits(o) ? Kind::kInt : Kind::kObject};
  if (PyFloat_CheckExact(o)) return {Kind::kFloat};
  if (PyBool_Check(o)) return {Kind::kBool};
  if (numpy::is_exact_array(o)) return type_of_array(numpy::as_array(o));
  if (numpy::is_scalar(o)) return type_of_scalar(o);
  if (Py_TYPE(o) == &PyRangeIter_Type && Py_REFCNT(o) == 1) return {Kind::kRangeIterator};
  return {Kind::kObject};
}

bool agrees(const Type& type, const graph::Meta& meta) {
  switch (meta.kind) {
    case graph::Kind::kInt: return type.kind == Kind::kInt;
    case graph::Kind::kFloat: return type.kind == Kind::kFloat;
    case graph::Kind::kBool: return type.kind == Kind::kBool;
    case graph::Kind::kNumpyScalar: return type.kind == Kind::kNumpy && type.dtype == meta.dtype;
    case graph::Kind::kArray: return type.kind == Kind::kArray && type.dtype == meta.dtype && type.rank == meta.rank;
    default: return false;
  }
}

PyTypeObject* python_type(const Type& type) {
  switch (type.kind) {
    case Kind::kInt: return &PyLong_Type;
    case Kind::kFloat: return &PyFloat_Type;
    case Kind::kBool: return &PyBool_Type;
    case Kind::kArray: return &PyArray_Type;
    case Kind::kRange: return &PyRange_Type;
    case Kind::kRangeIterator: return &PyRangeIter_Type;
    case Kind::kNumpy: {
      const Ref descr = Ref::steal(reinterpret_cast<PyObject*>(PyArray_DescrFromType(numpy::type_number(type.dtype))));
      return descr.as<PyArray_Descr>()->typeobj;  // NumPy's own, which stay
    }
    case Kind::kUnbound:
    case Kind::kObject: return nullptr;
  }
  return nullptr;
}

std::string text_of(const Type& type) {
  switch (type.kind) {
    case Kind::kUnbound: return "-";
    case Kind::kInt: return "int";
    case Kind::kFloat: return "float";
    case Kind::kBool: return "bool";
    case Kind::kNumpy: return graph::name(type.dtype);
    case Kind::kArray: return std::string(graph::name(type.dtype)) + "[" + std::to_string(type.rank) + "]";
    case Kind::kRange: return "range";
    case Kind::kRangeIterator: return "iterator of range";
    case Kind::kObject: return "object " + std::to_string(type.object);
  }
  return {};
}

std::string text_of(const std::vector<Type>& types) {
  std::string text;
  for (const Type& type : types) text += (text.empty() ? "" : ", ") + text_of(type);
  return text;
}

void unbox(const Type& type, Borrowed object, int64_t* words) {
  switch (type.kind) {
    case Kind::kUnbound:
    case Kind::kRange:
    case Kind::kObject: return;
    case Kind::kInt: words[0] = PyLong_AsLongLong(object.get()); return;
    case Kind::kFloat: words[0] = std::bit_cast<int64_t>(PyFloat_AS_DOUBLE(object.get())); return;
    case Kind::kBool: words[0] = object.get() == Py_True; return;
    case Kind::kNumpy:
      words[0] = 0;
      PyArray_ScalarAsCtype(object.get(), words);
      return;
    case Kind::kArray: words[0] = std::bit_cast<int64_t>(object.get()); return;
    case Kind::kRangeIterator: {
      const cpython::RangeState state = cpython::state_of_range(object);
      words[0] = state.next, words[1] = state.step, words[2] = state.left;
      return;
    }
  }
}

namespace {

Ref range_of(int64_t start, int64_t stop, int64_t step) {
  return Ref::steal(PyObject_CallFunction(reinterpret_cast<PyObject*>(&PyRange_Type), "LLL", static_cast<long long>(start), static_cast<long long>(stop),
                                          static_cast<long long>(step)));
}

Ref scalar_of(DType dtype, const int64_t* word) {
  const Ref descr = Ref::steal(reinterpret_cast<PyObject*>(PyArray_DescrFromType(numpy::type_number(dtype))));
  return descr ? Ref::steal(PyArray_Scalar(const_cast<int64_t*>(word), descr.as<PyArray_Descr>(), nullptr)) : Ref();
}

Ref iterator_of(const int64_t* words) {
  const Ref range = range_of(0, 0, 1);
  Ref iterator = Ref::steal(range ? PyObject_GetIter(range.get()) : nullptr);
  if (iterator) cpython::set_range_state(iterator.get(), {words[0], words[1], words[2]});
  return iterator;
}

}  // namespace

Ref box(const Type& type, const int64_t* words) {
  switch (type.kind) {
    case Kind::kUnbound:
    case Kind::kObject: return Ref();
    case Kind::kInt: return Ref::steal(PyLong_FromLongLong(words[0]));
    case Kind::kFloat: return Ref::steal(PyFloat_FromDouble(std::bit_cast<double>(words[0])));
    case Kind::kBool: return Ref::steal(PyBool_FromLong(words[0] & 1));
    case Kind::kNumpy: return scalar_of(type.dtype, words);
    case Kind::kArray: return Ref::borrow(std::bit_cast<PyObject*>(words[0]));
    case Kind::kRange: return range_of(words[0], words[3], words[1]);
    case Kind::kRangeIterator: return iterator_of(words);
  }
  return Ref();
}

}  // namespace evalframe::regions
