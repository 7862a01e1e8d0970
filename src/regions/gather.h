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

// The routine of kGather, kScatter, kKeep or kPut.
RoutineEntry gather_entry(const Routine& routine, std::vector<std::unique_ptr<LoadedRoutine>>& owners);

}  // namespace evalframe::regions
