#include "extract/greedy.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <queue>

#include "extract/check.h"
#include "extract/lists.h"

namespace emend {
namespace {

// Terms with sharing can be exponentially larger than their graphs; sums stay comparable.
constexpr double kHuge = 1e300;

// The classes below a choice and what they cost together.
struct CostSet {
  std::vector<uint32_t> classes;  // sorted
  double cost = std::numeric_limits<double>::infinity();
};

}  // namespace

std::vector<uint32_t> tree_choices(const ExtractionProblem& p) {
  const Lists users = users_of_classes(p);
  const auto owner = p.owners();
  std::vector<double> value(p.class_count(), std::numeric_limits<double>::infinity());
  std::vector<uint32_t> choice(p.class_count(), kNoNode), missing(p.node_count());
  std::vector<double> sum = p.cost;
  std::vector<bool> settled(p.class_count());
  using Entry = std::pair<double, uint32_t>;  // value and node; ties by number: deterministic
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> open;
  const auto ready = [&](uint32_t n) {
    if (sum[n] < value[owner[n]]) {
      value[owner[n]] = sum[n];
      choice[owner[n]] = n;
      open.emplace(sum[n], n);
    }
  };
  for (uint32_t n = 0; n < p.node_count(); ++n) {
    missing[n] = static_cast<uint32_t>(p.children(n).size());
    if (missing[n] == 0) ready(n);
  }
  while (!open.empty()) {
    auto [v, n] = open.top();
    open.pop();
    const uint32_t c = owner[n];
    if (settled[c]) continue;
    settled[c] = true;
    for (uint32_t parent : users.of(c)) {
      sum[parent] = std::isinf(sum[parent]) ? sum[parent] : std::min(kHuge, sum[parent] + v);
      if (--missing[parent] == 0 && !settled[owner[parent]]) ready(parent);
    }
  }
  return choice;
}

std::vector<uint32_t> needed(const ExtractionProblem& p, std::vector<uint32_t> choice) {
  std::vector<bool> seen(p.class_count());
  std::vector<uint32_t> open = p.roots;
  while (!open.empty()) {
    const uint32_t c = open.back();
    open.pop_back();
    if (seen[c] || choice[c] == kNoNode) continue;
    seen[c] = true;
    for (uint32_t d : p.children(choice[c])) open.push_back(d);
  }
  for (size_t c = 0; c < seen.size(); ++c) {
    if (!seen[c]) choice[c] = kNoNode;
  }
  return choice;
}

std::vector<uint32_t> greedy_tree(const ExtractionProblem& p) {
  return needed(p, tree_choices(p));
}

std::vector<uint32_t> greedy_dag(const ExtractionProblem& p) {
  const Lists users = users_of_classes(p);
  const auto owner = p.owners();
  std::vector<uint32_t> choice(p.class_count(), kNoNode);
  std::vector<CostSet> best(p.class_count());
  std::queue<uint32_t> open;
  std::vector<bool> waiting(p.node_count());
  const auto enqueue = [&](uint32_t n) {
    if (!waiting[n]) {
      waiting[n] = true;
      open.push(n);
    }
  };
  const auto set_of = [&](uint32_t n) {
    CostSet out;
    for (uint32_t d : p.children(n)) {
      if (choice[d] == kNoNode) return CostSet{};
      std::vector<uint32_t> merged;
      std::ranges::set_union(out.classes, best[d].classes, std::back_inserter(merged));
      out.classes = std::move(merged);
    }
    const auto at = std::ranges::lower_bound(out.classes, owner[n]);
    if (at != out.classes.end() && *at == owner[n]) return CostSet{};  // a cycle
    out.cost = p.cost[n];
    for (uint32_t c : out.classes) out.cost += p.cost[choice[c]];
    out.classes.insert(std::ranges::lower_bound(out.classes, owner[n]), owner[n]);
    return out;
  };
  for (uint32_t n = 0; n < p.node_count(); ++n) {
    if (p.children(n).empty()) enqueue(n);
  }
  while (!open.empty()) {
    const uint32_t n = open.front(), c = owner[n];
    open.pop();
    waiting[n] = false;
    // A set is summed with today's choices of its members, which can be cheaper than when it was
    // made: only a fall counts, so that the loop ends.
    CostSet set = set_of(n);
    if (!(set.cost < best[c].cost)) continue;
    best[c] = std::move(set);
    choice[c] = n;
    for (uint32_t parent : users.of(c)) enqueue(parent);
  }
  // Sets are not rewritten when a member changes its mind, so that choices can end in a cycle. Its
  // classes go back to their cheapest terms; a cycle has a class that has not, so this ends.
  const auto tree = tree_choices(p);
  for (auto cycle = find_cycle(p, choice); !cycle.empty(); cycle = find_cycle(p, choice)) {
    for (uint32_t c : cycle) choice[c] = tree[c];
  }
  return needed(p, std::move(choice));
}

}  // namespace emend
