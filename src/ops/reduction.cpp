// Reductions along axes. ONNX's `axes` became an input in opset 13 (sum) and 18 (the others).
#include "ops/families.h"
#include "ops/table.h"

namespace emend {
namespace {

struct Along {
  Dims axes;  // empty: all of them
  bool keepdims = true;
  EMEND_FIELDS(axes, keepdims)
};

// Per dimension, whether it is reduced.
Result<std::vector<bool>> reduced_dims(const Along& a, int64_t rank) {
  std::vector<bool> reduced(static_cast<size_t>(rank), a.axes.empty());
  auto axes = normal_axes(a.axes, rank);
  if (!axes) return Failure{axes.error()};
  for (int64_t axis : *axes) reduced[static_cast<size_t>(axis)] = true;
  return reduced;
}

Result<Type> reduce_infer(const Along& a, Types in) {
  auto reduced = reduced_dims(a, in[0].rank());
  if (!reduced) return Failure{reduced.error()};
  Dims shape;
  for (size_t d = 0; d < in[0].shape.size(); ++d) {
    if (!(*reduced)[d])
      shape.push_back(in[0].shape[d]);
    else if (a.keepdims)
      shape.push_back(1);
  }
  return Type::tensor(in[0].dtype, std::move(shape));
}

Meaning reduce_means(const Along& a, Types in, Reduce how, bool mean) {
  auto reduced = reduced_dims(a, in[0].rank()).value_or_throw();
  Meaning m;
  m.out = reduce_infer(a, in).value_or_throw().shape;
  m.reduce = how;
  int next_out = 0, next_reduced = static_cast<int>(m.out.size());
  Read r;
  for (size_t d = 0; d < in[0].shape.size(); ++d) {
    if (reduced[d]) {
      m.reduced.push_back(in[0].shape[d]);
      r.index.push_back(index_of(next_reduced++));
      if (a.keepdims) ++next_out;
    } else {
      r.index.push_back(index_of(next_out++));
    }
  }
  m.reads = {r};
  if (mean) m.finish = arg(0) / Scalar(static_cast<double>(count(m.reduced)));
  return m;
}

// axes as attribute or input; with noop_with_empty_axes an empty list means no reduction at all.
Result<std::vector<NodeId>> reduce_lower(OnnxCall& c, const std::string& op, int axes_input_since) {
  Dims axes = c.ints_attr("axes");
  if (c.version() >= axes_input_since && c.has(1)) {
    auto given = c.ints(1);
    if (!given) return Failure{given.error()};
    axes = *given;
  }
  if (axes.empty() && c.int_attr("noop_with_empty_axes", 0)) return std::vector{c.inputs[0]};
  return std::vector{c.b.op(op, {c.inputs[0]}, Along{axes, c.int_attr("keepdims", 1) != 0})};
}

OpDef reduction(const std::string& name, Reduce how, bool mean, const std::string& onnx,
                int axes_input_since, uint32_t traits) {
  return define<Along>(
      {.name = name,
       .kind = Kind::reduction,
       .traits = traits,
       .infer = reduce_infer,
       .means = [how, mean](const Along& a, Types in) { return reduce_means(a, in, how, mean); },
       .onnx = {{.type = onnx,
                 .lower = [name, axes_input_since](
                              OnnxCall& c) { return reduce_lower(c, name, axes_input_since); },
                 .raise =
                     [onnx, axes_input_since](OnnxWriter& w) {
                       auto a = w.attrs.as<Along>();
                       int64_t keep = a.keepdims;
                       if (w.opset >= axes_input_since) {
                         std::vector<NodeId> in = w.args;
                         if (!a.axes.empty()) in.push_back(w.ints(a.axes));
                         return w.emit(onnx, in, {{"keepdims", keep}});
                       }
                       std::vector<Attrs::Entry> attributes = {{"keepdims", keep}};
                       if (!a.axes.empty()) attributes.emplace_back("axes", a.axes);
                       return w.emit(onnx, w.args, attributes);
                     }}},
       .doc = str(mean ? "mean" : to_text(how), " along axes (all if none are given)")});
}

}  // namespace

std::vector<OpDef> reduction_ops() {
  return {
      reduction("reduce_sum", Reduce::sum, false, "ReduceSum", 13, multilinear),
      reduction("reduce_mean", Reduce::sum, true, "ReduceMean", 18, multilinear),
      reduction("reduce_max", Reduce::max, false, "ReduceMax", 18, 0),
      reduction("reduce_min", Reduce::min, false, "ReduceMin", 18, 0),
      reduction("reduce_prod", Reduce::product, false, "ReduceProd", 18, 0),
  };
}

}  // namespace emend
