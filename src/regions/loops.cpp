#include "regions/loops.h"

#include <algorithm>
#include <utility>

namespace evalframe::regions {

namespace {

std::vector<int> ways_out(const BlockOf& block) {
  std::vector<int> ways(block.next.begin(), block.next.end());
  for (const BlockOf::Step& step : block.steps) {
    ways.insert(ways.end(), step.inside.begin(), step.inside.end());
    ways.insert(ways.end(), step.end.begin(), step.end.end());
  }
  return ways;
}

// Those of a loop around it stand in front of the head somewhere.
std::set<int> loop_of(const std::deque<BlockOf>& blocks, int head) {
  const int32_t first = blocks[static_cast<size_t>(head)].state.instruction;
  std::map<int, std::vector<int>> ways_in;
  std::set<int> reached = {head};
  for (std::vector<int> open = {head}; !open.empty();) {
    const int at = open.back();
    open.pop_back();
    for (const int next : ways_out(blocks[static_cast<size_t>(at)])) {
      if (blocks[static_cast<size_t>(next)].state.instruction < first) continue;
      ways_in[next].push_back(at);
      if (reached.insert(next).second) open.push_back(next);
    }
  }
  std::set<int> loop;
  for (std::vector<int> open = {head}; !open.empty();) {
    const int at = open.back();
    open.pop_back();
    for (const int before : ways_in[at]) {
      if (loop.insert(before).second) open.push_back(before);
    }
  }
  return loop;
}

}  // namespace

Loops::Loops(const std::deque<BlockOf>& blocks) {
  for (const BlockOf& block : blocks) {
    if (!block.is_entry) continue;
    std::set<int> loop = loop_of(blocks, block.number);
    if (loop.count(block.number)) loops_.emplace(block.number, std::move(loop));
  }
}

std::vector<int> Loops::around(int block) const {
  std::vector<int> heads;
  for (const auto& [head, loop] : loops_) {
    if (head != block && loop.count(block)) heads.push_back(head);
  }
  std::stable_sort(heads.begin(), heads.end(), [&](int a, int b) { return loops_.at(a).size() > loops_.at(b).size(); });
  return heads;
}

}  // namespace evalframe::regions
