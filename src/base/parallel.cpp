#include "base/parallel.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace emend {
namespace {

std::atomic<int> g_threads{0};
thread_local bool t_inside = false;  // nested calls run in place

int machine_threads() {
  if (const char* text = std::getenv("EMEND_THREADS")) {
    if (int n = std::atoi(text); n > 0) return n;
  }
  // Asked once: the answer comes from a file, and loops of microseconds ask, too.
  static const auto kCores = static_cast<int>(std::thread::hardware_concurrency());
  return std::max(1, kCores);
}

}  // namespace

void set_thread_count(int n) {
  g_threads = n;
}

int thread_count() {
  int n = g_threads;
  return n > 0 ? n : machine_threads();
}

void parallel_for(int64_t n, int64_t grain, const std::function<void(int64_t, int64_t)>& body) {
  if (n <= 0) return;
  grain = std::max<int64_t>(grain, 1);
  int64_t workers = std::min<int64_t>(thread_count(), (n + grain - 1) / grain);
  if (workers <= 1 || t_inside) {
    body(0, n);
    return;
  }
  int64_t chunk = std::max(grain, (n + workers * 4 - 1) / (workers * 4));
  std::atomic<int64_t> next{0};
  std::exception_ptr failure;
  std::mutex failure_lock;
  auto work = [&] {
    t_inside = true;
    for (int64_t begin; (begin = next.fetch_add(chunk)) < n;) {
      try {
        body(begin, std::min(n, begin + chunk));
      } catch (...) {
        std::lock_guard guard(failure_lock);
        if (!failure) failure = std::current_exception();
        next = n;
      }
    }
    t_inside = false;
  };
  {
    std::vector<std::jthread> threads;
    for (int64_t i = 1; i < workers; ++i) threads.emplace_back(work);
    work();
  }
  if (failure) std::rethrow_exception(failure);
}

}  // namespace emend
