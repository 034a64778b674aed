// Ctrl-C or a polite kill (timeout, a supervisor) while something is searched: the first one asks
// for the best so far, the second ends the process on the spot. Only for as long as the object
// lives; there is at most one.
#pragma once

#include <signal.h>

#include <array>
#include <atomic>

namespace emend {

class Interruption {
 public:
  Interruption();
  ~Interruption();
  Interruption(const Interruption&) = delete;
  Interruption& operator=(const Interruption&) = delete;

  const std::atomic<bool>* flag() const;
  bool requested() const { return flag()->load(); }

 private:
  std::array<struct sigaction, 2> before_;  // of SIGINT, SIGTERM
};

}  // namespace emend
