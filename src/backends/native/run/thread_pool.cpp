// A few persistent threads for large kernels. OpenMP's pool doesn't survive a fork, hence our own; CPython 3.12 and later warn of
// forks beside threads, hence none is left when one begins.
#include "backends/native/run/thread_pool.h"

#include <pthread.h>
#include <sched.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

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

// Keeps the calling thread off a core that another one needs: a worker that is woken on the caller's core waits until the caller is
// done, and is woken there again. The scheduler would move one of the two after some milliseconds only.
class Elsewhere {
 public:
  void leave(int core) {
    cpu_set_t allowed;
    if (core == left_ || sched_getaffinity(0, sizeof allowed, &allowed) != 0) return;
    if (left_ >= 0) CPU_SET(left_, &allowed);
    CPU_CLR(core, &allowed);
    if (CPU_COUNT(&allowed) && sched_setaffinity(0, sizeof allowed, &allowed) == 0) left_ = core;
  }

 private:
  int left_ = -1;
};

class Pool {
 public:
  // False where another thread's work is on.
  bool run(int pieces, const std::function<void(int)>& task) {
    std::unique_lock turn(turn_, std::try_to_lock);
    if (!turn) return false;
    if (!started_) start();
    {
      const std::lock_guard lock(mutex_);
      task_ = &task;
      for (int t = 0; t < threads_; ++t) {
        shares_[static_cast<size_t>(t)].next = begin_of(t, pieces);
        shares_[static_cast<size_t>(t)].end = begin_of(t + 1, pieces);
      }
      core_ = sched_getcpu();
      ++round_;
    }
    wake_.notify_all();
    take_pieces(task, 0);
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

  // Around a fork: no work is on, and there are no threads. The next run starts them again, in the parent as in the child.
  void begin_fork() {
    turn_.lock();
    stop();
  }
  void end_fork() { turn_.unlock(); }

 private:
  void start() {
    started_ = true;
    try {
      for (int worker = 1; worker < threads_; ++worker) workers_.emplace_back([this, worker, seen = round_.load()] { work(worker, seen); });
    } catch (const std::system_error&) {  // no more threads to be had: those that there are do the work
    }
  }

  void stop() {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
      ++round_;
    }
    wake_.notify_all();
    for (std::thread& worker : workers_) worker.join();
    workers_.clear();
    started_ = stopping_ = false;
  }

  // The pieces of a thread stand side by side and are the same ones each time, so that what a loop writes is in the cache of
  // the core that reads it in the next. Each share begins a cache line of its own.
  struct alignas(64) Share {
    std::atomic<int> next = 0;
    int end = 0;
  };

  int begin_of(int thread, int pieces) const { return static_cast<int>(static_cast<int64_t>(pieces) * thread / threads_); }

  // A thread's own share first, then what the others have left.
  void take_pieces(const std::function<void(int)>& task, int thread) {
    in_task = true;
    for (int i = 0; i < threads_; ++i) {
      Share& share = shares_[static_cast<size_t>((thread + i) % threads_)];
      for (int piece = share.next++; piece < share.end; piece = share.next++) task(piece);
    }
    in_task = false;
  }

  void work(int worker, uint64_t seen) {
    Elsewhere elsewhere;
    std::unique_lock lock(mutex_);
    while (true) {
      lock.unlock();
      look_for([&] { return round_ != seen; });
      lock.lock();
      wake_.wait(lock, [&] { return round_ != seen; });
      if (const int core = core_; core >= 0 && sched_getcpu() == core) {
        lock.unlock();
        elsewhere.leave(core);
        lock.lock();
      }
      seen = round_;
      if (stopping_) return;
      if (!task_) continue;
      const std::function<void(int)>& task = *task_;
      ++active_;
      lock.unlock();
      take_pieces(task, worker);
      lock.lock();
      if (--active_ == 0) done_.notify_all();
    }
  }

  std::mutex turn_;  // guards what follows up to mutex_
  bool started_ = false;
  std::vector<std::thread> workers_;
  std::mutex mutex_;
  bool stopping_ = false;
  std::condition_variable wake_;
  std::condition_variable done_;
  const std::function<void(int)>* task_ = nullptr;
  int core_ = -1;  // the caller's
  const int threads_ = thread_count();
  std::vector<Share> shares_{static_cast<size_t>(threads_)};
  std::atomic<int> active_ = 0;
  std::atomic<uint64_t> round_ = 0;
};

Pool& the_pool() {
  static Pool& pool = *new Pool;  // never destroyed: its threads sleep until the process ends
  static const int registered = pthread_atfork([] { pool.begin_fork(); }, [] { pool.end_fork(); }, [] { pool.end_fork(); });
  (void)registered;
  return pool;
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
