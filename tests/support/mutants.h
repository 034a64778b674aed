// What tests of mutants share: sites and rules as programs, and whether two programs are equal by
// the interpreter over the prime field, which knows nothing of terms or boxes.
#pragma once

#include <cstdlib>

#include "base/rng.h"
#include "mutate/instance.h"
#include "mutate/mutate.h"
#include "ops/build.h"
#include "ops/contraction.h"
#include "ops/evaluate.h"
#include "ops/exact.h"
#include "ops/table.h"
#include "rules/instance.h"

namespace emend {

// How many a test draws.
inline size_t cases(size_t otherwise) {
  const char* n = std::getenv("EMEND_CASES");
  return n ? static_cast<size_t>(std::atoll(n)) : otherwise;
}

// An operator of a program; the one that makes its first output.
inline PricedNode site_of(const Graph& g, NodeId id) {
  const Node& n = g.nodes[id];
  PricedNode site{.op = n.op, .attrs = n.attrs, .result = g.type(id)};
  for (NodeId a : n.args) {
    site.operands.push_back(g.type(a));
    site.weights.push_back(false);
  }
  return site;
}
inline PricedNode site_of(const Graph& g) {
  return site_of(g, g.outputs[0].node);
}

inline PricedNode conv_site(const Dims& x, const Dims& w, const Conv& attrs) {
  GraphBuilder b;
  NodeId in = b.input("x", Type::tensor(DType::f32, x));
  NodeId weights = b.input("w", Type::tensor(DType::f32, w));
  PricedNode site = site_of(b.graph(), b.op("conv", {in, weights}, attrs));
  site.weights[1] = true;
  return site;
}

// The operator at a site, or a rule's right side there, as a program.
inline Graph program_of(const PricedNode& site, const Rule* rule) {
  if (!rule) {
    GraphBuilder b;
    std::vector<NodeId> x;
    for (const Type& t : site.operands) x.push_back(b.input(str("x", x.size()), t));
    b.output("y", b.try_op(site.op, x, site.attrs).value_or_throw());
    return std::move(b).build();
  }
  Substitution s(rule->variables.names.size());
  for (size_t i = 0; i < site.operands.size(); ++i) s[i] = Term(i);
  TermFacts facts{.type = [&](Term t) -> const Type& { return site.operands[t.value]; },
                  .constant = [](Term) -> const Tensor* { return nullptr; }};
  return program_of(apply(*rule, s, facts, site.result).value_or_throw(), site.operands);
}

inline Tensor residues(const Dims& shape, uint64_t stream) {
  return Tensor::make(DType::u64, shape, [&](std::byte* bytes) {
    auto* v = reinterpret_cast<uint64_t*>(bytes);
    for (int64_t k = 0; k < count(shape); ++k)
      v[k] = random_bits(7, stream, static_cast<uint64_t>(k)) % Mod61::kPrime;
  });
}

inline bool equal_everywhere(const Graph& a, const Graph& b) {
  std::vector<Value> inputs;
  for (size_t i = 0; i < a.inputs.size(); ++i)
    inputs.emplace_back(residues(a.type(a.inputs[i].node).shape, i));
  EvalOptions in_field{.arithmetic = Arithmetic::field};
  return evaluate(a, inputs, in_field)[0] == evaluate(b, inputs, in_field)[0];
}

}  // namespace emend
