// What the outputs of a program need of its e-graph, as an extraction problem whose costs are
// prices of nodes. Prices begin as guesses that are too low; those that something was chosen for
// are asked for, and what whole programs turn out to cost corrects them.
#pragma once

#include <functional>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "extract/problem.h"
#include "extract/search.h"
#include "pipeline/node_prices.h"
#include "saturate/tensor_egraph.h"

namespace emend {

struct PricedEGraph {
  ExtractionProblem problem;
  std::vector<ClassId> classes;   // by class of the problem
  std::vector<ENodeId> nodes;     // by node of it
  std::vector<PricedNode> asked;  // by node of it
  std::vector<uint64_t> keys;     // by node of it: nodes of one key have one price
  std::vector<bool> guessed;      // by node of it: its price
  std::vector<uint32_t> nuclei;   // classes of it that are computed by kernels of their own
  std::unordered_map<uint64_t, std::vector<uint32_t>> same_price;  // nodes of it, by key

  // Real prices for what was chosen; false if there were no others.
  bool learn(const std::vector<FoundSolution>& found,
             const std::function<double(const PricedNode&)>& exact);
  // A program that chose these takes so much longer (below zero: shorter), seen from the one
  // `beside` it, than their prices say: prices of kernels that only it has change by that in all.
  void correct(const std::vector<uint32_t>& choice, const std::vector<uint32_t>& beside,
               double seconds);

  double cost_of(const std::vector<uint32_t>& choice) const;
  // Of the same operators on operands of the same types, however they are arranged.
  uint64_t structure_of(const std::vector<uint32_t>& choice) const;
  // The classes whose choice differs, place by place: what depends on one another stays together.
  std::vector<std::vector<uint32_t>> places_between(const std::vector<uint32_t>& base,
                                                    const std::vector<uint32_t>& other) const;
  // `base` with the choices of `other` for these; none where that is no program.
  std::vector<uint32_t> with(std::vector<uint32_t> base, const std::vector<uint32_t>& other,
                             const std::vector<uint32_t>& at) const;
  // The program as it was put in; none where congruence put nodes of rules into its place.
  std::vector<uint32_t> given(const TensorEGraph& g) const;
  Graph graph_of(const TensorEGraph& g, const std::vector<uint32_t>& choice) const;
};

// Nodes that are not to be picked.
using Blacklist = std::unordered_set<uint32_t>;

PricedEGraph priced_egraph(const TensorEGraph& g,
                           const std::function<NodePrice(const PricedNode&)>& quick,
                           const Blacklist& blacklist = {});

}  // namespace emend
