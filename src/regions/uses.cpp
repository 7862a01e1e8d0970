#include "regions/uses.h"

#include <algorithm>

namespace evalframe::regions {

using graph::Form, graph::Node, graph::Operand;

bool stores_elements(const recorder::Recording& recording) {
  return std::any_of(recording.graph.nodes.begin(), recording.graph.nodes.end(), [](const Node& node) { return node.form == Form::kSetItem; });
}

bool Uses::takes(const Node& node, const Operand& value) const {
  const Operand* const operands = recording_.graph.operands_of(node);
  return std::any_of(operands, operands + node.count, [&](const Operand& operand) {
    if (operand == value) return true;
    const Node* const of = operand.space == Operand::Space::kNode ? &nodes_[static_cast<size_t>(operand.index)] : nullptr;
    return of && of->form == Form::kTuple && takes(*of, value);
  });
}

bool Uses::is_last_store(int32_t node) const {
  for (size_t i = static_cast<size_t>(node) + 1; i < nodes_.size(); i++) {
    if (nodes_[i].form == Form::kSetItem && are_same_place(recording_.graph, nodes_[i], nodes_[static_cast<size_t>(node)])) return false;
  }
  return true;
}

// Later turns store elsewhere, or what was stored is read: by this turn, or where it is always the same place by the next one.
bool Uses::comes_of_store(int32_t node, std::set<int32_t>& seen, std::set<int32_t>& way) const {
  const auto found = stores_.find(node);
  const bool is_elsewhere = found != stores_.end() && found->second != Varies::kNot;
  if (is_elsewhere && is_last_store(node)) return true;
  for (auto i = is_elsewhere ? node + 1 : 0; i < static_cast<int32_t>(nodes_.size()); i++) {
    const Node& other = nodes_[static_cast<size_t>(i)];
    if (other.form == Form::kGetItem && are_same_place(recording_.graph, other, nodes_[static_cast<size_t>(node)]) && comes_of(i, seen, way)) return true;
  }
  return false;
}

bool Uses::comes_of_value(const Operand& value, std::set<int32_t>& seen, std::set<int32_t>& way) const {
  for (size_t i = 0; i < nodes_.size(); i++) {
    const Node& node = nodes_[i];
    if (node.form == Form::kTuple || !takes(node, value)) continue;
    const auto index = static_cast<int32_t>(i);
    const bool computes = node.form == Form::kBinary || node.form == Form::kUnary || node.form == Form::kCall || node.form == Form::kGetItem;
    if (node.form == Form::kSetItem ? comes_of_store(index, seen, way) : computes && comes_of(index, seen, way)) return true;
  }
  return false;
}

// What a slot has behind a turn is what the next one begins with.
bool Uses::comes_of_slot(size_t slot, std::set<int32_t>& seen, std::set<int32_t>& way, int moves) const {
  if (!carries_(slot)) return false;
  const auto is_slot = [&](int32_t source) { return frame_.slot_of(recording_, source) == slot; };
  for (size_t i = 0; i < recording_.input_sources.size(); i++) {
    if (is_slot(recording_.input_sources[i]) && comes_of_value(Operand::input(static_cast<int32_t>(i)), seen, way)) return true;
  }
  constexpr int kMostMoves = 4;
  for (size_t i = 0; moves < kMostMoves && i < at_end_.size(); i++) {
    if (at_end_[i] == Variables::kKept) continue;
    const recorder::Value& there = recording_.values[at_end_[i]];
    const bool moves_on = there.kind == recorder::Value::Kind::kSource && i != slot && is_slot(there.a);
    if (moves_on && comes_of_slot(i, seen, way, moves + 1)) return true;
  }
  return false;
}

bool Uses::comes_of(int32_t node, std::set<int32_t>& seen, std::set<int32_t>& way) const {
  // Round and round, to the last turn.
  if (way.count(node)) return true;
  if (!seen.insert(node).second) return false;
  way.insert(node);
  bool comes = comes_of_value(Operand::node(node), seen, way);
  for (size_t i = 0; !comes && i < at_end_.size(); i++) {
    if (at_end_[i] == Variables::kKept) continue;
    const recorder::Value& there = recording_.values[at_end_[i]];
    if (there.kind == recorder::Value::Kind::kNode && there.a == node) comes = comes_of_slot(i, seen, way, 0);
  }
  way.erase(node);
  return comes;
}

}  // namespace evalframe::regions
