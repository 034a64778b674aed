// Reading where the data says: gathers in index notation, and what is made of them. Negative
// indices count from the end; an index out of range is an error when the program runs.
#include "ops/index.h"

#include "ops/families.h"
#include "ops/movement.h"
#include "ops/table.h"

namespace emend {

NodeId iota_along(GraphBuilder& b, int64_t n, size_t axis, size_t rank, DType dtype) {
  Dims shape(rank, 1);
  shape.at(axis) = n;
  return b.op("iota", {},
              Attrs({{"shape", shape}, {"dtype", dtype}, {"axis", static_cast<int64_t>(axis)}}));
}

namespace {

using Lowered1 = Result<std::vector<NodeId>>;

size_t axis_of(int64_t axis, int64_t rank) {
  return static_cast<size_t>(normal_axis(axis, rank).value_or_throw());
}

Result<Type> check_indices(std::string_view op, const Type& t) {
  if (is_integer(t.dtype)) return t;
  return fail(op, ": indices are integers, not ", to_text(t.dtype));
}

// --- gather: whole slices along an axis ---

Result<Type> gather_infer(const Axis& a, Types in) {
  if (auto ok = check_indices("gather", in[1]); !ok) return Failure{ok.error()};
  auto axis = normal_axis(a.axis, in[0].rank());
  if (!axis) return fail("gather: ", axis.error());
  Dims shape(in[0].shape.begin(), in[0].shape.begin() + *axis);
  shape.insert(shape.end(), in[1].shape.begin(), in[1].shape.end());
  shape.insert(shape.end(), in[0].shape.begin() + *axis + 1, in[0].shape.end());
  return Type::tensor(in[0].dtype, shape);
}

Meaning gather_means(const Axis& a, Types in) {
  size_t axis = axis_of(a.axis, in[0].rank()), q = in[1].shape.size();
  Meaning m;
  m.out = gather_infer(a, in).value_or_throw().shape;
  Read where{.operand = 1}, what{.operand = 0};
  for (size_t d = 0; d < q; ++d) where.index.push_back(index_of(static_cast<int>(axis + d)));
  for (size_t d = 0; d < in[0].shape.size(); ++d) {
    if (d == axis)
      what.index.push_back(index_from_read(0, in[0].shape[d]));
    else
      what.index.push_back(index_of(static_cast<int>(d < axis ? d : d - 1 + q)));
  }
  m.reads = {where, what};
  m.body = arg(1);
  return m;
}

// --- gather_elements: one element per index ---

Result<Type> gather_elements_infer(const Axis& a, Types in) {
  if (auto ok = check_indices("gather_elements", in[1]); !ok) return Failure{ok.error()};
  auto axis = normal_axis(a.axis, in[0].rank());
  if (!axis) return fail("gather_elements: ", axis.error());
  bool fits = in[0].rank() == in[1].rank();
  for (size_t d = 0; fits && d < in[0].shape.size(); ++d) {
    fits = static_cast<int64_t>(d) == *axis || in[1].shape[d] <= in[0].shape[d];
  }
  if (!fits) {
    return fail("gather_elements: indices ", shape_text(in[1].shape), " do not fit into ",
                shape_text(in[0].shape));
  }
  return Type::tensor(in[0].dtype, in[1].shape);
}

Meaning gather_elements_means(const Axis& a, Types in) {
  size_t axis = axis_of(a.axis, in[0].rank());
  Meaning m;
  m.out = in[1].shape;
  Read where{.operand = 1}, what{.operand = 0};
  for (size_t d = 0; d < m.out.size(); ++d) {
    where.index.push_back(index_of(static_cast<int>(d)));
    what.index.push_back(d == axis ? index_from_read(0, in[0].shape[d])
                                   : index_of(static_cast<int>(d)));
  }
  m.reads = {where, what};
  m.body = arg(1);
  return m;
}

// --- gather_nd: the last dimension of the indices holds coordinates ---

Result<Type> gather_nd_infer(const GatherNd& a, Types in) {
  if (auto ok = check_indices("gather_nd", in[1]); !ok) return Failure{ok.error()};
  const Dims &x = in[0].shape, &at = in[1].shape;
  int64_t b = a.batch_dims;
  bool fits =
      !at.empty() && b >= 0 && b < in[1].rank() && at.back() >= 0 && b + at.back() <= in[0].rank();
  for (int64_t d = 0; fits && d < b; ++d)
    fits = x[static_cast<size_t>(d)] == at[static_cast<size_t>(d)];
  if (!fits) {
    return fail("gather_nd: indices ", shape_text(at), " do not fit into ", shape_text(x), " with ",
                b, " batch dimensions");
  }
  Dims shape(at.begin(), at.end() - 1);
  shape.insert(shape.end(), x.begin() + b + at.back(), x.end());
  return Type::tensor(in[0].dtype, shape);
}

Meaning gather_nd_means(const GatherNd& a, Types in) {
  const Dims &x = in[0].shape, &at = in[1].shape;
  auto b = static_cast<size_t>(a.batch_dims), k = static_cast<size_t>(at.back());
  Meaning m;
  m.out = gather_nd_infer(a, in).value_or_throw().shape;
  Read what{.operand = 0};
  for (size_t d = 0; d < b; ++d) what.index.push_back(index_of(static_cast<int>(d)));
  for (size_t j = 0; j < k; ++j) {
    Read where{.operand = 1};
    for (size_t d = 0; d + 1 < at.size(); ++d) where.index.push_back(index_of(static_cast<int>(d)));
    where.index.push_back(index_constant(static_cast<int64_t>(j)));
    m.reads.push_back(where);
    what.index.push_back(index_from_read(static_cast<int>(j), x[b + j]));
  }
  for (size_t d = b + k, i = at.size() - 1; d < x.size(); ++d, ++i)
    what.index.push_back(index_of(static_cast<int>(i)));
  m.reads.push_back(what);
  m.body = arg(static_cast<int>(k));
  return m;
}

std::vector<NodeId> gather_nd_raise(OnnxWriter& w) {
  int64_t batch = w.attrs.as<GatherNd>().batch_dims;  // an attribute since opset 12
  if (batch == 0) return w.emit("GatherND", w.args);
  if (w.opset < 12) throw Error("GatherND has batch_dims since opset 12");
  return w.emit("GatherND", w.args, {{"batch_dims", batch}});
}

// --- one_hot ---

struct OneHot {
  int64_t depth = 1, axis = -1;
  EMEND_FIELDS(depth, axis)
};

// values[index == position along the new axis], where values are (off, on).
NodeId one_hot_expand(GraphBuilder& b, const OneHot& a, Args args) {
  Dims shape = b.shape(args[0]);
  if (a.depth < 0) throw Error(str("depth ", a.depth, " is negative"));
  if (b.shape(args[1]) != Dims{2}) throw Error("the values are one for off and one for on");
  size_t rank = shape.size() + 1, axis = axis_of(a.axis, static_cast<int64_t>(rank));
  shape.insert(shape.begin() + static_cast<int64_t>(axis), 1);
  NodeId index = b.op("reshape", {args[0]}, Reshape{shape});
  index = b.op("cast", {index}, Attrs({{"to", DType::i64}}));
  NodeId from_end = b.op("add", {index, b.constant(Tensor::of_int(a.depth))});
  NodeId zero = b.constant(Tensor::of_int(0));
  index = b.op("where", {b.op("less", {index, zero}), from_end, index});
  NodeId hot = b.op("equal", {index, iota_along(b, a.depth, axis, rank)});
  auto value = [&](int64_t i) {
    NodeId v = b.op("slice", {args[1]}, Slice{.starts = {i}, .sizes = {1}, .steps = {1}});
    return b.op("reshape", {v}, Reshape{{}});
  };
  return b.op("where", {hot, value(1), value(0)});
}

Lowered1 one_hot_lower(OnnxCall& c) {
  auto depth = c.ints(1);
  if (!depth) return Failure{depth.error()};
  if (depth->size() != 1) throw Error("OneHot: the depth is one number");
  OneHot a{depth->at(0), c.int_attr("axis", -1)};
  return std::vector{c.b.op("one_hot", {c.inputs[0], c.inputs.at(2)}, a)};
}

// --- reverse_sequence ---

struct ReverseSequence {
  int64_t batch_axis = 1, time_axis = 0;
  EMEND_FIELDS(batch_axis, time_axis)
};

// Position t is read from length - 1 - t while t < length, from itself beyond.
NodeId reverse_sequence_expand(GraphBuilder& b, const ReverseSequence& a, Args args) {
  Dims shape = b.shape(args[0]), lengths(shape.size(), 1);
  auto rank = static_cast<int64_t>(shape.size());
  size_t time = axis_of(a.time_axis, rank), batch = axis_of(a.batch_axis, rank);
  if (time == batch) throw Error("time and batch are the same axis");
  if (b.shape(args[1]) != Dims{shape[batch]})
    throw Error(
        str("there are ", shape_text(b.shape(args[1])), " lengths for a batch of ", shape[batch]));
  lengths[batch] = shape[batch];
  NodeId length = b.op("reshape", {args[1]}, Reshape{lengths});
  length = b.op("cast", {length}, Attrs({{"to", DType::i64}}));
  NodeId t = iota_along(b, shape[time], time, shape.size());
  NodeId mirrored = b.op("sub", {b.op("sub", {length, b.constant(Tensor::of_int(1))}), t});
  NodeId from = b.op("where", {b.op("less", {t, length}), mirrored, t});
  from = b.op("broadcast", {from}, Broadcast{shape});
  return b.op("gather_elements", {args[0], from}, Axis{static_cast<int64_t>(time)});
}

// --- tensor_scatter: a window of a cache is replaced, each batch entry at a place of its own ---

struct TensorScatter {
  int64_t axis = -2;
  bool circular = false;
  EMEND_FIELDS(axis, circular)
};

// past, update, write index per batch entry. Read the other way round: position s of the cache
// shows update[s - write] where that exists.
NodeId tensor_scatter_expand(GraphBuilder& b, const TensorScatter& a, Args args) {
  Dims cache = b.shape(args[0]), update = b.shape(args[1]), starts(cache.size(), 1);
  size_t axis = axis_of(a.axis, static_cast<int64_t>(cache.size()));
  Dims same = update;
  if (same.size() == cache.size()) same[axis] = cache[axis];
  if (same != cache || update[axis] > cache[axis] || axis == 0)
    throw Error(str("update ", shape_text(update), " does not fit into ", shape_text(cache)));
  starts[0] = cache[0];
  NodeId write = b.op("reshape", {args[2]}, Reshape{starts});
  write = b.op("cast", {write}, Attrs({{"to", DType::i64}}));
  NodeId from = b.op("sub", {iota_along(b, cache[axis], axis, cache.size()), write});
  if (a.circular) from = b.op("mod", {from, b.constant(Tensor::of_int(cache[axis]))});
  NodeId zero = b.constant(Tensor::of_int(0));
  NodeId last = b.constant(Tensor::of_int(update[axis] - 1));
  NodeId inside =
      b.op("logical_and", {b.op("less_equal", {zero, from}), b.op("less_equal", {from, last})});
  if (update[axis] == 0) return b.op("where", {inside, args[0], args[0]});
  from = b.op("min", {b.op("max", {from, zero}), last});
  Dims full = cache;
  NodeId at = b.op("broadcast", {from}, Broadcast{full});
  NodeId fresh = b.op("gather_elements", {args[1], at}, Axis{static_cast<int64_t>(axis)});
  return b.op("where", {inside, fresh, args[0]});
}

Lowered1 tensor_scatter_lower(OnnxCall& c) {
  std::string mode = c.text_attr("mode", "linear");
  if (mode != "linear" && mode != "circular")
    throw Error(str("TensorScatter: there is no mode ", mode));
  NodeId write =
      c.has(2) ? c.inputs[2] : c.b.constant(Tensor::zeros(DType::i64, {c.type(0).shape.at(0)}));
  TensorScatter a{c.int_attr("axis", -2), mode == "circular"};
  return std::vector{c.b.op("tensor_scatter", {c.inputs[0], c.inputs[1], write}, a)};
}

OpDef gather_op() {
  return define<Axis>({.name = "gather",
                       .min_args = 2,
                       .max_args = 2,
                       .kind = Kind::index,
                       .infer = gather_infer,
                       .means = gather_means,
                       .onnx = {{"Gather"}},
                       .doc = "slices of the first operand along an axis, at the places that the "
                              "second one names"});
}

OpDef one_hot_op() {
  return define<OneHot>(
      {.name = "one_hot",
       .min_args = 2,
       .max_args = 2,
       .expand = one_hot_expand,
       .onnx = {{.type = "OneHot",
                 .since = 9,
                 .lower = one_hot_lower,
                 .raise =
                     [](OnnxWriter& w) {
                       auto a = w.attrs.as<OneHot>();
                       // Of the indices' type: a combination that runtimes have.
                       Tensor depth = Tensor::of_int(a.depth, w.types[0].dtype);
                       return w.emit("OneHot", {w.args[0], w.b.constant(depth), w.args[1]},
                                     {{"axis", a.axis}});
                     }}},
       .doc = "values[1] where a new axis of size depth stands at the index, values[0] elsewhere"});
}

OpDef tensor_scatter_op() {
  return define<TensorScatter>(
      {.name = "tensor_scatter",
       .min_args = 3,
       .max_args = 3,
       .expand = tensor_scatter_expand,
       .onnx = {{.type = "TensorScatter",
                 .since = 24,
                 .lower = tensor_scatter_lower,
                 .raise =
                     [](OnnxWriter& w) {
                       auto a = w.attrs.as<TensorScatter>();
                       return w.emit(
                           "TensorScatter", w.args,
                           {{"axis", a.axis}, {"mode", a.circular ? "circular" : "linear"}});
                     }}},
       .doc = "a cache with an update written along an axis, from a position per batch entry"});
}

}  // namespace

std::vector<OpDef> index_ops() {
  return {
      gather_op(),
      define<Axis>({.name = "gather_elements",
                    .min_args = 2,
                    .max_args = 2,
                    .kind = Kind::index,
                    .infer = gather_elements_infer,
                    .means = gather_elements_means,
                    .onnx = {{.type = "GatherElements", .since = 11}},
                    .doc = "out[i,j,..] = x[index[i,j,..],j,..], the index standing at the axis"}),
      define<GatherNd>({.name = "gather_nd",
                        .min_args = 2,
                        .max_args = 2,
                        .kind = Kind::index,
                        .infer = gather_nd_infer,
                        .means = gather_nd_means,
                        .onnx = {{.type = "GatherND", .since = 11, .raise = gather_nd_raise}},
                        .doc = "slices at coordinates that stand in the last dimension of the "
                               "second operand"}),
      one_hot_op(),
      define<ReverseSequence>({.name = "reverse_sequence",
                               .min_args = 2,
                               .max_args = 2,
                               .expand = reverse_sequence_expand,
                               .onnx = {{.type = "ReverseSequence", .since = 10}},
                               .doc = "the first lengths[b] entries along time in reverse order, "
                                      "per batch entry b"}),
      tensor_scatter_op(),
  };
}

}  // namespace emend
