// Long work says how far it is and asks whether it should stop. Both go through a Monitor, a small
// value that options hand down; without one nobody listens and nothing stops. A stage stays a pure
// function: being heard changes nothing, and being stopped only means that it returns the best it
// has, valid like any other result.
//
// Any thread may call. Telling costs a branch where nobody listens, asking one relaxed load, so
// that both may stand in loops of a microsecond or more a turn. Listeners must be thread-safe.
#pragma once

#include <atomic>
#include <cmath>
#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>
#include <utility>

namespace emend {

struct Progress {
  std::string_view phase;      // the name of a stage
  int64_t done = 0, of = 0;    // in the phase's own units; of == 0: nobody knows beforehand
  double best = NAN;           // the lowest cost so far, where the phase has one
  std::string_view unit = "";  // of the cost: "ms", "nodes"
};

class Monitor {
 public:
  using Listener = std::function<void(const Progress&)>;

  Monitor() = default;
  // The flag must outlive every copy; whoever sets it (a signal handler may) asks for an end.
  explicit Monitor(Listener listener, const std::atomic<bool>* stop = nullptr)
      : listener_(std::make_shared<const Listener>(std::move(listener))), stop_(stop) {}

  void tell(const Progress& p) const {
    if (listener_) (*listener_)(p);
  }
  bool stop_requested() const { return stop_ && stop_->load(std::memory_order_relaxed); }

  // The same with another flag; none: work that must run to its end.
  Monitor stopped_by(const std::atomic<bool>* stop) const {
    Monitor m = *this;
    m.stop_ = stop;
    return m;
  }
  // For parts of a phase that count in units of their own.
  Monitor silent() const {
    Monitor m = *this;
    m.listener_ = nullptr;
    return m;
  }

 private:
  std::shared_ptr<const Listener> listener_;
  const std::atomic<bool>* stop_ = nullptr;
};

}  // namespace emend
