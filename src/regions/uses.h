// What comes of the results of a turn, when it is done again and again.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <utility>

#include "graph/places.h"
#include "recorder/recording.h"
#include "regions/block.h"
#include "regions/names.h"

namespace evalframe::regions {

// Whether it stores into an array.
bool stores_elements(const recorder::Recording& recording);

class Uses {
 public:
  // stores: how the addresses vary of the nodes that store elements. carries: whether the next turn begins with what this one leaves in the slot.
  Uses(const recorder::Recording& recording, const Variables& frame, const std::map<int32_t, Varies>& stores, std::function<bool(size_t slot)> carries)
      : recording_(recording), frame_(frame), nodes_(recording.graph.nodes), at_end_(frame.values_at(recording, static_cast<int32_t>(nodes_.size()))), stores_(stores), carries_(std::move(carries)) {}
  // Whether the node's result in each turn makes a difference to what there is in the end: it is stored where no later turn stores, or
  // something is computed of it from turn to turn.
  bool is_needed_in_each_turn(int32_t node) const {
    std::set<int32_t> seen, way;
    return comes_of(node, seen, way);
  }

 private:
  using Operand = graph::Operand;
  bool comes_of(int32_t node, std::set<int32_t>& seen, std::set<int32_t>& way) const;
  bool comes_of_value(const Operand& value, std::set<int32_t>& seen, std::set<int32_t>& way) const;
  bool comes_of_slot(size_t slot, std::set<int32_t>& seen, std::set<int32_t>& way, int moves) const;
  bool comes_of_store(int32_t node, std::set<int32_t>& seen, std::set<int32_t>& way) const;
  bool takes(const graph::Node& node, const Operand& value) const;
  bool is_last_store(int32_t node) const;

  const recorder::Recording& recording_;
  const Variables& frame_;
  const std::vector<graph::Node>& nodes_;
  const std::vector<uint32_t> at_end_;  // values of slots
  const std::map<int32_t, Varies>& stores_;
  const std::function<bool(size_t slot)> carries_;
};

}  // namespace evalframe::regions
