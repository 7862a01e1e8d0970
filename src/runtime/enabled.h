// Whole-program capture: a frame hook that serves every eligible function of the thread through a Capture of its own.
#pragma once

#include <memory>

#include "cpython/hook.h"
#include "runtime/capture.h"

namespace evalframe::runtime {

// Installs the hook for this thread, or for all; 0 with an exception. Removed by cpython::remove_frame_hook.
cpython::HookId enable(Settings settings, bool all_threads = false);

// From now on what was captured of modules' bodies is kept behind their end, as long as the hook is there: whoever tells of a run asks
// at its end. Else it goes with the body, which no call can begin again.
void keep_modules(bool on);

}  // namespace evalframe::runtime
