// Composites read like formulas: a Formula is a node of a graph under construction together with
// its builder, so that arithmetic makes nodes.
//
//   Formula centred = x - mean(x, axes);
//   return centred / sqrt(mean(centred * centred, axes) + epsilon) * scale + bias;
//
// A number beside a Formula is a constant of the Formula's dtype. Reductions keep their dimensions,
// so that results broadcast against what they came from.
#pragma once

#include <initializer_list>
#include <string_view>
#include <vector>

#include "ops/build.h"

namespace emend {

class Formula {
 public:
  Formula(GraphBuilder& b, NodeId id) : b_(&b), id_(id) {}

  operator NodeId() const { return id_; }
  NodeId id() const { return id_; }
  GraphBuilder& builder() const { return *b_; }
  // By value: what is built next may move the graph's storage.
  Dims shape() const { return b_->shape(id_); }
  int64_t dim(size_t i) const { return b_->shape(id_).at(i); }
  int64_t rank() const { return b_->type(id_).rank(); }
  DType dtype() const { return b_->dtype(id_); }
  // A constant of this one's dtype.
  Formula number(double value) const { return {*b_, b_->scalar(value, dtype())}; }

 private:
  GraphBuilder* b_;
  NodeId id_;
};

std::vector<Formula> formulas(GraphBuilder& b, Args args);
Formula apply(std::string_view op, std::initializer_list<Formula> args, Attrs attrs = {});

Formula operator+(const Formula& a, const Formula& b);
Formula operator-(const Formula& a, const Formula& b);
Formula operator*(const Formula& a, const Formula& b);
Formula operator/(const Formula& a, const Formula& b);
Formula operator-(const Formula& a);
inline Formula operator+(const Formula& a, double b) {
  return a + a.number(b);
}
inline Formula operator*(const Formula& a, double b) {
  return a * a.number(b);
}
inline Formula operator/(const Formula& a, double b) {
  return a / a.number(b);
}

Formula exp(const Formula& x);
Formula log(const Formula& x);
Formula sqrt(const Formula& x);
Formula tanh(const Formula& x);
Formula abs(const Formula& x);
Formula equal(const Formula& a, const Formula& b);
Formula less(const Formula& a, const Formula& b);
Formula where(const Formula& condition, const Formula& yes, const Formula& no);
Formula matmul(const Formula& a, const Formula& b);

// `axes` are not empty.
Formula sum(const Formula& x, const Dims& axes);
Formula mean(const Formula& x, const Dims& axes);
Formula max(const Formula& x, const Dims& axes);
Formula min(const Formula& x, const Dims& axes);

// Where nothing would change these return their operand.
Formula reshape(const Formula& x, const Dims& shape);
Formula broadcast(const Formula& x, const Dims& shape);
Formula cast(const Formula& x, DType to);
// The type that squares and their sums are computed in: narrower floats have no room for them.
inline DType roomy(DType t) {
  return info(t).bits < 32 ? DType::f32 : t;
}
Formula transpose(const Formula& x, const Dims& perm);
Formula concat(std::initializer_list<Formula> parts, int64_t axis);
// `size` elements of one axis from `start`.
Formula slice(const Formula& x, size_t axis, int64_t start, int64_t size);

// 0, 1, .. n-1 along one axis of a tensor of that rank, 1 elsewhere.
Formula counting(GraphBuilder& b, int64_t n, DType dtype, size_t rank = 1, size_t axis = 0);

}  // namespace emend
