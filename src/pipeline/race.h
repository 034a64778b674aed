// Never slower: before a plan is used for good it runs against others of the same graph, or of one
// that is equal to it, in turns, and the fastest is taken. What was found is kept in the price
// list, so that it is raced once per machine.
#pragma once

#include <functional>

#include "cost/price_list.h"
#include "kernels/plan.h"
#include "run/cpu.h"

namespace emend {

struct RacedPlan {
  std::string name;
  Plan plan;
  const Graph* graph;  // that it is for
};

// What one of the plans was found to take.
struct PlanTime {
  std::string name;
  double ms = 0;
  bool used = false;
};

struct RaceOptions {
  double seconds = 0.5;  // for each
  int threads = 1;
  uint64_t machine = 0;
  Monitor monitor;  // a stop leaves it with the first
};

// The number of the fastest plan; `built` makes a program of one, and is asked only where the list
// does not know. `inputs` are what they run on.
size_t fastest_plan(std::span<const RacedPlan> plans,
                    const std::function<CpuProgram(const RacedPlan&)>& built,
                    std::span<const Value> inputs, PriceList& prices, const RaceOptions& options,
                    std::vector<PlanTime>* times = nullptr);

}  // namespace emend
