// Whether serving a function's calls is quicker than running them: a few calls are timed in both ways.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

#include "runtime/measure.h"

namespace evalframe::runtime {

// Of the calls of one function. The first trial takes place when it has been called for long enough, later ones ever more
// rarely, for arguments may have become larger or smaller.
class CallTrial {
 public:
  enum class Turn : uint8_t { kServe, kPlain, kTimedServe, kTimedPlain };
  // How the next call is to be run. A timed one must be reported by `add`.
  Turn next() {
    if (resting_ == 0) return next_timed();
    resting_--;
    return serves_ ? Turn::kServe : Turn::kPlain;
  }
  // Whether that is a plain one, and no timed one; then it is the next.
  bool passes_next() {
    if (serves_ || resting_ == 0) return false;
    resting_--;
    return true;
  }
  void add(Turn turn, double seconds);
  // What the first plain call of a trial may take: that it loses is known then, and the rest is served. None: it may run to its end, for
  // served ones are short, or it is a later one, which is compared more closely.
  std::optional<double> limit() const;
  // Instead: the call was busy with what later ones have done for them. What served calls took before says nothing of those.
  void leave_out();
  bool serves() const { return serves_; }
  // The trial that was decided last is held again.
  void begin_again();

  // Off for tests and benchmarks that count or time served calls.
  static bool on;

 private:
  static constexpr std::size_t kSamples = 8, kFewSamples = 4, kLeastServed = 2;
  struct Samples {
    std::array<double, kSamples> seconds{};
    std::size_t count = 0;
    double least() const;
    double most() const;
    double typical() const;
  };

  Turn next_timed();
  void decide(bool serves);
  uint32_t random();

  bool is_decided() const { return next_rest_ != kFirstRest; }

  static constexpr uint64_t kFirstRest = 2048;
  uint64_t resting_ = 0, next_rest_ = kFirstRest;
  uint64_t warm_calls_ = 0;
  double warm_seconds_ = 0;
  Samples served_, plain_;
  uint32_t random_ = 0x9e3779b9;
  bool serves_ = true;
  bool is_warm_ = false;
  bool busy_ = false;  // a timed call is running; those that it makes itself are run in the same way
  Turn running_ = Turn::kServe;
};

// What this thread does meanwhile is a sample of plain Python: captured functions that no trial has decided on run plainly in it. What they would add by being served,
// or recorded, says nothing of what the program would take without the one that is tried; those that pay for themselves are served in either case.
class PlainSample {
 public:
  explicit PlainSample(bool is_one = true) : is_one_(is_one) { running += is_one_; }
  ~PlainSample() { end(); }
  void end() { running -= std::exchange(is_one_, false); }
  PlainSample(const PlainSample&) = delete;
  PlainSample& operator=(const PlainSample&) = delete;
  static bool is_running() { return running > 0; }

 private:
  static thread_local int running;
  bool is_one_;
};

// Takes the time of one call.
class TimedCall {
 public:
  TimedCall(CallTrial& trial, CallTrial::Turn turn) : trial_(trial), turn_(turn), plain_(turn == CallTrial::Turn::kTimedPlain) {}
  ~TimedCall() { counts_ ? trial_.add(turn_, seconds_.value_or(watch_.seconds())) : trial_.leave_out(); }
  TimedCall(const TimedCall&) = delete;
  TimedCall& operator=(const TimedCall&) = delete;
  void leave_out() { counts_ = false; }
  const Stopwatch& watch() const { return watch_; }
  // It took so long; what follows isn't part of it.
  void end(double seconds) { seconds_ = seconds, plain_.end(); }

 private:
  bool counts_ = true;
  std::optional<double> seconds_;
  CallTrial& trial_;
  const CallTrial::Turn turn_;
  PlainSample plain_;
  const Stopwatch watch_;
};

}  // namespace evalframe::runtime
