// TASO's search (Jia et al., SOSP 2019), with which TENSAT was compared: whole programs in a queue
// by their cost. The cheapest is taken out, every rule is applied to it at every match, and what
// costs less than alpha times the best known and was not seen before enters the queue, until so
// many were taken out.
#pragma once

#include "prices.h"

namespace emend {

struct SequentialOptions {
  double alpha = 1.0;
  int budget = 100;      // programs taken out
  double seconds = 100;  // a safety net
};

struct Sequential {
  Graph best;
  double cost = 0;
  int taken = 0;
  size_t tried = 0;  // programs that a rule made of them
  bool out_of_time = false;
  double seconds = 0;  // without pricing
};

Sequential search_sequentially(const Graph& g, Prices& prices, const SequentialOptions& options);

}  // namespace emend
