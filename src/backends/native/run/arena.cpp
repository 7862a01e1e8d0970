// Scratch memory of a thread: blocks that stay for the next run, so that temporaries find warm pages.
#include "backends/native/run/arena.h"

#include <sys/mman.h>

#include <algorithm>
#include <new>

#include "backends/native/run/result_memory.h"

namespace evalframe::native {

namespace {
constexpr size_t kFirstBlock = 64 << 10;
// Large blocks are new to the process at every run: with small pages the page faults would cost more than the computation.
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

void Arena::enter(size_t block) {
  block_ = block;
  next_ = blocks_[block].memory.get();
  end_ = next_ + blocks_[block].size;
}

// From the next block that has room, made if there is none. Blocks begin at the widest alignment.
void* Arena::take_elsewhere(size_t size) {
  size_t block = next_ ? block_ + 1 : 0;
  while (block < blocks_.size() && blocks_[block].size < size) block++;
  if (block == blocks_.size()) blocks_.push_back(make_block(std::max(size, blocks_.empty() ? kFirstBlock : 2 * blocks_.back().size)));
  enter(block);
  void* const start = next_;
  next_ += size;
  return start;
}

// next null: nothing was taken when the scope began.
void Arena::return_to(size_t block, std::byte* next) {
  if (blocks_.empty()) return;
  if (next) {
    enter(block);
    next_ = next;
    return;
  }
  static const size_t most = most_kept_memory();  // by a thread when no run is active
  size_t kept = 0, count = 0;
  for (; count < blocks_.size() && kept + blocks_[count].size <= most; count++) kept += blocks_[count].size;
  blocks_.resize(std::max<size_t>(count, 1));
  block_ = 0;
  next_ = end_ = nullptr;
}

}  // namespace evalframe::native
