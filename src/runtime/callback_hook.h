// A frame hook that asks a Python callback, and what the callback is shown of the frame.
#pragma once

#include <optional>

#include "cpython/hook.h"

namespace evalframe::runtime {

// What a callback sees. Holds nothing of the frame: once the callback has returned it is empty.
struct FrameInfo {
  std::optional<cpython::EntryFrame> frame;
};

// A callback's way to give the result of a call without running it.
struct GivenResult {
  Ref value;
};

// Calls `callback(frame_info)`. None: the frame runs; a code object: it runs instead; a GivenResult: that is the result.
std::shared_ptr<cpython::FrameHook> make_callback_hook(Borrowed callback);

}  // namespace evalframe::runtime
