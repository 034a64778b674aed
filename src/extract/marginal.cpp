#include "extract/marginal.h"

#include <limits>

namespace emend {
namespace {

constexpr double kUnknown = std::numeric_limits<double>::infinity();
// Terms can be exponentially larger than their graphs; their prices stay finite.
constexpr double kHuge = 1e300;

}  // namespace

Marginal::Marginal(const SearchGraph& graph, const Solution& solution)
    : graph_(&graph),
      value_(graph.problem.class_count(), kUnknown),
      support_(graph.problem.class_count(), kNoNode) {
  for (uint32_t c = 0; c < value_.size(); ++c) {
    if (!solution.active(c)) continue;
    value_[c] = 0;
    open_.emplace(0.0, c);
  }
  for (uint32_t n = 0; n < graph.problem.node_count(); ++n) {
    const uint32_t c = graph.owner[n];
    if (!graph.problem.children(n).empty() || !(graph.problem.cost[n] < value_[c])) continue;
    value_[c] = graph.problem.cost[n];
    support_[c] = n;
    open_.emplace(value_[c], c);
  }
  spread(solution);
}

double Marginal::sum(uint32_t n) const {
  double s = graph_->problem.cost[n];
  for (uint32_t d : graph_->problem.children(n)) s += value_[d];
  return s == kUnknown ? s : std::min(s, kHuge);
}

void Marginal::spread(const Solution& solution) {
  while (!open_.empty()) {
    const auto [v, c] = open_.top();
    open_.pop();
    if (v != value_[c]) continue;
    for (uint32_t n : graph_->users.of(c)) {
      const uint32_t o = graph_->owner[n];
      if (solution.active(o)) continue;
      const double s = sum(n);
      if (!(s < value_[o])) continue;
      value_[o] = s;
      support_[o] = n;
      open_.emplace(s, o);
    }
  }
}

void Marginal::update(const Solution& solution, std::span<const uint32_t> changed) {
  // What rests on a class that is no longer there loses its value first ...
  lost_.clear();
  for (uint32_t c : changed) {
    if (solution.active(c)) continue;
    value_[c] = kUnknown;
    lost_.push_back(c);
  }
  for (size_t i = 0; i < lost_.size(); ++i) {
    for (uint32_t n : graph_->users.of(lost_[i])) {
      const uint32_t o = graph_->owner[n];
      if (support_[o] != n || value_[o] == kUnknown) continue;
      value_[o] = kUnknown;
      support_[o] = kNoNode;
      lost_.push_back(o);
    }
  }
  // ... and takes the best that is left, unless it is active now.
  for (uint32_t c : changed) {
    if (!solution.active(c)) continue;
    value_[c] = 0;
    support_[c] = kNoNode;
    open_.emplace(0.0, c);
  }
  for (uint32_t c : lost_) {
    if (solution.active(c)) continue;
    for (uint32_t n : graph_->problem.nodes(c)) {
      const double s = sum(n);
      if (!(s < value_[c])) continue;
      value_[c] = s;
      support_[c] = n;
    }
    if (value_[c] != kUnknown) open_.emplace(value_[c], c);
  }
  spread(solution);
}

}  // namespace emend
