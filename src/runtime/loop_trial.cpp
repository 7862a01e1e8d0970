// Decides trials of loops.
#include "runtime/loop_trial.h"

#include <algorithm>
#include <bit>
#include <numeric>

namespace evalframe::runtime {

namespace {

// The two slowest, which something else may have held up, don't count.
template <std::size_t N>
double typical(std::array<double, N>& samples) {
  std::sort(samples.begin(), samples.end());
  return std::accumulate(samples.begin(), samples.end() - 2, 0.0);
}

}  // namespace

bool LoopTrial::is_due() { return ++turns_ >= kFirst && std::has_single_bit(turns_); }

bool LoopTrial::add(double seconds) {
  (samples_ % 2 ? run_ : served_)[samples_ / 2] = seconds;
  if (++samples_ < 2 * kPairs) return false;
  pays_ = typical(served_) <= kBetter * typical(run_);
  return true;
}

bool LoopTrial::skips() {
  if (pays_) return false;
  skipped_++;
  if (skipped_ < 16 || !std::has_single_bit(skipped_)) return true;
  pays_ = true;
  turns_ = kFirst - 4;
  return false;
}

}  // namespace evalframe::runtime
