#include "pipeline/optimize.h"

#include <algorithm>
#include <cmath>
#include <tuple>

#include "base/contained.h"
#include "base/timed.h"
#include "ops/onnx_lower.h"
#include "pipeline/compile.h"
#include "pipeline/kept_checks.h"
#include "pipeline/less_work.h"
#include "pipeline/runtime_prices.h"
#include "pipeline/weights_ahead.h"

namespace emend {
namespace {

// What a second cleaning did besides the first.
void add(SimplifyReport& to, const SimplifyReport& more) {
  if (to.stop_reason.empty()) {
    to = more;
    return;
  }
  for (const auto& f : more.fired) {
    auto known = std::ranges::find(to.fired, f.rule, &SimplifyReport::Fired::rule);
    if (known == to.fired.end()) {
      to.fired.push_back(f);
    } else {
      known->times += f.times;
    }
  }
  std::ranges::sort(to.fired, {}, &SimplifyReport::Fired::rule);
  to.nodes_after = more.nodes_after;
  to.rounds += more.rounds;
  to.stop_reason = more.stop_reason;
}

SearchPrices prices_for(const OptimizeOptions& options, const SimplifyOptions& finish) {
  Target target = options.target ? *options.target : target_here();
  if (!options.runtime) return back_end_prices(target, options.accuracy);
  return runtime_prices(options.runtime, target, finish);
}

// The result, unless the input is faster where it is to run.
Graph faster_there(const Graph& input, Graph result, const OptimizeOptions& options,
                   OptimizeReport& facts) {
  constexpr double kNoise = 0.005;
  auto& found = facts.elsewhere ? *facts.elsewhere : facts.elsewhere.emplace();
  auto both =
      timed(facts.phases_ms, "measure", [&] { return options.runtime->race(input, result); });
  found.runtime = options.runtime->title();
  found.measured = options.runtime->measured();
  found.known = options.runtime->known();
  if (both) {
    std::tie(found.before_s, found.after_s) = *both;
    if (found.after_s <= (1 + kNoise) * found.before_s) return result;
    found.after_s = found.before_s;
  } else if (!options.runtime->stopped() && !options.runtime->race(input, input)) {
    throw Error(str("the model does not run in ", found.runtime, ": ", both.error()));
  }
  found.kept_input = true;
  return input;
}

// What the search found; where it ended in a bug of ours, the program as it is. What another
// runtime says no to is for the user to hear.
Graph searched(const Graph& g, const ImproveOptions& searching, const OptimizeOptions& options,
               OptimizeReport& facts) {
  auto tell = [&](const std::string& fault, const char* cost) {
    facts.faults.push_back(str("internal error in the search: ", fault, "; ", cost));
    if (options.warn) options.warn(facts.faults.back());
  };
  Graph found = g;
  ImproveReport report;
  std::exception_ptr refused;
  auto fault = fault_of([&] {
    try {
      found = improved(g, searching, options.keeping, &report);
    } catch (const Error&) {
      if (!options.runtime) throw;
      refused = std::current_exception();
    }
  });
  if (refused) std::rethrow_exception(refused);
  if (fault) {
    tell(*fault, "the program is cleaned only");
    return g;
  }
  for (const std::string& f : report.faults) tell(f, "its mutants were left out");
  facts.improved = std::move(report);
  return found;
}

}  // namespace

ImproveOptions search_options(const OptimizeOptions& options, SearchPrices prices) {
  ImproveOptions searching{.saturate = {.enable = options.enable,
                                        .disable = options.disable,
                                        .exact = options.accuracy == 0,
                                        .monitor = options.monitor},
                           .mutate = {.enable = options.enable, .disable = options.disable},
                           .prices = std::move(prices),
                           .seed = options.seed,
                           .monitor = options.monitor};
  if (options.runtime) searching.combined = 0;  // each is a race
  searching.saturate.nodes = static_cast<size_t>(
      std::lround(options.effort * static_cast<double>(searching.saturate.nodes)));
  searching.saturate.seconds *= std::max(1.0, options.effort);
  searching.moves = std::llround(options.effort * static_cast<double>(searching.moves));
  // Mutants add in another order, which strictness rules out.
  if (options.accuracy == 0 || !is_enabled("mutate", options.enable, options.disable))
    searching.mutate_from = 2;
  if (options.level > 2) searching.mutate.generate = GenerateOptions{.rounds = 2};
  return searching;
}

Checked check_result(const Graph& before, const Graph& after, const OptimizeOptions& options) {
  if (options.level == 0) return {.reason = "not run: nothing was changed"};
  // Nodes that were left as ONNX has them are compared by what they mean.
  return compare_results(lower_onnx(before).graph, lower_onnx(after).graph,
                         {.accuracy = options.accuracy,
                          .seed = options.seed,
                          .max_operations = options.max_check_operations,
                          .monitor = options.monitor},
                         options.keeping);
}

Graph optimized(const Graph& g, const OptimizeOptions& options, OptimizeReport* report) {
  OptimizeReport unread;
  OptimizeReport& facts = report ? *report : unread;
  if (options.level == 0) {
    facts.simplified = {.nodes_before = g.size(), .nodes_after = g.size()};
    return g;
  }
  // What nothing comes of has nothing to be searched for.
  if (options.level > 1 &&
      (g.outputs.empty() || !is_enabled("search", options.enable, options.disable))) {
    OptimizeOptions cleaning_only = options;
    cleaning_only.level = 1;
    return optimized(g, cleaning_only, report);
  }
  SimplifyOptions cleaning{.enable = options.enable,
                           .disable = options.disable,
                           .fold_moves_below = options.fold_moves_below,
                           .rounds = options.rounds,
                           .exact = options.accuracy == 0,
                           .finish = options.level == 1,
                           .monitor = options.monitor};
  auto simplified = [&](const Graph& from) {
    SimplifyReport once;
    Graph to = timed(facts.phases_ms, "simplify", [&] { return simplify(from, cleaning, &once); });
    add(facts.simplified, once);
    return to;
  };
  Graph cleaned = simplified(g);
  if (options.level == 1)
    return options.runtime ? faster_there(g, cleaned, options, facts) : cleaned;
  if (options.dump) options.dump("simplify", cleaned);
  cleaning.finish = true;
  const ImproveOptions searching = search_options(options, prices_for(options, cleaning));
  Graph now = searched(cleaned, searching, options, facts);
  if (facts.improved) {
    for (const auto& [name, ms] : facts.improved->phases_ms) add_time(facts.phases_ms, name, ms);
  }
  if (options.dump) options.dump("search", now);
  if (options.runtime) {
    Formed formed = timed(facts.phases_ms, "measure",
                          [&] { return fastest_form(now, cleaning, *options.runtime); });
    now = std::move(formed.graph);
    facts.elsewhere.emplace().forms = std::move(formed.forms);
  }
  cleaning.cleaned = now == cleaned && facts.simplified.stop_reason == "fixed point";
  facts.kept_cleaned = now == cleaned;
  now = simplified(now);
  if (options.for_everyone && !facts.kept_cleaned) {
    cleaning.cleaned = facts.simplified.stop_reason == "fixed point";
    Graph plain = simplified(cleaned);
    facts.kept_cleaned = !is_less_work(now, plain);
    if (facts.kept_cleaned) now = std::move(plain);
  }
  if (options.fastest && !facts.kept_cleaned) {
    cleaning.cleaned = facts.simplified.stop_reason == "fixed point";
    const Graph both[] = {std::move(now), simplified(cleaned)};
    const size_t fastest =
        timed(facts.phases_ms, "measure", [&] { return options.fastest(both, facts); });
    facts.kept_cleaned = fastest == 1;
    now = both[fastest];
  }
  return options.runtime ? faster_there(g, now, options, facts) : now;
}

Graph optimized_to_run(const Graph& g, const OptimizeOptions& options, OptimizeReport* report,
                       const ResultCheck& check) {
  OptimizeReport facts;
  OptimizeOptions how = options;
  Graph result;
  for (;; how.level = how.level > 1 ? 1 : 0) {
    result = optimized(g, how, &facts);
    // Convolutions that became one may have larger weights than all of them.
    if (how.level > 1 && how.memory && constant_bytes(result) > *how.memory * constant_bytes(g)) {
      facts = {};
      continue;
    }
    facts.checked = timed(facts.phases_ms, "check", [&] { return check(g, result, how); });
    if (facts.checked.kind != Checked::Kind::failed) break;
    facts.faults.push_back(str("the optimized program is not used: ", facts.checked.reason, "; ",
                               how.level > 1 ? "it is cleaned only" : "it runs as it is"));
    if (options.warn) options.warn(facts.faults.back());
  }
  if (report) *report = std::move(facts);
  return result;
}

Model optimize(const Model& model, const OptimizeOptions& options, OptimizeReport* report) {
  OptimizeReport facts;
  Model out = model;
  out.graph = optimized(model.graph, options, &facts);
  if (options.dump && options.level > 0) options.dump("simplify", out.graph);
  facts.checked = timed(facts.phases_ms, "check",
                        [&] { return check_result(model.graph, out.graph, options); });
  if (report) *report = std::move(facts);
  return out;
}

}  // namespace emend
