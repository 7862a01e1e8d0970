// Ref owns a reference to a Python object, Borrowed does not: ownership is in the type, not in a comment.
#pragma once

#include <Python.h>

#include <utility>

namespace evalframe {

// A non-owning pointer to a Python object; may be null.
class Borrowed {
 public:
  constexpr Borrowed() = default;
  constexpr Borrowed(PyObject* object) : object_(object) {}
  template <class T>
    requires(!std::is_same_v<T, PyObject>)
  Borrowed(T* object) : object_(reinterpret_cast<PyObject*>(object)) {}
  PyObject* get() const { return object_; }
  template <class T>
  T* as() const {
    return reinterpret_cast<T*>(object_);
  }
  explicit operator bool() const { return object_ != nullptr; }
  bool operator==(const Borrowed&) const = default;

 private:
  PyObject* object_ = nullptr;
};

// An owning pointer to a Python object; may be null. Move-only: a copy is written as Ref::borrow(other.get()).
class Ref {
 public:
  constexpr Ref() = default;
  // Takes over a reference that the caller owns (a "new reference" of the C API).
  static Ref steal(PyObject* object) { return Ref(object); }
  template <class T>
    requires(!std::is_same_v<T, PyObject>)
  static Ref steal(T* object) {
    return Ref(reinterpret_cast<PyObject*>(object));
  }
  // Makes a reference of its own.
  static Ref borrow(PyObject* object) {
    Py_XINCREF(object);
    return Ref(object);
  }
  template <class T>
    requires(!std::is_same_v<T, PyObject>)
  static Ref borrow(T* object) {
    return borrow(reinterpret_cast<PyObject*>(object));
  }
  static Ref borrow(Borrowed object) { return borrow(object.get()); }
  Ref(Ref&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  Ref& operator=(Ref&& other) noexcept {
    // The old reference goes last: dropping it can run any Python code.
    PyObject* old = std::exchange(object_, std::exchange(other.object_, nullptr));
    Py_XDECREF(old);
    return *this;
  }
  Ref(const Ref&) = delete;
  Ref& operator=(const Ref&) = delete;
  ~Ref() { Py_XDECREF(object_); }

  PyObject* get() const { return object_; }
  template <class T>
  T* as() const {
    return reinterpret_cast<T*>(object_);
  }
  explicit operator bool() const { return object_ != nullptr; }
  // Gives the reference to the caller.
  [[nodiscard]] PyObject* release() { return std::exchange(object_, nullptr); }
  void reset() { *this = Ref(); }

 private:
  explicit Ref(PyObject* object) : object_(object) {}
  PyObject* object_ = nullptr;
};

// What an array of Refs holds, as the C API wants it.
inline PyObject* const* pointers(const Ref* refs) {
  static_assert(sizeof(Ref) == sizeof(PyObject*));
  return reinterpret_cast<PyObject* const*>(refs);
}

}  // namespace evalframe
