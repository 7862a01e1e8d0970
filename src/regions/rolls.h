// np.roll in native loops: an array that is read where its elements were, so that none of them is moved.
#pragma once

#include "regions/expression.h"

namespace evalframe::regions {

// The array with its elements moved on along an axis by so many, 0 to its size - 1, and round its end. `array` is one in memory, or what was
// rolled before.
ExpressionRef rolled(Block& block, const Written& array, size_t axis, const Term& by);
// Its elements in memory.
Written rolled_copy(Block& block, const Expression& rolled);

}  // namespace evalframe::regions
