// Reductions of what a kernel computes: how its outputs are folded, and running it over a space.
#pragma once

#include <vector>

#include "backends/native/lower/space.h"
#include "backends/native/machine/machine.h"
#include "backends/native/reduce/reductions.h"

namespace evalframe::native {

// A reducing output: where it stands and how it is folded.
struct Fold {
  int operand;
  int element_size;
  Reducer reducer;
};

struct Folding {
  // Throws std::runtime_error where outputs need kernels of their own.
  explicit Folding(const Kernel& kernel);
  std::vector<Fold> folds;
  bool has_arg = false;      // some output is a position
  bool splits_sums = false;  // some output is summed in NumPy's pairwise order
  int per_element = 1;
};

inline bool is_arg(ReduceOp op) { return op == ReduceOp::kArgMin || op == ReduceOp::kArgMax; }

// The states stand in the outputs' places. pieces: how many the work is worth.
FloatFlags reduce(const Kernel& kernel, const Folding& folding, KernelFunction function, const Space& space, int pieces);

}  // namespace evalframe::native
