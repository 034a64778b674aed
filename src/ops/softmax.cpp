// Normalised exponentials along one axis. Before opset 13 ONNX flattens the operand to a matrix
// around `axis` and normalises its rows.
#include <numeric>

#include "ops/compose.h"
#include "ops/composite.h"
#include "ops/families.h"
#include "ops/table.h"

namespace emend {
namespace {

Dims the_axis(const Softmax& a, const Formula& x) {
  return {normal_axis(a.axis, x.rank()).value_or_throw()};
}

NodeId softmax_expand(GraphBuilder& b, const Softmax& a, Args args) {
  Formula x(b, args[0]);
  Dims axis = the_axis(a, x);
  Formula e = exp(x - max(x, axis));
  return e / sum(e, axis);
}

NodeId log_softmax_expand(GraphBuilder& b, const Softmax& a, Args args) {
  Formula x(b, args[0]);
  Dims axis = the_axis(a, x);
  Formula shifted = x - max(x, axis);
  return shifted - log(sum(exp(shifted), axis));
}

// One at the first of the largest: the smallest place whose element equals the maximum.
NodeId hardmax_expand(GraphBuilder& b, const Softmax& a, Args args) {
  Formula x(b, args[0]);
  Dims axis = the_axis(a, x);
  auto k = static_cast<size_t>(axis[0]);
  int64_t extent = x.dim(k);
  Formula places = counting(b, extent, DType::i64, x.shape().size(), k);
  Formula first =
      min(where(equal(x, max(x, axis)), places, places.number(static_cast<double>(extent))), axis);
  return where(equal(places, first), x.number(1), x.number(0));
}

Result<std::vector<NodeId>> softmax_lower(OnnxCall& c, const std::string& op) {
  Formula x(c.b, c.inputs.at(0));
  Dims shape = x.shape();
  int64_t rank = x.rank();
  if (c.version() >= 13) {
    int64_t axis = normal_axis(c.int_attr("axis", -1), rank).value_or_throw();
    return std::vector{apply(op, {x}, to_attrs(Softmax{axis})).id()};
  }
  auto axis = static_cast<size_t>(normal_axis(c.int_attr("axis", 1), rank).value_or_throw());
  if (axis + 1 == shape.size())
    return std::vector{apply(op, {x}, to_attrs(Softmax{rank - 1})).id()};
  Dims matrix = {count(std::span(shape).first(axis)), count(std::span(shape).subspan(axis))};
  Formula rows = apply(op, {reshape(x, matrix)}, to_attrs(Softmax{1}));
  return std::vector{reshape(rows, shape).id()};
}

// Before opset 13 all dimensions from the axis on count: it means the same where only ones follow;
// any other axis is moved to the end and back.
std::vector<NodeId> softmax_raise(OnnxWriter& w, const std::string& type) {
  int64_t rank = w.type.rank();
  int64_t axis = normal_axis(w.attrs.as<Softmax>().axis, rank).value_or_throw();
  bool last = count(std::span(w.type.shape).subspan(static_cast<size_t>(axis) + 1)) == 1;
  if (w.opset >= 13 || last) return w.emit(type, w.args, {{"axis", axis}});
  Dims swap(static_cast<size_t>(rank));
  std::iota(swap.begin(), swap.end(), 0);
  std::swap(swap[static_cast<size_t>(axis)], swap.back());
  auto moved = w.emit("Transpose", w.args, {{"perm", swap}});
  return w.emit("Transpose", w.emit(type, moved, {{"axis", rank - 1}}), {{"perm", swap}});
}

OpDef along_axis(const std::string& name, const std::string& onnx, const std::string& doc,
                 std::function<NodeId(GraphBuilder&, const Softmax&, Args)> expand) {
  return define<Softmax>(
      {.name = name,
       .expand = std::move(expand),
       .onnx = {{.type = onnx,
                 .lower = [name](OnnxCall& c) { return softmax_lower(c, name); },
                 .raise = [onnx](OnnxWriter& w) { return softmax_raise(w, onnx); }}},
       .doc = doc});
}

}  // namespace

std::vector<OpDef> softmax_ops() {
  return {
      along_axis("softmax", "Softmax", "exp(x - max) / sum of it, along an axis", softmax_expand),
      along_axis("log_softmax", "LogSoftmax", "logarithm of softmax, without overflow",
                 log_softmax_expand),
      along_axis("hardmax", "Hardmax", "1 at the first of the largest along an axis, 0 elsewhere",
                 hardmax_expand),
  };
}

}  // namespace emend
