// Copies an array but for a part of it, dimension by dimension: what lies before and behind the part, and around it inside.
#include "backends/native/run/copy_around.h"

#include <algorithm>
#include <cstring>

namespace evalframe::native {
namespace {

template <size_t kItem>
void copy_row(const char* from, int64_t from_stride, char* to, int64_t to_stride, int64_t count) {
  if (from_stride == kItem && to_stride == kItem) {
    std::memcpy(to, from, static_cast<size_t>(count) * kItem);
    return;
  }
  for (int64_t i = 0; i < count; i++) std::memcpy(to + i * to_stride, from + i * from_stride, kItem);
}

template <size_t kItem>
class Copying {
 public:
  explicit Copying(const CopyAround& copy) : copy_(copy) {}

  // Indices begin .. end - 1 of dimension d.
  void around(int d, const char* from, char* to, int64_t begin, int64_t end) const {
    const int64_t first = std::clamp(copy_.first[d], begin, end), last = std::clamp(copy_.last[d], first, end);
    whole(d, from, to, begin, first);
    for (int64_t i = first; d + 1 < copy_.rank && i < last; i++) {
      around(d + 1, from + i * copy_.from_strides[d], to + i * copy_.to_strides[d], 0, copy_.extents[d + 1]);
    }
    whole(d, from, to, last, end);
  }

 private:
  // Indices begin .. end - 1 of dimension d, and all of those behind it.
  void whole(int d, const char* from, char* to, int64_t begin, int64_t end) const {
    if (begin >= end) return;
    const int64_t from_stride = copy_.from_strides[d], to_stride = copy_.to_strides[d];
    if (d + 1 == copy_.rank) return copy_row<kItem>(from + begin * from_stride, from_stride, to + begin * to_stride, to_stride, end - begin);
    for (int64_t i = begin; i < end; i++) whole(d + 1, from + i * from_stride, to + i * to_stride, 0, copy_.extents[d + 1]);
  }

  const CopyAround& copy_;
};

}  // namespace

void copy_around(const CopyAround& copy, const char* from, char* to, int64_t begin, int64_t end) {
  if (copy.rank == 0) return;
  switch (copy.item) {
    case 1: return Copying<1>(copy).around(0, from, to, begin, end);
    case 2: return Copying<2>(copy).around(0, from, to, begin, end);
    case 4: return Copying<4>(copy).around(0, from, to, begin, end);
    case 8: return Copying<8>(copy).around(0, from, to, begin, end);
    case 16: return Copying<16>(copy).around(0, from, to, begin, end);
  }
}

int64_t elements_around(int rank, const int64_t* extents, const int64_t* first, const int64_t* last) {
  int64_t all = 1, part = 1;
  for (int i = 0; i < rank; i++) {
    all *= extents[i];
    part *= last[i] - first[i];
  }
  return all - part;
}

}  // namespace evalframe::native
