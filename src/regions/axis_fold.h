// Reductions of an array over axes, a call of which takes no longer than the few elements that one turn of a loop has.
#pragma once

#include <vector>

#include "backends/native/code/kernel.h"
#include "backends/native/reduce/reductions.h"

namespace evalframe::regions {

class AxisFold {
 public:
  // Whether the kernel does nothing but reduce an array, of which the elements may be taken where they stand.
  static bool is_one(const native::Kernel& kernel);
  explicit AxisFold(const native::Kernel& kernel);
  // extents: the sizes, and bytes from one element to the next along each axis, of the array and of the result. False: it isn't for such. The
  // sizes aren't 0.
  bool fits(const int64_t* extents);
  // Of those that were asked for last.
  native::FloatFlags run(const char* from, char* to) const;

 private:
  struct Axis {
    int64_t size, from, to;
  };
  bool find_axes(const int64_t* extents);
  bool find_columns(std::vector<Axis> gone);
  bool find_row(std::vector<Axis> gone);
  void fold_from(size_t first, const char* from, char* to) const;
  void fold(const char* from, char* to) const;

  const int rank_;
  const uint32_t reduced_;
  const bool sums_floats_;
  const native::Reducer reducer_;
  const int64_t size_;
  std::vector<int64_t> seen_;
  bool fits_ = false;
  std::vector<Axis> kept_;       // but for columns
  bool has_columns_ = false;     // the last axis is kept: rows of as many are folded element by element
  int64_t count_ = 0;            // elements of a row
  std::vector<int64_t> places_;  // of the rows, in order
  std::vector<char> starts_;     // what a row of results begins with
};

}  // namespace evalframe::regions
