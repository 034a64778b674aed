// Never slower: before a plan is used for good it runs against others of the same graph, or of one
// that is equal to it, in turns, and the fastest is taken. What was found is kept in the price
// list, so that it is raced once per machine.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "cost/price_list.h"
#include "kernels/plan.h"
#include "run/cpu.h"

namespace emend {

struct RacedPlan {
  std::string name;
  const Graph* graph;
  const Plan* plan;
};

// The time that one of the plans was found to take.
struct PlanTime {
  std::string name;
  double ms = 0;
  bool used = false;
};

struct RaceOptions {
  double seconds = 0;   // to build and to run them; who is not there by then does not run
  double build_s = 0;   // that building one is thought to take
  double run_s = 0;     // and that one run is
  double each = 0.5;    // of them at most for each
  double bytes = 1e30;  // of weights that all of them may hold at a time
  int threads = 1;
  uint64_t machine = 0;
  Monitor monitor;  // a stop leaves it with the first
};

// Everything that the time of a whole program depends on.
std::string key_of(const Graph& g, const Plan& plan, const RaceOptions& options);

// The number of the fastest plan; `built` makes a program of one, and is asked only where the list
// does not know. `inputs` are what they run on.
size_t fastest_plan(std::span<const RacedPlan> plans,
                    const std::function<CpuProgram(size_t plan)>& built,
                    std::span<const Value> inputs, PriceList& prices, const RaceOptions& options,
                    std::vector<PlanTime>* times = nullptr);

}  // namespace emend
