// MadeOnce is made at its first use by what may give the interpreter's lock away. A static's initialiser may not: a thread that
// waits for the static would hold that lock meanwhile. Two threads may both make it here; one is kept, to the process's end.
#pragma once

#include <atomic>

namespace evalframe {

template <class T> class MadeOnce {
 public:
  constexpr MadeOnce() = default;

  template <class Make> const T& get(Make make) {
    if (const T* const there = made_.load(std::memory_order_acquire)) return *there;
    auto* const mine = new T(make());
    const T* other = nullptr;
    if (made_.compare_exchange_strong(other, mine, std::memory_order_acq_rel)) return *mine;
    delete mine;
    return *other;
  }

 private:
  std::atomic<const T*> made_{nullptr};
};

}  // namespace evalframe
