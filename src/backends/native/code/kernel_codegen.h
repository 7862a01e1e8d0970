// From a kernel and the way each operand is walked to the text of one LLVM IR function.
#pragma once

#include <string>

#include "backends/native/code/kernel.h"

namespace evalframe::native {

// How the inner loop walks an operand.
enum class Access : char {
  kScalar = 's',     // one element for the whole space
  kUnit = 'u',       // neighbours in memory
  kBroadcast = '0',  // the same element along the inner loop
  kSecond = '2',     // every second element
  kBackwards = 'b',  // neighbours, from the last one on
  kStrided = 'g',    // any byte stride
};
// Of an operand of an array, whose elements have that size, by the bytes from one to the next. What LLVM knows the stride of, it puts into
// vectors by rearranging them: operations on bytes take a third to a fifth of the time, on wider elements half to all of it. Not so every second
// one of two bytes, which take twice as long, and every third.
Access access_for(int64_t stride, int64_t size);

// The type of the elements that the loop stores for an output; what a reduction then folds.
DType stored_dtype(const Kernel& kernel, const KernelOutput& output);

// The function's name in the text that generate returns; compile gives it the name of its contents.
inline constexpr const char* kFunctionName = "@evalframe_kernel";

// IR of `i32 kernel(ptr data, ptr outer_strides, ptr inner_strides, i64 rows, i64 columns)`, which computes the whole body for
// rows x columns elements, stores every output (reducing ones too: the caller folds them), and returns reported conditions
// as NPY_FPE_* bits. access: one Access letter for each operand. Where it isn't quiet, comparisons may raise "invalid" on NaN, which
// NumPy's don't: they take a quarter of the instructions.
struct Generated {
  std::string ir;
  bool may_signal = false;  // such a comparison is in it
};
// Rows of arrays that a program's own loops go through are seldom long: one vector a turn leaves fewer elements to be done alone than four do, and
// compiles in half the time.
enum class Rows : uint8_t { kLong, kShort };
Generated generate(const Kernel& kernel, const std::string& access, bool quiet, Rows rows = Rows::kLong);

}  // namespace evalframe::native
