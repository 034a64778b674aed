// Equality saturation: rules are searched and applied, round after round, until nothing changes or
// a limit is met. In a round every rule sees the same snapshot of the e-graph; a rule looks only at
// what changed since it was last applied. Reports say what each rule did and why the run stopped.
//
// Nothing is lost when a run stops: a rule that was not applied to the end looks at the same
// changes again, so that calling run() once more, with other limits, goes on.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/progress.h"
#include "egraph/match.h"
#include "egraph/term.h"

namespace emend {

struct Rewrite {
  std::string name;
  Query query;
  // Does to the e-graph what the rule says, for each row; one call per round. Begins a firing of
  // `rule` for each row it applies, with rows.nodes(i), and stops where g.full() says so. Returns
  // how many rows changed something.
  std::function<size_t(EGraph& g, RuleId rule, const Rows& rows)> apply;
};

Rewrite to_rewrite(TermRule rule);

// egg's: a rule with more new matches than its limit is not applied but banned for some rounds;
// both double each time. Nothing is lost, the matches are found again after the ban.
struct BackOff {
  bool on = true;
  size_t matches = 1000;
  size_t rounds = 5;
};

struct RunnerLimits {
  size_t iterations = 30;
  size_t nodes = 50000;
  size_t bytes = SIZE_MAX;
  double seconds = 60;  // a safety net, looked at between rules: results must not depend on it
};

struct RunnerOptions {
  RunnerLimits limits;
  BackOff back_off;
  Monitor monitor;
};

enum class StopReason : uint8_t {
  saturated,
  iterations,
  nodes,
  matches,  // of a rule that has too many
  bytes,
  seconds,
  interrupted
};
std::string_view to_text(StopReason r);

struct RuleReport {
  std::string name;
  size_t matches = 0, applied = 0;  // rows found, rows that changed something
  size_t bans = 0;
  double search_seconds = 0, apply_seconds = 0;
};
struct IterationReport {
  size_t matches = 0, applied = 0;
  size_t nodes = 0, classes = 0;  // at its end
  double search_seconds = 0, apply_seconds = 0, rebuild_seconds = 0;
};
struct RunnerReport {
  StopReason stopped = StopReason::saturated;
  std::vector<RuleReport> rules;
  std::vector<IterationReport> iterations;
  size_t nodes = 0, classes = 0;
  double seconds = 0;
};

class Runner {
 public:
  // The RuleId of a rewrite is its place in the list.
  explicit Runner(std::vector<Rewrite> rewrites);
  // One more; it looks at everything first.
  void add(Rewrite rewrite);
  // Always with the same e-graph. Leaves it rebuilt.
  RunnerReport run(EGraph& g, const RunnerOptions& options = {});
  const std::vector<Rewrite>& rewrites() const { return rewrites_; }

 private:
  struct RuleState {
    uint32_t since = 0;  // its matches among older tuples were applied
    size_t times_banned = 0, banned_until = 0;
  };
  // One rule of one round. False: a limit was met while it was applied.
  bool step(EGraph& g, size_t rule, const RunnerOptions& options, RunnerReport& report);
  bool wake_banned();

  std::vector<Rewrite> rewrites_;
  std::vector<QueryPlan> plans_;
  std::vector<RuleState> states_;
  size_t round_ = 0;
  Rows rows_;
};

}  // namespace emend
