// What is counted of captured functions.
#pragma once

#include <cstdint>

namespace evalframe::runtime {

// Counters of one Capture; their sums are evalframe.stats().
struct Counters {
#define EVALFRAME_COUNTER(type, name) type name = 0;
#include "runtime/counters.def"
#undef EVALFRAME_COUNTER
  Counters& operator+=(const Counters& other) {
#define EVALFRAME_COUNTER(type, name) name += other.name;
#include "runtime/counters.def"
#undef EVALFRAME_COUNTER
    return *this;
  }
};

}  // namespace evalframe::runtime
