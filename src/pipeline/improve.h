// The search: programs that the rules make equal to this one are put into one e-graph, what is near
// it first; the cheapest ones are taken out of it, the operators that take their time are mutated,
// and what is proven of their mutants joins the e-graph. The cheapest ones are taken out again, and
// what helps at one place of one of them is tried in the best. The back end (fuse, select) says
// what each really costs. From what was found the search begins anew, while an e-graph was full. A
// program is replaced only by one that the back end prices lower.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "mutate/mutate.h"
#include "pipeline/search_prices.h"
#include "saturate/saturate.h"

namespace emend {

struct ImproveOptions {
  SaturateOptions saturate;
  // Of operators that take at least this share of the time; more than 1: of none.
  double mutate_from = 0.002;
  MutateOptions mutate;
  std::optional<SearchPrices> prices = {};  // none: those of the back end on this machine
  int kept = 12;   // different extractions that are priced as a whole, at most; fewer large ones
  int passes = 6;  // each begins with the best so far, at most
  int rounds = 8;  // of extracting, and pricing what was extracted, at most
  // Programs that are put together of others and priced: so many at most, and of so many nodes.
  int combined = 24;
  size_t combined_nodes = 3000;
  int corrections = 2;   // times that what whole programs take corrects node prices, at most
  int64_t moves = 5000;  // of each extraction, see extract/search.h
  uint64_t seed = 1;
  Monitor monitor = {};
};

struct ImproveReport {
  SaturateReport saturated;
  MutateReport mutated;
  double before_s = 0, after_s = 0;  // price of one run, as given and of the result
  std::vector<double> priced_s;      // of the extractions that it priced
  // The firings on which the result rests, in the order in which they replay: names of rules. Those
  // of bodies of loops stand first.
  std::vector<std::string> trail;
  std::vector<std::pair<std::string, double>> phases_ms;
  std::vector<std::string> faults;  // bugs of ours, in bodies of loops, too
  bool recalled = false;            // made at an earlier start, see kept_searches.h
};

Graph improve(const Graph& g, const ImproveOptions& options = {}, ImproveReport* report = nullptr);

}  // namespace emend
