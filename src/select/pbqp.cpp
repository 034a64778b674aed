#include "select/pbqp.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <set>

#include "base/error.h"

namespace emend {
namespace {

// What a combination of options costs, the last variable's running fastest.
struct Table {
  std::vector<size_t> variables;  // ascending
  std::vector<double> costs;
};

// A variable that was folded away: its best option, given those of its neighbours.
struct Folded {
  size_t variable = 0;
  std::vector<size_t> neighbours;
  std::vector<size_t> best;  // as in Table
};

// What is still to be decided.
class State {
 public:
  State(const Pbqp& p, size_t largest) : largest_(largest) {
    for (size_t v = 0; v < p.options.size(); ++v) {
      EMEND_ASSERT(!p.options[v].empty(), "a variable without options");
      counts_.push_back(p.options[v].size());
      costs_[v] = p.options[v];
      tables_of_[v];
    }
    for (const Pbqp::Edge& e : p.edges) {
      EMEND_ASSERT(e.a != e.b);
      Table t{{std::min(e.a, e.b), std::max(e.a, e.b)}, e.costs};
      if (e.a > e.b) {
        size_t rows = counts_[e.a], columns = counts_[e.b];
        for (size_t i = 0; i < rows; ++i) {
          for (size_t j = 0; j < columns; ++j) t.costs[j * rows + i] = e.costs[i * columns + j];
        }
      }
      add(std::move(t));
    }
  }

  double settled() const { return settled_; }
  bool done() const { return costs_.empty(); }

  // No choice can cost less than this.
  double lower_bound() const {
    double bound = settled_;
    for (const auto& [v, c] : costs_) bound += *std::ranges::min_element(c);
    for (const auto& [variables, costs] : tables_) bound += *std::ranges::min_element(costs);
    return bound;
  }

  // Until only variables are left whose tables would be too large.
  void fold_all() {
    std::vector<size_t> open;
    for (const auto& [v, c] : costs_) open.push_back(v);
    for (;;) {
      while (!open.empty()) {
        size_t v = open.back();
        open.pop_back();
        if (!costs_.count(v)) continue;
        auto near = neighbours(v);
        if (near.size() > 2) continue;
        fold(v, near);
        open.insert(open.end(), near.begin(), near.end());
      }
      size_t best = 0, least = largest_ + 1;
      for (const auto& [v, c] : costs_) {
        if (size_t n = combinations(neighbours(v)); n < least) best = v, least = n;
      }
      if (least > largest_) return;
      open = neighbours(best);
      fold(best, std::vector<size_t>(open));
    }
  }

  size_t most_connected() const {
    size_t most = costs_.begin()->first;
    for (const auto& [v, c] : costs_) {
      if (neighbours(v).size() > neighbours(most).size()) most = v;
    }
    return most;
  }

  // The options of a variable by what each costs with the best that each table allows.
  std::vector<size_t> ranked_options(size_t v) const {
    std::vector<double> total = costs_.at(v);
    for (const auto& variables : tables_of_.at(v)) {
      std::vector<double> best(total.size(), 1e300);
      each(variables, [&](const std::vector<size_t>& options, double cost) {
        for (size_t k = 0; k < variables.size(); ++k) {
          if (variables[k] != v) cost += costs_.at(variables[k])[options[k]];
        }
        size_t own = options[place(variables, v)];
        best[own] = std::min(best[own], cost);
      });
      for (size_t i = 0; i < total.size(); ++i) total[i] += best[i];
    }
    std::vector<size_t> order(total.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::ranges::stable_sort(order, {}, [&](size_t i) { return total[i]; });
    return order;
  }

  void decide(size_t v, size_t option) {
    settled_ += costs_.at(v)[option];
    for (const auto& variables : std::set(tables_of_.at(v))) {
      Table rest;
      for (size_t n : variables) {
        if (n != v) rest.variables.push_back(n);
      }
      each(variables, [&](const std::vector<size_t>& options, double cost) {
        if (options[place(variables, v)] == option) rest.costs.push_back(cost);
      });
      remove(variables);
      add(std::move(rest));
    }
    forget(v);
    folded_.push_back({v, {}, {option}});
  }

  std::vector<size_t> choices() const {
    std::vector<size_t> chosen(counts_.size(), 0);
    for (size_t k = folded_.size(); k-- > 0;) {
      const Folded& f = folded_[k];
      size_t at = 0;
      for (size_t n : f.neighbours) at = at * counts_[n] + chosen[n];
      chosen[f.variable] = f.best[at];
    }
    return chosen;
  }

 private:
  using Variables = std::vector<size_t>;

  static size_t place(const Variables& variables, size_t v) {
    return static_cast<size_t>(std::ranges::find(variables, v) - variables.begin());
  }

  size_t combinations(const Variables& variables) const {
    size_t n = 1;
    for (size_t v : variables) {
      n *= counts_[v];
      if (n > largest_) return largest_ + 1;
    }
    return n;
  }

  // Calls see(options, cost) for every combination, in the order of the costs.
  template <class See>
  void each(const Variables& variables, const See& see) const {
    std::vector<size_t> options(variables.size(), 0);
    for (double cost : tables_.at(variables)) {
      see(options, cost);
      next(variables, options);
    }
  }
  void next(const Variables& variables, std::vector<size_t>& options) const {
    for (size_t k = variables.size(); k-- > 0;) {
      if (++options[k] < counts_[variables[k]]) return;
      options[k] = 0;
    }
  }

  Variables neighbours(size_t v) const {
    std::set<size_t> all;
    for (const Variables& variables : tables_of_.at(v))
      all.insert(variables.begin(), variables.end());
    all.erase(v);
    return {all.begin(), all.end()};
  }

  void add(Table t) {
    if (t.variables.empty()) {
      settled_ += t.costs[0];
      return;
    }
    if (t.variables.size() == 1) {
      auto& costs = costs_.at(t.variables[0]);
      for (size_t i = 0; i < costs.size(); ++i) costs[i] += t.costs[i];
      return;
    }
    auto [it, fresh] = tables_.try_emplace(t.variables, t.costs);
    if (!fresh) {
      for (size_t i = 0; i < t.costs.size(); ++i) it->second[i] += t.costs[i];
    }
    for (size_t v : t.variables) tables_of_[v].insert(t.variables);
  }

  void remove(const Variables& variables) {
    for (size_t v : variables) tables_of_.at(v).erase(variables);
    tables_.erase(variables);
  }
  void forget(size_t v) {
    tables_of_.erase(v);
    costs_.erase(v);
  }

  // A table as it is seen from the variable that is folded and its neighbours.
  struct Part {
    const std::vector<double>* costs;
    std::vector<size_t> steps;  // per neighbour
    size_t own = 0;             // of the variable itself
  };
  Part part_of(const Variables& variables, size_t v, const Variables& near) const {
    Part p{&tables_.at(variables), std::vector<size_t>(near.size(), 0)};
    size_t step = 1;
    for (size_t k = variables.size(); k-- > 0; step *= counts_[variables[k]]) {
      (variables[k] == v ? p.own : p.steps[place(near, variables[k])]) = step;
    }
    return p;
  }

  void fold(size_t v, const Variables& near) {
    const std::vector<double>& own = costs_.at(v);
    std::vector<Part> parts;
    for (const Variables& variables : tables_of_.at(v))
      parts.push_back(part_of(variables, v, near));
    size_t n = 1;
    for (size_t k : near) n *= counts_[k];
    Folded f{v, near, {}};
    Table least{near, {}};
    std::vector<size_t> options(near.size(), 0);
    std::vector<double> costs;
    for (size_t c = 0; c < n; ++c, next(near, options)) {
      costs = own;
      for (const Part& p : parts) {
        size_t at = 0;
        for (size_t k = 0; k < near.size(); ++k) at += p.steps[k] * options[k];
        for (size_t o = 0; o < costs.size(); ++o) costs[o] += (*p.costs)[at + p.own * o];
      }
      auto best = std::ranges::min_element(costs);
      f.best.push_back(static_cast<size_t>(best - costs.begin()));
      least.costs.push_back(*best);
    }
    for (const Variables& variables : std::set(tables_of_.at(v))) remove(variables);
    forget(v);
    add(std::move(least));
    folded_.push_back(std::move(f));
  }

  size_t largest_;
  std::vector<size_t> counts_;  // options of every variable
  double settled_ = 0;
  std::map<size_t, std::vector<double>> costs_;  // of the variables that are left
  std::map<Variables, std::vector<double>> tables_;
  std::map<size_t, std::set<Variables>> tables_of_;
  std::vector<Folded> folded_;
};

struct Search {
  size_t budget;
  std::optional<PbqpChoice> best;
  bool exact = true;

  // Depth first, the most promising option first: the first leaf is the heuristic answer.
  void descend(State s) {
    s.fold_all();
    if (best && s.lower_bound() >= best->cost) return;
    if (s.done()) {
      best = PbqpChoice{s.choices(), s.settled()};
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
  Search search{budget, {}};
  search.descend(State(problem, budget));
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
