// Parts of arrays that a native loop stores again and again: what was there is kept once from one checkpoint to the next.
#pragma once

#include <cstdint>

#include "regions/type.h"

namespace evalframe::regions {

struct LogEntry;

// Of an array whose last axis has gaps: with one more, which has one element.
inline constexpr int kMostAxes = kMostDimensions + 1;

// A part that was stored: rows of neighbours.
struct Part {
  char* data;
  int64_t rank, sizes[kMostAxes], strides[kMostAxes];  // elements, bytes
  char* kept;       // what was there
  int64_t in_vain;  // how often it was kept, one time behind the other, and not stored again before the next checkpoint
};

inline constexpr int kMostParts = 32;
inline constexpr int64_t kRoomForParts = int64_t{4} << 20;

// Of one run of a loop.
struct PartLog {
  uint64_t kept = 0;  // since the checkpoint, a bit for each of the parts: checkpoints set it to 0
  uint64_t asks = 1;  // 0: more were stored that weren't before than are remembered, so that nothing is asked any more
  int64_t unknown = 0;  // of them, one behind the other
  char* room = nullptr;
  int64_t used = 0;
  int count = 0, next = 0;
  const char* begins[kMostParts];  // where the elements of each are
  Part parts[kMostParts];
};

// Sees to it that the part may be stored into, as what is there can be put back. axes: sizes and bytes of its axes. Gives the new end of the log; null: it isn't
// so, as there is no room, or nothing says that the part is stored more often than a checkpoint is made: keeping it would take as long as copying
// what is stored. is_due: a checkpoint follows anyway, so that the part is only remembered.
LogEntry* log_part(PartLog* parts, LogEntry* end, char* data, const int64_t* axes, int64_t rank, bool is_due);
void put_back(const Part& part);

}  // namespace evalframe::regions
