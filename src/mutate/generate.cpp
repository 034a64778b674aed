#include "mutate/generate.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <unordered_set>

#include "base/error.h"
#include "base/hash.h"
#include "base/rng.h"
#include "base/text.h"
#include "equiv/field_value.h"
#include "mutate/sketch.h"
#include "ops/table.h"

namespace emend {
namespace {

constexpr uint64_t kSeed = 1;

// --- A twin with few channels, on which values cost little ---

int64_t shrunk(int64_t n) {
  if (n <= 6) return n;
  for (int64_t few : {6, 4, 3, 2})
    if (n % few == 0) return few;
  return 5;
}

// The same operators of smaller operands; the original where they do not fit.
Graph twin_of(const Graph& g, const ParallelOps& ops) {
  const bool conv = op_def(ops.op).name == "conv";
  const int64_t group = conv ? ops.attrs.get<int64_t>("group") : 1;
  GraphBuilder b;
  std::vector<NodeId> became;
  for (size_t i = 0; i < g.inputs.size(); ++i) {
    Type t = g.type(g.inputs[i].node);
    const auto& firsts = ops.operands[0];
    bool first = std::find(firsts.begin(), firsts.end(), i) != firsts.end();
    if (!conv) {
      for (int64_t& n : t.shape) n = shrunk(n);
    } else if (first) {
      t.shape[1] = shrunk(t.shape[1] / group) * group;
    } else {
      t.shape[0] = shrunk(t.shape[0] / group) * group;
      t.shape[1] = shrunk(t.shape[1]);
    }
    became.push_back(b.input(g.inputs[i].name, t));
  }
  for (size_t k = 0; k < ops.count(); ++k) {
    NodeId args[] = {became[ops.operands[0][k]], became[ops.operands[1][k]]};
    auto y = b.try_op(ops.op, args, ops.attrs);
    if (!y) return g;
    b.output(g.outputs[k].name, *y);
  }
  return std::move(b).build();
}

// --- Enumeration ---

struct Chain {
  Join join;
  std::vector<Move> moves;
  Type type;
  size_t steps() const { return moves.size() + (join.kind != Join::Kind::none); }
};

std::string key_of(const std::vector<View>& chain) {
  std::string key;
  for (const View& v : chain) key += to_text(v) + ";";
  return key;
}

// All chains of moves of up to so many steps, the short ones first; of those with one map only the
// first, and none that does nothing. Where somebody asks for a shape, the longest ones are there
// only if they make it: nothing else comes of them.
struct ChainTree {
  struct One {
    std::vector<Move> moves;
    MoveChain chain;
    size_t parent;  // the chain without its last move
  };
  std::vector<One> all;  // the empty one is the first
};

ChainTree chains_of(const std::vector<Move>& menu, const Dims& from, size_t steps,
                    const Dims* wanted = nullptr) {
  ChainTree tree{{{{}, {.shape = from}, 0}}};
  std::set<std::string> seen;
  for (size_t i = 0; i < tree.all.size(); ++i) {
    if (tree.all[i].moves.size() == steps) break;
    for (const Move& m : menu) {
      auto next = shape_after(m, tree.all[i].chain.shape);
      bool longest = tree.all[i].moves.size() + 1 == steps;
      if (!next || (longest && wanted && *next != *wanted)) continue;
      ChainTree::One longer = tree.all[i];
      longer.moves.push_back(m);
      longer.chain.add(m);
      longer.parent = i;
      if (longer.chain.views.empty() || !seen.insert(key_of(longer.chain.views)).second) continue;
      tree.all.push_back(std::move(longer));
    }
  }
  return tree;
}

Graph of_output(const Graph& g, size_t output) {
  Graph one = g;
  one.outputs = {g.outputs[output]};
  return without_dead_nodes(one);
}

std::optional<std::vector<Agreement>> where_equal(const Graph& a, const Graph& b) {
  std::vector<Agreement> where;
  for (size_t o = 0; o < a.outputs.size(); ++o) {
    auto one = agreement(of_output(a, o), of_output(b, o));
    if (!one) return std::nullopt;
    where.push_back(std::move(*one));
  }
  return where;
}

class Generator {
 public:
  Generator(const Graph& original, const ParallelOps& ops, MutantMenu menu,
            const GenerateOptions& options, GenerateReport& report)
      : original_(original),
        ops_(ops),
        options_(options),
        report_(report),
        menu_(std::move(menu)),
        twin_(twin_of(original, ops)),
        types_(output_types(twin_)),
        truth_(twin_, kSeed) {
    draw_positions();
  }

  std::vector<GeneratedMutant> run() {
    std::vector<Chain> first = chains(0), second = chains(1);
    for (size_t before = 1; before < options_.depth; ++before) {  // short programs first
      for (const Chain& a : first) {
        for (const Chain& b : second) {
          if (a.steps() + b.steps() != before) continue;
          if (ops_.count() > 1 && a.join.kind == Join::Kind::none &&
              b.join.kind == Join::Kind::none)
            continue;
          for (const MutantMenu::Compute& c : menu_.computes) {
            if (stopped()) return std::move(found_);
            compute(a, b, c);
          }
        }
      }
    }
    return std::move(found_);
  }

 private:
  bool stopped() const {
    return report_.programs >= options_.programs || found_.size() >= options_.candidates ||
           options_.monitor.stop_requested();
  }

  // What an operand may become in less steps than all.
  std::vector<Chain> chains(size_t slot) const {
    const std::vector<size_t>& inputs = ops_.operands[slot];
    auto type = [&](size_t i) { return twin_.type(twin_.inputs[i].node); };
    if (std::all_of(inputs.begin(), inputs.end(), [&](size_t i) { return i == inputs[0]; }))
      return moved_chains(slot, type(inputs[0]));
    std::vector<Chain> all;
    std::vector<Join> ways = {{Join::Kind::stacked, 0}};
    for (size_t d = 0; d < type(inputs[0]).shape.size(); ++d)
      ways.push_back({Join::Kind::along, d});
    for (const Join& how : ways) {
      GraphBuilder b;
      std::vector<NodeId> parts;
      for (size_t i : inputs) parts.push_back(b.input(str("x", parts.size()), type(i)));
      try {
        all.push_back({.join = how, .moves = {}, .type = b.type(joined(b, parts, how))});
      } catch (const Error&) {
        continue;  // extents differ elsewhere
      }
    }
    return all;
  }

  std::vector<Chain> moved_chains(size_t slot, const Type& type) const {
    const std::vector<Move>& menu = slot == 0 ? menu_.first : menu_.second;
    std::vector<Chain> all;
    // A way back takes a step, unless both operands change alike.
    const size_t steps = options_.depth < 2 ? 0 : options_.depth - 2;
    for (ChainTree::One& c : chains_of(menu, type.shape, steps).all)
      all.push_back({{}, std::move(c.moves), Type::tensor(type.dtype, c.chain.shape)});
    return all;
  }

  void compute(const Chain& a, const Chain& b, const MutantMenu::Compute& c) {
    Type operands[] = {a.type, b.type};
    if (c.swapped) std::swap(operands[0], operands[1]);
    auto y = infer_type(op_def(c.op), c.attrs, operands);
    if (!y || !y->is_tensor()) return;
    Sketch s{.joins = {a.join, b.join}, .moves = {a.moves, b.moves}, .compute = &c};
    if (ops_.count() > 1) return parts(s, *y);
    if (*y == types_[0] && accept(s)) return;
    if (s.steps() < options_.depth && y->shape.size() != types_[0].shape.size() &&
        refined_to(y->shape, types_[0].shape)) {
      s.refined = true;
      accept(s);
      return;
    }
    back(s, y->shape);
  }

  // Moves of what was computed, where they give it the original's shape. What extends an accepted
  // program is not looked at.
  void back(Sketch s, const Dims& shape) {
    if (s.steps() >= options_.depth) return;
    const size_t steps = options_.depth - s.steps();
    auto [known, fresh] = ways_back_.try_emplace({shape, steps});
    if (fresh) known->second = chains_of(menu_.results, shape, steps, &types_[0].shape);
    const std::vector<ChainTree::One>& all = known->second.all;
    std::vector<bool> accepted(all.size(), false);
    for (size_t i = 1; i < all.size() && !stopped(); ++i) {
      accepted[i] = accepted[all[i].parent];
      if (accepted[i] || all[i].chain.shape != types_[0].shape) continue;
      s.back = all[i].moves;
      accepted[i] = accept(s);
    }
  }

  void parts(Sketch s, const Type& y) {
    for (size_t axis = 0; axis < y.shape.size(); ++axis) {
      s.part = {Join::Kind::along, axis};
      if (s.steps() <= options_.depth) accept(s);
    }
    s.part = {Join::Kind::stacked, 0};
    if (s.steps() <= options_.depth) accept(s);
  }

  // Does it agree with the original at enough positions? Then it is a candidate.
  bool accept(const Sketch& s) {
    auto small = program_of(s, ops_, twin_);
    if (!small || stopped()) return false;
    ++report_.programs;
    if (!agrees(*small)) return false;
    ++report_.agreeing;
    auto program = program_of(s, ops_, original_);
    if (!program || !kept_.insert(hash(*program)).second) return false;
    if (options_.worthwhile && !options_.worthwhile(*program, to_text(s))) return true;
    auto where = where_equal(original_, *program);
    if (!where) {
      ++report_.unproven;
      return false;
    }
    GeneratedMutant c{std::move(*program), to_text(s), std::move(*where)};
    if (c.share() < options_.least_share) return false;
    found_.push_back(std::move(c));
    return true;
  }

  bool agrees(const Graph& program) {
    FieldReader values(program, kSeed);
    const auto most = static_cast<size_t>(
        std::floor((1 - options_.least_share) * static_cast<double>(positions_.size())));
    size_t wrong = 0;
    for (size_t i = 0; i < positions_.size(); ++i) {
      for (size_t o = 0; o < types_.size(); ++o) {
        if (has_value(values, positions_[i][o], o, expected_[i][o])) continue;
        if (++wrong > most) return false;
        break;
      }
    }
    return true;
  }

  // What has no value over the field has not this one.
  static bool has_value(FieldReader& values, const Dims& at, size_t output, Mod61 expected) {
    try {
      return values.at(at, output) == expected;
    } catch (const Inexact&) {
      return false;
    }
  }

  // Corners and thirds of every dimension, drawn.
  void draw_positions() {
    Rng rng(kSeed);
    for (size_t i = 0; i < options_.samples; ++i) {
      positions_.emplace_back();
      expected_.emplace_back();
      for (size_t o = 0; o < types_.size(); ++o) {
        Dims at;
        for (int64_t n : types_[o].shape) {
          const int64_t places[] = {0, n / 3, 2 * n / 3, n - 1};
          at.push_back(places[static_cast<size_t>(rng.between(0, 3))]);
        }
        expected_.back().push_back(truth_.at(at, o));
        positions_.back().push_back(std::move(at));
      }
    }
  }

  const Graph& original_;
  const ParallelOps& ops_;
  const GenerateOptions& options_;
  GenerateReport& report_;
  MutantMenu menu_;
  Graph twin_;
  std::vector<Type> types_;  // of the twin's outputs
  FieldReader truth_;
  std::vector<std::vector<Dims>> positions_;  // per sample, per output
  std::vector<std::vector<Mod61>> expected_;
  std::map<std::pair<Dims, size_t>, ChainTree> ways_back_;  // by shape and number of steps
  std::unordered_set<uint64_t> kept_;
  std::vector<GeneratedMutant> found_;
};

// Only what can be placed has mutants, and only what has values over a field, which tell them
// apart.
std::vector<GeneratedMutant> mutants_of(const Graph& original, const ParallelOps& ops,
                                        const GenerateOptions& options, GenerateReport& report) {
  MutantMenu menu = menu_for(ops, original, options.radices);
  if (menu.computes.empty()) return {};
  try {
    return Generator(original, ops, std::move(menu), options, report).run();
  } catch (const Inexact&) {
    return {};
  }
}

// The compute operator of a program, as a program.
struct Nucleus {
  NodeId node;
  Graph alone;
};
std::optional<Nucleus> nucleus_of(const Graph& g) {
  for (size_t i = 0; i < g.size(); ++i) {
    const Node& n = g.nodes[NodeId(i)];
    if (op_def(n).kind == Kind::structure || op_def(n).kind == Kind::movement) continue;
    GraphBuilder b;
    std::vector<NodeId> args;
    for (NodeId a : n.args) args.push_back(b.input(str("x", args.size()), g.type(a)));
    b.output("y", b.try_op(n.op, args, n.attrs).value_or_throw());
    return Nucleus{NodeId(i), std::move(b).build()};
  }
  return std::nullopt;
}

Graph with_nucleus(const Graph& g, NodeId nucleus, const Graph& mutant) {
  GraphBuilder b;
  std::vector<NodeId> became;
  size_t input = 0;
  for (size_t i = 0; i < g.size(); ++i) {
    const Node& n = g.nodes[NodeId(i)];
    std::vector<NodeId> args;
    for (NodeId a : n.args) args.push_back(became[a.value]);
    if (n.op == kInputOp) {
      became.push_back(b.input(g.inputs[input].name, g.type(NodeId(i))));
      ++input;
    } else if (g.is_constant(NodeId(i))) {
      became.push_back(b.constant(g.constant(NodeId(i))));
    } else if (NodeId(i) == nucleus) {
      became.push_back(splice(b, mutant, args)[0]);
    } else {
      became.push_back(b.try_op(n.op, args, n.attrs).value_or_throw());
    }
  }
  for (const GraphOutput& o : g.outputs) b.output(o.name, became[o.node.value]);
  return std::move(b).build();
}

}  // namespace

bool GeneratedMutant::equal() const {
  return std::all_of(where.begin(), where.end(), [](const Agreement& a) { return a.everywhere(); });
}

double GeneratedMutant::share() const {
  double least = 1;
  for (const Agreement& a : where) least = std::min(least, a.share());
  return least;
}

std::optional<ParallelOps> parallel_ops(const Graph& g) {
  ParallelOps ops;
  if (g.outputs.empty() || g.size() != g.inputs.size() + g.outputs.size()) return std::nullopt;
  for (const GraphOutput& o : g.outputs) {
    const Node& n = g.nodes[o.node];
    if (n.args.size() != 2 || !g.type(o.node).is_tensor()) return std::nullopt;
    // Nothing to compute, or nothing to compute it from.
    const bool empty =
        count(g.type(o.node).shape) == 0 || std::ranges::any_of(n.args, [&](NodeId a) {
          return g.type(a).is_tensor() && count(g.type(a).shape) == 0;
        });
    if (empty) return std::nullopt;
    if (ops.count() > 0 && (n.op != ops.op || !(n.attrs == ops.attrs))) return std::nullopt;
    ops.op = n.op;
    ops.attrs = n.attrs;
    for (size_t slot : {0u, 1u}) {
      if (n.args[slot].value >= g.inputs.size()) return std::nullopt;
      ops.operands[slot].push_back(n.args[slot].value);
    }
  }
  return ops;
}

std::vector<GeneratedMutant> generate(const Graph& subprogram, const GenerateOptions& options,
                                      GenerateReport* report) {
  GenerateReport facts;
  std::vector<GeneratedMutant> all;
  if (auto ops = parallel_ops(subprogram)) {
    all = mutants_of(subprogram, *ops, options, facts);
    std::set<uint64_t> seen = {hash(subprogram)};
    size_t begin = 0;
    for (size_t round = 1; round < options.rounds && ops->count() == 1; ++round) {
      const size_t end = all.size();
      for (size_t i = begin; i < end && all.size() < options.candidates; ++i) {
        auto nucleus = nucleus_of(all[i].program);
        auto inner = nucleus ? parallel_ops(nucleus->alone) : std::nullopt;
        if (!inner || !seen.insert(hash(nucleus->alone)).second) continue;
        const Graph outer = all[i].program;
        GenerateOptions again = options;
        if (options.worthwhile) {
          again.worthwhile = [&](const Graph& mutant, const std::string& steps) {
            return options.worthwhile(with_nucleus(outer, nucleus->node, mutant),
                                      all[i].steps + " | " + steps);
          };
        }
        for (GeneratedMutant& c : mutants_of(nucleus->alone, *inner, again, facts)) {
          Graph whole = with_nucleus(outer, nucleus->node, c.program);
          auto where = where_equal(subprogram, whole);
          if (!where || all.size() >= options.candidates) continue;
          GeneratedMutant twice{std::move(whole), all[i].steps + " | " + c.steps,
                                std::move(*where)};
          if (twice.share() >= options.least_share) all.push_back(std::move(twice));
        }
      }
      begin = end;
    }
  }
  std::stable_sort(all.begin(), all.end(), [](const GeneratedMutant& a, const GeneratedMutant& b) {
    return a.equal() != b.equal() ? a.equal() : a.share() > b.share();
  });
  if (report) *report = facts;
  return all;
}

}  // namespace emend
