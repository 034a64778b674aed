// Chooses, for every group of a partition and all at once, a kernel, its configuration and how
// what it loads and stores lies in memory (a partitioned Boolean quadratic program, pbqp.h): the
// sum of the kernels' prices and of bringing values from one layout into another is least. Prices
// are estimates, or measured times where the caller knows them; only the candidates that the
// estimate ranks first, and that can still win, are asked about. Equal groups are looked at once.
// Kernels may want weights repacked, which makes them larger: where all that would not fit into
// what is allowed, every added byte gets a price, the least one with which it does; and likewise
// what kernels lose.
// Not modelled: two groups that need the same value in another layout share the conversion.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "kernels/plan.h"

namespace emend {

struct Offer {
  const Graph& group;
  const std::vector<bool>& constant;  // inputs that are known ahead of time
  const Candidate& candidate;
};

// A candidate at its price.
struct PricedCandidate {
  Candidate candidate;
  double price = 0, added = 0;  // seconds; bytes that weights grow by
};
// For one choice of layouts, those of which one may be best: cheaper ones add or lose more.
using PricedCandidates = std::vector<PricedCandidate>;

// What was found out about groups. For one catalogue, target and set of options.
struct KnownPrices {
  // By the group, its constants, the loads that may lie otherwise, and whether layouts are tried.
  std::map<std::tuple<uint64_t, std::vector<bool>, std::vector<bool>, bool>,
           std::vector<PricedCandidates>>
      offers;
  // By the group and its constants.
  std::map<std::pair<uint64_t, std::vector<bool>>, std::optional<double>> cheapest;
  // Of changing a value's layout.
  std::map<std::tuple<DType, Dims, Layout, Layout>, double> conversions;
};

struct SelectOptions {
  // Seconds; nothing: unknown, the estimate counts.
  std::function<std::optional<double>(const Offer&)> price;
  int asked = 6;                 // candidates of a group in one layout at most
  size_t wide = 1;               // times as many are offered: see Wanted
  double hopeless = 2;           // times the best estimate: not asked about
  double memory = 1e9;           // weights as stored: at most this times those of the graph,
  double memory_bytes = 0;       // or so many bytes, if that is more
  double error = 1e9;            // what every kernel may lose, see Candidate::error
  double errors = 0;             // some may lose more if all together do not: errors add in squares
  double bound = 0;              // that kernels are to keep, see Candidate::least_bound; 0: any
  KnownPrices* known = nullptr;  // kept by whoever selects again and again
};

Plan select(const Graph& g, Partition partition, const Catalogue& catalogue, const Target& target,
            const SelectOptions& options = {});

// A candidate as people read it: kernel, configuration, layouts. No two that a group is offered
// have one text.
std::string text_of(const Candidate& c);
// The plan that chose these, empty for the host's groups; nothing where one is not offered. Nothing
// is priced: `seconds` are.
std::optional<Plan> chosen_before(const Graph& g, Partition partition,
                                  std::span<const std::string> choices,
                                  std::span<const double> seconds, const Catalogue& catalogue,
                                  const Target& target, const SelectOptions& options = {});

// Seconds that a group takes at best, by the estimates, with its operands and results in whatever
// layouts suit it; nothing if no kernel takes it.
std::optional<double> cheapest(const Graph& group, const std::vector<bool>& constant,
                               const Catalogue& catalogue, const Target& target,
                               const SelectOptions& options = {});

}  // namespace emend
