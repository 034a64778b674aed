// The constants of the estimates of the CPU's own kernels. What each means and is stands in one
// table, costs.inc, which bench/fit.py rewrites. A target carries them, so that whoever fits them
// can ask what others would say.
#pragma once

#include <span>

namespace emend {

struct Costs {
  double work_plain, work_division, work_exp, work_function, work_call, work_load;
  double direct_tile, direct_sum, direct_load, direct_deep, direct_narrow, direct_task, direct_near,
      direct_crowded, direct_broadcast, direct_miss;
  double contract_call, contract_vector, contract_broadcast, contract_latency, contract_miss,
      contract_run, contract_element, contract_turned, contract_far, contract_line, contract_task,
      contract_apart;
  double winograd_sum, winograd_input, winograd_outside;
  double rows_begin, rows_strided, rows_bound, rows_term, rows_apart, rows_near, rows_unpacked;

  Costs();  // as in the table
  bool operator==(const Costs&) const = default;
};

struct CostName {
  const char* name;
  double Costs::*value;
};
std::span<const CostName> cost_names();

}  // namespace emend
