// The only file that sees HiGHS. CMake defines EMEND_HAVE_HIGHS where it found the library.
#include "solve/highs.h"

#if EMEND_HAVE_HIGHS
#include <Highs.h>

#include <cmath>
#endif

namespace emend {

#if EMEND_HAVE_HIGHS
namespace {

HighsLp as_highs(const LinearModel& m, bool relaxed) {
  HighsLp lp;
  lp.num_col_ = static_cast<HighsInt>(m.columns.size());
  lp.num_row_ = static_cast<HighsInt>(m.rows.size());
  for (const auto& c : m.columns) {
    lp.col_cost_.push_back(c.cost);
    lp.col_lower_.push_back(c.lower);
    lp.col_upper_.push_back(c.upper);
    if (relaxed) continue;
    lp.integrality_.push_back(c.integer ? HighsVarType::kInteger : HighsVarType::kContinuous);
  }
  lp.a_matrix_.format_ = MatrixFormat::kRowwise;
  for (size_t r = 0; r < m.rows.size(); ++r) {
    lp.row_lower_.push_back(m.rows[r].lower);
    lp.row_upper_.push_back(m.rows[r].upper);
    for (const auto& t : m.row_terms(r)) {
      lp.a_matrix_.index_.push_back(static_cast<HighsInt>(t.column));
      lp.a_matrix_.value_.push_back(t.factor);
    }
    lp.a_matrix_.start_.push_back(static_cast<HighsInt>(lp.a_matrix_.index_.size()));
  }
  return lp;
}

Result<ModelAnswer> solve(const LinearModel& m, const SolveLimits& limits) {
  Highs highs;
  highs.setOptionValue("output_flag", false);
  highs.setOptionValue("threads", 1);  // the same answer everywhere
  highs.setOptionValue("primal_feasibility_tolerance", 1e-9);
  highs.setOptionValue("dual_feasibility_tolerance", 1e-9);
  highs.setOptionValue("mip_rel_gap", 0.0);
  highs.setOptionValue("mip_abs_gap", 1e-9);
  if (std::isfinite(limits.seconds)) highs.setOptionValue("time_limit", limits.seconds);
  if (std::isfinite(limits.cutoff)) highs.setOptionValue("objective_bound", limits.cutoff);
  if (highs.passModel(as_highs(m, limits.relaxed)) == HighsStatus::kError) {
    return fail("HiGHS does not take the model");
  }
  if (highs.run() == HighsStatus::kError) return fail("HiGHS failed");
  ModelAnswer out;
  const auto status = highs.getModelStatus();
  const auto& info = highs.getInfo();
  if (status == HighsModelStatus::kOptimal) out.outcome = ModelAnswer::optimal;
  if (status == HighsModelStatus::kInfeasible) out.outcome = ModelAnswer::infeasible;
  const auto& solution = highs.getSolution();
  if (solution.value_valid && info.primal_solution_status == kSolutionStatusFeasible) {
    out.values = solution.col_value;
    out.objective = info.objective_function_value;
  }
  if (solution.dual_valid) out.row_prices = solution.row_dual;
  if (out.outcome == ModelAnswer::infeasible) out.bound = kUnbounded;
  if (!limits.relaxed && out.outcome != ModelAnswer::infeasible) out.bound = info.mip_dual_bound;
  if (limits.relaxed && out.row_prices.size() == m.rows.size()) {
    out.bound = bound_of_prices(m, out.row_prices);
  }
  return out;
}

}  // namespace

Solver highs_solver() {
  return solve;
}
#else
Solver highs_solver() {
  return {};
}
#endif

}  // namespace emend
