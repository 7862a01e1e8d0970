// Python's operators by the numbers that instructions carry.
#pragma once

#include <Python.h>

#include <type_traits>

namespace evalframe::bytecode {

enum class BinaryOp : int {
#define EVALFRAME_BINARY(number, name, symbol, function, ufunc) k##name,
#include "bytecode/operators.def"
  kInPlace,  // how much greater the number of an operator in place is
};
enum class UnaryOp : int {
#define EVALFRAME_UNARY(name, symbol, function, ufunc) k##name,
#include "bytecode/operators.def"
};

inline constexpr int kBinaryOps = static_cast<int>(BinaryOp::kInPlace);
// Of the number that BINARY_OP carries.
constexpr BinaryOp binary_op(int number) { return static_cast<BinaryOp>(number >= kBinaryOps ? number - kBinaryOps : number); }

using BinaryFunction = PyObject* (*)(PyObject*, PyObject*);
using UnaryFunction = PyObject* (*)(PyObject*);

// A function of the number protocol as one of two operands: powers have a third.
template <auto kFunction> constexpr BinaryFunction of_two() {
  if constexpr (std::is_same_v<decltype(kFunction), BinaryFunction>) {
    return kFunction;
  } else {
    return [](PyObject* left, PyObject* right) { return kFunction(left, right, Py_None); };
  }
}

// By the number that BINARY_OP carries.
inline constexpr BinaryFunction kBinaryFunctions[] = {
#define EVALFRAME_BINARY(number, name, symbol, function, ufunc) of_two<PyNumber_##name>(),
#include "bytecode/operators.def"
#define EVALFRAME_BINARY(number, name, symbol, function, ufunc) of_two<PyNumber_InPlace##name>(),
#include "bytecode/operators.def"
};
inline constexpr UnaryFunction kUnaryFunctions[] = {
#define EVALFRAME_UNARY(name, symbol, function, ufunc) PyNumber_##name,
#include "bytecode/operators.def"
};

// Likewise; comparisons by Py_LT ... Py_GE.
inline constexpr const char* kBinarySymbols[] = {
#define EVALFRAME_BINARY(number, name, symbol, function, ufunc) symbol,
#include "bytecode/operators.def"
#define EVALFRAME_BINARY(number, name, symbol, function, ufunc) symbol "=",
#include "bytecode/operators.def"
};
inline constexpr const char* kUnarySymbols[] = {
#define EVALFRAME_UNARY(name, symbol, function, ufunc) symbol,
#include "bytecode/operators.def"
};
inline constexpr const char* kCompareSymbols[] = {
#define EVALFRAME_COMPARE(name, symbol, function, ufunc) symbol,
#include "bytecode/operators.def"
};

}  // namespace evalframe::bytecode
