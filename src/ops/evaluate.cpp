#include "ops/evaluate.h"

#include <algorithm>
#include <cstring>

#include "base/hash.h"
#include "ops/build.h"
#include "ops/families.h"
#include "ops/symbol.h"
#include "ops/table.h"

namespace emend {
namespace {

Value evaluate_expansion(const EvalContext& c, std::span<const Value> values) {
  Graph g = expansion(*c.def, c.attrs, c.types);
  auto results = evaluate(g, values, {.arithmetic = c.arithmetic, .repetition = c.repetition});
  if (c.type.kind == Type::Kind::tuple) return Value::tuple(std::move(results));
  return std::move(results[0]);
}

// Floats meet a hand-written function: it must be one that only moves them or runs a body graph in
// the same arithmetic, or not be exact.
void check_exactness(const EvalContext& c) {
  if (!is_exact(c.arithmetic) || c.def->has(raw_moves) || c.def->kind == Kind::structure ||
      c.def->kind == Kind::scan)
    return;
  bool floats = c.type.is_tensor() && is_float(c.type.dtype);
  for (const Type& t : c.types) floats |= t.is_tensor() && is_float(t.dtype);
  if (floats) throw Inexact(str(c.def->name, " has no exact value"));
}

}  // namespace

Attrs eval_attrs(const EvalContext& c) {
  return c.attrs;
}

uint64_t step_of(uint64_t repetition, int64_t step) {
  return hash_mix(repetition, static_cast<uint64_t>(step) + 1);
}

Value evaluate_node(const EvalContext& c, std::span<const Value> values) {
  const OpDef& def = *c.def;
  // A hand-written function beside a meaning is for strings, which have no arithmetic, or moves
  // elements faster.
  auto holds_strings = [](const Type& t) { return t.is_tensor() && t.dtype == DType::string; };
  bool strings = holds_strings(c.type) || std::ranges::any_of(c.types, holds_strings);
  bool by_hand = def.eval && (strings || def.has(raw_moves));
  if ((def.means || !def.body.empty()) && !by_hand) {
    std::vector<Tensor> operands;
    for (const Value& v : values) operands.push_back(v.tensor);
    return evaluate_meaning(meaning_of(def, c.attrs, c.types), c.arithmetic, c.types, operands,
                            c.type.dtype, c.type.shape);
  }
  if (def.eval) {
    check_exactness(c);
    return def.eval(c, values);
  }
  EMEND_ASSERT(def.expand, def.name, " has no meaning");
  return evaluate_expansion(c, values);
}

Graph expansion(const OpDef& def, Attrs attrs, Types types) {
  EMEND_ASSERT(def.expand, def.name);
  GraphBuilder b;
  std::vector<NodeId> args;
  for (size_t i = 0; i < types.size(); ++i) args.push_back(b.input(str("x", i), types[i]));
  NodeId result = def.expand(b, attrs, args);
  auto items = b.get_all(result);
  for (size_t i = 0; i < items.size(); ++i) b.output(str("y", i), items[i]);
  return std::move(b).build();
}

std::vector<Value> evaluate(const Graph& g, std::span<const Value> inputs,
                            const EvalOptions& options) {
  if (inputs.size() != g.inputs.size()) {
    throw Error(str("the program has ", g.inputs.size(), " inputs, got ", inputs.size()));
  }
  auto left = use_counts(g);
  IdVec<NodeId, Value> values(g.size());
  IdVec<NodeId, char> converted_already(g.size(), 0);
  // Constants are converted when they are first asked for: programs list them first, and all of
  // them in another arithmetic at once would be the model once or twice more.
  const auto value_of = [&](NodeId a) -> const Value& {
    if (g.nodes[a].op == kConstantOp && !converted_already[a]) {
      values[a] = converted(g.constant(a), options.arithmetic);
      converted_already[a] = 1;
    }
    return values[a];
  };
  for (size_t i = 0; i < inputs.size(); ++i) values[g.inputs[i].node] = inputs[i];
  for (size_t i = 0; i < g.size(); ++i) {
    NodeId id{i};
    const Node& n = g.nodes[id];
    if (n.op != kConstantOp && n.op != kInputOp) {
      std::vector<Value> operands;
      std::vector<Type> types;
      for (NodeId a : n.args) {
        operands.push_back(value_of(a));
        types.push_back(g.types[a]);
      }
      EvalContext c{options.arithmetic, &op_def(n),        n.attrs, types,
                    g.types[id],        options.repetition};
      values[id] = with_note(
          [&] { return g.names[id].empty() ? op_def(n).name : str("node ", g.names[id]); },
          [&] { return evaluate_node(c, operands); });
      for (NodeId a : n.args) {
        if (--left[a] == 0) values[a] = Value();
      }
    }
    if (options.observe) options.observe(id, value_of(id));
    options.monitor.tell({.phase = options.phase,
                          .done = static_cast<int64_t>(i + 1),
                          .of = static_cast<int64_t>(g.size())});
  }
  std::vector<Value> results;
  for (const auto& o : g.outputs) results.push_back(value_of(o.node));
  return results;
}

Tensor converted(const Tensor& t, Arithmetic a) {
  DType stored = stored_dtype(a, t.dtype());
  if (stored == t.dtype()) return t;
  return Tensor::make(stored, t.shape(), [&](std::byte* out) {
    for (int64_t i = 0; i < t.count(); ++i) {
      auto at = static_cast<size_t>(i);
      switch (a) {
        case Arithmetic::field:
          store_int(stored, out, at, static_cast<int64_t>(Mod61::of(t.real(i)).v));
          break;
        case Arithmetic::integer:
          store_int(stored, out, at, CheckedInt::of(t.real(i)).v);
          break;
        case Arithmetic::symbol: {
          Symbol v = Symbol::of(t.real(i));
          std::memcpy(out + at * sizeof v, &v, sizeof v);
          break;
        }
        default:
          store_real(stored, out, at, t.real(i));
      }
    }
  });
}

}  // namespace emend
