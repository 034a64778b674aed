// Elements change place, nothing is computed. Shapes, bounds and axes are attributes; the importer
// has folded what leads to them.
#include "ops/movement.h"

#include <algorithm>
#include <numeric>

#include "ops/evaluate.h"
#include "ops/families.h"
#include "ops/table.h"
#include "ops/tensor_parts.h"

namespace emend {
namespace {

Meaning move(Dims out, Read read) {
  Meaning m;
  m.out = std::move(out);
  m.reads = {std::move(read)};
  return m;
}

Result<Type> reshape_infer(const Reshape& a, Types in) {
  if (!checked_count(a.shape) || count(a.shape) != count(in[0].shape)) {
    return fail("reshape: ", shape_text(in[0].shape), " does not have the elements of ",
                shape_text(a.shape));
  }
  return Type::tensor(in[0].dtype, a.shape);
}

Result<Type> transpose_infer(const Transpose& a, Types in) {
  Dims sorted = a.perm;
  std::sort(sorted.begin(), sorted.end());
  Dims identity(in[0].shape.size());
  std::iota(identity.begin(), identity.end(), 0);
  if (sorted != identity)
    return fail("transpose: ", shape_text(a.perm), " does not permute rank ", in[0].rank());
  Dims shape;
  for (int64_t p : a.perm) shape.push_back(in[0].shape[static_cast<size_t>(p)]);
  return Type::tensor(in[0].dtype, shape);
}

Meaning transpose_means(const Transpose& a, Types in) {
  Read r;
  r.index.resize(a.perm.size());
  for (size_t i = 0; i < a.perm.size(); ++i)
    r.index[static_cast<size_t>(a.perm[i])] = index_of(static_cast<int>(i));
  return move(transpose_infer(a, in).value_or_throw().shape, r);
}

Result<Type> broadcast_infer(const Broadcast& a, Types in) {
  auto shape = broadcast_shapes(in[0].shape, a.shape);
  if (!shape || *shape != a.shape) {
    return fail("broadcast: ", shape_text(in[0].shape), " does not broadcast to ",
                shape_text(a.shape));
  }
  return Type::tensor(in[0].dtype, a.shape);
}

Result<Type> slice_infer(const Slice& a, Types in) {
  size_t rank = in[0].shape.size();
  if (a.starts.size() != rank || a.sizes.size() != rank || a.steps.size() != rank) {
    return fail("slice: needs one start, size and step per dimension of ", shape_text(in[0].shape));
  }
  for (size_t d = 0; d < rank; ++d) {
    auto last = a.starts[d] + (static_cast<__int128>(a.sizes[d]) - 1) * a.steps[d];
    bool inside = a.sizes[d] >= 0 && a.steps[d] != 0 &&
                  (a.sizes[d] == 0 || (a.starts[d] >= 0 && a.starts[d] < in[0].shape[d] &&
                                       last >= 0 && last < in[0].shape[d]));
    if (!inside) return fail("slice: dimension ", d, " of ", shape_text(in[0].shape), " is left");
  }
  return Type::tensor(in[0].dtype, a.sizes);
}

Result<Type> concat_infer(const Axis& a, Types in) {
  auto axis = normal_axis(a.axis, in[0].rank());
  if (!axis) return fail("concat: ", axis.error());
  Dims shape = in[0].shape;
  auto k = static_cast<size_t>(*axis);
  shape[k] = 0;
  for (const Type& t : in) {
    Dims other = t.shape;
    if (other.size() != shape.size() || t.dtype != in[0].dtype) {
      return fail("concat: ", to_text(in[0]), " and ", to_text(t), " do not fit");
    }
    shape[k] += other[k];
    other[k] = in[0].shape[k];
    if (other != in[0].shape)
      return fail("concat: ", to_text(in[0]), " and ", to_text(t), " differ beside axis ", k);
  }
  return Type::tensor(in[0].dtype, shape);
}

// Each operand is read shifted to its place; which one counts is decided by the position.
Meaning concat_means(const Axis& a, Types in) {
  Meaning m;
  m.out = concat_infer(a, in).value_or_throw().shape;
  auto k = static_cast<size_t>(normal_axis(a.axis, in[0].rank()).value_or_throw());
  int64_t begin = 0;
  Scalar body;
  for (size_t i = 0; i < in.size(); ++i) {
    Read r{.operand = static_cast<int>(i), .outside = 0.0};
    for (size_t d = 0; d < m.out.size(); ++d) {
      r.index.push_back(index_of(static_cast<int>(d), 1, d == k ? -begin : 0));
    }
    m.reads.push_back(r);
    body = i == 0 ? arg(0)
                  : select(iter(static_cast<int>(k)) < Scalar(static_cast<double>(begin)), body,
                           arg(static_cast<int>(i)));
    begin += in[i].shape[k];
  }
  m.body = body;
  return m;
}

// Whole runs of elements, operand after operand: what the meaning says, faster, and for strings
// too.
Value concat_eval(const EvalContext&, const Axis& a, std::span<const Value> v) {
  std::vector<Tensor> parts;
  for (const Value& part : v) parts.push_back(part.tensor);
  return joined(parts, normal_axis(a.axis, parts[0].rank()).value_or_throw());
}

NodeId split_expand(GraphBuilder& b, const Split& a, Args args) {
  auto k = static_cast<size_t>(normal_axis(a.axis, b.type(args[0]).rank()).value_or_throw());
  Dims shape = b.shape(args[0]);
  if (!cuts(a.sizes, shape[k])) {
    throw Error(
        str("sizes ", shape_text(a.sizes), " do not cut dimension ", k, " of ", shape_text(shape)));
  }
  Slice s{.starts = Dims(shape.size(), 0), .sizes = shape, .steps = Dims(shape.size(), 1)};
  std::vector<NodeId> parts;
  for (int64_t size : a.sizes) {
    s.sizes[k] = size;
    parts.push_back(b.op("slice", {args[0]}, s));
    s.starts[k] += size;
  }
  return b.op("tuple", parts);
}

// --- ONNX ---

std::vector<NodeId> one(NodeId n) {
  return {n};
}

Result<std::vector<NodeId>> reshape_lower(OnnxCall& c) {
  auto shape = c.ints(1);
  if (!shape) return Failure{shape.error()};
  const Dims& from = c.type(0).shape;
  bool allow_zero = c.int_attr("allowzero", 0) != 0;
  Dims known;
  int64_t unknown = -1;
  for (size_t i = 0; i < shape->size(); ++i) {
    int64_t& d = (*shape)[i];
    if (d == 0 && !allow_zero && i < from.size()) d = from[i];
    if (d == -1 && unknown < 0)
      unknown = static_cast<int64_t>(i);
    else if (d < 0)
      throw Error(str("Reshape to ", shape_text(*shape), " is not a shape"));
    else
      known.push_back(d);
  }
  auto rest = checked_count(known);
  if (!rest) throw Error(str("Reshape to ", shape_text(*shape), " is absurd"));
  if (unknown >= 0) (*shape)[static_cast<size_t>(unknown)] = *rest ? count(from) / *rest : 0;
  return one(c.b.op("reshape", {c.inputs[0]}, Reshape{*shape}));
}

// A size of 0 must not read as "copy"; before opset 14 what has none is said as a constant.
std::vector<NodeId> reshape_raise(OnnxWriter& w) {
  const Dims &from = w.types[0].shape, &to = w.type.shape;
  bool zero = false, copies = true;
  for (size_t i = 0; i < to.size(); ++i) {
    zero |= to[i] == 0;
    copies &= to[i] != 0 || (i < from.size() && from[i] == 0);
  }
  std::vector<Attrs::Entry> attributes;
  if (zero && w.opset >= 14) attributes.emplace_back("allowzero", 1);
  if (!copies && w.opset < 14) return {w.b.constant(Tensor::zeros(w.type.dtype, to))};
  return w.emit("Reshape", {w.args[0], w.ints(to)}, attributes);
}

NodeId reshape_to(OnnxCall& c, Dims shape) {
  return c.b.op("reshape", {c.inputs[0]}, Reshape{std::move(shape)});
}

Result<std::vector<NodeId>> squeeze_lower(OnnxCall& c) {
  Dims axes = c.ints_attr("axes");
  const Dims& from = c.type(0).shape;
  bool all = !c.has_attr("axes") && !c.has(1);
  if (c.has(1)) {
    auto given = c.ints(1);
    if (!given) return Failure{given.error()};
    axes = *given;
  }
  axes = normal_axes(axes, c.type(0).rank()).value_or_throw();
  Dims shape;
  for (size_t d = 0; d < from.size(); ++d) {
    bool drop =
        all ? from[d] == 1 : std::binary_search(axes.begin(), axes.end(), static_cast<int64_t>(d));
    if (!drop) shape.push_back(from[d]);
  }
  return one(reshape_to(c, shape));
}

Result<std::vector<NodeId>> unsqueeze_lower(OnnxCall& c) {
  Dims axes = c.ints_attr("axes");
  if (c.has(1)) {
    auto given = c.ints(1);
    if (!given) return Failure{given.error()};
    axes = *given;
  }
  Dims shape = c.type(0).shape;
  auto rank = static_cast<int64_t>(shape.size() + axes.size());
  for (int64_t axis : normal_axes(axes, rank).value_or_throw())
    shape.insert(shape.begin() + axis, 1);
  return one(reshape_to(c, shape));
}

Result<std::vector<NodeId>> flatten_lower(OnnxCall& c) {
  const Dims& from = c.type(0).shape;
  int64_t axis = c.int_attr("axis", 1), rank = c.type(0).rank();
  if (axis < -rank || axis > rank) throw Error(str("Flatten: axis ", axis, " for rank ", rank));
  if (axis < 0) axis += rank;
  return one(reshape_to(c, {count(std::span(from).first(static_cast<size_t>(axis))),
                            count(std::span(from).subspan(static_cast<size_t>(axis)))}));
}

Result<std::vector<NodeId>> transpose_lower(OnnxCall& c) {
  Dims reversed(c.type(0).shape.size());
  for (size_t i = 0; i < reversed.size(); ++i)
    reversed[i] = static_cast<int64_t>(reversed.size() - 1 - i);
  return one(c.b.op("transpose", {c.inputs[0]}, Transpose{c.ints_attr("perm", reversed)}));
}

Result<std::vector<NodeId>> expand_lower(OnnxCall& c) {
  auto shape = c.ints(1);
  if (!shape) return Failure{shape.error()};
  auto to = broadcast_shapes(c.type(0).shape, *shape).value_or_throw();
  return one(c.b.op("broadcast", {c.inputs[0]}, Broadcast{to}));
}

Result<std::vector<NodeId>> slice_lower(OnnxCall& c) {
  const Dims& shape = c.type(0).shape;
  size_t rank = shape.size();
  Dims starts = c.ints_attr("starts"), ends = c.ints_attr("ends"), axes = c.ints_attr("axes"),
       steps;
  if (c.version() >= 10) {
    for (auto [input, to] : {std::pair{1, &starts}, {2, &ends}, {3, &axes}, {4, &steps}}) {
      if (!c.has(static_cast<size_t>(input))) continue;
      auto given = c.ints(static_cast<size_t>(input));
      if (!given) return Failure{given.error()};
      *to = *given;
    }
  }
  if (axes.empty()) {
    axes.resize(starts.size());
    std::iota(axes.begin(), axes.end(), 0);
  }
  if (steps.empty()) steps.assign(starts.size(), 1);
  if (ends.size() != starts.size() || axes.size() != starts.size() ||
      steps.size() != starts.size()) {
    throw Error("Slice: starts, ends, axes and steps differ in length");
  }
  Slice s{.starts = Dims(rank, 0), .sizes = shape, .steps = Dims(rank, 1)};
  for (size_t i = 0; i < starts.size(); ++i) {
    auto d = static_cast<size_t>(normal_axis(axes[i], static_cast<int64_t>(rank)).value_or_throw());
    int64_t extent = shape[d], step = steps[i];
    if (step == 0) throw Error("Slice: a step is 0");
    auto clamp = [&](int64_t v, int64_t low, int64_t high) {
      if (v < 0) v = v < -extent ? low : v + extent;
      return std::clamp(v, low, high);
    };
    int64_t from = step > 0 ? clamp(starts[i], 0, extent) : clamp(starts[i], 0, extent - 1);
    int64_t to = step > 0 ? clamp(ends[i], 0, extent) : clamp(ends[i], -1, extent - 1);
    int64_t size = step > 0 ? (to - from + step - 1) / step : (from - to + (-step - 1)) / -step;
    s.starts[d] = size > 0 ? from : 0;
    s.sizes[d] = std::max<int64_t>(size, 0);
    s.steps[d] = step;
  }
  return one(c.b.op("slice", {c.inputs[0]}, s));
}

std::vector<NodeId> slice_raise(OnnxWriter& w) {
  auto s = w.attrs.as<Slice>();
  Dims starts, ends, axes, steps;
  for (size_t d = 0; d < s.starts.size(); ++d) {
    if (s.starts[d] == 0 && s.sizes[d] == w.types[0].shape[d] && s.steps[d] == 1) continue;
    int64_t end = s.starts[d] + s.sizes[d] * s.steps[d];
    starts.push_back(s.starts[d]);
    // Counting down past the front is written as far below any index.
    ends.push_back(s.steps[d] < 0 && end < 0 ? INT64_MIN / 2 : end);
    axes.push_back(static_cast<int64_t>(d));
    steps.push_back(s.steps[d]);
  }
  if (starts.empty()) return w.emit("Identity", w.args);
  if (w.opset < 10) {
    // Steps came with opset 10.
    if (std::ranges::any_of(steps, [](int64_t step) { return step != 1; })) return {};
    return w.emit("Slice", w.args, {{"starts", starts}, {"ends", ends}, {"axes", axes}});
  }
  return w.emit("Slice", {w.args[0], w.ints(starts), w.ints(ends), w.ints(axes), w.ints(steps)});
}

Result<std::vector<NodeId>> concat_lower(OnnxCall& c) {
  return one(c.b.op("concat", c.inputs, to_attrs(Axis{c.int_attr("axis", 1)})));
}

Result<std::vector<NodeId>> split_lower(OnnxCall& c) {
  Dims sizes = c.ints_attr("split");
  if (c.version() >= 13 && c.has(1)) {
    auto given = c.ints(1);
    if (!given) return Failure{given.error()};
    sizes = *given;
  }
  int64_t axis = normal_axis(c.int_attr("axis", 0), c.type(0).rank()).value_or_throw();
  int64_t extent = c.type(0).shape[static_cast<size_t>(axis)], n = c.node.outputs;
  if (sizes.empty()) {  // equal parts, the last one may be smaller
    int64_t size = (extent + n - 1) / n;
    for (int64_t i = 0; i < n; ++i)
      sizes.push_back(std::clamp<int64_t>(extent - i * size, 0, size));
  }
  NodeId parts = c.b.op("split", {c.inputs[0]}, Split{axis, sizes});
  return c.b.get_all(parts);
}

std::vector<NodeId> split_raise(OnnxWriter& w) {
  auto a = w.attrs.as<Split>();
  int n = static_cast<int>(a.sizes.size());
  if (w.opset < 13) return w.emit("Split", w.args, {{"axis", a.axis}, {"split", a.sizes}}, n);
  return w.emit("Split", {w.args[0], w.ints(a.sizes)}, {{"axis", a.axis}}, n);
}

Result<std::vector<NodeId>> constant_lower(OnnxCall& c) {
  for (const auto& [name, value] : c.node.attributes.entries()) {
    if (auto* t = value.as<Tensor>()) return one(c.b.constant(*t));
    if (name == "value_float")
      return one(c.b.constant(Tensor::of_real(*value.as<double>(), DType::f32)));
    if (name == "value_int") return one(c.b.constant(Tensor::of_int(*value.as<int64_t>())));
    if (name == "value_ints") return one(c.b.constant(Tensor::of_ints(*value.as<Dims>())));
    if (auto* v = value.as<std::vector<double>>()) {
      return one(c.b.constant(Tensor::of_reals(DType::f32, {static_cast<int64_t>(v->size())}, *v)));
    }
    if (auto* s = value.as<std::string>()) return one(c.b.constant(Tensor::of_strings({}, {*s})));
    if (auto* s = value.as<std::vector<std::string>>()) {
      return one(c.b.constant(Tensor::of_strings({static_cast<int64_t>(s->size())}, *s)));
    }
  }
  return fail("a Constant without a value that is understood");
}

Result<std::vector<NodeId>> shape_lower(OnnxCall& c) {
  Dims shape = c.type(0).shape;
  auto rank = static_cast<int64_t>(shape.size());
  auto bound = [&](int64_t v) { return std::clamp<int64_t>(v < 0 ? v + rank : v, 0, rank); };
  int64_t start = bound(c.int_attr("start", 0)), end = bound(c.int_attr("end", rank));
  Dims part(shape.begin() + start, shape.begin() + std::max(start, end));
  return one(c.b.constant(Tensor::of_ints(part)));
}

Result<std::vector<NodeId>> constant_of_shape_lower(OnnxCall& c) {
  auto shape = c.ints(0);
  if (!shape) return Failure{shape.error()};
  Tensor value = c.node.attributes.get_or<Tensor>("value", Tensor::of_real(0, DType::f32));
  return one(c.b.op("broadcast", {c.b.constant(value.reshaped({}))}, Broadcast{*shape}));
}

}  // namespace

std::vector<OpDef> movement_ops() {
  return {
      define<Reshape>({.name = "reshape",
                       .kind = Kind::movement,
                       .traits = multilinear,
                       .infer = reshape_infer,
                       .means =
                           [](const Reshape& a, Types in) {
                             return move(a.shape, {.operand = 0,
                                                   .index = reshape_index(in[0].shape, a.shape)});
                           },
                       .onnx = {{.type = "Reshape", .lower = reshape_lower, .raise = reshape_raise},
                                {.type = "Squeeze", .lower = squeeze_lower, .lower_only = true},
                                {.type = "Unsqueeze", .lower = unsqueeze_lower, .lower_only = true},
                                {.type = "Flatten", .lower = flatten_lower, .lower_only = true},
                                {.type = "Identity",
                                 .lower = [](OnnxCall& c) -> Result<std::vector<NodeId>> {
                                   return one(c.inputs[0]);
                                 },
                                 .lower_only = true}},
                       .doc = "the same elements in row-major order under another shape"}),
      define<Transpose>(
          {.name = "transpose",
           .kind = Kind::movement,
           .traits = multilinear,
           .infer = transpose_infer,
           .means = transpose_means,
           .onnx =
               {{.type = "Transpose",
                 .lower = transpose_lower,
                 .raise =
                     [](OnnxWriter& w) {
                       return w.emit("Transpose", w.args, {{"perm", w.attrs.as<Transpose>().perm}});
                     }}},
           .doc = "dimension i of the result is dimension perm[i] of the operand"}),
      define<Broadcast>({.name = "broadcast",
                         .kind = Kind::movement,
                         .traits = multilinear,
                         .infer = broadcast_infer,
                         .means =
                             [](const Broadcast& a, Types in) {
                               return move(a.shape, broadcast_read(0, in[0].shape, a.shape.size()));
                             },
                         .onnx = {{.type = "Expand",
                                   .since = 8,
                                   .lower = expand_lower,
                                   .raise =
                                       [](OnnxWriter& w) {
                                         return w.emit("Expand", {w.args[0], w.ints(w.type.shape)});
                                       }},
                                  {.type = "ConstantOfShape",
                                   .since = 9,
                                   .lower = constant_of_shape_lower,
                                   .lower_only = true}},
                         .doc = "repeated to a larger shape by numpy's rule"}),
      define<Slice>({.name = "slice",
                     .kind = Kind::movement,
                     .traits = multilinear,
                     .infer = slice_infer,
                     .means =
                         [](const Slice& a, Types) {
                           Read r;
                           for (size_t d = 0; d < a.starts.size(); ++d) {
                             r.index.push_back(
                                 index_of(static_cast<int>(d), a.steps[d], a.starts[d]));
                           }
                           return move(a.sizes, r);
                         },
                     .onnx = {{.type = "Slice", .lower = slice_lower, .raise = slice_raise}},
                     .doc = "sizes[d] elements of each dimension from starts[d] in steps[d]"}),
      define<Axis>(
          {.name = "concat",
           .min_args = 1,
           .max_args = -1,
           .kind = Kind::movement,
           .traits = raw_moves,
           .infer = concat_infer,
           .means = concat_means,
           .eval = concat_eval,
           .onnx = {{.type = "Concat",
                     .lower = concat_lower,
                     .raise =
                         [](OnnxWriter& w) {
                           return w.emit("Concat", w.args, {{"axis", w.attrs.as<Axis>().axis}});
                         }}},
           .doc = "operands one after the other along an axis"}),
      define<Split>({.name = "split",
                     .kind = Kind::movement,
                     .expand = split_expand,
                     .onnx = {{.type = "Split", .lower = split_lower, .raise = split_raise}},
                     .doc = "a tuple of slices along an axis; the sizes are explicit"}),
      // Values that only the importer sees.
      define<NoAttrs>(
          {.name = "size_of",
           .kind = Kind::movement,
           .infer = [](const NoAttrs&, Types) -> Result<Type> {
             return Type::tensor(DType::i64, {});
           },
           .expand = [](GraphBuilder& b, const NoAttrs&,
                        Args args) { return b.constant(Tensor::of_int(count(b.shape(args[0])))); },
           .onnx = {{"Size"},
                    {.type = "Shape", .lower = shape_lower, .lower_only = true},
                    {.type = "Constant", .lower = constant_lower, .lower_only = true}},
           .doc = "the number of elements, known from the type"}),
  };
}

}  // namespace emend
