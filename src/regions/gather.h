// Elements of an array that arrays of ints name, or that a mask keeps: taken into a new array, or stored.
#pragma once

#include <memory>
#include <vector>

#include "regions/block.h"

namespace evalframe::regions {

// x[index]: all axes, or the first of two, have ints or rows of ints as indices; or a mask keeps elements, or rows. Leaves where an index is out
// of range. Throws Unsupported.
Written gathered(Block& block, const Written& array, const Written& index);
// x[index] = value, a number, or an array of as many elements (or rows) as the index names. Nothing is stored where it leaves; what was stored
// can't be undone. Throws Unsupported.
void scatter(Block& block, const Written& array, const Written& index, const Written& value);

// Room for a new array of so many elements, or rows of them.
Written room_for(Block& block, DType dtype, const std::vector<Term>& sizes);
// A number as one element in memory.
Block::Rows number_to_store(Block& block, const Written& number, DType dtype);

// The routine of kGather or kScatter.
RoutineEntry gather_entry(const Routine& routine, std::vector<std::unique_ptr<LoadedRoutine>>& owners);

}  // namespace evalframe::regions
