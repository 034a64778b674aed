// 1,000 pairs that are equal by construction and 1,000 that differ in one planted place: no equal
// pair may be called different, and no planted difference equal. What stays unknown is counted: a
// checker that never says anything would be useless.
#include <gtest/gtest.h>

#include <cmath>
#include <iostream>

#include "base/rng.h"
#include "equiv/compare.h"
#include "ops/build.h"
#include "ops/evaluate.h"
#include "ops/movement.h"
#include "ops/table.h"
#include "ops/verify.h"
#include "text/text.h"

namespace emend {
namespace {

Tensor weights(Rng& rng, Dims shape) {
  std::vector<double> values(static_cast<size_t>(count(shape)));
  for (double& v : values) v = rng.normal();
  return Tensor::of_reals(DType::f32, std::move(shape), values);
}

NodeId random_step(GraphBuilder& b, Rng& rng, NodeId x) {
  const Dims s = b.shape(x);
  static const std::vector<std::string> kUnary = {"relu", "tanh", "sigmoid",
                                                  "neg",  "abs",  "leaky_relu"};
  switch (rng.between(0, 7)) {
    case 0:
    case 1:
      return b.op(rng.pick(kUnary), {x});
    case 2:
      return b.op("add", {x, b.constant(weights(rng, {s.back()}))});
    case 3:
      return b.op("mul", {x, b.constant(weights(rng, {s.back()}))});
    case 4:
      return b.op("matmul", {x, b.constant(weights(rng, {s.back(), rng.between(2, 6)}))});
    case 5:
      return b.op("max", {x, b.op("neg", {x})});
    case 6:
      return b.op("exp", {b.op("tanh", {x})});
    default:
      return b.op("sub", {x, b.op("reduce_mean", {x}, Attrs({{"axes", Dims{-1}}}))});
  }
}

Graph random_program(uint64_t seed) {
  Rng rng(seed);
  GraphBuilder b;
  NodeId x = b.input("x", Type::tensor(DType::f32, {rng.between(2, 4), rng.between(2, 5)}));
  for (int64_t n = rng.between(3, 8); n > 0; --n) x = random_step(b, rng, x);
  b.output("y", x);
  return std::move(b).build();
}

// Writes a program again, `change` deciding node by node what to build instead (or nothing).
using Change = std::function<std::optional<NodeId>(GraphBuilder&, const Graph&, NodeId, Args)>;
Graph rewritten(const Graph& g, const Change& change) {
  GraphBuilder b;
  IdVec<NodeId, NodeId> made(g.size());
  for (size_t i = 0; i < g.size(); ++i) {
    NodeId id{i};
    const Node& n = g.nodes[id];
    std::vector<NodeId> args;
    for (NodeId a : n.args) args.push_back(made[a]);
    if (n.op == kInputOp) {
      made[id] = b.input(g.inputs[0].name, g.types[id]);
    } else if (auto other = change(b, g, id, args)) {
      made[id] = *other;
    } else if (n.op == kConstantOp) {
      made[id] = b.constant(g.constant(id));
    } else {
      made[id] = b.try_op(n.op, args, n.attrs).value_or_throw();
    }
  }
  b.output("y", made[g.outputs[0].node]);
  return std::move(b).build();
}

NodeId written_differently(GraphBuilder& b, const std::string& op, Args x) {
  auto scalar = [&](double v) { return b.scalar(v, DType::f32); };
  auto neg = [&](NodeId n) { return b.op("neg", {n}); };
  if (op == "relu") return b.op("max", {x[0], scalar(0)});
  if (op == "neg") return b.op("sub", {scalar(0), x[0]});
  if (op == "abs") return b.op("max", {x[0], neg(x[0])});
  if (op == "sigmoid")
    return b.op("reciprocal", {b.op("add", {scalar(1), b.op("exp", {neg(x[0])})})});
  if (op == "add") return b.op("add", {x[1], x[0]});
  if (op == "mul") return neg(b.op("mul", {neg(x[0]), x[1]}));
  if (op == "sub") return b.op("add", {x[0], neg(x[1])});
  if (op == "max") return neg(b.op("min", {neg(x[0]), neg(x[1])}));
  if (op == "matmul") {
    auto t = [&](NodeId n) { return b.op("transpose", {n}, Transpose{{1, 0}}); };
    return t(b.op("matmul", {t(x[1]), t(x[0])}));
  }
  if (op == "exp") {
    NodeId half = b.op("exp", {b.op("mul", {x[0], scalar(0.5)})});
    return b.op("mul", {half, half});
  }
  return NodeId();
}

// The same function, written differently at the places that are drawn.
Graph equal_twin(const Graph& g, uint64_t seed) {
  Rng rng(seed);
  return rewritten(
      g, [&](GraphBuilder& b, const Graph& from, NodeId id, Args x) -> std::optional<NodeId> {
        if (rng.uniform() < 0.4 || from.is_constant(id)) return std::nullopt;
        NodeId other = written_differently(b, op_def(from.nodes[id]).name, x);
        return other.valid() ? std::optional(other) : std::nullopt;
      });
}

// A constant with one element off by a thousandth of the largest.
Tensor nudged(const Tensor& t, Rng& rng) {
  auto values = t.reals();
  double largest = 1;  // a change below rounding would be none
  for (double v : values) largest = std::max(largest, std::abs(v));
  values[static_cast<size_t>(rng.between(0, t.count() - 1))] += 1e-3 * largest;
  return Tensor::of_reals(t.dtype(), t.shape(), values);
}

// The node `target` does something slightly else.
Graph planted(const Graph& g, uint64_t seed) {
  Rng rng(seed);
  NodeId target{static_cast<size_t>(rng.between(1, static_cast<int64_t>(g.size()) - 1))};
  return rewritten(
      g, [&](GraphBuilder& b, const Graph& from, NodeId id, Args x) -> std::optional<NodeId> {
        if (id != target) return std::nullopt;
        if (from.is_constant(id)) return b.constant(nudged(from.constant(id), rng));
        const std::string& op = op_def(from.nodes[id]).name;
        if (op == "relu") return b.op("leaky_relu", {x[0]}, Attrs({{"alpha", 0.001}}));
        if (op == "leaky_relu") return b.op("leaky_relu", {x[0]}, Attrs({{"alpha", 0.0101}}));
        if (op == "max") return b.op("max", {x[0], x[0]});
        if (op == "sub") return b.op("sub", {x[1], x[0]});
        NodeId y = b.try_op(from.nodes[id].op, x, from.nodes[id].attrs).value_or_throw();
        return b.op("add", {y, b.scalar(1e-3, DType::f32)});
      });
}

// Seen by running both in double precision on many inputs.
bool really_differ(const Graph& a, const Graph& b) {
  for (uint64_t seed = 0; seed < 10; ++seed) {
    for (double scale : {0.3, 3.0, 30.0}) {
      std::vector<Value> in;
      for (const Value& v : random_inputs(a, seed, scale)) {
        in.emplace_back(converted(v.tensor, Arithmetic::real64));
      }
      auto x = evaluate(a, in, {.arithmetic = Arithmetic::real64});
      auto y = evaluate(b, in, {.arithmetic = Arithmetic::real64});
      auto worst = worst_difference(a, x, y);
      if (worst.rel > 1e-10 && worst.abs > 1e-10) return true;
    }
  }
  return false;
}

TEST(VerifyPairs, EqualPairsAreNeverCalledDifferent) {
  int equal = 0;
  for (uint64_t seed = 0; seed < 1000; ++seed) {
    Graph a = random_program(seed), b = equal_twin(a, seed + 5000);
    ASSERT_EQ(find_fault(b), std::nullopt);
    Verdict v = compare(a, b, {.seed = seed + 1});
    EXPECT_NE(v.kind, Verdict::Kind::different) << v.reason << "\n" << print(a) << print(b);
    equal += v.kind == Verdict::Kind::equal;
  }
  std::cout << equal << " of 1000 equal pairs were proven equal\n";
  EXPECT_GE(equal, 990);
}

TEST(VerifyPairs, PlantedDifferencesAreNeverCalledEqual) {
  int different = 0, real = 0;
  for (uint64_t seed = 0; real < 1000; ++seed) {
    Graph a = random_program(seed), b = planted(equal_twin(a, seed + 5000), seed + 9000);
    // A change may be without effect by accident (a relu after an abs): that pair is equal after
    // all.
    if (!really_differ(a, b)) continue;
    ++real;
    Verdict v = compare(a, b, {.seed = seed + 1});
    EXPECT_NE(v.kind, Verdict::Kind::equal)
        << v.method << "\n"
        << print(a, {.inline_elements = 64}) << print(b, {.inline_elements = 64});
    different += v.kind == Verdict::Kind::different;
  }
  std::cout << different << " of " << real << " planted differences came with a witness\n";
  EXPECT_GE(different, real / 4);
}

}  // namespace
}  // namespace emend
