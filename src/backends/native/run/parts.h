// The parts of a space: its planes, and pieces for the threads.
#pragma once

#include <algorithm>
#include <atomic>

#include "backends/native/lower/space.h"
#include "backends/native/run/thread_pool.h"

namespace evalframe::native {

inline int64_t size_of(const Space& space) {
  int64_t size = 1;
  for (const Dimension& d : space.dimensions) size *= d.extent;
  return size;
}

// The part [begin, end) of dimension d.
inline Space part_of(const Space& space, size_t d, int64_t begin, int64_t end) {
  Space part = space;
  part.dimensions[d].extent = end - begin;
  for (size_t i = 0; i < part.data.size(); ++i) part.data[i] += begin * space.dimensions[d].strides[i];
  return part;
}

// The kept dimension to split over threads: the outermost that has enough for all pieces, else the longest.
inline size_t dimension_to_split(const Space& space, int pieces) {
  size_t longest = space.dimensions.size();
  for (size_t d = 0; d < space.dimensions.size(); ++d) {
    if (space.dimensions[d].reduced) continue;
    if (space.dimensions[d].extent >= 4 * pieces) return d;
    if (longest == space.dimensions.size() || space.dimensions[d].extent > space.dimensions[longest].extent) longest = d;
  }
  return longest;
}

// Steps through the dimensions outside the innermost two; calls visit(data, position of the plane's first reduced element).
template <class Visit>
void for_each_plane(const Space& space, Visit visit) {
  const size_t outer = space.dimensions.size() - 2;
  std::vector<char*> data = space.data;
  if (outer == 0) return visit(data, 0);
  std::vector<int64_t> index(outer, 0);
  int64_t position = 0;
  while (true) {
    visit(data, position);
    size_t d = outer;
    while (d > 0) {
      const Dimension& dimension = space.dimensions[--d];
      const bool more = ++index[d] < dimension.extent;
      const int64_t steps = more ? 1 : 1 - dimension.extent;
      for (size_t i = 0; i < data.size(); ++i) data[i] += steps * dimension.strides[i];
      position += steps * dimension.weight;
      if (more) break;
      index[d] = 0;
      if (d == 0) return;
    }
  }
}

// Splits indices 0 .. extent - 1 over the threads; task(begin, end) returns flags.
template <class Task>
FloatFlags split(int64_t extent, int pieces, Task task) {
  if (pieces <= 1) return task(0, extent);
  std::atomic<FloatFlags> flags = 0;
  // Whole cache lines for each thread where the pieces are large.
  const int64_t lines = extent >= 64 * pieces ? ~int64_t{63} : ~int64_t{0};
  const auto border = [&](int piece) { return piece == pieces ? extent : extent * piece / pieces & lines; };
  parallel_for(pieces, [&](int piece) { flags |= task(border(piece), border(piece + 1)); });
  return flags;
}

// Splits a kept dimension over the threads; task(part) returns flags.
template <class Task>
FloatFlags split_over_threads(const Space& space, int pieces, Task task) {
  const size_t d = pieces > 1 ? dimension_to_split(space, pieces) : 0;
  if (pieces <= 1 || d == space.dimensions.size()) return task(space);
  const int64_t extent = space.dimensions[d].extent;
  if (extent <= 1) return task(space);
  return split(extent, static_cast<int>(std::min<int64_t>(pieces, extent)),
               [&](int64_t begin, int64_t end) { return task(part_of(space, d, begin, end)); });
}

}  // namespace evalframe::native
