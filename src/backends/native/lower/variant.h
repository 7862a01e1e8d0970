// Where the boxes of a variant stand, for the sizes and strides of one run.
#pragma once

#include <cstdint>
#include <vector>

#include "backends/native/lower/lower.h"

namespace evalframe::native {

std::vector<int64_t> c_strides(const std::vector<int>& dims, const int64_t* symbols);
// How many of its storage's strides an axis moves.
int64_t steps(const Axis& axis, const int64_t* symbols);
std::vector<int64_t> sizes_of(const Box& box, const int64_t* symbols);
// Bytes of a leaf, elements of a buffer in C order.
std::vector<int64_t> strides_of_box(const Variant& variant, const Box& box, const LeafShape* shapes, const int64_t* symbols);
bool is_in_c_order(const Variant& variant, const Box& box, const std::vector<int64_t>& strides, const std::vector<int64_t>& sizes);

// Whether NumPy sums it in one order whatever its version.
bool is_in_one_piece(const Variant& variant, const Summed& summed, const LeafShape* shapes, const int64_t* symbols);

}  // namespace evalframe::native
