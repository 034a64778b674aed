#include "extract/solution.h"

#include <algorithm>

#include "base/error.h"

namespace emend {

Solution::Solution(const SearchGraph& graph, std::span<const uint32_t> choice)
    : graph_(&graph), state_(graph.problem.class_count()), seen_(graph.problem.class_count()) {
  const auto& p = graph.problem;
  for (uint32_t r : p.roots) {
    if (state_[r].uses++ == 0) open_.push_back(r);
  }
  while (!open_.empty()) {
    const uint32_t c = open_.back(), n = choice[c];
    open_.pop_back();
    EMEND_ASSERT(n != kNoNode && graph.owner[n] == c, "class ", c, " has no choice");
    state_[c].node = n;
    for (uint32_t d : p.children(n)) {
      if (state_[d].uses++ == 0) open_.push_back(d);
    }
  }
  tidy();
}

std::vector<uint32_t> Solution::choices() const {
  std::vector<uint32_t> out(state_.size());
  for (size_t c = 0; c < out.size(); ++c) out[c] = state_[c].node;
  return out;
}

void Solution::activate(uint32_t c, uint32_t n) {
  State& s = change(c);
  s.node = n;
  s.level = 0;
  cost_ += graph_->problem.cost[n];
  for (uint32_t d : graph_->problem.children(n)) {
    s.level = std::max(s.level, state_[d].level + 1);
    ++change(d).uses;
  }
}

// Sees to it that c stands above the children of n, and whoever uses c above it. Going up from c to
// one of those children means a cycle.
bool Solution::lift(uint32_t c, uint32_t n) {
  const auto children = graph_->problem.children(n);
  uint32_t level = 0;
  for (uint32_t d : children) level = std::max(level, state_[d].level + 1);
  if (state_[c].level >= level) return true;
  change(c).level = level;
  open_.assign(1, c);
  while (!open_.empty()) {
    const uint32_t x = open_.back(), above = state_[x].level + 1;
    open_.pop_back();
    for (uint32_t user : graph_->users.of(x)) {
      const uint32_t u = graph_->owner[user];
      if (state_[u].node != user || state_[u].level >= above) continue;
      if (std::ranges::find(children, u) != children.end()) return false;
      change(u).level = above;
      open_.push_back(u);
    }
  }
  return true;
}

void Solution::release(uint32_t n) {
  open_.assign(1, n);
  while (!open_.empty()) {
    const uint32_t gone = open_.back();
    open_.pop_back();
    cost_ -= graph_->problem.cost[gone];
    for (uint32_t d : graph_->problem.children(gone)) {
      State& s = change(d);
      if (--s.uses > 0) continue;
      open_.push_back(s.node);
      s.node = kNoNode;
    }
  }
}

bool Solution::repick(uint32_t c, uint32_t n) {
  if (!lift(c, n)) return false;
  for (uint32_t d : graph_->problem.children(n)) ++change(d).uses;
  State& s = change(c);
  const uint32_t old = s.node;
  s.node = n;
  cost_ += graph_->problem.cost[n];
  release(old);
  return true;
}

void Solution::undo(Mark m) {
  while (trail_.size() > m.trail) {
    state_[trail_.back().cls] = trail_.back().before;
    trail_.pop_back();
  }
  cost_ = m.cost;
}

void Solution::changed_since(Mark m, std::vector<uint32_t>& out) {
  ++stamp_;
  out.clear();
  for (size_t i = m.trail; i < trail_.size(); ++i) {
    const Change& step = trail_[i];
    if (seen_[step.cls] == stamp_) continue;
    seen_[step.cls] = stamp_;  // the first change holds the old state
    if (step.before.node != state_[step.cls].node) out.push_back(step.cls);
  }
}

void Solution::tidy() {
  const auto& p = graph_->problem;
  trail_.clear();
  cost_ = 0;
  std::vector<uint32_t> waits(state_.size());
  open_.clear();
  for (uint32_t c = 0; c < state_.size(); ++c) {
    State& s = state_[c];
    s.level = 0;
    if (s.node == kNoNode) continue;
    cost_ += p.cost[s.node];
    waits[c] = static_cast<uint32_t>(p.children(s.node).size());
    if (waits[c] == 0) open_.push_back(c);
  }
  while (!open_.empty()) {
    const uint32_t x = open_.back();
    open_.pop_back();
    for (uint32_t user : graph_->users.of(x)) {
      const uint32_t u = graph_->owner[user];
      if (state_[u].node != user) continue;
      state_[u].level = std::max(state_[u].level, state_[x].level + 1);
      if (--waits[u] == 0) open_.push_back(u);
    }
  }
  for (uint32_t w : waits) EMEND_ASSERT(w == 0, "a cycle in a solution");
}

}  // namespace emend
