// Elements of an array that a mask keeps: taken into a new array, stored, or computed where they stand.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "regions/expression.h"

namespace evalframe::regions {

bool is_mask(const Written& index);

// x[mask], of one or two dimensions: elements, or rows where the mask is for the first axis alone. Leaves where the sizes don't fit, or there are no
// elements. Throws Unsupported, as all of these do.
Written gathered_by_mask(Block& block, const Written& array, const Written& mask);
// x[mask] = value: a number, or as many as the mask keeps. See scatter().
void put_by_mask(Block& block, const Written& array, const Written& mask, const Written& value);

// What all of it is stored under the same mask again, as in `z[m] = z[m] * z[m] + c[m]`, isn't taken into rows of its own: it is computed where the
// elements stand, and what the mask leaves out is jumped over. So x[mask] is put off for this; one that has to be in memory after all is taken then.
Written kept(Block& block, const Written& array, const Written& mask);
Written kept_copy(Block& block, const Expression& kept);
// Where x[mask] = value is done so: what the value is made of need not be computed for it.
void leave_to_store(Block& block, const Written& mask, const Written& value);

// What the text of a kKernel begins with that is computed only near elements that a mask keeps: its last operation is a select by that.
inline constexpr std::string_view kSkipping = "skipping ";

// The routine of kKeep, kPut, kCount or kPutKept.
RoutineEntry mask_entry(const Routine& routine, std::vector<std::unique_ptr<LoadedRoutine>>& owners);

}  // namespace evalframe::regions
