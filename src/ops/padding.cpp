// Borders around a tensor, constant or made of its own elements.
#include <algorithm>
#include <numeric>

#include "ops/families.h"
#include "ops/movement.h"
#include "ops/table.h"

namespace emend {

NodeId take_runs(GraphBuilder& b, NodeId x, size_t axis, const Dims& indices) {
  const Dims shape = b.shape(x);
  std::vector<NodeId> runs;
  for (size_t i = 0; i < indices.size();) {
    int64_t step = i + 1 < indices.size() ? indices[i + 1] - indices[i] : 1;
    size_t end = i + 1;
    while (end < indices.size() && indices[end] - indices[end - 1] == step) ++end;
    auto n = static_cast<int64_t>(end - i);
    Slice s{.starts = Dims(shape.size(), 0), .sizes = shape, .steps = Dims(shape.size(), 1)};
    s.starts[axis] = indices[i];
    s.sizes[axis] = step == 0 ? 1 : n;
    s.steps[axis] = step == 0 ? 1 : step;
    Dims repeated = shape;
    repeated[axis] = n;
    NodeId run = b.op("slice", {x}, s);
    runs.push_back(step == 0 ? b.op("broadcast", {run}, Broadcast{repeated}) : run);
    i = end;
  }
  if (runs.size() == 1) return runs[0];
  return b.op("concat", runs, to_attrs(Axis{static_cast<int64_t>(axis)}));
}

namespace {

Result<Type> pad_infer(const Pad& a, Types in) {
  size_t rank = in[0].shape.size();
  if (a.pads.size() != 2 * rank)
    return fail("pad: needs two numbers per dimension of ", shape_text(in[0].shape));
  Dims shape = in[0].shape;
  if (std::ranges::any_of(a.pads, [](int64_t p) { return p > kMaxElements || p < -kMaxElements; }))
    return fail("pad: absurd pads ", shape_text(a.pads));
  for (size_t d = 0; d < rank; ++d) {
    shape[d] += a.pads[d] + a.pads[d + rank];
    if (shape[d] < 0) return fail("pad: crops more than dimension ", d, " has");
  }
  return Type::tensor(in[0].dtype, shape);
}

// Which element of n stands at position i, for i beyond both ends.
int64_t mirrored(const std::string& mode, int64_t i, int64_t n) {
  auto modulo = [](int64_t a, int64_t m) { return ((a % m) + m) % m; };
  if (mode == "edge" || n == 1) return std::clamp<int64_t>(i, 0, n - 1);
  if (mode == "wrap") return modulo(i, n);
  int64_t at = modulo(i, 2 * (n - 1));
  return at < n ? at : 2 * (n - 1) - at;
}

// Borders are lists of indices while they are made.
constexpr int64_t kMaxBorder = int64_t{1} << 22;

NodeId border_expand(GraphBuilder& b, const Border& a, Args args) {
  NodeId x = args[0];
  size_t rank = b.shape(x).size();
  if (a.pads.size() != 2 * rank)
    throw Error(str("needs two numbers per dimension of ", shape_text(b.shape(x))));
  if (a.mode != "edge" && a.mode != "reflect" && a.mode != "wrap")
    throw Error(str("unknown mode ", a.mode));
  for (size_t d = 0; d < rank; ++d) {
    int64_t before = a.pads[d], after = a.pads[d + rank], n = b.shape(x)[d];
    if (before == 0 && after == 0) continue;
    if (before < 0 || after < 0) throw Error("a border is never negative");
    if (n == 0) throw Error(str("dimension ", d, " has no elements to make a border of"));
    if (std::max(before, after) > kMaxBorder || n > kMaxBorder)
      throw Error(str("absurd pads ", shape_text(a.pads)));
    Dims indices;
    for (int64_t i = -before; i < n + after; ++i) indices.push_back(mirrored(a.mode, i, n));
    x = take_runs(b, x, d, indices);
  }
  return x;
}

// --- ONNX ---

// Pads of the given axes as pads of all dimensions.
Dims spread_pads(const Dims& pads, const Dims& axes, int64_t rank) {
  if (pads.size() != 2 * axes.size()) throw Error("Pad: needs two pads per axis");
  Dims all(2 * static_cast<size_t>(rank), 0);
  for (size_t i = 0; i < axes.size(); ++i) {
    auto d = static_cast<size_t>(normal_axis(axes[i], rank).value_or_throw());
    all[d] = pads[i];
    all[d + static_cast<size_t>(rank)] = pads[i + axes.size()];
  }
  return all;
}

Result<std::vector<NodeId>> pad_lower(OnnxCall& c) {
  int64_t rank = c.type(0).rank();
  Dims pads = c.ints_attr("pads"), axes(static_cast<size_t>(rank));
  double value = c.real_attr("value", 0);
  std::iota(axes.begin(), axes.end(), 0);
  if (c.version() >= 11) {
    auto given = c.ints(1);
    if (!given) return Failure{given.error()};
    pads = *given;
    if (c.has(2)) {
      auto constant = c.value(2);
      if (!constant) return fail("the border's value is not known before run time");
      if (constant->count() > 0) value = constant->real(0);
    }
    if (c.has(3)) {
      auto which = c.ints(3);
      if (!which) return Failure{which.error()};
      axes = *which;
    }
  }
  pads = spread_pads(pads, axes, rank);
  std::string mode = c.text_attr("mode", "constant");
  if (mode == "constant") return std::vector{c.b.op("pad", {c.inputs[0]}, Pad{pads, value})};
  Border border{pads, mode};
  Pad crop{.pads = pads};
  for (int64_t& p : border.pads) p = std::max<int64_t>(p, 0);
  for (int64_t& p : crop.pads) p = std::min<int64_t>(p, 0);
  NodeId y = c.b.op("border", {c.inputs[0]}, border);
  if (crop.pads != Dims(crop.pads.size(), 0)) y = c.b.op("pad", {y}, crop);
  return std::vector{y};
}

// Crop or pad every axis around its middle; an odd element goes to the end.
Result<std::vector<NodeId>> center_lower(OnnxCall& c) {
  auto shape = c.ints(1);
  if (!shape) return Failure{shape.error()};
  const Dims& from = c.type(0).shape;
  Dims axes(from.size());
  std::iota(axes.begin(), axes.end(), 0);
  axes = c.ints_attr("axes", axes);
  if (axes.size() != shape->size()) throw Error("CenterCropPad: needs one size per axis");
  Pad a{.pads = Dims(2 * from.size(), 0)};
  for (size_t i = 0; i < axes.size(); ++i) {
    auto d = static_cast<size_t>(normal_axis(axes[i], c.type(0).rank()).value_or_throw());
    if ((*shape)[i] < 0 || (*shape)[i] > kMaxElements)
      throw Error(str("CenterCropPad to ", shape_text(*shape)));
    int64_t more = (*shape)[i] - from[d];
    a.pads[d] = more / 2;  // towards zero: of an odd crop, the end loses one more
    a.pads[d + from.size()] = more - more / 2;
  }
  return std::vector{c.b.op("pad", {c.inputs[0]}, a)};
}

std::vector<NodeId> pad_raise(OnnxWriter& w) {
  auto a = w.attrs.as<Pad>();
  if (w.opset < 11)
    return w.emit("Pad", w.args, {{"mode", "constant"}, {"pads", a.pads}, {"value", a.value}});
  NodeId value = w.b.constant(Tensor::of_real(a.value, w.type.dtype));
  return w.emit("Pad", {w.args[0], w.ints(a.pads), value}, {{"mode", "constant"}});
}

std::vector<NodeId> border_raise(OnnxWriter& w) {
  auto a = w.attrs.as<Border>();
  if (a.mode == "wrap" && w.opset < 19) return {};
  if (w.opset < 11) return w.emit("Pad", w.args, {{"mode", a.mode}, {"pads", a.pads}});
  return w.emit("Pad", {w.args[0], w.ints(a.pads)}, {{"mode", a.mode}});
}

}  // namespace

std::vector<OpDef> padding_ops() {
  return {
      define<Pad>(
          {.name = "pad",
           .kind = Kind::movement,
           .infer = pad_infer,
           .means =
               [](const Pad& a, Types in) {
                 Meaning m;
                 m.out = pad_infer(a, in).value_or_throw().shape;
                 Read r{.operand = 0, .outside = a.value};
                 for (size_t d = 0; d < in[0].shape.size(); ++d) {
                   r.index.push_back(index_of(static_cast<int>(d), 1, -a.pads[d]));
                 }
                 m.reads = {r};
                 return m;
               },
           .onnx =
               {{.type = "Pad", .lower = pad_lower, .raise = pad_raise},
                {.type = "CenterCropPad", .since = 18, .lower = center_lower, .lower_only = true}},
           .doc = "constant border: pads are begins, then ends; negative ones crop"}),
      define<Border>({.name = "border",
                      .kind = Kind::movement,
                      .traits = multilinear,
                      .expand = border_expand,
                      .onnx = {{.type = "Pad", .raise = border_raise}},
                      .doc = "border of the tensor's own elements: edge, reflect or wrap"}),
  };
}

}  // namespace emend
