// Options that say how a model is optimized, for every verb that does it.
#pragma once

#include <string>
#include <vector>

#include "pipeline/optimize.h"
#include "verb.h"

namespace emend {

struct HowOptions {
  int level = 1;
  std::vector<std::string> enable, disable;
  std::string accuracy;  // empty: the default

  // Throws UsageError where they make no sense.
  OptimizeOptions options(const Globals& globals) const;
};
void add_how_options(CLI::App& command, HowOptions& how);

}  // namespace emend
