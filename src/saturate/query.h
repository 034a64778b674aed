// A left side as a question to an e-graph of tensor programs: its atoms, and that numbers in it
// are constants of that value. Who asks adds what else must hold.
#pragma once

#include "egraph/match.h"
#include "saturate/tensor_egraph.h"

namespace emend {

// Refers to the e-graph.
inline Query query_of(const TensorEGraph& g, const FlatPattern& flat) {
  Query q;
  q.slots = static_cast<uint32_t>(flat.slots.size());
  q.slot_filters.resize(flat.slots.size());
  for (size_t i = 0; i < flat.slots.size(); ++i) {
    if (!flat.slots[i].number) continue;
    q.slot_filters[i] = [&g, number = *flat.slots[i].number](ClassId c) {
      const Tensor* value = g.constant(c);
      return value && is_number(*value, number);
    };
  }
  for (const FlatPattern::Atom& a : flat.atoms) {
    QueryAtom atom{.op = a.op.value, .result = static_cast<uint32_t>(a.result)};
    for (int slot : a.operands) atom.children.push_back(static_cast<uint32_t>(slot));
    q.atoms.push_back(std::move(atom));
  }
  return q;
}

}  // namespace emend
