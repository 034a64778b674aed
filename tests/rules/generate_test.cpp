// What the generator finds by itself, and that what it says of it is so.
#include "mutate/generate.h"

#include <gtest/gtest.h>

#include <iostream>

#include "base/rng.h"
#include "base/text.h"
#include "mutate/mutate.h"
#include "ops/contraction.h"
#include "ops/evaluate.h"
#include "ops/exact.h"
#include "ops/table.h"
#include "text/text.h"

namespace emend {
namespace {

Tensor residues(const Dims& shape, uint64_t stream) {
  return Tensor::make(DType::u64, shape, [&](std::byte* bytes) {
    auto* v = reinterpret_cast<uint64_t*>(bytes);
    for (int64_t k = 0; k < count(shape); ++k)
      v[k] = random_bits(7, stream, static_cast<uint64_t>(k)) % Mod61::kPrime;
  });
}

// Every output and every position, by the interpreter over the field: an equal candidate is equal,
// and boxes are never too large.
void expect_as_said(const Graph& original, const GeneratedMutant& c) {
  std::vector<Value> inputs;
  for (size_t i = 0; i < original.inputs.size(); ++i)
    inputs.emplace_back(residues(original.type(original.inputs[i].node).shape, i));
  EvalOptions in_field{.arithmetic = Arithmetic::field};
  auto a = evaluate(original, inputs, in_field), b = evaluate(c.program, inputs, in_field);
  for (size_t o = 0; o < a.size(); ++o) {
    const Tensor &x = a[o].tensor, &y = b[o].tensor;
    if (c.where[o].everywhere()) {
      EXPECT_EQ(x, y) << c.steps;
      continue;
    }
    for (const Agreement::Box& box : c.where[o].boxes) {
      if (!box.agree) continue;
      for (const Dims& at : positions_of(c.where[o], box, x.shape().size())) {
        int64_t flat = 0;
        for (size_t d = 0; d < at.size(); ++d) flat = flat * x.shape()[d] + at[d];
        ASSERT_EQ(x.integer(flat), y.integer(flat)) << c.steps;
      }
    }
  }
}

Graph conv_of(const Dims& x, const Dims& w, const Conv& attrs) {
  GraphBuilder b;
  NodeId in = b.input("x", Type::tensor(DType::f32, x));
  NodeId weights = b.input("w", Type::tensor(DType::f32, w));
  b.output("y", b.op("conv", {in, weights}, attrs));
  return std::move(b).build();
}

std::vector<GeneratedMutant> checked(const Graph& g, const GenerateOptions& options = {}) {
  GenerateReport report;
  auto found = generate(g, options, &report);
  std::cout << report.programs << " programs, " << report.agreeing << " agree, " << found.size()
            << " candidates\n";
  for (const GeneratedMutant& c : found) expect_as_said(g, c);
  return found;
}

const Node* nucleus(const Graph& g, const std::string& op) {
  for (const Node& n : g.nodes)
    if (op_def(n).name == op) return &n;
  return nullptr;
}

TEST(Generate, PhasesOfADilatedConvolution) {
  Graph g = conv_of({1, 3, 8, 12}, {4, 3, 3, 3}, {{1, 1}, {2, 2}, {2, 2, 2, 2}, 1});
  bool rows = false, both = false;
  for (const GeneratedMutant& c : checked(g, {.rounds = 2})) {
    const Node* conv = nucleus(c.program, "conv");
    if (!conv || !c.equal()) continue;
    const Dims x = c.program.type(conv->args[0]).shape, d = conv->attrs.get<Dims>("dilations");
    rows |= d == Dims{1, 2} && x == Dims{2, 3, 4, 12};
    both |= d == Dims{1, 1} && x == Dims{4, 3, 4, 6};
  }
  EXPECT_TRUE(rows);
  EXPECT_TRUE(both);
}

TEST(Generate, ABatchAsOneImageIsWrongAtTheSeam) {
  Graph g = conv_of({2, 3, 6, 6}, {4, 3, 3, 3}, {{1, 1}, {1, 1}, {1, 1, 1, 1}, 1});
  bool seam = false;
  for (const GeneratedMutant& c : checked(g)) {
    const Node* conv = nucleus(c.program, "conv");
    if (!conv || c.program.type(conv->args[0]).shape != Dims{1, 3, 12, 6}) continue;
    if (c.equal()) continue;
    seam |= std::abs(c.share() - 10.0 / 12) < 1e-9;  // the last row of one, the first of the other
  }
  EXPECT_TRUE(seam);
}

TEST(Generate, ProductsOfOneShapeAsABatch) {
  GraphBuilder b;
  std::vector<NodeId> y;
  for (int i = 0; i < 2; ++i) {
    NodeId a = b.input(str("a", i), Type::tensor(DType::f32, {5, 8}));
    NodeId w = b.input(str("w", i), Type::tensor(DType::f32, {8, 7}));
    y.push_back(b.op("matmul", {a, w}));
  }
  for (NodeId n : y) b.output(str("y", n.value), n);
  Graph g = std::move(b).build();
  bool batched = false;
  for (const GeneratedMutant& c : checked(g)) {
    const Node* product = nucleus(c.program, "matmul");
    batched |= c.equal() && product && c.program.type(product->args[0]).shape == Dims{2, 5, 8};
  }
  EXPECT_TRUE(batched);
}

TEST(Generate, ConvolutionsOfOneImageAsAWiderOne) {
  GraphBuilder b;
  NodeId x = b.input("x", Type::tensor(DType::f32, {1, 6, 7, 7}));
  for (int64_t filters : {4, 3}) {
    NodeId w = b.input(str("w", filters), Type::tensor(DType::f32, {filters, 6, 3, 3}));
    b.output(str("y", filters), b.op("conv", {x, w}, Conv{{1, 1}, {1, 1}, {1, 1, 1, 1}, 1}));
  }
  bool wider = false;
  for (const GeneratedMutant& c : checked(std::move(b).build())) {
    const Node* conv = nucleus(c.program, "conv");
    wider |= c.equal() && conv && c.program.type(conv->args[1]).shape == Dims{7, 6, 3, 3};
  }
  EXPECT_TRUE(wider);
}

TEST(Generate, ConvolutionsOfTwoImagesAsGroups) {
  GraphBuilder b;
  NodeId in[4];
  for (int i = 0; i < 2; ++i) {
    in[i] = b.input(str("x", i), Type::tensor(DType::f32, {1, 6, 5, 5}));
    in[2 + i] = b.input(str("w", i), Type::tensor(DType::f32, {4, 6, 3, 3}));
  }
  for (int i = 0; i < 2; ++i)
    b.output(str("y", i), b.op("conv", {in[i], in[2 + i]}, Conv{{1, 1}, {1, 1}, {1, 1, 1, 1}, 1}));
  bool groups = false;
  for (const GeneratedMutant& c : checked(std::move(b).build())) {
    const Node* conv = nucleus(c.program, "conv");
    groups |= c.equal() && conv && conv->attrs.get<int64_t>("group") == 2;
  }
  EXPECT_TRUE(groups);
}

TEST(Generate, ChannelsBetweenRowsAndProductsOfPixels) {
  bool folded = false, product = false;
  for (const GeneratedMutant& c :
       checked(conv_of({1, 4, 5, 5}, {3, 4, 3, 3}, {{1, 1}, {1, 1}, {1, 1, 1, 1}, 1}))) {
    const Node* conv = nucleus(c.program, "conv");
    folded |= c.equal() && conv && c.program.type(conv->args[1]).shape == Dims{3, 2, 6, 3};
  }
  EXPECT_TRUE(folded);
  for (const GeneratedMutant& c :
       checked(conv_of({2, 4, 5, 5}, {3, 4, 1, 1}, {{1, 1}, {1, 1}, {0, 0, 0, 0}, 1}))) {
    product |= c.equal() && nucleus(c.program, "matmul");
  }
  EXPECT_TRUE(product);
}

// Whatever the window: what is said of every mutant is so, wherever it was found.
TEST(Generate, RandomConvolutionsAndProducts) {
  Rng rng(11);
  size_t equal = 0, others = 0;
  for (int i = 0; i < 40; ++i) {
    GraphBuilder b;
    if (i % 4 == 3) {
      int64_t m = rng.between(1, 4), k = rng.between(1, 4), n = rng.between(1, 4);
      NodeId x = b.input("x", Type::tensor(DType::f32, {rng.between(1, 3), m, k}));
      b.output("y", b.op("matmul", {x, b.input("w", Type::tensor(DType::f32, {k, n}))}));
    } else {
      int64_t group = rng.between(1, 2), c = rng.between(1, 3), f = rng.between(1, 2);
      auto pair = [&](int64_t low, int64_t high) {
        return Dims{rng.between(low, high), rng.between(low, high)};
      };
      Dims size = pair(5, 8), kernel = pair(1, 3), pads = pair(0, 2), strides = pair(1, 2),
           dilations = pair(1, 2);
      NodeId x = b.input("x", Type::tensor(DType::f32, {2, c * group, size[0], size[1]}));
      NodeId w = b.input("w", Type::tensor(DType::f32, {f * group, c, kernel[0], kernel[1]}));
      b.output("y", b.op("conv", {x, w},
                         Conv{strides, dilations, {pads[0], pads[1], pads[0], pads[1]}, group}));
    }
    Graph g = std::move(b).build();
    for (const GeneratedMutant& m : generate(g, {.depth = 3, .programs = 500})) {
      ++(m.equal() ? equal : others);
      expect_as_said(g, m);
    }
  }
  EXPECT_GT(equal, 40u);
  EXPECT_GT(others, 20u);
}

TEST(Generate, NothingOfNothing) {
  GraphBuilder b;
  NodeId x = b.input("x", Type::tensor(DType::f32, {0, 4}));
  b.output("y", b.op("matmul", {x, b.input("w", Type::tensor(DType::f32, {4, 2}))}));
  EXPECT_TRUE(generate(std::move(b).build()).empty());
  EXPECT_TRUE(  // a result, but of nothing
      generate(conv_of({2, 0, 8, 8}, {4, 0, 3, 3}, {{1, 1}, {1, 1}, {1, 1, 1, 1}, 1})).empty());
  EXPECT_TRUE(
      generate(conv_of({2, 3, 4, 4}, {3, 3, 1, 1}, {{1, 1}, {1, 1}, {0, 0, 0, 0}, 1}), {.depth = 1})
          .empty());
}

// Of two operands, and none of them a sum of products: nothing is placed, and nothing asks for
// values over a field.
TEST(Generate, NothingOfWhatIsNoProduct) {
  const auto f32 = [](Dims shape) { return Type::tensor(DType::f32, std::move(shape)); };
  struct Case {
    const char* op;
    Type x, y;
    Attrs attrs = {};
  };
  const Case cases[] = {
      {"less", f32({2, 3}), f32({2, 3})},
      {"max", f32({2, 3}), f32({3})},
      {"pow", f32({4}), f32({4})},
      {"gather", f32({5, 3}), Type::tensor(DType::i64, {2}), Attrs({{"axis", int64_t{0}}})},
      {"layer_norm", f32({2, 8}), f32({8})},
      {"conv_transpose", f32({1, 2, 5, 5}), f32({2, 3, 3, 3}),
       Attrs({{"strides", Dims{1, 1}},
              {"dilations", Dims{1, 1}},
              {"pads", Dims{0, 0, 0, 0}},
              {"output_padding", Dims{0, 0}},
              {"group", int64_t{1}}})},
  };
  for (const Case& c : cases) {
    GraphBuilder b;
    NodeId x = b.input("x", c.x), y = b.input("y", c.y);
    b.output("z", b.op(c.op, {x, y}, c.attrs));
    GenerateReport report;
    EXPECT_TRUE(generate(std::move(b).build(), {}, &report).empty()) << c.op;
    EXPECT_EQ(report.programs, 0u) << c.op;
  }
}

TEST(Generate, IsDeterministicAndBounded) {
  Graph g = conv_of({2, 4, 6, 6}, {4, 4, 3, 3}, {{1, 1}, {1, 1}, {1, 1, 1, 1}, 1});
  auto steps = [&](const GenerateOptions& options) {
    std::vector<std::string> all;
    for (const GeneratedMutant& m : generate(g, options)) all.push_back(m.steps);
    return all;
  };
  EXPECT_EQ(steps({}), steps({}));
  EXPECT_EQ(steps({.candidates = 2}).size(), 2u);
  GenerateReport report;
  generate(g, {.programs = 10}, &report);
  EXPECT_EQ(report.programs, 10u);
  EXPECT_TRUE(
      steps({.worthwhile = [](const Graph&, const std::string&) { return false; }}).empty());
}

TEST(Generate, WhatIsWrongAtTheSeamIsRepairedAndReported) {
  Graph g = conv_of({2, 3, 8, 8}, {4, 3, 3, 3}, {{1, 1}, {1, 1}, {1, 1, 1, 1}, 1});
  const Node& conv = g.nodes[g.outputs[0].node];
  PricedNode site{.op = conv.op,
                  .attrs = conv.attrs,
                  .operands = {g.type(conv.args[0]), g.type(conv.args[1])},
                  .weights = {false, true},
                  .result = g.type(g.outputs[0].node)};
  MutateReport report;
  MutateOptions how{.enable = {"generated", "correct"}, .disable = {"*"}};
  how.generate = GenerateOptions{};
  std::vector<Rule> rules = mutate({site}, how, &report);
  size_t equal = 0, corrected = 0;
  for (const auto& m : report.mutants) {
    EXPECT_EQ(m.mutation, "generated");
    equal += m.outcome == MutateReport::Mutant::Outcome::equal;
    corrected += m.outcome == MutateReport::Mutant::Outcome::corrected;
  }
  EXPECT_GT(equal, 0u);
  EXPECT_GT(corrected, 0u);
  EXPECT_EQ(rules.size(), equal + corrected);
}

TEST(Moves, ChainsThatDoNothingAreKnownTo) {
  const Dims shape = {4, 6, 8, 8};
  const Move there{.from = 0, .to = 2, .radix = 2, .from_slow = false, .to_slow = true};
  const Move phases{.from = 2, .to = 2, .radix = 2, .from_slow = false, .to_slow = true};
  EXPECT_TRUE(chain_of({there, inverse(there)}, shape).views.empty());
  EXPECT_TRUE(chain_of({phases, inverse(phases)}, shape).views.empty());
  EXPECT_TRUE(chain_of({there, phases, inverse(phases), inverse(there)}, shape).views.empty());
  EXPECT_FALSE(chain_of({there, inverse(phases)}, shape).views.empty());
  // Phases three times over are themselves again where two to the third divides.
  EXPECT_TRUE(chain_of({phases, phases, phases}, shape).views.empty());
}

}  // namespace
}  // namespace emend
