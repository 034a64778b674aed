// Sums of products: matrix products and convolutions of any dimension.
#include "ops/contraction.h"

#include <algorithm>

#include "ops/families.h"
#include "ops/table.h"

namespace emend {
namespace {

Result<Type> same_dtype(Types in, Dims shape) {
  for (const Type& t : in) {
    if (t.dtype != in[0].dtype) {
      return fail("operands are ", to_text(in[0].dtype), " and ", to_text(t.dtype));
    }
  }
  return Type::tensor(in[0].dtype, std::move(shape));
}

// numpy's matmul: batch dimensions broadcast, a vector operand gains and loses a dimension.
struct MatmulShape {
  Dims batch;
  int64_t m = 1, n = 1, k = 1;
  bool vector_a = false, vector_b = false;
  Dims out() const {
    Dims d = batch;
    if (!vector_a) d.push_back(m);
    if (!vector_b) d.push_back(n);
    return d;
  }
};

Result<MatmulShape> matmul_shape(const Dims& a, const Dims& b) {
  if (a.empty() || b.empty()) return fail("matmul of a scalar");
  MatmulShape s;
  s.vector_a = a.size() == 1;
  s.vector_b = b.size() == 1;
  s.k = a.back();
  s.m = s.vector_a ? 1 : a[a.size() - 2];
  s.n = s.vector_b ? 1 : b.back();
  int64_t kb = s.vector_b ? b[0] : b[b.size() - 2];
  if (s.k != kb)
    return fail("matmul: ", shape_text(a), " by ", shape_text(b), ": inner sizes differ");
  Dims batch_a(a.begin(), a.end() - (s.vector_a ? 1 : 2));
  Dims batch_b(b.begin(), b.end() - (s.vector_b ? 1 : 2));
  auto batch = broadcast_shapes(batch_a, batch_b);
  if (!batch) return fail("matmul: ", batch.error());
  s.batch = *batch;
  return s;
}

Meaning matmul_means(const NoAttrs&, Types in) {
  const Dims &a = in[0].shape, &b = in[1].shape;
  MatmulShape s = matmul_shape(a, b).value_or_throw();
  Meaning m;
  m.out = s.out();
  m.reduced = {s.k};
  m.reduce = Reduce::sum;
  m.body = arg(0) * arg(1);
  size_t rank = s.batch.size();
  auto k = static_cast<int>(m.out.size());
  auto row = static_cast<int>(rank), column = row + (s.vector_a ? 0 : 1);
  Dims batch_a(a.begin(), a.end() - (s.vector_a ? 1 : 2));
  Dims batch_b(b.begin(), b.end() - (s.vector_b ? 1 : 2));
  Read left = broadcast_read(0, batch_a, rank), right = broadcast_read(1, batch_b, rank);
  if (!s.vector_a) left.index.push_back(index_of(row));
  left.index.push_back(index_of(k));
  right.index.push_back(index_of(k));
  if (!s.vector_b) right.index.push_back(index_of(column));
  m.reads = {left, right};
  return m;
}

Result<Type> conv_infer(const Conv& c, Types in) {
  const Dims &x = in[0].shape, &w = in[1].shape;
  size_t spatial = c.strides.size();
  if (x.size() != spatial + 2 || w.size() != spatial + 2 || c.dilations.size() != spatial ||
      c.pads.size() != 2 * spatial) {
    return fail("conv: input ", shape_text(x), ", weights ", shape_text(w), " and ", spatial,
                " strides do not fit");
  }
  if (auto fault = window_fault(std::span(w).subspan(2), c.strides, c.dilations, c.pads))
    return fail("conv: ", *fault);
  if (c.group < 1 || c.group > w[0] || x[1] != w[1] * c.group || w[0] % c.group != 0) {
    return fail("conv: ", x[1], " channels against weights ", shape_text(w), " in ", c.group,
                " groups");
  }
  Dims out = {x[0], w[0]};
  for (size_t d = 0; d < spatial; ++d) {
    int64_t reach = c.dilations[d] * (w[d + 2] - 1) + 1;
    int64_t room = x[d + 2] + c.pads[d] + c.pads[d + spatial] - reach;
    if (room < 0) {
      return fail("conv: kernel ", shape_text(w), " does not fit into ", shape_text(x));
    }
    out.push_back(room / c.strides[d] + 1);
  }
  return same_dtype(in, std::move(out));
}

// out[n, (g, f), o..] = sum over c, r.. of x[n, g*C + c, o*s + r*d - p ..] or 0, times w[(g, f), c,
// r..]
Meaning conv_means(const Conv& c, Types in) {
  const Dims &x = in[0].shape, &w = in[1].shape;
  Type type = conv_infer(c, in).value_or_throw();
  size_t spatial = c.strides.size();
  int64_t per_group = w[0] / c.group;
  Meaning m;
  m.out = {x[0], c.group, per_group};
  m.out.insert(m.out.end(), type.shape.begin() + 2, type.shape.end());
  m.reduced = {w[1]};
  m.reduced.insert(m.reduced.end(), w.begin() + 2, w.end());
  m.reduce = Reduce::sum;
  m.body = arg(0) * arg(1);
  auto channel = static_cast<int>(m.out.size());
  Read input{
      .operand = 0, .index = {index_of(0), index_of(1, w[1]) + index_of(channel)}, .outside = 0.0};
  Read weights{.operand = 1, .index = {index_of(1, per_group) + index_of(2), index_of(channel)}};
  for (size_t d = 0; d < spatial; ++d) {
    int o = 3 + static_cast<int>(d), r = channel + 1 + static_cast<int>(d);
    input.index.push_back(index_of(o, c.strides[d], -c.pads[d]) + index_of(r, c.dilations[d]));
    weights.index.push_back(index_of(r));
  }
  m.reads = {input, weights};
  return m;
}

Result<std::vector<NodeId>> conv_lower(OnnxCall& c) {
  Conv a = conv_attributes(c, c.type(0).shape, c.type(1).shape);
  NodeId y = c.b.op("conv", {c.inputs[0], c.inputs[1]}, a);
  if (c.has(2)) y = c.b.op("add", {y, add_spatial_dims(c.b, c.inputs[2], a.strides.size())});
  return std::vector{y};
}

std::vector<NodeId> conv_raise(OnnxWriter& w) {
  auto a = w.attrs.as<Conv>();
  Dims kernel(w.types[1].shape.begin() + 2, w.types[1].shape.end());
  return w.emit("Conv", w.args,
                {{"strides", a.strides},
                 {"dilations", a.dilations},
                 {"pads", a.pads},
                 {"group", a.group},
                 {"kernel_shape", kernel}});
}

}  // namespace

std::optional<std::string> window_fault(std::span<const int64_t> kernel, const Dims& strides,
                                        const Dims& dilations, const Dims& pads) {
  auto within = [](std::span<const int64_t> numbers, int64_t low) {
    constexpr int64_t kHigh = int64_t{1} << 30;
    return std::ranges::all_of(numbers, [&](int64_t v) { return v >= low && v <= kHigh; });
  };
  if (!within(kernel, 1)) return str("a window of ", shape_text(kernel));
  if (!within(strides, 1)) return str("strides ", shape_text(strides));
  if (!within(dilations, 1)) return str("dilations ", shape_text(dilations));
  if (!within(pads, -(int64_t{1} << 30))) return str("pads ", shape_text(pads));
  return std::nullopt;
}

std::optional<Dims> auto_pads(const std::string& mode, const Dims& x, const Dims& kernel,
                              const Dims& strides, const Dims& dilations) {
  size_t n = kernel.size();
  if (mode == "NOTSET" || mode.empty()) return std::nullopt;
  Dims pads(2 * n, 0);
  if (mode == "VALID") return pads;
  if (auto fault = window_fault(kernel, strides, dilations, pads)) throw Error(*fault);
  for (size_t d = 0; d < n; ++d) {
    int64_t out = (x[d + 2] + strides[d] - 1) / strides[d];
    int64_t reach = dilations[d] * (kernel[d] - 1) + 1;
    int64_t total = std::max<int64_t>(0, (out - 1) * strides[d] + reach - x[d + 2]);
    int64_t small = total / 2, large = total - small;
    pads[d] = mode == "SAME_LOWER" ? large : small;
    pads[d + n] = total - pads[d];
  }
  return pads;
}

Conv conv_attributes(const OnnxCall& c, const Dims& x, const Dims& w) {
  const std::string& name = c.node.type;
  if (x.size() < 3 || w.size() != x.size()) {
    throw Error(str(name, " needs input and weights of equal rank 3 or more, got ", shape_text(x),
                    " and ", shape_text(w)));
  }
  size_t n = x.size() - 2;
  Conv a;
  a.strides = c.ints_attr("strides", Dims(n, 1));
  a.dilations = c.ints_attr("dilations", Dims(n, 1));
  a.pads = c.ints_attr("pads", Dims(2 * n, 0));
  a.group = c.int_attr("group", 1);
  Dims kernel(w.begin() + 2, w.end());
  if (a.strides.size() != n || a.dilations.size() != n)
    throw Error(str(name, ": strides and dilations need one entry per spatial dimension"));
  if (auto p = auto_pads(c.text_attr("auto_pad", "NOTSET"), x, kernel, a.strides, a.dilations))
    a.pads = *p;
  return a;
}

NodeId add_spatial_dims(GraphBuilder& b, NodeId bias, size_t n) {
  if (b.shape(bias).size() != 1) throw Error(str("a bias of shape ", shape_text(b.shape(bias))));
  Dims shape = b.shape(bias);
  shape.insert(shape.end(), n, 1);
  return b.op("reshape", {bias}, Attrs({{"shape", shape}}));
}

std::vector<OpDef> contraction_ops() {
  return {
      define<NoAttrs>(
          {.name = "matmul",
           .min_args = 2,
           .max_args = 2,
           .kind = Kind::contraction,
           .traits = associative | multilinear,
           .infer = [](const NoAttrs&, Types in) -> Result<Type> {
             auto s = matmul_shape(in[0].shape, in[1].shape);
             if (!s) return Failure{s.error()};
             return same_dtype(in, s->out());
           },
           .means = matmul_means,
           .onnx = {{"MatMul"}},
           .doc = "matrix product over the last two dimensions; batch dimensions broadcast"}),
      define<Conv>({.name = "conv",
                    .min_args = 2,
                    .max_args = 2,
                    .kind = Kind::contraction,
                    .traits = multilinear,
                    .infer = conv_infer,
                    .means = conv_means,
                    .onnx = {{.type = "Conv", .lower = conv_lower, .raise = conv_raise}},
                    .doc = "convolution of any dimension: x[n,c,..] by w[f,c/group,..], explicit "
                           "pads (begins, then ends)"}),
      // Read as conv and add; formed last, since ONNX has one node for both.
      define<Conv>({.name = "conv_bias",
                    .min_args = 3,
                    .max_args = 3,
                    .expand =
                        [](GraphBuilder& b, const Conv& a, Args args) {
                          if (b.type(args[2]).rank() != 1) throw Error("the bias is no vector");
                          NodeId y = b.op("conv", {args[0], args[1]}, a);
                          return b.op("add", {y, add_spatial_dims(b, args[2], a.strides.size())});
                        },
                    .onnx = {{.type = "Conv", .raise = conv_raise}},
                    .doc = "convolution plus one number per filter"}),
  };
}

}  // namespace emend
