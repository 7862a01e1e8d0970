// Rows of elements in memory, for the routines that copy them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "regions/routine.h"

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

// Rows of which each ends where the next one begins, of all operands, are one row.
inline void join_rows(const int64_t* outer, const int64_t* inner, size_t operands, int64_t& rows, int64_t& columns) {
  for (size_t i = 0; i < operands; i++) {
    if (outer[i] != inner[i] * columns) return;
  }
  columns *= std::exchange(rows, 1);
}

inline bool keeps_any(const char* mask, int64_t outer, int64_t inner, int64_t rows, int64_t columns) {
  uint64_t any = 0;
  for (int64_t r = 0; r < rows; r++, mask += outer) {
    int64_t c = 0;
    for (uint64_t eight; inner == 1 && c + 8 <= columns; c += 8) any |= (std::memcpy(&eight, mask + c, sizeof eight), eight);
    for (; c < columns; c++) any |= static_cast<unsigned char>(mask[c * inner]);
  }
  return any != 0;
}

// Parts of the rows of a mask near which it keeps elements: visit(row, column, rows, columns), until that gives something but 0. What it gave.
template <class Visit>
int32_t for_each_kept_part(const char* mask, int64_t outer, int64_t inner, int64_t rows, int64_t columns, Visit visit) {
  constexpr int64_t kNear = 64, kMost = 4096;
  const int64_t high = std::max<int64_t>(1, kNear / columns);
  for (int64_t row = 0; row < rows; row += high) {
    const int64_t some = std::min(high, rows - row);
    int64_t first = 0;  // of the columns that are to be visited
    for (int64_t column = 0; column < columns; column += kNear) {
      const int64_t end = std::min(column + kNear, columns);
      const bool keeps = keeps_any(mask + row * outer + column * inner, outer, inner, some, end - column);
      const int64_t last = keeps ? end : column;
      if (last > first && (!keeps || end == columns || last - first >= kMost)) {
        if (const int32_t given = visit(row, first, some, last - first)) return given;
        first = end;
      } else if (!keeps) {
        first = end;
      }
    }
  }
  return 0;
}

// The routine for elements of that size.
template <template <size_t> class Loaded, size_t element>
RoutineEntry entry_of(const Routine& routine, std::vector<std::unique_ptr<LoadedRoutine>>& owners) {
  owners.push_back(std::make_unique<Loaded<element>>(routine));
  return {&Loaded<element>::call, owners.back().get()};
}

template <template <size_t> class Loaded>
RoutineEntry entry_for(const Routine& routine, std::vector<std::unique_ptr<LoadedRoutine>>& owners) {
  switch (graph::size_of(routine.dtype)) {
    case 1: return entry_of<Loaded, 1>(routine, owners);
    case 2: return entry_of<Loaded, 2>(routine, owners);
    case 4: return entry_of<Loaded, 4>(routine, owners);
    case 8: return entry_of<Loaded, 8>(routine, owners);
    default: return entry_of<Loaded, 16>(routine, owners);
  }
}

}  // namespace evalframe::regions
