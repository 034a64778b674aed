// What a plan of `contract` is expected to take.
//
// Work is counted in multiply-adds of whole registers, which one thread does one after the other:
// measured with bench --steps on a processor that starts one of them in every cycle.
#pragma once

#include "kernels/cpu/contract_plan.h"

namespace emend {

class ContractEstimate {
 public:
  ContractEstimate(const Contraction& c, const ContractPlan& p, const Target& target)
      : c_(c), p_(p), target_(target) {}

  double seconds() const;
  // No more than that, and in one task no more than in any others.
  double least_seconds() const;
  // Work of the tiles of a task.
  double products(int64_t rows, int64_t columns) const;
  // Work of all threads: what is packed or copied, as often as it is.
  double packing() const;

 private:
  double seconds(double work, double reading) const;  // of the busiest thread
  double reading() const;
  double tile(int64_t rows, int64_t vectors) const;
  double instructions() const;
  double collisions(int64_t rows) const;
  double misses(int64_t rows, int64_t vectors) const;
  double task(int64_t rows, int64_t columns) const;
  double sums_of_rows(int64_t rows) const;
  double far(const Side& side) const;
  double far_rows(int64_t rows, int64_t columns) const;
  double epilogue(int64_t rows, int64_t columns) const;
  double epilogue_of_sum() const;
  double busiest_thread() const;
  double crossing() const;
  double gathering(const Side& side) const;
  double runs(const Side& side, int64_t block) const;
  double times(bool kept, int64_t own, int64_t other) const;

  const Contraction& c_;
  const ContractPlan& p_;
  const Target& target_;
};

// Seconds that work takes on one thread.
double work_seconds(double work, const Target& target);

}  // namespace emend
