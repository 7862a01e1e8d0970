// Rows of words of memory, each compared with what it was: where a row is unchanged, the words of the next one are there.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "core/word.h"

namespace evalframe {

// Of one row no word is looked at behind a branch, and two that lie one behind the other are compared at once.
class WordRows {
 public:
  int32_t count() const { return static_cast<int32_t>(ends_.size()); }
  // The words as they are now. They are there, and none is there twice.
  void add(std::vector<Word> row) {
    std::ranges::sort(row, {}, &Word::at);
    for (size_t i = 0; i < row.size(); i++) {
      const bool leads = i + 1 < row.size() && static_cast<const char*>(row[i].at) + sizeof(uint64_t) == row[i + 1].at;
      if (!leads) {
        words_.push_back(row[i]);
        continue;
      }
      pairs_at_.push_back(row[i].at);
      pairs_.push_back({{row[i].value, row[i + 1].value}});
      i++;
    }
    ends_.push_back({words_.size(), pairs_.size()});
  }
  bool is_unchanged(int32_t row) const {
    const Bounds of = bounds(row);
    uint64_t changed = 0;
#pragma GCC unroll 4
    for (size_t i = of.begin.words; i < of.end.words; i++) {
      changed |= value_at(words_[i].at) ^ words_[i].value;
      asm("" : "+r"(changed));  // to make vectors of words that lie anywhere takes longer
    }
    Two two = {};
#pragma GCC unroll 4
    for (size_t i = of.begin.pairs; i < of.end.pairs; i++) two |= two_at(pairs_at_[i]) ^ two_at(&pairs_[i]);
    return !(changed | two[0] | two[1]);
  }
  // The first word that the row has with another value; null: none.
  const void* changed_in(int32_t row) const {
    const Bounds of = bounds(row);
    for (size_t i = of.begin.words; i < of.end.words; i++) {
      if (!evalframe::is_unchanged(words_[i])) return words_[i].at;
    }
    for (size_t i = of.begin.pairs; i < of.end.pairs; i++) {
      for (size_t k = 0; k < 2; k++) {
        const Word word{static_cast<const uint64_t*>(pairs_at_[i]) + k, pairs_[i].values[k]};
        if (!evalframe::is_unchanged(word)) return word.at;
      }
    }
    return nullptr;
  }
  // All are there, and are now what they are to be.
  void learn_anew() {
    for (Word& word : words_) word = word_at(word.at);
    for (size_t i = 0; i < pairs_.size(); i++) std::memcpy(&pairs_[i], pairs_at_[i], sizeof(Pair));
  }
  void clear() { *this = {}; }

 private:
  using Two = uint64_t __attribute__((vector_size(16)));
  struct alignas(Two) Pair {
    uint64_t values[2];
  };
  struct Ends {
    size_t words = 0, pairs = 0;
  };
  struct Bounds {
    Ends begin, end;
  };
  static Two two_at(const void* at) {
    Two value;
    std::memcpy(&value, at, sizeof value);
    return value;
  }
  static Two two_at(const Pair* at) { return *reinterpret_cast<const Two*>(at); }
  Bounds bounds(int32_t row) const { return {row ? ends_[static_cast<size_t>(row) - 1] : Ends(), ends_[static_cast<size_t>(row)]}; }

  std::vector<Word> words_;
  std::vector<const void*> pairs_at_;
  std::vector<Pair> pairs_;
  std::vector<Ends> ends_;  // of rows
};

}  // namespace evalframe
