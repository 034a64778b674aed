// One price function for all who are compared: the sum, over the operators of a program that depend
// on its inputs, of what each costs by itself (pipeline/node_prices.h). Time spent on pricing is
// counted apart, as the papers count the timing of kernels apart.
#pragma once

#include <chrono>
#include <unordered_set>
#include <vector>

#include "extract/problem.h"
#include "pipeline/node_prices.h"
#include "saturate/tensor_egraph.h"

namespace emend {

class Stopwatch {
 public:
  double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

class Prices {
 public:
  Prices();
  double exact(const PricedNode& n);
  // Where kernels were not asked yet a guess that is too low rather than too high.
  double quick(const PricedNode& n);
  double seconds() const { return seconds_; }  // that it took so far

 private:
  KnownPrices known_;
  NodePrices prices_;
  double seconds_ = 0;
};

// Of an operator of a program whose operands are these.
PricedNode priced_node(const Graph& g, NodeId n, const std::vector<bool>& weight_only);
// Of every node: can it be computed ahead of time?
std::vector<bool> weight_only_nodes(const Graph& g);
double cost_of(const Graph& g, Prices& prices);

// Nodes that are not to be picked.
using Blacklist = std::unordered_set<uint32_t>;

// What the outputs need of an e-graph, as an extraction problem.
struct PricedProblem {
  ExtractionProblem problem;
  std::vector<ClassId> classes;  // by class of the problem
  std::vector<ENodeId> nodes;    // by node of it
  std::vector<uint32_t> nuclei;  // classes of it that are computed by kernels of their own

  Graph graph_of(const TensorEGraph& g, const std::vector<uint32_t>& choice) const;
  // The program as it was put in; none where congruence put nodes of rules into its place.
  std::vector<uint32_t> given(const TensorEGraph& g) const;
};
PricedProblem problem_of(const TensorEGraph& g, Prices& prices, bool exact,
                         const Blacklist& blacklist = {});

}  // namespace emend
