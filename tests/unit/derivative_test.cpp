// Gradients against central differences in double precision: every elementwise operator, every
// operator that says it is multilinear, and samples of the rest.
#include "ops/derivative.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "base/rng.h"
#include "ops/contraction.h"
#include "ops/evaluate.h"
#include "ops/exact.h"
#include "ops/table.h"
#include "ops/transposed.h"

namespace emend {
namespace {

Tensor random_tensor(Rng& rng, Dims shape, double low, double high) {
  std::vector<double> v(static_cast<size_t>(count(shape)));
  for (double& x : v) x = low + (high - low) * rng.uniform();
  return Tensor::of_reals(DType::f64, shape, v);
}

Tensor moved(const Tensor& t, double by, int64_t only = -1) {
  std::vector<double> v = t.reals();
  for (size_t i = 0; i < v.size(); ++i)
    if (only < 0 || static_cast<int64_t>(i) == only) v[i] += by;
  return Tensor::of_reals(DType::f64, t.shape(), v);
}

bool is_real(const Tensor& t) {
  return is_float(t.dtype());
}

// The operator's real results as a program over its operands.
Graph program(const std::string& op, Attrs attrs, const std::vector<Tensor>& operands) {
  GraphBuilder b;
  std::vector<NodeId> args;
  for (const Tensor& t : operands) args.push_back(b.input("x", t.type()));
  for (NodeId y : b.get_all(b.op(op, args, attrs)))
    if (is_float(b.dtype(y))) b.output("y", y);
  return std::move(b).build();
}

// The gradients of sum <y, seed> by all operands; an empty tensor where there is none.
std::vector<Tensor> gradient_values(const std::string& op, Attrs attrs,
                                    const std::vector<Tensor>& operands,
                                    const std::vector<Tensor>& seeds,
                                    Arithmetic arithmetic = Arithmetic::real64) {
  GraphBuilder b;
  std::vector<NodeId> args;
  std::vector<Value> values;
  for (const Tensor& t : operands) {
    args.push_back(b.input("x", t.type()));
    values.push_back(converted(t, arithmetic));
  }
  std::vector<NodeId> of, with;
  for (NodeId y : b.get_all(b.op(op, args, attrs)))
    if (is_float(b.dtype(y))) of.push_back(y);
  for (const Tensor& seed : seeds) {
    with.push_back(b.input("seed", seed.type()));
    values.push_back(converted(seed, arithmetic));
  }
  auto grads = gradients(b, of, with, args);
  for (NodeId g : grads)
    if (g.valid()) b.output("g", g);
  auto results = evaluate(std::move(b).build(), values, {.arithmetic = arithmetic});
  std::vector<Tensor> all;
  size_t next = 0;
  for (NodeId g : grads) all.push_back(g.valid() ? results[next++].tensor : Tensor());
  return all;
}

std::vector<Value> run_all(const Graph& g, const std::vector<Tensor>& operands) {
  std::vector<Value> in(operands.begin(), operands.end());
  return evaluate(g, in, {.arithmetic = Arithmetic::real64});
}

Tensor run(const Graph& g, const std::vector<Tensor>& operands) {
  return run_all(g, operands)[0].tensor;
}

double inner(const std::vector<Value>& x, const std::vector<Tensor>& y) {
  double sum = 0;
  for (size_t k = 0; k < y.size(); ++k)
    for (int64_t i = 0; i < y[k].count(); ++i) sum += x[k].tensor.real(i) * y[k].real(i);
  return sum;
}

// --- Elementwise: whole vectors at once, points at kinks and outside the domain left out ---

void check_elementwise(const OpDef& def, Attrs attrs) {
  SCOPED_TRACE(def.name + to_text(attrs));
  constexpr int64_t kPoints = 600;
  constexpr double kStep = 1e-5;
  Rng rng(7);
  std::vector<Tensor> x;
  for (int k = 0; k < def.max_args; ++k) {
    bool condition = k == 0 && def.result == ResultType::condition;
    Tensor t = random_tensor(rng, {kPoints}, condition ? 0 : -3, condition ? 2 : 3);
    if (condition) {
      Dims bits;
      for (double v : t.reals()) bits.push_back(static_cast<int64_t>(v));
      t = Tensor::make(DType::boolean, t.shape(), [&](std::byte* out) {
        for (size_t i = 0; i < bits.size(); ++i) store_int(DType::boolean, out, i, bits[i]);
      });
    }
    x.push_back(t);
  }
  Graph f = program(def.name, attrs, x);
  Tensor y = run(f, x);
  DType result = f.types[f.outputs[0].node].dtype;
  Tensor ones = Tensor::of_reals(result, {kPoints}, std::vector(kPoints, 1.0));
  auto grads = gradient_values(def.name, attrs, x, {ones});
  for (size_t k = 0; k < x.size(); ++k) {
    if (!is_real(x[k])) continue;
    auto lower = x, upper = x;
    lower[k] = moved(x[k], -kStep);
    upper[k] = moved(x[k], kStep);
    Tensor below = run(f, lower), above = run(f, upper);
    int checked = 0;
    for (int64_t i = 0; i < kPoints; ++i) {
      double left = (y.real(i) - below.real(i)) / kStep,
             right = (above.real(i) - y.real(i)) / kStep;
      double slope = (left + right) / 2;
      if (!std::isfinite(slope) || std::abs(right - left) > 1e-3 * (1 + std::abs(slope))) continue;
      double got = grads[k].count() ? grads[k].real(i) : 0;
      ++checked;
      ASSERT_NEAR(got, slope, 1e-6 * (1 + std::abs(slope)))
          << def.name << to_text(attrs) << " by operand " << k << " at " << x[0].real(i)
          << (x.size() > 1 ? str(", ", x[1].real(i)) : "");
    }
    EXPECT_GE(checked, 60) << def.name << ": the points checked are too few";
  }
}

TEST(Derivative, EveryElementwiseOperator) {
  int n = 0;
  for (const OpDef& def : all_ops()) {
    if (def.body.empty() || def.result == ResultType::boolean) continue;
    ++n;
    Attrs attrs = complete_attrs(def, {}).value_or_throw();
    check_elementwise(def, attrs);
    // Once more with every number among the attributes changed.
    Attrs changed = attrs;
    for (const auto& [name, value] : attrs.entries())
      if (const double* v = value.as<double>()) changed = changed.with(name, *v * 0.7 + 0.1);
    if (!(changed == attrs)) check_elementwise(def, changed);
  }
  EXPECT_GE(n, 50);
}

// --- Everything else: element by element ---

struct Row {
  std::string op;
  std::vector<Tensor> operands;
  Attrs attrs = {};
};

void check_row(const Row& row) {
  SCOPED_TRACE(row.op + to_text(row.attrs));
  constexpr double kStep = 1e-5;
  Graph f = program(row.op, row.attrs, row.operands);
  Rng rng(11);
  std::vector<Tensor> seeds;
  for (const auto& o : f.outputs) seeds.push_back(random_tensor(rng, f.types[o.node].shape, -1, 1));
  auto grads = gradient_values(row.op, row.attrs, row.operands, seeds);
  for (size_t k = 0; k < row.operands.size(); ++k) {
    if (!is_real(row.operands[k])) continue;
    ASSERT_EQ(grads[k].shape(), row.operands[k].shape()) << "operand " << k << " has no gradient";
    for (int64_t i = 0; i < row.operands[k].count(); ++i) {
      auto lower = row.operands, upper = row.operands;
      lower[k] = moved(row.operands[k], -kStep, i);
      upper[k] = moved(row.operands[k], kStep, i);
      double slope =
          (inner(run_all(f, upper), seeds) - inner(run_all(f, lower), seeds)) / (2 * kStep);
      ASSERT_NEAR(grads[k].real(i), slope, 1e-6 * (1 + std::abs(slope)))
          << "operand " << k << ", element " << i;
    }
  }
}

// One sample (or a few) per operator.
std::vector<Row> rows() {
  Rng rng(3);
  auto x = [&rng](Dims shape) { return random_tensor(rng, std::move(shape), -2, 2); };
  auto positive = [&rng](Dims shape) { return random_tensor(rng, std::move(shape), 0.5, 2); };
  auto a = [](std::vector<Attrs::Entry> entries) { return Attrs(std::move(entries)); };
  using D = Dims;
  using S = std::vector<std::string>;
  Tensor lengths = Tensor::make(DType::i32, {2}, [](std::byte* out) {
    store_int(DType::i32, out, 0, 3);
    store_int(DType::i32, out, 1, 2);
  });
  Tensor with_zeros =
      Tensor::of_reals(DType::f64, {3, 3}, std::vector<double>{1, 2, 3, 0, 2, 4, 0, 0, 5});
  Tensor places = Tensor::of_ints({2, 0, 2, -1}).reshaped({2, 2});
  // clang-format off
  return {
      {"matmul", {x({2, 3}), x({3, 4})}},
      {"matmul", {x({2, 1, 2, 3}), x({3, 3, 2})}},
      {"matmul", {x({3}), x({2, 3, 2})}},
      {"conv", {x({2, 4, 5, 4}), x({6, 2, 3, 2})}, to_attrs(Conv{{2, 1}, {1, 2}, {1, 0, 0, 2}, 2})},
      {"conv", {x({1, 2, 7}), x({3, 2, 2})}, to_attrs(Conv{{3}, {2}, {2, 1}, 1})},
      {"reshape", {x({2, 6})}, a({{"shape", D{3, 4}}})},
      {"transpose", {x({2, 3, 4})}, a({{"perm", D{2, 0, 1}}})},
      {"broadcast", {x({3, 1})}, a({{"shape", D{2, 3, 4}}})},
      {"slice", {x({5, 4})}, a({{"starts", D{4, 1}}, {"sizes", D{3, 2}}, {"steps", D{-2, 2}}})},
      {"slice", {x({5, 4})}, a({{"starts", D{3, 0}}, {"sizes", D{1, 4}}, {"steps", D{-1, 1}}})},
      {"reduce_sum", {x({2, 3, 4})}, a({{"axes", D{0, 2}}, {"keepdims", false}})},
      {"reduce_mean", {x({2, 3})}, a({{"axes", D{1}}})},
      {"reduce_max", {x({3, 4})}, a({{"axes", D{1}}})},
      {"reduce_min", {x({3, 4})}},
      {"reduce_prod", {x({3, 4})}, a({{"axes", D{1}}})},
      {"reduce_prod", {with_zeros}, a({{"axes", D{1}}})},
      {"pad", {x({3, 2})}, a({{"pads", D{1, -1, 0, 2}}, {"value", 1.5}})},
      {"concat", {x({2, 3}), x({2, 1}), x({2, 2})}, a({{"axis", 1}})},
      {"split", {x({2, 5})}, a({{"axis", 1}, {"sizes", D{2, 3}}})},
      {"add", {x({2, 1, 3}), x({4, 1})}},
      {"mul", {x({2, 1, 3}), x({4, 1})}},
      {"pow", {positive({2, 3}), x({3})}},
      {"conv_transpose", {x({1, 4, 3, 2}), x({4, 2, 2, 3})},
       a({{"strides", D{2, 1}}, {"dilations", D{1, 1}}, {"pads", D{0, 1, 1, 0}}, {"output_padding", D{1, 0}}, {"group", 2}})},
      {"fold_blocks", {x({1, 4, 6})},
       a({{"image", D{3, 4}}, {"block", D{2, 2}}, {"strides", D{1, 1}}, {"dilations", D{1, 1}}, {"pads", D{0, 0, 0, 0}}})},
      {"einsum", {x({2, 3}), x({3, 4}), x({4})}, a({{"equation", "ij,jk,k->ki"}})},
      {"einsum", {x({3, 3})}, a({{"equation", "ii->i"}})},
      {"dft", {x({2, 4, 2})}, a({{"axis", 1}, {"length", 5}, {"inverse", true}})},
      {"stft", {x({1, 8, 1}), x({4})}, a({{"frame_step", 2}, {"frame_length", 4}})},
      {"affine_grid", {x({2, 2, 3})}, a({{"size", D{2, 1, 3, 2}}})},
      {"tile", {x({2, 3})}, a({{"repeats", D{2, 2}}})},
      {"triangle", {x({2, 3, 4})}, a({{"upper", false}, {"k", 1}})},
      {"depth_to_space", {x({1, 8, 2, 3})}, a({{"blocksize", 2}, {"mode", "CRD"}})},
      {"view", {x({2, 6})}, a({{"map", "[2*4, 2] <- [c, a+2b-1]"}})},
      {"view", {x({2, 6})}, a({{"map", "[2*4:7, 3, 2] <- [d, 3a+b]"}})},
      {"patch", {x({3, 5}), x({2, 2})}, a({{"begin", D{1, 2}}})},
      {"space_to_depth", {x({1, 2, 4, 6})}, a({{"blocksize", 2}})},
      {"border", {x({3, 4})}, a({{"pads", D{1, 2, 0, 1}}, {"mode", "reflect"}})},
      {"cum_sum", {x({3, 4})}, a({{"axis", 1}, {"exclusive", true}, {"reverse", true}})},
      {"sum_pool", {x({1, 2, 5, 4})}, a({{"kernel", D{3, 2}}, {"strides", D{2, 1}}, {"dilations", D{1, 2}}, {"pads", D{1, 0, 0, 1}}})},
      {"max_pool", {x({1, 2, 5, 4})}, a({{"kernel", D{2, 2}}, {"strides", D{1, 2}}, {"dilations", D{1, 1}}, {"pads", D{0, 1, 1, 0}}})},
      {"avg_pool", {x({1, 2, 5, 4})}, a({{"kernel", D{2, 2}}, {"strides", D{1, 2}}, {"dilations", D{1, 1}}, {"pads", D{0, 1, 1, 0}}})},
      {"gather", {x({3, 4}), places}, a({{"axis", 0}})},
      {"reduce_l2", {x({3, 4})}, a({{"axes", D{1}}})},
      {"reduce_log_sum_exp", {x({3, 4})}, a({{"axes", D{0}}})},
      {"log_softmax", {x({2, 5})}},
      {"lrn", {x({1, 4, 2})}, a({{"size", 3}, {"alpha", 0.5}})},
      {"rnn", {x({3, 2, 2}), x({1, 3, 2}), x({1, 3, 3})}, a({{"activations", S{"Tanh"}}, {"present", D{0, 0, 0, 0, 0}}})},
      {"gru", {x({3, 2, 2}), x({2, 6, 2}), x({2, 6, 2}), x({2, 12}), lengths, x({2, 2, 2})},
       a({{"activations", S{"Sigmoid", "Tanh", "Sigmoid", "Tanh"}}, {"direction", "bidirectional"}, {"linear_before_reset", true},
          {"present", D{1, 1, 1, 0, 0}}})},
      {"lstm", {x({2, 3, 2}), x({1, 8, 2}), x({1, 8, 2}), x({2, 1, 2}), x({2, 1, 2}), x({1, 6})},
       a({{"activations", S{"Sigmoid", "Tanh", "Tanh"}}, {"direction", "reverse"}, {"layout", 1}, {"present", D{0, 0, 1, 1, 1}}})},
      {"softmax", {x({2, 5})}},
      {"layer_norm", {x({3, 4}), x({4}), x({4})}},
  };
  // clang-format on
}

TEST(Derivative, SamplesAgreeWithCentralDifferences) {
  for (const Row& row : rows()) {
    try {
      check_row(row);
    } catch (const std::exception& e) {
      ADD_FAILURE() << row.op << to_text(row.attrs) << ": " << e.what();
    }
  }
}

TEST(Derivative, EveryMultilinearOperatorHasASample) {
  std::set<std::string> sampled;
  for (const Row& row : rows()) sampled.insert(row.op);
  for (const OpDef& def : all_ops()) {
    if (!def.has(multilinear)) continue;
    EXPECT_TRUE(sampled.contains(def.name)) << "add a row for " << def.name << " above";
  }
}

TEST(Derivative, InvertedIndicesAgreeWithScattering) {
  int inverted = 0;
  for (const Row& row : rows()) {
    const OpDef& def = op_def(op_named(row.op));
    if (!def.means) continue;
    Attrs attrs = complete_attrs(def, row.attrs).value_or_throw();
    std::vector<Type> types;
    for (const Tensor& t : row.operands) types.push_back(t.type());
    for (size_t k = 0; k < types.size(); ++k) {
      Transposed t{row.op, attrs, static_cast<int64_t>(k), Type::tuple(types)};
      if (!is_real(row.operands[k]) || !transposed_meaning(t)) continue;
      ++inverted;
      Rng rng(13);
      Dims shape = infer_type(def, attrs, types).value_or_throw().shape;
      std::vector<Tensor> in = {random_tensor(rng, shape, -1, 1)};
      auto wanted = wanted_operands(t);
      for (int i : *wanted) in.push_back(row.operands[static_cast<size_t>(i)]);
      Tensor a = run(program("transposed", to_attrs(t), in), in);
      Tensor b = run(program("scattered", to_attrs(t), in), in);
      for (int64_t i = 0; i < a.count(); ++i)
        ASSERT_NEAR(a.real(i), b.real(i), 1e-12) << row.op << " by operand " << k << " at " << i;
    }
  }
  EXPECT_GE(inverted, 20);
}

TEST(Derivative, GradientsOfContractionsAreContractions) {
  auto is_one = [](const std::string& op, Attrs attrs, std::vector<Dims> shapes, int64_t operand) {
    std::vector<Type> types;
    for (Dims& s : shapes) types.push_back(Type::tensor(DType::f32, std::move(s)));
    auto m = transposed_meaning({op, attrs, operand, Type::tuple(types)});
    return m && is_contraction(*m);
  };
  Attrs conv = to_attrs(Conv{{1, 1}, {2, 1}, {1, 1, 1, 1}, 2});
  for (int64_t operand : {0, 1}) {
    EXPECT_TRUE(is_one("matmul", {}, {{2, 3, 4}, {4, 5}}, operand)) << operand;
    EXPECT_TRUE(is_one("conv", conv, {{2, 4, 8, 8}, {6, 2, 3, 3}}, operand)) << operand;
  }
}

TEST(Derivative, EqualMaximaShareTheGradient) {
  Tensor x = Tensor::of_reals(DType::f64, {4}, std::vector<double>{1, 3, 3, 2});
  auto grads = gradient_values("reduce_max", Attrs({{"keepdims", false}}), {x},
                               {Tensor::of_real(1, DType::f64)});
  EXPECT_EQ(grads[0].reals(), (std::vector<double>{0, 0.5, 0.5, 0}));
}

TEST(Derivative, OfMeaningsIsExactInTheFieldAndInIntegers) {
  Rng rng(5);
  auto whole = [&](Dims shape) {
    Tensor t = random_tensor(rng, std::move(shape), -9, 9);
    std::vector<double> v = t.reals();
    for (double& e : v) e = std::round(e);
    return Tensor::of_reals(DType::f64, t.shape(), v);
  };
  std::vector<Tensor> in = {whole({2, 4, 5}), whole({2, 2, 3})};
  Attrs attrs = to_attrs(Conv{{2}, {1}, {1, 1}, 2});
  Graph f = program("conv", attrs, in);
  Tensor seed = whole(f.types[f.outputs[0].node].shape);
  auto real = gradient_values("conv", attrs, in, {seed});
  auto field = gradient_values("conv", attrs, in, {seed}, Arithmetic::field);
  auto integer = gradient_values("conv", attrs, in, {seed}, Arithmetic::integer);
  for (size_t k = 0; k < 2; ++k) {
    for (int64_t i = 0; i < real[k].count(); ++i) {
      EXPECT_EQ(static_cast<uint64_t>(field[k].integer(i)), Mod61::of(real[k].real(i)).v);
      EXPECT_EQ(static_cast<double>(integer[k].integer(i)), real[k].real(i));
    }
  }
}

TEST(Derivative, OfFloatsIsRoundedOnce) {
  // 2^24 + 1 has no float: only a sum in wider precision finds it before the large terms cancel.
  GraphBuilder b;
  NodeId x = b.input("x", Type::tensor(DType::f32, {}));
  NodeId y = b.op("broadcast", {x}, Attrs({{"shape", Dims{3}}}));
  NodeId seed =
      b.constant(Tensor::of_reals(DType::f32, {3}, std::vector<double>{16777216, 1, -16777216}));
  b.output("g", gradients(b, Args(&y, 1), Args(&seed, 1), Args(&x, 1))[0]);
  auto g = evaluate(std::move(b).build(), std::vector<Value>{Tensor::of_real(1, DType::f32)});
  EXPECT_EQ(g[0].tensor.real(0), 1);
}

TEST(Derivative, ChainsThroughSeveralUsesAndStopsAtIntegers) {
  // y = sum(x * x + w[i]) : dy/dx = 2x, dy/dw counts the places
  GraphBuilder b;
  NodeId x = b.input("x", Type::tensor(DType::f64, {3}));
  NodeId whole = b.input("n", Type::tensor(DType::i64, {3}));
  NodeId y = b.op("add", {b.op("mul", {x, x}), x});
  NodeId seed = b.constant(Tensor::of_reals(DType::f64, {3}, std::vector<double>{1, 1, 1}));
  NodeId by[] = {x, whole};
  auto g = gradients(b, Args(&y, 1), Args(&seed, 1), by);
  EXPECT_FALSE(g[1].valid());
  b.output("g", g[0]);
  auto out =
      evaluate(std::move(b).build(),
               std::vector<Value>{Tensor::of_reals(DType::f64, {3}, std::vector<double>{1, -2, 3}),
                                  Tensor::of_ints({1, 2, 3})});
  EXPECT_EQ(out[0].tensor.reals(), (std::vector<double>{3, -3, 7}));
}

}  // namespace
}  // namespace emend
