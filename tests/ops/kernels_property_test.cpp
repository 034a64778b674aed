// Every kernel of the catalogue on random groups, ragged sizes, views, broadcasts, pads, strides,
// dilations, groups, layouts, gathers, element types and epilogues, printed for AVX-512, AVX2 and
// plain C and for one to eight threads, against the reference in double precision. Every operand
// and result is a block of memory of its own, exactly as large as it must be: in a build with
// sanitizers the kernels are compiled with them too, so that a read or a write beside one is found;
// elsewhere fences find the writes. Compiled kernels are kept in the cache, so that only the first
// run of a machine is slow. EMEND_CASES sets how many groups of each family and width are drawn.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <map>
#include <set>
#include <thread>

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
#include "run/machine.h"
#include "run/repack.h"
#include "text/text.h"

namespace emend {
namespace {

#ifdef EMEND_SANITIZE
constexpr int kCases = 8;
constexpr bool kFenced = false;
#else
constexpr int kCases = 20;
constexpr bool kFenced = true;
#endif

int cases() {
  const char* text = std::getenv("EMEND_CASES");
  return text ? std::atoi(text) : kCases;
}

Type f32(Dims shape) {
  return Type::tensor(DType::f32, std::move(shape));
}
Attrs dims(const char* name, Dims value) {
  return Attrs({{name, std::move(value)}});
}

// Inputs of a group that are called w are known ahead of time; those of sums of k products, called
// by that number too, are scaled so that sums are about one, as networks keep them: what an
// epilogue makes of larger ones would tell nothing about their errors.
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
  auto operand = [&](const std::string& name, int64_t rows, int64_t columns, bool batched) {
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
  return b.op("matmul", {x, operand(weight ? str("w", k) : "z", k, n, rng.between(0, 1))});
}

// Products as attention has them, several tasks long: heads that are split off and merged, k of two
// dimensions, results that lie across.
NodeId heads(GraphBuilder& b, Rng& rng) {
  int64_t h = rng.between(1, 3), s = rng.between(1, 150), t = rng.between(1, 150),
          d = rng.between(4, 40);
  if (rng.between(0, 1)) t = (t + 15) / 16 * 16;
  auto turned = [&](NodeId x, Dims perm) { return b.op("transpose", {x}, dims("perm", perm)); };
  switch (rng.between(0, 2)) {
    case 0: {
      NodeId q = turned(b.input("q", f32({s, h, d})), {1, 0, 2});
      return b.op("matmul", {q, turned(b.input("k", f32({t, h, d})), {1, 2, 0})});
    }
    case 1: {
      NodeId x = turned(b.input("x", f32({h, s, d})), {1, 0, 2});
      x = b.op("reshape", {x}, dims("shape", {s, h * d}));
      std::string name = rng.between(0, 2) ? str("w", h * d) : "z";
      return b.op("matmul", {x, b.input(name, f32({h * d, t}))});
    }
    default: {
      NodeId x = b.input("x", f32({s, t + 4}));
      NodeId y = b.op("matmul", {x, b.input(str("w", t + 4), f32({t + 4, h * d}))});
      return turned(b.op("reshape", {y}, dims("shape", {s, h, d})), {1, 2, 0});
    }
  }
}

// Scores of heads that share keys, scaled and masked in any broadcast; some rows see no key at all.
NodeId scores(GraphBuilder& b, Rng& rng, NodeId q, NodeId k) {
  NodeId s = b.op("matmul", {q, k});
  const Dims shape = b.shape(s);
  double scale = 1 / std::sqrt(static_cast<double>(b.shape(k)[shape.size() - 2]));
  s = b.op("mul", {s, b.scalar(scale, DType::f32)});
  Dims own = shape;
  for (int64_t& d : own) d = rng.between(0, 1) ? d : 1;
  own.erase(own.begin(), own.begin() + rng.between(0, 3));
  NodeId mask = b.input("mask", f32(own)), none = b.scalar(-INFINITY, DType::f32);
  switch (rng.between(0, 3)) {
    case 0:
      return b.op("add", {s, mask});
    case 1:
      return b.op("where", {b.op("less", {mask, b.scalar(0.8, DType::f32)}), s, none});
    case 2: {
      // Causal: rows count their keys.
      Dims rows(shape.size(), 1), keys(shape.size(), 1);
      rows[shape.size() - 2] = shape[shape.size() - 2];
      keys.back() = shape.back();
      auto counted = [&](Dims dims) {
        std::vector<double> values;
        for (int64_t i = 0; i < count(dims); ++i) values.push_back(static_cast<double>(i));
        return b.constant(Tensor::of_reals(DType::f32, dims, values));
      };
      return b.op("where", {b.op("less", {counted(rows), counted(keys)}), none, s});
    }
    default:
      return s;
  }
}

// Attention, and what looks like it: rows of one product, computed further, times a third factor.
NodeId attention(GraphBuilder& b, Rng& rng) {
  int64_t n = rng.between(1, 2), heads = rng.between(1, 3),
          each = rng.between(0, 1) ? 1 : rng.between(2, 3), s = rng.between(1, 70),
          t = rng.between(1, 150), d = rng.between(8, rng.between(0, 3) ? 40 : 128),
          e = rng.between(0, 1) ? d : rng.between(1, 70);
  if (rng.between(0, 2) == 0) t = s;
  auto turned = [&](NodeId x, Dims perm) { return b.op("transpose", {x}, dims("perm", perm)); };
  auto split = [&](const char* name, int64_t tokens, int64_t own, int64_t size) {
    if (rng.between(0, 1)) return b.input(name, f32({n, own, tokens, size}));
    NodeId x = b.input(name, f32({n, tokens, own * size}));
    return turned(b.op("reshape", {x}, dims("shape", {n, tokens, own, size})), {0, 2, 1, 3});
  };
  auto repeated = [&](NodeId x, bool repeat) {
    Dims of = b.shape(x);
    if (each == 1 || !repeat) return x;
    x = b.op("reshape", {x}, dims("shape", {n, heads, 1, of[2], of[3]}));
    x = b.op("broadcast", {x}, dims("shape", {n, heads, each, of[2], of[3]}));
    return b.op("reshape", {x}, dims("shape", {n, heads * each, of[2], of[3]}));
  };
  bool keys = rng.between(0, 3) > 0, values = rng.between(0, 3) > 0;  // are shared
  NodeId q = split("q", s, heads * each, d),
         k = repeated(split("k", t, keys ? heads : heads * each, d), keys),
         v = repeated(split("v", t, values ? heads : heads * each, e), values);
  NodeId p = scores(b, rng, q, turned(k, {0, 1, 3, 2}));
  static const std::vector<std::string> kOthers = {"sigmoid", "relu", "tanh"};
  Attrs last({{"axis", int64_t{3}}});
  switch (rng.between(0, 7)) {
    case 0:
      p = b.op(rng.pick(kOthers), {p});
      break;
    case 1:
      p = b.op("sub",
               {b.op("tanh", {p}), b.op("reduce_mean", {b.op("tanh", {p})}, dims("axes", {3}))});
      break;
    case 2:
      p = b.op("tanh", {b.op("softmax", {p}, last)});
      break;
    default:
      p = b.op("softmax", {p}, last);
  }
  NodeId y = b.op("matmul", {p, v});
  switch (rng.between(0, 3)) {
    case 0:
      return epilogue(b, rng, y);
    case 1:
      return epilogue(b, rng, turned(y, {0, 1, 3, 2}));
    case 2:
      return turned(y, {0, 2, 1, 3});
    default:
      y = b.op("reshape", {turned(y, {0, 2, 1, 3})}, dims("shape", {n, s, heads * each * e}));
      return epilogue(b, rng, b.op("add", {y, b.input("residual", f32(b.shape(y)))}));
  }
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

// Windows that move by one, mostly over whole vectors of channels.
NodeId window(GraphBuilder& b, Rng& rng) {
  size_t rank = rng.between(0, 5) == 0 ? 3 : rng.between(0, 2) == 0 ? 1 : 2;
  int64_t channels = rng.between(0, 2) ? 16 * rng.between(1, 2) : rng.between(2, 35);
  int64_t maps = rng.between(0, 1) ? 16 * rng.between(1, 3) : rng.between(1, 40);
  Dims x{rng.between(1, 2), channels}, w{maps, channels}, ones(rank, 1), pads(2 * rank);
  for (size_t d = 0; d < rank; ++d) {
    w.push_back(rank == 3 ? rng.between(2, 3) : rng.between(1, 5));
    x.push_back(rng.between(6, rank == 1 ? 60 : rank == 2 ? 19 : 9));
    for (size_t end : {0, 1}) pads[d + end * rank] = rng.between(0, 2);
  }
  return b.op(
      "conv", {b.input("x", f32(x)), b.input(str("w", count(w) / w[0]), f32(w))},
      Attrs({{"strides", ones}, {"dilations", ones}, {"pads", pads}, {"group", int64_t{1}}}));
}

NodeId viewed(GraphBuilder& b, NodeId x, const std::string& map) {
  return b.op("view", {x}, Attrs({{"map", map}}));
}

// Phases of images side by side with gaps of zeros or over one another, tiles with a halo, and the
// way back.
NodeId moved(GraphBuilder& b, Rng& rng) {
  int64_t n = rng.between(1, 2), c = rng.between(0, 1) ? 16 * rng.between(1, 2) : rng.between(1, 9),
          h = rng.between(4, 40), w = rng.between(4, 40), s = rng.between(1, 3),
          pad = rng.between(0, 3);
  int64_t rows = (h + s - 1) / s + rng.between(0, 2), columns = (w + s - 1) / s + rng.between(0, 2);
  auto x = [&](Dims shape) { return b.input("x", f32(std::move(shape))); };
  switch (rng.between(0, 3)) {
    case 0:
      return viewed(b, x({n, c, h, w}),
                    str("[", n, ", ", c, ", ", s, "*", rows, ", ", s, "*", columns,
                        "] <- [a, b, c+", s, "d, e+", s, "f]"));
    case 1:
      return viewed(b, x({n, c, s * rows, s * columns}),
                    str("[", n, ", ", c, ", ", rows, "*", s, ":", std::min(h, rows * s), ", ",
                        columns, "*", s, "] <- [a, b, c+", rows, "d, e+", columns, "f]"));
    case 2:
      return viewed(b, x({n, c, h, w}),
                    str("[", n, ", ", c, "*", s, "*", s, ", ", rows, ", ", columns, "] <- [a, b, ",
                        s, "e+c-", pad, ", ", s, "f+d-", pad, "]"));
    default:
      return viewed(b, x({n, c, h, w}),
                    str("[", n, "*3*2, ", c, ", ", rows, ", ", columns, "] <- [a, d, ", rows,
                        "b+e-", pad, ", ", columns, "c+f-", pad, "]"));
  }
}

// A window over such a view, or over a mosaic whose gaps are zeros again behind it.
NodeId mosaic(GraphBuilder& b, Rng& rng) {
  NodeId x = rng.between(0, 2)
                 ? b.input("x", f32({1, 16, 2 * rng.between(4, 15), 2 * rng.between(4, 15)}))
                 : moved(b, rng);
  const Dims in = b.shape(x);
  Dims w{rng.between(1, 40), in[1], rng.between(1, 3), rng.between(2, 3)}, ones(2, 1);
  NodeId y = b.op("conv", {x, b.input(str("w", count(w) / w[0]), f32(w))},
                  Attrs({{"strides", ones},
                         {"dilations", ones},
                         {"pads", Dims{1, 1, 1, 1}},
                         {"group", int64_t{1}}}));
  if (rng.between(0, 1)) y = b.op("relu", {y});
  const Dims out = b.shape(y);
  NodeId mask = b.input("index2", Type::tensor(DType::boolean, {1, 1, out[2], out[3]}));
  return b.op("where", {mask, y, b.scalar(0, DType::f32)});
}

// Phases of a stride, interleaved by the kernel; some over whole vectors of channels.
NodeId transposed_conv(GraphBuilder& b, Rng& rng) {
  auto rank = static_cast<size_t>(rng.between(0, 2) ? 2 : rng.between(1, 3));
  bool vectors = rng.between(0, 5) > 0;
  int64_t group = vectors ? 1 : rng.between(1, 3), c = vectors ? 16 : rng.between(1, 10);
  Dims x{rng.between(1, 2), group * c}, w{group * c, rng.between(1, 20)}, strides, pads(2 * rank),
      dilations, more;
  for (size_t d = 0; d < rank; ++d) {
    w.push_back(rng.between(1, rank == 3 ? 3 : 5));
    strides.push_back(rng.between(1, 3));
    dilations.push_back(rng.between(0, 7) ? 1 : 2);
    more.push_back(rng.between(0, strides[d] - 1));
    x.push_back(rng.between(5, rank == 1 ? 40 : rank == 2 ? 12 : 6));
    for (size_t end : {d, d + rank}) pads[end] = rng.between(0, 2);
  }
  std::string name = rng.between(0, 5) ? str("w", c * (count(w) / w[0] / w[1])) : "z";
  NodeId y = b.op("conv_transpose", {b.input("x", f32(x)), b.input(name, f32(w))},
                  Attrs({{"strides", strides},
                         {"dilations", dilations},
                         {"pads", pads},
                         {"output_padding", more},
                         {"group", group}}));
  Dims bias(rank + 2, 1);
  bias[1] = b.shape(y)[1];
  return b.op("add", {y, b.input("w_bias", f32(bias))});
}

// One channel per group, or as many of a group as its filters, of one to three dimensions.
NodeId grouped_conv(GraphBuilder& b, Rng& rng) {
  auto rank = static_cast<size_t>(rng.between(0, 3) > 0 ? 2 : rng.between(1, 3));
  int64_t each = int64_t{1} << rng.between(0, 5);
  int64_t group = each == 1 ? rng.between(2, 75) : rng.between(2, each > 8 ? 3 : 9);
  Dims x{rng.between(1, 2), group * each}, w{group * each, each}, strides, dilations,
      pads(2 * rank);
  for (size_t d = 0; d < rank; ++d) {
    w.push_back(rng.between(1, rank == 3 || each > 4 ? 3 : each > 1 ? 5 : 7));
    strides.push_back(rng.between(1, 3));
    dilations.push_back(rng.between(1, 2));
    int64_t reach = dilations[d] * (w.back() - 1) + 1;
    for (size_t end : {d, d + rank}) pads[end] = rng.between(0, reach - 1);
    x.push_back(rng.between(reach, reach + (rank == 3 ? 5 : 20)));
  }
  return b.op(
      "conv", {b.input("x", f32(x)), b.input("w", f32(w))},
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

// Rows that are dear to compute, and what is computed from them over all rows: ranges of what is
// quantised, say.
NodeId ranges(GraphBuilder& b, Rng& rng) {
  Dims shape, all;
  for (int64_t i = rng.between(1, 3); i > 0; --i) shape.push_back(rng.between(1, 40));
  for (size_t d = 0; d < shape.size(); ++d) all.push_back(static_cast<int64_t>(d));
  NodeId x = b.input("x", f32(shape));
  const auto last = static_cast<int64_t>(shape.size()) - 1;
  NodeId y = rng.between(0, 1) ? b.op("softmax", {x}, Attrs({{"axis", last}}))
                               : b.op("layer_norm", {x, b.input("w_scale", f32({shape.back()}))});
  auto over_all = [&](const char* name) {
    return b.op(name, {y}, Attrs({{"axes", all}, {"keepdims", true}}));
  };
  NodeId width = b.op("sub", {over_all("reduce_max"), over_all("reduce_min")});
  return b.op("div", {y, b.op("add", {width, b.scalar(1, DType::f32)})});
}

// Reductions stored beside what they reduce, over any run of axes, some of them finished further.
NodeId leaves(GraphBuilder& b, Rng& rng) {
  Dims shape;
  for (int64_t i = rng.between(1, 4); i > 0; --i) shape.push_back(rng.between(1, 20));
  auto rank = static_cast<int64_t>(shape.size());
  int64_t first = rng.between(0, rank - 1), last = rng.between(first, rank - 1);
  Dims axes;
  for (int64_t d = 0; d < rank; ++d) {
    bool inside = d >= first && d <= last;
    if (inside == (rank < 3 || rng.between(0, 2) > 0)) axes.push_back(d);
  }
  NodeId y = b.input("x", f32(shape));
  if (rng.between(0, 2) == 0) {
    y = b.op("softmax", {y}, Attrs({{"axis", rng.between(0, rank - 1)}}));
  } else {
    y = b.op("mul", {b.op("tanh", {y}), b.input("z", f32({shape.back()}))});
  }
  static const std::vector<std::string> kReductions = {"reduce_sum", "reduce_max", "reduce_mean",
                                                       "reduce_min"};
  if (axes.empty()) return y;
  for (int64_t n = rng.between(1, 2); n > 0; --n) {
    // Of one sign: a sum that cancels would say nothing of the kernel.
    NodeId term = rng.between(0, 1) ? b.op("exp", {y}) : b.op("mul", {y, y});
    NodeId leaf = b.op(rng.pick(kReductions), {term}, dims("axes", axes));
    if (rng.between(0, 1)) leaf = b.op("mul", {leaf, b.op("tanh", {leaf})});
    b.output("leaf", leaf);
  }
  return y;
}

NodeId pooled(GraphBuilder& b, Rng& rng, NodeId x) {
  size_t rank = b.shape(x).size() - 2;
  Dims kernel, strides, pads(2 * rank);
  for (size_t d = 0; d < rank; ++d) {
    kernel.push_back(rng.between(1, std::min<int64_t>(3, b.shape(x)[d + 2])));
    strides.push_back(rng.between(1, 2));
    for (size_t end : {d, d + rank}) pads[end] = rng.between(0, kernel[d] - 1);
  }
  return b.op(rng.between(0, 1) ? "max_pool" : "sum_pool", {x},
              Attrs({{"kernel", kernel},
                     {"strides", strides},
                     {"dilations", Dims(rank, 1)},
                     {"pads", pads}}));
}

// Channels of another input behind these.
NodeId with_more_channels(GraphBuilder& b, Rng& rng, NodeId x) {
  Dims more = b.shape(x);
  more[1] = rng.between(1, 20);
  return b.op("concat", {x, b.input("more", f32(more))}, Attrs({{"axis", int64_t{1}}}));
}

NodeId pool(GraphBuilder& b, Rng& rng) {
  NodeId x = b.input(
      "x", f32({rng.between(1, 2), rng.between(1, 40), rng.between(5, 30), rng.between(5, 30)}));
  return pooled(b, rng, rng.between(0, 2) ? x : with_more_channels(b, rng, x));
}

// Pooling right behind a convolution, some with more in between.
NodeId pooled_conv(GraphBuilder& b, Rng& rng) {
  auto rank = static_cast<size_t>(rng.between(0, 4) ? 2 : 3);
  Dims x{rng.between(1, 2), rng.between(1, 10)}, w{rng.between(2, 40), x[1]}, strides,
      pads(2 * rank);
  for (size_t d = 0; d < rank; ++d) {
    w.push_back(rng.between(1, 3));
    // Some images are as narrow as the window.
    x.push_back(rng.between(0, 7) ? rng.between(8, rank == 2 ? 25 : 12) : w.back());
    strides.push_back(rng.between(1, 2));
    for (size_t end : {d, d + rank}) pads[end] = rng.between(0, w.back() - 1);
  }
  NodeId y = b.op("conv", {b.input("x", f32(x)), b.input(str("w", count(w) / w[0]), f32(w))},
                  Attrs({{"strides", strides},
                         {"dilations", Dims(rank, 1)},
                         {"pads", pads},
                         {"group", int64_t{1}}}));
  if (rng.between(0, 1)) y = b.op("relu", {y});
  if (rng.between(0, 3) == 0) y = with_more_channels(b, rng, y);
  return pooled(b, rng, y);
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

// Operands of any shape that fits, of several element types.
NodeId pointwise(GraphBuilder& b, Rng& rng) {
  static const std::vector<DType> kTypes = {DType::f32,  DType::f32, DType::f64, DType::f16,
                                            DType::bf16, DType::i32, DType::i64, DType::u8};
  static const std::vector<std::string> kBinary = {"add", "sub", "mul", "max", "min"};
  DType dtype = rng.pick(kTypes);
  Dims shape;
  for (int64_t i = rng.between(1, 4); i > 0; --i) shape.push_back(rng.between(1, 23));
  auto operand = [&](const char* name) {
    Dims own = shape;
    for (int64_t& d : own) d = rng.between(0, 3) == 0 ? 1 : d;
    own.erase(own.begin(), own.begin() + rng.between(0, static_cast<int64_t>(own.size()) - 1));
    return b.input(name, Type::tensor(dtype, own));
  };
  NodeId x = b.input("x", Type::tensor(dtype, shape));
  for (int64_t n = rng.between(1, 3); n > 0; --n) x = b.op(rng.pick(kBinary), {x, operand("y")});
  if (rng.between(0, 2) == 0) {
    // What is compared was not rounded: no choice is tipped by it.
    x = b.op("where", {b.op("less", {operand("u"), operand("v")}), x, operand("z")});
  }
  if (rng.between(0, 3) == 0) x = b.op("cast", {x}, Attrs({{"to", rng.pick(kTypes)}}));
  return x;
}

// Rows, or single elements, that data chooses.
NodeId gather(GraphBuilder& b, Rng& rng) {
  Dims shape;
  for (int64_t i = rng.between(1, 3); i > 0; --i) shape.push_back(rng.between(1, 30));
  auto axis = rng.between(0, static_cast<int64_t>(shape.size()) - 1);
  NodeId x = b.input("x", f32(shape));
  Dims chosen;
  for (int64_t i = rng.between(0, 2); i > 0; --i) chosen.push_back(rng.between(1, 20));
  bool elements = rng.between(0, 1);
  if (elements) {
    chosen = shape;
    chosen[static_cast<size_t>(axis)] = rng.between(1, 20);
  }
  // Indices are drawn below the extent that the name says.
  NodeId index =
      b.input(str("index", shape[static_cast<size_t>(axis)]), Type::tensor(DType::i64, chosen));
  NodeId y = b.op(elements ? "gather_elements" : "gather", {x, index}, Attrs({{"axis", axis}}));
  return rng.between(0, 1) ? b.op("tanh", {y}) : y;
}

// Running sums and products along any axis.
NodeId scan(GraphBuilder& b, Rng& rng) {
  static const std::vector<DType> kTypes = {DType::f32,  DType::f64, DType::f16,
                                            DType::bf16, DType::i32, DType::u8};
  Dims shape;
  for (int64_t i = rng.between(1, 4); i > 0; --i) shape.push_back(rng.between(1, 40));
  return b.op(rng.between(0, 3) ? "cum_sum" : "cum_prod",
              {b.input("x", Type::tensor(rng.pick(kTypes), shape))},
              Attrs({{"axis", rng.between(0, static_cast<int64_t>(shape.size()) - 1)},
                     {"exclusive", rng.between(0, 1) == 1},
                     {"reverse", rng.between(0, 1) == 1}}));
}

// Updates of elements or of slices, several of one place, indices from both ends.
NodeId scatter(GraphBuilder& b, Rng& rng) {
  static const std::vector<DType> kTypes = {DType::f32, DType::f64, DType::i32, DType::i64,
                                            DType::u8};
  static const std::vector<std::string> kReductions = {"none", "add", "mul", "max", "min"};
  static const std::vector<DType> kIndices = {DType::i64, DType::i32};
  std::string reduction = rng.pick(kReductions);
  // Narrow floats are only moved: what is combined in them is the reference's.
  DType dtype = reduction == "none" && rng.between(0, 1) ? DType::f16 : rng.pick(kTypes);
  Dims shape;
  for (int64_t i = rng.between(1, 4); i > 0; --i) shape.push_back(rng.between(2, 30));
  auto rank = static_cast<int64_t>(shape.size());
  NodeId x = b.input("x", Type::tensor(dtype, shape));
  auto operands = [&](int64_t extent, const Dims& indices, const Dims& updates) {
    NodeId index = b.input(str("index", -extent), Type::tensor(rng.pick(kIndices), indices));
    return std::vector<NodeId>{x, index, b.input("updates", Type::tensor(dtype, updates))};
  };
  if (rng.between(0, 1)) {
    int64_t axis = rng.between(0, rank - 1);
    Dims updates;
    for (int64_t d : shape) updates.push_back(rng.between(1, d));
    updates[static_cast<size_t>(axis)] = rng.between(2, 20);
    return b.op("scatter_elements", operands(shape[static_cast<size_t>(axis)], updates, updates),
                Attrs({{"axis", axis}, {"reduction", reduction}}));
  }
  int64_t coordinates = rng.between(1, rank),
          extent = *std::min_element(shape.begin(), shape.begin() + coordinates);
  Dims indices, updates;
  for (int64_t i = rng.between(0, 2); i > 0; --i) indices.push_back(rng.between(2, 12));
  updates = indices;
  updates.insert(updates.end(), shape.begin() + coordinates, shape.end());
  indices.push_back(coordinates);
  return b.op("scatter_nd", operands(extent, indices, updates), Attrs({{"reduction", reduction}}));
}

// A recurrent layer of any kind; some of its optional operands are there.
NodeId recurrent(GraphBuilder& b, Rng& rng) {
  static const std::vector<std::string> kKinds = {"rnn", "gru", "lstm"};
  static const std::vector<std::string> kActivations = {"Sigmoid",  "HardSigmoid", "Tanh",
                                                        "Softsign", "Relu",        "Affine"};
  auto kind = static_cast<size_t>(rng.between(0, 2));
  bool lstm = kind == 2, batch_first = rng.between(0, 2) == 0;
  int64_t hidden = rng.between(2, 70), batch = rng.between(1, 5), steps = rng.between(1, 9);
  int64_t gates = std::array{1, 3, 4}[kind], inputs = rng.between(1, 20);
  bool clipped = rng.between(0, 3) == 0, coupled = lstm && rng.between(0, 2) == 0;
  std::vector<std::string> activations;
  // Gates are shares, candidates bounded: otherwise cells multiply errors without end.
  for (int i = 0; i < std::array{1, 2, 3}[kind]; ++i) {
    int64_t last = kind == 0 ? std::ssize(kActivations) - 1 : i == 0 ? 1 : 3;
    activations.push_back(kActivations[static_cast<size_t>(rng.between(0, last))]);
  }
  Dims first = batch_first ? Dims{batch, steps} : Dims{steps, batch};
  Dims state = batch_first ? Dims{batch, 1, hidden} : Dims{1, batch, hidden};
  std::vector<NodeId> args = {
      b.input("x", f32({first[0], first[1], inputs})),
      b.input("w_small", f32({1, gates * hidden, inputs})),
      b.input(rng.between(0, 3) ? "w_small_r" : "small_r", f32({1, gates * hidden, hidden}))};
  Dims present;
  auto maybe = [&](bool possible, const std::string& name, Type type) {
    present.push_back(possible && rng.between(0, 1));
    if (present.back()) args.push_back(b.input(name, std::move(type)));
  };
  maybe(true, "w_bias", f32({1, 2 * gates * hidden}));
  maybe(true, str("index", steps + 1), Type::tensor(DType::i32, {batch}));
  maybe(true, "h", f32(state));
  maybe(lstm, "c", f32(state));
  maybe(lstm, "peepholes", f32({1, 3 * hidden}));
  return b.op(kKinds[kind], args,
              Attrs({{"activations", activations},
                     {"clip", clipped ? 0.5 : 0.0},
                     {"direction", std::string(rng.between(0, 1) ? "forward" : "reverse")},
                     {"layout", int64_t{batch_first}},
                     {"input_forget", coupled},
                     {"linear_before_reset", rng.between(0, 1) == 1},
                     {"present", present}}));
}

// Only its loop, with views of the matrix if that is a constant, and some of its results.
Graph loop_of(const Graph& layer, Rng& rng) {
  NodeGroup group;
  std::set<NodeId> matrix;  // what is made of it
  for (size_t i = 0; i < layer.size(); ++i) {
    NodeId n{i};
    const Node& node = layer.nodes[n];
    auto made_of_matrix = [&](NodeId a) { return matrix.count(a) > 0; };
    bool loop = op_def(node).kind == Kind::scan;
    if (node.op == kInputOp && layer.inputs[i].name.ends_with("small_r")) matrix.insert(n);
    if (!loop && std::ranges::any_of(node.args, made_of_matrix)) {
      matrix.insert(n);
      if (is_weight(layer, 2)) group.nodes.push_back(n);
    }
    if (loop || node.op == kGetOp) group.nodes.push_back(n);
    if (node.op == kGetOp && (group.stores.empty() || rng.between(0, 2))) group.stores.push_back(n);
  }
  Outline o = outlined(layer, group);
  for (size_t i = 0; i < o.loads.size(); ++i) {
    NodeId from = storage_of(layer, o.loads[i]);
    if (layer.nodes[from].op == kInputOp) {
      o.graph.inputs[i].name = layer.inputs[from.value].name;
    } else if (matrix.count(o.loads[i])) {
      o.graph.inputs[i].name = "small_r";
    } else if (op_def(layer.nodes[from]).name == "cast") {
      o.graph.inputs[i].name = layer.inputs[layer.nodes[from].args[0].value].name;
    }
  }
  return o.graph;
}

// --- Products of bytes and of bf16 ---

// Zero points as ONNX has them: none, one, or one per row or column; known ahead or not.
NodeId zero_point(GraphBuilder& b, Rng& rng, const char* name, DType dtype, Dims several) {
  bool one = several.empty() || rng.between(0, 1);
  std::string called = str(rng.between(0, 1) ? "w" : "z", "_", name);
  if (one && rng.between(0, 1))
    return b.constant(Tensor::of_int(
        rng.between(static_cast<int64_t>(lowest(dtype)), static_cast<int64_t>(highest(dtype))),
        dtype));
  return b.input(called, Type::tensor(dtype, one ? Dims{} : std::move(several)));
}

// What quantised models do with a sum: nothing, scales and a float, or scales and bytes again.
NodeId scaled(GraphBuilder& b, Rng& rng, NodeId sum, Dims scales) {
  if (rng.between(0, 3) == 0) return sum;
  NodeId y = b.op("cast", {sum}, Attrs({{"to", DType::f32}}));
  y = b.op(
      "mul",
      {y, b.op("mul", {b.input("w_scale", f32(std::move(scales))), b.scalar(1e-4, DType::f32)})});
  if (rng.between(0, 1)) return y;
  DType to = rng.between(0, 1) ? DType::u8 : DType::i8;
  NodeId zero = b.constant(Tensor::of_int(rng.between(0, 100), to));
  return b.op("quantize_linear", {y, b.scalar(0.01, DType::f32), zero}, Attrs({{"to", to}}));
}

DType some_byte(Rng& rng) {
  return rng.between(0, 1) ? DType::u8 : DType::i8;
}

NodeId byte_matmul(GraphBuilder& b, Rng& rng) {
  int64_t m = rng.between(1, 70), n = rng.between(1, 70), k = rng.between(4, 120);
  if (rng.between(0, 1)) k = (k + 3) / 4 * 4;
  if (rng.between(0, 9) == 0) k = 4 * rng.between(800, 1200);  // several passes
  DType left = some_byte(rng), right = some_byte(rng);
  auto operand = [&](const char* name, DType dtype, int64_t rows, int64_t columns) {
    bool turned = rng.between(0, 2) == 0;
    NodeId x =
        b.input(name, Type::tensor(dtype, turned ? Dims{columns, rows} : Dims{rows, columns}));
    return turned ? b.op("transpose", {x}, dims("perm", {1, 0})) : x;
  };
  std::vector<NodeId> args = {operand("x", left, m, k),
                              operand(rng.between(0, 3) ? "w" : "z", right, k, n)};
  int64_t zeros = rng.between(0, 3);
  if (zeros > 0) args.push_back(zero_point(b, rng, "left", left, m > 1 ? Dims{m} : Dims{}));
  if (zeros > 1) args.push_back(zero_point(b, rng, "right", right, n > 1 ? Dims{n} : Dims{}));
  return scaled(b, rng, b.op("matmul_integer", args), {n});
}

NodeId byte_conv(GraphBuilder& b, Rng& rng) {
  size_t rank = rng.between(0, 3) == 0 ? 1 : 2;
  int64_t group = rng.between(0, 3) == 0 ? 2 : 1, c = group * rng.between(1, 20),
          f = group * rng.between(1, 40);
  Dims x{rng.between(1, 2), c}, w{f, c / group}, strides, dilations, pads(2 * rank);
  for (size_t d = 0; d < rank; ++d) {
    x.push_back(rng.between(6, rank == 1 ? 60 : 15));
    w.push_back(rng.between(1, 4));
    strides.push_back(rng.between(1, 2));
    dilations.push_back(rng.between(1, 2));
    for (size_t end : {0, 1}) pads[d + end * rank] = rng.between(0, 2);
  }
  DType left = some_byte(rng), right = some_byte(rng);
  std::vector<NodeId> args = {b.input("x", Type::tensor(left, x)),
                              b.input(rng.between(0, 3) ? "w" : "z", Type::tensor(right, w))};
  int64_t zeros = rng.between(0, 3);
  if (zeros > 0) args.push_back(zero_point(b, rng, "left", left, {}));
  if (zeros > 1) args.push_back(zero_point(b, rng, "right", right, f > 1 ? Dims{f} : Dims{}));
  NodeId sum = b.op(
      "conv_integer", args,
      Attrs({{"strides", strides}, {"dilations", dilations}, {"pads", pads}, {"group", group}}));
  Dims scales(rank + 1, 1);
  scales[0] = f;
  return scaled(b, rng, sum, scales);
}

// Matrices and convolutions of bf16, sums in f32.
NodeId bf16_products(GraphBuilder& b, Rng& rng) {
  auto bf16 = [](Dims shape) { return Type::tensor(DType::bf16, std::move(shape)); };
  const char* right = rng.between(0, 3) ? "w" : "z";
  NodeId y;
  if (rng.between(0, 2)) {
    int64_t m = rng.between(1, 70), n = rng.between(1, 70), k = rng.between(4, 120);
    NodeId x = b.input("x", bf16({m, k}));
    bool turned = rng.between(0, 1);
    NodeId w = b.input(right, bf16(turned ? Dims{n, k} : Dims{k, n}));
    if (turned) w = b.op("transpose", {w}, dims("perm", {1, 0}));
    y = b.op("matmul", {x, w});
  } else {
    int64_t c = rng.between(1, 20), r = rng.between(1, 3), pad = rng.between(0, 1);
    NodeId x = b.input("x", bf16({1, c, rng.between(6, 15), rng.between(6, 15)}));
    y = b.op("conv", {x, b.input(right, bf16({rng.between(1, 40), c, r, r}))},
             Attrs({{"strides", Dims{1, 1}},
                    {"dilations", Dims{1, 1}},
                    {"pads", Dims(4, pad)},
                    {"group", int64_t{1}}}));
  }
  return rng.between(0, 1) ? b.op("relu", {y}) : y;
}

using Family = NodeId (*)(GraphBuilder&, Rng&);

bool has_dots(Family family) {
  return family == Family(byte_matmul) || family == Family(byte_conv) ||
         family == Family(bf16_products);
}

// Of families with a kernel of their own, its name.
const char* own_kernel(Family family) {
  return family == Family(scan)        ? "scan"
         : family == Family(moved)     ? "move"
         : family == Family(scatter)   ? "scatter"
         : family == Family(attention) ? "attention"
         : family == Family(recurrent) ? "recurrent"
                                       : nullptr;
}

Graph random_group(Family family, uint64_t seed) {
  Rng rng(seed);
  GraphBuilder b;
  NodeId y = family(b, rng);
  if (family == Family(recurrent)) {
    for (NodeId item : b.get_all(y)) b.output("y", item);
    return loop_of(decomposed(std::move(b).build()), rng);
  }
  bool ends = own_kernel(family) || b.dtype(y) != DType::f32 || b.shape(y).empty();
  b.output("y", ends ? y : epilogue(b, rng, y));
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
    const std::string& name = group.inputs[i].name;
    int64_t below = name.starts_with("index") ? std::atoll(name.c_str() + 5) : 100;
    int64_t first = std::min<int64_t>(below, 0), last = std::abs(below) - 1;
    int64_t products = is_weight(group, i) ? std::atoll(name.c_str() + 1) : 0;
    double size = 1 / std::sqrt(static_cast<double>(std::max<int64_t>(products, 1)));
    if (below == 100 && is_integer(t.dtype) && info(t.dtype).bits == 8) {
      first = static_cast<int64_t>(lowest(t.dtype));
      last = static_cast<int64_t>(highest(t.dtype));
    }
    for (double& v : values) {
      v = is_float(t.dtype) ? size * rng.normal() : static_cast<double>(rng.between(first, last));
    }
    // What a recurrence multiplies by again and again must not make errors grow.
    if (name.find("small") != std::string::npos) {
      for (double& v : values) v /= std::sqrt(static_cast<double>(t.shape.back()));
    }
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
  for (NodeId r : results) b.output("y", r);
  w.graph = std::move(b).build();
  NodeGroup all;
  for (size_t n = 0; n < w.graph.size(); ++n) {
    const Node& node = w.graph.nodes[NodeId(n)];
    if (node.op != kInputOp && node.op != kConstantOp) all.nodes.push_back(NodeId(n));
  }
  for (const auto& o : w.graph.outputs) all.stores.push_back(o.node);
  w.partition.groups = {all};
  return w;
}

double error_against(const Tensor& exact, const Tensor& actual) {
  double worst = 0, largest = 1e-30;
  for (int64_t i = 0; i < exact.count(); ++i) {
    double wanted = exact.real(i), got = actual.real(i);
    if (std::isnan(wanted) && std::isnan(got)) continue;
    if (std::isinf(got) && std::abs(wanted) > highest(actual.dtype())) continue;
    largest = std::max(largest, std::abs(wanted));
    double d = std::abs(wanted - got);
    worst = std::max(worst, std::isnan(d) ? INFINITY : d);
  }
  return worst / largest;
}

double allowed(const Graph& g) {
  bool half = false, brain = false;
  for (const Type& t : g.types) half |= t.dtype == DType::f16, brain |= t.dtype == DType::bf16;
  if (!is_float(g.type(g.outputs[0].node).dtype)) return 0;
  return brain ? 0x1p-6 : half ? 0x1p-9 : 1e-5;
}

// Memory exactly as large as asked for; with fences around it where no sanitizer watches.
class Block {
 public:
  explicit Block(size_t bytes)
      : bytes_(bytes), all_(static_cast<std::byte*>(std::malloc(whole()))) {
    std::memset(all_, kFence, whole());
    std::memset(data(), 0xff, bytes_);  // what is not written is no number
  }
  Block(Block&& other) noexcept : bytes_(other.bytes_), all_(std::exchange(other.all_, nullptr)) {}
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;
  ~Block() { std::free(all_); }

  std::byte* data() { return all_ + fence(); }
  size_t size() const { return bytes_; }
  bool fences_stand() const {
    for (size_t i = 0; i < fence(); ++i) {
      if (all_[i] != std::byte{kFence} || all_[fence() + bytes_ + i] != std::byte{kFence})
        return false;
    }
    return true;
  }

 private:
  static constexpr unsigned char kFence = 0xa5;
  static constexpr size_t fence() { return kFenced ? 256 : 0; }
  size_t whole() const { return bytes_ + 2 * fence(); }
  size_t bytes_;
  std::byte* all_;
};

// Of every other group some operands, or the result, lie with channels last.
Layouts some_layouts(const Graph& group, const std::vector<bool>& constant, uint64_t seed) {
  Rng rng(seed, 2);  // not the one that the group was drawn with
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

// One kernel for one group, with what it must make.
struct Trial {
  std::string kernel, told;
  Program program;  // its launch, and what lays values out for it
  std::shared_ptr<const Whole> whole;
  std::vector<Value> exact;
  double error;  // that it says it may have

  bool calls_a_library() const {
    return std::any_of(program.kernels.begin(), program.kernels.end(),
                       [](const KernelCode& k) { return !k.calls.empty(); });
  }

  Block filled(BufferId id) const {
    const Buffer& b = program.buffers[id];
    Block block(b.bytes);
    if (b.place == Buffer::Place::input) {
      std::memcpy(block.data(), whole->inputs[b.index].tensor.data(), b.bytes);
    } else if (b.place == Buffer::Place::weight) {
      const Weight& w = program.weights[b.index];
      std::memset(block.data(), 0, b.bytes);
      w.packing
          ? repack(w.tensor, *w.packing, block.data())
          : static_cast<void>(std::memcpy(block.data(), w.tensor.data(), w.tensor.bytes().size()));
      if (w.norms) write_norms(*w.norms, block.data());
    }
    return block;
  }

  // A step's tasks in `parts` pieces, the last piece first: no task may count on another.
  void run_step(const Step& step, std::span<const KernelFunction> functions, int parts,
                std::map<BufferId, Block>& blocks) const {
    std::vector<void*> at;
    for (const auto& list : {step.loads, step.stores}) {
      for (BufferId b : list) at.push_back(blocks.try_emplace(b, filled(b)).first->second.data());
    }
    if (step.kind == Step::Kind::copy) {
      std::memcpy(at[1], at[0], program.buffers[step.loads[0]].bytes);
      return;
    }
    const KernelCode& kernel = program.kernels[step.kernel];
    bool meets = kernel.shared_bytes > 0;
    Block scratch(kernel.scratch_bytes), shared(kernel.shared_bytes);
    if (kernel.scratch_bytes > 0 || !meets) at.push_back(scratch.data());
    if (meets) std::memset(shared.data(), 0, kMeetingBytes), at.push_back(shared.data());
    std::atomic<int32_t> faults{0};
    auto part = [&](int p) {
      int32_t fault = 0;
      int64_t first = step.tasks * p / parts, last = step.tasks * (p + 1) / parts;
      if (first < last) functions[step.kernel](at.data(), first, last, &fault);
      faults += fault;
    };
    std::vector<std::thread> together;  // where tasks wait for one another
    for (int p = parts; p-- > 0;) {
      meets ? static_cast<void>(together.emplace_back(part, p)) : part(p);
    }
    for (std::thread& t : together) t.join();
    EXPECT_EQ(faults, 0) << told;
    EXPECT_TRUE(scratch.fences_stand()) << "writes beside its scratch memory" << told;
    EXPECT_TRUE(shared.fences_stand()) << "writes beside what its threads share" << told;
  }

  void expect_right(std::span<const KernelFunction> functions, int parts) const {
    std::map<BufferId, Block> blocks;
    for (const Step& step : program.steps) run_step(step, functions, parts, blocks);
    for (auto& [b, block] : blocks) {
      EXPECT_TRUE(block.fences_stand()) << "writes beside buffer " << b.value << told;
      auto place = program.buffers[b].place;
      if (place != Buffer::Place::input && place != Buffer::Place::weight) continue;
      EXPECT_EQ(std::memcmp(filled(b).data(), block.data(), block.size()), 0)
          << "writes its operand " << b.value << told;
    }
    std::vector<Value> results;
    for (size_t o = 0; o < program.outputs.size(); ++o) {
      const Type& type = whole->graph.type(whole->graph.outputs[o].node);
      Block& made = blocks.at(program.outputs[o]);
      results.emplace_back(Tensor::make(type.dtype, type.shape, [&](std::byte* out) {
        if (made.size()) std::memcpy(out, made.data(), made.size());
      }));
    }
    expect_equal(results);
  }

  void expect_equal(const std::vector<Value>& actual) const {
    for (size_t o = 0; o < exact.size(); ++o) {
      EXPECT_LE(error_against(exact[o].tensor, actual[o].tensor), allowed(whole->graph) + 4 * error)
          << told;
    }
  }
};

struct Param {
  const char* name;
  Family family;
  int vector_bytes;
  bool dots = false;  // with the instructions for products of bytes and bf16
};

// The best guess of every kernel and some that its estimate likes less.
void add_trials(const Param& param, uint64_t seed, const Target& target,
                std::vector<Trial>& trials) {
  auto whole = std::make_shared<const Whole>(whole_of(random_group(param.family, seed), seed));
  const NodeGroup& group = whole->partition.groups[0];
  if (group.nodes.empty()) return;
  std::vector<Value> doubles;
  for (const Value& v : whole->inputs)
    doubles.emplace_back(converted(v.tensor, Arithmetic::real64));
  const Graph& g = whole->graph;
  // Whole numbers have one right answer, the one of their own arithmetic.
  bool reals = true;
  for (const Type& t : g.types) reals &= is_float(t.dtype) || t.dtype == DType::boolean;
  bool indexed = param.family == Family(gather) || param.family == Family(recurrent);
  std::vector<Value> exact = reals || indexed
                                 ? evaluate(g, doubles, {.arithmetic = Arithmetic::real64})
                                 : evaluate(g, whole->inputs);
  auto outline = outlined(g, group);
  std::vector<bool> constant;
  for (NodeId n : outline.loads) constant.push_back(g.is_constant(n));
  auto layouts = some_layouts(outline.graph, constant, seed);
  for (const Kernel& kernel : catalogue_here()) {
    auto candidates = kernel.candidates({outline.graph, constant, layouts}, target);
    std::set<size_t> chosen = {0, candidates.size() / 2, candidates.size() - 1};
    auto less_exact = std::ranges::find_if(candidates, [](auto& c) { return c.error > 0; });
    chosen.insert(static_cast<size_t>(less_exact - candidates.begin()));
    for (size_t c : chosen) {
      if (c >= candidates.size()) continue;
      Plan plan{whole->partition, {candidates[c]}};
      bool strassen = kernel.name == "contract" && candidates[c].error > 0;
      trials.push_back({strassen ? "strassen" : kernel.name,
                        str("\n", kernel.name, " ", to_text(candidates[c].config), " ",
                            to_text(layouts), ", seed ", seed, "\n", print(g)),
                        generate(g, plan, catalogue_here(), target), whole, exact,
                        candidates[c].error});
    }
  }
}

CompileOptions options_for(int vector_bytes) {
  CompileOptions options{.vector_bytes = vector_bytes};
#if defined(__x86_64__)
  // As on a machine that has no more.
  if (vector_bytes < 64) options.flags.push_back("-mno-avx512f");
  if (vector_bytes < 32) options.flags.push_back("-mno-avx");
#endif
#ifdef EMEND_SANITIZE
  for (const char* f : {"-O1", "-g1", "-fsanitize=" EMEND_SANITIZE, "-fno-sanitize-recover=all"})
    options.flags.push_back(f);
#endif
  return options;
}

// Kernels that a family is there for, and more than how many of them are to be tried.
std::vector<std::pair<std::string, int>> wanted_trials(Family family) {
  const char* own = own_kernel(family);
  std::vector<std::pair<std::string, int>> wanted = {{own ? own : "rows", cases() / 4}};
  if (family == Family(window) || family == Family(transposed_conv) || family == Family(mosaic))
    wanted.emplace_back("winograd", cases() / 8);
  if (family == Family(matmul)) wanted.emplace_back("strassen", cases() / 8);
  if (family == Family(pooled_conv)) wanted.emplace_back("stacked", cases() / 8);
  if (has_dots(family)) wanted.emplace_back("contract", cases() / 2);
  return wanted;
}

class Kernels : public testing::TestWithParam<Param> {};

TEST_P(Kernels, AgreeWithTheReference) {
  const Param& param = GetParam();
  Target target{.vector_bytes = param.vector_bytes, .peak_flops = 2e11};
  target.byte_dots = target.bf16_dots = param.dots;
  std::map<std::string, int> tried;
  const auto wanted = wanted_trials(param.family);
  auto lacking = [&] {
    return std::ranges::any_of(wanted, [&](auto& w) { return tried[w.first] <= w.second; });
  };
  // Where few are drawn, chance may offer a kernel to none of them: then some more are.
  constexpr int kTogether = 50;  // compiled at the same time
  for (int begin = 0; begin < cases() || (lacking() && begin < 4 * cases());) {
    int end = begin + std::min(kTogether, cases());
    std::vector<Trial> trials;
    for (; begin < end; ++begin) {
      // Every other one as if it were too large for caches, for these are all small.
      target.cached = begin % 2 ? 0 : Target().cached;
      target.threads = 1 + begin % 8;
      add_trials(param, static_cast<uint64_t>(begin) + 1000, target, trials);
    }
    std::vector<KernelCode> codes;
    for (const Trial& t : trials) {
      if (t.calls_a_library()) continue;
      codes.insert(codes.end(), t.program.kernels.begin(), t.program.kernels.end());
    }
    CompiledKernels compiled = compile_kernels(codes, c_prelude(), options_for(param.vector_bytes));
    std::span<const KernelFunction> functions = compiled.functions;
    for (const Trial& t : trials) {
      ++tried[t.kernel];
      if (t.calls_a_library()) {
        t.expect_equal(CpuProgram(t.program, c_prelude(), {.threads = 2}).run(t.whole->inputs));
      } else {
        for (int parts : {1, 3}) t.expect_right(functions, parts);
        functions = functions.subspan(t.program.kernels.size());
      }
      if (HasFailure()) return;  // one is enough to look at
    }
  }
  for (const auto& [name, n] : tried) std::cout << param.name << ": " << name << " " << n << "\n";
  for (const auto& [kernel, least] : wanted) EXPECT_GT(tried[kernel], least) << kernel;
}

#ifdef __SANITIZE_ADDRESS__
// The sanitizer does watch generated code.
TEST(Watched, AReadBesideAnOperandIsFound) {
  KernelCode planted{.text =
                         "void planted(void* const* b, int64_t first, int64_t last, int32_t* "
                         "fault) { ((float*)b[1])[0] = ((float*)b[0])[4]; }\n",
                     .entry = "planted"};
  CompiledKernels compiled = compile_kernels(std::span(&planted, 1), c_prelude(), options_for(64));
  Block from(4 * sizeof(float)), to(sizeof(float));
  void* at[] = {from.data(), to.data()};
  int32_t fault = 0;
  EXPECT_DEATH(compiled.functions[0](at, 0, 1, &fault), "heap-buffer-overflow");
}
#endif

std::vector<Param> params() {
  std::vector<Param> all;
  for (int vector_bytes : {64, 32, 16}) {
    for (auto [name, family] : {std::pair("matmul", Family(matmul)),
                                std::pair("heads", Family(heads)),
                                std::pair("attention", Family(attention)),
                                std::pair("conv", Family(conv)),
                                std::pair("window", Family(window)),
                                std::pair("transposed", Family(transposed_conv)),
                                std::pair("moved", Family(moved)),
                                std::pair("mosaic", Family(mosaic)),
                                std::pair("grouped", Family(grouped_conv)),
                                std::pair("rows", Family(rows)),
                                std::pair("ranges", Family(ranges)),
                                std::pair("leaves", Family(leaves)),
                                std::pair("pool", Family(pool)),
                                std::pair("stacked", Family(pooled_conv)),
                                std::pair("views", Family(views)),
                                std::pair("pointwise", Family(pointwise)),
                                std::pair("gather", Family(gather)),
                                std::pair("scan", Family(scan)),
                                std::pair("scatter", Family(scatter)),
                                std::pair("recurrent", Family(recurrent)),
                                std::pair("byte_matmul", Family(byte_matmul)),
                                std::pair("byte_conv", Family(byte_conv)),
                                std::pair("bf16", Family(bf16_products))}) {
      all.push_back({name, family, vector_bytes});
      if (vector_bytes == 64 && has_dots(family) && has_byte_dots() && has_bf16_dots())
        all.push_back({name, family, vector_bytes, true});
    }
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(Families, Kernels, testing::ValuesIn(params()), [](const auto& info) {
  return str(info.param.name, "_", info.param.vector_bytes, info.param.dots ? "_dots" : "");
});

}  // namespace
}  // namespace emend
