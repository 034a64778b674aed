#include "kernels/cpu/recurrent_plan.h"

#include <algorithm>

#include "kernels/cpu/contraction.h"
#include "ops/table.h"

namespace emend {

std::optional<Cell> cell_in(const Graph& group) {
  Cell c;
  for (size_t i = 0; i < group.size(); ++i) {
    if (op_def(group.nodes[NodeId(i)]).kind == Kind::scan) c.loop = NodeId(i);
  }
  if (!c.loop.valid()) return std::nullopt;
  auto r = recurrence_of(group, c.loop);
  if (!r) return std::nullopt;
  c.r = std::move(*r);
  c.operands.assign(group.nodes[c.loop].args.begin(), group.nodes[c.loop].args.end());
  for (size_t i = 0; i < c.operands.size(); ++i) {
    bool plain = group.nodes[c.operands[i]].op == kInputOp || group.is_constant(c.operands[i]);
    if (!plain &&
        std::ranges::find(c.r.matrices, i, &Recurrence::Matrix::operand) == c.r.matrices.end())
      return std::nullopt;
  }
  c.results.assign(group.type(c.loop).items.size(), -1);
  for (size_t o = 0; o < group.outputs.size(); ++o) {
    const Node& get = group.nodes[group.outputs[o].node];
    if (get.op != kGetOp || get.args[0] != c.loop) return std::nullopt;
    c.results[static_cast<size_t>(get.attrs.get<int64_t>("index"))] = static_cast<int>(o);
  }
  return c;
}

int input_of(const Graph& group, NodeId n) {
  while (group.nodes[n].op != kInputOp) {
    if (group.is_constant(n)) return -1;
    n = group.nodes[n].args[0];
  }
  return static_cast<int>(group.nodes[n].attrs.get<int64_t>("index"));
}

Panels panels_of(const Recurrence& r, size_t matrix, int64_t block) {
  const Recurrence::Matrix& m = r.matrices[matrix];
  Panels p{m.depth, m.gates, block, blocks(r.units, block), false};
  for (const Recurrence::Product& product : r.products) {
    p.split |= product.matrix == matrix && product.gates != m.gates;
  }
  return p;
}

int64_t sums_of_a_row(const Panels& p, int64_t width) {
  return (p.split ? 1 : p.gates) * p.block / width;
}

TileShape tile_of(int64_t rows, int64_t vectors, const Target& target) {
  bool many = target.vector_bytes == 64;
  int64_t registers = many ? 24 : 12, most = many ? 8 : 6;
  TileShape t;
  t.rows = blocks(rows, blocks(rows, most));
  t.vectors = blocks(vectors, blocks(vectors, registers / t.rows));
  return t;
}

}  // namespace emend
