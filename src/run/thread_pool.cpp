#include "run/thread_pool.h"

#if defined(__linux__)
#include <sched.h>
#endif

namespace emend {
namespace {

inline void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

constexpr int kSpins = 1 << 12;             // before a waiting thread lets others run
constexpr int kSpinsBeforeSleep = 1 << 16;  // some milliseconds

#if defined(__linux__)
int this_processor() {
  return sched_getcpu();
}

std::vector<int> allowed_processors() {
  std::vector<int> all;
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) != 0) return all;
  for (int p = 0; p < CPU_SETSIZE; ++p) {
    if (CPU_ISSET(p, &set)) all.push_back(p);
  }
  return all;
}

// To any of them that is free, if one is. If it fails, the thread stays: slow, not wrong. Nothing
// is allocated: this happens while a program runs.
template <class Free>
void move_to_one_of(const std::vector<int>& processors, const Free& free) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (int p : processors) {
    if (free(p)) CPU_SET(p, &set);
  }
  if (CPU_COUNT(&set) > 0) sched_setaffinity(0, sizeof set, &set);
}
#else
int this_processor() {
  return -1;
}
std::vector<int> allowed_processors() {
  return {};
}
template <class Free>
void move_to_one_of(const std::vector<int>&, const Free&) {}
#endif

}  // namespace

void SpinBarrier::wait() {
  uint32_t round = round_.load(std::memory_order_relaxed);
  if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == threads_) {
    arrived_.store(0, std::memory_order_relaxed);
    round_.store(round + 1, std::memory_order_release);
    return;
  }
  for (int spin = 0; round_.load(std::memory_order_acquire) == round; ++spin) {
    spin < kSpins ? relax() : std::this_thread::yield();
  }
}

ThreadPool::ThreadPool(int threads)
    : processors_(std::make_unique<std::atomic<int>[]>(static_cast<size_t>(threads))),
      allowed_(allowed_processors()) {
  for (int t = 0; t < threads; ++t) processors_[static_cast<size_t>(t)] = -1;
  for (int t = 1; t < threads; ++t) workers_.emplace_back([this, t] { serve(t); });
}

ThreadPool::~ThreadPool() {
  stop_ = true;
  round_.fetch_add(1);
  round_.notify_all();
  for (std::thread& w : workers_) w.join();
}

bool ThreadPool::try_run(Call call) {
  if (busy_.test_and_set(std::memory_order_acquire)) return false;
  call_ = call;
  processors_[0].store(this_processor(), std::memory_order_relaxed);
  left_.store(static_cast<int>(workers_.size()), std::memory_order_relaxed);
  round_.fetch_add(1, std::memory_order_release);
  round_.notify_all();
  call.function(call.work, 0);
  for (int spin = 0; left_.load(std::memory_order_acquire) != 0; ++spin) {
    spin < kSpins ? relax() : std::this_thread::yield();
  }
  busy_.clear(std::memory_order_release);
  return true;
}

// Earlier threads stay, later ones go where no other was seen, if there is such a place.
void ThreadPool::keep_apart(int thread) {
  const int here = this_processor();
  auto used_by = [&](int threads, int processor) {
    for (int t = 0; t < threads; ++t) {
      auto at = static_cast<size_t>(t);
      if (processors_[at].load(std::memory_order_relaxed) == processor) return true;
    }
    return false;
  };
  auto& own = processors_[static_cast<size_t>(thread)];
  if (own.load(std::memory_order_relaxed) != here) own.store(here, std::memory_order_relaxed);
  if (here < 0 || !used_by(thread, here)) return;
  move_to_one_of(allowed_, [&](int processor) { return !used_by(threads(), processor); });
  own.store(this_processor(), std::memory_order_relaxed);
}

void ThreadPool::serve(int thread) {
  uint32_t seen = 0;
  for (;;) {
    uint32_t now;
    for (int spin = 0; (now = round_.load(std::memory_order_acquire)) == seen; ++spin) {
      if (spin < kSpinsBeforeSleep) {
        relax();
      } else {
        round_.wait(seen);
      }
    }
    seen = now;
    if (stop_) return;
    keep_apart(thread);
    call_.function(call_.work, thread);
    left_.fetch_sub(1, std::memory_order_release);
  }
}

}  // namespace emend
