// Many turns of an inner loop over a range at once, without looking at anything between them.
//
// Indices that vary evenly from turn to turn are in range in all turns if they are in the first and in the last one: the turn is
// written for these two, of which nothing is left but the checks. What is stored evenly is logged beforehand. Whatever else goes
// wrong leads back to the loop's last checkpoint, from where the turns are done one by one. So the turns themselves are plain code,
// which LLVM can put into vectors.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "regions/carried.h"
#include "regions/turns.h"

namespace evalframe::regions {

class ManyTurns : public Turns {
 public:
  // head: the block that the first turn begins with. Later ones may begin with others, which are for other types of variables (a sum is Python's
  // 0.0 in the first turn, and a number of NumPy's from then on); most_heads: with so many in all. shares_quotients: turns for which the
  // quotients of numbers that vary evenly are the same.
  ManyTurns(RegionWriter& region, int head, size_t most_heads, bool shares_quotients);
  // The code, which begins at the head and goes to the label where there aren't so many turns. Throws Unsupported; OtherTurn where
  // it is no inner loop over a range.
  std::string write(const std::string& slow) override;
  // Finds what a turn is; throws the same. Comes before what follows.
  void find_turns();
  // Whether there are such quotients.
  bool divides() const { return divides_; }

  // item: the number of the turn, in the first or the last one.
  Written slot_value(Emitter& emitter, int block, size_t slot, const Type& type, const Term* item) const override;
  std::string label_of(int block) override { return blocks_.count(block) ? prefix() + ".b" + std::to_string(block) : std::string(); }
  bool is_head(int block) const override;
  int32_t for_iter() const { return for_iter_; }
  // Of the range; none: any.
  std::optional<int64_t> step() const { return step_; }
  Term step(Emitter& emitter, const std::vector<Term>& range) const;
  // How many turns there are until something is looked at, or the range ends; leaves where that has another step.
  Term turns_ahead(Block& block, const std::vector<Term>& range) const;
  // The blocks of turns that have one each: that of the first turn, if later ones begin with another, and that of these. Empty: there are other ways.
  std::vector<int> straight_heads() const;
  // The slots behind turns that one with this head follows, by number; the iterator is the last of them.
  Slots slots_behind(Emitter& emitter, size_t head) const;
  size_t iterator() const { return item_ - 1; }
  // The head that the turn behind one that ends so begins with, by number; none: the turns end.
  std::optional<size_t> next_head(const Slots& slots);
  // Of the head's slots.
  const std::vector<Type>& types(size_t head) const { return region_.blocks_[static_cast<size_t>(heads_[head].block)].state.types; }
  // The label where a turn ends that one with this head follows.
  std::string next(size_t head) const { return prefix() + ".next" + std::to_string(head); }
  void leave(Emitter& emitter) override;
  bool is_fixed_slot(size_t slot) const override { return slot < item_ && !changed_.count(slot); }
  void end_turn(Block& block, int number, Slots slots, int32_t instruction) override;

 private:
  struct Head {
    int block;
    std::set<int> blocks = {};     // of a turn that begins with it
    std::set<int> behind = {};     // heads of turns behind it
    std::vector<Type> ends = {};   // of the slots behind turns that one with this head follows; empty: there was none, yet
  };
  std::string prefix() const { return (shares_quotients_ ? "whole" : "many") + std::to_string(head_); }
  // See Block::quotients; of one of the block's recordings.
  std::string quotients(int block, size_t recording) const;
  std::string to_do() const { return "%" + prefix() + ".left"; }
  std::string failed() const { return "%" + prefix() + ".failed"; }
  std::string arrays_are_logged() const { return "%" + prefix() + ".logged"; }
  std::string item() const { return "%" + prefix() + ".item"; }
  // How many turns are tried at first, and then all but the last one; where these fail, too, it is `slow`.
  Term count_to_probe(Block& block, const Term& most, const std::string& slow, const std::string& fewer);
  void find_blocks();
  void find_blocks(Head& head);
  bool is_repeated(int head) const;
  void find_carriers();
  void check_fixed_slots() const;
  // Of a block's recording: kept for the turns, and the same in the first and in the last one.
  void share(Block& block, const std::vector<Block::Quotient>& at_first, const std::vector<Block::Quotient>& at_last, const std::string& fewer, const Term& count);
  void write_probes(Block& block, const Term& first, const std::string& slow, const Term& last, const std::string& fewer, const Term& count);
  // Arrays of which the turns store elements anywhere are logged as a whole, where that is less to do.
  void log_arrays(Block& block, const std::vector<Block::Store>& anywhere, const Term& count);
  void find_carried();
  std::string carried(const char* name) const { return "%" + prefix() + ".carried." + name; }
  // Into that variable the element at the address.
  void load_carried(Emitter& emitter, const Term& address, const char* name);
  // In each turn what it would leave to the next one if it stored nothing.
  void keep_carried(int head);
  void write_turn(int number);
  // Blocks in front of which no turn stores anything, without heads.
  std::set<int> before_stores() const;
  // What those have to load, where a turn with this head begins.
  void load_ahead(int head);
  void load_for(int head, int number, size_t recording);
  std::string loaded(int block, size_t recording) const { return "%" + prefix() + ".b" + std::to_string(block) + "r" + std::to_string(recording) + ".element"; }
  void write_next(size_t head);
  void take(const Block& block);
  // For results that may be all that comes of an operation.
  using Watches = std::function<void(const std::vector<Term>& results)>;
  Watches watches_in(int number, Block& block);
  void compute(Block& block, const std::vector<Term>& results);
  // Of all that has to be computed so far, in this turn, too.
  Term bits(Emitter& emitter) const;

  RegionWriter& region_;
  const int head_;
  const int32_t for_iter_;
  const size_t item_;                            // the slot
  const size_t most_heads_;
  const bool shares_quotients_;
  std::vector<Head> heads_;
  std::optional<int64_t> step_;                  // of the range; none: any
  std::set<int> blocks_;
  std::map<int, std::set<size_t>> carriers_;     // by blocks: slots that have the number of the turn
  std::set<size_t> changed_;
  std::map<std::pair<int, size_t>, std::vector<std::string>> loaded_types_;  // by block and recording, see Block
  int ways_out_ = 0;
  bool divides_ = false;
  bool may_log_arrays_ = false;
  std::optional<Carried> carried_;
  std::string text_;
};

}  // namespace evalframe::regions
