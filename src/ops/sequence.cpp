// Sequences and optionals. They exist on the host only; where a sequence is built inside the
// program from a known number of values, lowering looks through it and it dissolves: what is taken
// from it is the value itself, with its static type.
#include <algorithm>

#include "ir/memory_budget.h"
#include "ops/evaluate.h"
#include "ops/families.h"
#include "ops/movement.h"
#include "ops/subgraph.h"
#include "ops/table.h"
#include "ops/tensor_parts.h"

namespace emend {
namespace {

using Ids = std::vector<NodeId>;
using Values = std::span<const Value>;

struct Sequence {
  DType dtype = DType::f32;  // of the items, for a sequence that has none
  EMEND_FIELDS(dtype)
};
struct SplitToSequence {
  int64_t axis = 0;
  bool keepdims = true;
  EMEND_FIELDS(axis, keepdims)
};
struct JoinSequence {
  int64_t axis = 0;
  bool new_axis = false;
  EMEND_FIELDS(axis, new_axis)
};
struct Optional {
  Type type = Type::any();  // of the element, for an optional that has none
  EMEND_FIELDS(type)
};

Type item_type(const Type& t) {
  bool wraps = t.kind == Type::Kind::sequence || t.kind == Type::Kind::optional;
  return wraps ? t.items[0] : Type::any();
}

Result<Type> need_sequence(const Type& t) {
  if (t.kind == Type::Kind::sequence || t.kind == Type::Kind::any) return t;
  return fail("a sequence is needed, not ", to_text(t));
}

// A position in a sequence of `size` items, counted from the back where it is negative; inserting
// allows the end.
size_t position_in(int64_t position, size_t size, bool inserting) {
  auto n = static_cast<int64_t>(size), last = inserting ? n : n - 1;
  if (position < -n || position > last)
    throw Error(str("position ", position, " is not in a sequence of ", n, " items"));
  return static_cast<size_t>(position < 0 ? position + n : position);
}

int64_t position_of(Values v, size_t operand, int64_t otherwise) {
  if (operand >= v.size()) return otherwise;
  return single_integer(v[operand].tensor, "a position in a sequence");
}

// --- values ---

Value insert_eval(const EvalContext&, const NoAttrs&, Values v) {
  std::vector<Value> items = v[0].items;
  size_t at =
      position_in(position_of(v, 2, static_cast<int64_t>(items.size())), items.size(), true);
  items.insert(items.begin() + static_cast<int64_t>(at), v[1]);
  return Value::sequence(std::move(items));
}

Value erase_eval(const EvalContext&, const NoAttrs&, Values v) {
  std::vector<Value> items = v[0].items;
  size_t at = position_in(position_of(v, 1, -1), items.size(), false);
  items.erase(items.begin() + static_cast<int64_t>(at));
  return Value::sequence(std::move(items));
}

// The sizes of the parts: a scalar is the size of each, a list has them all.
Dims part_sizes(const Tensor* split, int64_t extent) {
  if (split && split->rank() == 1) {
    Dims sizes = split->ints();
    if (!cuts(sizes, extent))
      throw Error(str("sizes ", shape_text(sizes), " do not cut a dimension of ", extent));
    return sizes;
  }
  int64_t size = split ? single_integer(*split, "the size of the parts") : 1;
  if (size <= 0) throw Error(str("parts of size ", size, " do not cut a dimension"));
  auto parts = static_cast<uint64_t>(extent / size + (extent % size != 0));
  spend_memory(parts * sizeof(int64_t), "a list of parts");
  Dims sizes(parts, size);
  if (extent % size != 0) sizes.back() = extent % size;
  return sizes;
}

Value split_eval(const EvalContext&, const SplitToSequence& a, Values v) {
  const Tensor& t = v[0].tensor;
  int64_t axis = normal_axis(a.axis, t.rank()).value_or_throw(), begin = 0;
  const Tensor* split = v.size() > 1 ? &v[1].tensor : nullptr;
  std::vector<Value> parts;
  for (int64_t size : part_sizes(split, t.shape()[static_cast<size_t>(axis)])) {
    bool drop = !split && !a.keepdims;
    parts.emplace_back(drop ? slice_of(t, axis, begin) : part_of(t, axis, begin, size));
    begin += size;
  }
  return Value::sequence(std::move(parts));
}

// Items of a sequence may differ in rank; those that are put together may not.
void check_rank(const Dims& item, int64_t rank) {
  if (static_cast<int64_t>(item.size()) != rank)
    throw Error(str("item ", shape_text(item), " has another rank than the first"));
}

Value join_eval(const EvalContext&, const JoinSequence& a, Values v) {
  std::vector<Tensor> parts;
  for (const Value& item : v[0].items) parts.push_back(item.tensor);
  if (parts.empty()) throw Error("an empty sequence cannot be put together");
  for (const Tensor& p : parts) check_rank(p.shape(), parts[0].rank());
  int64_t rank = parts[0].rank() + (a.new_axis ? 1 : 0);
  int64_t axis = normal_axis(a.axis, rank).value_or_throw();
  return a.new_axis ? stacked(parts, axis) : joined(parts, axis);
}

Value has_eval(const EvalContext&, const NoAttrs&, Values v) {
  bool has = v[0].kind != Type::Kind::optional || !v[0].items.empty();
  return Tensor::of_int(has, DType::boolean);
}

Value get_eval(const EvalContext&, const NoAttrs&, Values v) {
  if (v[0].kind != Type::Kind::optional) return v[0];
  if (v[0].items.empty()) throw Error("an optional without an element has none to give");
  return v[0].items[0];
}

// --- lowering: sequences of known items dissolve ---

// A tensor in more parts than this stays whole until run time: every part would be a node.
constexpr size_t kMaxDissolved = 256;

// The items of a sequence that is built in this graph; nullopt for any other.
std::optional<Ids> known_items(const OnnxCall& c, size_t i) {
  c.type(i);  // it must be there
  const Node& n = c.b.graph().nodes[c.inputs[i]];
  if (op_def(n).name != "sequence") return std::nullopt;
  return Ids(n.args.begin(), n.args.end());
}

Ids build_sequence(OnnxCall& c, const Ids& items, DType dtype = DType::f32) {
  if (!items.empty() && c.b.type(items[0]).is_tensor()) dtype = c.b.dtype(items[0]);
  return {c.b.op("sequence", items, to_attrs(Sequence{dtype}))};
}

// A position among known items: the operand's value, if it is known.
std::optional<int64_t> known_position(const OnnxCall& c, size_t i, int64_t otherwise) {
  if (!c.has(i)) return otherwise;
  auto v = c.value(i);
  if (!v) return std::nullopt;
  return single_integer(*v, "a position in a sequence");
}

// Our operator over the present inputs.
Ids on_host(OnnxCall& c, const char* op, Attrs attrs = {}) {
  Ids operands;
  for (NodeId n : c.inputs)
    if (n.valid()) operands.push_back(n);
  return {c.b.op(op, operands, attrs)};
}

Result<Ids> construct_lower(OnnxCall& c) {
  for (size_t i = 0; i < c.inputs.size(); ++i) c.type(i);  // no gaps
  return build_sequence(c, c.inputs);
}

Result<Ids> empty_lower(OnnxCall& c) {
  auto code = static_cast<int>(c.int_attr("dtype", 1));
  auto dtype = dtype_from_onnx(code);
  if (!dtype) throw Error(str("SequenceEmpty: no element type has the number ", code));
  return build_sequence(c, {}, *dtype);
}

Result<Ids> insert_lower(OnnxCall& c) {
  if (auto items = known_items(c, 0)) {
    auto at = known_position(c, 2, static_cast<int64_t>(items->size()));
    if (at) {
      size_t place = position_in(*at, items->size(), true);
      c.type(1);
      items->insert(items->begin() + static_cast<int64_t>(place), c.inputs[1]);
      return build_sequence(c, *items);
    }
  }
  return on_host(c, "sequence_insert");
}

Result<Ids> erase_lower(OnnxCall& c) {
  if (auto items = known_items(c, 0)) {
    if (auto at = known_position(c, 1, -1)) {
      DType dtype = c.b.graph().nodes[c.inputs[0]].attrs.as<Sequence>().dtype;
      items->erase(items->begin() + static_cast<int64_t>(position_in(*at, items->size(), false)));
      return build_sequence(c, *items, dtype);
    }
  }
  return on_host(c, "sequence_erase");
}

Result<Ids> at_lower(OnnxCall& c) {
  if (auto items = known_items(c, 0)) {
    if (auto at = known_position(c, 1, 0))
      return Ids{(*items)[position_in(*at, items->size(), false)]};
  }
  return on_host(c, "sequence_at");
}

Result<Ids> length_lower(OnnxCall& c) {
  if (auto items = known_items(c, 0))
    return Ids{c.b.constant(Tensor::of_int(static_cast<int64_t>(items->size())))};
  return on_host(c, "sequence_length");
}

Result<Ids> split_lower(OnnxCall& c) {
  SplitToSequence a{c.int_attr("axis", 0), c.int_attr("keepdims", 1) != 0};
  auto split = c.value(1);
  if (c.has(1) && !split) return on_host(c, "split_to_sequence", to_attrs(a));
  a.axis = normal_axis(a.axis, c.type(0).rank()).value_or_throw();
  Dims sizes = part_sizes(split ? &*split : nullptr, c.type(0).shape[static_cast<size_t>(a.axis)]);
  if (sizes.size() > kMaxDissolved) return on_host(c, "split_to_sequence", to_attrs(a));
  Ids parts = c.b.get_all(c.b.op("split", {c.inputs[0]}, Split{a.axis, sizes}));
  if (!split && !a.keepdims) {
    Dims shape = c.type(0).shape;
    shape.erase(shape.begin() + a.axis);
    for (NodeId& p : parts) p = c.b.op("reshape", {p}, Reshape{shape});
  }
  return build_sequence(c, parts, c.type(0).dtype);
}

Result<Ids> join_lower(OnnxCall& c) {
  JoinSequence a{c.int_attr("axis", 0), c.int_attr("new_axis", 0) != 0};
  auto items = known_items(c, 0);
  bool tensors =
      items && !items->empty() &&
      std::all_of(items->begin(), items->end(), [&](NodeId n) { return c.b.type(n).is_tensor(); });
  if (!tensors) return on_host(c, "sequence_concat", to_attrs(a));
  int64_t rank = c.b.type((*items)[0]).rank() + (a.new_axis ? 1 : 0);
  int64_t axis = normal_axis(a.axis, rank).value_or_throw();
  for (NodeId& n : *items) {
    if (!a.new_axis) break;
    Dims shape = c.b.shape(n);
    check_rank(shape, rank - 1);
    shape.insert(shape.begin() + axis, 1);
    n = c.b.op("reshape", {n}, Reshape{shape});
  }
  return Ids{c.b.op("concat", *items, to_attrs(Axis{axis}))};
}

const Graph& map_body(const OnnxNode& node) {
  const AttrValue* body = node.attributes.find("body");
  if (!body || !body->as<GraphRef>()) throw Error("SequenceMap needs the graph body");
  return **body->as<GraphRef>();
}

Result<Ids> map_lower(OnnxCall& c) {
  std::vector<std::optional<Ids>> lists;
  for (size_t i = 0; i < c.inputs.size(); ++i) {
    lists.push_back(known_items(c, i));
    if (c.type(i).kind == Type::Kind::sequence && !lists.back())
      return fail("the items of input ", i, " are known only at run time");
  }
  if (lists.empty() || !lists[0]) throw Error("SequenceMap: the first input must be a sequence");
  std::vector<Ids> results(map_body(c.node).outputs.size());
  for (size_t k = 0; k < lists[0]->size(); ++k) {
    Ids args;
    for (size_t i = 0; i < lists.size(); ++i) {
      if (lists[i] && k >= lists[i]->size()) throw Error("SequenceMap: sequences differ in length");
      args.push_back(lists[i] ? (*lists[i])[k] : c.inputs[i]);
    }
    args.insert(args.end(), c.captured.begin(), c.captured.end());
    Ids made = c.inline_graph(map_body(c.node), args);
    for (size_t i = 0; i < made.size(); ++i) results[i].push_back(made[i]);
  }
  Ids sequences;
  for (const Ids& r : results) sequences.push_back(build_sequence(c, r)[0]);
  return sequences;
}

std::vector<Value> map_run(const OnnxNode& node, Values operands, uint64_t repetition) {
  const Graph& graph = map_body(node);
  if (operands.empty() || operands[0].kind != Type::Kind::sequence)
    throw Error("SequenceMap: the first input must be a sequence");
  HostBody body(graph, node.present.size());
  std::vector<std::vector<Value>> results(graph.outputs.size());
  for (size_t k = 0; k < operands[0].items.size(); ++k) {
    std::vector<Value> args(operands.begin(), operands.end());
    for (size_t i = 0; i < node.present.size(); ++i) {
      if (operands[i].kind != Type::Kind::sequence) continue;
      if (k >= operands[i].items.size()) throw Error("SequenceMap: sequences differ in length");
      args[i] = operands[i].items[k];
    }
    auto made = body.run(args, step_of(repetition, static_cast<int64_t>(k)));
    for (size_t i = 0; i < made.size(); ++i) results[i].push_back(std::move(made[i]));
  }
  std::vector<Value> sequences;
  for (auto& r : results) sequences.push_back(Value::sequence(std::move(r)));
  return sequences;
}

Result<Ids> has_lower(OnnxCall& c) {
  if (!c.has(0)) return Ids{c.b.constant(Tensor::of_int(0, DType::boolean))};
  const Node& n = c.b.graph().nodes[c.inputs[0]];
  bool known = op_def(n).name == "optional", optional = c.type(0).kind == Type::Kind::optional;
  if (optional && !known) return on_host(c, "optional_has_element");
  bool has = !optional || !n.args.empty();
  return Ids{c.b.constant(Tensor::of_int(has, DType::boolean))};
}

Result<Ids> get_lower(OnnxCall& c) {
  if (c.type(0).kind != Type::Kind::optional) return c.inputs.ids();
  const Node& n = c.b.graph().nodes[c.inputs[0]];
  if (op_def(n).name == "optional" && !n.args.empty()) return Ids{n.args[0]};
  return on_host(c, "optional_get_element");
}

Ids sequence_raise(OnnxWriter& w) {
  if (!w.args.empty()) return w.emit("SequenceConstruct", w.args);
  return w.emit("SequenceEmpty", {}, {{"dtype", info(w.attrs.as<Sequence>().dtype).onnx}});
}

// A row without attributes: what is written back is the node with its operands.
OnnxRow plain_row(const char* type, int since, Result<Ids> (*lower)(OnnxCall&)) {
  return {.type = type, .since = since, .lower = lower, .raise = [type](OnnxWriter& w) {
            return w.emit(type, w.args);
          }};
}

Result<Type> same_sequence(const NoAttrs&, Types in) {
  return need_sequence(in[0]);
}

}  // namespace

std::vector<OpDef> sequence_ops() {
  return {
      define<Sequence>(
          {.name = "sequence",
           .min_args = 0,
           .max_args = -1,
           .kind = Kind::host,
           .traits = raw_moves,
           .infer = [](const Sequence&, Types in) -> Result<Type> {
             bool equal = !in.empty() && std::all_of(in.begin(), in.end(),
                                                     [&](const Type& t) { return t == in[0]; });
             return Type::sequence(equal ? in[0] : Type::any());
           },
           .eval =
               [](const EvalContext&, const Sequence&, Values v) {
                 return Value::sequence({v.begin(), v.end()});
               },
           .onnx =
               {{.type = "SequenceConstruct",
                 .since = 11,
                 .lower = construct_lower,
                 .raise = sequence_raise},
                {.type = "SequenceEmpty", .since = 11, .lower = empty_lower, .lower_only = true},
                {.type = "SequenceMap",
                 .since = 17,
                 .lower = map_lower,
                 .run = map_run,
                 .lower_only = true}},
           .doc = "a sequence of the operands"}),
      define<NoAttrs>({.name = "sequence_insert",
                       .min_args = 2,
                       .max_args = 3,
                       .kind = Kind::host,
                       .traits = raw_moves,
                       .infer = [](const NoAttrs&, Types in) -> Result<Type> {
                         auto s = need_sequence(in[0]);
                         if (!s) return s;
                         return Type::sequence(item_type(*s) == in[1] ? in[1] : Type::any());
                       },
                       .eval = insert_eval,
                       .onnx = {plain_row("SequenceInsert", 11, insert_lower)},
                       .doc = "the sequence with a value inserted before a position (at its end)"}),
      define<NoAttrs>({.name = "sequence_erase",
                       .min_args = 1,
                       .max_args = 2,
                       .kind = Kind::host,
                       .traits = raw_moves,
                       .infer = same_sequence,
                       .eval = erase_eval,
                       .onnx = {plain_row("SequenceErase", 11, erase_lower)},
                       .doc = "the sequence without the item at a position (the last one)"}),
      define<NoAttrs>(
          {.name = "sequence_at",
           .min_args = 2,
           .max_args = 2,
           .kind = Kind::host,
           .traits = raw_moves,
           .infer = [](const NoAttrs&, Types in) -> Result<Type> {
             auto s = need_sequence(in[0]);
             if (!s) return s;
             return item_type(*s);
           },
           .eval =
               [](const EvalContext&, const NoAttrs&, Values v) {
                 return v[0].items[position_in(position_of(v, 1, 0), v[0].items.size(), false)];
               },
           .onnx = {plain_row("SequenceAt", 11, at_lower)},
           .doc = "the item of a sequence at a position, from the back if negative"}),
      define<NoAttrs>({.name = "sequence_length",
                       .kind = Kind::host,
                       .traits = raw_moves,
                       .infer = [](const NoAttrs&, Types in) -> Result<Type> {
                         auto s = need_sequence(in[0]);
                         if (!s) return s;
                         return Type::tensor(DType::i64, {});
                       },
                       .eval = [](const EvalContext&, const NoAttrs&, Values v) -> Value {
                         return Tensor::of_int(static_cast<int64_t>(v[0].items.size()));
                       },
                       .onnx = {plain_row("SequenceLength", 11, length_lower)},
                       .doc = "how many items a sequence has"}),
      define<SplitToSequence>(
          {.name = "split_to_sequence",
           .min_args = 1,
           .max_args = 2,
           .kind = Kind::host,
           .traits = raw_moves,
           .infer = [](const SplitToSequence&, Types) -> Result<Type> {
             return Type::sequence(Type::any());
           },
           .eval = split_eval,
           .onnx = {{.type = "SplitToSequence",
                     .since = 11,
                     .lower = split_lower,
                     .raise =
                         [](OnnxWriter& w) {
                           auto a = w.attrs.as<SplitToSequence>();
                           return w.emit("SplitToSequence", w.args,
                                         {{"axis", a.axis}, {"keepdims", int64_t{a.keepdims}}});
                         }}},
           .doc = "the parts of a tensor along an axis, of the given size or sizes (of size 1)"}),
      define<JoinSequence>(
          {.name = "sequence_concat",
           .kind = Kind::host,
           .traits = raw_moves,
           .infer = [](const JoinSequence&, Types in) -> Result<Type> {
             auto s = need_sequence(in[0]);
             if (!s) return s;
             return Type::any();
           },
           .eval = join_eval,
           .onnx = {{.type = "ConcatFromSequence",
                     .since = 11,
                     .lower = join_lower,
                     .raise =
                         [](OnnxWriter& w) {
                           auto a = w.attrs.as<JoinSequence>();
                           return w.emit("ConcatFromSequence", w.args,
                                         {{"axis", a.axis}, {"new_axis", int64_t{a.new_axis}}});
                         }}},
           .doc = "the items of a sequence one after the other along an axis, or along a new one"}),
      define<Optional>(
          {.name = "optional",
           .min_args = 0,
           .kind = Kind::host,
           .traits = raw_moves,
           .infer = [](const Optional& a, Types in) -> Result<Type> {
             return Type::optional(in.empty() ? a.type : in[0]);
           },
           .eval =
               [](const EvalContext&, const Optional&, Values v) {
                 return Value::optional({v.begin(), v.end()});
               },
           .onnx = {{.type = "Optional",
                     .since = 15,
                     .lower = [](OnnxCall& c) -> Result<Ids> {
                       return on_host(
                           c, "optional",
                           to_attrs(Optional{c.node.attributes.get_or("type", Type::any())}));
                     },
                     .raise =
                         [](OnnxWriter& w) {
                           if (!w.args.empty()) return w.emit("Optional", w.args);
                           return w.emit("Optional", {}, {{"type", w.attrs.as<Optional>().type}});
                         }}},
           .doc = "an optional: the operand, or nothing"}),
      define<NoAttrs>({.name = "optional_has_element",
                       .kind = Kind::host,
                       .traits = raw_moves,
                       .infer = [](const NoAttrs&, Types) -> Result<Type> {
                         return Type::tensor(DType::boolean, {});
                       },
                       .eval = has_eval,
                       .onnx = {plain_row("OptionalHasElement", 15, has_lower)},
                       .doc = "whether an optional has its element"}),
      define<NoAttrs>(
          {.name = "optional_get_element",
           .kind = Kind::host,
           .traits = raw_moves,
           .infer = [](const NoAttrs&, Types in) -> Result<Type> { return item_type(in[0]); },
           .eval = get_eval,
           .onnx = {plain_row("OptionalGetElement", 15, get_lower)},
           .doc = "the element of an optional; an error if there is none"}),
  };
}

}  // namespace emend
