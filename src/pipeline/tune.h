// Measured prices for what a plan can still choose: candidates that select asks about are compiled
// and timed alone, once per machine; the times are kept in the price list.
#pragma once

#include <span>

#include "base/progress.h"
#include "cost/price_list.h"
#include "run/cpu.h"
#include "select/select.h"

namespace emend {

struct TuneOptions {
  CpuOptions cpu;
  int runs = 15;          // of each candidate; the lower quartile counts
  double seconds = 0.05;  // of each candidate at most, once it ran three times
  Monitor monitor;        // a stop leaves the rest to the estimates
  SelectOptions choose;   // with which prices will be asked for
  double budget_s = 0;    // beyond which nothing is begun
  bool all = false;       // also what can hardly change the time of the program
};

// A program whose kernels are asked about, and what its groups take in one run.
struct TunedProgram {
  const Graph& graph;
  const Partition& partition;
  std::vector<double> seconds;
};

// How well the estimate knew what would be fastest, of a group in one layout.
struct Ranking {
  std::string best;                 // the kernel and its configuration
  size_t rank = 1, of = 1;          // by estimate; of so many that were measured
  double seconds = 0, first_s = 0;  // of the best, and of the estimate's first
};

// What a candidate was thought to take, and took.
struct Price {
  uint64_t group = 0;         // equal for equal groups
  std::string layouts, what;  // the kernel and its configuration
  double estimate_s = 0, seconds = 0;
  // What the estimate changes by where one of its costs (kernels/cpu/costs.h) doubles, if it did so
  // all the way; costs without which it is the same are left out.
  std::vector<std::pair<std::string, double>> slopes_s;
};

struct TuneReport {
  size_t measured = 0, known = 0;
  size_t left = 0;                  // that could matter, when the budget was spent
  std::vector<Ranking> rankings;    // of groups that had a choice
  std::vector<Price> prices;        // of all that is known of what was asked about
  std::vector<std::string> faults;  // kernels that could not be measured
  std::string not_kept;             // why measured times could not be written, if they could not
};

// Prices for `select`, measured first where the list does not have them: the best guesses of what
// takes most of the time before all others.
std::function<std::optional<double>(const Offer&)> measured_prices(
    std::span<const TunedProgram> programs, const Catalogue& catalogue, const Target& target,
    PriceList& prices, const TuneOptions& options, TuneReport* report = nullptr);

}  // namespace emend
