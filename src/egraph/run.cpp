#include "egraph/run.h"

#include <algorithm>
#include <chrono>
#include <optional>

namespace emend {
namespace {

class Stopwatch {
 public:
  double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

StopReason reason_of(Full full) {
  return full == Full::bytes ? StopReason::bytes : StopReason::nodes;
}

}  // namespace

std::string_view to_text(StopReason r) {
  switch (r) {
    case StopReason::saturated:
      return "saturated";
    case StopReason::iterations:
      return "iterations";
    case StopReason::nodes:
      return "nodes";
    case StopReason::matches:
      return "matches";
    case StopReason::bytes:
      return "bytes";
    case StopReason::seconds:
      return "seconds";
    case StopReason::interrupted:
      return "interrupted";
  }
  return "";
}

Rewrite to_rewrite(TermRule rule) {
  return {std::move(rule.name), std::move(rule.query),
          [term = std::move(rule.term)](EGraph& g, RuleId id, const Rows& rows) {
            return apply_term(g, id, term, rows);
          }};
}

Runner::Runner(std::vector<Rewrite> rewrites) {
  for (Rewrite& r : rewrites) add(std::move(r));
}

void Runner::add(Rewrite rewrite) {
  plans_.emplace_back(rewrite.query);
  states_.emplace_back();
  rewrites_.push_back(std::move(rewrite));
}

// Nothing is left to do but what is banned: those whose ban ends first go on at once.
bool Runner::wake_banned() {
  size_t first = SIZE_MAX;
  for (const RuleState& s : states_) {
    if (s.banned_until > round_) first = std::min(first, s.banned_until);
  }
  if (first == SIZE_MAX) return false;
  for (RuleState& s : states_) {
    if (s.banned_until > round_) s.banned_until -= first - round_;
  }
  return true;
}

bool Runner::step(EGraph& g, size_t rule, const RunnerOptions& options, RunnerReport& report) {
  RuleState& state = states_[rule];
  if (state.banned_until > round_) return true;
  RuleReport& counts = report.rules[rule];
  IterationReport& round = report.iterations.back();
  const size_t limit = options.back_off.on && state.times_banned < 40
                           ? options.back_off.matches << state.times_banned
                           : SIZE_MAX;
  const Stopwatch searching;
  const bool all = search(g, plans_[rule], state.since, rows_, limit);
  const double searched = searching.seconds();
  counts.search_seconds += searched;
  round.search_seconds += searched;
  if (!all) {
    // From the next round on.
    state.banned_until = round_ + 1 + (options.back_off.rounds << state.times_banned++);
    ++counts.bans;
    return true;
  }
  const Stopwatch applying;
  const size_t applied = rows_.empty() ? 0 : rewrites_[rule].apply(g, RuleId(rule), rows_);
  g.end_firing();
  const double took = applying.seconds();
  counts.apply_seconds += took;
  round.apply_seconds += took;
  counts.matches += rows_.size();
  counts.applied += applied;
  round.matches += rows_.size();
  round.applied += applied;
  if (g.full() != Full::no) return false;
  state.since = g.time() + 1;
  return true;
}

RunnerReport Runner::run(EGraph& g, const RunnerOptions& options) {
  const Stopwatch watch;
  RunnerReport report;
  for (const Rewrite& r : rewrites_) report.rules.push_back({.name = r.name});
  const RunnerLimits& limits = options.limits;
  g.set_limits({limits.nodes, limits.bytes});
  const auto why_stop = [&]() -> std::optional<StopReason> {
    if (g.full() != Full::no) return reason_of(g.full());
    if (watch.seconds() > limits.seconds) return StopReason::seconds;
    if (options.monitor.stop_requested()) return StopReason::interrupted;
    return std::nullopt;
  };
  g.rebuild();
  std::optional<StopReason> stopped;
  for (size_t i = 0; !stopped; ++i) {
    if (i == limits.iterations) {
      stopped = StopReason::iterations;
      break;
    }
    const size_t before = g.change_count();
    IterationReport& round = report.iterations.emplace_back();
    const Stopwatch refreshing;
    g.refresh();
    round.rebuild_seconds += refreshing.seconds();
    for (size_t rule = 0; rule < rewrites_.size() && !stopped; ++rule) {
      step(g, rule, options, report);
      stopped = why_stop();
    }
    const Stopwatch rebuilding;
    g.rebuild();
    round.rebuild_seconds += rebuilding.seconds();
    round.nodes = g.node_count();
    round.classes = g.class_count();
    ++round_;
    options.monitor.tell({.phase = "saturate",
                          .done = static_cast<int64_t>(g.node_count()),
                          .of = limits.nodes == SIZE_MAX ? 0 : static_cast<int64_t>(limits.nodes),
                          .unit = "nodes"});
    if (!stopped && g.change_count() == before && !wake_banned()) {
      stopped = StopReason::saturated;
    }
  }
  report.stopped = *stopped;
  report.nodes = g.node_count();
  report.classes = g.class_count();
  report.seconds = watch.seconds();
  return report;
}

}  // namespace emend
