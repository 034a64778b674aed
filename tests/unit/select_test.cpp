// Choosing kernels: how much is asked, and what weights may grow by.
#include "select/select.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "base/hash.h"
#include "fuse/fuse.h"
#include "ops/build.h"

namespace emend {
namespace {

// Three convolutions of different sizes, one after the other.
Graph chain() {
  GraphBuilder b;
  NodeId x = b.input("x", Type::tensor(DType::f32, {1, 32, 20, 20}));
  for (int64_t channels : {32, 48, 64}) {
    Dims shape{channels, b.shape(x)[1], 3, 3};
    std::vector<double> weights(static_cast<size_t>(count(shape)));
    for (size_t i = 0; i < weights.size(); ++i) weights[i] = std::sin(static_cast<double>(i));
    Attrs attrs({{"pads", Dims{1, 1, 1, 1}}, {"strides", Dims{1, 1}}, {"dilations", Dims{1, 1}}});
    x = b.op("conv", {x, b.constant(Tensor::of_reals(DType::f32, shape, weights))}, attrs);
    x = b.op("relu", {x});
  }
  b.output("y", x);
  return std::move(b).build();
}

const Target kTarget{.vector_bytes = 64, .threads = 2, .peak_flops = 2e11, .bandwidth = 5e10};

double added_bytes(const Plan& plan) {
  double bytes = 0;
  for (const Candidate& c : plan.choices) {
    for (const Graph& g : c.packing) {
      if (g.outputs.empty()) continue;
      bytes += 4.0 * static_cast<double>(count(g.type(g.outputs[0].node).shape) -
                                         count(g.type(g.inputs[0].node).shape));
    }
  }
  return bytes;
}

TEST(Select, AsksAboutFewCandidatesWhetherOrNotThereIsAnAnswer) {
  Graph g = chain();
  for (bool answers : {false, true}) {
    std::map<std::pair<uint64_t, std::string>, int> asked;  // per group and layouts
    SelectOptions options;
    options.price = [&](const Offer& o) -> std::optional<double> {
      ++asked[{hash(o.group), to_text(o.candidate.layouts)}];
      return answers ? std::optional(o.candidate.estimate_s) : std::nullopt;
    };
    select(g, fuse(g, {.target = kTarget}), cpu_catalogue(), kTarget, options);
    EXPECT_FALSE(asked.empty());
    for (const auto& [what, times] : asked) EXPECT_LE(times, options.asked) << what.second;
  }
}

TEST(Select, AllWeightsTogetherStayWithinTheFactor) {
  Graph g = chain();
  double held = 0;
  for (const Tensor& t : g.constants) held += static_cast<double>(t.bytes().size());
  double before = -1;
  for (double factor : {1.0, 1.5, 2.0, 3.0, 4.0, 8.0}) {
    Plan plan = select(g, fuse(g, {.target = kTarget}), cpu_catalogue(), kTarget,
                       {.memory = factor, .error = 1e-4});
    double added = added_bytes(plan);
    EXPECT_LE(added, (factor - 1) * held);
    EXPECT_GE(added, before);  // room is used
    before = added;
  }
  EXPECT_GT(before, held);
}

TEST(Select, NoErrorIsAllowedUnlessItIs) {
  Graph g = chain();
  auto plan = [&](double error) {
    return select(g, fuse(g, {.target = kTarget}), cpu_catalogue(), kTarget, {.error = error});
  };
  for (const Candidate& c : plan(0).choices) EXPECT_EQ(c.error, 0);
  EXPECT_TRUE(
      std::ranges::any_of(plan(1e-4).choices, [](const Candidate& c) { return c.error > 0; }));
}

// Errors add up like independent ones, and what one kernel does not lose another may.
TEST(Select, WhatAllKernelsLoseTogetherIsBounded) {
  Graph g = chain();
  auto plan = [&](double share, double all) {
    return select(g, fuse(g, {.target = kTarget}), cpu_catalogue(), kTarget,
                  {.error = share, .errors = all});
  };
  auto lost = [](const Plan& p) {
    double squares = 0;
    for (const Candidate& c : p.choices) squares += c.error * c.error;
    return std::sqrt(squares);
  };
  const double most = lost(plan(1, 0));
  ASSERT_GT(most, 0);
  double fastest = plan(1, 0).estimate_s, before = HUGE_VAL;
  for (double part : {0.05, 0.3, 0.5, 0.7, 0.9, 1.01}) {
    Plan within = plan(part * most / std::sqrt(3.0), part * most);
    EXPECT_LE(lost(within), part * most);
    // Never worse than if everybody had but its share, nor than with less allowed.
    EXPECT_LE(within.estimate_s, plan(part * most / std::sqrt(3.0), 0).estimate_s);
    EXPECT_LE(within.estimate_s, before);
    before = within.estimate_s;
  }
  EXPECT_EQ(before, fastest);
}

}  // namespace
}  // namespace emend
