#include "ops/spell_out.h"

#include <map>

#include "ops/families.h"
#include "ops/table.h"

namespace emend {
namespace {

// The operator whose body is this function of its operands and nothing else.
const OpDef* operator_of(Fn fn) {
  static const auto kOperators = [] {
    std::map<Fn, const OpDef*> map;
    for (const OpDef& d : all_ops()) {
      if (d.kind != Kind::elementwise || d.body.empty()) continue;
      const Instr& last = d.body.code.back();
      auto n = static_cast<int32_t>(d.body.code.size()) - 1;
      bool plain = n == d.min_args && info(last.fn).arity == n;
      const int32_t operands[] = {last.a, last.b, last.c};
      for (int32_t i = 0; plain && i < n; ++i) {
        plain =
            d.body.code[static_cast<size_t>(i)] == Instr{.fn = Fn::arg, .a = i} && operands[i] == i;
      }
      if (plain) map.emplace(last.fn, &d);
    }
    return map;
  }();
  auto it = kOperators.find(fn);
  return it == kOperators.end() ? nullptr : it->second;
}

// The same value by other functions, for those that ONNX does not have, or had late.
std::optional<Scalar> rephrased(Fn fn) {
  const Scalar x = arg(0), y = arg(1);
  switch (fn) {
    case Fn::trunc:
      return select(x < 0, call(Fn::ceil, x), call(Fn::floor, x));
    case Fn::log1p:
      return log(1 + x);
    case Fn::le:
      return call(Fn::logical_or, x < y, call(Fn::eq, x, y));
    default:
      return std::nullopt;
  }
}

class SpellOut {
 public:
  SpellOut(GraphBuilder& b, const OpDef& def, DType number) : b_(b), def_(def), number_(number) {}

  // The nodes of a body over these operands; invalid when it cannot be said.
  NodeId body(const Scalar& s, std::span<const NodeId> args) {
    std::vector<NodeId> made;
    for (const Instr& i : s.code) {
      NodeId n;
      if (i.fn == Fn::arg) {
        n = args[static_cast<size_t>(i.a)];
      } else if (i.fn == Fn::constant) {
        n = b_.scalar(i.value, number_);
      } else {
        std::vector<NodeId> operands;
        for (int32_t k : {i.a, i.b, i.c}) {
          if (static_cast<int>(operands.size()) < info(i.fn).arity)
            operands.push_back(made[static_cast<size_t>(k)]);
        }
        n = function(i.fn, std::move(operands));
      }
      if (!n.valid()) return n;
      made.push_back(n);
    }
    return made.back();
  }

 private:
  NodeId function(Fn fn, std::vector<NodeId> operands) {
    const OpDef* op = operator_of(fn);
    if (auto other = rephrased(fn); other && (!op || op == &def_)) return body(*other, operands);
    if (!op || op == &def_) return {};
    bool logic = fn == Fn::logical_and || fn == Fn::logical_or || fn == Fn::logical_xor ||
                 fn == Fn::logical_not;
    for (size_t i = 0; i < operands.size(); ++i) {
      bool truth = logic || (fn == Fn::select && i == 0);
      operands[i] = as(truth ? DType::boolean : number_, operands[i]);
    }
    return b_.op(op->name, operands);
  }

  // Truth values are numbers in a body, and of their own type in a graph.
  NodeId as(DType t, NodeId n) {
    if (b_.dtype(n) == t) return n;
    return b_.op("cast", {n}, Attrs({{"to", t}}));
  }

  GraphBuilder& b_;
  const OpDef& def_;
  DType number_;
};

}  // namespace

std::optional<Graph> spelled_out(const OpDef& def, Attrs attrs, Types types) {
  if (def.body.empty() || def.result == ResultType::attribute ||
      def.result == ResultType::condition)
    return std::nullopt;
  GraphBuilder b;
  std::vector<NodeId> args;
  for (size_t i = 0; i < types.size(); ++i) args.push_back(b.input(str("x", i), types[i]));
  NodeId y = SpellOut(b, def, types[0].dtype).body(simplified(bind(def.body, attrs)), args);
  if (!y.valid()) return std::nullopt;
  auto result = infer_type(def, attrs, types);
  if (!result || b.type(y) != *result) return std::nullopt;
  b.output("y", y);
  return std::move(b).build();
}

}  // namespace emend
