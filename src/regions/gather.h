// Elements of an array that an array of ints names, or that a mask keeps, in a new array.
#pragma once

#include <memory>
#include <vector>

#include "regions/block.h"

namespace evalframe::regions {

// x[index]: all axes, or the first of two, have ints or rows of ints as indices; or a mask keeps some of one row. Leaves where an index is out
// of range. Throws Unsupported.
Written gathered(Block& block, const Written& array, const Written& index);

// The routine of kGather or kKeep.
RoutineEntry gather_entry(const Routine& routine, std::vector<std::unique_ptr<LoadedRoutine>>& owners);

}  // namespace evalframe::regions
