// The blocks of a loop while they are found and written: where they lead, and how one goes on to the next.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <tuple>

#include "bytecode/liveness.h"
#include "regions/block.h"
#include "regions/region.h"

namespace evalframe::regions {

// A slot of a state on the way from one block to the next.
struct Slot {
  bool kept = true;  // the function's variables of the slot have it already
  Written value;     // its type, and where it isn't kept, the words
};
using Slots = std::vector<Slot>;

struct BlockOf {
  State state;
  int number;
  bool is_entry = false;  // a jump back leads here
  bool is_dead = false;   // nothing native is done in it
  bool has_many_turns = false;          // it begins with code for many at once
  size_t text_begin = 0, text_end = 0;  // in the text of all blocks
  std::vector<const recorder::Recording*> recordings;  // that are written
  std::set<int> next;     // numbers of blocks behind it
  // Steps of iterators: where they lead with an item, and at the end.
  struct Step {
    std::set<int> inside, end;
    size_t first_at_end = 0;  // of the steps on the way from the end
  };
  std::vector<Step> steps;
};

using UnreadWords = std::map<size_t, int8_t>;
struct WiderSlots {
  UnreadWords all;
};
// Variables that get something else, whose arrays were taken to stay.
struct ReboundArrays {
  std::set<size_t> slots;
};

class Turns;
class TurnsAhead;
class Arrivals;

class RegionWriter {
 public:
  // unread: how many more words than one the variables have that are written before they are read. may_begin_again: where some need more, that is thrown.
  // rebound: variables that get something else; where there are more, that is thrown.
  RegionWriter(const bytecode::Code& code, const Recordings& recordings, Numerics numerics, Within within, bool may_share, const Names& names, const std::vector<Ref>& objects, std::vector<Type> items, UnreadWords unread,
               std::set<size_t> rebound, bool may_begin_again)
      : code_(code), liveness_(code), recordings_(recordings), numerics_(numerics), within_(within), may_share_(may_share), frame_(code, region_.names), items_(std::move(items)), unread_(std::move(unread)),
        rebound_(std::move(rebound)), may_begin_again_(may_begin_again) {
    region_.names = names.copy();
    for (const Ref& object : objects) region_.objects.push_back(Ref::borrow(object.get()));
  }
  Region write(const State& from);
  // As far as it is written.
  Region& region() { return region_; }

 private:
  friend class RecordingWriter;
  friend class ManyTurns;
  friend class TurnsAhead;
  friend class RowTurns;
  // The same, where variables that are written before they are read may have numbers and arrays of any type: there is one block for all.
  State without_unread(State state) const;
  // The block's number; -1: there are too many, or it is outside.
  int block_of(const State& at);
  // The label where it is left in front of the instruction, unless there was a condition since the checkpoint; with `.sure` behind it,
  // where there is known to be none. is_back: something was done before, though it is where the code began.
  std::string exit_of(const State& state, bool steps, bool is_back = false);
  void write_block(int number);
  void write_block_text(int number);
  // What a recording that can't be written, or need not, has changed.
  struct Mark {
    std::vector<Type> sources;
    std::set<int> read, stored;  // holders: sources that are gone are none
    std::set<int> next;
    size_t steps, routines;
    int64_t logged;
  };
  Mark mark(int number) const { return {region_.sources, region_.read, region_.stored, blocks_[number].next, blocks_[number].steps.size(), region_.routines.size(), region_.logged}; }
  void back_to(int number, const Mark& mark);
  // Where the block begins: its code for many turns, if a turn of a loop over a range begins with it, else its first recording.
  void write_many_turns(int number);
  void write_blocks();
  // None where they can't be written; why: what is in the way, if it isn't just that the block is no such turn's.
  std::optional<std::string> many_turns(int number, size_t most_heads, std::string& why);
  // ... of turns that change one row.
  std::optional<std::string> row_turns(int number);
  void count_at_once(int32_t for_iter);
  // The same, which goes to the label where they aren't done so.
  std::optional<std::string> text_of_turns(Turns& turns, int number, const std::string& slow, std::string& why);
  // ... for the inner loops of many turns of a loop around them, where those may be done ahead.
  void write_turns_ahead(int number);
  void forget_ahead();
  bool write_recording(int number, const recorder::Recording& recording, const std::string& name, const std::string& otherwise, std::string& text, std::vector<Obstacle>& why);
  // Goes on at the instruction with these slots. must_run: the instruction itself has to be run; from: where the present block is.
  void go_on(Block& block, int number, Slots slots, int32_t instruction, bool must_run);
  void land(Block& block, int number, const Slots& slots, int32_t instruction, bool must_run);
  void go_to(Block& block, int number);
  // Behind a branch that leads back: what LLVM is told of the loop.
  std::string loop_hint(const std::string& attributes);
  // The instruction behind the loop with that step.
  int32_t behind_loop(int32_t for_iter) const;
  bool has_inner_loop(int32_t for_iter) const;
  // The variable that says how often the loop around others was entered whose turns begin there.
  std::string entries_of_loop(int32_t instruction);
  void count_entry(Block& block, int number, int next);
  void leave_at(Block& block, const std::string& exit);
  void branch_where_done(Block& block, const std::string& done, const std::string& undone);
  // The function returns it, or a tuple of them.
  void return_results(Block& block, const std::vector<Written>& results, bool is_tuple);
  void branch(Block& block, int number, const Term& condition, Slots yes, int32_t at_yes, Slots no, int32_t at_no);
  // Whether the code's innermost loop around the instruction stores nothing into the variable, as far as its own instructions tell: it may be written
  // in another way then, and does the same.
  bool stays_in_loop(int32_t instruction, size_t slot) const;
  // The variable of one word of a slot. is_unread: of a kUnread.
  std::string variable(size_t slot, size_t word, const std::string& type, bool is_unread = false);
  // The same, to be stored into.
  std::string written_variable(size_t slot, size_t word, const std::string& type, bool is_unread = false) { return *written_.insert(variable(slot, word, type, is_unread)).first; }
  std::vector<Term> read_slot(Emitter& emitter, size_t slot, const Type& type);
  // Of an array in a variable that stays as it is; 0: there is none, or arrays may share memory.
  int holder_of_slot(size_t slot, const Type& type) const;
  int holder_of_source(int32_t source, const Type& type) const { return may_share_ || type.kind != Type::Kind::kArray ? 0 : -1 - source; }
  // The name of a word of what a source holds, which stays the same.
  static std::string source_word(int32_t source, size_t word) { return "%source" + std::to_string(source) + "." + std::to_string(word); }
  std::string sources_text() const;
  std::string fixed_text() const;
  template <class Visit>
  void for_each_written_word(const State& state, Visit visit) const;
  // Of a slot that is known to have a number of this type, or nothing, as a kUnread.
  Written read_unread(Emitter& emitter, size_t slot, const Type& type);
  // The iterator over a range that is in the slot gives this number next, and so many in all.
  void set_range(Emitter& emitter, size_t slot, const Term& next, const Term& left);
  int32_t object_of(PyObject* constant);
  // Of what a state has in a slot, lists and tuples that the loop carries along, too.
  Written iterator_over(Block& block, const Written& iterable);
  Term address_of(Block& block, int32_t object) const;
  Term unread_array(Emitter& emitter, size_t slot, const Type& type);
  void store_words(Block& block, size_t slot, const Written& value);
  // Those of a block with these types, and the words that are stored.
  std::vector<Term> store_slots(Block& block, const Slots& slots, const std::vector<Type>& types);
  Written& top_of(Block& block, Slots& slots);
  void step(Block& block, int number, const Slots& slots, const Written& iterator, int32_t instruction);
  void merge_again();
  bool loops() const;
  // Whether variables keep the arrays that they were taken to keep: throws ReboundArrays.
  void check_holders() const;
  std::string function();
  // Labels: what a checkpoint saves; where a turn ends after which conditions, signals and other threads are looked at.
  std::string save_of(int number) { return saves_.insert(number), "save" + std::to_string(number); }
  std::string check_of(int number) { return checks_.insert(number), save_of(number), "check" + std::to_string(number); }
  std::string check_text(int number);
  // behind: what follows it.
  std::string save_text(const std::string& name, int number, const std::string& behind) const;
  std::string entry_text(size_t entry, const Arrivals& arrivals) const;
  static std::string rollback_text();
  std::string go_back_text(const Arrivals& arrivals) const;

  const bytecode::Code& code_;
  const bytecode::Liveness liveness_;
  const Recordings& recordings_;
  const Numerics numerics_;
  const Within within_;
  const bool may_share_;
  Region region_;
  const Variables frame_;
  std::vector<Type> items_;  // of the region's objects, what iterators over them are
  const UnreadWords unread_;
  const std::set<size_t> rebound_;
  const bool may_begin_again_;
  std::map<size_t, int32_t> owners_;  // numbers of the objects whose attributes are slots, by the variable that holds them
  std::vector<std::pair<const recorder::Recording*, int>> merged_;  // recordings whose guards are the region's, and their blocks
  std::deque<BlockOf> blocks_;
  std::map<State, int> numbers_;
  std::map<std::tuple<State, bool, bool>, int> exits_;
  std::set<std::string> variables_;
  std::set<std::string> written_;  // those that the code stores into
  std::set<int> saves_, checks_;
  Turns* many_ = nullptr;  // whose turn is written
  std::map<int, std::shared_ptr<const TurnsAhead>> ahead_;  // by blocks that turns of the loop around begin with
  std::vector<int> one_by_one_;  // blocks without code for many turns
  size_t begun_ = 0, with_many_ = 0;  // blocks that are written; those whose code for many turns is, or isn't
  std::set<int32_t> at_once_;  // steps of inner loops of which many turns are written
  bool meets_conditions_ = false, rolls_back_ = false;
  // Whether there is a way back to checkpoints.
  bool goes_back() const { return meets_conditions_ || rolls_back_; }
  bool grows_lists_ = false, reads_lists_ = false;  // what is read of lists is read at the entry
  int hints_ = 0;
  std::string hints_text_;
  int following_ = 0;  // instructions between two places
  std::string text_;
  std::string needed_;
};

inline void push(Slots& slots, Written value) { slots.push_back({false, std::move(value)}); }

}  // namespace evalframe::regions
