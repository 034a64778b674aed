// Composites read like formulas: an Expr is a node of a graph under construction together with its
// builder, so that arithmetic makes nodes.
//
//   Expr centred = x - mean(x, axes);
//   return centred / sqrt(mean(centred * centred, axes) + epsilon) * scale + bias;
//
// A number beside an Expr is a constant of the Expr's dtype. Reductions keep their dimensions, so
// that results broadcast against what they came from.
#pragma once

#include <initializer_list>
#include <string_view>
#include <vector>

#include "ops/build.h"

namespace emend {

class Expr {
 public:
  Expr(GraphBuilder& b, NodeId id) : b_(&b), id_(id) {}

  operator NodeId() const { return id_; }
  NodeId id() const { return id_; }
  GraphBuilder& builder() const { return *b_; }
  // By value: what is built next may move the graph's storage.
  Dims shape() const { return b_->shape(id_); }
  int64_t dim(size_t i) const { return b_->shape(id_).at(i); }
  int64_t rank() const { return b_->type(id_).rank(); }
  DType dtype() const { return b_->dtype(id_); }
  // A constant of this one's dtype.
  Expr number(double value) const { return {*b_, b_->scalar(value, dtype())}; }

 private:
  GraphBuilder* b_;
  NodeId id_;
};

std::vector<Expr> exprs(GraphBuilder& b, Args args);
Expr apply(std::string_view op, std::initializer_list<Expr> args, Attrs attrs = {});

Expr operator+(const Expr& a, const Expr& b);
Expr operator-(const Expr& a, const Expr& b);
Expr operator*(const Expr& a, const Expr& b);
Expr operator/(const Expr& a, const Expr& b);
Expr operator-(const Expr& a);
inline Expr operator+(const Expr& a, double b) {
  return a + a.number(b);
}
inline Expr operator*(const Expr& a, double b) {
  return a * a.number(b);
}
inline Expr operator/(const Expr& a, double b) {
  return a / a.number(b);
}

Expr exp(const Expr& x);
Expr log(const Expr& x);
Expr sqrt(const Expr& x);
Expr tanh(const Expr& x);
Expr abs(const Expr& x);
Expr pow(const Expr& x, double exponent);
Expr equal(const Expr& a, const Expr& b);
Expr less(const Expr& a, const Expr& b);
Expr where(const Expr& condition, const Expr& yes, const Expr& no);
Expr matmul(const Expr& a, const Expr& b);

// `axes` are not empty.
Expr sum(const Expr& x, const Dims& axes);
Expr mean(const Expr& x, const Dims& axes);
Expr max(const Expr& x, const Dims& axes);
Expr min(const Expr& x, const Dims& axes);

// Where nothing would change these return their operand.
Expr reshape(const Expr& x, const Dims& shape);
Expr broadcast(const Expr& x, const Dims& shape);
Expr cast(const Expr& x, DType to);
Expr transpose(const Expr& x, const Dims& perm);
Expr concat(std::initializer_list<Expr> parts, int64_t axis);
// `size` elements of one axis from `start`.
Expr slice(const Expr& x, size_t axis, int64_t start, int64_t size);

// 0, 1, .. n-1 along one axis of a tensor of that rank, 1 elsewhere.
Expr counting(GraphBuilder& b, int64_t n, DType dtype, size_t rank = 1, size_t axis = 0);

}  // namespace emend
