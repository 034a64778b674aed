#include "mutate/instance.h"

#include "base/error.h"
#include "base/text.h"
#include "ops/build.h"

namespace emend {
namespace {

// Programs are trees in patterns: what is used twice stands there twice, and is one class again.
class Writer {
 public:
  Writer(const Graph& g, Rule& rule) : g_(g) {
    for (size_t i = 0; i < g.inputs.size(); ++i)
      inputs_.push_back(rule.variables.index(str("x", i)));
  }

  Pattern output() const {
    EMEND_ASSERT(g_.outputs.size() == 1, "a rule of one shape has one result");
    return at(g_.outputs[0].node);
  }

 private:
  Pattern at(NodeId n) const {
    const Node& node = g_.nodes[n];
    Pattern p;
    if (node.op == kInputOp) {
      p.variable = inputs_[static_cast<size_t>(node.attrs.get<int64_t>("index"))];
    } else if (g_.is_constant(n)) {
      const Tensor& value = g_.constant(n);
      EMEND_ASSERT(value.rank() == 0, "patterns name scalars only, not a constant of the shape ",
                   shape_text(value.shape()));
      p.kind = Pattern::Kind::number;
      p.number = value.real(0);
    } else {
      p.kind = Pattern::Kind::node;
      p.op = node.op;
      for (const auto& [name, value] : node.attrs.entries()) {
        AttrExpr literal;
        literal.literal = value;
        p.attrs.emplace_back(name, std::move(literal));
      }
      for (NodeId a : node.args) p.args.push_back(at(a));
    }
    return p;
  }

  const Graph& g_;
  std::vector<int> inputs_;
};

}  // namespace

Rule rule_between(std::string name, const Graph& original, const Graph& mutant) {
  EMEND_ASSERT(original.inputs.size() == mutant.inputs.size());
  Rule r;
  r.name = std::move(name);
  r.theme = "mutation";
  r.numerics = Numerics::reassociating;
  r.lhs = Writer(original, r).output();
  r.rhs = Writer(mutant, r).output();
  EMEND_ASSERT(r.lhs.kind == Pattern::Kind::node, "an input is no original");
  for (size_t i = 0; i < original.inputs.size(); ++i) {
    const Type& type = original.type(original.inputs[i].node);
    EMEND_ASSERT(type == mutant.type(mutant.inputs[i].node));
    r.where.push_back(resolved_expr(
        str("(equal (shape ?x", i, ") ", to_text(AttrValue(type.shape)), ")"), r.variables));
  }
  return r;
}

Graph program_of(const RightSide& plan, std::span<const Type> operands, const std::string& output) {
  GraphBuilder b;
  for (size_t i = 0; i < operands.size(); ++i) b.input(str("x", i), operands[i]);
  auto results =
      add(plan, {.matched = [](Term t) { return t; },  // inputs are the first nodes
                 .constant = [&](const Tensor& t) { return Term(b.constant(t).value); },
                 .node =
                     [&](const RightSide::Step& step, std::span<const Term> args) {
                       std::vector<NodeId> nodes;
                       for (Term t : args) nodes.push_back(NodeId(t.value));
                       return Term(b.try_op(step.op, nodes, step.attrs).value_or_throw().value);
                     }});
  b.output(output, NodeId(results[0].value));
  return std::move(b).build();
}

}  // namespace emend
