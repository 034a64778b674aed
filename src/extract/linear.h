// The linear program over the cuts of bound.h, and the integer program when that is not enough: all
// cuts are too many to write down, so those are added that the answer so far violates.
#pragma once

#include <functional>

#include "extract/bound.h"
#include "solve/model.h"

namespace emend {

class CutProgram {
 public:
  // The graph must outlive this. Costs are scaled, so that tolerances mean the same for every
  // problem; `target`: solutions that cost as much are of no interest.
  CutProgram(const SearchGraph& graph, double target, Rng rng);

  void add_cut(std::span<const uint32_t> nodes);

  struct Step {
    double bound = 0;              // no solution below the target costs less
    bool cut_added = false;        // another step may get further
    std::vector<bool> useless;     // nodes that no solution below the target holds
    std::vector<uint32_t> choice;  // of a solution, where one was found
  };
  // One solution of the relaxed program, and the cuts it violates.
  Result<Step> relaxed(const Solver& solver, double seconds);
  // The same with integers: its answer is a solution or violates a cut.
  Result<Step> integral(const Solver& solver, double seconds);

 private:
  bool separate(std::span<const double> x);
  void add_structure();

  const SearchGraph& graph_;
  double scale_, target_;
  Rng rng_;
  LinearModel model_;
};

}  // namespace emend
