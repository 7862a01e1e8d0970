// Inner loops of several turns of the loop around them at once, ahead of what comes behind these.
//
//   for j in range(n):
//     total = 0.0
//     for k in range(m):
//       total += A[i, k] * B[k, j]
//     C[i, j] = total
//
// Each addition waits for the one before it, and no sum for that of another `j`. So several of them are computed side by side, in vectors, each in its own
// order, when the first of these turns begins; it and the others then take theirs and go on with what is behind the inner loop. What the outer loop stores
// stands elsewhere than what is read ahead. Where a turn never comes that was computed for, or begins otherwise, what it would have taken is forgotten.
// The inner loop stores nothing, or adds to an element that is another one in each outer turn (`C[i, j] += A[i, k] * B[k, j]`), which has a variable meanwhile; then whole turns are done.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "regions/many_turns.h"

namespace evalframe::regions {

class TurnsAhead : public Turns {
 public:
  // head: the block that a turn of the outer loop begins with.
  TurnsAhead(RegionWriter& region, int head);
  std::string write(const std::string& slow) override;
  // Whether what the loop's blocks do is what it was taken for; some may have come since.
  bool holds() const;

  Written slot_value(Emitter& emitter, int block, size_t slot, const Type& type, const Term* item) const override;
  bool is_head(int) const override { return true; }
  bool is_fixed_slot(size_t slot) const override;
  bool carries(size_t slot) const override;
  std::string label_of(int block) override;
  void leave(Emitter&) override { throw OtherTurn(); }
  void end_turn(Block& block, int number, Slots slots, int32_t instruction) override;
  void stores(size_t slot, const std::string& variable, const std::string& type) override;

 private:
  // In a variable, or else what a source of the region's holds.
  struct Array {
    bool is_source;
    size_t number;
    auto operator<=>(const Array&) const = default;
  };
  // An element that the inner loop adds to has a variable meanwhile. first: its address in the first turn, and by how much it is another in each.
  struct Element {
    DType dtype;
    std::string variable, first, step;
  };
  // What blocks of the outer loop do to what is the same in its turns.
  struct Effects {
    std::set<size_t> changed;  // slots of variables that get something else
    std::set<Array> stored;    // into which elements are stored
    bool operator==(const Effects&) const = default;
  };
  // Throws OtherTurn where one does more than to compute numbers and to store them.
  Effects effects() const;
  std::string prefix() const { return "ahead" + std::to_string(head_); }
  std::string name(const std::string& of) const { return "%" + prefix() + "." + of; }
  std::string label(const std::string& of) const { return prefix() + "." + of; }
  const std::vector<Type>& types(int block) const { return region_.blocks_[static_cast<size_t>(block)].state.types; }
  const recorder::Recording& recording(int block) const;
  // A variable of the function, an i64.
  void declare(const std::string& variable, const std::string& initial = {}) { region_.variables_.insert(variable + " = alloca i64" + (initial.empty() ? "" : "\n  store i64 " + initial + ", ptr " + variable)); }
  void end_beginning(Block& block, Slots slots, int32_t instruction);
  void find_even();
  void find_inner(const Slots& slots);
  // Of one turn's beginning, or of one inner turn.
  void write_part(Block& block, int number, const Term* item);
  void put_into_variables(Block& block);
  // The same for many turns: straight code.
  std::string part_text(int number);
  // Where addresses of the first turn and of the last one are asked for, and in each of the first and the last one inside.
  void write_probes(Block& block, const Term& first, const Term& last);
  void require_apart(Block& block);
  std::set<Array> loaded() const;
  // What the inner loop stores, which is added to what stood there.
  void find_stored_inside();
  void check_apart_from_stored(int block) const;
  Array array_of(int block, const recorder::Recording& recording, const graph::Node& node) const;
  bool goes_beside(int block) const;
  // Text of the code.
  std::string piece(const std::function<void(Emitter&)>& write);
  std::string address_of(Emitter& emitter, const Element& element);
  void copy_variables(Emitter& emitter, const std::string& array, bool loads);
  void compute_sums(Emitter& emitter);
  std::string vector_hint(int block);
  std::string for_each_lane(const std::string& named, const std::string& text, const std::string& behind, const std::string& hint = {});
  void expect_same_range(Emitter& emitter, const Term& first, const Term& count);
  std::string inner_text(const std::vector<std::string>& turns);
  Slots slots_behind(Emitter& emitter);
  std::string leading_on(const std::string& named, const std::function<Slots(Emitter&)>& write, int32_t instruction);
  std::string take_text();
  std::string whole_text(const Term& item, const std::vector<Term>& range, const Term& count);

  RegionWriter& region_;
  const int head_;
  const int32_t for_iter_;
  const size_t item_;                    // the slot; behind the turn's beginning it has the inner iterator
  int64_t step_ = 1, inner_step_ = 1;
  Effects effects_;
  std::unique_ptr<ManyTurns> inner_;
  std::vector<int> heads_;               // of the inner loop
  std::optional<size_t> next_;           // the head that the turn led to that was written last
  // Of a turn: what is in front of the inner loop, what is in it, and what is behind it.
  enum class Part : uint8_t { kBegin, kInside, kToEnd, kEnd };
  Part part_ = Part::kBegin;
  int behind_ = -1;                      // the block behind the inner loop
  bool ends_at_once_ = false;            // there is nothing behind it
  std::set<Array> stored_inside_;
  std::vector<Element> elements_;
  std::vector<std::string> in_variables_;  // of the part that was written last: their addresses there
  std::vector<std::pair<Block::Store, Term>> stores_inside_;  // in the first turn, and where in the last one
  int32_t inner_for_iter_ = -1;
  int pieces_ = 0;
  std::map<size_t, Written> begun_;      // what the turn's beginning has put into slots
  std::set<size_t> set_;                 // slots that were written in this turn before
  std::map<std::string, std::string> variables_;  // that are written, but for iterators and their items: their types
  std::set<std::string> sums_;           // of these, the floats of the inner loop
  // Variables that go on evenly from turn to turn: those that have the first number, and the step, if that isn't the loop's.
  struct Even {
    size_t slot;
    bool is_item;
    std::string first, step;
  };
  std::map<std::string, Even> even_;
  const Slots* probed_ = nullptr;        // what the beginning of the turn that is asked for has put into slots
  Slots begun_first_, begun_last_;
};

}  // namespace evalframe::regions
