// Many turns of an inner loop over a range at once, without looking at anything between them.
//
// Indices that vary evenly from turn to turn are in range in all turns if they are in the first and in the last one: the turn is
// written for these two, of which nothing is left but the checks. What is stored evenly is logged beforehand. Whatever else goes
// wrong leads back to the loop's last checkpoint, from where the turns are done one by one. So the turns themselves are plain code,
// which LLVM can put into vectors.
#pragma once

#include <map>
#include <optional>
#include <set>

#include "regions/writer.h"

namespace evalframe::regions {

class ManyTurns {
 public:
  // head: the block that a turn begins with.
  ManyTurns(RegionWriter& region, int head);
  // The code, which begins at the head and goes to the label where there aren't so many turns. Throws Unsupported; OtherTurn where
  // it is no inner loop over a range.
  std::string write(const std::string& slow);
  std::string needed() const { return needed_; }

  struct OtherTurn {};

  // What the slot has at the beginning of a block. item: the number of the turn, in the first or the last one.
  Written slot_value(Emitter& emitter, int block, size_t slot, const Type& type, const Term* item) const;
  // The block's label, if it belongs to the turn and is entered from the other one.
  std::string label_of(int block) const { return blocks_.count(block) ? "many" + std::to_string(head_) + ".b" + std::to_string(block) : std::string(); }
  bool is_head(int block) const { return block == head_; }
  int32_t for_iter() const { return for_iter_; }
  // Of the head's slots.
  const std::vector<Type>& types() const { return region_.blocks_[static_cast<size_t>(head_)].state.types; }
  size_t iterator() const { return item_ - 1; }
  // Whether a turn that ends so has one like it behind it.
  bool goes_round(const Slots& slots);
  std::string next() const { return prefix() + ".next"; }
  // In front of what follows where the turns end.
  void leave(Emitter& emitter);
  // Whether it has the same in all turns.
  bool is_fixed_slot(size_t slot) const { return slot < item_ && !changed_.count(slot); }

 private:
  std::string prefix() const { return "many" + std::to_string(head_); }
  std::string to_do() const { return "%" + prefix() + ".left"; }
  std::string failed() const { return "%" + prefix() + ".failed"; }
  std::string item() const { return "%" + prefix() + ".item"; }
  void find_step();
  Term step(Emitter& emitter, const std::vector<Term>& range) const;
  // How many turns are tried at first, and then all but the last one; where these fail, too, it is `slow`.
  Term count_to_probe(Block& block, const Term& most, const std::string& slow);
  void find_blocks();
  void find_carriers();
  void write_probes(Block& block, const Term& first, const Term& last, const Term& count);
  void write_turn(int number);
  void write_next();
  void take(const Block& block);
  void compute(Block& block, const std::vector<Term>& results);

  RegionWriter& region_;
  const int head_;
  const int32_t for_iter_;
  const size_t item_;                            // the slot
  std::optional<int64_t> step_;                  // of the range; none: any
  std::set<int> blocks_;
  std::map<int, std::set<size_t>> carriers_;     // by blocks: slots that have the number of the turn
  std::set<size_t> changed_;
  std::vector<Type> ends_;                       // of the slots behind turns that have one behind them; empty: there was none, yet
  int ways_out_ = 0;
  std::string text_, needed_;
};

}  // namespace evalframe::regions
