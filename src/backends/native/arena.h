// Scratch memory of a thread for one run after the other: taken in order, given back in one go.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <memory>
#include <vector>

namespace evalframe::native {

class Arena {
 public:
  // The calling thread's.
  static Arena& current();

  // Takes memory until the end of its life. Nests: Python code that runs meanwhile may run another graph.
  class Scope {
   public:
    explicit Scope(Arena& arena) : arena_(arena), block_(arena.block_), used_(arena.used_) {}
    ~Scope() { arena_.rewind(block_, used_); }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;
    template <class T>
    T* take(size_t count) {
      return static_cast<T*>(arena_.take(count * sizeof(T)));
    }

   private:
    Arena& arena_;
    size_t block_, used_;
  };

 private:
  struct Free {
    void operator()(std::byte* memory) const { std::free(memory); }
  };
  struct Block {
    std::unique_ptr<std::byte, Free> memory;
    size_t size;
  };
  static Block make_block(size_t size);
  void* take(size_t size);
  void rewind(size_t block, size_t used);

  std::vector<Block> blocks_;
  size_t block_ = 0;  // the one in use
  size_t used_ = 0;   // bytes of it
};

}  // namespace evalframe::native
