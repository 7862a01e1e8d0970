// Rows of elements in memory, for the routines that copy them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace evalframe::regions {

// One after the other. A size that the compiler knows makes an instruction of each.
template <size_t size>
void copy_elements_of(const char* from, int64_t step, char* to, int64_t to_step, int64_t count) {
  for (int64_t i = 0; i < count; i++) std::memmove(to + i * to_step, from + i * step, size);
}

// The memory from the first byte of some elements to behind the last one: of one, and of as many as are a step apart.
struct Extent {
  const char *begin, *end;
  Extent(const char* data, int64_t size) : begin(data), end(data + size) {}
  Extent along(int64_t count, int64_t step) const {
    Extent all = *this;
    (step < 0 ? all.begin : all.end) += (count - 1) * step;
    return all;
  }
  bool meets(const Extent& other) const { return end > other.begin && other.end > begin; }
};

}  // namespace evalframe::regions
