// Elements of arrays by their indices, and what is known of arrays without looking at them.
#pragma once

#include "regions/block.h"

namespace evalframe::regions {

// Whether it is an int of Python's or NumPy's.
bool is_index(const Written& index);
// Throw Unsupported. index: an int of Python's or NumPy's, or a tuple of them.
Written get_item(Block& block, const Written& owner, const Written& index);
void set_item(Block& block, const Written& array, const Written& index, const Written& value);
Written get_attribute(Block& block, const Written& owner, const std::string& name);
// At an index that is in it: an element, or a part.
Written item_at(Block& block, const Written& array, const Term& index);
Term length_of(Block& block, const Written& owner);

}  // namespace evalframe::regions
