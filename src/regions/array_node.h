// What a recorded operation on arrays is in a native loop: views are addresses, element-wise operations are put off, stores and sums are calls.
#pragma once

#include <functional>
#include <optional>

#include "backends/native/meaning/meaning.h"
#include "regions/block.h"

namespace evalframe::regions {

struct ArrayNodes {
  Block& block;
  const graph::Graph& graph;
  const native::Meanings& meanings;
  bool exact;  // elementary functions aren't ours
  // What an operand is.
  std::function<Written(graph::Operand)> operand;
  // Is called before elements are read: what is to be stored yet is stored.
  std::function<void()> before_reading;
  // Is called before the block's own memory is written: what was put off may read it.
  std::function<void()> before_writing;
  // What has been put off is something else from here on, for all that have it.
  std::function<void(const Expression* from, const Written& to)> becomes;
};

// None: not an operation on whole arrays. Throws Unsupported.
std::optional<Written> array_node(const ArrayNodes& nodes, int32_t index);
// Stores by an index that is an array, or has some: what was put off has to be computed, and what is done isn't undone. False: it is NumPy's to do.
bool store_by_arrays(const ArrayNodes& nodes, int32_t index);

}  // namespace evalframe::regions
