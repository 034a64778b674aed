// Threads that run one function together, with barriers that spin: a step of a program lasts
// microseconds, and waking a sleeping thread costs more than that. Workers sleep when nothing came
// for a while.
//
// Threads that wait by spinning must not share a processor, and a scheduler may put them on one:
// where another process keeps the second of two, both spun on the first for as long as they ran,
// 14 times as slow. So a worker that finds itself where an earlier thread of the pool is, goes
// elsewhere. The caller's own thread is the caller's: it is never moved.
#pragma once

#include <atomic>
#include <memory>
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
  void keep_apart(int thread);
  std::atomic_flag busy_;
  Call call_;
  std::atomic<uint32_t> round_{0};
  std::atomic<int> left_{0};
  std::atomic<bool> stop_{false};
  // Where threads last were, and where the process may be; before `workers_`, which read them.
  std::unique_ptr<std::atomic<int>[]> processors_;
  std::vector<int> allowed_;
  std::vector<std::thread> workers_;
};

}  // namespace emend
