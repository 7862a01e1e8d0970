// A few persistent threads for large kernels. OpenMP's pool doesn't survive a fork, hence our own.
#include "backends/native/run/thread_pool.h"

#include <pthread.h>
#include <sched.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <mutex>
#include <thread>

namespace evalframe::native {
namespace {

thread_local bool in_task = false;

// How long a thread looks for what it waits for before it sleeps: waking one takes as long, and a program's loops follow on each other.
constexpr std::chrono::microseconds kLook{20};

template <class Condition>
void look_for(Condition holds) {
  const auto end = std::chrono::steady_clock::now() + kLook;
  while (!holds() && std::chrono::steady_clock::now() < end) {
    for (int i = 0; i < 16 && !holds(); ++i) __builtin_ia32_pause();
  }
}

class Pool {
 public:
  explicit Pool(int workers) {
    for (int i = 0; i < workers; ++i) std::thread([this] { work(); }).detach();
  }

  // False where another thread's work is on.
  bool run(int pieces, const std::function<void(int)>& task) {
    std::unique_lock turn(turn_, std::try_to_lock);
    if (!turn) return false;
    {
      const std::lock_guard lock(mutex_);
      task_ = &task;
      pieces_ = pieces;
      next_ = 0;
      ++round_;
    }
    wake_.notify_all();
    take_pieces(task, pieces);
    std::unique_lock lock(mutex_);
    task_ = nullptr;  // a worker that wakes late finds nothing to do
    if (active_ != 0) {
      lock.unlock();
      look_for([this] { return active_ == 0; });
      lock.lock();
    }
    done_.wait(lock, [this] { return active_ == 0; });
    return true;
  }

 private:
  void take_pieces(const std::function<void(int)>& task, int pieces) {
    in_task = true;
    for (int piece = next_++; piece < pieces; piece = next_++) task(piece);
    in_task = false;
  }

  void work() {
    uint64_t seen = 0;
    std::unique_lock lock(mutex_);
    while (true) {
      lock.unlock();
      look_for([&] { return round_ != seen; });
      lock.lock();
      wake_.wait(lock, [&] { return round_ != seen; });
      seen = round_;
      if (!task_) continue;
      const std::function<void(int)>& task = *task_;
      const int pieces = pieces_;
      ++active_;
      lock.unlock();
      take_pieces(task, pieces);
      lock.lock();
      if (--active_ == 0) done_.notify_all();
    }
  }

  std::mutex turn_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::condition_variable done_;
  const std::function<void(int)>* task_ = nullptr;
  int pieces_ = 0;
  std::atomic<int> next_ = 0;
  std::atomic<int> active_ = 0;
  std::atomic<uint64_t> round_ = 0;
};

std::mutex creation;
Pool* pool = nullptr;  // never destroyed: its threads sleep until the process ends

// A child of fork has none of the threads, and maybe a lock that was held: it starts over.
void forget_pool() {
  new (&creation) std::mutex;
  pool = nullptr;
}

Pool& the_pool() {
  const std::lock_guard lock(creation);
  static const int registered = pthread_atfork(nullptr, nullptr, forget_pool);
  (void)registered;
  if (!pool) pool = new Pool(thread_count() - 1);
  return *pool;
}

int count_threads() {
  for (const char* name : {"EVALFRAME_NUM_THREADS", "OMP_NUM_THREADS"}) {
    const char* value = std::getenv(name);
    const int wanted = value ? std::atoi(value) : 0;
    if (wanted > 0) return wanted < 256 ? wanted : 256;
  }
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0) return CPU_COUNT(&set);
  const unsigned cores = std::thread::hardware_concurrency();
  return cores ? static_cast<int>(cores) : 1;
}

}  // namespace

int thread_count() {
  static const int count = count_threads();
  return count;
}

bool inside_task() { return in_task; }

int threads_here() { return in_task ? 1 : thread_count(); }

void parallel_for(int pieces, const std::function<void(int)>& task) {
  if (pieces > 1 && threads_here() > 1 && the_pool().run(pieces, task)) return;
  for (int piece = 0; piece < pieces; ++piece) task(piece);
}

}  // namespace evalframe::native
