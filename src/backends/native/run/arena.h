// Scratch memory of a thread for one run after the other: taken in order, given back in one go.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <vector>

namespace evalframe::native {

// Bytes from which memory is worth pages of that many bytes.
inline constexpr size_t kLarge = 4 << 20, kHugePage = 2 << 20;

class Arena {
 public:
  // The calling thread's.
  static Arena& current();

  // Takes memory until the end of its life. Nests: Python code that runs meanwhile may run another graph.
  class Scope {
   public:
    explicit Scope(Arena& arena) : arena_(arena), block_(arena.block_), next_(arena.next_) {}
    ~Scope() { arena_.rewind(block_, next_); }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;
    // Bytes are elements of arrays, which get cache lines of their own.
    template <class T>
    T* take(size_t count) {
      return static_cast<T*>(arena_.take(count * sizeof(T), sizeof(T) == 1 ? kAlignment : alignof(std::max_align_t)));
    }

   private:
    Arena& arena_;
    size_t block_;
    std::byte* next_;
  };

 private:
  struct Free {
    void operator()(std::byte* memory) const { std::free(memory); }
  };
  struct Block {
    std::unique_ptr<std::byte, Free> memory;
    size_t size;
  };
  static constexpr size_t kAlignment = 64;
  static Block make_block(size_t size);
  void* take(size_t size, size_t alignment) {
    const auto start = (reinterpret_cast<uintptr_t>(next_) + alignment - 1) & ~(alignment - 1);
    if (!next_ || size > reinterpret_cast<uintptr_t>(end_) - start) return take_elsewhere(size);
    next_ = reinterpret_cast<std::byte*>(start + size);
    return reinterpret_cast<void*>(start);
  }
  void rewind(size_t block, std::byte* next) {
    if (block == block_ && next) next_ = next;
    else return_to(block, next);
  }
  void* take_elsewhere(size_t size);
  void return_to(size_t block, std::byte* next);
  void enter(size_t block);

  std::vector<Block> blocks_;
  size_t block_ = 0;            // the one in use
  std::byte* next_ = nullptr;   // its free part
  std::byte* end_ = nullptr;
};

}  // namespace evalframe::native
