#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "ops/build.h"
#include "ops/composite.h"
#include "ops/evaluate.h"
#include "ops/onnx_lower.h"
#include "ops/onnx_raise.h"

namespace emend {
namespace {

Tensor reals(Dims shape, std::vector<double> v) {
  return Tensor::of_reals(DType::f32, shape, v);
}

// Numbers between -1 and 1 that differ from place to place.
Tensor varied(Dims shape, double phase) {
  std::vector<double> v;
  for (int64_t i = 0; i < count(shape); ++i)
    v.push_back(std::sin(phase + 1.7 * static_cast<double>(i)));
  return reals(shape, v);
}

// A program of one ONNX node.
Graph one_node(OnnxNode node, const std::vector<Tensor>& inputs) {
  GraphBuilder b;
  std::vector<NodeId> args;
  for (size_t i = 0; i < inputs.size(); ++i) args.push_back(b.input(str("x", i), inputs[i].type()));
  if (node.present.empty()) node.present.assign(inputs.size(), 1);
  NodeId n = add_onnx_node(b, node, args);
  for (int64_t i = 0; i < node.outputs; ++i)
    b.output(str("y", i), node.outputs == 1 ? n : b.get(n, i));
  return std::move(b).build();
}

std::vector<Tensor> run(const Graph& g, const std::vector<Tensor>& inputs) {
  std::vector<Tensor> out;
  for (Value& v : evaluate(g, std::vector<Value>(inputs.begin(), inputs.end())))
    out.push_back(v.tensor);
  return out;
}

std::vector<Tensor> run_onnx(const OnnxNode& node, const std::vector<Tensor>& inputs) {
  Lowered low = lower_onnx(one_node(node, inputs));
  EXPECT_TRUE(low.deferred.empty()) << node.type;
  return run(low.graph, inputs);
}

void expect_near(const Tensor& a, const std::vector<double>& b, double tolerance = 1e-6) {
  ASSERT_EQ(a.count(), static_cast<int64_t>(b.size()));
  for (int64_t i = 0; i < a.count(); ++i)
    EXPECT_NEAR(a.real(i), b[static_cast<size_t>(i)], tolerance) << i;
}

TEST(Composite, SoftmaxBeforeOpset13NormalisesTheFlattenedRest) {
  Tensor x = varied({2, 3, 2}, 0);
  OnnxNode node{.type = "Softmax", .version = 12, .attributes = Attrs({{"axis", 1}})};
  Tensor rows = run_onnx(node, {x})[0];
  node.version = 13;
  Tensor columns = run_onnx(node, {x})[0];
  for (int64_t n : {0, 1}) {
    double all = 0, first = 0;
    for (int64_t i = 0; i < 6; ++i) all += rows.real(n * 6 + i);
    for (int64_t i = 0; i < 3; ++i) first += columns.real(n * 6 + i * 2);
    EXPECT_NEAR(all, 1, 1e-6);
    EXPECT_NEAR(first, 1, 1e-6);
  }
}

TEST(Composite, SoftmaxAlongAnyAxisSurvivesOldOpsets) {
  GraphBuilder b;
  NodeId x = b.input("x", Type::tensor(DType::f32, {2, 3, 2}));
  b.output("y", b.op("softmax", {x}, Softmax{1}));
  Graph g = std::move(b).build();
  std::vector<Tensor> in = {varied({2, 3, 2}, 1)};
  for (int64_t opset : {7, 12, 13, 27})
    EXPECT_EQ(run(lower_onnx(raise_onnx(g, opset)).graph, in), run(g, in)) << opset;
}

TEST(Composite, HardmaxTakesTheFirstOfEqual) {
  OnnxNode node{.type = "Hardmax", .version = 13, .attributes = Attrs({{"axis", 1}})};
  expect_near(run_onnx(node, {reals({2, 3}, {1, 5, 5, -2, -3, -1})})[0], {0, 1, 0, 0, 0, 1});
}

TEST(Composite, GemmIsOneNodeAndComesBackAsGemm) {
  Tensor a = varied({3, 2}, 0), w = varied({4, 3}, 1), c = varied({4}, 2);
  OnnxNode node{.type = "Gemm",
                .version = 13,
                .attributes = Attrs({{"alpha", 0.5}, {"beta", 2.0}, {"transA", 1}, {"transB", 1}})};
  Lowered low = lower_onnx(one_node(node, {a, w, c}));
  EXPECT_EQ(low.graph.size(), 4u);
  EXPECT_EQ(lower_onnx(raise_onnx(low.graph, 13)).graph, low.graph);
  std::vector<double> expected;
  for (int64_t i = 0; i < 2; ++i) {
    for (int64_t j = 0; j < 4; ++j) {
      double sum = 0;
      for (int64_t k = 0; k < 3; ++k) sum += a.real(k * 2 + i) * w.real(j * 3 + k);
      expected.push_back(0.5 * sum + 2 * c.real(j));
    }
  }
  expect_near(run(low.graph, {a, w, c})[0], expected);
  EXPECT_THROW(lower_onnx(one_node(node, {a, w, varied({3, 4}, 0)})), Error);
}

TEST(Composite, BatchNormPerActivationOfOpset7) {
  std::vector<Tensor> in = {varied({2, 2, 3}, 0)};
  for (int i = 1; i < 5; ++i) in.push_back(varied({2, 3}, i));
  std::vector<double> variance = in[4].reals();
  for (double& v : variance) v = v * v + 0.5;
  in[4] = reals({2, 3}, variance);
  OnnxNode node{.type = "BatchNormalization",
                .version = 7,
                .attributes = Attrs({{"spatial", 0}, {"epsilon", 0.0}})};
  std::vector<double> expected;
  for (int64_t i = 0; i < 12; ++i) {
    int64_t p = i % 6;
    expected.push_back((in[0].real(i) - in[3].real(p)) / std::sqrt(in[4].real(p)) * in[1].real(p) +
                       in[2].real(p));
  }
  expect_near(run_onnx(node, in)[0], expected);
}

TEST(Composite, LossIgnoresTargetsEvenWhereTheScoreIsInfinite) {
  double inf = std::numeric_limits<double>::infinity();
  Tensor scores = reals({3, 2}, {-1, -2, -inf, -inf, -3, -4});
  Tensor weights = reals({2}, {1, 3});
  Tensor target = Tensor::of_ints({1, 0, 0});
  OnnxNode node{.type = "NegativeLogLikelihoodLoss",
                .version = 22,
                .attributes = Attrs({{"ignore_index", 0}})};
  expect_near(run_onnx(node, {scores, target})[0], {2});
  node.attributes = Attrs({{"ignore_index", -7}});
  Tensor finite = reals({3, 2}, {-1, -2, -5, -5, -3, -4});
  expect_near(run_onnx(node, {finite, target, weights})[0], {(2 * 3 + 5 + 3) / 5.0});
}

// Straight from the definition, one query at a time.
std::vector<double> naive_attention(const Tensor& q, const Tensor& k, const Tensor& v,
                                    int64_t past) {
  int64_t heads = q.shape()[1], rows = q.shape()[2], size = q.shape()[3];
  int64_t kv_heads = k.shape()[1], keys = k.shape()[2], v_size = v.shape()[3];
  std::vector<double> out;
  for (int64_t h = 0; h < heads; ++h) {
    int64_t g = h / (heads / kv_heads);
    for (int64_t i = 0; i < rows; ++i) {
      std::vector<double> weight;
      double total = 0;
      for (int64_t j = 0; j < keys && j <= past + i; ++j) {
        double dot = 0;
        for (int64_t d = 0; d < size; ++d)
          dot += q.real((h * rows + i) * size + d) * k.real((g * keys + j) * size + d);
        weight.push_back(std::exp(dot / std::sqrt(static_cast<double>(size))));
        total += weight.back();
      }
      for (int64_t d = 0; d < v_size; ++d) {
        double sum = 0;
        for (size_t j = 0; j < weight.size(); ++j)
          sum += weight[j] * v.real((g * keys + static_cast<int64_t>(j)) * v_size + d);
        out.push_back(sum / total);
      }
    }
  }
  return out;
}

TEST(Composite, CausalGroupedAttentionWithAPastAgreesWithItsDefinition) {
  Tensor q = varied({1, 4, 3, 2}, 0), k = varied({1, 2, 3, 2}, 1), v = varied({1, 2, 3, 5}, 2);
  Tensor pk = varied({1, 2, 2, 2}, 3), pv = varied({1, 2, 2, 5}, 4);
  OnnxNode node{.type = "Attention",
                .version = 23,
                .attributes = Attrs({{"is_causal", 1}}),
                .outputs = 3,
                .present = {1, 1, 1, 0, 1, 1}};
  auto out = run_onnx(node, {q, k, v, pk, pv});
  EXPECT_EQ(out[1].shape(), (Dims{1, 2, 5, 2}));
  expect_near(out[0], naive_attention(q, out[1], out[2], 2));
}

TEST(Composite, LinearAttentionFollowsItsRecurrence) {
  Tensor q = varied({1, 3, 2}, 0), k = varied({1, 3, 2}, 1), v = varied({1, 3, 2}, 2),
         decay = varied({1, 3, 1}, 3), beta = varied({1, 3, 1}, 4);
  OnnxNode node{.type = "LinearAttention",
                .version = 27,
                .attributes = Attrs({{"q_num_heads", 1}, {"kv_num_heads", 1}, {"scale", 2.0}}),
                .outputs = 2,
                .present = {1, 1, 1, 0, 1, 1}};
  auto out = run_onnx(node, {q, k, v, decay, beta});
  double state[2][2] = {};
  std::vector<double> expected;
  for (int64_t t = 0; t < 3; ++t) {
    for (auto& row : state)
      for (double& s : row) s *= std::exp(decay.real(t));
    double value[2];
    for (int64_t m = 0; m < 2; ++m) {
      double held = state[0][m] * k.real(t * 2) + state[1][m] * k.real(t * 2 + 1);
      value[m] = beta.real(t) * (v.real(t * 2 + m) - held);
    }
    for (int64_t d = 0; d < 2; ++d)
      for (int64_t m = 0; m < 2; ++m) state[d][m] += k.real(t * 2 + d) * value[m];
    for (int64_t m = 0; m < 2; ++m)
      expected.push_back(2 * (q.real(t * 2) * state[0][m] + q.real(t * 2 + 1) * state[1][m]));
  }
  expect_near(out[0], expected);
  expect_near(out[1], {state[0][0], state[0][1], state[1][0], state[1][1]});
}

// Every composite's expansion computes in every arithmetic that knows its functions.
TEST(Composite, GemmHasAnExactValueInTheField) {
  GraphBuilder b;
  NodeId x = b.input("x", Type::tensor(DType::f32, {1, 2}));
  NodeId w = b.input("w", Type::tensor(DType::f32, {2, 1}));
  b.output("y", b.op("gemm", {x, w}, Gemm{.alpha = 3}));
  std::vector<Value> in = {converted(reals({1, 2}, {2, 5}), Arithmetic::field),
                           converted(reals({2, 1}, {7, 11}), Arithmetic::field)};
  auto out = evaluate(std::move(b).build(), in, {.arithmetic = Arithmetic::field});
  EXPECT_EQ(out[0].tensor.ints(), Dims{3 * (14 + 55)});
}

struct Sample {
  OnnxNode node;
  std::vector<Tensor> inputs;
};

std::vector<Sample> samples() {
  Tensor x = varied({2, 4, 3}, 0), channel = varied({4}, 1), row = varied({3}, 2);
  Tensor variance = reals({4}, {0.5, 1, 2, 3}), target = Tensor::of_ints({2, 0, 1, 3, 3, 2});
  Tensor heads = varied({1, 2, 3, 4}, 3), packed = varied({1, 3, 4}, 4),
         gate = varied({1, 3, 1}, 5);
  Tensor angles = varied({1, 3, 2}, 6);
  Attrs two_heads({{"q_num_heads", 1}, {"kv_num_heads", 1}});
  return {
      {{.type = "Softmax", .version = 13, .attributes = Attrs({{"axis", 1}})}, {x}},
      {{.type = "LogSoftmax", .version = 12, .attributes = Attrs({{"axis", 1}})}, {x}},
      {{.type = "Hardmax", .version = 13, .attributes = Attrs({{"axis", 0}})}, {x}},
      {{.type = "Gemm", .version = 13}, {varied({2, 3}, 0), varied({3, 4}, 1)}},
      {{.type = "BatchNormalization", .version = 15}, {x, channel, channel, channel, variance}},
      {{.type = "BatchNormalization",
        .version = 15,
        .attributes = Attrs({{"training_mode", 1}}),
        .outputs = 3},
       {x, channel, channel, channel, variance}},
      {{.type = "InstanceNormalization", .version = 22}, {x, channel, channel}},
      {{.type = "LayerNormalization", .version = 17, .outputs = 3}, {x, row, row}},
      {{.type = "LayerNormalization", .version = 17}, {x, row}},
      {{.type = "GroupNormalization", .version = 21, .attributes = Attrs({{"num_groups", 2}})},
       {x, channel, channel}},
      {{.type = "GroupNormalization", .version = 18, .attributes = Attrs({{"num_groups", 2}})},
       {x, varied({2}, 1), varied({2}, 2)}},
      {{.type = "RMSNormalization", .version = 23}, {x, row}},
      {{.type = "LpNormalization", .version = 22, .attributes = Attrs({{"p", 1}})}, {x}},
      {{.type = "MeanVarianceNormalization",
        .version = 13,
        .attributes = Attrs({{"axes", Dims{1}}})},
       {x}},
      {{.type = "LRN", .version = 13, .attributes = Attrs({{"size", 2}})}, {x}},
      {{.type = "NegativeLogLikelihoodLoss",
        .version = 22,
        .attributes = Attrs({{"ignore_index", 3}})},
       {x, target.reshaped({2, 3}), channel}},
      {{.type = "SoftmaxCrossEntropyLoss", .version = 13, .outputs = 2},
       {x, target.reshaped({2, 3})}},
      {{.type = "Attention",
        .version = 23,
        .attributes = Attrs({{"is_causal", 1}, {"softcap", 2.0}, {"qk_matmul_output_mode", 2}}),
        .outputs = 4},
       {heads, heads, heads}},
      {{.type = "Attention", .version = 24, .present = {1, 1, 1, 0, 0, 0, 1}},
       {heads, heads, heads, Tensor::of_ints({2})}},
      {{.type = "LinearAttention",
        .version = 27,
        .attributes = two_heads,
        .outputs = 2,
        .present = {1, 1, 1, 0, 1, 1}},
       {packed, packed, packed, gate, gate}},
      {{.type = "RotaryEmbedding", .version = 23, .attributes = Attrs({{"interleaved", 1}})},
       {heads, angles, angles}},
  };
}

// As the composite where the opset has it, else as what it stands for.
TEST(Composite, IsWrittenAtEveryOpsetAndReadBackTheSame) {
  for (const Sample& s : samples()) {
    Graph g = lower_onnx(one_node(s.node, s.inputs)).graph;
    auto expected = run(g, s.inputs);
    for (int64_t opset = 9; opset <= 27; ++opset) {
      Lowered again = lower_onnx(raise_onnx(g, opset));
      EXPECT_TRUE(again.deferred.empty()) << s.node.type << " at opset " << opset;
      auto got = run(again.graph, s.inputs);
      for (size_t i = 0; i < got.size(); ++i) {
        EXPECT_EQ(got[i].type(), expected[i].type()) << s.node.type << " at opset " << opset;
        for (int64_t k = 0; k < got[i].count(); ++k)
          EXPECT_EQ(got[i].real(k), expected[i].real(k)) << s.node.type << " at opset " << opset;
      }
    }
  }
}

}  // namespace
}  // namespace emend
