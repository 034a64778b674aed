// What long work looks like from outside, on stderr: a bar on a terminal, elsewhere a plain line
// every few seconds, or JSON, a line per message, for programs. Short work shows nothing.
#pragma once

#include <chrono>
#include <mutex>
#include <string>

#include "base/progress.h"

namespace emend {

class ProgressView {
 public:
  enum class Mode : uint8_t { none, bar, lines, json };
  ProgressView(Mode mode, bool color) : mode_(mode), color_(color) {}
  ~ProgressView() { clear(); }

  void show(const Progress& p);  // from any thread
  // Takes the bar away, so that something else can be printed.
  void clear();

 private:
  using Clock = std::chrono::steady_clock;

  bool due(bool new_phase, Clock::time_point now) const;
  std::string bar(const Progress& p, double left) const;

  const Mode mode_;
  const bool color_;
  std::mutex lock_;
  std::string phase_;
  int64_t done_ = 0;
  Clock::time_point begin_ = Clock::now(), phase_begin_ = begin_, last_ = begin_;
  bool drawn_ = false;
};

}  // namespace emend
