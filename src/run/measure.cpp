#include "run/measure.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "base/error.h"

namespace emend {
namespace {

constexpr int kRounds = 10;
constexpr int kFewest = 3, kMost = 1000;  // timed runs, where the budget decides

// Also brings everything to its working state: memory touched, threads awake, clocks up.
double warm_up(const Contender& contender) {
  constexpr double kEnoughMs = 200;
  double total = milliseconds_of(contender), fastest = INFINITY;
  do {
    double ms = milliseconds_of(contender);
    total += ms;
    fastest = std::min(fastest, ms);
  } while (total < kEnoughMs);
  return fastest;
}

int wanted_runs(double estimate_ms, const MeasureOptions& options) {
  if (options.runs > 0) return options.runs;
  double fit = options.seconds * 1e3 / std::max(estimate_ms, 1e-6);
  return static_cast<int>(std::clamp<double>(fit, kFewest, kMost));
}

}  // namespace

double quantile(std::vector<double> samples, double q) {
  EMEND_ASSERT(!samples.empty() && q >= 0 && q <= 1, samples.size(), q);
  std::sort(samples.begin(), samples.end());
  double place = q * static_cast<double>(samples.size() - 1);
  auto below = static_cast<size_t>(place);
  size_t above = std::min(below + 1, samples.size() - 1);
  return samples[below] + (place - static_cast<double>(below)) * (samples[above] - samples[below]);
}

double Timing::median_ms() const {
  return quantile(ms, 0.5);
}
double Timing::quantile_ms(double q) const {
  return quantile(ms, q);
}

double milliseconds_of(const Contender& contender) {
  auto start = std::chrono::steady_clock::now();
  contender();
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start)
      .count();
}

std::vector<Timing> measure(std::span<const Contender> contenders, const MeasureOptions& options) {
  std::vector<Timing> timings(contenders.size());
  std::vector<int> wanted;
  int64_t all = 0, done = 0;
  for (const Contender& c : contenders) {
    wanted.push_back(wanted_runs(warm_up(c), options));
    all += wanted.back();
  }
  for (int round = 0; round < kRounds; ++round) {
    for (size_t turn = 0; turn < contenders.size(); ++turn) {
      size_t c = (turn + static_cast<size_t>(round)) % contenders.size();
      // Spread evenly: after round r of R a contender has r/R of its runs.
      int until = wanted[c] * (round + 1) / kRounds;
      if (static_cast<size_t>(until) == timings[c].ms.size()) continue;
      if (contenders.size() > 1) contenders[c]();
      while (timings[c].ms.size() < static_cast<size_t>(until)) {
        timings[c].ms.push_back(milliseconds_of(contenders[c]));
        options.monitor.tell({"measure", ++done, all, timings[c].ms.back(), "ms"});
      }
      bool every = std::none_of(timings.begin(), timings.end(),
                                [](const Timing& t) { return t.ms.empty(); });
      if (every && options.monitor.stop_requested()) return timings;
    }
  }
  return timings;
}

}  // namespace emend
