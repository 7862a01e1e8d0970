// A kernel whose value goes into an array in which it reads neighbours: `u[1:-1] += u[2:] - u[:-2]`.
//
// Computed as a whole, in memory of its own, and stored when that is done, it goes through memory twice. But slices of rows may be stored
// as soon as no slice that is computed yet reads what they cover: while what was computed, and what was read, are in the cache. What stood
// there is kept, in the memory that the whole value would have taken, until nothing can go wrong any more.
#pragma once

#include <cstdint>
#include <optional>

#include "backends/native/run/arena.h"
#include "backends/native/run/kernel_slices.h"

namespace evalframe::native {

class Lagged {
 public:
  // output: the operand that is the value, in memory that nothing else uses; target: where it goes, over the kernel's space. None where
  // it doesn't pay, or rows don't lie one behind the other as they should. Makes the code that run needs: throws std::runtime_error.
  static std::optional<Lagged> of(const KernelCall& call, size_t output, const KernelOperand& target);
  // Afterwards the value is where it goes.
  FloatFlags run(Arena::Scope& scope) const;
  // As it was before.
  void restore() const;

 private:
  Lagged(const KernelCall& call, size_t output, const KernelOperand& target) : call_(call), output_(output), target_(target) {}
  // How many rows of the target, up or down, what is computed of a row may read; none if that can't be told.
  std::optional<int64_t> reach() const;
  int rank() const { return call_.kernel->kernel().rank; }
  int64_t element() const;
  int64_t row_bytes() const { return call_.operands[output_].strides[0]; }
  // Rows [begin, begin + count) into the memory at `to`.
  FloatFlags compute(int64_t begin, int64_t count, char* to) const;
  // ... from there to where they go.
  void store(int64_t begin, int64_t count, const char* from) const;
  template <class Visit>
  void for_each_line(int64_t begin, int64_t count, Visit visit) const;
  // Where slice number `slice` of part number `part` begins.
  int64_t border(int part, int64_t slice) const;

  KernelCall call_;
  size_t output_;
  KernelOperand target_;
  int parts_ = 1;        // for threads
  int64_t slices_ = 1;   // of each part
};

}  // namespace evalframe::native
