// What holds in a thread, known again by words of its memory: asking torch for it takes longer than most guards.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace evalframe::torch {

// How a thread was when all had been asked that State::is_told is about (tensors.h).
class ThreadWords {
 public:
  // Whether this is the thread, and all is as it was. False: it has to be asked.
  bool hold() const;
  void learn();

 private:
  static constexpr size_t kWords = 23, kNumbers = 8;
  friend class ThreadPlaces;
  uint64_t thread_ = 0;  // its number; 0: none
  std::array<uint64_t, kWords> words_;
  std::array<int32_t, kNumbers> numbers_;  // what is set for all threads
};

// Whether the words tell of what torch's GlobalStateGuard asks here and now; `dumped`: what that says of itself.
bool thread_words_tell(const char* dumped);

}  // namespace evalframe::torch
