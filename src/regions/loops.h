// The loops that the blocks of a region make.
#pragma once

#include <deque>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "regions/writer.h"

namespace evalframe::regions {

// Of a block in the text of its region's function.
inline std::string block_label(int block) { return "block" + std::to_string(block); }

class Loops {
 public:
  explicit Loops(const std::deque<BlockOf>& blocks);
  // By their heads, which jumps back lead to: the blocks on ways from the head to itself.
  const std::map<int, std::set<int>>& all() const { return loops_; }
  // Heads of the loops that a block stands in, the outermost first, without its own.
  std::vector<int> around(int block) const;

 private:
  std::map<int, std::set<int>> loops_;
};

}  // namespace evalframe::regions
