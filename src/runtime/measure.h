// Times of served calls against plain ones, for an honest figure of what capturing saved. Off unless asked for.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace evalframe::runtime {

class Stopwatch {
 public:
  double seconds() const { return now() - start_; }

  // For tests: says what time it is, in seconds, in the place of the machine's clock; null: nothing does.
  static double (*clock)();

 private:
  static double now();
  double start_ = now();
};

// Calls that one recording served from its function's start, and a few of the same kind that CPython ran in its place; or
// turns of a module's loop, and a few that our evaluator ran.
class Measure {
 public:
  Measure();
  ~Measure();
  Measure(const Measure&) = delete;
  Measure& operator=(const Measure&) = delete;

  // Whether the next call is to be run by CPython: the third, the fifth, the ninth ...; where that takes long, not yet the third.
  bool wants_plain() const;
  void add_served(double seconds) { served_++, served_seconds_ += seconds; }
  void add_plain(double seconds);
  // own: without other recorded runs in it.
  void add_recorded(double seconds, double own) { recorded_++, recorded_seconds_ += seconds, recorded_own_ += own; }

  uint64_t served() const { return served_; }
  uint64_t plain() const { return plain_.size(); }
  double served_mean() const { return served_ ? served_seconds_ / static_cast<double>(served_) : 0; }
  // The median of the plain runs, as there are few, and one that something held up would be taken for many; 0: not known. The
  // recorded run is none: first calls import modules and fill caches.
  double plain_typical() const { return plain_.empty() ? 0 : plain_[plain_.size() / 2]; }
  // Of the served calls, less what recording took longer than a plain run; 0 where no plain time is known.
  double saved() const;
  bool is_known() const { return served_ && plain_typical() > 0; }

  // What is measured or (kSteps) told to the observers of threads; 0: nothing, which costs a call that is served one look at it.
  enum What : uint8_t { kCalls = 1, kGuards = 2, kSteps = 4 };
  static uint8_t what;
  // Of all that was measured in this process, compiling not counted; none if no plain time is known.
  static std::optional<double> total_saved();
  // Of the recorded runs of which no plain time is known.
  static double total_uncompared();

 private:
  double uncompared() const { return is_known() ? 0 : recorded_own_; }
  uint64_t served_ = 0, recorded_ = 0;
  double served_seconds_ = 0, recorded_seconds_ = 0, recorded_own_ = 0;
  std::vector<double> plain_;  // ascending
};

// Of one recorded run, what other recorded runs in it didn't take.
class OwnSeconds {
 public:
  // At its end, of all that it took.
  double of(double seconds) const;

 private:
  const double before_ = recorded;
  static thread_local double recorded;  // own seconds of all recorded runs so far
};

}  // namespace evalframe::runtime
