// New arrays for results, in memory that is used again. Everything here needs the GIL, as NumPy's allocating and freeing does.
#include "backends/native/run/result_memory.h"

#include <malloc.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <utility>
#include <vector>

#include "backends/native/lower/numbers.h"
#include "backends/native/run/arena.h"
#include "frontends/numpy/numpy_api.h"

// PyTraceMalloc_Track, which the headers of 3.11 and 3.12 declare as a function of C++.
extern "C" int evalframe_trace_memory(unsigned domain, uintptr_t address, size_t size) __asm__("PyTraceMalloc_Track");

namespace evalframe::native {
namespace {

// Smaller memory is the C library's: it doesn't go back to the system at each free.
constexpr size_t kSmallest = 32 << 10;
constexpr size_t kPage = 4096;
// Data begins at another multiple of this in its block's first page from block to block, and never at 0. Processors take a load for
// one of what was just stored where the last 12 bits of the addresses agree: where a result stands as far or a little further in
// its page than an array that it is computed of, loops take up to a third longer. NumPy's arrays begin 16 bytes into theirs.
constexpr size_t kStagger = 512;
// From kLarge on, what is kept is the system's whenever it needs memory (MADV_FREE).
constexpr size_t kMostKept = 256 << 20;
constexpr size_t kMostBlocks = 64;
// NumPy's domain in tracemalloc.
constexpr unsigned kTraceDomain = 389047;

struct Block {
  char* base;
  size_t size;
  size_t margin;  // in front of the data, where a copy of this stands
};

class Blocks {
 public:
  char* take(size_t bytes) {
    const size_t size = rounded(bytes + kPage);
    Block block = take_kept(size);
    if (!block.base) block = allocate(size);
    if (!block.base && release(0)) block = allocate(size);
    if (!block.base) return nullptr;
    char* const data = block.base + block.margin;
    std::memcpy(data - sizeof block, &block, sizeof block);
    return data;
  }

  void give(const char* data) {
    const Block block = block_of(data);
    if (block.size > most_) return std::free(block.base);
    release(most_ - block.size);
    if (kept_.size() >= kMostBlocks) drop_oldest();
    if (block.size >= kLarge) madvise(block.base, block.size, MADV_FREE);
    kept_.push_back(block);
    bytes_ += block.size;
  }

  static size_t capacity(const char* data) {
    const Block block = block_of(data);
    return block.size - block.margin;
  }

 private:
  // Steps of an eighth of the next power of two, so that arrays of nearly the same size use the same blocks.
  static size_t rounded(size_t size) {
    const size_t step = std::max(std::bit_ceil(size) / 8, size >= kLarge ? kHugePage : kPage);
    return (size + step - 1) / step * step;
  }

  static Block block_of(const char* data) {
    Block block;
    std::memcpy(&block, data - sizeof block, sizeof block);
    return block;
  }

  Block allocate(size_t size) {
    const bool large = size >= kLarge;
    void* const memory = std::aligned_alloc(large ? kHugePage : kPage, size);
    if (memory && large) madvise(memory, size, MADV_HUGEPAGE);  // advice only
    margin_ = margin_ % (kPage - kStagger) + kStagger;
    return {static_cast<char*>(memory), size, margin_};
  }

  // The block of this size that was given back last, as most of it may still be in the cache.
  Block take_kept(size_t size) {
    for (size_t i = kept_.size(); i-- > 0;) {
      if (kept_[i].size != size) continue;
      const Block block = kept_[i];
      kept_.erase(kept_.begin() + static_cast<std::ptrdiff_t>(i));
      bytes_ -= size;
      return block;
    }
    return {};
  }

  void drop_oldest() {
    bytes_ -= kept_.front().size;
    std::free(kept_.front().base);
    kept_.erase(kept_.begin());
  }

  // Gives the oldest blocks back to the system until at most `bytes` are kept; whether there were any.
  bool release(size_t bytes) {
    const bool any = bytes_ > bytes;
    while (bytes_ > bytes) drop_oldest();
    return any;
  }

  std::vector<Block> kept_;  // oldest first
  size_t bytes_ = 0;
  size_t margin_ = 0;  // of the last block that was allocated
  const size_t most_ = most_kept_memory();
};

// Never destroyed: arrays may be freed after everything else.
Blocks& pool() {
  static Blocks* const made = new Blocks;
  return *made;
}

void* take(void*, size_t size) { return pool().take(size); }

void* take_zeros(void*, size_t count, size_t size) {
  char* const data = pool().take(count * size);
  return data ? std::memset(data, 0, count * size) : nullptr;
}

void give(void*, void* data, size_t) {
  if (data) pool().give(static_cast<char*>(data));
}

void* resize(void*, void* data, size_t size) {
  char* const made = pool().take(size);
  if (!made || !data) return made;
  std::memcpy(made, data, std::min(size, Blocks::capacity(static_cast<char*>(data))));
  pool().give(static_cast<char*>(data));
  return made;
}

PyDataMem_Handler handler = {"evalframe_results", 1, {nullptr, take, take_zeros, resize, give}};

// What NumPy frees and resizes our data by; null with an exception.
PyObject* handler_capsule() {
  static PyObject* const capsule = PyCapsule_New(&handler, "mem_handler", nullptr);
  return capsule;
}

size_t bytes_of(graph::DType dtype, int rank, const int64_t* sizes) {
  size_t bytes = static_cast<size_t>(graph::size_of(dtype));
  for (int i = 0; i < rank; i++) {
    if (__builtin_mul_overflow(bytes, static_cast<size_t>(sizes[i]), &bytes)) return 0;
  }
  return bytes;
}

}  // namespace

Ref new_result(graph::DType dtype, int rank, const int64_t* sizes, const int64_t* strides) {
  static_assert(sizeof(npy_intp) == sizeof(int64_t));
  npy_intp* const dims = reinterpret_cast<npy_intp*>(const_cast<int64_t*>(sizes));
  npy_intp* const steps = reinterpret_cast<npy_intp*>(const_cast<int64_t*>(strides));
  PyArray_Descr* const descr = PyArray_DescrFromType(type_number(dtype));
  const size_t bytes = bytes_of(dtype, rank, sizes);
  const bool own = bytes >= kSmallest && handler_capsule();
  char* const data = own ? pool().take(bytes) : nullptr;
  // Where there is nothing of ours NumPy finds memory itself, or raises.
  Ref array = Ref::steal(PyArray_NewFromDescr(&PyArray_Type, descr, rank, dims, steps, data, data ? NPY_ARRAY_CARRAY : 0, nullptr));
  if (!data) return array;
  if (!array) {
    pool().give(data);
    return array;
  }
  PyArrayObject* const made = array.as<PyArrayObject>();
  reinterpret_cast<PyArrayObject_fields*>(made)->mem_handler = Ref::borrow(handler_capsule()).release();
  PyArray_ENABLEFLAGS(made, NPY_ARRAY_OWNDATA);
  PyArray_UpdateFlags(made, NPY_ARRAY_UPDATE_ALL);
  evalframe_trace_memory(kTraceDomain, reinterpret_cast<uintptr_t>(data), bytes);
  return array;
}

size_t most_kept_memory() {
  const size_t memory = static_cast<size_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<size_t>(sysconf(_SC_PAGESIZE));
  return std::min(kMostKept, memory / 16);
}

void keep_freed_memory() {
#ifdef __GLIBC__
  static bool keeps = false;
  if (std::exchange(keeps, true)) return;
  for (const char* name : {"MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_", "GLIBC_TUNABLES"}) {
    if (std::getenv(name)) return;
  }
  // What glibc's own adjustment comes to when a program has freed an array of that size.
  constexpr int kLargestArray = 32 << 20;
  mallopt(M_MMAP_THRESHOLD, kLargestArray);
  mallopt(M_TRIM_THRESHOLD, 2 * kLargestArray);
#endif
}

}  // namespace evalframe::native
