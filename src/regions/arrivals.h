// Ways into the midst of loops in loops, through the heads of all that stand around.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "regions/first_turns.h"
#include "regions/loops.h"

namespace evalframe::regions {

// The interpreter enters an inner loop, and so does the way back to a checkpoint. With a jump into its midst the loop around it would have several
// places where it begins, which are no loops for LLVM: what is the same in all turns of it would be computed in each, and nothing known of how often.
// So such a jump leads to the head of the outermost loop, and a variable says where the heads lead on to.
class Arrivals {
 public:
  // targets: blocks that are arrived at.
  Arrivals(const Loops& loops, const FirstTurns& firsts, const std::set<int>& targets);
  // Whether there is such a way to the block.
  bool leads_to(int block) const { return ways_.count(block) > 0; }
  // The jump to the block.
  std::string jump(int block) const;
  // Into the function's text: what heads begin with, and where the ways end.
  void add_to(std::string& text) const;
  static constexpr const char* kVariables = "  %arrives = alloca i64\n  store i64 0, ptr %arrives\n";

 private:
  std::string head_text(int head) const;

  const FirstTurns& firsts_;
  std::map<int, std::vector<int>> ways_;  // heads that lead to a block, the outermost first
};

}  // namespace evalframe::regions
