#include "ops/compose.h"

#include "ops/index.h"
#include "ops/movement.h"

namespace emend {
namespace {

Formula reduce(std::string_view op, const Formula& x, const Dims& axes) {
  EMEND_ASSERT(!axes.empty(), op, " along no axes would mean along all");
  return apply(op, {x}, Attrs({{"axes", axes}, {"keepdims", true}}));
}

}  // namespace

std::vector<Formula> formulas(GraphBuilder& b, Args args) {
  std::vector<Formula> all;
  for (NodeId a : args) all.emplace_back(b, a);
  return all;
}

Formula apply(std::string_view op, std::initializer_list<Formula> args, Attrs attrs) {
  GraphBuilder& b = args.begin()->builder();
  std::vector<NodeId> ids(args.begin(), args.end());
  return {b, b.op(op, ids, attrs)};
}

Formula operator+(const Formula& a, const Formula& b) {
  return apply("add", {a, b});
}
Formula operator-(const Formula& a, const Formula& b) {
  return apply("sub", {a, b});
}
Formula operator*(const Formula& a, const Formula& b) {
  return apply("mul", {a, b});
}
Formula operator/(const Formula& a, const Formula& b) {
  return apply("div", {a, b});
}
Formula operator-(const Formula& a) {
  return apply("neg", {a});
}
Formula exp(const Formula& x) {
  return apply("exp", {x});
}
Formula log(const Formula& x) {
  return apply("log", {x});
}
Formula sqrt(const Formula& x) {
  return apply("sqrt", {x});
}
Formula tanh(const Formula& x) {
  return apply("tanh", {x});
}
Formula abs(const Formula& x) {
  return apply("abs", {x});
}
Formula equal(const Formula& a, const Formula& b) {
  return apply("equal", {a, b});
}
Formula less(const Formula& a, const Formula& b) {
  return apply("less", {a, b});
}
Formula where(const Formula& condition, const Formula& yes, const Formula& no) {
  return apply("where", {condition, yes, no});
}
Formula matmul(const Formula& a, const Formula& b) {
  return apply("matmul", {a, b});
}

Formula sum(const Formula& x, const Dims& axes) {
  return reduce("reduce_sum", x, axes);
}
Formula mean(const Formula& x, const Dims& axes) {
  return reduce("reduce_mean", x, axes);
}
Formula max(const Formula& x, const Dims& axes) {
  return reduce("reduce_max", x, axes);
}
Formula min(const Formula& x, const Dims& axes) {
  return reduce("reduce_min", x, axes);
}

Formula reshape(const Formula& x, const Dims& shape) {
  return x.shape() == shape ? x : apply("reshape", {x}, to_attrs(Reshape{shape}));
}
Formula broadcast(const Formula& x, const Dims& shape) {
  return x.shape() == shape ? x : apply("broadcast", {x}, to_attrs(Broadcast{shape}));
}
Formula cast(const Formula& x, DType to) {
  return x.dtype() == to ? x : apply("cast", {x}, Attrs({{"to", to}}));
}
Formula transpose(const Formula& x, const Dims& perm) {
  return apply("transpose", {x}, to_attrs(Transpose{perm}));
}
Formula concat(std::initializer_list<Formula> parts, int64_t axis) {
  return apply("concat", parts, to_attrs(Axis{axis}));
}
Formula slice(const Formula& x, size_t axis, int64_t start, int64_t size) {
  Dims shape = x.shape();
  if (start == 0 && size == shape.at(axis)) return x;
  Slice s{.starts = Dims(shape.size(), 0), .sizes = shape, .steps = Dims(shape.size(), 1)};
  s.starts[axis] = start;
  s.sizes[axis] = size;
  return apply("slice", {x}, to_attrs(s));
}

Formula counting(GraphBuilder& b, int64_t n, DType dtype, size_t rank, size_t axis) {
  return {b, iota_along(b, n, axis, rank, dtype)};
}

}  // namespace emend
