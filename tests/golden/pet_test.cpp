// PET's cases, at prices that are the same everywhere (support/made_up_prices.h): what the search
// makes of them, and that its report says by which rules and mutations.
#include <gtest/gtest.h>

#include <algorithm>

#include "base/rng.h"
#include "equiv/compare.h"
#include "ops/contraction.h"
#include "ops/movement.h"
#include "pipeline/improve.h"
#include "support/made_up_prices.h"
#include "text/text.h"
#include "zoo/zoo.h"

namespace emend {
namespace {

struct Found {
  Graph program;
  ImproveReport report;

  int count(std::string_view op) const {
    int n = 0;
    for (const Node& node : program.nodes) n += op_def(node).name == op;
    return n;
  }
  bool rests_on(std::string_view rule) const {
    return std::ranges::find(report.trail, rule) != report.trail.end();
  }
  std::string text() const {
    std::string out = print(program);
    for (const std::string& rule : report.trail) out += rule + "\n";
    return out;
  }
};

Found searched(const Graph& g, MutateOptions mutate = {}) {
  Found f;
  ImproveOptions options{.mutate = std::move(mutate), .prices = made_up(launched)};
  f.program = improve(g, options, &f.report);
  return f;
}

// Weights of which nothing is known but that they are some.
class Layers {
 public:
  NodeId input(const Dims& shape) { return b_.input("x", Type::tensor(DType::f32, shape)); }
  NodeId weights(const Dims& shape) {
    auto some = Tensor::make(DType::f32, shape, [&](std::byte* bytes) {
      auto* v = reinterpret_cast<float*>(bytes);
      for (int64_t k = 0; k < emend::count(shape); ++k)
        v[k] = static_cast<float>(random_bits(3, made_, static_cast<uint64_t>(k)) % 61) - 30;
    });
    ++made_;
    return b_.constant(some);
  }
  NodeId conv(NodeId x, int64_t filters, int64_t height, int64_t width, int64_t dilation = 1) {
    Dims pads = {dilation * (height / 2), dilation * (width / 2), dilation * (height / 2),
                 dilation * (width / 2)};
    NodeId w = weights({filters, b_.type(x).shape[1], height, width});
    return b_.op("conv", {x, w}, Conv{{1, 1}, {dilation, dilation}, pads, 1});
  }
  NodeId relu(NodeId x) { return b_.op("relu", {x}); }
  GraphBuilder& builder() { return b_; }
  Graph build() && { return std::move(b_).build(); }

 private:
  GraphBuilder b_;
  uint64_t made_ = 0;
};

void expect_undilated_between_two_views(const Graph& g, const Found& f) {
  EXPECT_EQ(f.count("conv"), 6) << f.text();
  for (const Node& n : f.program.nodes) {
    if (op_def(n).name == "conv") {
      EXPECT_EQ(n.attrs.get<Dims>("dilations"), (Dims{1, 1}));
    }
  }
  EXPECT_EQ(f.count("view") + f.count("reshape") + f.count("transpose"), 2) << f.text();
  EXPECT_TRUE(f.rests_on("dilation-into-batch") || f.rests_on("dilation-into-mosaic")) << f.text();
  EXPECT_EQ(g.outputs.size(), f.program.outputs.size());
}

TEST(PetCases, DilatedLayersComeOutUndilatedBetweenTwoViews) {
  Graph g = build_zoo("csrnet_pet").graph;
  expect_undilated_between_two_views(g, searched(g));
}

// The same with few channels, so that the comparison is quick; work counts more instead.
TEST(PetCases, UndilatedLayersAreEqual) {
  Layers l;
  NodeId y = l.input({1, 16, 14, 14});
  for (int64_t filters : {16, 16, 16, 8, 8, 4}) y = l.relu(l.conv(y, filters, 3, 3, 2));
  l.builder().output("y", y);
  Graph g = std::move(l).build();
  Found f;
  auto prices = [](const PricedNode& n) { return launched_at(n, 1e10); };
  f.program = improve(g, {.prices = made_up(prices)}, &f.report);
  expect_undilated_between_two_views(g, f);
  EXPECT_EQ(to_text(compare(g, f.program).kind), "equal");
}

TEST(PetCases, FiveByFiveIsOfferedTilesWithAHalo) {
  Layers l;
  l.builder().output("y", l.conv(l.input({1, 48, 38, 38}), 64, 5, 5));
  Graph g = std::move(l).build();
  // No kernel is worth a change here; what is looked at is what was offered.
  auto prices = [](const PricedNode& n) {
    return launched(n) *
           (n.result.is_tensor() && !n.result.shape.empty() && n.result.shape[0] == 16 ? 0.5 : 1);
  };
  Found f;
  f.program = improve(
      g, {.mutate = {.enable = {"space-into-batch"}, .disable = {"*"}}, .prices = made_up(prices)},
      &f.report);
  auto found = std::ranges::find_if(f.report.mutated.mutants, [](const auto& m) {
    return m.mutation == "space-into-batch" && m.parameters == "t=4, q=4";
  });
  ASSERT_NE(found, f.report.mutated.mutants.end());
  EXPECT_EQ(to_text(found->outcome), "equal");
  EXPECT_EQ(found->share, 1);
  bool tiles = false;
  for (size_t i = 0; i < f.program.size(); ++i) {
    const Node& n = f.program.nodes[NodeId(i)];
    if (op_def(n).name == "conv") tiles = f.program.type(n.args[0]).shape == Dims{16, 48, 14, 14};
  }
  EXPECT_TRUE(tiles) << f.text();
  EXPECT_TRUE(f.rests_on("space-into-batch"));
}

// Where branches of Inception part: a block with 1x1, 1x1 and 1x1 of one input, and one that ends
// in 1x3 and 3x1 of one input.
TEST(PetCases, ParallelConvolutionsAreOne) {
  Layers l;
  NodeId x = l.input({1, 96, 17, 17});
  NodeId first = l.relu(l.conv(x, 24, 1, 1)), second = l.relu(l.conv(x, 20, 1, 1)),
         third = l.relu(l.conv(x, 16, 1, 1));
  second = l.relu(l.conv(second, 24, 1, 7));
  third = l.relu(l.conv(third, 24, 7, 1));
  l.builder().output("y", l.builder().op("concat", {first, second, third}, Axis{1}));
  Graph g = std::move(l).build();
  Found f = searched(g);
  EXPECT_EQ(f.count("conv"), 3) << f.text();
  EXPECT_TRUE(f.rests_on("merge-convs-input")) << f.text();
  EXPECT_EQ(to_text(compare(g, f.program).kind), "equal");
}

TEST(PetCases, KernelsOfOtherSizesAreEnlargedAndMerged) {
  for (int64_t long_side : {3, 7}) {
    Layers l;
    NodeId x = l.relu(l.input({1, 16, 8, 8}));
    NodeId flat = l.relu(l.conv(x, 16, 1, long_side)), high = l.relu(l.conv(x, 16, long_side, 1));
    l.builder().output("y", l.builder().op("concat", {flat, high}, Axis{1}));
    Graph g = std::move(l).build();
    Found f = searched(g);
    EXPECT_EQ(f.count("conv"), 1) << f.text();
    EXPECT_TRUE(f.rests_on("merge-convs-enlarged")) << f.text();
    EXPECT_EQ(to_text(compare(g, f.program).kind), "equal");
  }
}

TEST(PetCases, ConvolutionsOfDifferentInputsAreGroups) {
  Layers l;
  std::vector<NodeId> y;
  for (const char* name : {"x", "y"}) {
    NodeId x = l.builder().input(name, Type::tensor(DType::f32, {1, 8, 9, 9}));
    y.push_back(l.conv(x, 16, 3, 3));
  }
  l.builder().output("y", l.builder().op("concat", {y[0], y[1]}, Axis{1}));
  Graph g = std::move(l).build();
  Found f = searched(g);
  EXPECT_EQ(f.count("conv"), 1) << f.text();
  EXPECT_TRUE(f.rests_on("concat-conv-groups")) << f.text();
}

// Three products of one operand as one wide product, in every layer; of different operands as one
// batch.
TEST(PetCases, ProductsOfALayerAreOne) {
  Graph g = build_zoo("bert_pet", {.seq = 32, .layers = 2}).graph;
  Found f = searched(g);
  int before = 0;
  for (const Node& n : g.nodes) before += op_def(n).name == "matmul";
  EXPECT_EQ(before, 2 * 7);
  EXPECT_EQ(f.count("matmul"), 2 * 5) << f.text();
  EXPECT_TRUE(f.rests_on("merge-matmuls-left") || f.rests_on("merge-matmuls-left-bias"))
      << f.text();
}

TEST(PetCases, ProductsOfOneShapeAreABatch) {
  Layers l;
  std::vector<NodeId> y;
  for (const char* name : {"x0", "x1", "x2"}) {
    NodeId x = l.builder().input(name, Type::tensor(DType::f32, {64, 96}));
    y.push_back(l.builder().op("matmul", {x, l.weights({96, 48})}));
  }
  l.builder().output("y", l.builder().op("add", {l.builder().op("mul", {y[0], y[1]}), y[2]}));
  Graph g = std::move(l).build();
  Found f = searched(g);
  bool batched = f.count("matmul") == 1 && f.rests_on("merge-matmuls-stacked");
  EXPECT_TRUE(batched) << f.text();
}

}  // namespace
}  // namespace emend
