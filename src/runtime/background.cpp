#include "runtime/background.h"

#include <Python.h>

#include <condition_variable>
#include <mutex>
#include <system_error>
#include <thread>

#include "backends/native/machine/llvm.h"

namespace evalframe::runtime {

namespace {

struct Running {
  std::mutex mutex;
  std::condition_variable less;
  int count = 0;
  bool stopped = false;
};

// Never destroyed: a thread may be about to end when the process does.
Running& running() {
  static Running& running = *new Running;
  return running;
}

void end_one() {
  const std::lock_guard lock(running().mutex);
  running().count--;
  running().less.notify_all();
}

}  // namespace

bool run_in_background(std::function<void()> task) {
  {
    const std::lock_guard lock(running().mutex);
    if (running().stopped) return false;
    running().count++;
  }
  try {
    std::thread([task = std::move(task)]() mutable {
      const PyGILState_STATE state = PyGILState_Ensure();
      task();
      task = nullptr;
      PyGILState_Release(state);
      end_one();
    }).detach();
  } catch (const std::system_error&) {
    return end_one(), false;
  }
  return true;
}

void wait_for_background() {
  PyThreadState* const thread = PyEval_SaveThread();
  native::wait_for_llvm();
  {
    std::unique_lock lock(running().mutex);
    running().less.wait(lock, [] { return running().count == 0; });
  }
  PyEval_RestoreThread(thread);
}

void stop_background() {
  {
    const std::lock_guard lock(running().mutex);
    running().stopped = true;
  }
  wait_for_background();
}

}  // namespace evalframe::runtime
