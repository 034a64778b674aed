// Options that say how a model is optimized, for every verb that does it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "pipeline/optimize.h"
#include "verb.h"

namespace emend {

struct HowOptions {
  std::optional<int> level;  // none: the default
  std::vector<std::string> enable, disable;
  std::string accuracy;  // empty: the default
  bool search_again = false;
  double effort = 1;

  // Throws UsageError where they make no sense.
  OptimizeOptions options(const Globals& globals) const;
};
void add_how_options(CLI::App& command, HowOptions& how);

// A switch without a name is a mistake in it: throws UsageError, with names that are near.
void demand_known(const std::vector<std::string>& globs, const char* option);

}  // namespace emend
