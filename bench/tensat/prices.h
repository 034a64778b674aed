// One price function for all who are compared: the sum, over the operators of a program that depend
// on its inputs, of what each costs by itself (pipeline/node_prices.h). Time spent on pricing is
// counted apart, as the papers count the timing of kernels apart.
#pragma once

#include <chrono>
#include <ctime>
#include <vector>

#include "pipeline/node_prices.h"
#include "pipeline/priced_egraph.h"

namespace emend {

using Clock = double (*)();
inline double wall_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}
// Of this process: a machine that has other work, too, does not count.
inline double cpu_seconds() {
  return static_cast<double>(std::clock()) / CLOCKS_PER_SEC;
}

class Stopwatch {
 public:
  explicit Stopwatch(Clock clock = wall_seconds) : clock_(clock), start_(clock()) {}
  double seconds() const { return clock_() - start_; }

 private:
  Clock clock_;
  double start_;
};

class Prices {
 public:
  explicit Prices(Clock clock = wall_seconds);
  double exact(const PricedNode& n);
  // Where kernels were not asked yet a guess that is too low rather than too high.
  double quick(const PricedNode& n);
  double seconds() const { return seconds_; }  // that it took so far

 private:
  Clock clock_;
  KnownPrices known_;
  NodePrices prices_;
  double seconds_ = 0;
};

// Of an operator of a program whose operands are these.
PricedNode priced_node(const Graph& g, NodeId n, const std::vector<bool>& weight_only);
// Of every node: can it be computed ahead of time?
std::vector<bool> weight_only_nodes(const Graph& g);
double cost_of(const Graph& g, Prices& prices);

PricedEGraph problem_of(const TensorEGraph& g, Prices& prices, bool exact,
                        const Blacklist& blacklist = {});

}  // namespace emend
