// Decides trials of functions.
#include "runtime/call_trial.h"

#include <algorithm>
#include <numeric>

namespace evalframe::runtime {

bool CallTrial::on = true;
thread_local int PlainSample::running = 0;

namespace {

// Calls before the first trial: all that can be recorded should have been, and caches be warm.
constexpr uint64_t kWarmCalls = 50, kFewWarmCalls = 8;
constexpr double kLong = 0.03;
// A plain sample has a frame made by hand, which CPython does faster.
constexpr double kMuchSlower = 1.03;
// As many times the time of a served call in a plain one say it at once.
constexpr double kClearlySlower = 2.0;
// Of served calls from which on a plain one isn't run any longer than that: it is what the program loses by a trial.
constexpr double kLongCall = 5e-3;

}  // namespace

double CallTrial::Samples::least() const { return *std::min_element(seconds.begin(), seconds.begin() + count); }
double CallTrial::Samples::most() const { return *std::max_element(seconds.begin(), seconds.begin() + count); }

// The two slowest, which something else may have held up, don't count.
double CallTrial::Samples::typical() const {
  std::array<double, kSamples> sorted = seconds;
  std::sort(sorted.begin(), sorted.end());
  return std::accumulate(sorted.begin(), sorted.end() - 2, 0.0);
}

uint32_t CallTrial::random() {
  random_ ^= random_ << 13;
  random_ ^= random_ >> 17;
  random_ ^= random_ << 5;
  return random_ >> 8;
}

CallTrial::Turn CallTrial::next_timed() {
  if (!on) return Turn::kServe;
  if (busy_) return running_ == Turn::kTimedPlain ? Turn::kPlain : Turn::kServe;
  if (!is_decided() && PlainSample::is_running()) return Turn::kPlain;
  busy_ = true;
  running_ = Turn::kTimedServe;
  if (!is_warm_ || served_.count < kLeastServed) return running_;
  // At random, because programs call with kinds of arguments in turn.
  const bool plain = limit() || served_.count == kSamples || (plain_.count < kSamples && random() % 2);
  if (plain) running_ = Turn::kTimedPlain;
  return running_;
}

void CallTrial::add(Turn turn, double seconds) {
  busy_ = false;
  if (!is_warm_) {
    warm_calls_++;
    warm_seconds_ += seconds;
    is_warm_ = warm_calls_ >= kWarmCalls || (warm_calls_ >= kFewWarmCalls && warm_seconds_ >= kLong);
    return;
  }
  Samples& samples = turn == Turn::kTimedPlain ? plain_ : served_;
  if (samples.count == kSamples) return;
  samples.seconds[samples.count++] = seconds;
  if (served_.count >= kLeastServed && plain_.count > 0 && kClearlySlower * served_.most() < plain_.least()) return decide(true);
  if (served_.count < kFewSamples || plain_.count < kFewSamples) return;
  if (served_.most() < plain_.least()) return decide(true);
  if (served_.least() > plain_.most()) return decide(false);
  if (served_.count == kSamples && plain_.count == kSamples) decide(served_.typical() <= kMuchSlower * plain_.typical());
}

std::optional<double> CallTrial::limit() const {
  if (plain_.count > 0 || served_.count < kLeastServed || served_.least() <= kLongCall) return std::nullopt;
  return kClearlySlower * served_.most();
}

void CallTrial::leave_out() {
  busy_ = false;
  served_.count = 0;
}

void CallTrial::begin_again() {
  serves_ = true;
  resting_ = 0;
  next_rest_ /= 2;
}

void CallTrial::decide(bool serves) {
  serves_ = serves;
  served_.count = plain_.count = 0;
  resting_ = next_rest_;
  next_rest_ *= 2;
}

}  // namespace evalframe::runtime
