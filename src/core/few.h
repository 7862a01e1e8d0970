// A vector whose first elements take no memory of their own: for what a call needs for a moment, and mostly little of.
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <type_traits>
#include <utility>

namespace evalframe {

// N: how many elements have their place in the object itself. Elements move when it grows beyond that, as in std::vector.
template <class T, size_t N>
class Few {
  static_assert(std::is_nothrow_move_constructible_v<T>);

 public:
  Few() {}  // nothing is set to zero
  explicit Few(size_t count) { resize(count); }
  Few(Few&& other) noexcept { take(other); }
  Few& operator=(Few&& other) noexcept {
    if (this == &other) return *this;
    release();
    take(other);
    return *this;
  }
  ~Few() { release(); }

  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  T* data() { return items_; }
  const T* data() const { return items_; }
  T* begin() { return items_; }
  T* end() { return items_ + size_; }
  const T* begin() const { return items_; }
  const T* end() const { return items_ + size_; }
  T& operator[](size_t i) { return items_[i]; }
  const T& operator[](size_t i) const { return items_[i]; }
  T& back() { return items_[size_ - 1]; }

  void reserve(size_t count) {
    if (count > room_) grow(count);
  }
  template <class... Arguments>
  T& emplace_back(Arguments&&... arguments) {
    if (size_ == room_) [[unlikely]] grow(2 * room_);
    return *new (items_ + size_++) T{std::forward<Arguments>(arguments)...};
  }
  void push_back(T&& item) { emplace_back(std::move(item)); }
  void push_back(const T& item) { emplace_back(item); }
  void pop_back() { items_[--size_].~T(); }
  // New elements are as T() makes them; those of types without a constructor have no value yet.
  void resize(size_t count) {
    reserve(count);
    while (size_ > count) pop_back();
    std::uninitialized_default_construct(items_ + size_, items_ + count);
    size_ = count;
  }
  void clear() {
    const size_t count = std::exchange(size_, 0);
    std::destroy(items_, items_ + count);
  }

 private:
  T* in_place() { return reinterpret_cast<T*>(in_place_); }
  [[gnu::noinline]] void grow(size_t room) {
    T* const items = std::allocator<T>().allocate(room);
    std::uninitialized_move(items_, items_ + size_, items);
    std::destroy(items_, items_ + size_);
    free_memory();
    items_ = items;
    room_ = room;
  }
  void take(Few& other) {
    if (other.items_ != other.in_place()) {
      items_ = std::exchange(other.items_, other.in_place());
      room_ = std::exchange(other.room_, N);
      size_ = std::exchange(other.size_, 0);
      return;
    }
    std::uninitialized_move(other.items_, other.items_ + other.size_, items_);
    size_ = other.size_;
    other.clear();
  }
  void free_memory() {
    if (items_ != in_place()) std::allocator<T>().deallocate(items_, room_);
  }
  // Of an object that is about to be filled anew, or to go.
  void release() {
    clear();
    free_memory();
    items_ = in_place();
    room_ = N;
  }

  alignas(T) std::byte in_place_[N * sizeof(T)];
  T* items_ = in_place();
  size_t size_ = 0, room_ = N;
};

}  // namespace evalframe
