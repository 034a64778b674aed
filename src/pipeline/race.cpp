#include "pipeline/race.h"

#include <algorithm>

#include "base/hash.h"
#include "base/text.h"
#include "kernels/group.h"
#include "ops/table.h"
#include "run/measure.h"

namespace emend {
namespace {

// Everything that the time of a whole program depends on.
std::string key_of(const Graph& g, const Plan& plan, const RaceOptions& options) {
  uint64_t key = plan.choices.size();
  for (size_t k = 0; k < plan.choices.size(); ++k) {
    const NodeGroup& group = plan.partition.groups[k];
    key = group.host ? hash_text(op_def(g.nodes[group.nodes[0]]).name, key)
                     : hash_mix(key, hash(outlined(g, group).graph));
    const Candidate& c = plan.choices[k];
    key = hash_text(str(c.kernel, to_text(c.config), to_text(c.layouts)), key);
  }
  return str("program ", key, " threads ", options.threads, " machine ", options.machine);
}

}  // namespace

size_t fastest_plan(std::span<const RacedPlan> plans,
                    const std::function<CpuProgram(const RacedPlan&)>& built,
                    std::span<const Value> inputs, PriceList& prices, const RaceOptions& options,
                    std::vector<PlanTime>* times) {
  std::vector<std::string> keys;
  std::vector<double> seconds;
  for (const RacedPlan& p : plans) {
    keys.push_back(key_of(*p.graph, p.plan, options));
    if (auto known = prices.find(keys.back())) seconds.push_back(*known);
  }
  if (seconds.size() < plans.size()) {
    std::vector<CpuProgram> programs;
    std::vector<Contender> contenders;
    for (const RacedPlan& p : plans) programs.push_back(built(p));
    for (const CpuProgram& p : programs) contenders.push_back([&p, inputs] { p.run(inputs); });
    auto timings = measure(contenders, {.seconds = options.seconds, .monitor = options.monitor});
    if (options.monitor.stop_requested()) return 0;
    seconds.clear();
    for (size_t i = 0; i < plans.size(); ++i) {
      seconds.push_back(timings[i].median_ms() / 1e3);
      try {
        prices.put(keys[i], seconds.back());
      } catch (const Error&) {
        // Used and not kept: measured again the next time.
      }
    }
  }
  auto best = static_cast<size_t>(std::ranges::min_element(seconds) - seconds.begin());
  for (size_t i = 0; times && i < plans.size(); ++i) {
    times->push_back({plans[i].name, seconds[i] * 1e3, i == best});
  }
  return best;
}

}  // namespace emend
