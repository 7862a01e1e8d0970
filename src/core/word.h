// A word of memory, and what it was: what some fact of an object shows by.
#pragma once

#include <cstdint>
#include <cstring>

namespace evalframe {

struct Word {
  const void* at;
  uint64_t value;
  bool operator==(const Word&) const = default;
};

inline uint64_t value_at(const void* at) {
  uint64_t value;
  std::memcpy(&value, at, sizeof value);
  return value;
}
inline Word word_at(const void* at) { return {at, value_at(at)}; }
inline bool is_unchanged(const Word& word) { return value_at(word.at) == word.value; }

}  // namespace evalframe
