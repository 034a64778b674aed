// Jobs that may crash or hang, each in a forked child of its own: the run survives them.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

namespace emend {

struct ChildResult {
  std::string text;     // what the job returned
  std::string trouble;  // "crashed (signal 11)", "took longer than 20 s"; empty if it ended well
};

// Runs job(0) ... job(n-1), at most `at_once` at a time. `done` hears of each in order of their
// index. Threads must not be running in this process.
void run_in_children(size_t n, int at_once, std::chrono::seconds limit,
                     const std::function<std::string(size_t)>& job,
                     const std::function<void(size_t, const ChildResult&)>& done);

}  // namespace emend
