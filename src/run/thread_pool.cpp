#include "run/thread_pool.h"

namespace emend {
namespace {

inline void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

constexpr int kSpins = 1 << 12;             // before a waiting thread lets others run
constexpr int kSpinsBeforeSleep = 1 << 16;  // some milliseconds

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

ThreadPool::ThreadPool(int threads) {
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
    call_.function(call_.work, thread);
    left_.fetch_sub(1, std::memory_order_release);
  }
}

}  // namespace emend
