// A call as a level of Python's recursion.
#pragma once

#include "cpython/frame.h"

namespace evalframe::runtime {

// A captured call is a level of Python's recursion, whoever runs its frame.
class RecursionLevel {
 public:
  explicit RecursionLevel(PyThreadState* thread) : thread_(cpython::enter_recursion(thread) ? thread : nullptr) {}
  ~RecursionLevel() {
    if (thread_) cpython::leave_recursion(thread_);
  }
  RecursionLevel(const RecursionLevel&) = delete;
  RecursionLevel& operator=(const RecursionLevel&) = delete;
  explicit operator bool() const { return thread_ != nullptr; }

 private:
  PyThreadState* const thread_;
};

}  // namespace evalframe::runtime
