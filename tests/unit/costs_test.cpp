// What estimates say, and that who fits their costs hears the same.
#include "kernels/cpu/costs.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "kernels/cpu/cpu.h"
#include "kernels/group.h"
#include "text/text.h"

namespace emend {
namespace {

const Target kTarget{.vector_bytes = 64, .threads = 2};

struct Group {
  explicit Group(const std::string& text) : graph(parse_graph(text)) {
    for (const auto& i : graph.inputs) constant.push_back(i.name == "w");
  }
  Graph graph;
  std::vector<bool> constant;
  std::vector<Layouts> layouts() const {
    Layouts last;
    for (size_t i = 0; i < constant.size(); ++i) {
      last.loads.push_back(constant[i] ? Layout{}
                                       : channels_last(graph.type(graph.inputs[i].node).shape));
    }
    for (const auto& o : graph.outputs)
      last.stores.push_back(channels_last(graph.type(o.node).shape));
    return {{}, last};
  }
};

const char* const kDepthwise = R"(graph(x: f32[1,96,28,28], w: f32[96,1,3,3]) {
  return conv[dilations=[1,1], group=96, pads=[1,1,1,1], strides=[1,1]](x, w)
})";
const char* const kDepthwiseSilu = R"(graph(x: f32[1,96,28,28], w: f32[96,1,3,3]) {
  %1 = conv[dilations=[1,1], group=96, pads=[1,1,1,1], strides=[1,1]](x, w)
  return mul(%1, sigmoid(%1))
})";
const char* const kConvolution = R"(graph(x: f32[1,32,28,28], w: f32[64,32,3,3]) {
  return relu(conv[dilations=[1,1], group=1, pads=[1,1,1,1], strides=[1,1]](x, w))
})";

TEST(Costs, AnEstimateOfOneCandidateIsWhatItWasOfferedAt) {
  for (const char* text : {kDepthwise, kDepthwiseSilu, kConvolution}) {
    Group g(text);
    size_t seen = 0;
    for (const Layouts& layouts : g.layouts()) {
      for (const Kernel& k : cpu_catalogue()) {
        if (!k.estimate) continue;
        Wanted wanted(g.graph, g.constant, layouts);
        for (const Candidate& c : k.candidates(wanted, kTarget)) {
          EXPECT_DOUBLE_EQ(k.estimate(wanted, c, kTarget), c.estimate_s)
              << c.kernel << to_text(c.config);
          ++seen;
        }
      }
    }
    EXPECT_GT(seen, 10u);
  }
}

// A depthwise convolution is little work, and e^x and a division for every result are more.
TEST(Costs, WhatBecomesOfSumsIsPaidFor) {
  Group plain(kDepthwise), silu(kDepthwiseSilu);
  const Layouts last = plain.layouts()[1];
  auto best = [&](const Group& g, const Target& target) {
    return direct_kernel().candidates({g.graph, g.constant, last}, target).at(0).estimate_s;
  };
  EXPECT_GT(best(silu, kTarget), 1.5 * best(plain, kTarget));
  Target dear = kTarget;
  dear.costs.work_exp *= 4;
  EXPECT_GT(best(silu, dear), 1.2 * best(silu, kTarget));
  EXPECT_EQ(best(plain, dear), best(plain, kTarget));
}

TEST(Costs, EveryCostIsNamedOnceAndAboveZero) {
  std::set<std::string> names;
  const Costs costs;
  for (const CostName& c : cost_names()) {
    EXPECT_TRUE(names.insert(c.name).second) << c.name;
    EXPECT_GT(costs.*c.value, 0) << c.name;
  }
  EXPECT_EQ(names.size() * sizeof(double), sizeof(Costs));
}

}  // namespace
}  // namespace emend
