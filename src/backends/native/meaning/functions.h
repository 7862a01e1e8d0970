// NumPy's functions that have a meaning, found by their identity.
#pragma once

#include <iterator>
#include <optional>

#include "backends/native/meaning/meaning.h"
#include "bytecode/operators.h"

namespace evalframe::native {

enum class Function : uint8_t { kUfunc, kReduction, kView, kFill, kWhere, kClip, kRound, kOuter, kRoll, kDifference, kCast, kCopy, kCopyInCOrder, kCreate, kEmpty, kEmptyLike };

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

// Ufuncs that are asked for their loops where the program names none; those of operators by the numbers of operators.def. Borrowed;
// they live as long as the process.
struct Ufuncs {
  PyObject* by_binary[bytecode::kBinaryOps];  // in place or not
  PyObject* by_unary[std::size(bytecode::kUnaryFunctions)];
  PyObject* by_compare[std::size(bytecode::kCompareSymbols)];
  PyObject *clip, *maximum, *minimum, *rint;
};
const Ufuncs& ufuncs();

}  // namespace evalframe::native
