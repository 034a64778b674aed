#include "solve/model.h"

#include <algorithm>
#include <cmath>

namespace emend {

std::vector<double> reduced_costs(const LinearModel& m, std::span<const double> row_prices) {
  std::vector<double> left(m.columns.size());
  for (size_t c = 0; c < left.size(); ++c) left[c] = m.columns[c].cost;
  for (size_t r = 0; r < m.rows.size(); ++r) {
    for (const auto& t : m.row_terms(r)) left[t.column] -= row_prices[r] * t.factor;
  }
  return left;
}

double bound_of_prices(const LinearModel& m, std::span<const double> row_prices) {
  // price * x is least at the lower bound for a positive price, at the upper for a negative one.
  const auto least = [](double price, double lower, double upper) {
    return price == 0 ? 0 : price * (price > 0 ? lower : upper);
  };
  double bound = 0;
  for (size_t r = 0; r < m.rows.size(); ++r) {
    bound += least(row_prices[r], m.rows[r].lower, m.rows[r].upper);
  }
  const auto left = reduced_costs(m, row_prices);
  for (size_t c = 0; c < left.size(); ++c) {
    bound += least(left[c], m.columns[c].lower, m.columns[c].upper);
  }
  return bound;
}

}  // namespace emend
