// Every kernel of the catalogue on random groups, ragged sizes, views, broadcasts, pads, strides,
// dilations, groups and epilogues, against the reference in double precision. Compiled kernels are
// kept in the cache, so that only the first run of a machine is slow. EMEND_CASES sets how many
// groups of each family are drawn.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <iostream>
#include <map>

#include "base/rng.h"
#include "codegen/codegen.h"
#include "fuse/fuse.h"
#include "kernels/cpu/c_code.h"
#include "kernels/group.h"
#include "ops/build.h"
#include "ops/evaluate.h"
#include "ops/table.h"
#include "pipeline/compile.h"
#include "run/cpu.h"
#include "text/text.h"

namespace emend {
namespace {

int cases() {
  const char* text = std::getenv("EMEND_CASES");
  return text ? std::atoi(text) : 40;
}

Type f32(Dims shape) {
  return Type::tensor(DType::f32, std::move(shape));
}
Attrs dims(const char* name, Dims value) {
  return Attrs({{name, std::move(value)}});
}

// Inputs of a group that are called w are known ahead of time.
bool is_weight(const Graph& g, size_t input) {
  return g.inputs[input].name.starts_with("w");
}

// Elementwise operators behind a result: bias, activation, residual.
NodeId epilogue(GraphBuilder& b, Rng& rng, NodeId y) {
  static const std::vector<std::string> kUnary = {"relu", "gelu", "sigmoid", "tanh", "exp", "neg"};
  for (int64_t n = rng.between(0, 3); n > 0; --n) {
    const Dims shape = b.shape(y);
    switch (rng.between(0, 3)) {
      case 0:
        y = b.op(rng.pick(kUnary), {b.op("tanh", {y})});
        break;
      case 1: {
        Dims bias(shape.size(), 1);
        size_t axis = static_cast<size_t>(rng.between(0, static_cast<int64_t>(shape.size()) - 1));
        bias[axis] = shape[axis];
        y = b.op("add", {y, b.input("w_bias", f32(bias))});
        break;
      }
      case 2:
        y = b.op("add", {y, b.input("residual", f32(shape))});
        break;
      default:
        y = b.op("mul", {y, b.scalar(0.5, DType::f32)});
    }
  }
  return y;
}

NodeId matmul(GraphBuilder& b, Rng& rng) {
  int64_t m = rng.between(1, 70), n = rng.between(1, 70), k = rng.between(4, 90);
  Dims batch;
  for (int64_t i = rng.between(0, 2); i > 0; --i) batch.push_back(rng.between(1, 3));
  auto operand = [&](const char* name, int64_t rows, int64_t columns, bool batched) {
    Dims shape = batched ? batch : Dims{};
    bool turned = rng.between(0, 2) == 0;
    shape.push_back(turned ? columns : rows);
    shape.push_back(turned ? rows : columns);
    NodeId x = b.input(name, f32(shape));
    if (!turned) return x;
    Dims perm(shape.size());
    for (size_t i = 0; i < perm.size(); ++i) perm[i] = static_cast<int64_t>(i);
    std::swap(perm[perm.size() - 1], perm[perm.size() - 2]);
    return b.op("transpose", {x}, dims("perm", perm));
  };
  bool weight = rng.between(0, 1);
  NodeId x = operand("x", m, k, true);
  return b.op("matmul", {x, operand(weight ? "w" : "z", k, n, rng.between(0, 1))});
}

NodeId conv(GraphBuilder& b, Rng& rng) {
  int64_t rank = rng.between(1, 3), group = rng.between(0, 2) == 0 ? rng.between(2, 4) : 1;
  int64_t c = group * rng.between(1, 12), f = group * rng.between(1, 20);
  Dims x{rng.between(1, 2), c}, w{f, c / group}, strides, dilations,
      pads(2 * static_cast<size_t>(rank));
  for (int64_t d = 0; d < rank; ++d) {
    int64_t kernel = rng.between(1, 3), dilation = rng.between(1, 2);
    x.push_back(rng.between(6, rank == 1 ? 60 : rank == 2 ? 19 : 9));
    w.push_back(kernel);
    strides.push_back(rng.between(1, 2));
    dilations.push_back(dilation);
    for (size_t end : {0, 1})
      pads[static_cast<size_t>(d) + end * static_cast<size_t>(rank)] = rng.between(0, 2);
  }
  bool weight = rng.between(0, 3) > 0;
  return b.op(
      "conv", {b.input("x", f32(x)), b.input(weight ? "w" : "z", f32(w))},
      Attrs({{"strides", strides}, {"dilations", dilations}, {"pads", pads}, {"group", group}}));
}

NodeId rows(GraphBuilder& b, Rng& rng) {
  Dims shape;
  for (int64_t i = rng.between(1, 3); i > 0; --i) shape.push_back(rng.between(1, 40));
  NodeId x = b.input("x", f32(shape));
  auto axis = rng.between(0, static_cast<int64_t>(shape.size()) - 1);
  static const std::vector<std::string> kReductions = {"reduce_sum",  "reduce_max", "reduce_min",
                                                       "reduce_mean", "reduce_l2",  "reduce_prod"};
  switch (rng.between(0, 3)) {
    case 0:
      return b.op("softmax", {x}, Attrs({{"axis", axis}}));
    case 1:
      return b.op("log_softmax", {x}, Attrs({{"axis", axis}}));
    case 2:
      return b.op("layer_norm", {x, b.input("w_scale", f32({shape.back()}))});
    default:
      return b.op(rng.pick(kReductions), {b.op("tanh", {x})}, dims("axes", {axis}));
  }
}

NodeId pool(GraphBuilder& b, Rng& rng) {
  Dims x{rng.between(1, 2), rng.between(1, 5), rng.between(5, 30), rng.between(5, 30)};
  Dims kernel{rng.between(1, 3), rng.between(1, 3)};
  Dims strides{rng.between(1, 2), rng.between(1, 2)}, pads;
  for (int i = 0; i < 4; ++i)
    pads.push_back(rng.between(0, kernel[static_cast<size_t>(i % 2)] - 1));
  return b.op(
      rng.between(0, 1) ? "max_pool" : "sum_pool", {b.input("x", f32(x))},
      Attrs({{"kernel", kernel}, {"strides", strides}, {"dilations", Dims{1, 1}}, {"pads", pads}}));
}

NodeId views(GraphBuilder& b, Rng& rng) {
  int64_t p = rng.between(1, 6), q = rng.between(1, 6), r = rng.between(1, 12),
          s = rng.between(1, 20);
  NodeId x = b.input("x", f32({p, q, r, s}));
  Dims perm{0, 1, 2, 3};
  for (size_t i = 3; i > 0; --i)
    std::swap(perm[i], perm[static_cast<size_t>(rng.between(0, static_cast<int64_t>(i)))]);
  x = b.op("transpose", {x}, dims("perm", perm));
  Dims t = b.shape(x);
  x = b.op("reshape", {x}, dims("shape", {t[0] * t[1], t[2] * t[3]}));
  x = b.op("tanh", {x});
  if (rng.between(0, 1)) x = b.op("pad", {x}, dims("pads", {1, 0, 2, 1}));
  if (rng.between(0, 1)) {
    Dims shape = b.shape(x);
    NodeId y = b.input("y", f32({shape[0], rng.between(1, 9)}));
    x = b.op("concat", {x, y}, Attrs({{"axis", int64_t{1}}}));
  }
  return x;
}

using Family = NodeId (*)(GraphBuilder&, Rng&);

Graph random_group(Family family, uint64_t seed) {
  Rng rng(seed);
  GraphBuilder b;
  b.output("y", epilogue(b, rng, family(b, rng)));
  return decomposed(std::move(b).build());
}

// The whole graph as one group, its weights as constants.
struct Whole {
  Graph graph;
  std::vector<Value> inputs;  // of what is no constant
  Partition partition;
  std::vector<bool> constant;
};

Whole whole_of(const Graph& group, uint64_t seed) {
  Whole w;
  Rng rng(seed, 1);
  GraphBuilder b;
  std::vector<NodeId> args;
  for (size_t i = 0; i < group.inputs.size(); ++i) {
    const Type& t = group.type(group.inputs[i].node);
    std::vector<double> values(static_cast<size_t>(count(t.shape)));
    for (double& v : values) v = rng.normal();
    Tensor value = Tensor::of_reals(t.dtype, t.shape, values);
    w.constant.push_back(is_weight(group, i) && value.count() != 1);
    if (is_weight(group, i)) {
      args.push_back(b.constant(value));
    } else {
      args.push_back(b.input(group.inputs[i].name, t));
      w.inputs.emplace_back(value);
    }
  }
  // splice keeps the order of nodes.
  auto results = splice(b, group, args);
  b.output("y", results[0]);
  w.graph = std::move(b).build();
  NodeGroup all;
  for (size_t n = 0; n < w.graph.size(); ++n) {
    const Node& node = w.graph.nodes[NodeId(n)];
    if (node.op != kInputOp && node.op != kConstantOp) all.nodes.push_back(NodeId(n));
  }
  all.stores = {w.graph.outputs[0].node};
  w.partition.groups = {all};
  return w;
}

double error_against(const Tensor& exact, const Tensor& actual) {
  double worst = 0, largest = 1e-30;
  for (int64_t i = 0; i < exact.count(); ++i) {
    largest = std::max(largest, std::abs(exact.real(i)));
    double d = std::abs(exact.real(i) - actual.real(i));
    worst = std::max(worst, std::isnan(d) ? INFINITY : d);
  }
  return worst / largest;
}

// Of every other group some operands, or the result, lie with channels last.
Layouts some_layouts(const Graph& group, const std::vector<bool>& constant, uint64_t seed) {
  Rng rng(seed);
  Layouts l;
  if (rng.between(0, 1)) return l;
  bool loads = rng.between(0, 3) > 0, stores = !loads || rng.between(0, 3) > 0;
  auto last = [&](NodeId n) { return channels_last(group.type(n).shape); };
  for (size_t i = 0; i < group.inputs.size(); ++i) {
    l.loads.push_back(loads && !constant[i] ? last(group.inputs[i].node) : Layout{});
  }
  l.stores.push_back(stores ? last(group.outputs[0].node) : Layout{});
  return l;
}

class Kernels : public testing::TestWithParam<std::pair<const char*, Family>> {};

TEST_P(Kernels, AgreeWithTheReference) {
  Target target{.vector_bytes = 64, .threads = 2, .peak_flops = 2e11};
  std::map<std::string, int> tried;
  for (int i = 0; i < cases(); ++i) {
    auto seed = static_cast<uint64_t>(i) + 1000;
    Graph group = random_group(GetParam().second, seed);
    Whole w = whole_of(group, seed);
    if (w.partition.groups[0].nodes.empty()) continue;
    std::vector<Value> doubles;
    for (const Value& v : w.inputs) doubles.emplace_back(converted(v.tensor, Arithmetic::real64));
    Tensor exact = evaluate(w.graph, doubles, {.arithmetic = Arithmetic::real64})[0].tensor;
    auto outline = outlined(w.graph, w.partition.groups[0]);
    std::vector<bool> constant;
    for (NodeId n : outline.loads) constant.push_back(w.graph.is_constant(n));
    auto layouts = some_layouts(outline.graph, constant, seed);
    for (const Kernel& kernel : catalogue_here()) {
      auto candidates = kernel.candidates({outline.graph, constant, layouts}, target);
      // The best guess and one that the estimate likes less.
      for (size_t c : {size_t{0}, candidates.size() / 2}) {
        if (c >= candidates.size()) continue;
        Plan plan{w.partition, {candidates[c]}};
        CpuProgram program(generate(w.graph, plan, catalogue_here(), target), c_prelude(),
                           {.threads = 2});
        Tensor actual = program.run(w.inputs)[0].tensor;
        ++tried[kernel.name];
        ASSERT_LE(error_against(exact, actual), 1e-5)
            << kernel.name << " " << to_text(candidates[c].config) << " " << to_text(layouts)
            << ", seed " << seed << "\n"
            << print(w.graph);
        if (candidates.size() == 1) break;
      }
    }
  }
  for (const auto& [name, n] : tried)
    std::cout << GetParam().first << ": " << name << " " << n << "\n";
  EXPECT_GT(tried["rows"], cases() / 4);
}

INSTANTIATE_TEST_SUITE_P(Families, Kernels,
                         testing::Values(std::pair("matmul", Family(matmul)),
                                         std::pair("conv", Family(conv)),
                                         std::pair("rows", Family(rows)),
                                         std::pair("pool", Family(pool)),
                                         std::pair("views", Family(views))),
                         [](const auto& info) { return std::string(info.param.first); });

}  // namespace
}  // namespace emend
