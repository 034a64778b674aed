// Linear and integer programs as plain data, and what solves them as a value: minimise cost . x
// with every column between its bounds and every row (a sum of columns times factors) between its
// own.
//   LinearModel m;
//   auto x = m.add_column({.cost = 1, .integer = true}), y = m.add_column({.cost = 2});
//   m.add_row(1, kUnbounded, {{x, 1}, {y, 1}});      // x + y >= 1
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <limits>
#include <span>
#include <vector>

#include "base/result.h"

namespace emend {

constexpr double kUnbounded = std::numeric_limits<double>::infinity();

struct LinearModel {
  struct Column {
    double cost = 0, lower = 0, upper = 1;
    bool integer = false;
  };
  struct Term {
    uint32_t column;
    double factor;
  };
  struct Row {
    double lower, upper;
    uint32_t first_term;
  };
  std::vector<Column> columns;
  std::vector<Row> rows;
  std::vector<Term> terms;  // of all rows, in their order

  uint32_t add_column(Column c) {
    columns.push_back(c);
    return static_cast<uint32_t>(columns.size() - 1);
  }
  void add_row(double lower, double upper, std::span<const Term> row) {
    rows.push_back({lower, upper, static_cast<uint32_t>(terms.size())});
    terms.insert(terms.end(), row.begin(), row.end());
  }
  void add_row(double lower, double upper, std::initializer_list<Term> row) {
    add_row(lower, upper, std::span(row.begin(), row.size()));
  }
  std::span<const Term> row_terms(size_t row) const {
    const size_t end = row + 1 < rows.size() ? rows[row + 1].first_term : terms.size();
    return std::span(terms).subspan(rows[row].first_term, end - rows[row].first_term);
  }
};

struct SolveLimits {
  double seconds = kUnbounded;
  bool relaxed = false;        // columns need not be integers
  double cutoff = kUnbounded;  // nothing that costs this much is of interest
};

struct ModelAnswer {
  enum Outcome { optimal, infeasible, stopped };
  Outcome outcome = stopped;
  double objective = kUnbounded;  // of `values`, if there are any
  double bound = -kUnbounded;     // nothing costs less
  std::vector<double> values;
  std::vector<double> row_prices;  // dual values, of relaxed models
};

// A solver is a function; a failure says why there is no answer at all.
using Solver = std::function<Result<ModelAnswer>(const LinearModel&, const SolveLimits&)>;

// The bound that row prices prove by themselves, whatever tolerances the solver works with: each
// row charged at its price, what is left of the columns' costs at their better bound.
double bound_of_prices(const LinearModel& m, std::span<const double> row_prices);
// What row prices leave of every column's cost.
std::vector<double> reduced_costs(const LinearModel& m, std::span<const double> row_prices);

// The oracle of tests: tries all values of all columns, which must be integers with few values.
ModelAnswer solve_by_trying_all(const LinearModel& m);

}  // namespace emend
