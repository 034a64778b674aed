// A lower bound on the cost of any solution, by dual ascent over cuts.
//
// A cut is a set W of classes that holds a root. Among the classes of W that a solution needs, one
// stands lowest, and its node has no child in W. So every solution without cycles picks at least
// one node that belongs to W and has all its children outside: the cut's nodes. Charging an amount
// to a cut takes it from the price of each of its nodes; whatever can be charged before prices
// become negative is a bound (these are the dual solutions of the linear program over all such
// cuts, as Wong's ascent is for Steiner arborescences). Cycles of price zero, by which other
// relaxations escape, do not help: a cut goes around them.
#pragma once

#include "base/rng.h"
#include "extract/solution.h"

namespace emend {

struct DualBound {
  double value = 0;
  // What is left of the prices: a solution with node n costs at least value + reduced[n].
  std::vector<double> reduced;
  std::vector<std::vector<uint32_t>> cuts;  // their nodes, in the order they were charged
};

// Charges cuts until the roots can be built of nodes whose price is used up. Which of several equal
// cuts is charged is drawn: some orders give better bounds than others.
DualBound dual_ascent(const SearchGraph& graph, Rng& rng);

// The nodes of a cut that an assignment violates: with only the nodes for which `open` holds, some
// root cannot be built. None: all roots can.
std::vector<uint32_t> separating_cut(const SearchGraph& graph, const std::vector<bool>& open,
                                     Rng& rng);

}  // namespace emend
