// x86's floating-point status: one instruction each, where fenv.h also touches the x87 unit.
#pragma once

#include <immintrin.h>

#include "backends/native/code/kernel.h"

namespace evalframe::native {

inline constexpr unsigned kStatusBits = 0x3f;
inline void clear_flags() { _mm_setcsr(_mm_getcsr() & ~kStatusBits); }
inline FloatFlags raised_flags() {
  const unsigned status = _mm_getcsr();
  return (status >> 2 & 1) | (status >> 3 & 1) << 1 | (status >> 4 & 1) << 2 | (status & 1) << 3;
}

// Does something whose flags are of no interest.
template <class Work> void without_flags(Work work) {
  const unsigned before = _mm_getcsr();
  work();
  _mm_setcsr(before);
}

}  // namespace evalframe::native
