// The steps of iterators in registers.
#pragma once

#include <optional>

#include "regions/block.h"

namespace evalframe::regions {

// How many items a step gives, which are unpacked; 0: one, as it is.
size_t items_of_step(const Type& iterator);
// Whether there is one more (an i1).
Term has_next(Block& block, const Written& iterator);
// Whether the next items, if there are any, are of the types that they are to be (an i1); none: they always are. Comes before the next two.
std::optional<Term> next_fits(Block& block, const Written& iterator);
// Where there is: the items in order; `iterator` is advanced.
std::vector<Written> next_items(Block& block, Written& iterator);
// iter() of an array of one dimension, of a range, or of an iterator; throws Unsupported.
Written iterator_over(Block& block, const Written& iterable);
// ... of a list or tuple, if it is one; items: as of type_of_items().
Written iterator_over_list(Block& block, const Type& items, const Term& list);
// A range object that is known; throws Unsupported where its numbers are too large.
Written known_range(Emitter& emitter, Borrowed range);
// The iterator, that has given so many items more.
Written advanced(Written iterator, int32_t items);
// enumerate() and zip() of such; throw Unsupported.
Written enumerate_of(Block& block, const Written& iterable);
Written zip_of(Block& block, const std::vector<Written>& iterables);

}  // namespace evalframe::regions
