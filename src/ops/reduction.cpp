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

// A reduction: how elements are combined, what is done to each before and to the result after.
struct Reduction {
  std::string name;
  std::string onnx;
  Reduce how;
  int axes_input_since = 18;
  uint32_t traits = 0;
  Scalar body = arg(0), finish = arg(0);
  bool mean = false;
  std::string alone = {};  // the operator that is left when nothing is reduced; none: the operand
  std::string doc;
};

Meaning reduce_means(const Along& a, Types in, const Reduction& r) {
  auto reduced = reduced_dims(a, in[0].rank()).value_or_throw();
  Meaning m;
  m.out = reduce_infer(a, in).value_or_throw().shape;
  m.reduce = r.how;
  int next_out = 0, next_reduced = static_cast<int>(m.out.size());
  Read read;
  for (size_t d = 0; d < in[0].shape.size(); ++d) {
    if (reduced[d]) {
      m.reduced.push_back(in[0].shape[d]);
      read.index.push_back(index_of(next_reduced++));
      if (a.keepdims) ++next_out;
    } else {
      read.index.push_back(index_of(next_out++));
    }
  }
  m.reads = {read};
  m.body = r.body;
  m.finish = r.mean ? arg(0) / Scalar(static_cast<double>(count(m.reduced))) : r.finish;
  return m;
}

// axes as attribute or input; with noop_with_empty_axes an empty list means no axis at all: then
// only what is done to each element remains.
Result<std::vector<NodeId>> reduce_lower(OnnxCall& c, const std::string& op, int axes_input_since,
                                         const std::string& alone) {
  Dims axes = c.ints_attr("axes");
  if (c.version() >= axes_input_since && c.has(1)) {
    auto given = c.ints(1);
    if (!given) return Failure{given.error()};
    axes = *given;
  }
  NodeId x = c.inputs.at(0);
  if (axes.empty() && c.int_attr("noop_with_empty_axes", 0)) {
    if (alone.empty()) return std::vector{x};
    return std::vector{alone == "mul" ? c.b.op(alone, {x, x}) : c.b.op(alone, {x})};
  }
  return std::vector{c.b.op(op, {x}, Along{axes, c.int_attr("keepdims", 1) != 0})};
}

// Over all places of each channel of images: runtimes that lay those out in blocks of channels have
// a kernel for the pool, not for the reduction.
bool is_global_pool(const OnnxWriter& w, const Along& a) {
  const Type& x = w.types[0];
  if (!a.keepdims || x.dtype != DType::f32 || x.rank() != 4) return false;
  Dims axes = normal_axes(a.axes, x.rank()).value_or_throw();
  return axes == Dims{2, 3};
}

std::vector<NodeId> reduce_raise(OnnxWriter& w, const std::string& onnx, int axes_input_since) {
  auto a = w.attrs.as<Along>();
  if (onnx == "ReduceMean" && is_global_pool(w, a)) return w.emit("GlobalAveragePool", w.args);
  std::vector<Attrs::Entry> attributes = {{"keepdims", int64_t{a.keepdims}}};
  std::vector<NodeId> in = w.args;
  if (!a.axes.empty() && w.opset >= axes_input_since) in.push_back(w.ints(a.axes));
  if (!a.axes.empty() && w.opset < axes_input_since) attributes.emplace_back("axes", a.axes);
  return w.emit(onnx, in, attributes);
}

OnnxRow reduce_row(const std::string& op, const std::string& onnx, int axes_input_since,
                   const std::string& alone) {
  return {.type = onnx,
          .lower = [=](OnnxCall& c) { return reduce_lower(c, op, axes_input_since, alone); },
          .raise = [=](OnnxWriter& w) { return reduce_raise(w, onnx, axes_input_since); }};
}

OpDef reduction(const Reduction& r) {
  return define<Along>({.name = r.name,
                        .kind = Kind::reduction,
                        .traits = r.traits,
                        .infer = reduce_infer,
                        .means = [r](const Along& a, Types in) { return reduce_means(a, in, r); },
                        .onnx = {reduce_row(r.name, r.onnx, r.axes_input_since, r.alone)},
                        .doc = r.doc + " along axes (all if none are given)"});
}

// Shifted by the largest element so that exp does not overflow; where that is infinite, not at all.
NodeId log_sum_exp_expand(GraphBuilder& b, const Along& a, Args args) {
  DType t = b.dtype(args[0]);
  if (!is_float(t)) throw Error(str("a logarithm is not one of ", to_text(t)));
  Along kept{a.axes, true};
  NodeId top = b.op("reduce_max", {args[0]}, kept);
  NodeId shift = b.op("where", {b.op("is_inf", {top}), b.scalar(0, t), top});
  NodeId sum = b.op("reduce_sum", {b.op("exp", {b.op("sub", {args[0], shift})})}, kept);
  NodeId result = b.op("add", {b.op("log", {sum}), shift});
  if (a.keepdims) return result;
  Type in = b.type(args[0]);
  Dims shape = reduce_infer(a, Types(&in, 1)).value_or_throw().shape;
  return b.op("reshape", {result}, Attrs({{"shape", shape}}));
}

}  // namespace

std::vector<OpDef> reduction_ops() {
  const Scalar x = arg(0);
  // clang-format off
  return {
      reduction({.name = "reduce_sum",  .onnx = "ReduceSum",  .how = Reduce::sum, .axes_input_since = 13, .traits = multilinear, .doc = "sum"}),
      reduction({.name = "reduce_mean", .onnx = "ReduceMean", .how = Reduce::sum, .traits = multilinear, .mean = true, .doc = "mean"}),
      reduction({.name = "reduce_max",  .onnx = "ReduceMax",  .how = Reduce::max, .doc = "max"}),
      reduction({.name = "reduce_min",  .onnx = "ReduceMin",  .how = Reduce::min, .doc = "min"}),
      reduction({.name = "reduce_prod", .onnx = "ReduceProd", .how = Reduce::product, .doc = "product"}),
      reduction({.name = "reduce_l1",   .onnx = "ReduceL1",   .how = Reduce::sum, .body = abs(x), .alone = "abs", .doc = "sum of absolute values"}),
      reduction({.name = "reduce_l2",   .onnx = "ReduceL2",   .how = Reduce::sum, .body = x * x, .finish = sqrt(x), .alone = "abs", .doc = "root of the sum of squares"}),
      reduction({.name = "reduce_sum_square", .onnx = "ReduceSumSquare", .how = Reduce::sum, .body = x * x, .alone = "mul", .doc = "sum of squares"}),
      reduction({.name = "reduce_log_sum", .onnx = "ReduceLogSum", .how = Reduce::sum, .finish = log(x), .alone = "log", .doc = "logarithm of the sum"}),
      define<Along>({.name = "reduce_log_sum_exp",
                     .expand = log_sum_exp_expand,
                     .onnx = {reduce_row("reduce_log_sum_exp", "ReduceLogSumExp", 18, "")},
                     .doc = "logarithm of the sum of exponentials along axes (all if none are given)"}),
  };
  // clang-format on
}

}  // namespace emend
