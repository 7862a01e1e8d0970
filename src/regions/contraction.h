// Sums over axes of a product of two arrays, `(a * b).sum(axis=...)`, without the array of products.
#pragma once

#include <memory>
#include <vector>

#include "regions/expression.h"
#include "regions/routine.h"

namespace evalframe::regions {

// A product of two arrays of floats that nobody has computed yet.
bool is_product(const Expression& expression);
// Sums it over these axes (bits) into a new array, whose bytes from element to element along all of the product's axes are given: none along
// those that are summed.
void contract(Block& block, Expression& product, uint32_t axes, Block::Place to);

// The routine of kContract.
RoutineEntry contraction_entry(const Routine& routine, const Held& held, std::vector<std::unique_ptr<LoadedRoutine>>& owners);

}  // namespace evalframe::regions
