// Lowers a segment: the order of the steps from nodes to kernels.
#include "backends/native/lower/lowering.h"

#include <utility>

namespace evalframe::native::lowering {

// Sizes turn out to be one only while the nodes are read, and only operations over one space share a kernel: once all
// is known of the sizes, the segment is lowered again.
Variant Lowering::run() {
  Lowering again(graph_, meanings_, segment_, shapes_);
  lower_all();
  again.variant_.plain = is_plain();
  again.variant_.symbols = std::move(variant_.symbols);
  again.variant_.equal = std::move(variant_.equal);
  again.same_ = std::move(same_);
  again.examples_ = std::move(examples_);
  again.lower_all();
  if (!again.variant_.plain) again.variant_.falling.clear(), again.variant_.copied.clear();
  return std::move(again.variant_);
}

void Lowering::lower_all() {
  for (size_t i = 0; i < segment_.leaves.size(); i++) add_leaf(static_cast<int>(i));
  values_.resize(segment_.end - segment_.begin);
  for (int32_t node = segment_.begin; node < segment_.end; node++) lower_node(node);
  for (const int32_t node : segment_.kept) keep(node);
  for (Stored& stored : stores_) write_directly(stored);
  for (Stored& stored : stores_) {
    if (stored.value.kernel >= 0 && !stored.direct) store(stored.value);
  }
  // What is overwritten before anything has read it may still warn.
  for (Value& value : overwritten_) {
    if (value.kernel >= 0 && !is_used(value)) store(value);
  }
  for (size_t k = 0; k < variant_.kernels.size(); k++) find_hole(static_cast<int>(k));
  for (size_t k = 0; k < variant_.kernels.size(); k++) finish(static_cast<int>(k));
  const std::vector<int> place = order_kernels();
  for (const Stored& store : stores_) {
    if (store.direct) continue;
    commit(store);
    if (!may_lag(store)) continue;
    variant_.kernels.back().lags = place[static_cast<size_t>(store.value.kernel)];
    variant_.alone.push_back(variant_.storages[store.target.box.storage].source);
  }
}

void Lowering::lower_node(int32_t node) {
  const Meaning& meaning = segment_.meanings[node - segment_.begin];
  switch (meaning.sense) {
    case Sense::kMap: case Sense::kWhere: case Sense::kClip: case Sense::kCast: lower_map(node, meaning); break;
    case Sense::kFill: lower_fill(node, meaning); break;
    case Sense::kReduce: lower_reduce(node, meaning); break;
    case Sense::kRolled: lower_rolled(node, meaning); break;
    case Sense::kDifference: lower_difference(node, meaning); break;
    case Sense::kView: lower_view(node, meaning); break;
    case Sense::kStore: return lower_store(node, meaning);
    case Sense::kMaskedStore: return lower_masked_store(node, meaning);
    case Sense::kKept: return lower_kept(node, meaning);
    case Sense::kQuick: case Sense::kCall: return;
  }
  if (value_at(node).kept_by < 0 && static_cast<int>(value_at(node).dims.size()) != graph_.nodes[node].meta.rank) throw Unsupported();
}

void Lowering::keep(int32_t node) {
  Value& value = value_at(node);
  if (value.kept_by >= 0) throw Unsupported{value.kept_by};
  if (!value.box.rolls.empty()) value = made_anew(value);
  if (value.kernel < 0) throw Unsupported();
  store(value);
  int32_t& owner = variant_.storages[value.box.storage].node;
  // Two nodes of one value (an operation that does nothing) would share an array.
  if (owner >= 0) throw Unsupported();
  owner = node;
}

}  // namespace evalframe::native::lowering

namespace evalframe::native {

std::optional<Variant> lower(const graph::Graph& graph, const Meanings& meanings, const Segment& segment,
                             const std::vector<LeafShape>& shapes, int32_t& obstacle) {
  obstacle = -1;
  try {
    return lowering::Lowering(graph, meanings, segment, shapes).run();
  } catch (const lowering::Unsupported& unsupported) {
    obstacle = unsupported.node;
    return std::nullopt;
  }
}

std::string print(const Variant& variant) {
  std::string text;
  for (const KernelPlan& plan : variant.kernels) text += print(plan.kernel);
  return text;
}

}  // namespace evalframe::native
