// TENSAT's extraction: one integer program over all nodes of an e-graph, with or without variables
// that order the classes and so keep cycles out.
#pragma once

#include <string>

#include "extract/problem.h"

namespace emend {

struct IlpAnswer {
  std::vector<uint32_t> choice;  // empty: there is none
  bool optimal = false;          // false: what was known when time was up
  std::string fault;             // why there is no choice
  double seconds = 0;
};

// Is there a solver in this build?
bool ilp_available();
IlpAnswer extract_by_ilp(const ExtractionProblem& p, bool ordered, double seconds);

}  // namespace emend
