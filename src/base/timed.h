// How long the parts of some work took, by name, in the order in which they first ran.
//   Phases phases;  auto plan = timed(phases, "select", [&] { return select(...); });
#pragma once

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>
#include <vector>

namespace emend {

using Phases = std::vector<std::pair<std::string, double>>;  // milliseconds

inline void add_time(Phases& phases, const std::string& name, double ms) {
  auto known = std::ranges::find(phases, name, &Phases::value_type::first);
  if (known == phases.end()) known = phases.insert(known, {name, 0});
  known->second += ms;
}

// The stage's result. What runs again is added to what it took before.
template <class Stage>
auto timed(Phases& phases, const std::string& name, const Stage& stage) {
  auto start = std::chrono::steady_clock::now();
  auto result = stage();
  std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
  add_time(phases, name, took.count());
  return result;
}

}  // namespace emend
