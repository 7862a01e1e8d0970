// Whether serving the turns of a loop is quicker than running them: a few turns are timed in both ways.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace evalframe::runtime {

// Of the turns that begin at one place. A trial takes place when the loop has been served for long enough, and again at
// each doubling; a loop that was found not to pay has another one after 16, 32 ... arrivals.
class LoopTrial {
 public:
  // One more turn begins. True: a trial is due.
  bool is_due();
  void begin() { samples_ = 0; }
  // Whether the next sample is of a turn that the evaluator runs; they alternate, beginning with a served one.
  bool runs_next() const { return samples_ % 2; }
  // True: it was the last, and the trial is decided.
  bool add(double seconds);
  // Whether what can become quicker in a turn should have by now.
  bool is_late() const { return turns_ >= kLate || skipped_ > 0; }
  // Whether the loop is to be left alone this time.
  bool skips();
  // Whether a turn that is left alone is served all the same where more than one trial's turns are to be known: one in thirteen, which few loops repeat in.
  bool is_sample() const { return skipped_ % kOfSamples == 0; }

 private:
  static constexpr uint64_t kFirst = 32, kLate = 512;
  static constexpr std::size_t kPairs = 6;
  static constexpr uint64_t kOfSamples = 13;
  // Our evaluator is a little slower than CPython's: serving has to be better than it by more than that.
  static constexpr double kBetter = 0.9;

  uint64_t turns_ = 0, skipped_ = 0;
  std::size_t samples_ = 0;
  bool pays_ = true;
  std::array<double, kPairs> served_{}, run_{};
};

}  // namespace evalframe::runtime
