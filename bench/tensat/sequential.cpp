#include "sequential.h"

#include <algorithm>
#include <map>
#include <queue>
#include <unordered_set>

#include "rules/match.h"

namespace emend {
namespace {

// A program with what is known of its nodes, so that a change of it is priced where it changed.
struct Program {
  Graph graph;
  std::vector<double> prices;
  std::vector<bool> weights;  // depend on no input
  double cost = 0;
};

// A program in which some nodes are replaced by a right side, seen without building it. Items are
// its nodes, then the steps of the right side, then its constants.
class Rewriting {
 public:
  explicit Rewriting(Prices& prices) : prices_(prices) {}

  // False: what replaces a node needs that node.
  bool lay_out(const Program& from, std::span<const NodeId> roots, const RightSide& side) {
    from_ = &from;
    side_ = &side;
    size_t nodes = from.graph.size();
    size_t items = nodes + side.steps.size() + side.constants.size();
    redirect_.resize(items);
    for (size_t i = 0; i < items; ++i) redirect_[i] = static_cast<uint32_t>(i);
    for (size_t i = 0; i < roots.size(); ++i) redirect_[roots[i].value] = item_of(side.results[i]);
    state_.assign(items, kNew);
    order_.clear();
    for (const GraphInput& i : from.graph.inputs) visit(i.node.value);
    for (const GraphOutput& o : from.graph.outputs) {
      auto at = resolved(o.node.value);
      if (!at || !visit(*at)) return false;
    }
    return true;
  }

  // Both look at all that the outputs need.
  double cost() {
    size_t nodes = from_->graph.size(), items = state_.size();
    weights_.assign(items, false);
    item_prices_.assign(items, 0);
    double sum = 0;
    for (uint32_t i : order_) {
      if (i < nodes) {
        // A rule's sides have one type, and depend on the same: what is above stays as it was.
        weights_[i] = from_->weights[i];
        item_prices_[i] = from_->prices[i];
      } else if (i < nodes + side_->steps.size()) {
        const RightSide::Step& step = side_->steps[i - nodes];
        PricedNode asked{.op = step.op, .attrs = step.attrs, .result = step.type};
        bool all = true;
        for (uint32_t a : args_of(i)) {
          asked.operands.push_back(type_of(a));
          asked.weights.push_back(weights_[a]);
          all &= weights_[a];
        }
        weights_[i] = all;
        item_prices_[i] = all ? 0 : prices_.exact(asked);
      } else {
        weights_[i] = true;
      }
      sum += item_prices_[i];
    }
    return sum;
  }
  uint64_t hash() {
    hashes_.resize(state_.size());
    for (uint32_t i : order_) {
      uint64_t h = hash_mix(op_of(i).value, attrs_of(i).hash());
      for (uint32_t a : args_of(i)) h = hash_mix(h, hashes_[a]);
      hashes_[i] = h;
    }
    uint64_t h = 0;
    for (const GraphOutput& o : from_->graph.outputs)
      h = hash_mix(h, hashes_[*resolved(o.node.value)]);
    return h;
  }
  size_t size() const { return order_.size(); }

  // After cost().
  Program build() const {
    const Graph& g = from_->graph;
    Program out;
    out.graph.constants = g.constants;
    for (const Tensor& t : side_->constants) out.graph.constants.push_back(t);
    std::vector<NodeId> made(state_.size());
    for (uint32_t i : order_) {
      Node node{op_of(i), attrs_of(i), {}};
      for (uint32_t a : args_of(i)) node.args.push_back(made[a]);
      made[i] = out.graph.nodes.push_back(std::move(node));
      out.graph.types.push_back(type_of(i));
      out.graph.names.push_back("");
      out.prices.push_back(item_prices_[i]);
      out.weights.push_back(weights_[i]);
      out.cost += item_prices_[i];
    }
    for (GraphInput i : g.inputs) {
      i.node = made[i.node.value];
      out.graph.inputs.push_back(i);
    }
    for (GraphOutput o : g.outputs) {
      o.node = made[*resolved(o.node.value)];
      out.graph.outputs.push_back(o);
    }
    return out;
  }

 private:
  enum State : uint8_t { kNew, kOpen, kDone };

  uint32_t item_of(RightSide::Ref r) const {
    auto nodes = static_cast<uint32_t>(from_->graph.size());
    if (r.from == RightSide::Ref::From::matched) return r.index;
    if (r.from == RightSide::Ref::From::step) return nodes + r.index;
    return nodes + static_cast<uint32_t>(side_->steps.size()) + r.index;
  }
  // Where a replaced node went; nothing if it went in a circle.
  std::optional<uint32_t> resolved(uint32_t i) const {
    for (int hops = 0; hops < 4; ++hops) {
      if (redirect_[i] == i) return i;
      i = redirect_[i];
    }
    return std::nullopt;
  }
  bool is_step(uint32_t i) const {
    return i >= from_->graph.size() && i < from_->graph.size() + side_->steps.size();
  }
  // Valid for items that were laid out.
  SmallVec<uint32_t, 8> args_of(uint32_t i) const {
    SmallVec<uint32_t, 8> out;
    if (i < from_->graph.size()) {
      for (NodeId a : from_->graph.nodes[NodeId(size_t{i})].args)
        out.push_back(resolved(a.value).value_or(i));
    } else if (is_step(i)) {
      for (RightSide::Ref r : side_->steps[i - from_->graph.size()].args)
        out.push_back(resolved(item_of(r)).value_or(i));
    }
    return out;
  }
  OpId op_of(uint32_t i) const {
    if (i < from_->graph.size()) return from_->graph.nodes[NodeId(size_t{i})].op;
    return is_step(i) ? side_->steps[i - from_->graph.size()].op : kConstantOp;
  }
  Attrs attrs_of(uint32_t i) const {
    size_t nodes = from_->graph.size();
    if (i < nodes) return from_->graph.nodes[NodeId(size_t{i})].attrs;
    if (is_step(i)) return side_->steps[i - nodes].attrs;
    size_t place = from_->graph.constants.size() + i - nodes - side_->steps.size();
    return Attrs({{"index", static_cast<int64_t>(place)}});
  }
  Type type_of(uint32_t i) const {
    size_t nodes = from_->graph.size();
    if (i < nodes) return from_->graph.types[NodeId(size_t{i})];
    if (is_step(i)) return side_->steps[i - nodes].type;
    return side_->constants[i - nodes - side_->steps.size()].type();
  }

  // Depth first, without recursion; false: there is a cycle.
  bool visit(uint32_t first) {
    if (state_[first] == kDone) return true;
    open_.assign(1, first);
    while (!open_.empty()) {
      uint32_t i = open_.back();
      if (state_[i] != kNew) {
        open_.pop_back();
        if (state_[i] == kDone) continue;
        state_[i] = kDone;
        order_.push_back(i);
        continue;
      }
      state_[i] = kOpen;
      for (uint32_t a : args_of(i)) {
        if (state_[a] == kOpen) return false;
        if (state_[a] == kNew) open_.push_back(a);
      }
    }
    return true;
  }

  Prices& prices_;
  const Program* from_ = nullptr;
  const RightSide* side_ = nullptr;
  std::vector<uint32_t> redirect_, order_, open_;
  std::vector<uint8_t> state_;
  std::vector<bool> weights_;
  std::vector<double> item_prices_;
  std::vector<uint64_t> hashes_;
};

// The pattern with its variables named by their order.
std::string shape_of(const Pattern& p, const Variables& v) {
  std::string text = to_text(p, v), out;
  std::map<std::string, size_t> names;
  for (size_t i = 0; i < text.size();) {
    size_t end = i + 1;
    if (text[i] == '?') {
      while (end < text.size() && (std::isalnum(text[end]) || text[end] == '_')) ++end;
      out += str("?", names.try_emplace(text.substr(i, end - i), names.size()).first->second);
    } else {
      out += text[i];
    }
    i = end;
  }
  return out;
}

// A rule by its roots, each a pattern that is matched alone.
struct Parts {
  const Rule* rule;
  std::vector<Rule> roots;
  bool alike = false;  // two roots of one shape: one order of a pair is as good as the other
};

std::vector<Parts> parts_of(const std::vector<Rule>& rules) {
  std::vector<Parts> out;
  for (const Rule& r : rules) {
    Parts& p = out.emplace_back(Parts{.rule = &r, .roots = {}});
    for (const Pattern& root : r.several_roots() ? std::span(r.lhs.args) : std::span(&r.lhs, 1)) {
      p.roots.push_back(r);
      p.roots.back().lhs = root;
    }
    p.alike = p.roots.size() == 2 &&
              shape_of(r.lhs.args[0], r.variables) == shape_of(r.lhs.args[1], r.variables);
  }
  return out;
}

// What both say, or nothing where they contradict each other.
std::optional<Substitution> joined(const Substitution& a, const Substitution& b) {
  for (size_t v = 0; v < a.size(); ++v) {
    if (a[v].index() && b[v].index() && !(a[v] == b[v])) return std::nullopt;
  }
  Substitution out = a;
  for (size_t v = 0; v < a.size(); ++v) {
    if (!out[v].index()) out[v] = b[v];
  }
  return out;
}

class Search {
 public:
  Search(Prices& prices, const SequentialOptions& options)
      : prices_(prices), options_(options), rewriting_(prices) {
    for (const Rule& r : tensat_rules()) {
      rules_.push_back(r);
      if (r.both) rules_.push_back(reversed(r));
    }
    parts_ = parts_of(rules_);
  }

  Sequential run(const Graph& g) {
    Stopwatch watch;
    double priced = prices_.seconds();
    Program first{.graph = g, .weights = weight_only_nodes(g)};
    for (size_t i = 0; i < g.size(); ++i) {
      bool free = first.weights[i] || g.nodes[NodeId(i)].op == kInputOp;
      double price = free ? 0 : prices_.exact(priced_node(g, NodeId(i), first.weights));
      first.prices.push_back(price);
      first.cost += price;
    }
    most_nodes_ = 2 * g.size();
    best_ = first;
    auto more = [](const Program& a, const Program& b) { return a.cost > b.cost; };
    std::vector<Program> queue{std::move(first)};  // a heap
    auto spent = [&] { return watch.seconds() - (prices_.seconds() - priced); };
    while (!queue.empty() && out_.taken < options_.budget && !out_.out_of_time) {
      std::pop_heap(queue.begin(), queue.end(), more);
      Program now = std::move(queue.back());
      queue.pop_back();
      if (now.cost < best_.cost) best_ = now;
      ++out_.taken;
      expand(
          now,
          [&](Program p) {
            queue.push_back(std::move(p));
            std::push_heap(queue.begin(), queue.end(), more);
          },
          [&] { return out_.out_of_time = spent() > options_.seconds; });
    }
    // What was made last may be better than anything that was taken out.
    for (Program& p : queue) {
      if (p.cost < best_.cost) best_ = std::move(p);
    }
    out_.seconds = spent();
    out_.best = std::move(best_.graph);
    out_.cost = best_.cost;
    return std::move(out_);
  }

 private:
  template <class Enqueue, class Stop>
  void expand(const Program& p, const Enqueue& enqueue, const Stop& stop) {
    TermFacts facts = facts_of(p.graph);
    for (const Parts& parts : parts_) {
      std::vector<std::vector<Match>> matches(parts.roots.size());
      for (size_t r = 0; r < parts.roots.size(); ++r) {
        for (size_t i = 0; i < p.graph.size(); ++i) {
          for (Match& m : match(p.graph, parts.roots[r], NodeId(i)))
            matches[r].push_back(std::move(m));
        }
      }
      for (size_t a = 0; a < matches[0].size(); ++a) {
        if (stop()) return;
        const Match& first = matches[0][a];
        if (parts.roots.size() == 1) {
          const NodeId roots[] = {first.nodes[0]};
          try_at(p, parts, first.substitution, roots, facts, enqueue);
          continue;
        }
        for (size_t b = parts.alike ? a + 1 : 0; b < matches[1].size(); ++b) {
          const NodeId roots[] = {first.nodes[0], matches[1][b].nodes[0]};
          if (roots[0] == roots[1]) continue;
          auto both = joined(first.substitution, matches[1][b].substitution);
          if (both) try_at(p, parts, *both, roots, facts, enqueue);
        }
      }
    }
  }

  template <class Enqueue>
  void try_at(const Program& p, const Parts& parts, const Substitution& s,
              std::span<const NodeId> roots, const TermFacts& facts, const Enqueue& enqueue) {
    std::vector<Type> types;
    for (NodeId r : roots) types.push_back(p.graph.types[r]);
    auto side = apply(*parts.rule, s, facts, types);
    if (!side || !rewriting_.lay_out(p, roots, *side)) return;
    ++out_.tried;
    if (rewriting_.size() > most_nodes_) return;
    if (rewriting_.cost() >= options_.alpha * best_.cost) return;
    if (!seen_.insert(rewriting_.hash()).second) return;
    enqueue(rewriting_.build());
  }

  Prices& prices_;
  const SequentialOptions& options_;
  Rewriting rewriting_;
  std::vector<Rule> rules_;
  std::vector<Parts> parts_;
  size_t most_nodes_ = 0;
  Program best_;
  std::unordered_set<uint64_t> seen_;
  Sequential out_;
};

}  // namespace

Sequential search_sequentially(const Graph& g, Prices& prices, const SequentialOptions& options) {
  return Search(prices, options).run(g);
}

}  // namespace emend
