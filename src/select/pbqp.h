// Partitioned Boolean quadratic programs: one option for every variable, so that the costs of the
// options and of the pairs that edges join are least in sum. A variable is folded into its
// neighbours, which loses nothing: for every combination of their options it has a best one. The
// programs of networks are narrow, so that these tables stay small; where they would not, one
// variable is decided by branch and bound, exactly unless the budget ends.
#pragma once

#include <cstddef>
#include <vector>

namespace emend {

struct Pbqp {
  struct Edge {
    size_t a = 0, b = 0;        // variables, a != b; several edges of one pair add up
    std::vector<double> costs;  // [option of a][option of b]
  };
  std::vector<std::vector<double>> options;  // per variable, the cost of each; never none
  std::vector<Edge> edges;
};

struct PbqpChoice {
  std::vector<size_t> options;  // one per variable
  double cost = 0;
  bool exact = true;
};

// `budget` is both that of branches and of combinations in one table (of up to two neighbours all
// are looked at in any case).
PbqpChoice solve(const Pbqp& problem, size_t budget = 20'000);

double cost_of(const Pbqp& problem, const std::vector<size_t>& options);

}  // namespace emend
