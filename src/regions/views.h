// Arrays and parts of arrays in registers.
#pragma once

#include <optional>

#include "regions/block.h"

namespace evalframe::regions {

// Where the elements of an array are; one that is to be computed yet is computed.
Strided strided(Block& block, const Written& array);
// The sizes alone.
std::vector<Term> sizes_of(Block& block, const Written& array);
// A part as an array of its own.
Written view_of(Block& block, const Strided& part);

// One item of a basic index.
struct Item {
  enum class Kind : uint8_t { kInteger, kSlice, kNewAxis, kEllipsis } kind;
  std::optional<Term> start, stop;  // i64; kInteger: start
  int64_t step = 1;
};
// As NumPy sees it; leaves where an index is out of range. Throws Unsupported.
Strided part_of(Block& block, const Strided& array, const std::vector<Item>& items);
// With axes in this order; -1: a new one, of one element.
Strided turned(Block& block, const Strided& array, const std::vector<int>& order);

}  // namespace evalframe::regions
