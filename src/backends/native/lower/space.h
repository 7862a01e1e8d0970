// The iteration space of one run: dimensions merged and ordered so that the inner loop walks memory in steps as small as can be.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "backends/native/code/kernel.h"

namespace evalframe::native {

struct Dimension {
  int64_t extent;
  bool reduced;
  int64_t weight;                // reduced: how far one step moves among the reduced elements, in C order
  std::vector<int64_t> strides;  // bytes, one for each operand
};

struct Space {
  std::vector<Dimension> dimensions;  // outermost first; at least two
  std::vector<char*> data;            // one for each operand
};

Space space_of(const Kernel& kernel, const int64_t* extents, const KernelOperand* operands, bool keep_order);

// One letter for each operand, see Access: how the innermost dimension walks it. Reducing outputs are stored as units.
std::string access_of(const Kernel& kernel, const Space& space);

}  // namespace evalframe::native
