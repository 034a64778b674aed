#include "pipeline/race.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "base/hash.h"
#include "base/text.h"
#include "kernels/group.h"
#include "run/measure.h"
#include "select/select.h"

namespace emend {
namespace {

// Seconds of running one plan: what it may take at least, and usually takes with warming up.
constexpr double kLeast = 0.1, kUsual = 0.4;
constexpr int kRuns = 8;  // of each at least, those that warm up among them
// Others on the machine only make runs longer, so that the quiet ones count; a least time would
// favour a thread that came late and found half the work done.
constexpr double kQuiet = 0.2;

// By turns, those that could be built in time; infinity for the others.
std::vector<double> measured_seconds(std::span<const RacedPlan> plans,
                                     const std::function<CpuProgram(size_t plan)>& built,
                                     std::span<const Value> inputs, const RaceOptions& options) {
  const auto start = std::chrono::steady_clock::now();
  auto left = [&] {
    std::chrono::duration<double> spent = std::chrono::steady_clock::now() - start;
    return options.seconds - spent.count();
  };
  std::vector<CpuProgram> programs;
  std::vector<size_t> ran;
  double bytes = 0, longest = options.build_s;  // what building one took at most
  for (size_t i = 0; i < plans.size(); ++i) {
    const double before = left();
    const double running =
        std::max(kUsual, kRuns * options.run_s) * static_cast<double>(ran.size() + 1);
    if (before < longest + running || options.monitor.stop_requested()) break;
    programs.push_back(built(i));
    programs.back().load_weights();
    bytes += static_cast<double>(programs.back().weight_bytes());
    if (bytes > options.bytes) {
      programs.pop_back();
      break;
    }
    longest = std::max(longest, before - left());
    ran.push_back(i);
  }
  std::vector<double> seconds(plans.size(), INFINITY);
  if (ran.size() < 2) return seconds;
  std::vector<Contender> contenders;
  for (const CpuProgram& p : programs) contenders.push_back([&p, inputs] { p.run(inputs); });
  const double each = std::clamp(left() / static_cast<double>(ran.size()), kLeast, options.each);
  auto timings = measure(contenders, {.seconds = each, .monitor = options.monitor});
  for (size_t k = 0; k < ran.size(); ++k) seconds[ran[k]] = timings[k].quantile_ms(kQuiet) / 1e3;
  return seconds;
}

}  // namespace

std::string key_of(const Graph& g, const Plan& plan, const RaceOptions& options) {
  uint64_t key = plan.choices.size();
  for (size_t k = 0; k < plan.choices.size(); ++k) {
    const NodeGroup& group = plan.partition.groups[k];
    if (group.host) {
      const NodeId n = group.nodes[0];
      key = hash_text(to_text(g.type(n)), hash_mix(key, hash(g.nodes[n])));
      continue;
    }
    key = hash_mix(key, hash(outlined(g, group).graph));
    key = hash_text(text_of(plan.choices[k]), key);
  }
  return str("program ", key, " threads ", options.threads, " machine ", options.machine);
}

size_t fastest_plan(std::span<const RacedPlan> plans,
                    const std::function<CpuProgram(size_t plan)>& built,
                    std::span<const Value> inputs, PriceList& prices, const RaceOptions& options,
                    std::vector<PlanTime>* times) {
  std::vector<std::string> keys;
  std::vector<double> seconds;
  uint64_t field = 0;
  for (const RacedPlan& p : plans) {
    keys.push_back(key_of(*p.graph, *p.plan, options));
    field = hash_text(keys.back(), field);
  }
  for (std::string& key : keys) {
    key += str(" among ", field);  // times of different races do not compare
    if (auto known = prices.find(key)) seconds.push_back(*known);
  }
  if (seconds.size() < plans.size()) {
    seconds = measured_seconds(plans, built, inputs, options);
    if (options.monitor.stop_requested()) return 0;
    for (size_t i = 0; i < plans.size(); ++i) {
      if (std::isinf(seconds[i])) continue;
      try {
        prices.put(keys[i], seconds[i]);
      } catch (const Error&) {
        // Used and not kept: measured again the next time.
      }
    }
  }
  auto best = static_cast<size_t>(std::ranges::min_element(seconds) - seconds.begin());
  for (size_t i = 0; times && i < plans.size(); ++i) {
    if (!std::isinf(seconds[i])) times->push_back({plans[i].name, seconds[i] * 1e3, i == best});
  }
  return best;
}

}  // namespace emend
