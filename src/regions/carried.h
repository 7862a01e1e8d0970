// An element that each turn of a loop stores and the next one reads (`y[i] = y[i - 1] + x[i]`): it needn't come from memory, from where it takes
// longer than most of what is computed of it.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "regions/writer.h"

namespace evalframe::regions {

// What one recording of a block does in a turn.
struct PartOfTurn {
  int block = -1;
  size_t recording = 0;  // of the block's
  const recorder::Recording* does = nullptr;
  std::set<size_t> items = {};  // slots that have the number of the turn
};

struct Carried {
  graph::DType dtype = graph::DType::kNone;
  PartOfTurn stores = {};  // one of those that store it
  PartOfTurn loads = {};   // ... and that read it, by a load of this number, of those at addresses that vary evenly
  size_t load = 0;
  std::map<std::pair<int, size_t>, std::set<size_t>> all_loads = {};  // by block and recording
};

// The element that turns go on with, if they store no other: none of them changes what is read as carried. is_fixed: whether a slot has the same in
// all turns; step: of the range; begins: what the writing of a part begins with.
std::optional<Carried> find_carried(RegionWriter& region, const std::vector<PartOfTurn>& parts, const std::function<bool(size_t)>& is_fixed, std::optional<int64_t> step,
                                    const std::function<void(Block&, const PartOfTurn&)>& begins);

// Where the part loads, or stores, the element in the turn with the number.
Term address_of_load(RegionWriter& region, Block& block, const PartOfTurn& part, size_t load, const Term& item);
Term address_of_store(RegionWriter& region, Block& block, const PartOfTurn& part, const Term& item);

}  // namespace evalframe::regions
