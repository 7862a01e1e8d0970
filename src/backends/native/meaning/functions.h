// NumPy's functions that have a meaning, found by their identity.
#pragma once

#include <optional>

#include "backends/native/meaning/meaning.h"

namespace evalframe::native {

enum class Function : uint8_t { kUfunc, kReduction, kView, kFill, kWhere, kClip, kRound, kCast, kCopy, kCopyInCOrder, kCreate };

// The function, and what it is told apart by from others of its kind.
struct Known {
  Function function;
  ScalarOp op = ScalarOp::add;
  ReduceOp reduce = ReduceOp::kNone;
  Statistic statistic = Statistic::kPlain;
  View view = View::kReshape;
  Filling filling = Filling::kZero;
};
std::optional<Known> known_function(PyObject* callable);

// Ufuncs that are asked for their loops where the program names none. Borrowed; they live as long as the process.
struct Ufuncs {
  PyObject* by_binary[13];  // by the number that BINARY_OP carries, in place or not
  PyObject* by_unary[3];    // by the code of Form::kUnary
  PyObject* by_compare[6];  // Py_LT ... Py_GE
  PyObject *clip, *maximum, *minimum, *rint;
};
const Ufuncs& ufuncs();

}  // namespace evalframe::native
