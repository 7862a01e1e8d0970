// Whole-program capture: a frame hook that serves every eligible function of the thread through a Capture of its own.
#pragma once

#include <memory>

#include "cpython/hook.h"
#include "runtime/capture.h"

namespace evalframe::runtime {

// Installs the hook for this thread, or for all; 0 with an exception. Removed by cpython::remove_frame_hook.
cpython::HookId enable(Settings settings, bool all_threads = false);

}  // namespace evalframe::runtime
