// A contraction as C text, by a plan:
//
// A task is some blocks of rows by some blocks of columns, of one batch. Its sums are rows of a
// buffer in the second-level cache, filled tile by tile (tile_printer.h), from which the epilogue
// is printed row by row. Columns are panels [k][nr]: of a constant made ahead, else packed. Rows
// are read where they stand, from copies with padded strides, or as panels [k][mr]. What was packed
// or copied is kept while the next tasks of the same thread need the same.
#pragma once

#include "kernels/cpu/contract_plan.h"

namespace emend {

KernelCode print_contract(const Contraction& c, const Graph& group, const ContractPlan& plan);

}  // namespace emend
