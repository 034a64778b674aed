#include "pipeline/priced_egraph.h"

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>

#include "base/hash.h"
#include "extract/check.h"
#include "extract/greedy.h"
#include "ir/bytes.h"
#include "ops/table.h"

namespace emend {
namespace {

// Seconds: nothing that is fused away costs as much.
constexpr double kKernel = 1e-6;
// Weights that are kept twice or padded have a price too small to decide anything else.
constexpr double kPerByteOfWeights = 1e-16;

bool is_given(OpId op) {
  return op == kInputOp || op == kConstantOp;
}

NodePrice price_of(const PricedNode& n, bool weight_only,
                   const std::function<NodePrice(const PricedNode&)>& quick) {
  // A node that reads inputs to no effect is not free for that.
  bool ahead = is_given(n.op) || std::ranges::all_of(n.weights, [](bool w) { return w; });
  if (weight_only && ahead) return {is_given(n.op) ? 0 : kPerByteOfWeights * bytes_of(n.result)};
  return quick(n);
}

}  // namespace

bool PricedEGraph::learn(const std::vector<FoundSolution>& found,
                         const std::function<double(const PricedNode&)>& exact) {
  bool any = false;
  for (const FoundSolution& s : found) {
    for (uint32_t n : s.choice) {
      if (n == kNoNode || !guessed[n]) continue;
      double price = exact(asked[n]);
      for (uint32_t other : same_price.at(keys[n])) {
        problem.cost[other] = price;
        guessed[other] = false;
      }
      any = true;
    }
  }
  return any;
}

void PricedEGraph::correct(const std::vector<uint32_t>& choice, const std::vector<uint32_t>& beside,
                           double seconds) {
  std::unordered_set<uint64_t> shared;
  for (uint32_t n : beside) {
    if (n != kNoNode) shared.insert(keys[n]);
  }
  std::unordered_set<uint64_t> own;
  double sum = 0;
  for (uint32_t n : choice) {
    if (n == kNoNode || problem.cost[n] < kKernel || shared.count(keys[n])) continue;
    own.insert(keys[n]);
    sum += problem.cost[n];
  }
  if (own.empty()) return;
  double factor = std::max(0.0, 1 + seconds / sum);
  for (uint64_t key : own) {
    for (uint32_t n : same_price.at(key)) problem.cost[n] *= factor;
  }
}

double PricedEGraph::cost_of(const std::vector<uint32_t>& choice) const {
  double sum = 0;
  for (uint32_t n : choice) sum += n == kNoNode ? 0 : problem.cost[n];
  return sum;
}

uint64_t PricedEGraph::structure_of(const std::vector<uint32_t>& choice) const {
  uint64_t sum = 0;  // of scattered numbers: in no order
  for (uint32_t n : choice) sum += n == kNoNode ? 0 : hash_mix(keys[n], 1);
  return sum;
}

std::vector<std::vector<uint32_t>> PricedEGraph::places_between(
    const std::vector<uint32_t>& base, const std::vector<uint32_t>& other) const {
  std::vector<uint32_t> set_of(classes.size());
  std::iota(set_of.begin(), set_of.end(), 0);
  auto find = [&](uint32_t c) {
    while (set_of[c] != c) c = set_of[c] = set_of[set_of[c]];
    return c;
  };
  auto differs = [&](uint32_t c) { return base[c] != other[c]; };
  for (uint32_t c = 0; c < classes.size(); ++c) {
    if (!differs(c)) continue;
    for (uint32_t n : {base[c], other[c]}) {
      if (n == kNoNode) continue;
      for (uint32_t child : problem.children(n)) {
        if (differs(child)) set_of[find(child)] = find(c);
      }
    }
  }
  std::map<uint32_t, std::vector<uint32_t>> places;
  for (uint32_t c = 0; c < classes.size(); ++c) {
    if (differs(c)) places[find(c)].push_back(c);
  }
  std::vector<std::vector<uint32_t>> found;
  for (auto& [root, members] : places) found.push_back(std::move(members));
  return found;
}

std::vector<uint32_t> PricedEGraph::with(std::vector<uint32_t> base,
                                         const std::vector<uint32_t>& other,
                                         const std::vector<uint32_t>& at) const {
  // What nobody needs any more goes by itself.
  for (uint32_t c : at) {
    if (other[c] != kNoNode) base[c] = other[c];
  }
  base = needed(problem, std::move(base));
  if (!checked_cost(problem, base)) base.clear();
  return base;
}

std::vector<uint32_t> PricedEGraph::given(const TensorEGraph& g) const {
  std::vector<uint32_t> choice(classes.size(), kNoNode);
  for (uint32_t c = 0; c < classes.size(); ++c) {
    for (uint32_t n : problem.nodes(c)) {
      if (choice[c] == kNoNode && !g.engine().provenance().maker(nodes[n]).valid()) choice[c] = n;
    }
  }
  choice = needed(problem, std::move(choice));
  if (!checked_cost(problem, choice)) choice.clear();
  return choice;
}

Graph PricedEGraph::graph_of(const TensorEGraph& g, const std::vector<uint32_t>& choice) const {
  std::unordered_map<uint32_t, ENodeId> chosen;
  for (size_t c = 0; c < classes.size(); ++c) {
    if (choice[c] != kNoNode) chosen.emplace(classes[c].value, nodes[choice[c]]);
  }
  return g.graph_of([&](ClassId c) { return chosen.at(c.value); });
}

PricedEGraph priced_egraph(const TensorEGraph& g,
                           const std::function<NodePrice(const PricedNode&)>& quick,
                           const Blacklist& blacklist) {
  const EGraph& engine = g.engine();
  PricedEGraph out;
  std::unordered_map<uint32_t, uint32_t> places;
  auto place = [&](ClassId c) {
    auto [it, fresh] = places.try_emplace(c.value, static_cast<uint32_t>(out.classes.size()));
    if (fresh) out.classes.push_back(c);
    return it->second;
  };
  std::unordered_map<uint64_t, NodePrice> prices;  // by key
  std::vector<uint32_t>& roots = out.problem.roots;
  for (ClassId root : g.roots()) roots.push_back(place(root));
  std::sort(roots.begin(), roots.end());
  roots.erase(std::unique(roots.begin(), roots.end()), roots.end());
  for (size_t c = 0; c < out.classes.size(); ++c) {  // grows as children are met
    ClassId id = out.classes[c];
    out.problem.add_class();
    bool nucleus = false;
    for (ENodeId n : engine.nodes_of(id)) {
      ENode node = engine.node(n);
      PricedNode asked{
          .op = OpId(size_t{node.op}), .attrs = g.attrs(node.attr), .result = g.type(id)};
      std::vector<uint32_t> children;
      uint64_t key = hash_mix(node.op, node.attr);
      for (ClassId child : node.children) {
        auto known = g.known(child);
        key = hash_mix(hash_mix(key, known.type), known.weight_only);
        asked.operands.push_back(g.type(engine.find(child)));
        asked.weights.push_back(g.weight_only(engine.find(child)));
        children.push_back(place(engine.find(child)));
      }
      auto [known, fresh] = prices.try_emplace(key);
      if (fresh) known->second = price_of(asked, g.weight_only(id), quick);
      NodePrice price = known->second;
      if (blacklist.count(n.value)) price = {std::numeric_limits<double>::infinity()};
      nucleus |= price.guess || price.seconds > kKernel;
      out.problem.add_node(price.seconds, children);
      out.keys.push_back(key);
      out.same_price[key].push_back(static_cast<uint32_t>(out.nodes.size()));
      out.nodes.push_back(n);
      out.guessed.push_back(price.guess);
      out.asked.push_back(std::move(asked));
    }
    if (nucleus) out.nuclei.push_back(static_cast<uint32_t>(c));
  }
  return out;
}

}  // namespace emend
