#include "zoo/zoo.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "ops/evaluate.h"
#include "ops/verify.h"

namespace emend {
namespace {

// Everything learned: float constants with a name, without the running statistics.
int64_t parameter_count(const Graph& g) {
  int64_t n = 0;
  for (size_t i = 0; i < g.size(); ++i) {
    NodeId id{i};
    const std::string& name = g.names[id];
    if (!g.is_constant(id) || g.type(id).dtype != DType::f32 || name.empty()) continue;
    if (name.ends_with("running_mean") || name.ends_with("running_var")) continue;
    if (name.starts_with("rotary_emb") || name == "causal_mask") continue;
    n += count(g.type(id).shape);
  }
  return n;
}

TEST(Zoo, EveryModelBuildsAtSeveralBatchSizes) {
  for (const ZooEntry& e : zoo()) {
    SCOPED_TRACE(e.name);
    for (int64_t batch : {1, 2}) {
      Model m = build_zoo(e.name, {.batch = batch, .weights = false});
      EXPECT_EQ(find_fault(m.graph), std::nullopt);
      EXPECT_EQ(m.info.inputs.size(), m.graph.inputs.size());
      EXPECT_EQ(m.info.outputs.size(), m.graph.outputs.size());
      EXPECT_EQ(m.graph.type(m.graph.inputs[0].node).shape[0] % batch, 0);
    }
  }
}

// As published with the models in PyTorch's form.
TEST(Zoo, ParameterCountsAreTheKnownOnes) {
  const std::map<std::string, int64_t> known = {
      {"resnet18", 11'689'512},
      {"resnet50", 25'557'032},
      {"resnext50", 25'028'904},
      {"resnet3d18", 33'371'472},
      {"vgg19", 143'667'240},
      {"csrnet", 16'263'489},
      {"squeezenet", 1'235'496},
      {"inception_v3", 23'834'568},
      {"mobilenet_v2", 3'504'872},
      {"nasnet_a", 5'289'978},
      {"bert_base", 109'482'240},
      {"bert_large", 335'141'888},
      {"vit_b16", 86'567'656},
      // from the papers' descriptions
      {"csrnet_pet", 9 * (3 * 512 * 512 + 512 * 256 + 256 * 128 + 128 * 64)},
      {"nasrnn", 5 * 16 * 512 * 512 + 512},
      {"bert_tensat", 8 * 4 * 1024 * 1024},
      {"bert_pet", 12 * (5 * 768 * 768 + 2 * 768)},
  };
  for (const auto& [name, parameters] : known) {
    EXPECT_EQ(parameter_count(build_zoo(name, {.weights = false}).graph), parameters) << name;
  }
}

TEST(Zoo, ParametersHaveNamesOfTheirOwn) {
  for (const ZooEntry& e : zoo()) {
    Graph g = build_zoo(e.name, {.weights = false}).graph;
    std::set<std::string> names;
    for (size_t i = 0; i < g.size(); ++i) {
      NodeId id{i};
      bool number = g.is_constant(id) && g.type(id).shape.empty();
      EXPECT_TRUE(!g.names[id].empty() || number) << e.name << " node " << i;
      if (!g.is_constant(id) || number) continue;
      EXPECT_TRUE(names.insert(g.names[id]).second) << e.name << " " << g.names[id];
    }
  }
}

// Weights depend on seed and name alone; every element of every layer is of order one.
TEST(Zoo, WeightsAreSeededAndActivationsStayOfOrderOne) {
  const std::vector<std::pair<std::string, ZooOptions>> small = {
      {"resnet18", {.size = 64}},
      {"resnet50", {.size = 64}},
      {"squeezenet", {.size = 64}},
      {"inception_v3", {.size = 107}},
      {"mobilenet_v2", {.size = 64}},
      {"nasnet_a", {.size = 64}},
      {"nasnet_a_tensat", {.size = 32}},
      {"csrnet_pet", {.size = 4}},
      {"nasrnn", {}},
      {"bert_tensat", {}},
      {"bert_pet", {.seq = 8}},
      {"bert_base", {.seq = 8, .layers = 2}},
      {"vit_b16", {.size = 32, .layers = 4}},
      {"llama_block", {.seq = 8}},
  };
  for (const auto& [name, options] : small) {
    SCOPED_TRACE(name);
    Model m = build_zoo(name, options);
    std::vector<Value> inputs;
    for (const auto& i : m.graph.inputs) {
      const Type& t = m.graph.type(i.node);
      std::vector<double> v;
      for (int64_t k = 0; k < count(t.shape); ++k) {
        v.push_back(is_float(t.dtype) ? std::sin(static_cast<double>(k * k)) * 1.4 : 1.0);
      }
      inputs.emplace_back(Tensor::of_reals(t.dtype, t.shape, v));
    }
    // Only what depends on the inputs: weights are as small as their layers are wide.
    IdVec<NodeId, char> varies(m.graph.size(), 0);
    for (size_t i = 0; i < m.graph.size(); ++i) {
      const Node& n = m.graph.nodes[NodeId(i)];
      varies[NodeId(i)] = n.op == kInputOp || std::any_of(n.args.begin(), n.args.end(),
                                                          [&](NodeId a) { return varies[a]; });
    }
    auto check = [&](NodeId id, const Value& v) {
      bool mask = m.graph.names[id].starts_with("mask") || m.graph.names[id].ends_with("mask");
      if (!v.is_tensor() || !is_float(v.tensor.dtype()) || !varies[id] || mask) return;
      double sum = 0;
      for (double x : v.tensor.reals()) sum += x * x;
      double rms = std::sqrt(sum / static_cast<double>(v.tensor.count()));
      EXPECT_GT(rms, 0.02) << m.graph.names[id];
      EXPECT_LT(rms, 20) << m.graph.names[id];
    };
    evaluate(m.graph, inputs, {.observe = check});
  }
  EXPECT_EQ(build_zoo("nasrnn", {.seed = 3}).graph, build_zoo("nasrnn", {.seed = 3}).graph);
  EXPECT_NE(build_zoo("nasrnn", {.seed = 3}).graph, build_zoo("nasrnn", {.seed = 4}).graph);
  EXPECT_EQ(build_zoo("nasrnn", {.batch = 2}).graph.constants[ConstId(size_t{5})],
            build_zoo("nasrnn").graph.constants[ConstId(size_t{5})]);
}

TEST(Zoo, WhatAModelDoesNotHaveIsRefused) {
  EXPECT_THROW(build_zoo("resnet19"), Error);
  EXPECT_THROW(build_zoo("resnet18", {.seq = 4}), Error);
  EXPECT_THROW(build_zoo("resnet18", {.batch = 0}), Error);
  EXPECT_THROW(build_zoo("bert_base", {.seq = 513, .weights = false}), Error);
  EXPECT_THROW(build_zoo("vit_b16", {.size = 100, .weights = false}), Error);
}

}  // namespace
}  // namespace emend
