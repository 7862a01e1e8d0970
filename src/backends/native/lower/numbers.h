// Numbers between Python objects and the memory that kernels read and write.
#pragma once

#include "frontends/numpy/calls.h"
#include "graph/graph.h"

namespace evalframe::native {

// Bytes that hold one element of any type.
constexpr int kNumberBytes = 32;

using numpy::type_number;
// Writes a Python number as `dtype`. False if it can't be, or not without NumPy having something to say about it.
bool write_python_number(PyObject* number, graph::DType dtype, char* to);
// Writes a NumPy scalar of exactly `dtype`; false if it is of another type.
bool write_numpy_scalar(PyObject* scalar, graph::DType dtype, char* to);
void write_count(int64_t count, graph::DType dtype, char* to);
// a + b, a - b, a * b or a / b of a float64 scalar and another or a Python number, by the number that BINARY_OP carries. Null,
// without an exception, for all else, and where NumPy might have something to say about the result.
Ref quick_binary(int code, PyObject* a, PyObject* b);
// The NumPy scalar of an element.
Ref read_scalar(const char* from, graph::DType dtype);

}  // namespace evalframe::native
