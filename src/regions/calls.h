// Functions that are computed in registers: one for each row of calls.def.
#pragma once

#include <optional>
#include <span>

#include "regions/block.h"

namespace evalframe::regions {

// Throws Unsupported. meta: of the result, as recorded. exact: elementary functions are NumPy's own.
Written call(Block& block, Borrowed callable, std::span<const Written> arguments, const graph::Meta& meta, bool exact);

// min() or max() of numbers of two types, which gives one of them as it is.
struct Choice {
  Written first, second;
  Term is_first;
};
// None: another call. Throws Unsupported.
std::optional<Choice> choice_between(Block& block, Borrowed callable, std::span<const Written> numbers);

}  // namespace evalframe::regions
