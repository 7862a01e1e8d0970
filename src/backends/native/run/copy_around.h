// Copies an array but for a part of it that something else writes: a border is too little for a kernel.
#pragma once

#include <cstddef>
#include <cstdint>

namespace evalframe::native {

// `rank` sizes, strides in bytes of both sides, and in each dimension the indices first .. last - 1 of the part that is left out.
struct CopyAround {
  int rank;
  size_t item;  // bytes of an element: a power of two up to 16
  const int64_t* extents;
  const int64_t* from_strides;
  const int64_t* to_strides;
  const int64_t* first;
  const int64_t* last;
};
// Copies the indices begin .. end - 1 of the outermost dimension.
void copy_around(const CopyAround& copy, const char* from, char* to, int64_t begin, int64_t end);
// How many elements that are.
int64_t elements_around(int rank, const int64_t* extents, const int64_t* first, const int64_t* last);

}  // namespace evalframe::native
