#include "pipeline/compile.h"

#include <gtest/gtest.h>

#include "equiv/compare.h"
#include "ops/evaluate.h"
#include "support/scratch.h"
#include "text/text.h"

namespace emend {
namespace {

// As the reference has it, to within rounding.
void expect_compiled_right(const char* text) {
  Graph g = parse_graph(text);
  Scratch scratch;
  CompileFlowOptions options;
  options.cpu.compile.cache = scratch.folder();
  auto inputs = random_inputs(g, 1);
  auto worst = worst_difference(g, evaluate(g, inputs), compile(g, options).run(inputs));
  EXPECT_LT(worst.rel, 1e-6) << worst.output << "\n" << text;
}

// Both additions print the same text, since only the number of tasks differs.
TEST(Compile, KernelsOfTheSameTextServeSeveralSizes) {
  expect_compiled_right(R"(graph(x: f32[16,40], b: f32[16,1], y: f32[64,40], c: f32[64,1]) {
    return add(x, b), add(y, c)
  })");
}

}  // namespace
}  // namespace emend
