// Turns of an inner loop over a range that do nothing but change the same row of an array, or rows, by others and numbers of their own.
//
//   for k in range(m):
//     C[i] += alpha * A[i, k] * B[k]
//
//   for b in range(n):
//     out += mask[a, b] * image[a : a + rows, b : b + columns]
//
// One by one, each of them calls a kernel that reads all of these rows and writes them again. But an element has nothing to do with the others: so
// the numbers are computed first, turn by turn, and then a row is changed by eight turns at once, each element in their order. Where other rows are
// (`B[k]`) goes on evenly from turn to turn, which the first and the last one tell, as of many turns. What is changed is logged before. Whatever goes wrong leads
// back to the loop's last checkpoint.
#pragma once

#include <string>
#include <vector>

#include "regions/expression.h"
#include "regions/many_turns.h"

namespace evalframe::regions {

class RowTurns : public Turns {
 public:
  // head: the block that a turn begins with.
  RowTurns(RegionWriter& region, int head) : region_(region), head_(head), turns_(region, head, 1, false) {}
  std::string write(const std::string& slow) override;
  int32_t for_iter() const { return turns_.for_iter(); }

  Written slot_value(Emitter& emitter, int block, size_t slot, const Type& type, const Term* item) const override { return turns_.slot_value(emitter, block, slot, type, item); }
  bool is_head(int block) const override { return block == head_; }
  bool is_fixed_slot(size_t slot) const override { return turns_.is_fixed_slot(slot); }
  std::string label_of(int) override { return {}; }
  void leave(Emitter&) override { throw OtherTurn(); }
  void end_turn(Block& block, int number, Slots slots, int32_t instruction) override;

 private:
  // What a turn does to the rows, and the elements that it reads for that.
  struct Change {
    Block::Store store;
    std::vector<Block::Element> elements;
  };
  std::string prefix() const { return "rows" + std::to_string(head_); }
  std::string name(const char* of) const { return "%" + prefix() + "." + of; }
  std::string label(const char* of) const { return prefix() + "." + of; }
  const recorder::Recording& recording() const;
  Term step(Emitter& emitter) const;
  Change change_in(Block& block, const Term& item) const;
  void require_apart(Block& block, const Change& first, const Change& last) const;
  // How many turns are done, which begin with this one; leaves where these are too few.
  Term count(Block& block) const;
  void begin(Block& block, const Term& first, const Term& count);
  void write_numbers();
  void write_end();
  void take(const Block& block);
  // Of the input that is a number, in the first turn.
  Term place_of_number(Emitter& emitter, size_t input) const;

  RegionWriter& region_;
  const int head_;
  ManyTurns turns_;
  Strided changed_;
  // Inputs that are arrays, in the first turn.
  struct Array {
    Term data, to_next_turn;
    std::vector<Term> strides;
  };
  std::vector<Array> arrays_;
  size_t changed_array_ = 0;         // of these, what is changed
  std::shared_ptr<const native::Kernel> kernel_;
  std::vector<bool> is_array_;       // by the kernel's inputs
  std::string text_;
};

}  // namespace evalframe::regions
