// Concatenations that cost nothing: their operands are written where they belong, wherever nothing
// else reads them and their kernels can, and are copied everywhere else.
#include <gtest/gtest.h>

#include <algorithm>

#include "base/rng.h"
#include "base/text.h"
#include "ops/build.h"
#include "ops/evaluate.h"
#include "pipeline/compile.h"
#include "support/scratch.h"

namespace emend {
namespace {

class Net {
 public:
  explicit Net(Dims shape) { x_ = b_.input("x", Type::tensor(DType::f32, std::move(shape))); }
  NodeId x() const { return x_; }

  NodeId constant(Dims shape) {
    Tensor t = Tensor::make(DType::f32, shape, [&](std::byte* to) {
      for (int64_t i = 0; i < count(shape); ++i)
        store_real(DType::f32, to, static_cast<size_t>(i),
                   random_normal(weights_, 0, static_cast<uint64_t>(i)) / 8);
    });
    ++weights_;
    return b_.constant(t);
  }
  NodeId op(const char* name, NodeId n) { return b_.op(name, {n}); }
  NodeId relu(NodeId n) { return op("relu", n); }
  NodeId reshape(NodeId n, Dims shape) {
    return b_.op("reshape", {n}, Attrs({{"shape", std::move(shape)}}));
  }
  NodeId matmul(NodeId n, int64_t from, int64_t to) {
    return b_.op("matmul", {n, constant({from, to})});
  }
  NodeId product(NodeId n, int64_t from, int64_t to) { return relu(matmul(n, from, to)); }
  NodeId convolution(NodeId n, int64_t from, int64_t to, int64_t window) {
    int64_t pad = window / 2;
    return relu(b_.op("conv", {n, constant({to, from, window, window})},
                      Attrs({{"strides", Dims{1, 1}},
                             {"dilations", Dims{1, 1}},
                             {"pads", Dims{pad, pad, pad, pad}},
                             {"group", int64_t{1}}})));
  }
  NodeId concat(const std::vector<NodeId>& all, int64_t axis) {
    return b_.op("concat", all, Attrs({{"axis", axis}}));
  }
  Graph result(NodeId n) {
    b_.output("y", n);
    return std::move(b_).build();
  }

 private:
  GraphBuilder b_;
  NodeId x_;
  uint64_t weights_ = 1;
};

// How many steps only concatenate; the program must be right however many there are.
int64_t copies_in(const Graph& g) {
  Scratch scratch;
  CompileFlowOptions options;
  options.cpu.compile.cache = scratch.folder();
  options.cpu.threads = 2;
  CpuProgram program = compile(g, options);
  const Type& t = g.type(g.inputs[0].node);
  std::vector<Value> in{Tensor::make(t.dtype, t.shape, [&](std::byte* to) {
    for (int64_t i = 0; i < count(t.shape); ++i)
      store_real(t.dtype, to, static_cast<size_t>(i),
                 random_normal(99, 0, static_cast<uint64_t>(i)));
  })};
  Tensor got = program.run(in)[0].tensor, want = evaluate(g, in)[0].tensor;
  double largest = 0, error = 0;
  for (int64_t i = 0; i < want.count(); ++i) {
    largest = std::max(largest, std::abs(want.real(i)));
    error = std::max(error, std::abs(want.real(i) - got.real(i)));
  }
  EXPECT_LE(error, 2e-5 * largest);
  return std::ranges::count_if(program.program().steps,
                               [](const Step& s) { return s.label.starts_with("concat"); });
}

TEST(ConcatInPlace, ProductsSideBySideAndBelowOneAnother) {
  for (int64_t axis : {0, 1}) {
    Net net({27, 40});
    NodeId both = net.concat({net.product(net.x(), 40, 48), net.product(net.x(), 40, 48)}, axis);
    int64_t columns = axis == 1 ? 96 : 48;
    EXPECT_EQ(copies_in(net.result(net.product(both, columns, 32))), 0) << "axis " << axis;
  }
}

TEST(ConcatInPlace, ChannelsOfConvolutionsLastInMemory) {
  Net net({1, 32, 13, 11});
  NodeId both =
      net.concat({net.convolution(net.x(), 32, 48, 3), net.convolution(net.x(), 32, 20, 1),
                  net.convolution(net.x(), 32, 32, 3)},
                 1);
  EXPECT_EQ(copies_in(net.result(net.convolution(both, 100, 32, 3))), 0);
}

TEST(ConcatInPlace, ABatchOfConvolutions) {
  Net net({3, 32, 9, 7});
  NodeId both =
      net.concat({net.convolution(net.x(), 32, 17, 3), net.convolution(net.x(), 32, 1, 1)}, 1);
  copies_in(net.result(net.convolution(both, 18, 16, 3)));
}

// Rows of the product are no rows of the result: its loops would have to be cut anew.
TEST(ConcatInPlace, ProductsUnderAnotherShape) {
  for (auto [rows, columns] : {std::pair<int64_t, int64_t>{72, 48}, {36, 96}, {24, 144}}) {
    for (const char* then : {"sigmoid", "relu", "exp"}) {
      Net net({48, 64});
      auto branch = [&] {
        return net.op(then, net.reshape(net.matmul(net.x(), 64, 72), {rows, columns}));
      };
      NodeId a = branch(), b = branch();
      copies_in(net.result(net.product(net.concat({a, b}, 1), 2 * columns, 32)));
    }
  }
}

TEST(ConcatInPlace, RandomBranchesAlongRandomAxes) {
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    SCOPED_TRACE(seed);
    Rng rng(seed);
    int64_t channels = 8 * rng.between(1, 5), axis = rng.between(1, 3), same = rng.between(1, 40);
    Net net({rng.between(1, 2), channels, rng.between(4, 12), rng.between(4, 12)});
    std::vector<NodeId> branches;
    int64_t joined = 0;
    for (int64_t b = rng.between(2, 4); b > 0; --b) {
      int64_t maps = axis == 1 ? rng.between(1, 40) : same;
      joined = axis == 1 ? joined + maps : maps;
      branches.push_back(net.convolution(net.x(), channels, maps, 2 * rng.between(0, 1) + 1));
    }
    copies_in(net.result(net.convolution(net.concat(branches, axis), joined, 24, 3)));
  }
}

TEST(ConcatInPlace, WhatOthersReadTooIsCopied) {
  Net net({27, 40});
  NodeId a = net.product(net.x(), 40, 48), b = net.product(net.x(), 40, 16);
  NodeId both = net.product(net.concat({a, b}, 1), 64, 32);
  EXPECT_EQ(copies_in(net.result(net.concat({both, net.product(a, 48, 16)}, 1))), 2);
}

TEST(ConcatInPlace, AValueTwiceIsCopied) {
  Net net({27, 40});
  NodeId a = net.product(net.x(), 40, 48);
  EXPECT_EQ(copies_in(net.result(net.product(net.concat({a, a}, 1), 96, 32))), 1);
}

// Of one in the other, the inner one's parts are in place; itself it is copied.
TEST(ConcatInPlace, OneInTheOther) {
  Net net({27, 40});
  NodeId inner = net.concat({net.product(net.x(), 40, 48), net.product(net.x(), 40, 16)}, 1);
  NodeId outer = net.concat({inner, net.product(net.x(), 40, 32)}, 1);
  EXPECT_EQ(copies_in(net.result(net.product(outer, 96, 32))), 1);
}

}  // namespace
}  // namespace emend
