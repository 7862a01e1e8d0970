#include "guards/failures.h"

#include <algorithm>

namespace evalframe::guards {

// Kept for each guard: enough to tell an argument that takes a few values from one that always changes.
static constexpr size_t kMostFound = 8;
// What has no mark is told of the first failures only: its text would be made at each.
static constexpr uint32_t kMostUnmarked = 64;

bool Failures::count(int32_t line, uint64_t mark) {
  last_ = line;
  if (by_line_.size() <= static_cast<size_t>(line)) by_line_.resize(line + 1);
  Failure& failure = by_line_[line];
  failure.count++;
  for (Failure::Found& found : failure.found) {
    if (mark && found.mark == mark) return found.count++, last_found_ = static_cast<size_t>(&found - failure.found.data()), true;
  }
  last_found_ = kMostFound;
  return mark ? failure.found.size() == kMostFound : failure.count > kMostUnmarked;
}

void Failures::name(uint64_t mark, std::string text) {
  std::vector<Failure::Found>& all = by_line_[last_].found;
  const auto same = std::find_if(all.begin(), all.end(), [&](const Failure::Found& found) { return found.text == text; });
  last_found_ = static_cast<size_t>(same - all.begin());
  if (same != all.end()) {
    same->mark = mark;
    same->count++;
  } else if (all.size() < kMostFound) {
    all.push_back({mark, std::move(text), 1});
  }
}

const std::string& Failures::last_found() const {
  static const std::string nothing;
  const bool known = last_ >= 0 && static_cast<size_t>(last_) < by_line_.size() && last_found_ < by_line_[last_].found.size();
  return known ? by_line_[last_].found[last_found_].text : nothing;
}

void Costs::take(const Costs& other) {
  if (by_line.empty()) {
    *this = other;
    return;
  }
  all = std::min(all, other.all);
  for (size_t i = 0; i < by_line.size(); i++) by_line[i] = std::min(by_line[i], other.by_line[i]);
}

}  // namespace evalframe::guards
