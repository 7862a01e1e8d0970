// Scratch memory of a thread: blocks that stay for the next run, so that temporaries find warm pages.
#include "backends/native/arena.h"

#include <sys/mman.h>

#include <algorithm>
#include <new>

namespace evalframe::native {

namespace {
constexpr size_t kAlignment = 64;
constexpr size_t kFirstBlock = 64 << 10;
// What a thread keeps when no run is active.
constexpr size_t kKept = 64 << 20;
// Large blocks are new to the process at every run: with small pages the page faults would cost more than the computation.
constexpr size_t kLarge = 4 << 20;
constexpr size_t kHugePage = 2 << 20;

size_t align(size_t size) { return (size + kAlignment - 1) & ~(kAlignment - 1); }
}  // namespace

Arena& Arena::current() {
  static thread_local Arena arena;
  return arena;
}

Arena::Block Arena::make_block(size_t size) {
  const bool large = size >= kLarge;
  const size_t alignment = large ? kHugePage : kAlignment;
  size = (size + alignment - 1) & ~(alignment - 1);
  std::byte* const memory = static_cast<std::byte*>(std::aligned_alloc(alignment, size));
  if (!memory) throw std::bad_alloc();
  // Advice only: where it can't be taken, nothing is lost.
  if (large) madvise(memory, size, MADV_HUGEPAGE);
  return {std::unique_ptr<std::byte, Free>(memory), size};
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
  blocks_.push_back(make_block(std::max(size + kAlignment, blocks_.empty() ? kFirstBlock : 2 * blocks_.back().size)));
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
