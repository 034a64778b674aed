// Whose prices decide the search: how long an operator, and how long a whole program takes there.
// The back end's are estimates of its kernels; another runtime's are measured in it. The first rank
// what is worth looking at, the second decide.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/progress.h"
#include "ir/graph.h"
#include "pipeline/node_prices.h"

namespace emend {

struct SearchPrices {
  // As NodePrices has them.
  std::function<NodePrice(const PricedNode&)> quick;
  std::function<double(const PricedNode&)> exact;
  // Seconds of one run of each of some equal programs, the given one first; infinity for one that
  // does not run there. Stopped, it ends early, but never before the first.
  std::function<std::vector<double>(std::span<const Graph>, const Monitor&)> programs;
  // Programs that differ by less than these prices can tell are not worth a change.
  double worthwhile = 1;
  // Everything that the answers depend on; empty: nobody can say, and what was found at these
  // prices is not kept (kept_searches.h).
  std::string key = {};
};

// What all kernels of a program may lose together, where nobody says otherwise.
constexpr double kUsualAccuracy = 1e-4;
// Programs are priced as they would be compiled; nodes as if many were not there.
SearchPrices back_end_prices(const Target& target, double accuracy = kUsualAccuracy);

}  // namespace emend
