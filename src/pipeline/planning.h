// From a program to a plan: what is computed by which kernel, and which of several equal programs
// runs. Estimates say what is worth a look. Where a price list is at hand a clock decides, within a
// budget: first among the kernels of what takes the time, then among whole programs, in turns. What
// was decided is kept, so that the next start on this machine measures nothing.
#pragma once

#include <functional>

#include "pipeline/compile.h"

namespace emend {

// What every kernel of a plan may lose if all of them together may lose `accuracy`: errors of many
// add up like independent ones.
double share_of_errors(double accuracy, size_t kernels);
// Of the accuracy, while nobody knows what else is in the plan.
inline constexpr double kShareOfOne = 1.0 / 3;

struct PlannedProgram {
  size_t program = 0;  // which of the equal ones
  std::string name;
  Graph graph;  // without composites, and what depends on weights alone computed
  Plan plan;
  std::vector<NodeId> ahead;  // what was computed once fusion had left it alone
};

// A program of the plan, to be timed.
using BuildPlanned = std::function<CpuProgram(const PlannedProgram&)>;

PlannedProgram planned(Graph g, const Catalogue& catalogue, const Target& target,
                       const CompileFlowOptions& options, const BuildPlanned& build,
                       CompileReport& facts);

}  // namespace emend
