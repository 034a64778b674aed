// Borders, Einstein sums, resizing, sampling and transforms where the suite of ONNX does not look:
// old opsets, algebraic laws, other arithmetics, absurd sizes.
#include <limits>

#include "support/onnx_call.h"

namespace emend {
namespace {

std::vector<double> run_reals(const std::string& type, int64_t version,
                              const std::vector<OnnxInput>& inputs,
                              std::vector<Attrs::Entry> attributes = {},
                              std::vector<int64_t> rewritten_at = {}) {
  return run_node(type, version, inputs, std::move(attributes), 1, std::move(rewritten_at))[0]
      .reals();
}

using Reals = std::vector<double>;

TEST(OpsPadding, EveryModeFarBeyondTheEnds) {
  Tensor x = real_tensor({3}, {1, 2, 3});
  auto pad = [&](const char* mode, Dims pads, std::vector<int64_t> opsets) {
    return run_reals("Pad", 19, {{x}, {Tensor::of_ints(pads), true}}, {{"mode", mode}}, opsets);
  };
  EXPECT_EQ(pad("reflect", {5, 3}, {2, 11, 19}), (Reals{2, 1, 2, 3, 2, 1, 2, 3, 2, 1, 2}));
  EXPECT_EQ(pad("edge", {2, 1}, {2, 11, 19}), (Reals{1, 1, 1, 2, 3, 3}));
  EXPECT_EQ(pad("wrap", {4, 2}, {13, 19}), (Reals{3, 1, 2, 3, 1, 2, 3, 1, 2}));
  EXPECT_EQ(pad("reflect", {-1, 2}, {11}), (Reals{2, 3, 2, 1}));
  EXPECT_EQ(pad("constant", {-1, 1}, {2, 11}), (Reals{2, 3, 0}));
}

TEST(OpsPadding, TheValueIsAnAttributeOrAnInput) {
  Tensor x = real_tensor({1}, {4});
  EXPECT_EQ(run_reals("Pad", 2, {{x}}, {{"pads", Dims{1, 0}}, {"value", 2.5}}, {2, 13}),
            (Reals{2.5, 4}));
  Tensor axes = Tensor::of_ints({-1}), value = real_tensor({}, {7});
  EXPECT_EQ(
      run_reals("Pad", 18, {{x}, {Tensor::of_ints({0, 1}), true}, {value, true}, {axes, true}}),
      (Reals{4, 7}));
}

TEST(OpsEinsum, EquationsOfEveryKind) {
  Tensor a = small_numbers({2, 3}), b = small_numbers({3, 4}, 5, 2),
         c = small_numbers({4, 2}, 7, 3);
  Tensor square = real_tensor({2, 2}, {1, 2, 3, 4});
  auto sum = [](const char* equation, std::vector<OnnxInput> in) {
    return run_node("Einsum", 12, in, {{"equation", equation}})[0];
  };
  EXPECT_EQ(sum("ii", {{square}}).reals(), (Reals{5}));
  EXPECT_EQ(sum("ii->i", {{square}}).reals(), (Reals{1, 4}));
  EXPECT_EQ(sum(" b a ", {{square}}).reals(), (Reals{1, 3, 2, 4}));
  EXPECT_EQ(sum("ij->", {{square}}).reals(), (Reals{10}));
  // A chain of three against two products.
  Tensor ab = sum("ij,jk->ik", {{a}, {b}});
  EXPECT_EQ(sum("ij,jk,kl->il", {{a}, {b}, {c}}), sum("ij,jl", {{ab}, {c}}));
  EXPECT_EQ(sum("ij,jk,ki->", {{a}, {b}, {c}}).reals(), sum("ij,ji", {{ab}, {c}}).reals());
  // Ellipses align at their ends and broadcast.
  Tensor batch = small_numbers({2, 1, 2, 3}), other = small_numbers({5, 3, 2});
  EXPECT_EQ(sum("...ij,...jk->...ik", {{batch}, {other}}).shape(), (Dims{2, 5, 2, 2}));
  EXPECT_THROW(sum("ij,jk->iz", {{a}, {b}}), Error);
  EXPECT_THROW(sum("ij,ik->jk", {{a}, {b}}), Error);
  EXPECT_THROW(sum("ijk->i", {{a}}), Error);
}

TEST(OpsRearrange, TrianglesAtOpsetsThatHaveNone) {
  Tensor x = small_numbers({2, 3}, 11, -1), one = Tensor::of_int(1);
  for (int64_t upper : {0, 1}) {
    auto y = run_reals("Trilu", 14, {{x}, {one, true}}, {{"upper", upper}}, {9, 14});
    for (int64_t i = 0; i < 6; ++i) {
      int64_t diagonal = i % 3 - i / 3;
      bool kept = upper ? diagonal >= 1 : diagonal <= 1;
      EXPECT_EQ(y[static_cast<size_t>(i)], kept ? x.real(i) : 0) << i;
    }
  }
}

TEST(OpsRearrange, DepthAndSpaceUndoEachOther) {
  Tensor x = small_numbers({2, 8, 2, 3}, 101, 0);
  Tensor image =
      run_node("DepthToSpace", 13, {{x}}, {{"blocksize", 2}, {"mode", "DCR"}}, 1, {7, 11, 13})[0];
  EXPECT_EQ(image.shape(), (Dims{2, 2, 4, 6}));
  EXPECT_EQ(run_node("SpaceToDepth", 13, {{image}}, {{"blocksize", 2}})[0], x);
  EXPECT_NE(run_node("DepthToSpace", 13, {{x}}, {{"blocksize", 2}, {"mode", "CRD"}}, 1, {7, 13})[0],
            image);
}

TEST(OpsResize, OldOpsets) {
  Tensor x = real_tensor({1, 1, 1, 3}, {1, 2, 5});
  std::vector<double> up = {1, 1, 1, 2};
  Tensor scales = real_tensor({4}, up);
  Reals twice = {1, 1, 2, 2, 5, 5}, linear = {1, 1.5, 2, 3.5, 5, 5};
  EXPECT_EQ(run_reals("Upsample", 7, {{x}}, {{"scales", up}}, {9, 13}), twice);
  EXPECT_EQ(run_reals("Upsample", 9, {{x}, {scales, true}}, {}, {13}), twice);
  EXPECT_EQ(run_reals("Upsample", 9, {{x}, {scales, true}}, {{"mode", "linear"}}, {9, 11, 13}),
            linear);
  EXPECT_EQ(run_reals("Resize", 10, {{x}, {scales, true}}, {{"mode", "linear"}}, {10, 11, 18}),
            linear);
  // Shrinking by nearest took the element after the place.
  Tensor row = real_tensor({4}, {0, 1, 2, 3}), third = real_tensor({1}, {0.6});
  EXPECT_EQ(run_reals("Resize", 10, {{row}, {third, true}}, {}, {10, 11}), (Reals{0, 2}));
}

// Linear interpolation is exact on straight lines, cubic convolution with its parameter at -1/2
// too; antialiased weights add up to one.
TEST(OpsResize, StraightLinesStayStraight) {
  Reals line;
  for (int i = 0; i < 32; ++i) line.push_back(3 * i - 7);
  Tensor x = real_tensor({32}, line, DType::f64), none = real_tensor({0}, {});
  Tensor flat = real_tensor({32}, Reals(32, 5), DType::f64);
  for (const char* mode : {"linear", "cubic"}) {
    for (int64_t size : {13, 32, 50}) {
      std::vector<OnnxInput> in = {
          {x}, {none, true}, {none, true}, {Tensor::of_ints({size}), true}};
      auto resized = [&](const Tensor& t, int64_t antialias) {
        Graph g = lowered_node("Resize", 18, in,
                               {{"mode", mode}, {"antialias", antialias}, {"cubic_coeff_a", -0.5}});
        return run_on(g, {{t}})[0].reals();
      };
      auto y = resized(x, 0), constant = resized(flat, 1);
      double scale = static_cast<double>(size) / 32;
      for (int64_t i = 0; i < size; ++i) {
        auto k = static_cast<size_t>(i);
        double at = (static_cast<double>(i) + 0.5) / scale - 0.5;
        if (at >= 1 && at <= 30) {
          EXPECT_NEAR(y[k], 3 * at - 7, 1e-9) << mode << size;
        }
        EXPECT_NEAR(constant[k], 5, 1e-12) << mode << size;
      }
    }
  }
}

// Long axes are interpolated neighbour by neighbour, short ones by a matrix: the same numbers.
TEST(OpsResize, LongAxesAgreeWithShortOnes) {
  Reals wave;
  for (int i = 0; i < 2000; ++i) wave.push_back(i % 7 - 3);
  Tensor x = real_tensor({2000}, wave, DType::f64), none = real_tensor({0}, {});
  Tensor start = real_tensor({40}, Reals(wave.begin(), wave.begin() + 40), DType::f64);
  Tensor scales = real_tensor({1}, {0.75});
  for (const char* mode : {"linear", "cubic"}) {
    for (int64_t antialias : {0, 1}) {
      auto resized = [&](const Tensor& t) {
        return run_reals("Resize", 18, {{t}, {none, true}, {scales, true}},
                         {{"mode", mode}, {"antialias", antialias}}, {18, 13});
      };
      auto all = resized(x), part = resized(start);
      ASSERT_EQ(all.size(), 1500u);
      for (size_t i = 0; i < 20; ++i) EXPECT_NEAR(all[i], part[i], 1e-12) << mode << antialias << i;
    }
  }
}

TEST(OpsSample, APixelGridReadsThePixels) {
  Tensor x = small_numbers({1, 2, 2, 3}, 101, 0);
  Reals grid;
  for (int i = 0; i < 2; ++i)
    for (int j = 0; j < 3; ++j) {
      grid.push_back(j - 1);
      grid.push_back(2 * i - 1);
    }
  Tensor places = real_tensor({1, 2, 3, 2}, grid);
  for (const char* mode : {"linear", "nearest", "cubic"}) {
    Graph g =
        lowered_node("GridSample", 20, {{x}, {places}}, {{"mode", mode}, {"align_corners", 1}});
    EXPECT_EQ(run_on(g, {{x}, {places}})[0], x) << mode;
    // Without an operator for it the expansion is written, whose gather has no outside.
    for (int64_t opset : {13, 16}) {
      Lowered again = lower_onnx(raise_onnx(g, opset));
      EXPECT_EQ(run_on(again.graph, {{x}, {places}})[0], x) << mode << opset;
    }
  }
  Tensor far = real_tensor({1, 1, 2, 2}, {1e30, 0, -3, 0});
  EXPECT_EQ(run_reals("GridSample", 20, {{x}, {far}}, {}, {13, 20}), (Reals{0, 0, 0, 0}));
}

TEST(OpsSignal, TransformsInvert) {
  Tensor x = small_numbers({2, 6, 1}), real = small_numbers({2, 6, 2});
  auto dft = [](const Tensor& t, bool inverse, bool onesided) {
    return run_node("DFT", 17, {{t}},
                    {{"inverse", int64_t{inverse}}, {"onesided", int64_t{onesided}}}, 1,
                    {17, 20})[0];
  };
  auto near = [](const Tensor& a, const Tensor& b) {
    ASSERT_EQ(a.shape(), b.shape());
    for (int64_t i = 0; i < a.count(); ++i) EXPECT_NEAR(a.real(i), b.real(i), 1e-5) << i;
  };
  near(dft(dft(real, false, false), true, false), real);
  near(dft(dft(x, false, true), true, true), x);
  EXPECT_EQ(dft(x, false, true).shape(), (Dims{2, 4, 2}));
}

TEST(OpsGenerate, RangesAreExactAndBounded) {
  auto range = [](Tensor from, Tensor to, Tensor step) {
    return run_node("Range", 11, {{from, true}, {to, true}, {step, true}})[0];
  };
  auto i = [](int64_t v) { return Tensor::of_int(v); };
  EXPECT_EQ(range(i(3), i(-4), i(-3)).ints(), (Dims{3, 0, -3}));
  EXPECT_EQ(range(i(3), i(3), i(1)).ints(), Dims{});
  EXPECT_EQ(range(i(5), i(0), i(1)).ints(), Dims{});
  int64_t big = (int64_t{1} << 60) + 1;
  EXPECT_EQ(range(i(big), i(big + 2), i(1)).ints(), (Dims{big, big + 1}));
  EXPECT_THROW(range(i(0), i(INT64_MAX), i(1)), Error);
  EXPECT_THROW(range(i(0), i(1), i(0)), Error);
  auto f = [](double v) { return Tensor::of_real(v, DType::f32); };
  EXPECT_THROW(range(f(0), f(1), f(0)), Error);
}

// Numbers from a damaged file: an error each, no overflow, no allocation to match.
TEST(OpsSpatial, AbsurdNumbersAreRefused) {
  Tensor x = small_numbers({1, 1, 4, 4}), none = real_tensor({0}, {});
  auto known = [](Dims v) { return OnnxInput{Tensor::of_ints(std::move(v)), true}; };
  const int64_t big = INT64_MAX;
  EXPECT_THROW(run_node("Pad", 13, {{x}, known({0, 0, big, 0, 0, 0, big, 0})}), Error);
  EXPECT_THROW(run_node("Pad", 13, {{x}, known({0, 0, 1, big, 0, 0, 1, big})}, {{"mode", "edge"}}),
               Error);
  EXPECT_THROW(run_node("Tile", 13, {{x}, known({big, big, 1, 1})}), Error);
  EXPECT_THROW(run_node("CenterCropPad", 18, {{x}, known({-5, 1, 1, 1})}), Error);
  EXPECT_THROW(run_node("Resize", 13, {{x}, {none, true}, {none, true}, known({1, 1, big, 4})}),
               Error);
  for (double scale : {-1.0, 0.0, 1e30, std::numeric_limits<double>::infinity(),
                       std::numeric_limits<double>::quiet_NaN()}) {
    Tensor scales = real_tensor({4}, {1, 1, scale, 1});
    if (scale != 0) {  // which makes an empty result
      EXPECT_THROW(run_node("Resize", 13, {{x}, {none, true}, {scales, true}}), Error) << scale;
    }
  }
  EXPECT_THROW(run_node("Col2Im", 18, {{small_numbers({1, 4, 4})}, known({big, 4}), known({2, 2})}),
               Error);
  EXPECT_THROW(run_node("DFT", 17, {{small_numbers({1, 4, 1})}, known({big})}), Error);
  EXPECT_THROW(run_node("HannWindow", 17, {known({big})}), Error);
  EXPECT_THROW(run_node("DepthToSpace", 13, {{x}}, {{"blocksize", big}}), Error);
  for (const char* name : {"strides", "dilations", "pads", "kernel_shape"}) {
    std::vector<Attrs::Entry> window;
    if (std::string(name) != "kernel_shape") window.emplace_back("kernel_shape", Dims{2, 2});
    window.emplace_back(name, std::string(name) == "pads" ? Dims(4, big) : Dims(2, big));
    EXPECT_THROW(run_node("AveragePool", 19, {{x}}, window), Error) << name;
    window.back() = {name, std::string(name) == "pads" ? Dims(4, -big) : Dims(2, 0)};
    EXPECT_THROW(run_node("MaxPool", 19, {{x}}, window), Error) << name;
  }
  Tensor text = Tensor::of_strings({1, 1, 2}, {"a", "b"});
  EXPECT_THROW(run_node("LpPool", 18, {{text}}, {{"kernel_shape", Dims{1}}}), Error);
  EXPECT_THROW(run_node("AveragePool", 18, {{text}}, {{"kernel_shape", Dims{1}}}), Error);
  OnnxInput word{Tensor::of_strings({}, {"a"}), true};
  EXPECT_THROW(run_node("Range", 11, {word, word, word}), Error);
  EXPECT_THROW(run_node("Pad", 13, {{x}, known(Dims(8, 0)), word}), Error);
  Tensor w = small_numbers({1, 1, 2, 2});
  for (const char* type : {"Conv", "ConvTranspose"}) {
    EXPECT_THROW(
        run_node(type, 11, {{x}, {w}}, {{"strides", Dims{0, 1}}, {"auto_pad", "SAME_UPPER"}}),
        Error);
    EXPECT_THROW(run_node(type, 11, {{x}, {w}}, {{"dilations", Dims{big, 1}}}), Error);
    EXPECT_THROW(run_node(type, 11, {{x}, {w}}, {{"group", big}}), Error);
  }
}

}  // namespace
}  // namespace emend
