// What is counted of captured functions.
#pragma once

#include <cstdint>

namespace evalframe::runtime {

// Counters of one Capture; their sums are evalframe.stats().
struct Counters {
  // served: runs of graphs, those of a call's later parts and of turns of loops included.
  uint64_t calls = 0, hits = 0, served = 0, recordings = 0, breaks = 0, exits = 0, plain_calls = 0, limited = 0, given_up = 0;
  double record_seconds = 0, compile_seconds = 0;
  Counters& operator+=(const Counters& other);
};

}  // namespace evalframe::runtime
