#include "ops/patch.h"

#include "ops/evaluate.h"
#include "ops/families.h"
#include "ops/movement.h"
#include "ops/table.h"
#include "ops/tensor_parts.h"

namespace emend {
namespace {

Result<Type> patch_infer(const Patch& a, Types in) {
  const Dims &base = in[0].shape, &fix = in[1].shape;
  if (in[0].dtype != in[1].dtype || base.size() != fix.size() || a.begin.size() != base.size())
    return fail("patch: ", to_text(in[1]), " at ", shape_text(a.begin), " is no part of ",
                to_text(in[0]));
  for (size_t d = 0; d < base.size(); ++d) {
    if (a.begin[d] < 0 || a.begin[d] > base[d] - fix[d])
      return fail("patch: ", shape_text(fix), " at ", shape_text(a.begin), " leaves dimension ", d,
                  " of ", shape_text(base));
  }
  return in[0];
}

// Both are read, the fix shifted to its place; which one counts is decided by the position.
Meaning patch_means(const Patch& a, Types in) {
  const Dims &base = in[0].shape, &fix = in[1].shape;
  Meaning m;
  m.out = base;
  Read outer{.operand = 0}, inner{.operand = 1, .outside = 0.0};
  m.body = arg(1);
  for (size_t d = base.size(); d-- > 0;) {
    const Scalar at = iter(static_cast<int>(d));
    const auto number = [](int64_t v) { return Scalar(static_cast<double>(v)); };
    if (a.begin[d] + fix[d] < base[d])
      m.body = select(at < number(a.begin[d] + fix[d]), m.body, arg(0));
    if (a.begin[d] > 0) m.body = select(number(a.begin[d]) <= at, m.body, arg(0));
  }
  for (size_t d = 0; d < base.size(); ++d) {
    outer.index.push_back(index_of(static_cast<int>(d)));
    inner.index.push_back(index_of(static_cast<int>(d), 1, -a.begin[d]));
  }
  m.reads = {std::move(outer), std::move(inner)};
  return m;
}

// Elements as they are stored: what the meaning says, in every arithmetic.
Tensor patched(const Tensor& base, const Tensor& fix, const Dims& begin, size_t d) {
  if (d == begin.size()) return fix;
  const auto axis = static_cast<int64_t>(d);
  const int64_t size = fix.shape()[d], end = begin[d] + size;
  const Tensor parts[] = {part_of(base, axis, 0, begin[d]),
                          patched(part_of(base, axis, begin[d], size), fix, begin, d + 1),
                          part_of(base, axis, end, base.shape()[d] - end)};
  return joined(parts, axis);
}
Value patch_eval(const EvalContext&, const Patch& a, std::span<const Value> v) {
  return patched(v[0].tensor, v[1].tensor, a.begin, 0);
}

// What lies before, the patched middle, and what lies behind, dimension by dimension.
NodeId patch_expand(GraphBuilder& b, const Patch& a, Args args) {
  NodeId base = args[0];
  const NodeId fix = args[1];
  std::vector<std::vector<NodeId>> around(a.begin.size());  // per dimension, in order
  for (size_t d = 0; d < a.begin.size(); ++d) {
    const Dims shape = b.shape(base);
    const int64_t size = b.shape(fix)[d];
    const auto part = [&](int64_t start, int64_t n) {
      Slice s{.starts = Dims(shape.size(), 0), .sizes = shape, .steps = Dims(shape.size(), 1)};
      s.starts[d] = n > 0 ? start : 0;
      s.sizes[d] = n;
      return n == shape[d] ? base : b.op("slice", {base}, s);
    };
    const int64_t end = a.begin[d] + size;
    around[d] = {part(0, a.begin[d]), part(end, shape[d] - end)};
    base = part(a.begin[d], size);
  }
  NodeId whole = fix;
  for (size_t d = a.begin.size(); d-- > 0;) {
    std::vector<NodeId> parts;
    for (NodeId n : {around[d][0], whole, around[d][1]})
      if (n == whole || b.shape(n)[d] > 0) parts.push_back(n);
    if (parts.size() > 1) whole = b.op("concat", parts, to_attrs(Axis{static_cast<int64_t>(d)}));
  }
  return whole;
}

}  // namespace

std::vector<OpDef> patch_ops() {
  return {define<Patch>({.name = "patch",
                         .min_args = 2,
                         .max_args = 2,
                         .kind = Kind::movement,
                         .traits = raw_moves,
                         .infer = patch_infer,
                         .means = patch_means,
                         .expand = patch_expand,
                         .eval = patch_eval,
                         .doc = "the first operand, but the second in the box of its shape that "
                                "begins there"})};
}

}  // namespace emend
