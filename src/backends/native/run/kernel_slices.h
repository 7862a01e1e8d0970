// Runs the kernels of a segment one after another; where rows depend only on rows, slice by slice, so that what one kernel writes
// the next finds in the cache.
#pragma once

#include <cstdint>
#include <span>

#include "backends/native/code/kernel.h"

namespace evalframe::native {

struct KernelCall {
  const CompiledKernel* kernel;
  const int64_t* extents;
  const KernelOperand* operands;
  const int* scratch;  // for each operand: the index of the scratch memory that it is in, or -1
};

// Whether they may run in slices: other threads may then need the GIL meanwhile, for code that is met for the first time.
bool may_run_in_slices(std::span<const KernelCall> calls);
// scratch: memory that only these calls use, and all of it written by them before it is read; null where an index has none.
// Compiles what is met for the first time (see CompiledKernel::run); where that fails, `done` tells how many calls have run.
FloatFlags run_calls(std::span<const KernelCall> calls, std::span<char* const> scratch, int& done);

}  // namespace evalframe::native
