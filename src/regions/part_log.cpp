#include "regions/part_log.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "regions/block.h"
#include "regions/region.h"

namespace evalframe::regions {

namespace {

constexpr int64_t kMostInVain = 8;

template <class Visit>
void for_each_row(char* data, const int64_t* sizes, const int64_t* strides, int64_t rank, const Visit& visit) {
  if (rank == 1) return visit(data, static_cast<size_t>(*sizes * *strides));
  for (int64_t i = 0; i < *sizes; i++) for_each_row(data + i * *strides, sizes + 1, strides + 1, rank - 1, visit);
}

// -1: more than a kernel of the loop may have.
int64_t count_of(const int64_t* sizes, int64_t rank) {
  int64_t count = 1;
  for (int64_t axis = 0; axis < rank; axis++) {
    if (sizes[axis] > kManyElements || (count *= sizes[axis]) > kManyElements) return -1;
  }
  return count;
}

bool is_same(const Part& part, const int64_t* axes, int64_t rank) {
  return part.rank == rank && std::equal(axes, axes + rank, part.sizes) && std::equal(axes + rank, axes + 2 * rank, part.strides);
}

// In the place of one that isn't kept now.
void remember(PartLog& parts, char* data, const int64_t* axes, int64_t rank) {
  constexpr uint64_t kAll = (uint64_t{1} << kMostParts) - 1;
  if (parts.kept == kAll) return;
  while (parts.kept >> parts.next & 1) parts.next = (parts.next + 1) % kMostParts;
  parts.begins[parts.next] = data;
  Part& part = parts.parts[parts.next];
  parts.count = std::max(parts.count, parts.next + 1);
  parts.next = (parts.next + 1) % kMostParts;
  part = {.data = data, .rank = rank};
  std::copy_n(axes, rank, part.sizes);
  std::copy_n(axes + rank, rank, part.strides);
}

bool keep(PartLog& parts, Part& part, int64_t bytes) {
  if (!parts.kept) parts.used = 0;
  if (part.in_vain == kMostInVain || bytes > kRoomForParts - parts.used) return false;
  char* to = part.kept = parts.room + parts.used;
  for_each_row(part.data, part.sizes, part.strides, part.rank, [&](const char* row, size_t size) {
    std::memcpy(to, row, size);
    to += size;
  });
  parts.used += bytes;
  part.in_vain++;
  return true;
}

}  // namespace

LogEntry* log_part(PartLog* parts, LogEntry* end, char* data, const int64_t* axes, int64_t rank, bool is_due) {
  const int64_t count = count_of(axes, rank), bytes = count * axes[2 * rank - 1];
  if (count < 0 || (count == 0 && is_due)) return nullptr;
  if (count == 0) return end;
  Part* const all = parts->parts;
  Part* part = all;
  while (part != all + parts->count && !(parts->begins[part - all] == data && is_same(*part, axes, rank))) part++;
  if (part == all + parts->count) {
    remember(*parts, data, axes, rank);
    parts->asks = ++parts->unknown < kMostParts;
    return nullptr;
  }
  parts->unknown = 0;
  if (is_due) return nullptr;
  const uint64_t bit = uint64_t{1} << (part - all);
  if (parts->kept & bit) {
    part->in_vain = 0;
    return end;
  }
  if (!keep(*parts, *part, bytes)) return nullptr;
  parts->kept |= bit;
  *end = {std::bit_cast<uint64_t>(part) | kPartOfArray << kLogSizeShift, 0};
  return end + 1;
}

void put_back(const Part& part) {
  const char* from = part.kept;
  for_each_row(part.data, part.sizes, part.strides, part.rank, [&](char* row, size_t size) {
    std::memcpy(row, from, size);
    from += size;
  });
}

}  // namespace evalframe::regions
