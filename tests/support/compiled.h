// Compiled programs against the reference.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "equiv/compare.h"
#include "ops/evaluate.h"
#include "pipeline/compile.h"
#include "support/scratch.h"

namespace emend {

// As the reference has it, to within rounding, by kernels that the check on the spot accepts.
inline CompileReport expect_compiled_right(const Graph& g, double within = 1e-6) {
  Scratch scratch;
  CompileFlowOptions options;
  options.cpu.compile.cache = scratch.folder();
  CompileReport report;
  auto inputs = random_inputs(g, 1);
  auto worst = worst_difference(g, evaluate(g, inputs), compile(g, options, &report).run(inputs));
  EXPECT_LT(worst.rel, within) << worst.output;
  EXPECT_EQ(report.faults, std::vector<std::string>());
  return report;
}

// And no part of it by the reference.
inline void expect_all_compiled_right(const Graph& g, double within = 1e-6) {
  EXPECT_TRUE(expect_compiled_right(g, within).on_reference.empty());
}

}  // namespace emend
