#include "ops/compose.h"

#include "ops/movement.h"

namespace emend {
namespace {

Expr reduce(std::string_view op, const Expr& x, const Dims& axes) {
  EMEND_ASSERT(!axes.empty(), op, " along no axes would mean along all");
  return apply(op, {x}, Attrs({{"axes", axes}, {"keepdims", true}}));
}

}  // namespace

std::vector<Expr> exprs(GraphBuilder& b, Args args) {
  std::vector<Expr> all;
  for (NodeId a : args) all.emplace_back(b, a);
  return all;
}

Expr apply(std::string_view op, std::initializer_list<Expr> args, Attrs attrs) {
  GraphBuilder& b = args.begin()->builder();
  std::vector<NodeId> ids(args.begin(), args.end());
  return {b, b.op(op, ids, attrs)};
}

Expr operator+(const Expr& a, const Expr& b) {
  return apply("add", {a, b});
}
Expr operator-(const Expr& a, const Expr& b) {
  return apply("sub", {a, b});
}
Expr operator*(const Expr& a, const Expr& b) {
  return apply("mul", {a, b});
}
Expr operator/(const Expr& a, const Expr& b) {
  return apply("div", {a, b});
}
Expr operator-(const Expr& a) {
  return apply("neg", {a});
}
Expr exp(const Expr& x) {
  return apply("exp", {x});
}
Expr log(const Expr& x) {
  return apply("log", {x});
}
Expr sqrt(const Expr& x) {
  return apply("sqrt", {x});
}
Expr tanh(const Expr& x) {
  return apply("tanh", {x});
}
Expr abs(const Expr& x) {
  return apply("abs", {x});
}
Expr pow(const Expr& x, double exponent) {
  return apply("pow", {x, x.number(exponent)});
}
Expr equal(const Expr& a, const Expr& b) {
  return apply("equal", {a, b});
}
Expr less(const Expr& a, const Expr& b) {
  return apply("less", {a, b});
}
Expr where(const Expr& condition, const Expr& yes, const Expr& no) {
  return apply("where", {condition, yes, no});
}
Expr matmul(const Expr& a, const Expr& b) {
  return apply("matmul", {a, b});
}

Expr sum(const Expr& x, const Dims& axes) {
  return reduce("reduce_sum", x, axes);
}
Expr mean(const Expr& x, const Dims& axes) {
  return reduce("reduce_mean", x, axes);
}
Expr max(const Expr& x, const Dims& axes) {
  return reduce("reduce_max", x, axes);
}
Expr min(const Expr& x, const Dims& axes) {
  return reduce("reduce_min", x, axes);
}

Expr reshape(const Expr& x, const Dims& shape) {
  return x.shape() == shape ? x : apply("reshape", {x}, to_attrs(Reshape{shape}));
}
Expr broadcast(const Expr& x, const Dims& shape) {
  return x.shape() == shape ? x : apply("broadcast", {x}, to_attrs(Broadcast{shape}));
}
Expr cast(const Expr& x, DType to) {
  return x.dtype() == to ? x : apply("cast", {x}, Attrs({{"to", to}}));
}
Expr transpose(const Expr& x, const Dims& perm) {
  return apply("transpose", {x}, to_attrs(Transpose{perm}));
}
Expr concat(std::initializer_list<Expr> parts, int64_t axis) {
  return apply("concat", parts, to_attrs(Axis{axis}));
}
Expr slice(const Expr& x, size_t axis, int64_t start, int64_t size) {
  Dims shape = x.shape();
  if (start == 0 && size == shape.at(axis)) return x;
  Slice s{.starts = Dims(shape.size(), 0), .sizes = shape, .steps = Dims(shape.size(), 1)};
  s.starts[axis] = start;
  s.sizes[axis] = size;
  return apply("slice", {x}, to_attrs(s));
}

Expr counting(GraphBuilder& b, int64_t n, DType dtype, size_t rank, size_t axis) {
  Dims shape(rank, 1);
  shape.at(axis) = n;
  return {b, b.constant(Tensor::make(dtype, shape, [&](std::byte* out) {
            for (int64_t i = 0; i < n; ++i) store_int(dtype, out, static_cast<size_t>(i), i);
          }))};
}

}  // namespace emend
