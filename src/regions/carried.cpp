#include "regions/carried.h"

#include <algorithm>
#include <numeric>

#include "bytecode/operators.h"
#include "regions/recorded.h"
#include "regions/uses.h"

namespace evalframe::regions {

using bytecode::BinaryOp;
using graph::Form, graph::Node, graph::Operand;

namespace {

// An array, or an int: what it is, and how much more.
struct Named {
  enum class Of : uint8_t { kItem, kSlot, kSource, kNothing };
  Of of;
  size_t which = 0;
  int64_t more = 0;
  bool operator==(const Named&) const = default;
};

// An element, as its subscript tells it.
struct Place {
  Named array;
  std::vector<Named> indices;
  bool operator==(const Place&) const = default;
};

constexpr int64_t kMostMore = int64_t{1} << 31;

// None: it is no int, or a large one.
std::optional<int64_t> known_int(PyObject* object) {
  if (!PyLong_CheckExact(object)) return std::nullopt;
  int overflows = 0;
  const int64_t value = PyLong_AsLongLongAndOverflow(object, &overflows);
  return overflows || value <= -kMostMore || value >= kMostMore ? std::nullopt : std::optional(value);
}

class Places {
 public:
  Places(RegionWriter& region, const PartOfTurn& part, const std::function<bool(size_t)>& is_fixed)
      : part_(part), graph_(part.does->graph), is_fixed_(is_fixed), unused_("unused", "unused", region.region()), writer_(region, part.block, *part.does, unused_) {
    const std::vector<guards::Source>& sources = part.does->guards.sources;
    for (size_t i = 0; i < sources.size(); i++) {
      const std::optional<size_t> slot = writer_.slot_of(static_cast<int32_t>(i));
      if (!slot || !part.items.count(*slot)) continue;
      const auto look_at = [&](const guards::Fact& fact) {
        if (fact.check == guards::Check::kEqual) only_item_ = known_int(fact.want.get());
      };
      look_at(sources[i].fact);
      std::ranges::for_each(sources[i].more, look_at);
    }
  }

  // The number that the turn has to have, or this part doesn't belong to it; none: any.
  const std::optional<int64_t>& only_item() const { return only_item_; }

  // Whether the places are one in all turns that the part belongs to.
  bool are_same(const Place& here, const Place& other) const {
    const auto is_same = [&](const Named& mine, const Named& its) {
      const bool is_item = only_item_ && mine.of == Named::Of::kNothing && its.of == Named::Of::kItem;
      return mine == its || (is_item && mine.more - *only_item_ == its.more);
    };
    return here.array == other.array && std::ranges::equal(here.indices, other.indices, is_same);
  }

  // None: it can't be told, or is more than an element.
  std::optional<Place> of(const Node& subscript) {
    const Operand* const operands = graph_.operands_of(subscript);
    if (operands[0].space != Operand::Space::kInput) return std::nullopt;
    const std::optional<Named> array = input(operands[0].index);
    if (!array || array->of == Named::Of::kItem) return std::nullopt;
    Place place{*array, {}};
    const Node* const tuple = operands[1].space == Operand::Space::kNode ? &graph_.nodes[static_cast<size_t>(operands[1].index)] : nullptr;
    const bool is_tuple = tuple && tuple->form == Form::kTuple;
    const Operand* const first = is_tuple ? graph_.operands_of(*tuple) : operands + 1;
    for (uint32_t i = 0; i < (is_tuple ? tuple->count : 1); i++) {
      const std::optional<Named> index = number(first[i]);
      if (!index) return std::nullopt;
      place.indices.push_back(*index);
    }
    return place;
  }

 private:
  std::optional<Named> input(int32_t index) {
    if (const std::optional<int32_t> source = writer_.source_of(index)) return Named{Named::Of::kSource, static_cast<size_t>(*source)};
    const std::optional<size_t> slot = writer_.slot_of(part_.does->input_sources[static_cast<size_t>(index)]);
    if (!slot) return std::nullopt;
    if (part_.items.count(*slot)) return Named{Named::Of::kItem};
    return is_fixed_(*slot) ? std::optional(Named{Named::Of::kSlot, *slot}) : std::nullopt;
  }

  std::optional<int64_t> constant(Operand operand) const {
    return operand.space == Operand::Space::kConstant ? known_int(graph_.constants[static_cast<size_t>(operand.index)].get()) : std::nullopt;
  }

  std::optional<Named> number(Operand operand) {
    if (const std::optional<int64_t> value = constant(operand)) return Named{Named::Of::kNothing, 0, *value};
    if (operand.space == Operand::Space::kInput) return input(operand.index);
    if (operand.space != Operand::Space::kNode) return std::nullopt;
    const Node& node = graph_.nodes[static_cast<size_t>(operand.index)];
    const auto op = bytecode::binary_op(node.code);
    if (node.form != Form::kBinary || node.meta.kind != graph::Kind::kInt || (op != BinaryOp::kAdd && op != BinaryOp::kSubtract)) return std::nullopt;
    const Operand* const operands = graph_.operands_of(node);
    const std::optional<int64_t> right = constant(operands[1]), left = op == BinaryOp::kAdd ? constant(operands[0]) : std::nullopt;
    if (!right && !left) return std::nullopt;
    std::optional<Named> named = number(operands[right ? 0 : 1]);
    if (named) named->more += right ? (op == BinaryOp::kAdd ? *right : -*right) : *left;
    if (named && (named->more <= -kMostMore || named->more >= kMostMore)) return std::nullopt;
    return named;
  }

  const PartOfTurn& part_;
  const graph::Graph& graph_;
  const std::function<bool(size_t)>& is_fixed_;
  Block unused_;
  RecordingWriter writer_;
  std::optional<int64_t> only_item_;
};

// What the place is called in the turn before.
std::optional<Place> in_next_turn(Place place, std::optional<int64_t> step) {
  for (Named& index : place.indices) {
    if (index.of != Named::Of::kItem) continue;
    if (!step || std::abs(*step) >= kMostMore) return std::nullopt;
    index.more -= *step;
  }
  return place;
}

// Writes what the part does in the turn, for its addresses, and gives its loads.
std::vector<int32_t> peek(RegionWriter& region, Block& block, const PartOfTurn& part, const Term& item) {
  block.pass = Pass::kProbe;
  block.peeks = true;
  block.peeked.clear();
  block.stores.clear();
  RecordingWriter writer(region, part.block, *part.does, block);
  writer.write_turn(&item, false);
  block.peeks = false;
  return writer.even_loads();
}

}  // namespace

std::optional<Carried> find_carried(RegionWriter& region, const std::vector<PartOfTurn>& parts, const std::function<bool(size_t)>& is_fixed, std::optional<int64_t> step,
                                    const std::function<void(Block&, const PartOfTurn&)>& begins) {
  if (std::ranges::none_of(parts, [](const PartOfTurn& part) { return stores_elements(*part.does); })) return std::nullopt;
  // What is in a part that belongs to one turn only is compared with what is in others.
  std::vector<Places> places;
  std::vector<size_t> order(parts.size());
  places.reserve(parts.size());
  for (const PartOfTurn& part : parts) places.emplace_back(region, part, is_fixed);
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_partition(order, [&](size_t part) { return !places[part].only_item(); });

  std::optional<Place> stored;
  Carried carried;
  for (const size_t part : order) {
    for (const Node& node : parts[part].does->graph.nodes) {
      if (node.form != Form::kSetItem) continue;
      const std::optional<Place> place = places[part].of(node);
      if (!place || (stored ? !places[part].are_same(*place, *stored) : places[part].only_item().has_value())) return std::nullopt;
      if (stored) continue;
      stored = place;
      carried.stores = parts[part];
    }
  }
  const std::optional<Place> next = stored ? in_next_turn(*stored, step) : std::nullopt;
  if (!next) return std::nullopt;
  for (const size_t number : order) {
    const PartOfTurn& part = parts[number];
    const std::vector<Node>& nodes = part.does->graph.nodes;
    const auto reads = [&](const Node& node) {
      const std::optional<Place> place = node.form == Form::kGetItem ? places[number].of(node) : std::nullopt;
      return place && places[number].are_same(*place, *next);
    };
    if (std::none_of(nodes.begin(), nodes.end(), reads)) continue;
    Block unused("unused", "unused", region.region());
    begins(unused, part);
    const Term any = unused.emitter.integer("i64", 0);
    const std::vector<int32_t> loads = peek(region, unused, part, any);
    for (size_t i = 0; i < loads.size(); i++) {
      if (!reads(nodes[static_cast<size_t>(loads[i])])) continue;
      if (carried.all_loads.empty() && places[number].only_item()) return std::nullopt;
      carried.dtype = unused.peeked[i].dtype;
      if (carried.all_loads.empty()) carried.loads = part, carried.load = i;
      carried.all_loads[{part.block, part.recording}].insert(i);
    }
  }
  return carried.all_loads.empty() || native::is_complex(carried.dtype) ? std::nullopt : std::optional(carried);
}

Term address_of_load(RegionWriter& region, Block& block, const PartOfTurn& part, size_t load, const Term& item) {
  peek(region, block, part, item);
  const Term address = block.peeked[load].address;
  block.stores.clear();
  return address;
}

Term address_of_store(RegionWriter& region, Block& block, const PartOfTurn& part, const Term& item) {
  peek(region, block, part, item);
  const Term address = block.stores.back().address;
  block.stores.clear();
  return address;
}

}  // namespace evalframe::regions
