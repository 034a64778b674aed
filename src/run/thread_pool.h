// Threads that run one function together, with barriers that spin: a step of a program lasts
// microseconds, and waking a sleeping thread costs more than that. Workers sleep when nothing came
// for a while.
#pragma once

#include <atomic>
#include <thread>
#include <vector>

namespace emend {

// All of `threads` must arrive before any passes.
class SpinBarrier {
 public:
  explicit SpinBarrier(int threads) : threads_(threads) {}
  void wait();

 private:
  const int threads_;
  std::atomic<int> arrived_{0};
  std::atomic<uint32_t> round_{0};
};

class ThreadPool {
 public:
  explicit ThreadPool(int threads);
  ~ThreadPool();
  int threads() const { return static_cast<int>(workers_.size()) + 1; }

  // Calls work(thread) on every thread, the caller being thread 0, and waits for all. False, with
  // nothing done, if another caller is at it.
  template <class Work>
  bool try_run(Work& work) {
    return try_run({[](void* w, int thread) { (*static_cast<Work*>(w))(thread); }, &work});
  }

 private:
  // Not a std::function, which may allocate.
  struct Call {
    void (*function)(void* work, int thread) = nullptr;
    void* work = nullptr;
  };
  bool try_run(Call call);
  void serve(int thread);
  std::atomic_flag busy_;
  Call call_;
  std::atomic<uint32_t> round_{0};
  std::atomic<int> left_{0};
  std::atomic<bool> stop_{false};
  std::vector<std::thread> workers_;
};

}  // namespace emend
