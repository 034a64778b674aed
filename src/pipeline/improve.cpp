#include "pipeline/improve.h"

#include <algorithm>
#include <chrono>
#include <set>
#include <unordered_map>

#include "egraph/explain.h"
#include "extract/check.h"
#include "extract/greedy.h"
#include "extract/search.h"
#include "fuse/fuse.h"
#include "ops/build.h"
#include "ops/table.h"
#include "pipeline/compile.h"
#include "pipeline/node_prices.h"
#include "select/select.h"

namespace emend {
namespace {

// Programs that differ by less than estimates can tell are not worth a change.
constexpr double kWorthwhile = 0.995;
// Weights that are kept twice or padded have a price too small to decide anything else.
constexpr double kPerByteOfWeights = 1e-16;

template <class Stage>
auto timed(ImproveReport& report, const std::string& name, const Stage& stage) {
  auto start = std::chrono::steady_clock::now();
  auto result = stage();
  std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
  for (auto& [known, ms] : report.phases_ms) {
    if (known == name) {
      ms += took.count();
      return result;
    }
  }
  report.phases_ms.emplace_back(name, took.count());
  return result;
}

double bytes_of(const Type& t) {
  double sum = 0;
  for (const Type& item : t.items) sum += bytes_of(item);
  if (!t.is_tensor()) return sum;
  return static_cast<double>(
      storage_bytes(t.dtype, static_cast<uint64_t>(count(t.shape))).value_or(0));
}

// What the outputs need of an e-graph, as an extraction problem.
struct Priced {
  ExtractionProblem problem;
  std::vector<ClassId> classes;                                    // by class of the problem
  std::vector<ENodeId> nodes;                                      // by node of it
  std::vector<PricedNode> asked;                                   // by node of it
  std::vector<bool> guessed;                                       // by node of it: its price
  std::unordered_map<uint64_t, std::vector<uint32_t>> same_price;  // guessed nodes of it, by key
  std::vector<uint32_t> nuclei;  // classes of it that are computed by kernels of their own

  // Real prices for what was chosen; false if there were no others.
  bool learn(const std::vector<FoundSolution>& found, NodePrices& prices) {
    bool any = false;
    for (const FoundSolution& s : found) {
      for (uint32_t n : s.choice) {
        if (n == kNoNode || !guessed[n]) continue;
        double price = prices.exact(asked[n]);
        for (uint32_t other : same_price.at(key_of(asked[n]))) {
          problem.cost[other] = price;
          guessed[other] = false;
        }
        any = true;
      }
    }
    return any;
  }

  double cost_of(const std::vector<uint32_t>& choice) const {
    double sum = 0;
    for (uint32_t n : choice) sum += n == kNoNode ? 0 : problem.cost[n];
    return sum;
  }

  // The program as it was put in; none where congruence put nodes of rules into its place.
  std::vector<uint32_t> given(const TensorEGraph& g) const {
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

  Graph graph_of(const TensorEGraph& g, const std::vector<uint32_t>& choice) const {
    std::unordered_map<uint32_t, ENodeId> chosen;
    for (size_t c = 0; c < classes.size(); ++c) {
      if (choice[c] != kNoNode) chosen.emplace(classes[c].value, nodes[choice[c]]);
    }
    return g.graph_of([&](ClassId c) { return chosen.at(c.value); });
  }
};

Priced priced(const TensorEGraph& g, NodePrices& prices) {
  constexpr double kKernel = 1e-6;  // seconds: nothing that is fused away costs as much
  const EGraph& engine = g.engine();
  Priced out;
  std::unordered_map<uint32_t, uint32_t> places;
  auto place = [&](ClassId c) {
    auto [it, fresh] = places.try_emplace(c.value, static_cast<uint32_t>(out.classes.size()));
    if (fresh) out.classes.push_back(c);
    return it->second;
  };
  for (ClassId root : g.roots()) out.problem.roots.push_back(place(root));
  std::sort(out.problem.roots.begin(), out.problem.roots.end());
  out.problem.roots.erase(std::unique(out.problem.roots.begin(), out.problem.roots.end()),
                          out.problem.roots.end());
  for (size_t c = 0; c < out.classes.size(); ++c) {  // grows as children are met
    ClassId id = out.classes[c];
    out.problem.add_class();
    bool nucleus = false;
    for (ENodeId n : engine.nodes_of(id)) {
      ENode node = engine.node(n);
      PricedNode asked{
          .op = OpId(size_t{node.op}), .attrs = g.attrs(node.attr), .result = g.type(id)};
      std::vector<uint32_t> children;
      for (ClassId child : node.children) {
        asked.operands.push_back(g.type(engine.find(child)));
        asked.weights.push_back(g.weight_only(engine.find(child)));
        children.push_back(place(engine.find(child)));
      }
      bool given = asked.op == kInputOp || asked.op == kConstantOp;
      NodePrices::Price price = prices.quick(asked);
      // A node that reads inputs to no effect is not free for that.
      bool ahead = given || std::ranges::all_of(asked.weights, [](bool w) { return w; });
      if (g.weight_only(id) && ahead)
        price = {given ? 0 : kPerByteOfWeights * bytes_of(asked.result)};
      nucleus |= price.guess || price.seconds > kKernel;
      out.problem.add_node(price.seconds, children);
      out.nodes.push_back(n);
      if (price.guess)
        out.same_price[key_of(asked)].push_back(static_cast<uint32_t>(out.guessed.size()));
      out.guessed.push_back(price.guess);
      out.asked.push_back(std::move(asked));
    }
    if (nucleus) out.nuclei.push_back(static_cast<uint32_t>(c));
  }
  return out;
}

// The program with stand-ins for what would be computed ahead of time: prices ask for types only.
Graph without_weight_work(const Graph& g) {
  GraphBuilder b;
  IdVec<NodeId, char> weights(g.size(), 0);
  IdVec<NodeId, NodeId> made(g.size());
  for (size_t i = 0; i < g.size(); ++i) {
    NodeId id{i};
    const Node& n = g.nodes[id];
    if (n.op == kInputOp) continue;
    const OpDef& def = op_def(n);
    weights[id] = n.op == kConstantOp ||
                  (def.kind != Kind::opaque && def.kind != Kind::random && !n.args.empty() &&
                   std::ranges::all_of(n.args, [&](NodeId a) { return weights[a] != 0; }));
  }
  for (const GraphInput& i : g.inputs) made[i.node] = b.input(i.name, g.types[i.node], i.donated);
  auto get = [&](NodeId id) {
    if (made[id].valid()) return made[id];
    if (g.is_constant(id)) return made[id] = b.constant(g.constant(id));
    return made[id] = b.constant(Tensor::zeros(g.types[id].dtype, g.types[id].shape));
  };
  for (size_t i = 0; i < g.size(); ++i) {
    NodeId id{i};
    const Node& n = g.nodes[id];
    if (n.op == kInputOp || (weights[id] && g.types[id].is_tensor())) continue;
    std::vector<NodeId> args;
    for (NodeId a : n.args) args.push_back(get(a));
    made[id] = b.try_op(n.op, args, n.attrs).value_or_throw();
  }
  for (const GraphOutput& o : g.outputs) b.output(o.name, get(o.node));
  return std::move(b).build();
}

// The cheapest, of those of one cost the first: they differ in nothing that has a price.
std::vector<FoundSolution> best_of(std::vector<FoundSolution> all, int most) {
  std::ranges::stable_sort(all, {}, &FoundSolution::cost);
  auto same = [](const FoundSolution& a, const FoundSolution& b) {
    return b.cost - a.cost <= 1e-9 * b.cost;
  };
  all.erase(std::unique(all.begin(), all.end(), same), all.end());
  if (all.size() > static_cast<size_t>(most)) all.resize(static_cast<size_t>(most));
  return all;
}

// The rules on whose firings it rests that the program equals the one that was put in.
std::vector<std::string> trail_of(const TensorEGraph& g, const Priced& problem,
                                  const std::vector<uint32_t>& choice,
                                  const std::vector<std::string>& rules) {
  const EGraph& engine = g.engine();
  Explainer explainer(engine);
  std::unordered_map<uint32_t, ENodeId> chosen;  // by class
  for (size_t c = 0; c < problem.classes.size(); ++c) {
    if (choice[c] != kNoNode) chosen.emplace(problem.classes[c].value, problem.nodes[choice[c]]);
  }
  std::set<FiringId> needed;
  auto rests_on = [&](ClassId id) {  // that what was chosen for it is equal to it
    for (FiringId f : explainer.of_equality(id, chosen.at(engine.find(id).value))) needed.insert(f);
  };
  for (ClassId root : g.given_roots()) rests_on(root);
  for (const auto& [c, n] : chosen) {
    for (ClassId child : explainer.term(n).children) rests_on(child);
  }
  std::vector<std::string> names;
  for (FiringId f : needed) names.push_back(rules[engine.provenance().firing(f).rule.value]);
  return names;
}

// The bodies of loops and branches.
Graph with_improved_bodies(const Graph& g, const ImproveOptions& options) {
  Graph out = g;
  for (size_t i = 0; i < out.size(); ++i) {
    Node& n = out.nodes[NodeId(i)];
    if (op_def(n).kind == Kind::opaque) continue;
    for (const auto& [name, value] : n.attrs.entries()) {
      const GraphRef* body = value.as<GraphRef>();
      if (body && *body) n.attrs = n.attrs.with(name, GraphRef(improve(**body, options)));
    }
  }
  return out;
}

}  // namespace

double price_of_program(const Graph& g, const Target& target, const SelectOptions& choose) {
  Graph plain = decomposed(without_weight_work(g));
  const Catalogue& catalogue = catalogue_here();
  Partition partition = fuse(plain, {.target = target, .catalogue = &catalogue});
  size_t steps = partition.groups.size();
  Plan plan = select(plain, std::move(partition), catalogue, target, choose);
  return plan.estimate_s + static_cast<double>(steps) * target.launch_s;
}

Graph improve(const Graph& given, const ImproveOptions& options, ImproveReport* report) {
  ImproveReport facts;
  const Graph g = with_improved_bodies(given, options);
  auto egraph =
      timed(facts, "saturate", [&] { return saturate(g, options.saturate, &facts.saturated); });
  KnownPrices known;
  SelectOptions choose{.error = options.error, .known = &known};
  NodePrices prices(catalogue_here(), options.target, choose);
  Priced problem = timed(facts, "price", [&] { return priced(*egraph, prices); });
  validate(problem.problem);
  // Prices begin as guesses that are too low; those that something was chosen for become real,
  // until what is chosen has real prices only.
  std::vector<FoundSolution> found;
  const std::vector<uint32_t> as_given = problem.given(*egraph);
  auto start_with = [&]() -> std::vector<uint32_t> {
    if (found.empty()) return as_given;
    bool better = as_given.empty() || problem.cost_of(found[0].choice) < problem.cost_of(as_given);
    return better ? found[0].choice : as_given;
  };
  for (int round = 0; round < options.rounds && !options.monitor.stop_requested(); ++round) {
    // From the cheapest terms, and from the program as it is or what is better by now.
    SearchOptions how{.seed = options.seed + static_cast<uint64_t>(round),
                      .starts = 1,
                      .moves = options.moves,
                      .patience = 5,
                      .keep = options.kept,
                      .tell_apart_by = problem.nuclei,
                      .monitor = options.monitor.silent()};
    found = timed(facts, "extract", [&] {
      std::vector<FoundSolution> fresh = search(problem.problem, how);
      how.start = start_with();
      std::vector<FoundSolution> all = search(problem.problem, how);
      std::ranges::move(fresh, std::back_inserter(all));
      return best_of(std::move(all), options.kept);
    });
    if (!timed(facts, "price", [&] { return problem.learn(found, prices); })) break;
  }
  auto program_price = [&](const Graph& program) {
    return timed(facts, "back end",
                 [&] { return price_of_program(program, options.target, choose); });
  };
  facts.before_s = facts.after_s = program_price(g);
  Graph best = g;
  for (const FoundSolution& s : found) {
    if (options.monitor.stop_requested()) break;
    Graph candidate = problem.graph_of(*egraph, s.choice);
    double seconds = program_price(candidate);
    facts.priced_s.push_back(seconds);
    if (seconds >= kWorthwhile * facts.after_s) continue;
    facts.after_s = seconds;
    best = std::move(candidate);
    facts.trail = trail_of(*egraph, problem, s.choice, facts.saturated.rules);
  }
  if (report) *report = std::move(facts);
  return best;
}

}  // namespace emend
