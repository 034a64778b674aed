#include "ops/families.h"

#include <algorithm>

namespace emend {

Result<Dims> broadcast_shapes(std::span<const Dims> shapes) {
  size_t rank = 0;
  for (const Dims& s : shapes) rank = std::max(rank, s.size());
  Dims out(rank, 1);
  for (const Dims& s : shapes) {
    for (size_t i = 0; i < s.size(); ++i) {
      int64_t& d = out[rank - s.size() + i];
      if (d == 1) {
        d = s[i];
      } else if (s[i] != 1 && s[i] != d) {
        std::string all;
        for (const Dims& t : shapes) all += (all.empty() ? "" : " and ") + shape_text(t);
        return fail("shapes ", all, " do not broadcast");
      }
    }
  }
  return out;
}

Result<Dims> broadcast_shapes(const Dims& a, const Dims& b) {
  const Dims both[] = {a, b};
  return broadcast_shapes(both);
}

Read broadcast_read(int operand, const Dims& shape, size_t rank, int first) {
  Read r;
  r.operand = operand;
  size_t skip = rank - shape.size();
  for (size_t d = 0; d < shape.size(); ++d) {
    r.index.push_back(shape[d] == 1 ? index_constant(0)
                                    : index_of(first + static_cast<int>(skip + d)));
  }
  return r;
}

Meaning meaning_of(const OpDef& def, Attrs attrs, Types types) {
  if (def.means) return def.means(attrs, types);
  EMEND_ASSERT(!def.body.empty(), def.name, " has no meaning in index notation");
  std::vector<Dims> shapes;
  for (const Type& t : types) shapes.push_back(t.shape);
  Meaning m;
  m.out = broadcast_shapes(shapes).value_or_throw();
  for (size_t i = 0; i < types.size(); ++i) {
    m.reads.push_back(broadcast_read(static_cast<int>(i), types[i].shape, m.out.size()));
  }
  m.body = bind(def.body, attrs);
  return m;
}

Result<int64_t> normal_axis(int64_t axis, int64_t rank) {
  if (axis < -rank || axis >= rank)
    return fail("axis ", axis, " is not one of a rank ", rank, " tensor");
  return axis < 0 ? axis + rank : axis;
}

Result<Dims> normal_axes(const Dims& axes, int64_t rank) {
  Dims out;
  for (int64_t a : axes) {
    auto axis = normal_axis(a, rank);
    if (!axis) return Failure{axis.error()};
    out.push_back(*axis);
  }
  std::sort(out.begin(), out.end());
  if (std::adjacent_find(out.begin(), out.end()) != out.end())
    return fail("an axis is given twice");
  return out;
}

namespace {

Result<Type> infer_elementwise(const std::string& name, ResultType rule, bool strings, Types in) {
  std::vector<Dims> shapes;
  for (const Type& t : in) shapes.push_back(t.shape);
  auto shape = broadcast_shapes(shapes);
  if (!shape) return fail(name, ": ", shape.error());
  size_t first = rule == ResultType::condition ? 1 : 0;
  if (rule == ResultType::condition && in[0].dtype != DType::boolean) {
    return fail(name, ": the condition must be bool, not ", to_text(in[0].dtype));
  }
  DType dtype = in[first].dtype;
  if (dtype == DType::string && !strings) return fail(name, " is not defined on strings");
  if (rule != ResultType::first) {
    for (size_t i = first; i < in.size(); ++i) {
      if (in[i].dtype != dtype) {
        return fail(name, ": operands are ", to_text(dtype), " and ", to_text(in[i].dtype));
      }
    }
  }
  return Type::tensor(rule == ResultType::boolean ? DType::boolean : dtype, std::move(*shape));
}

}  // namespace

OpDef elementwise(int arity, Elementwise e) {
  OpDef d;
  d.name = e.name;
  d.min_args = d.max_args = arity;
  d.kind = Kind::elementwise;
  d.attrs = std::move(e.attrs);
  d.traits = e.traits;
  d.body = e.body;
  d.result = e.result;
  d.infer = [name = e.name, rule = e.result, strings = bool(e.on_strings)](Attrs, Types in) {
    return infer_elementwise(name, rule, strings, in);
  };
  d.eval = std::move(e.on_strings);
  d.onnx = std::move(e.onnx);
  d.doc = std::move(e.doc);
  return d;
}

Result<Type> infer_by_expansion(const OpDef& def, Attrs attrs, Types types) {
  try {
    GraphBuilder b;
    std::vector<NodeId> args;
    for (size_t i = 0; i < types.size(); ++i) args.push_back(b.input("", types[i]));
    return b.type(def.expand(b, attrs, args));
  } catch (const Error& e) {
    return fail(def.name, ": ", e.what());
  }
}

}  // namespace emend
