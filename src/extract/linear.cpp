#include "extract/linear.h"

#include <algorithm>
#include <map>

#include "extract/check.h"
#include "extract/greedy.h"

namespace emend {
namespace {

constexpr double kObjective = 1000;  // what the target is scaled to
constexpr double kViolated = 1e-6;   // a sum that falls short of one by more
constexpr int kTriesPerThreshold = 3;

}  // namespace

CutProgram::CutProgram(const SearchGraph& graph, double target, Rng rng)
    : graph_(graph), scale_(target > 0 ? kObjective / target : 1), target_(target), rng_(rng) {
  for (double cost : graph.problem.cost) {
    model_.add_column({.cost = cost * scale_, .integer = true});
  }
  add_structure();
}

// One node of each root, at most one of any class, and with a node its children.
void CutProgram::add_structure() {
  const auto& p = graph_.problem;
  std::vector<LinearModel::Term> row;
  for (uint32_t c = 0; c < p.class_count(); ++c) {
    row.clear();
    for (uint32_t n : p.nodes(c)) row.push_back({n, 1});
    const bool root = std::ranges::find(p.roots, c) != p.roots.end();
    model_.add_row(root ? 1 : 0, 1, row);
    std::map<uint32_t, std::vector<uint32_t>> nodes_with;  // a child
    for (uint32_t n : p.nodes(c)) {
      for (uint32_t d : p.children(n)) nodes_with[d].push_back(n);
    }
    for (const auto& [d, nodes] : nodes_with) {
      row.clear();
      for (uint32_t n : nodes) row.push_back({n, -1});
      for (uint32_t m : p.nodes(d)) row.push_back({m, 1});
      model_.add_row(0, kUnbounded, row);
    }
  }
}

void CutProgram::add_cut(std::span<const uint32_t> nodes) {
  std::vector<LinearModel::Term> row;
  for (uint32_t n : nodes) row.push_back({n, 1});
  model_.add_row(1, kUnbounded, row);
}

// What is open at various heights of x; a cut around it sums to little.
bool CutProgram::separate(std::span<const double> x) {
  bool any = false;
  std::vector<bool> open(x.size());
  for (double threshold : {1e-7, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.7, 0.9}) {
    for (size_t n = 0; n < x.size(); ++n) open[n] = x[n] > threshold;
    for (int i = 0; i < kTriesPerThreshold; ++i) {
      const auto cut = separating_cut(graph_, open, rng_);
      double sum = 0;
      for (uint32_t n : cut) sum += x[n];
      if (cut.empty() || sum > 1 - kViolated) break;
      add_cut(cut);
      any = true;
    }
  }
  return any;
}

Result<CutProgram::Step> CutProgram::relaxed(const Solver& solver, double seconds) {
  auto answer = solver(model_, {.seconds = seconds, .relaxed = true});
  if (!answer) return fail(answer.error());
  Step out;
  out.useless.resize(model_.columns.size());
  if (answer->outcome == ModelAnswer::infeasible) {
    out.bound = kUnbounded;
    return out;
  }
  if (answer->outcome != ModelAnswer::optimal) return fail("HiGHS came to no end in time");
  out.bound = answer->bound / scale_;
  const auto left = reduced_costs(model_, answer->row_prices);
  for (size_t n = 0; n < left.size(); ++n) {
    out.useless[n] = out.bound + left[n] / scale_ >= target_;
  }
  out.cut_added = separate(answer->values);
  return out;
}

Result<CutProgram::Step> CutProgram::integral(const Solver& solver, double seconds) {
  auto answer = solver(model_, {.seconds = seconds, .cutoff = target_ * scale_});
  if (!answer) return fail(answer.error());
  Step out;
  out.bound = answer->bound / scale_;
  if (answer->values.empty()) return out;
  const auto& p = graph_.problem;
  std::vector<uint32_t> choice(p.class_count(), kNoNode);
  for (uint32_t n = 0; n < p.node_count(); ++n) {
    if (answer->values[n] > 0.5) choice[graph_.owner[n]] = n;
  }
  if (checked_cost(p, choice)) {
    out.choice = needed(p, std::move(choice));
  } else {
    std::vector<double> rounded;
    for (double v : answer->values) rounded.push_back(v > 0.5 ? 1 : 0);
    out.cut_added = separate(rounded);
  }
  return out;
}

}  // namespace emend
