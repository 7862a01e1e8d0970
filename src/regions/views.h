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
  std::optional<Term> step_at = {};  // i64, in its place: only one that is above 0 isn't left for
  Varies varies = Varies::kAnyhow;   // of all
};
// How an index into an array varies in many turns, where the array itself varies so: what moves evenly has the same sizes in all turns.
Varies index_varies(const Block& block, Varies array, Varies index);
// As NumPy sees it; leaves where an index is out of range. Throws Unsupported.
Strided part_of(Block& block, const Strided& array, Varies varies, const std::vector<Item>& items);
// How such a part varies.
Varies part_varies(const Block& block, Varies array, const std::vector<Item>& items);
// An index along an axis, counted from its beginning.
Term index_in(Block& block, const Term& number, const Term& size, Varies varies, Varies number_varies);
// With axes in this order; -1: a new one, of one element.
Strided turned(Block& block, const Strided& array, const std::vector<int>& order);

}  // namespace evalframe::regions
