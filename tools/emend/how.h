// Options that say how a model is optimized, for every verb that does it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "pipeline/compile.h"
#include "pipeline/optimize.h"
#include "verb.h"

namespace emend {

struct HowOptions {
  std::optional<int> level;  // none: the default
  std::vector<std::string> enable, disable;
  std::string accuracy;  // empty: the default
  bool search_again = false;
  double effort = 1;
  std::string budget;  // empty: the usual one
  bool no_measure = false;

  // Throws UsageError where they make no sense.
  OptimizeOptions options(const Globals& globals) const;
};
void add_how_options(CLI::App& command, HowOptions& how);
// How long a first start may measure; for verbs that compile.
void add_measure_options(CLI::App& command, HowOptions& how);
// The measuring that these options ask for: below -O2 none.
Measuring measuring(const HowOptions& how, const Globals& globals);
// The number of the fastest of some equal programs on this machine; the report says it, too.
size_t fastest_here(std::span<const Graph> programs, const OptimizeOptions& how,
                    const Measuring& by, OptimizeReport& report);
// An optimized program and, where a clock is to decide, the one that it was made from, cleaned.
struct ToRun {
  Graph graph;
  std::vector<Graph> others;
};
ToRun optimized_for_here(const Graph& g, const OptimizeOptions& how, bool measured,
                         OptimizeReport* report);

// A switch without a name is a mistake in it: throws UsageError, with names that are near.
void demand_known(const std::vector<std::string>& globs, const char* option);

}  // namespace emend
