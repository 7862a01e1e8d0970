// Threads for what takes long, such as compiling large loops, while the program goes on.
#pragma once

#include <functional>

namespace evalframe::runtime {

// Runs a task on a thread of its own, under the GIL, which it should give away for what takes long; it must not throw, and goes, with
// what it holds, under the GIL too. False: there is no thread to be had, or the interpreter is about to end; nothing was done.
bool run_in_background(std::function<void()> task);

// Waits until nothing runs in the background, without the GIL meanwhile. A child of os.fork() would have LLVM's lock as the thread held it.
void wait_for_background();
// The same, once and for all: the interpreter ends.
void stop_background();

}  // namespace evalframe::runtime
