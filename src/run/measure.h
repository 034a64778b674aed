// How long things take, told fairly on a machine that has slow spells: contenders take turns in
// rounds, each turn a few runs, who begins rotates, and the middle of all runs is what counts. The
// first run of a turn is not counted, since the others have just emptied its caches.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "base/progress.h"

namespace emend {

struct MeasureOptions {
  int runs = 0;        // timed ones of each contender; 0: as many as fit into `seconds`, at least 3
  double seconds = 5;  // for each contender
  // A stop ends it after the current turn, with the runs so far.
  Monitor monitor = {};
};

struct Timing {
  std::vector<double> ms;  // of every timed run, in order
  double median_ms() const;
  double quantile_ms(double q) const;
};

// The value below which a share `q` of the samples lies, straight lines between samples.
double quantile(std::vector<double> samples, double q);

using Contender = std::function<void()>;
std::vector<Timing> measure(std::span<const Contender> contenders, const MeasureOptions& options);

// One run.
double milliseconds_of(const Contender& contender);

}  // namespace emend
