#include "kernels/cpu/costs.h"

#include <iterator>

namespace emend {
namespace {

constexpr CostName kNames[] = {
#define COST(name, value, unit, what) {#name, &Costs::name},
#include "kernels/cpu/costs.inc"
#undef COST
};
static_assert(sizeof(Costs) == std::size(kNames) * sizeof(double), "a cost is not in the table");

}  // namespace

Costs::Costs() {
#define COST(name_, value, unit, what) name_ = value;
#include "kernels/cpu/costs.inc"
#undef COST
}

std::span<const CostName> cost_names() {
  return kNames;
}

}  // namespace emend
