// Measured prices for what a plan can still choose: every candidate that select asks about is
// compiled and timed alone, once per machine; the times are kept in the price list.
#pragma once

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
};

// How well the estimate knew what would be fastest, of a group in one layout.
struct Ranking {
  std::string best;                 // the kernel and its configuration
  size_t rank = 1, of = 1;          // by estimate; of so many that were measured
  double seconds = 0, first_s = 0;  // of the best, and of the estimate's first
};

struct TuneReport {
  size_t measured = 0, known = 0;
  std::vector<Ranking> rankings;    // of groups that had a choice
  std::vector<std::string> faults;  // kernels that could not be measured
  std::string not_kept;             // why measured times could not be written, if they could not
};

// Prices for `select`, measured first where the list does not have them.
std::function<std::optional<double>(const Offer&)> measured_prices(
    const Graph& g, const Partition& partition, const Catalogue& catalogue, const Target& target,
    PriceList& prices, const TuneOptions& options, TuneReport* report = nullptr);

}  // namespace emend
