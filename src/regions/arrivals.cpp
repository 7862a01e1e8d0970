#include "regions/arrivals.h"

#include <algorithm>
#include <utility>

namespace evalframe::regions {

namespace {

// Of a block that is arrived at, as the variable has it: 0 is none.
std::string number_of(int block) { return std::to_string(block + 1); }
std::string end_of_way(int block) { return "arrived" + std::to_string(block); }

}  // namespace

Arrivals::Arrivals(const Loops& loops, const FirstTurns& firsts, const std::set<int>& targets) : firsts_(firsts) {
  for (const int target : targets) {
    if (std::vector<int> heads = loops.around(target); !heads.empty()) ways_.emplace(target, std::move(heads));
  }
}

std::string Arrivals::jump(int block) const {
  const auto way = ways_.find(block);
  if (way == ways_.end()) return "  br label %" + firsts_.label_of(block);
  return "  store i64 " + number_of(block) + ", ptr %arrives\n  br label %" + block_label(way->second.front());
}

std::string Arrivals::head_text(int head) const {
  std::string ways;
  for (const auto& [block, heads] : ways_) {
    const auto here = std::find(heads.begin(), heads.end(), head);
    if (here == heads.end()) continue;
    ways += " i64 " + number_of(block) + ", label %" + (here + 1 == heads.end() ? end_of_way(block) : block_label(here[1]));
  }
  if (ways.empty()) return ways;
  const std::string name = block_label(head);
  return "  %" + name + ".arrives = load i64, ptr %arrives\n  switch i64 %" + name + ".arrives, label %" + name + ".begin [" + ways + " ]\n" + name + ".begin:\n";
}

void Arrivals::add_to(std::string& text) const {
  std::set<int> all;
  for (const auto& [block, heads] : ways_) all.insert(heads.begin(), heads.end());
  for (const int head : all) {
    const std::string label = "\n" + block_label(head) + ":\n";
    text.insert(text.find(label) + label.size(), head_text(head));
  }
  for (const auto& [block, heads] : ways_) text += end_of_way(block) + ":\n  store i64 0, ptr %arrives\n  br label %" + firsts_.label_of(block) + "\n";
}

}  // namespace evalframe::regions
