#include <cmath>

#include "base/error.h"
#include "solve/model.h"

namespace emend {

ModelAnswer solve_by_trying_all(const LinearModel& m) {
  ModelAnswer best{.outcome = ModelAnswer::infeasible};
  std::vector<double> x;
  double cost = 0;
  for (const auto& c : m.columns) {
    EMEND_ASSERT(c.integer && std::isfinite(c.lower) && std::isfinite(c.upper),
                 "only integers between bounds can be tried one by one");
    x.push_back(std::ceil(c.lower));
    if (x.back() > c.upper) return best;
  }
  const auto feasible = [&] {
    for (size_t r = 0; r < m.rows.size(); ++r) {
      double sum = 0;
      for (const auto& t : m.row_terms(r)) sum += t.factor * x[t.column];
      if (sum < m.rows[r].lower - 1e-9 || sum > m.rows[r].upper + 1e-9) return false;
    }
    return true;
  };
  while (true) {
    cost = 0;
    for (size_t c = 0; c < x.size(); ++c) cost += m.columns[c].cost * x[c];
    if (cost < best.objective && feasible()) {
      best = {ModelAnswer::optimal, cost, cost, x, {}};
    }
    size_t c = 0;  // the next number in a counter of many digits
    for (; c < x.size() && x[c] + 1 > m.columns[c].upper; ++c) x[c] = std::ceil(m.columns[c].lower);
    if (c == x.size()) return best;
    x[c] += 1;
  }
}

}  // namespace emend
