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

struct TuneReport {
  size_t measured = 0, known = 0;
  std::string not_kept;  // why measured times could not be written, if they could not
};

// Prices for `select`, measured first where the list does not have them.
std::function<std::optional<double>(const Offer&)> measured_prices(
    const Graph& g, const Partition& partition, const Catalogue& catalogue, const Target& target,
    PriceList& prices, const TuneOptions& options, TuneReport* report = nullptr);

}  // namespace emend
