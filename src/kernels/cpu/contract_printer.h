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

// What others call things, where a kernel is made of several contractions.
struct ContractNames {
  std::string prefix;    // of its functions, and of what it keeps from task to task
  std::string given;     // where rows begin that are given
  std::string divisors;  // an array: row m of the sums is divided by element m - m0
};

// The text in pieces: functions, buffers that are wanted, variables that live as long as a thread's
// tasks, and what is done for `task`.
struct ContractPieces {
  std::string functions;
  bool turns = false;                                    // print_turn is needed, too
  std::vector<std::pair<std::string, int64_t>> buffers;  // by name, words
  std::string kept;
  std::string task;
};
ContractPieces contract_pieces(const Contraction& c, const Graph& group, const ContractPlan& plan,
                               const ContractNames& names = {});

}  // namespace emend
