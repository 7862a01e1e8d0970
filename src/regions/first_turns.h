// Code of their own for the turns that a loop is entered with in its midst.
#pragma once

#include <deque>
#include <map>
#include <set>
#include <string>

#include "regions/loops.h"

namespace evalframe::regions {

// An innermost loop of blocks is entered by the interpreter, by a checkpoint, from where one leads back to, and by blocks in front of it, in the midst
// of a turn, too. Nothing is known of the variables where the interpreter enters it, so nothing would be in any turn; what is read at a
// checkpoint would be part of the loop; and of one with several places to enter it LLVM knows nothing at all. So all of these do one turn in a
// copy of the blocks, which leads to the first block, the head, where it ends: the conditions of the loop then hold in all of its turns
// (`j >= 0` in `while j >= 0`: no index is negative, and no `j - 1` too small), what they check of the same element was checked and what they
// load of it is known, and it has nothing but its turns.
class FirstTurns {
 public:
  // text: of all blocks.
  FirstTurns(const std::deque<BlockOf>& blocks, const Loops& loops, const std::string& text);
  // The label where a block begins that a checkpoint leads to.
  std::string label_of(int block) const;
  // All blocks, and the copies.
  std::string text() const;

 private:
  bool has_own_turn(int head, const std::set<int>& loop) const;
  std::string text_of(int block) const;
  // The text, which stands in the loop with this head (-1: in none that is copied), and as part of a copy.
  std::string leading_to_copies(const std::string& text, int head, bool is_copy) const;

  const std::deque<BlockOf>& blocks_;
  const std::string& text_;
  std::map<int, int> heads_;  // of the loops that have a copy, by their blocks
};

}  // namespace evalframe::regions
