// Numbers between Python objects and the memory that kernels read and write.
#include "backends/native/lower/numbers.h"

#include <cmath>
#include <cstdlib>
#include <cstring>

#include "core/check.h"
#include "frontends/numpy/numpy_api.h"

namespace evalframe::native {

using graph::DType;

namespace {

template <class T>
bool write_integer(PyObject* number, char* to) {
  int overflow = 0;
  const long long value = PyLong_AsLongLongAndOverflow(number, &overflow);
  if (overflow) return false;
  const T narrow = static_cast<T>(value);
  if (static_cast<long long>(narrow) != value || (narrow < 0) != (value < 0)) return false;
  std::memcpy(to, &narrow, sizeof narrow);
  return true;
}

template <class T>
bool write_float(PyObject* number, char* to) {
  const double value = PyFloat_CheckExact(number) ? PyFloat_AS_DOUBLE(number) : PyLong_AsDouble(number);
  if (value == -1.0 && PyErr_Occurred()) {
    PyErr_Clear();
    return false;
  }
  const T narrow = static_cast<T>(value);
  // NumPy warns of what is too large or too small for the type.
  if (std::isinf(narrow) != std::isinf(value)) return false;
  if (value != 0 && std::fpclassify(narrow) != FP_NORMAL && std::isfinite(value)) return false;
  std::memcpy(to, &narrow, sizeof narrow);
  return true;
}

bool is_double(PyObject* object) { return Py_TYPE(object) == &PyDoubleArrType_Type; }

// Of a number that is a double without rounding.
bool read_double(PyObject* object, double& value) {
  if (is_double(object)) return value = PyArrayScalar_VAL(object, Double), true;
  if (PyFloat_CheckExact(object)) return value = PyFloat_AS_DOUBLE(object), true;
  if (!PyLong_CheckExact(object)) return false;
  int overflow = 0;
  const long long whole = PyLong_AsLongLongAndOverflow(object, &overflow);
  value = static_cast<double>(whole);
  return !overflow && std::llabs(whole) < 1LL << 53;
}

bool write_complex(PyObject* number, char* to) {
  double parts[2] = {PyComplex_RealAsDouble(number), PyComplex_ImagAsDouble(number)};
  if (PyErr_Occurred()) {
    PyErr_Clear();
    return false;
  }
  std::memcpy(to, parts, sizeof parts);
  return true;
}

}  // namespace

Ref quick_binary(int code, PyObject* a, PyObject* b) {
  double x, y, result;
  if ((!is_double(a) && !is_double(b)) || !read_double(a, x) || !read_double(b, y)) return Ref();
  bool exact_zero = false;
  switch (code % 13) {
    case 0: result = x + y, exact_zero = true; break;
    case 5: result = x * y, exact_zero = x == 0 || y == 0; break;
    case 10: result = x - y, exact_zero = true; break;
    case 11: result = x / y, exact_zero = x == 0; break;
    default: return Ref();
  }
  if (!std::isnormal(result) && !(exact_zero && result == 0)) return Ref();
  Ref scalar = Ref::steal(PyArrayScalar_New(Double));
  if (scalar) PyArrayScalar_ASSIGN(scalar.get(), Double, result);
  else PyErr_Clear();
  return scalar;
}

bool write_python_number(PyObject* number, DType dtype, char* to) {
  if (PyBool_Check(number)) {
    if (dtype == DType::bool_) return *to = number == Py_True, true;
  } else if (!PyLong_CheckExact(number) && !PyFloat_CheckExact(number)) {
    if (!PyComplex_CheckExact(number) || graph::kind_of(dtype) != 'c') return false;
    return dtype == DType::complex128 && write_complex(number, to);
  }
  const bool integer = PyLong_Check(number);
  switch (dtype) {
    case DType::int8: return integer && write_integer<int8_t>(number, to);
    case DType::int16: return integer && write_integer<int16_t>(number, to);
    case DType::int32: return integer && write_integer<int32_t>(number, to);
    case DType::int64: return integer && write_integer<int64_t>(number, to);
    case DType::uint8: return integer && write_integer<uint8_t>(number, to);
    case DType::uint16: return integer && write_integer<uint16_t>(number, to);
    case DType::uint32: return integer && write_integer<uint32_t>(number, to);
    case DType::uint64: return integer && write_integer<uint64_t>(number, to);
    case DType::float32: return write_float<float>(number, to);
    case DType::float64: return write_float<double>(number, to);
    case DType::complex128: return write_complex(number, to);
    case DType::bool_: case DType::float16: case DType::complex64: case DType::kNone: return false;
  }
  return false;
}

bool write_numpy_scalar(PyObject* scalar, DType dtype, char* to) {
  if (dtype == DType::float64 && PyArray_IsScalar(scalar, Double)) {
    const double value = PyArrayScalar_VAL(scalar, Double);
    std::memcpy(to, &value, sizeof value);
    return true;
  }
  if (!PyArray_CheckScalar(scalar)) return false;
  const Ref descr = numpy::dtype_object(dtype);
  if (descr.as<PyArray_Descr>()->typeobj != Py_TYPE(scalar)) return false;
  PyArray_ScalarAsCtype(scalar, to);
  return true;
}

void write_count(int64_t count, DType dtype, char* to) {
  CHECK(dtype == DType::float64);
  const double value = static_cast<double>(count);
  std::memcpy(to, &value, sizeof value);
}

Ref read_scalar(const char* from, DType dtype) {
  const Ref descr = numpy::dtype_object(dtype);
  return Ref::steal(PyArray_Scalar(const_cast<char*>(from), descr.as<PyArray_Descr>(), nullptr));
}

}  // namespace evalframe::native
