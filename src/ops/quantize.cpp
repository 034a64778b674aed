// Quantised operators, written as what they mean in real and integer arithmetic:
//   quantise     y = saturate(round(x / scale) + zero_point)
//   dequantise   y = (x - zero_point) * scale
// and products of quantised operands, whose sums are exact 32-bit integers.
#include <algorithm>

#include "ops/contraction.h"
#include "ops/families.h"
#include "ops/movement.h"
#include "ops/table.h"

namespace emend {
namespace {

struct Quantize {
  DType to = DType::u8;
  DType precision = DType::f32;  // of the division
  int64_t axis = 1;              // where scales differ per position or per block
  int64_t block_size = 0;        // 0: not blocked
  bool saturate = true;          // into an 8-bit float; integers always do
  EMEND_FIELDS(to, precision, axis, block_size, saturate)
};

struct Dequantize {
  DType to = DType::f32;
  int64_t axis = 1, block_size = 0;
  EMEND_FIELDS(to, axis, block_size)
};

NodeId cast(GraphBuilder& b, NodeId x, DType to, bool saturate = true) {
  if (b.dtype(x) == to) return x;
  return b.op("cast", {x}, Attrs({{"to", to}, {"saturate", saturate}}));
}

NodeId reshape(GraphBuilder& b, NodeId x, Dims shape) {
  return b.shape(x) == shape ? x : b.op("reshape", {x}, Reshape{std::move(shape)});
}

// Each position along the axis stands for `block` neighbours of the larger shape.
NodeId repeat_blocks(GraphBuilder& b, NodeId p, const Dims& to, size_t axis, int64_t block) {
  Dims split = b.shape(p);
  split.insert(split.begin() + static_cast<int64_t>(axis) + 1, 1);
  Dims repeated = split, merged = b.shape(p);
  repeated[axis + 1] = block;
  merged[axis] *= block;
  NodeId whole = b.op("broadcast", {reshape(b, p, split)}, Broadcast{repeated});
  whole = reshape(b, whole, merged);
  if (merged == to) return whole;
  return b.op("slice", {whole}, Slice{Dims(to.size(), 0), to, Dims(to.size(), 1)});
}

// A scale or zero point so that it broadcasts against a tensor of shape `to`: one number, one per
// position of the axis, or one per block of it.
NodeId spread(GraphBuilder& b, NodeId p, const Dims& to, int64_t axis, int64_t block) {
  const Dims shape = b.shape(p);
  if (count(shape) == 1) return reshape(b, p, {});
  auto rank = static_cast<int64_t>(to.size());
  auto k = static_cast<size_t>(normal_axis(axis, rank).value_or_throw());
  if (block == 0) {
    if (shape != Dims{to[k]}) {
      throw Error(str("scales ", shape_text(shape),
                      " are neither one nor one per position of axis ", axis, " of ",
                      shape_text(to)));
    }
    Dims column(to.size() - k, 1);
    column[0] = to[k];
    return reshape(b, p, column);
  }
  Dims blocks = to;
  blocks[k] = block > 0 ? to[k] / block + (to[k] % block != 0) : 0;
  if (shape != blocks) {
    throw Error(str("scales ", shape_text(shape), " do not cut axis ", axis, " of ", shape_text(to),
                    " into blocks of ", block));
  }
  return repeat_blocks(b, p, to, k, block);
}

// Integers: saturate(round(x) + zero). The sum is formed in f32, where every integer near the range
// of the target is exact. Floats: rounded once by the cast. `zero` may be absent.
NodeId quantized(GraphBuilder& b, NodeId x, NodeId zero, DType to, bool saturate) {
  if (!is_integer(to)) {
    if (zero.valid()) x = b.op("add", {x, cast(b, zero, b.dtype(x))});
    return cast(b, x, to, saturate);
  }
  NodeId y = cast(b, b.op("round", {x}), DType::f32);
  if (zero.valid()) y = b.op("add", {y, cast(b, zero, DType::f32)});
  y = b.op("max", {y, b.scalar(lowest(to), DType::f32)});
  y = b.op("min", {y, b.scalar(highest(to), DType::f32)});
  return cast(b, y, to);
}

NodeId quantize_expand(GraphBuilder& b, const Quantize& a, Args args) {
  const Dims shape = b.shape(args[0]);
  NodeId scale = spread(b, cast(b, args[1], a.precision), shape, a.axis, a.block_size);
  NodeId x = b.op("div", {cast(b, args[0], a.precision), scale});
  NodeId zero;
  if (args.size() > 2) {
    if (b.dtype(args[2]) != a.to) throw Error("the zero point has another type than the result");
    // Through f32, which every quantised type fits into.
    zero = spread(b, cast(b, args[2], DType::f32), shape, a.axis, a.block_size);
  }
  return quantized(b, x, zero, a.to, a.saturate);
}

// The difference is exact: integers are subtracted as i32, narrow floats as f32. The product is
// formed in f32 and rounded once to the result's type.
NodeId dequantize_expand(GraphBuilder& b, const Dequantize& a, Args args) {
  const Dims shape = b.shape(args[0]);
  DType wide = is_integer(b.dtype(args[0])) ? DType::i32 : DType::f32;
  NodeId x = cast(b, args[0], wide);
  if (args.size() > 2) {
    NodeId zero = cast(b, args[2], wide);
    x = b.op("sub", {x, spread(b, zero, shape, a.axis, a.block_size)});
  }
  NodeId scale = spread(b, cast(b, args[1], DType::f32), shape, a.axis, a.block_size);
  return cast(b, b.op("mul", {cast(b, x, DType::f32), scale}), a.to);
}

NodeId dynamic_quantize_expand(GraphBuilder& b, const NoAttrs&, Args args) {
  auto number = [&](double v) { return b.scalar(v, DType::f32); };
  Attrs flat({{"keepdims", false}});
  NodeId low = b.op("min", {b.op("reduce_min", {args[0]}, flat), number(0)});
  NodeId high = b.op("max", {b.op("reduce_max", {args[0]}, flat), number(0)});
  NodeId range = b.op("sub", {high, low});
  // All zeros: any scale will do; onnxruntime's is 1.
  NodeId scale = b.op(
      "where", {b.op("equal", {range, number(0)}), number(1), b.op("div", {range, number(255)})});
  NodeId zero = b.op("sub", {number(0), b.op("div", {low, scale})});
  zero = b.op("round", {b.op("min", {b.op("max", {zero, number(0)}), number(255)})});
  zero = cast(b, zero, DType::u8);
  NodeId y = b.op("quantize_linear", {args[0], scale, zero}, Quantize{});
  return b.op("tuple", {y, scale, zero});
}

// A parameter per row of the left operand or per column of the right one.
NodeId per_row(GraphBuilder& b, NodeId p) {
  return b.shape(p).size() == 1 && count(b.shape(p)) > 1 ? reshape(b, p, {b.shape(p)[0], 1})
         : count(b.shape(p)) == 1                        ? reshape(b, p, {})
                                                         : p;
}
NodeId per_column(GraphBuilder& b, NodeId p) {
  return count(b.shape(p)) == 1 ? reshape(b, p, {}) : p;
}
// A parameter per output channel of a convolution, against its weights or its result.
NodeId per_channel(GraphBuilder& b, NodeId p, size_t dims_after) {
  return count(b.shape(p)) == 1 ? reshape(b, p, {}) : add_spatial_dims(b, p, dims_after);
}

// An operand with its zero point taken off: exact in i32, or in f32 for narrow floats.
NodeId centred(GraphBuilder& b, NodeId x, NodeId zero) {
  DType wide = is_integer(b.dtype(x)) ? DType::i32 : DType::f32;
  x = cast(b, x, wide);
  return zero.valid() ? b.op("sub", {x, cast(b, zero, wide)}) : x;
}

// From the sum of products to the quantised result.
NodeId requantized(GraphBuilder& b, NodeId sum, NodeId scale, NodeId y_scale, NodeId y_zero) {
  DType to = b.dtype(y_zero);
  NodeId factor = b.op("div", {scale, reshape(b, cast(b, y_scale, DType::f32), {})});
  NodeId real = b.op("mul", {cast(b, sum, DType::f32), factor});
  return quantized(b, real, reshape(b, cast(b, y_zero, DType::f32), {}), to, true);
}

NodeId matmul_integer_expand(GraphBuilder& b, const NoAttrs&, Args args) {
  NodeId x_zero = args.size() > 2 ? per_row(b, args[2]) : NodeId();
  NodeId y_zero = args.size() > 3 ? per_column(b, args[3]) : NodeId();
  return b.op("matmul", {centred(b, args[0], x_zero), centred(b, args[1], y_zero)});
}

NodeId qlinear_matmul_expand(GraphBuilder& b, const NoAttrs&, Args args) {
  NodeId x = centred(b, args[0], per_row(b, args[2]));
  NodeId w = centred(b, args[3], per_column(b, args[5]));
  NodeId scale = b.op("mul", {cast(b, per_row(b, args[1]), DType::f32),
                              cast(b, per_column(b, args[4]), DType::f32)});
  return requantized(b, b.op("matmul", {x, w}), scale, args[6], args[7]);
}

size_t spatial_rank(const GraphBuilder& b, NodeId x) {
  size_t rank = b.shape(x).size();
  if (rank < 2) throw Error(str("a convolution of ", shape_text(b.shape(x))));
  return rank - 2;
}

NodeId conv_integer_expand(GraphBuilder& b, const Conv& a, Args args) {
  NodeId x_zero = args.size() > 2 ? reshape(b, args[2], {}) : NodeId();
  NodeId w_zero =
      args.size() > 3 ? per_channel(b, args[3], spatial_rank(b, args[1]) + 1) : NodeId();
  return b.op("conv", {centred(b, args[0], x_zero), centred(b, args[1], w_zero)}, a);
}

NodeId qlinear_conv_expand(GraphBuilder& b, const Conv& a, Args args) {
  size_t spatial = spatial_rank(b, args[0]);
  NodeId x = centred(b, args[0], reshape(b, args[2], {}));
  NodeId w = centred(b, args[3], per_channel(b, args[5], spatial + 1));
  NodeId sum = b.op("conv", {x, w}, a);
  if (args.size() > 8) sum = b.op("add", {sum, add_spatial_dims(b, args[8], spatial)});
  NodeId scale = b.op("mul", {reshape(b, args[1], {}), per_channel(b, args[4], spatial)});
  return requantized(b, sum, scale, args[6], args[7]);
}

// Products of dequantised operands, as integers: scales leave the sum, which is exact.
NodeId dequantized_matmul_expand(GraphBuilder& b, const NoAttrs&, Args args) {
  NodeId sum = b.op("matmul_integer", {args[0], args[3], args[2], args[5]});
  NodeId scale = b.op("mul", {reshape(b, args[1], {}), per_column(b, args[4])});
  return b.op("mul", {cast(b, sum, DType::f32), scale});
}

NodeId dequantized_conv_expand(GraphBuilder& b, const Conv& a, Args args) {
  NodeId sum = b.op("conv_integer", {args[0], args[3], args[2], args[5]}, a);
  size_t spatial = spatial_rank(b, args[0]);
  NodeId scale = b.op("mul", {reshape(b, args[1], {}), per_channel(b, args[4], spatial)});
  return b.op("mul", {cast(b, sum, DType::f32), scale});
}

// --- ONNX ---

// The first opset whose (De)QuantizeLinear takes this quantised type, scale and granularity.
int64_t linear_since(DType quantized_type, const Type& scale, int64_t block_size) {
  int64_t since = 10;
  auto need = [&](bool when, int64_t opset) { since = std::max(since, when ? opset : 0); };
  const DTypeInfo& q = info(quantized_type);
  bool eight_bit_float = q.kind == DTypeClass::floating && q.bits == 8;
  need(scale.rank() > 0 && count(scale.shape) > 1, 13);
  need(scale.dtype != DType::f32 || eight_bit_float, 19);
  need(block_size > 0 || q.bits == 16 || q.bits == 4, 21);
  need(quantized_type == DType::f4e2m1, 23);
  need(scale.dtype == DType::f8e8m0, 24);
  need(q.bits == 2, 25);
  return since;
}

DType dtype_attr(const OnnxCall& c, std::string_view name, DType otherwise) {
  int64_t code = c.int_attr(name, 0);
  if (code == 0) return otherwise;
  auto t = dtype_from_onnx(static_cast<int>(code));
  if (!t) throw Error(str(name, " ", code, " is no element type"));
  return *t;
}

std::vector<NodeId> given(const OnnxCall& c, size_t n) {
  return c.inputs.first(c.has(n - 1) ? n : n - 1);
}

bool is_working_float(DType t) {
  return t == DType::f32 || t == DType::f16 || t == DType::bf16 || t == DType::f64;
}

Result<std::vector<NodeId>> quantize_lower(OnnxCall& c) {
  Quantize a;
  a.to = dtype_attr(c, "output_dtype", c.has(2) ? c.type(2).dtype : DType::u8);
  DType x = c.type(0).dtype, scale = c.type(1).dtype;
  a.precision = is_working_float(scale) ? scale : is_working_float(x) ? x : DType::f32;
  a.precision = dtype_attr(c, "precision", a.precision);
  a.axis = c.int_attr("axis", 1);
  a.block_size = c.int_attr("block_size", 0);
  a.saturate = c.int_attr("saturate", 1) != 0;
  return std::vector{c.b.op("quantize_linear", given(c, 3), to_attrs(a))};
}

std::vector<NodeId> quantize_raise(OnnxWriter& w) {
  auto a = w.attrs.as<Quantize>();
  int64_t since = linear_since(a.to, w.types[1], a.block_size);
  if (a.precision != w.types[1].dtype) since = std::max<int64_t>(since, 23);
  if (w.types.size() < 3 && a.to != DType::u8) since = std::max<int64_t>(since, 21);
  if (w.opset < since) return {};
  std::vector<Attrs::Entry> attributes;
  if (w.opset >= 13) attributes.emplace_back("axis", a.axis);
  if (w.opset >= 19 && is_float(a.to)) attributes.emplace_back("saturate", int64_t{a.saturate});
  if (w.opset >= 21) {
    // What the operands say already is left out: older readers do not know these attributes.
    if (a.block_size) attributes.emplace_back("block_size", a.block_size);
    DType implied = w.args.size() > 2 ? w.types[2].dtype : DType::u8;
    if (a.to != implied) attributes.emplace_back("output_dtype", info(a.to).onnx);
  }
  if (w.opset >= 23 && a.precision != w.types[1].dtype) {
    attributes.emplace_back("precision", info(a.precision).onnx);
  }
  return w.emit("QuantizeLinear", w.args, attributes);
}

Result<std::vector<NodeId>> dequantize_lower(OnnxCall& c) {
  Dequantize a;
  DType scale = c.type(1).dtype;
  a.to = dtype_attr(c, "output_dtype", is_working_float(scale) ? scale : DType::f32);
  a.axis = c.int_attr("axis", 1);
  a.block_size = c.int_attr("block_size", 0);
  return std::vector{c.b.op("dequantize_linear", given(c, 3), to_attrs(a))};
}

std::vector<NodeId> dequantize_raise(OnnxWriter& w) {
  auto a = w.attrs.as<Dequantize>();
  int64_t since = linear_since(w.types[0].dtype, w.types[1], a.block_size);
  if (a.to != w.types[1].dtype) since = std::max<int64_t>(since, 23);
  if (w.opset < since) return {};
  std::vector<Attrs::Entry> attributes;
  if (w.opset >= 13) attributes.emplace_back("axis", a.axis);
  if (w.opset >= 21 && a.block_size) attributes.emplace_back("block_size", a.block_size);
  if (w.opset >= 23 && a.to != w.types[1].dtype) {
    attributes.emplace_back("output_dtype", info(a.to).onnx);
  }
  return w.emit("DequantizeLinear", w.args, attributes);
}

// Operands of an integer product. ONNX may leave the left zero point out and give the right one:
// then it is 0.
std::vector<NodeId> integer_operands(OnnxCall& c) {
  std::vector<NodeId> args = {c.inputs.at(0), c.inputs.at(1)};
  if (c.has(2) || c.has(3)) {
    args.push_back(c.has(2) ? c.inputs[2] : c.b.constant(Tensor::of_int(0, c.type(0).dtype)));
  }
  if (c.has(3)) args.push_back(c.inputs[3]);
  return args;
}

Result<std::vector<NodeId>> conv_integer_lower(OnnxCall& c) {
  Attrs attrs = to_attrs(conv_attributes(c, c.type(0).shape, c.type(1).shape));
  return std::vector{c.b.op("conv_integer", integer_operands(c), attrs)};
}

Result<std::vector<NodeId>> qlinear_conv_lower(OnnxCall& c) {
  Attrs attrs = to_attrs(conv_attributes(c, c.type(0).shape, c.type(3).shape));
  return std::vector{c.b.op("qlinear_conv", given(c, 9), attrs)};
}

std::vector<NodeId> qlinear_matmul_raise(OnnxWriter& w) {
  // Before opset 21 scales are f32 and the rest are integers.
  bool plain = w.types[6].dtype == DType::f32 && is_integer(w.types[0].dtype) &&
               is_integer(w.types[3].dtype) && is_integer(w.type.dtype);
  if (!plain && w.opset < 21) return {};
  return w.emit("QLinearMatMul", w.args);
}

// Attributes stand in the file by name; lowering completes them.
std::vector<NodeId> conv_like_raise(OnnxWriter& w, const char* type) {
  auto a = w.attrs.as<Conv>();
  return w.emit(
      type, w.args,
      {{"strides", a.strides}, {"dilations", a.dilations}, {"pads", a.pads}, {"group", a.group}});
}

// Two dequantised operands and their product, as quantisers write them; the right one has scales
// along an axis.
std::vector<NodeId> dequantized_raise(OnnxWriter& w, const char* type, int64_t axis,
                                      const std::vector<Attrs::Entry>& attributes) {
  bool several = count(w.types[4].shape) > 1;
  if (w.opset < (several ? 13 : 10)) return {};
  std::vector<Attrs::Entry> along;
  if (several) along.emplace_back("axis", axis);
  NodeId x = w.emit("DequantizeLinear", {w.args[0], w.args[1], w.args[2]}).at(0);
  NodeId y = w.emit("DequantizeLinear", {w.args[3], w.args[4], w.args[5]}, along).at(0);
  return w.emit(type, {x, y}, attributes);
}

std::vector<NodeId> dequantized_matmul_raise(OnnxWriter& w) {
  return dequantized_raise(w, "MatMul", w.types[3].rank() - 1, {});
}

std::vector<NodeId> dequantized_conv_raise(OnnxWriter& w) {
  auto a = w.attrs.as<Conv>();
  return dequantized_raise(
      w, "Conv", 0,
      {{"strides", a.strides}, {"dilations", a.dilations}, {"pads", a.pads}, {"group", a.group}});
}

}  // namespace

std::vector<OpDef> quantize_ops() {
  return {
      define<Quantize>({.name = "quantize_linear",
                        .min_args = 2,
                        .max_args = 3,
                        .expand = quantize_expand,
                        .onnx = {{.type = "QuantizeLinear",
                                  .since = 10,
                                  .lower = quantize_lower,
                                  .raise = quantize_raise}},
                        .doc = "saturate(round(x / scale) + zero_point), per tensor, per position "
                               "of an axis, or per block of it"}),
      define<Dequantize>({.name = "dequantize_linear",
                          .min_args = 2,
                          .max_args = 3,
                          .expand = dequantize_expand,
                          .onnx = {{.type = "DequantizeLinear",
                                    .since = 10,
                                    .lower = dequantize_lower,
                                    .raise = dequantize_raise}},
                          .doc = "(x - zero_point) * scale, per tensor, per position of an axis, "
                                 "or per block of it"}),
      define<NoAttrs>({.name = "dynamic_quantize_linear",
                       .expand = dynamic_quantize_expand,
                       .onnx = {{.type = "DynamicQuantizeLinear", .since = 11}},
                       .doc = "quantised to u8 by the range of x (made to include 0), with the "
                              "scale and zero point found"}),
      define<NoAttrs>(
          {.name = "matmul_integer",
           .min_args = 2,
           .max_args = 4,
           .expand = matmul_integer_expand,
           .onnx = {{.type = "MatMulInteger",
                     .since = 10,
                     .lower = [](OnnxCall& c) -> Result<std::vector<NodeId>> {
                       return std::vector{c.b.op("matmul_integer", integer_operands(c))};
                     },
                     .raise = [](OnnxWriter& w) { return w.emit("MatMulInteger", w.args); }}},
           .doc = "matmul(a - a_zero, b - b_zero) of 8-bit integers in i32"}),
      define<NoAttrs>(
          {.name = "qlinear_matmul",
           .min_args = 8,
           .max_args = 8,
           .expand = qlinear_matmul_expand,
           .onnx = {{.type = "QLinearMatMul", .since = 10, .raise = qlinear_matmul_raise}},
           .doc = "matrix product of quantised operands (a, scale, zero, b, scale, "
                  "zero), quantised by the last two operands"}),
      define<Conv>(
          {.name = "conv_integer",
           .min_args = 2,
           .max_args = 4,
           .expand = conv_integer_expand,
           .onnx = {{.type = "ConvInteger",
                     .since = 10,
                     .lower = conv_integer_lower,
                     .raise = [](OnnxWriter& w) { return conv_like_raise(w, "ConvInteger"); }}},
           .doc = "conv(x - x_zero, w - w_zero) of 8-bit integers in i32"}),
      define<Conv>(
          {.name = "qlinear_conv",
           .min_args = 8,
           .max_args = 9,
           .expand = qlinear_conv_expand,
           .onnx = {{.type = "QLinearConv",
                     .since = 10,
                     .lower = qlinear_conv_lower,
                     .raise = [](OnnxWriter& w) { return conv_like_raise(w, "QLinearConv"); }}},
           .doc = "convolution of quantised operands (x, scale, zero, w, scale, zero, "
                  "result's scale and zero, i32 bias), quantised"}),
      // Formed from products of dequantised operands, and written as such.
      define<NoAttrs>({.name = "dequantized_matmul",
                       .min_args = 6,
                       .max_args = 6,
                       .expand = dequantized_matmul_expand,
                       .onnx = {{.type = "MatMul", .raise = dequantized_matmul_raise}},
                       .doc = "matrix product of quantised operands (a, scale, zero, b, scale, "
                              "zero), the right one's per tensor or column, in f32"}),
      define<Conv>({.name = "dequantized_conv",
                    .min_args = 6,
                    .max_args = 6,
                    .expand = dequantized_conv_expand,
                    .onnx = {{.type = "Conv", .raise = dequantized_conv_raise}},
                    .doc = "convolution of quantised operands (x, scale, zero, w, scale, zero), "
                           "the weights' per tensor or filter, in f32"}),
  };
}

}  // namespace emend
