// The search: all programs that the rules make equal to this one are put into one e-graph, the
// cheapest ones are taken out of it, and the back end (fuse, select) says what each really costs. A
// program is replaced only by one that it prices lower.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "kernels/kernel.h"
#include "saturate/saturate.h"
#include "select/select.h"

namespace emend {

struct ImproveOptions {
  SaturateOptions saturate;
  Target target;         // whose prices decide
  double error = 1e-5;   // of kernels that are counted on, see Candidate::error
  int kept = 4;          // different extractions that the back end prices
  int rounds = 8;        // of extracting, and pricing what was extracted, at most
  int64_t moves = 5000;  // of each extraction, see extract/search.h
  uint64_t seed = 1;
  Monitor monitor = {};
};

struct ImproveReport {
  SaturateReport saturated;
  double before_s = 0, after_s = 0;  // price of one run, by the back end's estimates
  std::vector<double> priced_s;      // of the extractions that it priced
  // The firings on which the result rests, in the order in which they replay: names of rules.
  std::vector<std::string> trail;
  std::vector<std::pair<std::string, double>> phases_ms;
};

Graph improve(const Graph& g, const ImproveOptions& options = {}, ImproveReport* report = nullptr);

// Seconds of one run, as fuse and select estimate them.
double price_of_program(const Graph& g, const Target& target, const SelectOptions& choose = {});

}  // namespace emend
