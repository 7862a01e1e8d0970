// The order in which NumPy's iterator walks the axes of arrays.
#pragma once

#include <cstdint>
#include <vector>

namespace evalframe::native {

// Sorts axes as NumPy's iterator does for arrays of these strides (operand o's stride of axis a: strides[o][a]; 0 for what doesn't
// move), the one that moves least first: stable, and where operands disagree C order wins.
void sort_axes(const std::vector<const int64_t*>& strides, int rank, int* axes);

// Whether dimensions over which an array is reduced follow one another in that order, but not in memory: NumPy sums these in pieces
// that depend on its version.
bool sums_in_pieces(const int64_t* strides, const int64_t* sizes, int rank, uint32_t reduced);

}  // namespace evalframe::native
