// Windows and transposed convolutions where the suite of ONNX does not look: ties, column-major
// indices, old opsets, exact arithmetics, and the law that defines a transposed convolution.
#include "base/rng.h"
#include "ops/contraction.h"
#include "ops/window.h"
#include "support/onnx_call.h"

namespace emend {
namespace {

TEST(OpsWindow, MaxPoolIndicesNameTheFirstOfEqualsInEitherOrder) {
  //  3 3 1
  //  1 5 5
  Tensor x = real_tensor({1, 2, 2, 3}, {3, 3, 1, 1, 5, 5, 3, 3, 1, 1, 5, 5});
  std::vector<Attrs::Entry> window = {{"kernel_shape", Dims{1, 2}}};
  auto rows = run_node("MaxPool", 12, {{x}}, window, 2, {8, 12, 22});
  EXPECT_EQ(rows[0].reals(), (std::vector<double>{3, 3, 5, 5, 3, 3, 5, 5}));
  EXPECT_EQ(rows[1].ints(), (Dims{0, 1, 4, 4, 6, 7, 10, 10}));
  window.emplace_back("storage_order", 1);
  EXPECT_EQ(run_node("MaxPool", 12, {{x}}, window, 2)[1].ints(), (Dims{0, 2, 3, 3, 6, 8, 9, 9}));
}

TEST(OpsWindow, PadsNeverWinAndIntegersAreExact) {
  Tensor x = real_tensor({1, 1, 3}, {-7, -8, -9});
  std::vector<Attrs::Entry> window = {{"kernel_shape", Dims{3}}, {"pads", Dims{2, 2}}};
  EXPECT_EQ(run_node("MaxPool", 12, {{x}}, window)[0].reals(),
            (std::vector<double>{-7, -7, -7, -8, -9}));
  Tensor bytes = real_tensor({1, 1, 2}, {3, 250}, DType::u8);
  EXPECT_EQ(run_node("MaxPool", 12, {{bytes}}, window)[0].ints(), (Dims{3, 250, 250, 250}));
  Graph g = lowered_node("MaxPool", 12, {{x}}, window);
  EXPECT_EQ(run_on(g, {{x}}, Arithmetic::integer)[0].ints(), (Dims{-7, -7, -7, -8, -9}));
}

// Every element of every window, counted one by one.
TEST(OpsWindow, AveragesCountWhatTheirAttributesSay) {
  Tensor x = small_numbers({1, 1, 7});
  for (bool ceil : {false, true}) {
    for (bool include : {false, true}) {
      const int64_t kernel = 3, stride = 3, before = 1, after = 1, dilation = 2;
      std::vector<double> expected;
      int64_t room = 7 + before + after - (dilation * (kernel - 1) + 1);
      int64_t outputs = (ceil ? (room + stride - 1) / stride : room / stride) + 1;
      for (int64_t o = 0; o < outputs; ++o) {
        double sum = 0, n = 0;
        for (int64_t r = 0; r < kernel; ++r) {
          int64_t at = o * stride + r * dilation - before;
          bool inside = at >= 0 && at < 7;
          sum += inside ? x.real(at) : 0;
          n += inside || (include && at >= -before && at < 7 + after);
        }
        expected.push_back(static_cast<float>(static_cast<float>(sum) / static_cast<float>(n)));
      }
      auto y = run_node("AveragePool", 19, {{x}},
                        {{"kernel_shape", Dims{kernel}},
                         {"strides", Dims{stride}},
                         {"dilations", Dims{dilation}},
                         {"pads", Dims{before, after}},
                         {"ceil_mode", int64_t{ceil}},
                         {"count_include_pad", int64_t{include}}},
                        1, {11, 19, 22});
      EXPECT_EQ(y[0].reals(), expected) << ceil << include;
    }
  }
}

TEST(OpsWindow, CeilModeNeverBeginsAWindowBehindTheInput) {
  Tensor x = small_numbers({1, 1, 2});
  auto y = run_node("MaxPool", 12, {{x}},
                    {{"kernel_shape", Dims{1}}, {"strides", Dims{2}}, {"ceil_mode", 1}});
  EXPECT_EQ(y[0].shape(), (Dims{1, 1, 1}));
}

TEST(OpsWindow, WholeNormsInHalfPrecisionSurviveTheirSquares) {
  Tensor x = real_tensor({1, 1, 2, 2}, {400, 400, 400, 400}, DType::f16);
  EXPECT_EQ(run_node("GlobalLpPool", 2, {{x}})[0].reals()[0], 800);
  EXPECT_EQ(run_node("GlobalLpPool", 2, {{x}}, {{"p", int64_t{1}}})[0].reals()[0], 1600);
}

TEST(OpsWindow, UnpoolingPutsMaximaBack) {
  Tensor x = small_numbers({1, 2, 4, 4}, 101, -1);
  std::vector<Attrs::Entry> window = {{"kernel_shape", Dims{2, 2}}, {"strides", Dims{2, 2}}};
  auto pooled = run_node("MaxPool", 12, {{x}}, window, 2);
  Tensor back = run_node("MaxUnpool", 11, {{pooled[0]}, {pooled[1]}}, window)[0];
  ASSERT_EQ(back.shape(), x.shape());
  double sum = 0;
  for (int64_t i = 0; i < x.count(); ++i) {
    EXPECT_TRUE(back.real(i) == 0 || back.real(i) == x.real(i)) << i;
    sum += back.real(i);
  }
  for (double v : pooled[0].reals()) sum -= v;
  EXPECT_EQ(sum, 0);
}

// <conv(x), y> = <x, conv_transpose(y)>, in exact integers.
TEST(OpsWindow, TransposedConvolutionIsTheAdjoint) {
  struct Case {
    Dims x;
    Conv conv;
    Dims w;
  };
  for (const Case& c :
       {Case{{2, 3, 7}, {{2}, {1}, {1, 0}, 1}, {4, 3, 3}},
        Case{{1, 4, 6, 5}, {{2, 3}, {2, 1}, {1, 2, 0, 1}, 2}, {6, 2, 2, 3}},
        Case{{1, 2, 4, 4, 5}, {{1, 2, 1}, {1, 1, 2}, {0, 1, 1, 1, 0, 0}, 1}, {1, 2, 2, 3, 2}}}) {
    size_t n = c.conv.strides.size();
    Tensor x = small_numbers(c.x), w = small_numbers(c.w, 7, 3);
    GraphBuilder forward;
    NodeId args[] = {forward.input("x", x.type()), forward.input("w", w.type())};
    forward.output("y", forward.op("conv", {args[0], args[1]}, c.conv));
    Tensor product = run_on(std::move(forward).build(), {{x}, {w}}, Arithmetic::integer)[0];
    Tensor y = small_numbers(product.shape(), 13, 6);
    Dims missing;  // what the strides left over at the end of x
    for (size_t d = 0; d < n; ++d) {
      int64_t room = c.x[d + 2] + c.conv.pads[d] + c.conv.pads[d + n] -
                     c.conv.dilations[d] * (c.w[d + 2] - 1) - 1;
      missing.push_back(room % c.conv.strides[d]);
    }
    Graph backward = lowered_node("ConvTranspose", 11, {{y}, {w}},
                                  {{"strides", c.conv.strides},
                                   {"dilations", c.conv.dilations},
                                   {"pads", c.conv.pads},
                                   {"output_padding", missing},
                                   {"group", c.conv.group}});
    Tensor back = run_on(backward, {{y}, {w}}, Arithmetic::integer)[0];
    ASSERT_EQ(back.shape(), x.shape());
    int64_t left = 0, right = 0;
    for (int64_t i = 0; i < y.count(); ++i)
      left += product.integer(i) * static_cast<int64_t>(y.real(i));
    for (int64_t i = 0; i < x.count(); ++i)
      right += back.integer(i) * static_cast<int64_t>(x.real(i));
    EXPECT_EQ(left, right) << shape_text(c.x);
    EXPECT_NE(left, 0);
  }
}

// Every input times every weight, put where they meet: exact integers, any stride, dilation, pads,
// output padding and group, one to three dimensions.
TEST(OpsWindow, TransposedConvolutionPutsProductsWhereTheyBelong) {
  Rng rng(5);
  int strided = 0;
  for (int trial = 0; trial < 300; ++trial) {
    auto rank = static_cast<size_t>(rng.between(1, 3));
    int64_t group = rng.between(1, 2), most = rank == 1 ? 9 : rank == 2 ? 5 : 3;
    Dims xs{rng.between(1, 2), group * rng.between(1, 2)}, ws{xs[1], rng.between(1, 3)};
    Dims strides, dilations, pads(2 * rank), more;
    Dims outputs{xs[0], group * ws[1]};
    for (size_t d = 0; d < rank; ++d) {
      xs.push_back(rng.between(1, most));
      ws.push_back(rng.between(1, most));
      strides.push_back(rng.between(1, 4));
      dilations.push_back(rng.between(0, 2) ? 1 : rng.between(2, 3));
      int64_t whole = (xs.back() - 1) * strides[d] + dilations[d] * (ws.back() - 1) + 1;
      more.push_back(rng.between(0, strides[d] - 1));
      pads[d] = rng.between(0, std::min<int64_t>(whole - 1, 4));
      pads[rank + d] = rng.between(0, std::min<int64_t>(whole - 1 - pads[d], 4));
      outputs.push_back(whole - pads[d] - pads[rank + d] + more[d]);
    }
    strided += count(strides) > 1;
    Tensor x = small_numbers(xs), w = small_numbers(ws, 7, 3);
    Tensor y = run_on(lowered_node("ConvTranspose", 11, {{x}, {w}},
                                   {{"strides", strides},
                                    {"dilations", dilations},
                                    {"pads", pads},
                                    {"output_padding", more},
                                    {"group", group}}),
                      {{x}, {w}}, Arithmetic::integer)[0];
    ASSERT_EQ(y.shape(), outputs);
    std::vector<int64_t> wanted(static_cast<size_t>(count(outputs)));
    auto digits = [](int64_t number, const Dims& shape) {
      Dims at(shape.size());
      for (size_t d = shape.size(); d-- > 0; number /= shape[d]) at[d] = number % shape[d];
      return at;
    };
    for (int64_t i = 0; i < x.count(); ++i) {
      Dims from = digits(i, xs);
      for (int64_t j = 0; j < w.count(); ++j) {
        Dims tap = digits(j, ws);
        if (tap[0] != from[1]) continue;
        int64_t to = from[0] * outputs[1] + from[1] / (xs[1] / group) * ws[1] + tap[1];
        bool inside = true;
        for (size_t d = 0; d < rank; ++d) {
          int64_t at = from[d + 2] * strides[d] + tap[d + 2] * dilations[d] - pads[d];
          inside &= at >= 0 && at < outputs[d + 2];
          to = to * outputs[d + 2] + at;
        }
        if (inside) {
          wanted[static_cast<size_t>(to)] +=
              static_cast<int64_t>(x.real(i)) * static_cast<int64_t>(w.real(j));
        }
      }
    }
    for (int64_t i = 0; i < y.count(); ++i) {
      ASSERT_EQ(y.integer(i), wanted[static_cast<size_t>(i)])
          << shape_text(xs) << " " << shape_text(ws) << " strides " << shape_text(strides)
          << " dilations " << shape_text(dilations) << " pads " << shape_text(pads);
    }
  }
  EXPECT_GT(strided, 100);
}

TEST(OpsWindow, ConvTransposeReachesTheSizeAskedFor) {
  Tensor x = small_numbers({1, 1, 3}), w = small_numbers({1, 1, 3});
  auto size = [&](std::vector<Attrs::Entry> attributes) {
    return run_node("ConvTranspose", 11, {{x}, {w}}, std::move(attributes))[0].shape()[2];
  };
  EXPECT_EQ(size({{"strides", Dims{2}}}), 7);
  EXPECT_EQ(size({{"strides", Dims{2}}, {"output_shape", Dims{5}}}), 5);
  EXPECT_EQ(size({{"strides", Dims{2}}, {"output_shape", Dims{8}}}), 8);
  EXPECT_EQ(size({{"strides", Dims{2}}, {"auto_pad", "SAME_UPPER"}}), 6);
  EXPECT_EQ(size({{"strides", Dims{2}}, {"auto_pad", "VALID"}}), 7);
}

TEST(OpsWindow, BadWindowsAreTheUsersMistakes) {
  Tensor x = small_numbers({1, 1, 4});
  auto pool = [&](std::vector<Attrs::Entry> a) { run_node("MaxPool", 12, {{x}}, std::move(a)); };
  EXPECT_THROW(pool({{"kernel_shape", Dims{9}}}), Error);
  EXPECT_THROW(pool({{"kernel_shape", Dims{2}}, {"strides", Dims{0}}}), Error);
  EXPECT_THROW(pool({{"kernel_shape", Dims{2, 2}}}), Error);
  EXPECT_THROW(pool({}), Error);
}

}  // namespace
}  // namespace emend
