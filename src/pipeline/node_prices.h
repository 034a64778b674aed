// What an operator costs inside a program, in seconds, for extraction (architecture's law of
// prices): a nucleus (a contraction, a window, a reduction, a composite around one) what its
// kernels take by themselves at best; elementwise operators and moves, which fuse into nuclei, the
// bytes they add; what depends on no input nothing, since it is computed ahead of time. Only fuse
// and select know the price of a whole program; these rank what they should look at.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "kernels/kernel.h"
#include "ops/priced_node.h"
#include "select/select.h"

namespace emend {

// Nodes of one key have one price.
uint64_t key_of(const PricedNode& n);

// The node alone: operands that depend on no input are constants where `constants` says so.
Graph graph_of(const PricedNode& n, bool constants = false);

// What nodes cost that fuse into nuclei, or nothing for a nucleus.
struct BesideNuclei {
  double bandwidth = 0;  // bytes a second
  double per_node = 0;   // seconds
  double moved = 1;      // the share of moves that no neighbour takes in
  bool fuses = true;     // neighbours take elementwise operators in: they cost what they add
};
std::optional<double> price_beside_nuclei(const PricedNode& n, const BesideNuclei& there);
// Of a nucleus: too low rather than too high.
double lowest_price(const PricedNode& n, const Target& target);

struct NodePrice {
  double seconds = 0;
  bool guess = false;  // too low rather than too high: nobody asked the kernels
};

class NodePrices {
 public:
  NodePrices(const Catalogue& catalogue, const Target& target, const SelectOptions& choose)
      : catalogue_(catalogue), target_(target), choose_(choose) {}

  // What is known or can be had at once. Asking kernels about a nucleus takes a while, and most
  // nuclei of an e-graph are in no program worth looking at.
  NodePrice quick(const PricedNode& n);
  double exact(const PricedNode& n);

 private:
  std::optional<double> beside_nuclei(const PricedNode& n) const;
  double nucleus(const PricedNode& n) const;

  const Catalogue& catalogue_;
  Target target_;
  SelectOptions choose_;
  std::map<uint64_t, double> known_, guesses_;
};

}  // namespace emend
