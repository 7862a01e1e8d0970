// Scratch memory of a thread: blocks that stay for the next run, so that temporaries find warm pages.
#include "backends/native/arena.h"

#include <algorithm>

namespace evalframe::native {

namespace {
constexpr size_t kAlignment = 64;
constexpr size_t kFirstBlock = 64 << 10;
// What a thread keeps when no run is active.
constexpr size_t kKept = 64 << 20;

size_t align(size_t size) { return (size + kAlignment - 1) & ~(kAlignment - 1); }
}  // namespace

Arena& Arena::current() {
  static thread_local Arena arena;
  return arena;
}

void* Arena::take(size_t size) {
  size = align(size);
  while (block_ < blocks_.size()) {
    std::byte* const base = blocks_[block_].memory.get();
    const size_t start = align(reinterpret_cast<size_t>(base) + used_) - reinterpret_cast<size_t>(base);
    if (start + size <= blocks_[block_].size) {
      used_ = start + size;
      return base + start;
    }
    block_++;
    used_ = 0;
  }
  const size_t grown = std::max(size + kAlignment, blocks_.empty() ? kFirstBlock : 2 * blocks_.back().size);
  // Not make_unique: it would clear the memory.
  blocks_.push_back({std::unique_ptr<std::byte[]>(new std::byte[grown]), grown});
  return take(size);
}

void Arena::rewind(size_t block, size_t used) {
  block_ = block;
  used_ = used;
  if (block_ || used_) return;
  size_t kept = 0, count = 0;
  for (; count < blocks_.size() && kept + blocks_[count].size <= kKept; count++) kept += blocks_[count].size;
  blocks_.resize(std::max<size_t>(count, blocks_.empty() ? 0 : 1));
}

}  // namespace evalframe::native
