#include "simplify/simplify.h"

#include <algorithm>
#include <map>
#include <set>
#include <unordered_map>

#include "ops/fold.h"
#include "ops/onnx_row.h"
#include "ops/table.h"
#include "ops/verify.h"
#include "rules/match.h"

namespace emend {
namespace {

constexpr const char* kFixedPoint = "fixed point";

// What an operator counts in the bargain that a rule is.
struct Weight {
  int heavy = 0, all = 0;
  void add(const OpDef& def) {
    if (def.kind == Kind::structure) return;
    ++all;
    heavy += def.kind != Kind::elementwise && def.kind != Kind::movement;
  }
  bool within(const Weight& other) const { return heavy <= other.heavy && all <= other.all; }
};

// What lives as long as the whole run.
struct State {
  const SimplifyOptions& options;
  struct Used {
    const Rule* rule;
    bool bargain;  // it may fire only if it leaves no more than it removes
  };
  std::vector<std::vector<Used>> by_op;  // the enabled rules that may match at an operator
  bool fold, share, merge;
  bool keeps_quantized;  // weights, for the rules that want them so
  FoldBudget budget;
  ConstantIndex constants;
  std::map<std::string, int> fired;
  int changes = 0;  // in the round at hand

  bool folds(const OpDef& def, Attrs attrs, const Type& result, Types operands) const {
    if (!fold || !is_foldable(def, attrs) || !budget.allows(result, operands)) return false;
    if (keeps_quantized && def.name == "dequantize_linear") return false;
    if (def.kind != Kind::movement || !result.is_tensor()) return true;
    // Several weights joined, or taps among zeros, are other weights: kernels do not look through
    // that, or the fastest do not.
    if (operands.size() > 1) return true;
    if (def.name == "view" && emend::count(result.shape) != emend::count(operands[0].shape))
      return true;
    auto bytes = storage_bytes(result.dtype, static_cast<uint64_t>(emend::count(result.shape)));
    return bytes && *bytes < static_cast<uint64_t>(options.fold_moves_below);
  }

  void count(const std::string& name) {
    ++fired[name];
    ++changes;
  }
};

void use_rules(State& s, bool finish) {
  s.by_op.assign(all_ops().size(), {});
  auto use = [&](const Rule& r, bool bargain) {
    if (s.options.exact && r.numerics != Numerics::exact) return;
    if (r.lhs.kind != Pattern::Kind::node ||
        !is_enabled(r.name, s.options.enable, s.options.disable))
      return;
    for (size_t i = 0; i < all_ops().size(); ++i) {
      int v = r.lhs.variable;
      bool fits = v >= 0 ? in_class(r.variables.classes[static_cast<size_t>(v)], all_ops()[i])
                         : r.lhs.op == OpId(i);
      if (fits) s.by_op[i].push_back({&r, bargain});
    }
  };
  for (const Rule& r : all_rules()) {
    if (r.use == Use::always || (finish && r.use == Use::finish)) use(r, true);
  }
  if (!s.options.form || finish) return;
  for (const Rule& r : *s.options.form) use(r, false);
}

// One sweep: from the outputs down it is decided what is rewritten, by matches in the old graph;
// then the new graph is built from the inputs up. Rules are equations, so that rewriting one place
// never invalidates a match at another.
class Round {
 public:
  Round(const Graph& g, State& s)
      : g_(g),
        s_(s),
        only_onnx_(std::ranges::all_of(g.nodes, is_structure_or_onnx)),
        uses_(use_counts(g)),
        facts_(facts_of(g)) {
    // What is not folded here the program computes at every run: no place to move work to.
    facts_.weight_only = nullptr;
  }

  Graph run() {
    decide();
    made_.resize(g_.size());
    for (const GraphInput& i : g_.inputs)
      made_[i.node] = b_.input(i.name, g_.types[i.node], i.donated);
    for (size_t i = 0; i < g_.size(); ++i) {
      NodeId id{i};
      if (!needed_[id] || g_.nodes[id].op == kInputOp) continue;
      b_.set_origin(g_.names[id]);
      made_[id] = build(id);
    }
    for (const GraphOutput& o : g_.outputs) b_.output(o.name, made_[o.node]);
    return std::move(b_).build();
  }

 private:
  struct Rewrite {
    const Rule* rule;
    RightSide plan;
  };

  // --- Which nodes are needed, and how each is made ---

  void decide() {
    needed_ = IdVec<NodeId, char>(g_.size(), 0);
    for (const GraphOutput& o : g_.outputs) needed_[o.node] = 1;
    for (size_t i = g_.size(); i-- > 0;) {
      NodeId id{i};
      if (!needed_[id]) continue;
      if (auto rewrite = find_rewrite(id)) {
        auto need = [&](RightSide::Ref r) {
          if (r.from == RightSide::Ref::From::matched) needed_[NodeId(r.index)] = 1;
        };
        for (RightSide::Ref r : rewrite->plan.results) need(r);
        for (const RightSide::Step& step : rewrite->plan.steps) {
          for (RightSide::Ref r : step.args) need(r);
        }
        s_.count(rewrite->rule->name);
        rewrites_.emplace(id, std::move(*rewrite));
      } else {
        for (NodeId a : g_.nodes[id].args) needed_[a] = 1;
      }
    }
  }

  std::optional<Rewrite> find_rewrite(NodeId root) const {
    for (const auto& [rule, bargain] : s_.by_op[g_.nodes[root].op.value]) {
      for (const Match& m : match(g_, *rule, root)) {
        auto plan = apply(*rule, m.substitution, facts_, g_.types[root]);
        if (plan && (!bargain || added(*plan).within(removed(m))))
          return Rewrite{rule, std::move(*plan)};
      }
    }
    return std::nullopt;
  }

  // The operators that disappear with the match: those that nobody else uses.
  Weight removed(const Match& m) const {
    std::vector<NodeId> nodes = m.nodes;
    NodeId root = nodes[0];
    std::sort(nodes.begin(), nodes.end(), std::greater<>());
    nodes.erase(std::unique(nodes.begin(), nodes.end()), nodes.end());
    Weight w;
    std::map<NodeId, int> uses_inside;
    for (NodeId n : nodes) {  // users before their operands
      if (n != root && uses_inside[n] < uses_[n]) continue;
      w.add(op_def(g_.nodes[n]));
      for (NodeId a : g_.nodes[n].args) ++uses_inside[a];
    }
    return w;
  }

  // The operators that the plan adds, without those that will be folded.
  Weight added(const RightSide& plan) const {
    Weight w;
    std::vector<bool> constant;
    auto is_constant = [&](RightSide::Ref r) {
      if (r.from == RightSide::Ref::From::step) return bool(constant[r.index]);
      return r.from == RightSide::Ref::From::constant || g_.is_constant(NodeId(r.index));
    };
    for (const RightSide::Step& step : plan.steps) {
      std::vector<Type> types;
      for (RightSide::Ref r : step.args) types.push_back(type_of(plan, r, facts_));
      const OpDef& def = op_def(step.op);
      constant.push_back(s_.folds(def, step.attrs, step.type, types) &&
                         std::all_of(step.args.begin(), step.args.end(), is_constant));
      if (!constant.back()) w.add(def);
    }
    return w;
  }

  // --- The new graph ---

  NodeId build(NodeId id) {
    const Node& n = g_.nodes[id];
    if (n.op == kConstantOp) return constant(g_.constant(id));
    auto it = rewrites_.find(id);
    if (it == rewrites_.end()) {
      std::vector<NodeId> args;
      for (NodeId a : n.args) args.push_back(made_[a]);
      return node(n.op, n.attrs, args);
    }
    return NodeId(
        add(it->second.plan, {.matched = [&](Term t) { return Term(made_[NodeId(t.value)].value); },
                              .constant = [&](const Tensor& t) { return Term(constant(t).value); },
                              .node =
                                  [&](const RightSide::Step& step, std::span<const Term> terms) {
                                    std::vector<NodeId> args;
                                    for (Term t : terms) args.push_back(NodeId(t.value));
                                    return Term(node(step.op, step.attrs, args).value);
                                  }})[0]
            .value);
  }

  NodeId constant(const Tensor& t) {
    if (!s_.merge) return b_.constant(t);
    Tensor one = s_.constants.canonical(t);
    if (one.dtype() == DType::string || one.count() == 0) return b_.constant(t);
    auto key = std::pair(one.data(), to_text(one.type()));
    auto [it, fresh] = constants_.try_emplace(key);
    if (fresh) {
      it->second = b_.constant(one);
    } else if (t.data() != one.data()) {
      s_.count("merge-constants");
    }
    return it->second;
  }

  NodeId node(OpId op, Attrs attrs, const std::vector<NodeId>& args) {
    if (auto value = fold(op, attrs, args)) {
      s_.count("fold-constants");
      return constant(*value);
    }
    Node key{op, attrs, SmallVec<NodeId, 4>(args)};
    if (op_def(op).has(commutative)) std::sort(key.args.begin(), key.args.end());
    bool shareable = s_.share && (op_def(op).kind != Kind::opaque || shares_onnx(attrs));
    if (shareable) {
      auto it = nodes_.find(key);
      if (it != nodes_.end()) {
        s_.count("common-subexpressions");
        return it->second;
      }
    }
    NodeId made = b_.try_op(op, args, attrs).value_or_throw();
    if (shareable) nodes_.emplace(std::move(key), made);
    return made;
  }

  // Among ONNX nodes alone, as in the body of a Loop that waits for run time. Beside others they
  // stand where a program depends on sizes, and two may be the same at this size only.
  bool shares_onnx(Attrs attrs) const {
    if (!only_onnx_) return false;
    auto node = attrs.as<OnnxNode>();
    OnnxEntry entry = find_onnx(node.domain, node.type, node.version);
    return entry.row && op_def(entry.op).kind != Kind::random && node.captures.empty();
  }

  std::optional<Tensor> fold(OpId op, Attrs attrs, const std::vector<NodeId>& args) {
    const OpDef& def = op_def(op);
    if (args.empty()) return std::nullopt;
    std::vector<Type> types;
    for (NodeId a : args) {
      if (!is_known(a)) return std::nullopt;
      types.push_back(b_.type(a));
    }
    auto type = infer_type(def, attrs, types);
    if (!type || !type->is_tensor() || !s_.folds(def, attrs, *type, types)) return std::nullopt;
    std::vector<Tensor> operands;
    for (NodeId a : args) {
      auto operand = known(a);
      if (!operand) return std::nullopt;
      operands.push_back(std::move(*operand));
    }
    auto value = folded(def, attrs, operands, *type);
    if (value) s_.budget.spend(*type, types);
    return value;
  }

  // A constant, or moves of constants that are too large to be kept twice: what is computed from
  // them is not, and would otherwise be computed at every run.
  static constexpr int kMoves = 4;  // one after the other, at most
  bool is_known(NodeId n, int moves = kMoves) const {
    if (b_.graph().is_constant(n)) return true;
    if (moves == 0) return false;
    const Node& node = b_.graph().nodes[n];
    if (op_def(node).kind != Kind::movement || !is_foldable(op_def(node), node.attrs) ||
        !b_.type(n).is_tensor() || node.args.empty()) {
      return false;
    }
    int64_t moved = 0;
    for (NodeId a : node.args) {
      if (!is_known(a, moves - 1)) return false;
      moved += emend::count(b_.type(a).shape);
    }
    return emend::count(b_.type(n).shape) <= moved;  // what grows is better made when it is needed
  }
  std::optional<Tensor> known(NodeId n) const {
    if (b_.graph().is_constant(n)) return b_.graph().constant(n);
    const Node& node = b_.graph().nodes[n];
    std::vector<Tensor> operands;
    for (NodeId a : node.args) {
      auto operand = known(a);
      if (!operand) return std::nullopt;
      operands.push_back(std::move(*operand));
    }
    return folded(op_def(node), node.attrs, operands, b_.type(n));
  }

  struct NodeHash {
    size_t operator()(const Node& n) const { return hash(n); }
  };

  static bool is_structure_or_onnx(const Node& n) {
    Kind kind = op_def(n).kind;
    return kind == Kind::structure || kind == Kind::opaque;
  }

  const Graph& g_;
  State& s_;
  bool only_onnx_;
  IdVec<NodeId, int> uses_;
  TermFacts facts_;
  IdVec<NodeId, char> needed_;
  std::unordered_map<NodeId, Rewrite> rewrites_;
  GraphBuilder b_;
  IdVec<NodeId, NodeId> made_;
  std::unordered_map<Node, NodeId, NodeHash> nodes_;
  std::map<std::pair<const std::byte*, std::string>, NodeId> constants_;
};

// The bodies of loops and branches, each cleaned once; those of ONNX nodes are among what the file
// says of the node.
Attrs with_simple_bodies(Attrs attrs, const SimplifyOptions& options, State& s) {
  Attrs out = attrs;
  for (const auto& [name, value] : attrs.entries()) {
    if (const Attrs* inner = value.as<Attrs>()) {
      out = out.with(name, with_simple_bodies(*inner, options, s));
      continue;
    }
    const GraphRef* body = value.as<GraphRef>();
    if (!body || !*body) continue;
    SimplifyReport report;
    Graph simple = simplify(**body, options, &report);
    for (const auto& f : report.fired) s.fired[f.rule] += f.times;
    out = out.with(name, GraphRef(std::move(simple)));
  }
  return out;
}

Graph with_simple_subgraphs(const Graph& g, SimplifyOptions options, State& s) {
  options.monitor = options.monitor.silent();
  Graph out = g;
  for (size_t i = 0; i < out.size(); ++i) {
    Node& n = out.nodes[NodeId(i)];
    n.attrs = with_simple_bodies(n.attrs, options, s);
  }
  return out;
}

double operator_count(const Graph& g) {
  auto is_operator = [](const Node& n) { return n.op != kInputOp && n.op != kConstantOp; };
  return static_cast<double>(std::count_if(g.nodes.begin(), g.nodes.end(), is_operator));
}

// Sweeps until nothing changes; says why it stopped.
std::string sweep(Graph& now, State& s, int& rounds) {
  const SimplifyOptions& o = s.options;
  for (;;) {
    if (o.monitor.stop_requested()) return "interrupted";
    if (rounds >= o.rounds) return "limit of rounds";
    s.changes = 0;
    now = Round(now, s).run();
    ++rounds;
    o.monitor.tell({"simplify", rounds, 0, operator_count(now), "nodes"});
    if (s.changes == 0) return kFixedPoint;
  }
}

}  // namespace

Graph simplify(const Graph& g, const SimplifyOptions& options, SimplifyReport* report) {
  State s{.options = options,
          .fold = is_enabled("fold-constants", options.enable, options.disable),
          .share = is_enabled("common-subexpressions", options.enable, options.disable),
          .merge = is_enabled("merge-constants", options.enable, options.disable),
          .keeps_quantized = true,
          .budget = FoldBudget(options.fold_bytes)};
  options.monitor.tell({"simplify", 0, 0, operator_count(g), "nodes"});
  Graph now = without_dead_nodes(with_simple_subgraphs(g, options, s));
  int rounds = 0;
  std::string stop_reason = kFixedPoint;
  if (!options.cleaned) {
    use_rules(s, false);
    stop_reason = sweep(now, s, rounds);
  }
  if (options.finish && stop_reason == kFixedPoint) {
    s.keeps_quantized = false;
    use_rules(s, true);
    stop_reason = sweep(now, s, rounds);
  }
  verify(now, "simplify");
  if (report) {
    *report = {.nodes_before = g.size(),
               .nodes_after = now.size(),
               .rounds = rounds,
               .stop_reason = std::move(stop_reason)};
    for (const auto& [name, times] : s.fired) report->fired.push_back({name, times});
  }
  return now;
}

}  // namespace emend
