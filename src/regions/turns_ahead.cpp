#include "regions/turns_ahead.h"

#include <algorithm>

#include "regions/iterators.h"
#include "regions/object_call.h"
#include "regions/recorded.h"
#include "regions/uses.h"
#include "regions/views.h"

namespace evalframe::regions {

using graph::Form, graph::Node, graph::Operand;
using recorder::Recording;
using Kind = Type::Kind;

namespace {

// Turns at once: two vectors of doubles at least, so that one's additions don't wait for the other's.
constexpr int64_t kLanes = 8;
// So many times as many as there are between the first and the last turn, in 64 bits, is one.
constexpr uint64_t kPartOfWay = 0x6db6db6db6db6db7;
static_assert(kPartOfWay * (kLanes - 1) == 1);
// The inner turns of all of these take less than a millisecond, in which no signal is looked for.
constexpr int64_t kMostInnerTurns = 1 << 13;

// The first and the last byte of an array's elements, and one more, as numbers.
std::pair<Term, Term> extent(Block& block, const Strided& array) {
  Emitter& emitter = block.emitter;
  Term first = native::convert("ptrtoint", array.data, "i64"), last = first + static_cast<double>(graph::size_of(array.type.dtype));
  const Term zero = emitter.integer("i64", 0);
  for (size_t axis = 0; axis < array.sizes.size(); axis++) {
    const Term reach = (array.sizes[axis] - 1.0) * array.strides[axis];
    first = first + select(compare("slt", reach, 0), reach, zero);
    last = last + select(compare("slt", reach, 0), zero, reach);
  }
  return {first, last};
}

bool is_straight(const std::string& text) { return text.find(" br ") == std::string::npos; }

}  // namespace

TurnsAhead::TurnsAhead(RegionWriter& region, int head)
    : region_(region),
      head_(head),
      for_iter_(region.blocks_[static_cast<size_t>(head)].state.instruction - 1),
      item_(region.blocks_[static_cast<size_t>(head)].state.types.size() - 1) {}

const Recording& TurnsAhead::recording(int block) const {
  const std::vector<const Recording*>& recordings = region_.blocks_[static_cast<size_t>(block)].recordings;
  if (recordings.empty()) throw OtherTurn();
  return *recordings[0];
}

// --- what the loop does -------------------------------------------------------------------------------------------------

// What the element or part is of.
TurnsAhead::Array TurnsAhead::array_of(int block, const Recording& recording, const Node& node) const {
  const graph::Graph& graph = recording.graph;
  Operand owner = graph.operands_of(node)[0];
  while (owner.space == Operand::Space::kNode && graph.nodes[static_cast<size_t>(owner.index)].form == Form::kGetItem) owner = graph.operands_of(graph.nodes[static_cast<size_t>(owner.index)])[0];
  if (owner.space != Operand::Space::kInput) throw OtherTurn();
  Block unused("unused", "unused", region_.region_);
  const std::optional<int32_t> source = RecordingWriter(region_, block, recording, unused).source_of(owner.index);
  if (source) return {true, static_cast<size_t>(*source)};
  const size_t slot = *region_.frame_.slot_of(recording, recording.input_sources[static_cast<size_t>(owner.index)]);
  if (!types(block)[slot].is_array()) throw OtherTurn();
  return {false, slot};
}

TurnsAhead::Effects TurnsAhead::effects() const {
  Effects effects;
  const int32_t end = region_.code_.instructions[static_cast<size_t>(for_iter_)].target;
  const auto look_at = [&](int block, const Recording& recording) {
    const native::Meanings meanings(recording.graph, native::Reader::kLoop);
    const auto is_array = [&](const Operand& operand) { return meanings.meta(operand).kind == graph::Kind::kArray; };
    if (!appended_at(recording, static_cast<int32_t>(recording.graph.nodes.size())).empty()) throw OtherTurn();
    for (const Node& node : recording.graph.nodes) {
      const Operand* const operands = recording.graph.operands_of(node);
      if (node.form == Form::kSetItem) {
        if (is_array(operands[2])) throw OtherTurn();
        effects.stored.insert(array_of(block, recording, node));
      } else if (node.form == Form::kGetItem) {
        if (node.meta.kind == graph::Kind::kArray) array_of(block, recording, node);
      } else if (node.meta.kind == graph::Kind::kArray || is_draw(recording.graph, node)) {
        throw OtherTurn();
      }
    }
    const std::vector<uint32_t> initial = region_.frame_.initial(recording);
    for (size_t node = 0; node <= recording.graph.nodes.size(); node++) {
      const std::vector<uint32_t> slots = region_.frame_.values_at(recording, static_cast<int32_t>(node));
      for (size_t i = 0; i < std::min(slots.size(), region_.frame_.count()); i++) {
        if (slots[i] != initial[i]) effects.changed.insert(i);
      }
    }
  };
  for (const BlockOf& block : region_.blocks_) {
    if (block.state.instruction <= for_iter_ || block.state.instruction >= end) continue;
    for (const Recording* one : block.recordings) look_at(block.number, *one);
  }
  const auto is_changed = [&](const Array& array) { return !array.is_source && effects.changed.count(array.number) > 0; };
  if (std::any_of(effects.stored.begin(), effects.stored.end(), is_changed)) throw OtherTurn();
  return effects;
}

bool TurnsAhead::holds() const {
  try {
    return effects() == effects_;
  } catch (const OtherTurn&) {
    return false;
  }
}

// Of what is computed ahead.
std::set<TurnsAhead::Array> TurnsAhead::loaded() const {
  std::set<Array> arrays;
  std::vector<int> blocks = heads_;
  blocks.push_back(head_);
  for (const int block : blocks) {
    const Recording& turn = recording(block);
    const native::Meanings meanings(turn.graph, native::Reader::kLoop);
    for (const Node& node : turn.graph.nodes) {
      const bool is_of_array = node.form == Form::kGetItem && meanings.meta(turn.graph.operands_of(node)[0]).kind == graph::Kind::kArray;
      if (!is_of_array) continue;
      const Array array = array_of(block, turn, node);
      if (!stored_inside_.count(array)) arrays.insert(array);
    }
  }
  return arrays;
}

void TurnsAhead::find_stored_inside() {
  for (const int head : heads_) {
    const Recording& turn = recording(head);
    const graph::Graph& graph = turn.graph;
    const native::Meanings meanings(graph, native::Reader::kLoop);
    std::map<Array, const Node*> stores;
    for (const Node& node : graph.nodes) {
      if (node.form == Form::kSetItem && !stores.emplace(array_of(head, turn, node), &node).second) throw OtherTurn();
    }
    // Each turn goes on with what the one before has left, so that none of their results is lost, and reads nothing else of that array.
    std::vector<std::set<Array>> comes_of;  // by nodes
    for (const Node& node : graph.nodes) {
      const Operand* const operands = graph.operands_of(node);
      std::set<Array>& here = comes_of.emplace_back();
      for (const Operand* operand = operands; operand < operands + node.count; operand++) {
        if (operand->space != Operand::Space::kNode) continue;
        const std::set<Array>& before = comes_of[static_cast<size_t>(operand->index)];
        here.insert(before.begin(), before.end());
      }
      if (node.form != Form::kGetItem || meanings.meta(operands[0]).kind != graph::Kind::kArray) continue;
      const auto stored = stores.find(array_of(head, turn, node));
      if (stored == stores.end()) continue;
      if (node.meta.kind == graph::Kind::kArray || !are_same_place(graph, node, *stored->second)) throw OtherTurn();
      here.insert(stored->first);
    }
    for (const auto& [array, store] : stores) {
      const Operand value = graph.operands_of(*store)[2];
      if (value.space != Operand::Space::kNode || !comes_of[static_cast<size_t>(value.index)].count(array)) throw OtherTurn();
      stored_inside_.insert(array);
    }
  }
}

// Where the inner loop stores, what is around it has nothing to do with those arrays: it is done for all turns before, or behind them.
void TurnsAhead::check_apart_from_stored(int block) const {
  const Recording& turn = recording(block);
  const native::Meanings meanings(turn.graph, native::Reader::kLoop);
  for (const Node& node : turn.graph.nodes) {
    const bool is_of_array = node.form == Form::kSetItem || (node.form == Form::kGetItem && meanings.meta(turn.graph.operands_of(node)[0]).kind == graph::Kind::kArray);
    if (is_of_array && stored_inside_.count(array_of(block, turn, node))) throw OtherTurn();
  }
}

// What is in front of the inner loop, or in it, sets its variables in each turn.
bool TurnsAhead::carries(size_t slot) const { return part_ == Part::kInside || !set_.count(slot); }

bool TurnsAhead::is_fixed_slot(size_t slot) const { return slot < region_.frame_.count() && !effects_.changed.count(slot); }

Written TurnsAhead::slot_value(Emitter& emitter, int, size_t slot, const Type& type, const Term* item) const {
  const auto here = [&](Varies varies) {
    Written value = written(type, region_.read_slot(emitter, slot, type));
    value.varies = varies;
    return value;
  };
  const bool is_begin = part_ == Part::kBegin, is_inside = part_ == Part::kInside;
  if ((is_begin && slot == item_) || (is_inside && slot == item_ + 1)) {
    Written number = item ? written_int(*item) : here(Varies::kEvenly);
    number.varies = Varies::kEvenly;
    return number;
  }
  const auto begun = begun_.find(slot);
  if (!is_begin && inner_->is_fixed_slot(slot) && begun != begun_.end()) {
    Written value = item ? (*probed_)[slot].value : here(begun->second.varies);
    value.number.real.emitter = value.number.imag.emitter = &emitter;
    value.varies = begun->second.varies;
    return value;
  }
  if (is_fixed_slot(slot)) return here(Varies::kNot);
  // What another turn has left there isn't known ahead; behind the inner loops turns are done one behind the other.
  if (is_begin || (is_inside && !set_.count(slot)) || (!type.is_number() && type.kind != Kind::kUnread)) throw OtherTurn();
  if (!item) return here(Varies::kAnyhow);
  return written_zero(emitter, type);
}

// --- one turn of each ---------------------------------------------------------------------------------------------------

void TurnsAhead::stores(size_t slot, const std::string& variable, const std::string& type) {
  if (slot < region_.frame_.count() && (part_ == Part::kBegin || part_ == Part::kInside)) variables_[variable] = type;
}

// The blocks that turns of the inner loop begin with: one for each turn, and not more than two.
void TurnsAhead::find_inner(const Slots& slots) {
  State state{inner_for_iter_ + 1, {}};
  for (const Slot& slot : slots) state.types.push_back(slot.value.type);
  const auto found = region_.numbers_.find(region_.without_unread(state));
  if (found == region_.numbers_.end()) throw OtherTurn();
  constexpr size_t kMostHeads = 2;
  inner_ = std::make_unique<ManyTurns>(region_, found->second, kMostHeads, false);
  inner_->find_turns();
  heads_ = inner_->straight_heads();
  if (heads_.empty() || !inner_->step() || types(heads_[0]).size() != item_ + 2) throw OtherTurn();
}

std::string TurnsAhead::label_of(int block) {
  if (part_ != Part::kToEnd) return {};
  behind_ = block;
  return label("behind");
}

void TurnsAhead::end_turn(Block& block, int, Slots slots, int32_t instruction) {
  switch (part_) {
    case Part::kBegin: return end_beginning(block, std::move(slots), instruction);
    case Part::kInside:
      next_ = instruction == inner_for_iter_ ? inner_->next_head(slots) : std::nullopt;
      if (!next_) throw OtherTurn();
      region_.store_slots(block, slots, inner_->types(*next_));
      for (size_t i = 0; i < item_; i++) {
        if (!slots[i].kept) set_.insert(i);
      }
      return;
    case Part::kToEnd: ends_at_once_ = true; [[fallthrough]];
    case Part::kEnd:
      if (instruction != for_iter_ || slots.size() != item_ || !slots.back().kept) throw OtherTurn();
      for (size_t i = 0; i < item_; i++) {
        const Type &there = types(head_)[i], &type = slots[i].value.type;
        if (type != there && !(there.kind == Kind::kUnread && may_be_unread_number(type))) throw OtherTurn();
      }
      region_.store_slots(block, slots, types(head_));
  }
}

void TurnsAhead::end_beginning(Block& block, Slots slots, int32_t instruction) {
  if (slots.size() != item_ + 1 || slots.back().kept || slots.back().value.type.kind != Kind::kRangeIterator) throw OtherTurn();
  if (block.pass == Pass::kProbe) return void((begun_first_.empty() ? begun_first_ : begun_last_) = std::move(slots));
  inner_for_iter_ = instruction;
  for (size_t i = 0; i < item_; i++) {
    if (slots[i].kept) continue;
    if (!slots[i].value.type.is_number()) throw OtherTurn();
    begun_.emplace(i, slots[i].value);
    set_.insert(i);
  }
  Written iterator = slots.back().value;
  const std::vector<Written> items = next_items(block, iterator);
  Slots inside = std::move(slots);
  inside.back() = {false, iterator};
  push(inside, items[0]);
  find_inner(inside);
  region_.store_slots(block, inside, types(heads_[0]));
}

void TurnsAhead::write_part(Block& block, int number, const Term* item) {
  RecordingWriter writer(region_, number, recording(number), block);
  // What the beginning computes is computed once in each turn.
  if (part_ == Part::kBegin) {
    writer.watches([&block](const std::vector<Term>& results) {
      for (const Term& result : results) block.emitter.line("call void asm sideeffect \"\", \"x\"(" + result.type + " " + result.ref + ")");
    });
  }
  writer.write_turn(item, true);
  if (part_ == Part::kBegin && !block.stores.empty()) throw OtherTurn();
  if (part_ == Part::kInside && !item) put_into_variables(block);
  if (!item || part_ == Part::kBegin) writer.finish_turn();
}

// What is to be stored, by the inner loop.
void TurnsAhead::put_into_variables(Block& block) {
  const std::vector<Block::Store> stores = std::exchange(block.stores, {});
  in_variables_.clear();
  for (const Block::Store& store : stores) {
    const DType dtype = store.value.dtype;
    if (store.to || (dtype != DType::float64 && dtype != DType::float32)) throw OtherTurn();
    const size_t number = in_variables_.size();
    if (number == elements_.size()) {
      const std::string which = "element" + std::to_string(number);
      elements_.push_back({dtype, name(which), name(which + ".first"), name(which + ".step")});
      declare(elements_.back().first);
      declare(elements_.back().step);
      region_.variables_.insert(name(which) + " = alloca " + store.value.real.type);
      variables_[name(which)] = store.value.real.type;
    }
    if (elements_[number].dtype != dtype) throw OtherTurn();
    in_variables_.push_back(store.address.ref);
    regions::store(block.emitter, store.value.real, elements_[number].variable);
  }
}

std::string TurnsAhead::part_text(int number) {
  Block block(label("b" + std::to_string(number)), label("undo"), region_.region_);
  block.pass = Pass::kMany;
  block.failed = name("failed");
  write_part(block, number, nullptr);
  needed_ += block.emitter.needed();
  std::string text = block.emitter.text();
  if (part_ != Part::kBegin && !is_straight(text)) throw OtherTurn();
  if (part_ != Part::kInside) return text;
  if (in_variables_.size() != elements_.size()) throw OtherTurn();
  for (size_t i = 0; i < elements_.size(); i++) {
    const std::string place = ", ptr " + in_variables_[i] + ",";
    for (size_t at = text.find(place); at != std::string::npos; at = text.find(place, at)) text.replace(at, place.size(), ", ptr " + elements_[i].variable + ",");
  }
  return text;
}

// The number of the turn, and what is computed of it.
void TurnsAhead::find_even() {
  const Recording& begins = recording(head_);
  const std::vector<uint32_t> values = region_.frame_.values_at(begins, static_cast<int32_t>(begins.graph.nodes.size()));
  for (const auto& [slot, value] : begun_) {
    if (value.varies != Varies::kEvenly || types(heads_[0])[slot].kind != Kind::kInt || !inner_->is_fixed_slot(slot)) continue;
    const recorder::Value& there = begins.values[values[slot]];
    const bool is_item = there.kind == recorder::Value::Kind::kSource && region_.frame_.slot_of(begins, there.a) == item_;
    const std::string first = name("first" + std::to_string(slot)), step = name("step" + std::to_string(slot));
    declare(first);
    if (!is_item) declare(step);
    even_[region_.variable(slot, 0, "i64")] = {slot, is_item, first, step};
  }
}

// Whether the elements that turns read and store at once stand one beside the other, or are the same: only the last index is another in each.
bool TurnsAhead::goes_beside(int block) const {
  const Recording& turn = recording(block);
  const graph::Graph& graph = turn.graph;
  std::vector<bool> varies;
  const auto of = [&](const Operand& operand) {
    if (operand.space == Operand::Space::kNode) return static_cast<bool>(varies[static_cast<size_t>(operand.index)]);
    if (operand.space != Operand::Space::kInput) return false;
    const std::optional<size_t> slot = region_.frame_.slot_of(turn, turn.input_sources[static_cast<size_t>(operand.index)]);
    return slot && begun_.count(*slot) && begun_.at(*slot).varies != Varies::kNot && inner_->is_fixed_slot(*slot);
  };
  const native::Meanings meanings(graph, native::Reader::kLoop);
  for (const Node& node : graph.nodes) {
    const Operand* const operands = graph.operands_of(node);
    varies.push_back(std::any_of(operands, operands + node.count, of));
    const bool is_element = node.form == Form::kSetItem || (node.form == Form::kGetItem && meanings.meta(operands[0]).kind == graph::Kind::kArray);
    if (!is_element || !varies.back() || stored_inside_.count(array_of(block, turn, node))) continue;
    const Node* const index = operands[1].space == Operand::Space::kNode ? &graph.nodes[static_cast<size_t>(operands[1].index)] : nullptr;
    const bool is_tuple = index && index->form == Form::kTuple;
    const Operand* const first = is_tuple ? graph.operands_of(*index) : operands + 1;
    const Operand* const last = first + (is_tuple ? index->count : 1) - 1;
    if (of(operands[0]) || node.meta.kind == graph::Kind::kArray || std::any_of(first, last, of)) return false;
  }
  return true;
}

// --- where it is in range -----------------------------------------------------------------------------------------------

// Of what varies evenly in both loops.
void TurnsAhead::write_probes(Block& block, const Term& first, const Term& last) {
  block.pass = Pass::kProbe;
  Emitter& emitter = block.emitter;
  std::vector<Term> range;
  const auto number_of = [&](size_t slot) { return (*probed_)[slot].value.number.real; };
  std::map<size_t, Term> firsts;
  for (const Term* const item : {&first, &last}) {
    part_ = Part::kBegin;
    write_part(block, head_, item);
    part_ = Part::kInside;
    probed_ = item == &first ? &begun_first_ : &begun_last_;
    for (const auto& [variable, even] : even_) {
      if (range.empty()) {
        firsts[even.slot] = number_of(even.slot);
        store(emitter, number_of(even.slot), even.first);
      } else if (!even.is_item) {
        // From the first to the last one it may be more than 63 bits, which a division would take for something else.
        store(emitter, (number_of(even.slot) - firsts.at(even.slot)) * emitter.integer("i64", static_cast<int64_t>(kPartOfWay)), even.step);
      }
    }
    const std::vector<Term>& words = probed_->back().value.words;
    if (range.empty()) {
      range = words;
      block.require(compare("eq", range[1], inner_step_));
      block.require(compare("sge", range[2], 1) & compare("sle", range[2], kMostInnerTurns));
    } else {
      block.require(compare("eq", range[0], words[0]) & compare("eq", range[1], words[1]) & compare("eq", range[2], words[2]));
    }
    const Term last_inside = range[0] + (range[2] - 1.0) * emitter.integer("i64", inner_step_);
    size_t number = 0;
    for (const int head : heads_) {
      std::vector<Block::Store> corners[2];
      for (const int at : {0, 1}) {
        write_part(block, head, at ? &last_inside : &range[0]);
        corners[at] = std::exchange(block.stores, {});
      }
      for (size_t i = 0; i < corners[0].size(); i++, number++) {
        const Block::Store& store = corners[0][i];
        if (store.varies == Varies::kAnyhow || store.to) throw OtherTurn();
        block.require(compare("eq", store.address, corners[1][i].address));
        if (item == &first) stores_inside_.emplace_back(store, store.address);
        else stores_inside_[number].second = store.address;
      }
    }
  }
  // Another element in each turn, of all the heads the same ones.
  for (size_t i = 0; i < stores_inside_.size(); i++) {
    const auto& [stored, last_address] = stores_inside_[i];
    const Element& element = elements_[i % elements_.size()];
    const Term from = native::convert("ptrtoint", stored.address, "i64"), way = native::convert("ptrtoint", last_address, "i64") - from;
    const int64_t least = (kLanes - 1) * graph::size_of(element.dtype);
    block.require(compare("sge", way, least) | compare("sle", way, -least));
    if (i < elements_.size()) {
      store(emitter, from, element.first);
      store(emitter, binary("sdiv", way, emitter.integer("i64", kLanes - 1)), element.step);
    } else {
      const auto& [same, same_last] = stores_inside_[i % elements_.size()];
      block.require(compare("eq", stored.address, same.address) & compare("eq", last_address, same_last));
    }
  }
  store(emitter, range[0], name("first"));
  store(emitter, range[2], name("count"));
}

// What is stored isn't what is read ahead.
void TurnsAhead::require_apart(Block& block) {
  const auto array = [&](const Array& of) {
    const Type& type = of.is_source ? region_.region_.sources[of.number] : types(head_)[of.number];
    std::vector<Term> words;
    if (!of.is_source) words = region_.read_slot(block.emitter, of.number, type);
    for (const std::string& word : of.is_source ? words_of(type) : std::vector<std::string>()) words.push_back({&block.emitter, word, RegionWriter::source_word(static_cast<int32_t>(of.number), words.size())});
    return extent(block, strided(block, written(type, std::move(words))));
  };
  const auto require = [&](const Array& one, const Array& stored) {
    const auto [first, last] = array(one);
    const auto [other_first, other_last] = array(stored);
    block.require(compare("ule", last, other_first) | compare("ule", other_last, first));
  };
  for (const Array& stored : effects_.stored) {
    for (const Array& read : loaded()) {
      if (read == stored) throw OtherTurn();
      require(read, stored);
    }
    for (const Array& inside : stored_inside_) {
      if (inside != stored && (inside < stored || !stored_inside_.count(stored))) require(inside, stored);
    }
  }
}

// --- the code -----------------------------------------------------------------------------------------------------------

std::string TurnsAhead::piece(const std::function<void(Emitter&)>& write) {
  Emitter emitter(false, "%" + label("c" + std::to_string(pieces_++)) + ".");
  write(emitter);
  needed_ += emitter.needed();
  return emitter.text();
}

// Between the variables and an array of what each lane has of them.
void TurnsAhead::copy_variables(Emitter& emitter, const std::string& array, bool loads) {
  const Term lane = load(emitter, "i64", name("lane"));
  for (const auto& [variable, even] : even_) {
    if (loads) store(emitter, load(emitter, "i64", even.first) + lane * (even.is_item ? emitter.integer("i64", step_) : load(emitter, "i64", even.step)), variable);
  }
  for (const auto& [variable, type] : variables_) {
    if (even_.count(variable)) continue;
    const std::string lanes = name(array + "." + variable.substr(1)), of_lanes = "[" + std::to_string(kLanes) + " x " + type + "]";
    region_.variables_.insert(lanes + " = alloca " + of_lanes + ", align 64");
    const std::string at = emitter.let("ptr", "getelementptr " + of_lanes + ", ptr " + lanes + ", i64 0, i64 " + lane.ref).ref;
    store(emitter, load(emitter, type, loads ? at : variable), loads ? variable : at);
  }
}

// Of a lane's. Conditions that a sum has met are told whether or not anything comes of it.
void TurnsAhead::compute_sums(Emitter& emitter) {
  for (const std::string& variable : sums_) {
    const std::string& type = variables_.at(variable);
    emitter.line("call void asm sideeffect \"\", \"x\"(" + type + " " + load(emitter, type, variable).ref + ")");
  }
}

// Of a lane's.
std::string TurnsAhead::address_of(Emitter& emitter, const Element& element) {
  const Term at = load(emitter, "i64", element.first) + load(emitter, "i64", name("lane")) * load(emitter, "i64", element.step);
  return native::convert("inttoptr", at, "ptr").ref;
}

// LLVM would unroll the loop before it looks for vectors; what is left of it then is to be unrolled.
std::string TurnsAhead::vector_hint(int block) {
  return goes_beside(block) ? region_.loop_hint(R"(!{!"llvm.loop.unroll.disable"}, !{!"llvm.loop.vectorize.followup_vectorized", !{!"llvm.loop.unroll.full"}})") : std::string();
}

// The text lane by lane, and then the label.
std::string TurnsAhead::for_each_lane(const std::string& named, const std::string& text, const std::string& behind, const std::string& hint) {
  const std::string here = label(named);
  const auto begins = [&](Emitter& emitter) {
    store(emitter, emitter.integer("i64", 0), name("lane"));
    emitter.line("br label %" + here);
    emitter.label(here);
  };
  const auto ends = [&](Emitter& emitter) {
    const Term next = load(emitter, "i64", name("lane")) + 1.0;
    store(emitter, next, name("lane"));
    emitter.line("br i1 " + compare("ult", next, kLanes).ref + ", label %" + here + ", label %" + label(behind) + hint);
    emitter.label(label(behind));
  };
  return piece(begins) + text + piece(ends);
}

// Whether each turn's inner range is that of the first one.
void TurnsAhead::expect_same_range(Emitter& emitter, const Term& first, const Term& count) {
  const std::vector<Term> range = region_.read_slot(emitter, item_, {Kind::kRangeIterator});
  const Term next = in(emitter, first) + static_cast<double>(inner_step_), left = in(emitter, count) - 1.0;
  const Term is_same = compare("eq", range[0], next) & compare("eq", range[1], inner_step_) & compare("eq", range[2], left);
  store(emitter, load(emitter, "i1", name("failed")) | !is_same, name("failed"));
}

std::string TurnsAhead::inner_text(const std::vector<std::string>& turns) {
  const std::string inner_item = region_.written_variable(item_ + 1, 0, "i64");
  std::string text = "  br label %" + label("h0") + "\n";
  for (size_t i = 0; i < heads_.size(); i++) {
    const auto begins = [&](Emitter& emitter) {
      copy_variables(emitter, "sums", true);
      store(emitter, load(emitter, "i64", name("item")), inner_item);
    };
    const auto ends = [&](Emitter& emitter) { copy_variables(emitter, "sums", false); };
    const auto goes_on = [&](Emitter& emitter) {
      store(emitter, load(emitter, "i64", name("item")) + static_cast<double>(inner_step_), name("item"));
      const Term left = load(emitter, "i64", name("turns")) - 1.0;
      store(emitter, left, name("turns"));
      emitter.line("br i1 " + compare("ne", left, 0).ref + ", label %" + label("h" + std::to_string(heads_.size() - 1)) + ", label %" + label("done"));
    };
    const std::string number = std::to_string(i);
    text += label("h" + number) + ":\n" + for_each_lane("lanes" + number, piece(begins) + turns[i] + piece(ends), "h" + number + ".end", vector_hint(heads_[i])) + piece(goes_on);
  }
  return text;
}

// Behind the inner loop.
Slots TurnsAhead::slots_behind(Emitter& emitter) {
  Slots slots = inner_->slots_behind(emitter, heads_.size() - 1);
  slots.pop_back();
  return slots;
}

// Out of the code, to where the interpreter would come from that instruction.
std::string TurnsAhead::leading_on(const std::string& named, const std::function<Slots(Emitter&)>& write, int32_t instruction) {
  Block block(label(named), "rollback", region_.region_);
  Slots slots = write(block.emitter);
  region_.many_ = nullptr;
  region_.go_on(block, head_, std::move(slots), instruction, false);
  region_.many_ = this;
  needed_ += block.emitter.needed();
  return block.emitter.text();
}

// A turn whose inner loop was done ahead: its variables, and what is behind that loop.
std::string TurnsAhead::take_text() {
  const auto begins = [&](Emitter& emitter) {
    emitter.label(label("take"));
    const Term left = load(emitter, "i64", name("left"));
    store(emitter, kLanes - left, name("lane"));
    store(emitter, left - 1.0, name("left"));
    store(emitter, load(emitter, "i64", name("next")) + static_cast<double>(step_), name("next"));
    store(emitter, load(emitter, "i64", "%turns") + load(emitter, "i64", name("count")), "%turns");
    copy_variables(emitter, "kept", true);
  };
  return piece(begins) + leading_on("t", [&](Emitter& emitter) { return slots_behind(emitter); }, region_.behind_loop(inner_for_iter_));
}

// Where what is behind the inner loop is one block, it is done for all lanes, one behind the other; first of all what it stores is logged.
std::string TurnsAhead::whole_text(const Term& item, const std::vector<Term>& range, const Term& count) {
  Block way(label("w"), "rollback", region_.region_);
  part_ = Part::kToEnd;
  region_.go_on(way, head_, slots_behind(way.emitter), region_.behind_loop(inner_for_iter_), false);
  part_ = Part::kEnd;
  if (behind_ < 0 && !ends_at_once_) throw OtherTurn();
  if (!stored_inside_.empty() && behind_ >= 0) check_apart_from_stored(behind_);
  const std::string end = ends_at_once_ ? std::string() : label("behind") + ":\n" + part_text(behind_);

  Block probe(label("q"), stored_inside_.empty() ? label("ahead") : label("undo"), region_.region_);
  probe.pass = Pass::kProbe;
  std::vector<std::pair<Block::Store, Term>> evenly;
  for (const Slots* const begun : {&begun_first_, &begun_last_}) {
    if (ends_at_once_) break;
    probed_ = begun;
    write_part(probe, behind_, &item);
    const std::vector<Block::Store> stores = std::exchange(probe.stores, {});
    for (size_t i = 0; i < stores.size(); i++) {
      if (stores[i].varies == Varies::kAnyhow || stores[i].to) throw OtherTurn();
      if (begun == &begun_first_) evenly.emplace_back(stores[i], stores[i].address);
      else evenly[i].second = stores[i].address;
    }
  }
  for (size_t i = 0; i < elements_.size(); i++) {
    auto [stored, last_address] = stores_inside_[i];
    stored.address = in(probe.emitter, stored.address);
    evenly.emplace_back(stored, in(probe.emitter, last_address));
  }
  log_stores(probe, evenly, probe.emitter.integer("i64", kLanes));
  needed_ += probe.emitter.needed() + way.emitter.needed();

  const std::string begins = piece([&](Emitter& emitter) {
    copy_variables(emitter, "kept", true);
    for (const Element& element : elements_) {
      const Term value = load(emitter, native::register_type(element.dtype), element.variable);
      native::store_element(emitter, native::exact(element.dtype, value), address_of(emitter, element), "");
    }
  });
  const std::string turns = for_each_lane("whole", begins + way.emitter.text() + end, "whole.end", ends_at_once_ ? std::string() : vector_hint(behind_));
  // What is behind the inner loop may have come to something that isn't as expected.
  const auto all_done = [&](Emitter& emitter) {
    emitter.line("br i1 " + load(emitter, "i1", name("failed")).ref + ", label %rollback, label %" + label("stands"));
    emitter.label(label("stands"));
    region_.set_range(emitter, item_ - 1, in(emitter, item) + static_cast<double>(kLanes * step_), in(emitter, range[2]) - static_cast<double>(kLanes - 1));
    store(emitter, load(emitter, "i64", "%turns") + in(emitter, count) * emitter.integer("i64", kLanes) + static_cast<double>(kLanes - 1), "%turns");
    Slots slots;
    for (size_t i = 0; i < item_; i++) slots.push_back({true, {.type = types(head_)[i]}});
    return slots;
  };
  return probe.emitter.text() + turns + leading_on("f", all_done, for_iter_);
}

std::string TurnsAhead::write(const std::string& slow) {
  const std::vector<Type>& here = types(head_);
  const bool is_of_range = here.size() >= 2 && here.back().kind == Kind::kInt && here[here.size() - 2].kind == Kind::kRangeIterator;
  const std::optional<int64_t> step = is_of_range && for_iter_ >= 0 && region_.has_inner_loop(for_iter_) ? known_step(region_.code_, for_iter_) : std::nullopt;
  if (!step) throw OtherTurn();
  step_ = *step;
  effects_ = effects();
  const std::string begins = part_text(head_);
  inner_step_ = *inner_->step();
  find_even();
  part_ = Part::kInside;
  const std::map<std::string, std::string> begun = std::exchange(variables_, {});
  std::vector<std::string> turns;
  for (const int head : heads_) {
    turns.push_back(part_text(head));
    if (*next_ + 1 != heads_.size()) throw OtherTurn();
  }
  find_stored_inside();
  if (!stored_inside_.empty()) check_apart_from_stored(head_);
  for (const auto& [variable, type] : variables_) {
    if (type == "double" || type == "float") sums_.insert(variable);
  }
  if (sums_.empty()) throw OtherTurn();
  variables_.insert(begun.begin(), begun.end());

  for (const char* const variable : {"next", "entered", "count", "first", "lane", "turns", "item"}) declare(name(variable));
  declare(name("left"), "0");
  declare(name("tried"), "-1");
  region_.variables_.insert(name("failed") + " = alloca i1");

  Block block(label("p"), slow, region_.region_);
  Emitter& emitter = block.emitter;
  const Term item = region_.read_slot(emitter, item_, {Kind::kInt})[0], entered = load(emitter, "i64", region_.entries_of_loop(for_iter_ + 1));
  // Whether it was done for this turn, or is to be tried.
  if (stored_inside_.empty()) {
    const Term is_there = compare("sgt", load(emitter, "i64", name("left")), 0) & compare("eq", load(emitter, "i64", name("entered")), entered) & compare("eq", load(emitter, "i64", name("next")), item);
    emitter.line("br i1 " + is_there.ref + ", label %" + label("take") + ", label %" + label("tries"));
    emitter.label(label("tries"));
    store(emitter, emitter.integer("i64", 0), name("left"));
  }
  block.pass = Pass::kProbe;
  block.require(compare("ne", load(emitter, "i64", name("tried")), entered));
  const std::vector<Term> range = region_.read_slot(emitter, item_ - 1, {Kind::kRangeIterator});
  block.require(compare("sge", range[2] + 1.0, kLanes) & compare("eq", range[1], step_));
  block.require(compare("sge", load(emitter, "i64", Block::kDue) - load(emitter, "i64", "%turns"), kLanes));
  block.leave_for(label("fails"));
  write_probes(block, item, item + static_cast<double>((kLanes - 1) * step_));
  require_apart(block);
  std::map<std::string, Term> before;
  for (const auto& [variable, type] : variables_) before.emplace(variable, load(emitter, type, variable));
  const std::string outer_item = region_.written_variable(item_, 0, "i64");
  before.emplace(outer_item, item);
  const Term first = load(emitter, "i64", name("first")), count = load(emitter, "i64", name("count"));
  store(emitter, emitter.integer("i1", 0), name("failed"));
  store(emitter, count, name("turns"));
  store(emitter, first, name("item"));
  needed_ += emitter.needed();

  const auto begins_turn = [&](Emitter& at) { store(at, in(at, item) + load(at, "i64", name("lane")) * at.integer("i64", step_), outer_item); };
  const auto ends_beginning = [&](Emitter& at) {
    expect_same_range(at, first, count);
    for (const Element& element : elements_) store(at, native::load_element(at, element.dtype, address_of(at, element), "").real, element.variable);
    copy_variables(at, "sums", false);
  };
  const auto keeps = [&](Emitter& at) {
    copy_variables(at, "sums", true);
    compute_sums(at);
    copy_variables(at, "kept", false);
  };
  const auto looks = [&](Emitter& at) {
    at.line("br i1 " + load(at, "i1", name("failed")).ref + ", label %" + label("undo") + ", label %" + label("sound"));
    at.label(label("undo"));
    for (const auto& [variable, value] : before) store(at, value, variable);
    at.line("br label %" + label("fails"));
    at.label(label("fails"));
    store(at, entered, name("tried"));
    at.line("br label %" + slow);
    at.label(label("sound"));
  };
  const auto is_done = [&](Emitter& at) {
    at.label(label("ahead"));
    store(at, at.integer("i64", kLanes), name("left"));
    store(at, item, name("next"));
    store(at, entered, name("entered"));
    at.line("br label %" + label("take"));
  };
  std::string text = emitter.text() + for_each_lane("begins", piece(begins_turn) + begins + piece(ends_beginning), "begun") + inner_text(turns) + label("done") + ":\n" +
                     for_each_lane("keeps", piece(keeps), "kept") + piece(looks);
  std::string whole;
  try {
    whole = whole_text(item, range, count);
  } catch (const OtherTurn&) {
  } catch (const Unsupported&) {
  }
  if (whole.empty() && !stored_inside_.empty()) throw OtherTurn();
  text += whole.empty() ? "  br label %" + label("ahead") + "\n" : whole;
  return stored_inside_.empty() ? text + piece(is_done) + take_text() : text;
}

}  // namespace evalframe::regions
