#include "pipeline/optimize.h"

#include <chrono>
#include <cmath>
#include <cstdio>

#include "equiv/compare.h"
#include "equiv/region.h"
#include "ops/evaluate.h"
#include "pipeline/accuracy.h"

namespace emend {
namespace {

template <class Stage>
auto timed(OptimizeReport& report, const std::string& name, const Stage& stage) {
  auto start = std::chrono::steady_clock::now();
  auto result = stage();
  std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
  report.phases_ms.emplace_back(name, took.count());
  return result;
}

// Two digits: more would say more than a random input can.
std::string error_text(double error) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1e", error);
  return text;
}

// Both in their own dtypes: nothing may differ.
Checked check_bits(const Graph& before, const Graph& after, const std::vector<Value>& inputs,
                   const Monitor& monitor) {
  auto expected = reference_outputs(before, inputs, Arithmetic::own, monitor);
  auto worst = worst_difference(before, expected,
                                reference_outputs(after, inputs, Arithmetic::own, monitor));
  bool same = worst.rel == 0;
  return {.kind = same ? Checked::Kind::passed : Checked::Kind::failed,
          .max_rel_err = worst.rel,
          .output = worst.output,
          .reason = same ? "the same bits, in the model's own number formats"
                         : str("output ", worst.output, " differs by ", error_text(worst.rel),
                               " relative to its largest value; nothing is allowed")};
}

bool runs(const Graph& g, std::span<const Value> inputs, const Monitor& monitor) {
  try {
    evaluate(g, inputs, {.monitor = monitor, .phase = "check"});
    return true;
  } catch (const Error&) {
    return false;
  }
}

}  // namespace

Checked check_result(const Graph& before, const Graph& after, const OptimizeOptions& options) {
  Checked c;
  if (options.level == 0) {
    c.reason = "not run: nothing was changed";
    return c;
  }
  double operations = operation_count(before);
  if (operations > options.max_check_operations) {
    c.reason = str("not run: ", count_text(operations), "FLOP are more than the limit of ",
                   count_text(options.max_check_operations), "FLOP");
    return c;
  }
  std::vector<Value> inputs;
  try {
    inputs = random_inputs(before, options.seed);
    auto exact = reference_outputs(before, inputs, Arithmetic::real64, options.monitor);
    if (options.accuracy == 0) return check_bits(before, after, inputs, options.monitor);
    auto result = reference_outputs(after, inputs, Arithmetic::own, options.monitor);
    auto worst = worst_difference(before, exact, result);
    double allowed = options.accuracy;
    bool good = worst.rel <= allowed;
    if (!good) {
      auto rounded = reference_outputs(before, inputs, Arithmetic::own, options.monitor);
      double own = worst_difference(before, exact, rounded).rel;
      if (std::isfinite(own)) allowed = std::max(allowed, 4 * own);
      good =
          worst.rel <= allowed || worst_difference(before, rounded, result).rel <= options.accuracy;
    }
    c.kind = good ? Checked::Kind::passed : Checked::Kind::failed;
    c.max_rel_err = worst.rel;
    c.output = worst.output;
    c.reason = str("error of ", error_text(worst.rel),
                   " relative to the largest value, against double precision; ",
                   error_text(allowed), " is allowed");
  } catch (const Inexact& e) {
    c.reason = str("not run: ", e.what());
  } catch (const Error& e) {
    // What fails only after the changes is wrong, not unknown.
    bool input_runs =
        inputs.size() == before.inputs.size() && runs(before, inputs, options.monitor);
    if (input_runs) c.kind = Checked::Kind::failed;
    c.reason = str(input_runs ? "the result does not run: " : "not run: ", e.what());
  }
  return c;
}

Graph optimized(const Graph& g, const OptimizeOptions& options, SimplifyReport* report) {
  if (options.level == 0) {
    if (report) *report = {.nodes_before = g.size(), .nodes_after = g.size()};
    return g;
  }
  return simplify(g,
                  {.enable = options.enable,
                   .disable = options.disable,
                   .fold_moves_below = options.fold_moves_below,
                   .rounds = options.rounds,
                   .exact = options.accuracy == 0,
                   .monitor = options.monitor},
                  report);
}

Model optimize(const Model& model, const OptimizeOptions& options, OptimizeReport* report) {
  OptimizeReport facts;
  Model out = model;
  out.graph =
      timed(facts, "simplify", [&] { return optimized(model.graph, options, &facts.simplified); });
  if (options.dump && options.level > 0) options.dump("simplify", out.graph);
  facts.checked =
      timed(facts, "check", [&] { return check_result(model.graph, out.graph, options); });
  if (report) *report = std::move(facts);
  return out;
}

}  // namespace emend
