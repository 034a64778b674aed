// What the operators of a family share: broadcasting, result types, meanings of elementwise
// bodies, and small helpers that keep the records of ops/*.cpp short.
#pragma once

#include <string>
#include <vector>

#include "ops/build.h"
#include "ops/op_def.h"

namespace emend {

// The shape that operands broadcast to by numpy's rule, or why they do not.
Result<Dims> broadcast_shapes(std::span<const Dims> shapes);
Result<Dims> broadcast_shapes(const Dims& a, const Dims& b);
// How an operand of this shape is read at output position (i0, i1, ...) when it is broadcast to a
// result of that rank, whose iterators begin at `first`.
Read broadcast_read(int operand, const Dims& shape, size_t rank, int first = 0);

// The meaning of a node whose record has a body or means.
Meaning meaning_of(const OpDef& def, Attrs attrs, Types types);
// The graph that a composite stands for: inputs x0.. of these types, outputs y0.. .
Graph expansion(const OpDef& def, Attrs attrs, Types types);

// For -1 <= axis < 0 and so on: the axis counted from the front, or a failure that names it.
Result<int64_t> normal_axis(int64_t axis, int64_t rank);
Result<Dims> normal_axes(const Dims& axes, int64_t rank);  // sorted, without repetition

// One elementwise operator: everything else follows from the body.
struct Elementwise {
  std::string name;
  Scalar body;
  std::vector<AttrSpec> attrs = {};
  uint32_t traits = 0;
  ResultType result = ResultType::same;
  std::vector<OnnxRow> onnx = {};
  std::string doc = {};
  // For strings, which the body cannot hold; without it they are refused.
  std::function<Value(const EvalContext&, std::span<const Value>)> on_strings = nullptr;
};
OpDef elementwise(int arity, Elementwise e);
inline OpDef unary(Elementwise e) {
  return elementwise(1, std::move(e));
}
inline OpDef binary(Elementwise e) {
  return elementwise(2, std::move(e));
}
inline OpDef ternary(Elementwise e) {
  return elementwise(3, std::move(e));
}

// A composite's type is that of its expansion.
Result<Type> infer_by_expansion(const OpDef& def, Attrs attrs, Types types);

}  // namespace emend
