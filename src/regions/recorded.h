// What one recording does, as a block of a native loop.
#pragma once

#include <map>
#include <optional>
#include <set>

#include "backends/native/meaning/meaning.h"
#include "regions/array_node.h"
#include "regions/calls.h"
#include "regions/writer.h"

namespace evalframe::regions {

// Asks that nodes be left to NumPy.
struct AsObjectCall {
  std::set<int32_t> nodes;
};

// Writes what a recording does in a state. Throws Unsupported, and AsObjectCall.
class RecordingWriter {
 public:
  // calls: nodes that are left to NumPy.
  RecordingWriter(RegionWriter& region, int number, const recorder::Recording& recording, Block& block, const std::set<int32_t>& calls = {})
      : region_(region), state_(region.blocks_[number].state), number_(number), recording_(recording), meanings_(recording.graph, native::Reader::kLoop), block_(block), calls_(calls) {}
  // otherwise: the label for where another recording has to be looked for.
  void write(const std::string& otherwise);
  // The instruction of the loop's frame that it has come to.
  int32_t at() const;
  // Of many turns: what is done in one, with nothing kept yet. item: its number, else what the slots have. otherwise: the label for
  // where it is another recording's.
  void write_turn(const Term* item, bool is_head, const std::string& otherwise = {});
  // Nodes that have loaded elements at addresses that vary evenly, or not at all, in the order of these loads.
  const std::vector<int32_t>& even_loads() const { return even_loads_; }
  // ... and what is kept, and where that leads.
  void finish_turn() { finish(state_at(count()), instruction_at(count()), true); }
  // Is called with what has to be computed in each turn, so that what is watched is. Else whatever is has to be needed in each turn.
  void watches(std::function<void(const std::vector<Term>&)> then) { watches_ = std::move(then); }
  // Makes what it asks for the region's; the conditions on slots are the block's.
  void check_guards();
  // The number that the region has for an input that is in none of its variables; none: it is in one.
  std::optional<int32_t> source_of(int32_t input);
  // The variable that the recording's source is.
  std::optional<size_t> slot_of(int32_t source) const { return region_.frame_.slot_of(recording_, source); }

 private:
  std::vector<Term> needed_for(const std::map<int32_t, std::vector<Term>>& watched) const;
  void check_recording() const;
  bool is_typed(std::optional<size_t> slot) const { return slot && state_.types[*slot].kind != Type::Kind::kObject; }
  bool is_checked_here(int32_t source, const guards::Fact& fact) const;
  void check_slot(size_t slot, const guards::Fact& fact);
  // A number of a tuple in a slot; none: another source.
  std::optional<Written> part_of_tuple(int32_t source);
  void check_part(const Written& part, const guards::Fact& fact);
  void require_same(const Written& here, const Written& there);
  void check_identity(int32_t source, const guards::Fact& fact);
  Written array_of(int32_t source);
  void require(const Term& condition) { conditions_.push_back(condition); }
  int32_t merged(int32_t source);
  int32_t count() const { return static_cast<int32_t>(recording_.graph.nodes.size()); }
  Written read_source(int32_t source);
  Written slot_value(size_t slot);
  Written constant(PyObject* object);
  Written operand(graph::Operand operand);
  Written landed(const Written& node);
  Written value(uint32_t index);
  Written made(const recorder::Container& call);
  void write_node(int32_t index);
  Written result_of(int32_t index, const graph::Node& node);
  Written write_object_call(int32_t index);
  Written write_draw(int32_t index);
  std::string memory_of(const Written& array);
  ArrayNodes array_nodes(int32_t index);
  Written node_value(const graph::Node& node);
  void write_check(int32_t index, const graph::Node& node);
  std::optional<Choice> choice_of(const graph::Node& node);
  Written write_choice(int32_t index, const Choice& choice, const graph::Node& node);
  void go_on_beside(const Term& holds, Slots slots, int32_t instruction, bool must_run);
  void finish(Slots slots, int32_t instruction, bool must_run);
  void return_results();
  bool end_turn(int32_t index);
  void find_uses();
  // keeps: what is to be stored is stored at once.
  void settle(int32_t next, bool keeps = false);
  void commit(int32_t next);
  void commit(int32_t instruction, const Slots& there);
  void leave_behind(int32_t instruction, const Slots& there);
  void commit_behind(int32_t index);
  void commit_done(int32_t index);
  // Whether a node from this one on reads more of an array than an element, or any element behind a store of more.
  bool reads_arrays_from(int32_t index) const { return last_array_read_ >= index || (block_.stores_arrays() && last_element_read_ >= index); }
  void find_reads();
  std::set<int32_t> calls_like(int32_t index) const;
  bool grows_lists_behind() const { return appended_in_all_ > appended_; }
  void append(int32_t node);
  void check_lists();
  bool is_of_tuple(int32_t source) const;
  // without: so many of the top of the stack.
  Slots state_at(int32_t node, size_t without = 0);
  void check_lost(const Slots& slots);
  int32_t instruction_at(int32_t node) const { return recording_.marks[node].instruction; }
  // Whether the node is an inlined call's.
  bool is_inlined(int32_t node) const {
    const graph::Graph& graph = recording_.graph;
    return graph.frames[static_cast<size_t>(graph.nodes[static_cast<size_t>(node)].origin.frame)].parent >= 0;
  }
  // Of the loop's frame; one that does nothing where the node is an inlined call's.
  const bytecode::Instruction& own_instruction(int32_t node) const;

  RegionWriter& region_;
  const State state_;
  const int number_;
  const recorder::Recording& recording_;
  const native::Meanings meanings_;
  Block& block_;
  const std::set<int32_t> calls_;
  bool checks_ = true;  // no node has been come to
  std::vector<Term> conditions_;
  std::vector<Written> nodes_;
  std::vector<int32_t> last_needed_;  // for each node: the last one that takes it, or before which a slot has it
  std::vector<int> takers_;           // how many nodes take it
  std::map<int32_t, int32_t> merged_;
  std::map<size_t, Written> slots_;
  const Term* item_ = nullptr;
  std::function<void(const std::vector<Term>&)> watches_;
  std::vector<int32_t> even_loads_;
  size_t appended_ = 0, appended_in_all_ = 0;  // so much of what lists get is in them, and will be
  int32_t last_array_read_ = -1, last_element_read_ = -1;
};

}  // namespace evalframe::regions
