// Seeing an array in another shape without a copy: where NumPy can, and by which steps.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace evalframe::native {

// One dimension of the new shape: it moves as dimension `of` of the array does, over the sizes of the dimensions behind it, up to
// `end`. One of a single element moves nowhere (of: -1).
struct Regrouped {
  int of = -1;
  int end = 0;
};

// None where NumPy copies, or the sizes differ in number. All sizes are positive; strides: of the array, in any unit.
std::optional<std::vector<Regrouped>> regroup(const std::vector<int64_t>& sizes, const std::vector<int64_t>& strides,
                                              const std::vector<int64_t>& shape);

}  // namespace evalframe::native
