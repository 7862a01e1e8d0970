#include "regions/first_turns.h"

#include <cctype>

namespace evalframe::regions {

namespace {

// Of a loop, in characters of its text: longer ones gain little, and take long to compile.
constexpr size_t kLongestLoop = 20'000;

std::string copied_name(int block) { return "first" + std::to_string(block); }

}  // namespace

FirstTurns::FirstTurns(const std::deque<BlockOf>& blocks, const Loops& loops, const std::string& text) : blocks_(blocks), text_(text) {
  for (const auto& [head, loop] : loops.all()) {
    if (!has_own_turn(head, loop)) continue;
    for (const int block : loop) heads_[block] = head;
  }
}

std::string FirstTurns::label_of(int block) const {
  const auto head = heads_.find(block);
  return head != heads_.end() && head->second == block ? copied_name(block) : block_label(block);
}

bool FirstTurns::has_own_turn(int head, const std::set<int>& loop) const {
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
    const bool is_own = text[end] == '.' || text[end] == ':', leads_in = its_head != heads_.end() && its_head->second != head;
    const bool is_of_copy = is_own ? is_copy : leads_in || (is_copy && its_head != heads_.end() && its_head->second != named);
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
