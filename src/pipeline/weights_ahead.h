// What depends on weights alone is computed once, before a program runs, and not in every run.
// Weights that are only laid out otherwise stay as they are: kernels read them through the moves,
// or store them as they want them, and need not hold them in yet another order. So do those that
// only become wider numbers, element by element (quantized ones): kernels read fewer bytes.
#pragma once

#include <span>

#include "ir/graph.h"

namespace emend {

struct AheadOptions {
  double room = 1e30;      // bytes by which what is computed may be larger than what it is made of
  bool stand_ins = false;  // zeros in place of values, for who asks for types only; for moves, too
};

struct AheadReport {
  std::vector<NodeId> left;  // of the given program: computed in every run for lack of room
  double missing = 0;        // bytes that they would take besides
};

Graph computed_ahead(const Graph& g, const AheadOptions& options = {},
                     AheadReport* report = nullptr);

// These nodes, which depend on weights alone, as constants.
Graph with_computed(const Graph& g, std::span<const NodeId> nodes);

// The same elements in another order?
bool is_move(const Graph& g, NodeId n);

// Bytes of all constants, each once.
double constant_bytes(const Graph& g);

}  // namespace emend
