// TENSAT's exploration (Yang et al., MLSys 2021, section 4 and 5.1) on our e-graph: rules with one
// root go through the runner and its scheduler, in every round; rules with two roots are applied to
// all pairs of matches, before the first rounds only. Cycles that pairs would close are kept out,
// those that are left are cut by a blacklist of nodes.
#pragma once

#include <memory>

#include "egraph/run.h"
#include "prices.h"

namespace emend {

enum class CycleFilter : uint8_t {
  none,       // cycles stay; extraction must see to them
  vanilla,    // before every pair: does one of its operands need one of its roots?
  efficient,  // the same by what was known when the round began; the blacklist catches the rest
};

struct ExploreOptions {
  size_t multi_rounds = 1;  // k_multi
  size_t nodes = 50000;
  size_t rounds = 15;
  CycleFilter filter = CycleFilter::efficient;
};

struct Explored {
  std::unique_ptr<TensorEGraph> egraph;
  Blacklist blacklist;
  size_t rounds = 0, pairs = 0, refused = 0;  // pairs applied, and kept out by the filter
  StopReason stopped = StopReason::saturated;
  double seconds = 0;
};

Explored explore(const Graph& g, const ExploreOptions& options);

}  // namespace emend
