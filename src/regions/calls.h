// Functions that are computed in registers: one for each row of calls.def.
#pragma once

#include <span>

#include "regions/block.h"

namespace evalframe::regions {

// Throws Unsupported. meta: of the result, as recorded. exact: elementary functions are NumPy's own.
Written call(Block& block, Borrowed callable, std::span<const Written> arguments, const graph::Meta& meta, bool exact);

}  // namespace evalframe::regions
