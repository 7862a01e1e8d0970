// How many frames our evaluator has run, and how many it left to CPython, and why.
#pragma once

#include <array>
#include <cstdint>

#include "evaluator/activation.h"

namespace evalframe::evaluator {

// Of all threads; changed with the GIL held.
struct Counts {
  uint64_t evaluated = 0;    // frames begun, and generators resumed
  uint64_t traced = 0;       // left to CPython because a tracer, profiler or monitoring tool was active, then or on the way
  uint64_t not_decoded = 0;  // bytecode that no compiler makes
  std::array<uint64_t, static_cast<size_t>(bytecode::Op::kCount)> instruction{};  // handed over at it
};
inline Counts counts;

// The activation is about to be handed over.
inline void count_hand_over(const Activation& activation) {
  if (activation.traced()) {
    ++counts.traced;
  } else {
    ++counts.instruction[static_cast<size_t>(activation.instruction().op)];
  }
}

}  // namespace evalframe::evaluator
