#include "rules/match.h"

#include <algorithm>
#include <memory>

#include "ops/table.h"

namespace emend {
namespace {

class Matcher {
 public:
  Matcher(const Graph& g, const Rule& rule) : g_(g), rule_(rule) {}

  // Every way to extend `m` so that the pattern is the node.
  void match(const Pattern& p, NodeId node, int repetition, const Match& m,
             std::vector<Match>& out) {
    switch (p.kind) {
      case Pattern::Kind::variable: {
        Match next = m;
        if (bind_term(rule_.variables, next.substitution, p.variable, repetition, Term(node.value)))
          out.push_back(std::move(next));
        return;
      }
      case Pattern::Kind::number:
        if (g_.is_constant(node) && is_number(g_.constant(node), p.number)) out.push_back(m);
        return;
      case Pattern::Kind::identity:
      case Pattern::Kind::constant:
      case Pattern::Kind::at:
      case Pattern::Kind::tuple:
        return;
      case Pattern::Kind::node:
        match_node(p, node, repetition, m, out);
    }
  }

 private:
  void match_node(const Pattern& p, NodeId node, int repetition, const Match& m,
                  std::vector<Match>& out) {
    const Node& n = g_.nodes[node];
    const OpDef& def = op_def(n);
    if (p.variable < 0 && p.op != n.op) return;
    auto repeats =
        std::count_if(p.args.begin(), p.args.end(), [](const Pattern& a) { return a.repeated; });
    size_t fixed = p.args.size() - static_cast<size_t>(repeats);
    if (repeats ? n.args.size() < fixed : n.args.size() != fixed) return;
    Match start = m;
    start.nodes.push_back(node);
    if (p.variable >= 0) {
      if (!in_class(rule_.variables.classes[static_cast<size_t>(p.variable)], def) ||
          !bind_op(start.substitution, p.variable, {n.op, n.attrs}))
        return;
    } else if (!bind_attrs(rule_.variables, p, n.attrs, repetition, start.substitution)) {
      return;
    }
    match_args({p.args, n.args, repetition}, start, out);
    if (def.has(commutative) && fixed == 2 && !repeats && n.args[0] != n.args[1]) {
      NodeId swapped[] = {n.args[1], n.args[0]};
      match_args({p.args, swapped, repetition}, start, out);
    }
  }

  // What is left to match of a node's operands.
  struct Rest {
    std::span<const Pattern> patterns;
    Args args;
    int repetition;  // of the pattern around
    int taken = 0;   // operands that the first pattern has already taken, if it is repeated
  };

  void match_args(const Rest& rest, const Match& m, std::vector<Match>& out) {
    if (rest.patterns.empty()) {
      if (rest.args.empty()) out.push_back(m);
      return;
    }
    const Pattern& first = rest.patterns[0];
    auto others = rest.patterns.subspan(1);
    if (first.repeated) match_args({others, rest.args, rest.repetition}, m, out);
    if (rest.args.empty()) return;
    std::vector<Match> next;
    match(first, rest.args[0], first.repeated ? rest.taken : rest.repetition, m, next);
    for (const Match& n : next) {
      if (first.repeated) {
        match_args({rest.patterns, rest.args.subspan(1), rest.repetition, rest.taken + 1}, n, out);
      } else {
        match_args({others, rest.args.subspan(1), rest.repetition}, n, out);
      }
    }
  }

  const Graph& g_;
  const Rule& rule_;
};

// A value by its operands alone: no random numbers, nothing unknown, no body with a life of its
// own.
bool is_plain(const Node& n) {
  Kind kind = op_def(n).kind;
  return kind != Kind::random && kind != Kind::opaque && kind != Kind::host && kind != Kind::scan;
}

}  // namespace

std::vector<Match> match(const Graph& g, const Rule& rule, NodeId root) {
  std::vector<Match> out;
  Match empty;
  empty.substitution.resize(rule.variables.names.size());
  Matcher(g, rule).match(rule.lhs, root, -1, empty, out);
  return out;
}

TermFacts facts_of(const Graph& g) {
  auto weights = std::make_shared<std::vector<bool>>();
  for (const Node& n : g.nodes) {
    bool all =
        std::all_of(n.args.begin(), n.args.end(), [&](NodeId a) { return (*weights)[a.value]; });
    weights->push_back(all && n.op != kInputOp && is_plain(n));
  }
  return {.type = [&g](Term t) -> const Type& { return g.types[NodeId(t.value)]; },
          .constant = [&g](Term t) -> const Tensor* {
            NodeId n(t.value);
            return g.is_constant(n) ? &g.constant(n) : nullptr;
          },
          .weight_only = [weights](Term t) -> bool { return (*weights)[t.value]; }};
}

}  // namespace emend
