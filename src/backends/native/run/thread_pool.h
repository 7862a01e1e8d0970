// A few persistent threads for large kernels; safe to fork.
#pragma once

#include <functional>

namespace evalframe::native {

// EVALFRAME_NUM_THREADS, else OMP_NUM_THREADS, else the CPUs that this process may use.
int thread_count();

// Inside a task that may be another thread's as well: the caller of parallel_for waits, maybe with the GIL.
bool inside_task();
// thread_count, or 1 inside a task.
int threads_here();

// Runs task(0) .. task(pieces - 1), each once, and returns when all are done. The caller works too. Where the pool is busy with
// another caller's work, the caller does everything itself. The tasks must not throw.
void parallel_for(int pieces, const std::function<void(int)>& task);

}  // namespace evalframe::native
