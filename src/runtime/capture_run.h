// What one run of a captured function, from an instruction to the end of the call or stretch, keeps beside the chain.
#pragma once

#include <algorithm>
#include <optional>
#include <utility>

#include "backends/native/code/kernel.h"
#include "backends/native/native.h"
#include "runtime/capture.h"

namespace evalframe::runtime {

// A run's trial of a loop: one at a time, and only of turns that stay in the loop.
class Capture::Trial {
 public:
  bool is_of(const Entries& entries) const { return entries_.get() == &entries; }
  void stop() { entries_ = Held<Entries>(); }
  // Whether a turn of it may have a call in it whose own loops are at rest: what they take is part of the turn.
  bool takes_calls() const { return entries_ && entries_->trial.is_late(); }
  // The chain has come to this place.
  void arrive(Entries& entries) {
    if (!entries_) return;
    if (waited_ != runs_that_tell_nothing()) return stop();
    if (is_of(entries)) {
      if (whole_ && entries_->trial.add(watch_->seconds() / turns_)) stop();
    } else {
      whole_ = whole_ && is_in_loop(entries.place);
    }
  }
  // These turns will be over at the next arrival.
  void serves(int32_t turns) { turns_ = turns; }
  // A turn begins at this place. True: the evaluator is to run it.
  bool begin_turn(Entries& entries) {
    if (!entries_ && entries.trial.is_due()) {
      entries_ = Held<Entries>(&entries);
      entries.trial.begin();
    }
    if (!is_of(entries)) return false;
    whole_ = true;
    turns_ = 1;
    waited_ = runs_that_tell_nothing();
    watch_.emplace();
    return entries.trial.runs_next();
  }

 private:
  // Of kernels that weren't compiled yet, or quickly.
  static uint64_t runs_that_tell_nothing() { return native::runs_that_waited() + native::slow_runs(); }
  bool is_in_loop(const Place& place) const {
    const size_t at = entries_->place.frames.size() - 1;
    return place.frames.size() > at && place.frames[at].next >= entries_->loop_first && place.frames[at].next <= entries_->loop_last;
  }
  Held<Entries> entries_;
  bool whole_ = false;
  int32_t turns_ = 1;
  uint64_t waited_ = 0;  // such runs, when the turn began
  std::optional<Stopwatch> watch_;  // of the present turn
};

// Times the turns of a module's loop, and has the evaluator run a few of them for comparison.
class Capture::TurnTimes {
 public:
  TurnTimes(Stretch stretch, Measure* measure) : stretch_(stretch), measure_(measure) {}
  // The chain has come to this place. True: a turn begins there, and the evaluator is to run it.
  bool arrive(const Entries& entries) {
    if (!measure_ || entries.place.frames.size() != 1 || entries.loop_first != stretch_.first) return false;
    const bool same_turn = entries.place.frames[0].next > std::exchange(last_, entries.place.frames[0].next);
    if (same_turn) return false;
    if (turns_) add();
    kind_ = measure_->wants_plain() ? Kind::kPlain : Kind::kServed;
    turns_ = 1;
    compiled_before_ = seconds_compiled();
    own_.emplace();
    watch_.emplace();
    return kind_ == Kind::kPlain;
  }
  // What the present turn is, and how many of them there are until the next arrival.
  void records() { kind_ = Kind::kRecorded; }
  void runs() { kind_ = Kind::kPlain; }
  void serves(int32_t turns) { turns_ = std::max(turns_, turns); }

 private:
  enum class Kind : uint8_t { kServed, kPlain, kRecorded };
  void add() {
    const double seconds = watch_->seconds() - (seconds_compiled() - compiled_before_);
    if (kind_ == Kind::kRecorded) return measure_->add_recorded(seconds, own_->of(seconds));
    if (kind_ == Kind::kPlain) return measure_->add_plain(seconds);
    for (int32_t i = 0; i < turns_; i++) measure_->add_served(seconds / turns_);
  }

  const Stretch stretch_;
  Measure* const measure_;  // null: nobody asked
  int32_t last_ = INT32_MAX;  // the instruction of the place before
  Kind kind_ = Kind::kServed;
  int32_t turns_ = 0;
  double compiled_before_ = 0;
  std::optional<OwnSeconds> own_;
  std::optional<Stopwatch> watch_;  // of the present turn
};

// A region for a place, and what it was made of.
struct Capture::FoundRegion {
  Place place;
  uint64_t recordings = 0;
  bool may_share = false;
  regions::State state = {};
  std::vector<regions::Type> items = {};
  regions::Region region = {};
};

struct Capture::Run {
  PyThreadState* thread;
  Chain& chain;
  const Stretch stretch;
  Worth& worth;
  Ref& result;
  Trial trial;
  TurnTimes times;
  int waited = 0;  // places passed since native code ran, though their loops don't pay
  std::optional<FoundRegion> found = {};  // that wasn't compiled, yet
};

}  // namespace evalframe::runtime
