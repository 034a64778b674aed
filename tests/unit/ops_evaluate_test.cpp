// The evaluator has several ways to the same value (runs, tiles, packed panels, computed offsets);
// here each is held to the definition, point by point.
#include <gtest/gtest.h>

#include "base/rng.h"
#include "ops/build.h"
#include "ops/contraction.h"
#include "ops/evaluate.h"
#include "ops/families.h"
#include "ops/meaning_eval.h"
#include "ops/movement.h"
#include "ops/table.h"

namespace emend {
namespace {

// out[i..] = finish(reduce over r.. of body(reads)), and nothing else.
std::vector<double> by_definition(const Meaning& m, std::span<const Tensor> operands) {
  std::vector<double> out;
  ScalarMachine<double> body(m.body), finish(m.finish);
  std::vector<int64_t> point(m.out.size() + m.reduced.size(), 0);
  for (int64_t n = count(m.out); n > 0; --n, next_point(point.data(), m.out)) {
    std::optional<double> sum;
    std::vector<double> iters(point.size());
    std::vector<const double*> iter_pointers;
    for (const double& v : iters) iter_pointers.push_back(&v);
    bool more = count(m.reduced) > 0;
    while (more) {
      std::vector<double> values;
      for (const Read& r : m.reads) {
        const Tensor& t = operands[static_cast<size_t>(r.operand)];
        int64_t at = 0;
        bool inside = true;
        for (size_t d = 0; d < r.index.size(); ++d) {
          int64_t index = evaluate(r.index[d], point.data(), nullptr);
          inside = inside && index >= 0 && index < t.shape()[d];
          at = at * t.shape()[d] + index;
        }
        values.push_back(inside ? t.real(at) : r.outside.value());
      }
      std::vector<const double*> args;
      for (const double& v : values) args.push_back(&v);
      for (size_t k = 0; k < point.size(); ++k) iters[k] = static_cast<double>(point[k]);
      double v = *body.run(1, args.data(), iter_pointers.data());
      if (!sum) {
        sum = v;
      } else {
        sum = m.reduce == Reduce::max ? std::max(*sum, v) : *sum + v;
      }
      more = next_point(point.data() + m.out.size(), m.reduced);
    }
    const double* in = &*sum;
    out.push_back(*finish.run(1, &in, iter_pointers.data()));
  }
  return out;
}

struct Case {
  std::string op;
  std::vector<Dims> shapes;
  Attrs attrs;
};

void expect_as_defined(const Case& c) {
  SCOPED_TRACE(str(c.op, to_text(c.attrs)));
  GraphBuilder b;
  std::vector<NodeId> args;
  std::vector<Tensor> tensors;
  std::vector<Value> values;
  for (const Dims& s : c.shapes) {
    Rng rng(7, args.size());
    std::vector<double> v;
    for (int64_t i = 0; i < count(s); ++i) v.push_back(static_cast<double>(rng.between(-9, 9)));
    tensors.push_back(Tensor::of_reals(DType::f64, s, v));
    values.emplace_back(tensors.back());
    args.push_back(b.input(str("x", args.size()), Type::tensor(DType::f64, s)));
  }
  NodeId y = b.op(c.op, args, c.attrs);
  b.output("y", y);
  std::vector<Type> types;
  for (NodeId a : args) types.push_back(b.type(a));
  Attrs attrs = b.graph().nodes[y].attrs;
  Meaning m = meaning_of(op_def(op_named(c.op)), attrs, types);
  auto got = evaluate(std::move(b).build(), values)[0].tensor.reals();
  EXPECT_EQ(got, by_definition(m, tensors));
}

Attrs conv(Dims strides, Dims dilations, Dims pads, int64_t group) {
  return to_attrs(Conv{strides, dilations, pads, group});
}
Attrs axes(Dims a) {
  return Attrs({{"axes", a}});
}

TEST(Evaluate, EveryWayGivesTheDefinedValue) {
  const std::vector<Case> cases = {
      // one run, broadcasts that join some dimensions, runs too short to use
      {"add", {{3, 4, 5}, {3, 4, 5}}, {}},
      {"add", {{3, 40, 5}, {40, 1}}, {}},
      {"sub", {{700}, {1}}, {}},
      {"mul", {{6, 1, 3}, {5, 1}}, {}},
      {"mul", {{2, 300, 2}, {1, 1, 2}}, {}},
      // movements: tiles, planes beside other dimensions, negative steps, borders, cropping
      {"transpose", {{70, 45}}, to_attrs(Transpose{{1, 0}})},
      {"transpose", {{3, 5, 40, 33}}, to_attrs(Transpose{{0, 3, 2, 1}})},
      {"transpose", {{2, 3, 4, 5}}, to_attrs(Transpose{{3, 1, 0, 2}})},
      {"transpose", {{6, 7, 8}}, to_attrs(Transpose{{1, 0, 2}})},
      {"slice", {{9, 20}}, to_attrs(Slice{{8, 17}, {4, 6}, {-2, -3}})},
      {"slice", {{9, 20}}, to_attrs(Slice{{1, 0}, {7, 20}, {1, 1}})},
      {"pad", {{4, 6, 9}}, to_attrs(Pad{{1, 0, 2, 0, 2, 5}, 7})},
      {"pad", {{4, 6, 9}}, to_attrs(Pad{{-1, 0, -8, 3, -2, 4}, 7})},
      {"reshape", {{4, 6, 9}}, to_attrs(Reshape{{8, 27}})},
      {"broadcast", {{4, 1, 9}}, to_attrs(Broadcast{{2, 4, 6, 9}})},
      {"concat", {{2, 3, 4}, {2, 1, 4}, {2, 5, 4}}, to_attrs(Axis{1})},
      {"concat", {{2, 3}, {2, 9}, {2, 1}}, to_attrs(Axis{1})},
      // running sums: along every axis, both ways, with and without the position itself
      {"cum_sum", {{7}}, {}},
      {"cum_sum", {{2, 5, 3}}, Attrs({{"axis", 1}})},
      {"cum_sum", {{2, 5, 3}}, Attrs({{"axis", -1}, {"reverse", true}})},
      {"cum_sum", {{4, 6}}, Attrs({{"axis", 0}, {"exclusive", true}})},
      {"cum_sum", {{4, 6}}, Attrs({{"axis", 1}, {"exclusive", true}, {"reverse", true}})},
      // reductions along the first, middle, last and all axes
      {"reduce_sum", {{5, 6, 300}}, axes({2})},
      {"reduce_max", {{5, 6, 300}}, axes({0})},
      {"reduce_mean", {{5, 6, 8}}, axes({1})},
      {"reduce_max", {{5, 6, 8}}, axes({})},
      // panels: both sides wide, either side narrow, batches, vectors, fewer rows than a group
      {"matmul", {{37, 19}, {19, 70}}, {}},
      {"matmul", {{90, 5}, {5, 8}}, {}},
      {"matmul", {{1, 33}, {33, 65}}, {}},
      {"matmul", {{3, 33}, {33, 65}}, {}},
      {"matmul", {{2, 1, 9, 10}, {3, 10, 40}}, {}},
      {"matmul", {{4, 10}, {10}}, {}},
      // convolutions: borders on every side, strides, dilations, groups, depthwise, 1-D and 3-D
      {"conv", {{2, 5, 11, 9}, {7, 5, 3, 3}}, conv({1, 1}, {1, 1}, {1, 1, 1, 1}, 1)},
      {"conv", {{1, 4, 12, 13}, {8, 2, 3, 2}}, conv({2, 3}, {2, 1}, {2, 0, 3, 1}, 2)},
      {"conv", {{2, 6, 9, 10}, {6, 1, 3, 3}}, conv({1, 2}, {1, 1}, {1, 1, 1, 1}, 6)},
      {"conv", {{1, 40, 1, 1}, {50, 40, 1, 1}}, conv({1, 1}, {1, 1}, {0, 0, 0, 0}, 1)},
      {"conv", {{1, 3, 30}, {5, 3, 4}}, conv({1}, {3}, {6, 2}, 1)},
      {"conv",
       {{1, 3, 5, 6, 7}, {4, 3, 3, 2, 3}},
       conv({1, 2, 1}, {1, 1, 2}, {1, 0, 2, 1, 1, 2}, 1)},
      {"conv", {{1, 4, 3, 3}, {4, 4, 2, 2}}, conv({1, 1}, {1, 1}, {-1, 0, 0, 3}, 1)},
  };
  for (const Case& c : cases) expect_as_defined(c);
}

TEST(Evaluate, NanComesThroughMaxAndMin) {
  GraphBuilder b;
  NodeId x = b.input("x", Type::tensor(DType::f32, {2})), y = b.input("y", b.type(x));
  b.output("max", b.op("max", {x, y}));
  b.output("min", b.op("min", {x, y}));
  double nan = std::numeric_limits<double>::quiet_NaN();
  std::vector<Value> in = {Tensor::of_reals(DType::f32, {2}, std::vector<double>{nan, 1}),
                           Tensor::of_reals(DType::f32, {2}, std::vector<double>{1, nan})};
  for (const Value& v : evaluate(std::move(b).build(), in)) {
    EXPECT_TRUE(std::isnan(v.tensor.real(0)));
    EXPECT_TRUE(std::isnan(v.tensor.real(1)));
  }
}

}  // namespace
}  // namespace emend
