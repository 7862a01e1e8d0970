// Held shares an object among its holders by a plain count: all of them run under the GIL, so no atomics are paid for.
#pragma once

#include <cstdint>
#include <utility>

namespace evalframe {

// Base of what can be held.
class Holdable {
 public:
  Holdable() = default;
  Holdable(const Holdable&) = delete;
  Holdable& operator=(const Holdable&) = delete;
  uint32_t holders() const { return holders_; }

 private:
  template <class T>
  friend class Held;
  uint32_t holders_ = 0;
};

template <class T>
class Held {
 public:
  Held() = default;
  explicit Held(T* object) : object_(object) {
    if (object_) object_->holders_++;
  }
  Held(const Held& other) : Held(other.object_) {}
  Held(Held&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  Held& operator=(Held other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  ~Held() {
    if (object_ && --object_->holders_ == 0) delete object_;
  }
  T* get() const { return object_; }
  T* operator->() const { return object_; }
  T& operator*() const { return *object_; }
  explicit operator bool() const { return object_ != nullptr; }

 private:
  T* object_ = nullptr;
};

}  // namespace evalframe
