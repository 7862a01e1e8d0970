// What recordings may take of a program's time where nobody has asked for them: a share, and a little from the start.
#pragma once

#include <algorithm>
#include <cstdint>

#include "runtime/measure.h"

namespace evalframe::runtime {

// Begins with the time that it is made.
class Allowance {
 public:
  // most_of_recording: of a recorded run that took longer, the rest counts as the program's own time. It calls what takes long.
  Allowance(double least_seconds, double share, double most_of_recording) : least_(least_seconds), share_(share), most_(most_of_recording) {}
  // By recordings, and by what is known not to be the program's own: compiling them.
  void take(uint64_t recordings, double seconds, double besides = 0) { taken_ += std::min(seconds, most_ * static_cast<double>(recordings)) + besides; }
  // As a part of what they may have taken by now: more than 1 is too much.
  double used() const { return taken_ / std::max(least_, share_ * watch_.seconds()); }
  bool is_used_up() const { return used() > 1; }

 private:
  const double least_, share_, most_;
  double taken_ = 0;
  Stopwatch watch_;
};

}  // namespace evalframe::runtime
