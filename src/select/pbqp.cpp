#include "select/pbqp.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <set>

#include "base/error.h"

namespace emend {
namespace {

struct Table {
  size_t columns = 0;
  std::vector<double> costs;
  double& at(size_t row, size_t column) { return costs[row * columns + column]; }
  double at(size_t row, size_t column) const { return costs[row * columns + column]; }
};

Table turned(const Table& t) {
  size_t rows = t.costs.size() / t.columns;
  Table out{rows, std::vector<double>(t.costs.size())};
  for (size_t i = 0; i < rows; ++i) {
    for (size_t j = 0; j < t.columns; ++j) out.at(j, i) = t.at(i, j);
  }
  return out;
}

// A variable that was folded away: its best option, given those of its neighbours.
struct Folded {
  size_t variable = 0;
  std::vector<size_t> neighbours;  // at most two
  std::vector<size_t> best;        // [option of the first][option of the second]
};

// What is still to be decided.
class State {
 public:
  explicit State(const Pbqp& p) {
    for (size_t v = 0; v < p.options.size(); ++v) {
      EMEND_ASSERT(!p.options[v].empty(), "a variable without options");
      costs_[v] = p.options[v];
      neighbours_[v];
    }
    for (const Pbqp::Edge& e : p.edges) add_edge(e.a, e.b, {p.options[e.b].size(), e.costs});
  }

  double settled() const { return settled_; }
  bool done() const { return costs_.empty(); }

  // No choice can cost less than this.
  double lower_bound() const {
    double bound = settled_;
    for (const auto& [v, c] : costs_) bound += *std::ranges::min_element(c);
    for (const auto& [pair, t] : edges_) bound += *std::ranges::min_element(t.costs);
    return bound;
  }

  void fold_all() {
    std::vector<size_t> open;
    for (const auto& [v, c] : costs_) open.push_back(v);
    while (!open.empty()) {
      size_t v = open.back();
      open.pop_back();
      auto it = neighbours_.find(v);
      if (it == neighbours_.end() || it->second.size() > 2) continue;
      std::vector<size_t> near(it->second.begin(), it->second.end());
      fold(v, near);
      open.insert(open.end(), near.begin(), near.end());
    }
  }

  size_t most_connected() const {
    return std::ranges::max_element(neighbours_, {}, [](const auto& n) { return n.second.size(); })
        ->first;
  }

  // The options of a variable by what each costs with the best its neighbours could do.
  std::vector<size_t> ranked_options(size_t v) const {
    std::vector<double> total = costs_.at(v);
    for (size_t n : neighbours_.at(v)) {
      Table t = edge(v, n);
      for (size_t i = 0; i < total.size(); ++i) {
        double best = costs_.at(n)[0] + t.at(i, 0);
        for (size_t j = 1; j < t.columns; ++j) best = std::min(best, costs_.at(n)[j] + t.at(i, j));
        total[i] += best;
      }
    }
    std::vector<size_t> order(total.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::ranges::stable_sort(order, {}, [&](size_t i) { return total[i]; });
    return order;
  }

  void decide(size_t v, size_t option) {
    settled_ += costs_.at(v)[option];
    auto near = neighbours_.at(v);
    for (size_t n : near) {
      Table t = edge(v, n);
      for (size_t j = 0; j < t.columns; ++j) costs_.at(n)[j] += t.at(option, j);
    }
    remove(v);
    folded_.push_back({v, {}, {option}});
  }

  std::vector<size_t> choices(size_t variables) const {
    std::vector<size_t> chosen(variables, 0);
    for (size_t k = folded_.size(); k-- > 0;) {
      const Folded& f = folded_[k];
      size_t at = 0;
      if (!f.neighbours.empty()) at = chosen[f.neighbours[0]];
      if (f.neighbours.size() == 2) {
        size_t columns = f.best.size() / first_options_.at(k);
        at = at * columns + chosen[f.neighbours[1]];
      }
      chosen[f.variable] = f.best[at];
    }
    return chosen;
  }

 private:
  // [option of a][option of b]
  Table edge(size_t a, size_t b) const {
    return a < b ? edges_.at({a, b}) : turned(edges_.at({b, a}));
  }

  void add_edge(size_t a, size_t b, Table t) {
    EMEND_ASSERT(a != b);
    if (a > b) return add_edge(b, a, turned(t));
    auto [it, fresh] = edges_.try_emplace({a, b}, t);
    if (!fresh) {
      for (size_t i = 0; i < t.costs.size(); ++i) it->second.costs[i] += t.costs[i];
    }
    neighbours_[a].insert(b);
    neighbours_[b].insert(a);
  }

  void remove(size_t v) {
    for (size_t n : neighbours_.at(v)) {
      edges_.erase({std::min(v, n), std::max(v, n)});
      neighbours_.at(n).erase(v);
    }
    neighbours_.erase(v);
    costs_.erase(v);
  }

  void fold(size_t v, const std::vector<size_t>& near) {
    const std::vector<double> own = costs_.at(v);
    auto count = [&](size_t k) { return k < near.size() ? costs_.at(near[k]).size() : 1; };
    std::vector<Table> from;  // [option of v][option of the neighbour]
    for (size_t n : near) from.push_back(edge(v, n));
    Folded f{v, near, {}};
    Table least{count(1), {}};
    for (size_t i = 0; i < count(0); ++i) {
      for (size_t j = 0; j < count(1); ++j) {
        size_t best = 0;
        double best_cost = 0;
        for (size_t o = 0; o < own.size(); ++o) {
          double cost = own[o];
          if (!near.empty()) cost += from[0].at(o, i);
          if (near.size() == 2) cost += from[1].at(o, j);
          if (o == 0 || cost < best_cost) best = o, best_cost = cost;
        }
        f.best.push_back(best);
        least.costs.push_back(best_cost);
      }
    }
    first_options_[folded_.size()] = count(0);
    remove(v);
    if (near.empty()) settled_ += least.costs[0];
    if (near.size() == 1) {
      for (size_t i = 0; i < least.costs.size(); ++i) costs_.at(near[0])[i] += least.costs[i];
    }
    if (near.size() == 2) add_edge(near[0], near[1], std::move(least));
    folded_.push_back(std::move(f));
  }

  double settled_ = 0;
  std::map<size_t, std::vector<double>> costs_;
  std::map<size_t, std::set<size_t>> neighbours_;
  std::map<std::pair<size_t, size_t>, Table> edges_;  // the smaller variable first
  std::vector<Folded> folded_;
  std::map<size_t, size_t> first_options_;  // by index into folded_: options of the first neighbour
};

struct Search {
  const Pbqp& problem;
  size_t budget;
  std::optional<PbqpChoice> best;
  bool exact = true;

  // Depth first, the most promising option first: the first leaf is the heuristic answer.
  void descend(State s) {
    s.fold_all();
    if (best && s.lower_bound() >= best->cost) return;
    if (s.done()) {
      best = PbqpChoice{s.choices(problem.options.size()), s.settled()};
      return;
    }
    size_t v = s.most_connected();
    for (size_t option : s.ranked_options(v)) {
      if (best && budget == 0) {
        exact = false;
        return;
      }
      if (budget > 0) --budget;
      State next = s;
      next.decide(v, option);
      descend(std::move(next));
    }
  }
};

}  // namespace

PbqpChoice solve(const Pbqp& problem, size_t budget) {
  Search search{problem, budget, {}};
  search.descend(State(problem));
  search.best->exact = search.exact;
  search.best->cost = cost_of(problem, search.best->options);
  return *search.best;
}

double cost_of(const Pbqp& problem, const std::vector<size_t>& options) {
  double cost = 0;
  for (size_t v = 0; v < options.size(); ++v) cost += problem.options[v][options[v]];
  for (const Pbqp::Edge& e : problem.edges) {
    cost += e.costs[options[e.a] * problem.options[e.b].size() + options[e.b]];
  }
  return cost;
}

}  // namespace emend
