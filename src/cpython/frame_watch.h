// Whether Python code runs on the thread meanwhile: finalisers, say, which a C function may call or not.
#pragma once

#include "cpython/hook.h"

namespace evalframe::cpython {

class FrameWatch {
 public:
  FrameWatch();
  ~FrameWatch();
  FrameWatch(const FrameWatch&) = delete;
  FrameWatch& operator=(const FrameWatch&) = delete;
  bool has_seen() const { return !id_ || frames_met() != before_; }

 private:
  HookId id_;
  uint64_t before_;
};

}  // namespace evalframe::cpython
