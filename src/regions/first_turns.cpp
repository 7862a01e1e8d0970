#include "regions/first_turns.h"

#include <cctype>
#include <vector>

namespace evalframe::regions {

namespace {

// Of a loop, in characters of its text: longer ones gain little, and take long to compile.
constexpr size_t kLongestLoop = 20'000;

std::string name_of(int block) { return "block" + std::to_string(block); }
std::string copied_name(int block) { return "first" + std::to_string(block); }

std::vector<int> ways_out(const BlockOf& block) {
  std::vector<int> ways(block.next.begin(), block.next.end());
  for (const BlockOf::Step& step : block.steps) {
    ways.insert(ways.end(), step.inside.begin(), step.inside.end());
    ways.insert(ways.end(), step.end.begin(), step.end.end());
  }
  return ways;
}

}  // namespace

FirstTurns::FirstTurns(const std::deque<BlockOf>& blocks, const std::string& text) : blocks_(blocks), text_(text) {
  for (const BlockOf& block : blocks) {
    if (!block.is_entry) continue;
    std::set<int> loop = loop_of(block.number);
    if (!has_own_turn(block.number, loop)) continue;
    for (const int number : loop) heads_[number] = block.number;
    loops_.emplace(block.number, std::move(loop));
  }
}

std::string FirstTurns::label_of(int block) const { return loops_.count(block) ? copied_name(block) : name_of(block); }

// The blocks on ways from the head back to it; those of a loop around it stand in front of the head somewhere.
std::set<int> FirstTurns::loop_of(int head) const {
  const int32_t first = blocks_[static_cast<size_t>(head)].state.instruction;
  std::map<int, std::vector<int>> ways_in;
  std::set<int> reached = {head};
  for (std::vector<int> open = {head}; !open.empty();) {
    const int at = open.back();
    open.pop_back();
    for (const int next : ways_out(blocks_[static_cast<size_t>(at)])) {
      if (blocks_[static_cast<size_t>(next)].state.instruction < first) continue;
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

bool FirstTurns::has_own_turn(int head, const std::set<int>& loop) const {
  if (!loop.count(head)) return false;
  size_t length = 0;
  for (const int number : loop) {
    const BlockOf& block = blocks_[static_cast<size_t>(number)];
    // No innermost loop, or one whose turns are many at once; checkpoints behind each turn.
    if ((block.is_entry && number != head) || block.has_many_turns) return false;
    const std::string text = text_of(number);
    if (text.find("label %save") != std::string::npos) return false;
    length += text.size();
  }
  return length <= kLongestLoop;
}

std::string FirstTurns::text_of(int block) const {
  const BlockOf& of = blocks_[static_cast<size_t>(block)];
  return text_.substr(of.text_begin, of.text_end - of.text_begin);
}

// All names of a block's own begin with its name and a dot.
std::string FirstTurns::leading_to_copies(const std::string& text, int head, bool is_copy) const {
  std::string result;
  size_t done = 0;
  for (size_t at = text.find("block"); at != std::string::npos; at = text.find("block", at + 1)) {
    size_t end = at + 5;
    while (end < text.size() && std::isdigit(static_cast<unsigned char>(text[end]))) end++;
    if (end == at + 5) continue;
    const int named = std::stoi(text.substr(at + 5, end - at - 5));
    const auto its_head = heads_.find(named);
    const bool is_own = text[end] == '.' || text[end] == ':', is_inside = its_head != heads_.end() && its_head->second != named;
    const bool is_of_copy = is_own ? is_copy : is_inside && (is_copy || its_head->second != head);
    if (!is_of_copy) continue;
    result += text.substr(done, at - done) + copied_name(named);
    done = end;
  }
  return result + text.substr(done);
}

std::string FirstTurns::text() const {
  std::string text, copies;
  size_t done = 0;
  for (const auto& [number, head] : heads_) {
    const BlockOf& block = blocks_[static_cast<size_t>(number)];
    text += leading_to_copies(text_.substr(done, block.text_begin - done), -1, false) + leading_to_copies(text_of(number), head, false);
    done = block.text_end;
    const std::string many = copied_name(number) + ".many", copy = leading_to_copies(text_of(number), head, true);
    copies += copy;
    if (copy.find("label %" + many + "\n") != std::string::npos) copies += many + ":\n  br label %" + copied_name(number) + ".0\n";
  }
  return text + leading_to_copies(text_.substr(done), -1, false) + copies;
}

}  // namespace evalframe::regions
