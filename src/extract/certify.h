// How good is a solution? A lower bound for every problem, and a proof that nothing is cheaper
// where that can be had.
//
// Bounds come from dual ascent (bound.h). What they leave of a node's price tells which nodes no
// cheaper solution can hold; without these the problem shrinks, and the next bounds are higher.
// Where that comes to a halt, a linear program over the cuts goes on, if the solver is there, and
// branching over the nodes of a class that is needed for certain.
#pragma once

#include <limits>
#include <string>

#include "base/progress.h"
#include "extract/problem.h"
#include "solve/model.h"

namespace emend {

struct CertifyOptions {
  uint64_t seed = 0;
  int64_t branches = 20'000;  // subproblems, at most
  double seconds = std::numeric_limits<double>::infinity();
  Solver solver = {};  // of linear programs, where there is one
  Monitor monitor = {};
};

struct CertifyReport {
  int64_t branches = 0;
  std::string method;        // what the bound rests on
  bool interrupted = false;  // by the clock or the monitor
};

// Takes a solution of a validated problem; hands back the same or a cheaper one, with its bound.
// `optimal` means: nothing is cheaper by more than one part in 10^8.
Extraction certify(const ExtractionProblem& p, Extraction known, const CertifyOptions& options,
                   CertifyReport* report = nullptr);

}  // namespace emend
