#include "pet/mutants.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "base/hash.h"
#include "base/text.h"
#include "mutate/generate.h"
#include "mutate/instance.h"
#include "mutate/mutate.h"
#include "ops/build.h"
#include "ops/table.h"
#include "rules/instance.h"

namespace emend {
namespace {

PricedNode site_of(const Unit& u) {
  const Node& n = u.program.nodes[u.program.outputs[0].node];
  PricedNode site{.op = n.op,
                  .attrs = n.attrs,
                  .weights = u.weights,
                  .result = u.program.type(u.program.outputs[0].node)};
  for (const GraphInput& i : u.program.inputs) site.operands.push_back(u.program.type(i.node));
  return site;
}

// The right side of a mutant's rule, over inputs of the site's types.
Graph program_of(const PricedNode& site, const Rule& rule) {
  Substitution s(rule.variables.names.size());
  for (size_t i = 0; i < site.operands.size(); ++i) s[i] = Term(i);
  TermFacts facts{.type = [&](Term t) -> const Type& { return site.operands[t.value]; },
                  .constant = [](Term) -> const Tensor* { return nullptr; }};
  return program_of(apply(rule, s, facts, site.result).value_or_throw(), site.operands, "y0");
}

int64_t parameter(const std::string& all, const std::string& name) {
  size_t at = (", " + all).find(", " + name + "=");
  return at == std::string::npos ? 0 : std::atoll(all.c_str() + at + name.size() + 1);
}

// How many rounds of factors of two come to a mutant of the table, the gap or halo aside; 0: none.
// What needs no repair is left to the generator.
size_t rounds_to(const MutateReport::Mutant& m, const PricedNode& site) {
  auto doublings = [](int64_t k) -> size_t {
    size_t n = 0;
    for (; k > 1 && k % 2 == 0; k /= 2) ++n;
    return k == 1 ? n : 0;
  };
  if (m.mutation == "dilation-into-mosaic") {
    const Dims& dilations = site.attrs.get<Dims>("dilations");
    auto more = std::count_if(dilations.begin(), dilations.end(), [](int64_t d) { return d > 2; });
    return more ? 0
                : static_cast<size_t>(std::count(dilations.begin(), dilations.end(), int64_t{2}));
  }
  const size_t axes = site.result.shape.size() - 2;
  if (m.mutation == "batch-into-space") return doublings(parameter(m.parameters, "k"));
  if (m.mutation == "strips-into-batch") return doublings(parameter(m.parameters, "t"));
  if (m.mutation == "space-into-batch") return axes * doublings(parameter(m.parameters, "t"));
  return 0;
}

constexpr size_t kTableDepth = 3;  // a move, the operator, a move
constexpr size_t kMostGenerated = 32;

void add_table_mutants(const Unit& u, const PetOptions& options, std::vector<PetMutant>& to) {
  if (u.nodes.size() > 1 || options.depth < kTableDepth) return;
  const PricedNode site = site_of(u);
  MutateReport report;
  std::vector<Rule> proven = mutate({site},
                                    {.enable = {"dilation-into-mosaic", "batch-into-space",
                                                "strips-into-batch", "space-into-batch"},
                                     .disable = {"*"}},
                                    &report);
  size_t next = 0;
  for (const MutateReport::Mutant& m : report.mutants) {
    if (m.outcome == MutateReport::Mutant::Outcome::refused) continue;
    const Rule& rule = proven[next++];
    const size_t rounds = rounds_to(m, site);
    if (rounds == 0 || rounds > options.rounds) continue;
    const bool repaired =
        m.outcome != MutateReport::Mutant::Outcome::equal || parameter(m.parameters, "q") > 0;
    to.push_back({program_of(site, rule), !repaired, m.mutation + " " + m.parameters});
  }
}

void add_generated(const Unit& u, const PetOptions& options, std::vector<PetMutant>& to) {
  GenerateOptions how{.depth = options.depth,
                      .rounds = options.rounds,
                      .radices = {2},
                      .candidates = kMostGenerated};
  for (GeneratedMutant& m : generate(u.program, how)) {
    if (m.equal()) {
      to.push_back({std::move(m.program), true, "generated " + m.steps});
    } else if (u.nodes.size() == 1) {
      auto repaired = corrected(u.program, m.program, m.where[0]);
      if (!repaired) continue;
      auto shown = agreement(u.program, repaired->program, {.only_everywhere = true});
      if (shown && shown->everywhere())
        to.push_back({std::move(repaired->program), false, "repaired " + m.steps});
    }
  }
}

// The fastest of one kind first.
std::vector<PetMutant> fastest(std::vector<PetMutant> all, bool equivalent, size_t most) {
  std::erase_if(all, [&](const PetMutant& m) { return m.equivalent != equivalent; });
  std::stable_sort(all.begin(), all.end(),
                   [](const PetMutant& a, const PetMutant& b) { return a.price < b.price; });
  if (all.size() > most) all.erase(all.begin() + static_cast<ptrdiff_t>(most), all.end());
  return all;
}

}  // namespace

double price_of(const Graph& g, const std::vector<bool>& weights, Prices& prices) {
  std::vector<bool> ahead(g.size(), false);
  double sum = 0;
  for (size_t i = 0; i < g.size(); ++i) {
    const Node& n = g.nodes[NodeId(i)];
    if (n.op == kInputOp || n.op == kConstantOp) {
      ahead[i] = n.op == kConstantOp || weights[i];
      continue;
    }
    ahead[i] = std::all_of(n.args.begin(), n.args.end(), [&](NodeId a) { return ahead[a.value]; });
    if (!ahead[i]) sum += prices.exact(priced_node(g, NodeId(i), ahead));
  }
  return sum;
}

const std::vector<PetMutant>& Mutator::of(const Unit& unit) {
  Stopwatch watch(cpu_seconds);
  const double priced = prices_.seconds();
  uint64_t key = hash(unit.program);
  for (bool w : unit.weights) key = key * 3 + w;
  auto [it, fresh] = known_.try_emplace(key);
  if (fresh || !options_.manager) {
    ++searched_;
    std::vector<PetMutant> all;
    add_table_mutants(unit, options_, all);
    add_generated(unit, options_, all);
    found_ += all.size();
    for (PetMutant& m : all) m.price = price_of(m.program, unit.weights, prices_);
    it->second = fastest(all, true, options_.fastest);
    for (PetMutant& m : fastest(std::move(all), false, options_.fastest))
      it->second.push_back(std::move(m));
  }
  seconds_ += watch.seconds() - (prices_.seconds() - priced);
  return it->second;
}

}  // namespace emend
