// Loops over a cell (kernels/recurrence.h): recurrent layers, and scans that are written like them.
// Threads share the cell's units in blocks, always the same ones, so that a thread's share of the
// matrices stays in its own cache from step to step. A block's products are register tiles over its
// panel of the matrix; gates, activations and states follow at once. Threads meet after every
// stage; states are there twice, so that nobody waits for those who still read the last ones.
//
// Of several rows that never need one another, threads may take some each instead, with all units:
// then nobody meets anybody, and everybody reads all of the matrices.
//
// Constant matrices are packed ahead. Others, the kernel packs itself before the first step.
#include <algorithm>
#include <cmath>

#include "kernels/cpu/contraction.h"
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/recurrent_plan.h"

namespace emend {
namespace {

// From the group's input to panels.
Graph packing_of(const Graph& group, const Cell& c, size_t matrix, int64_t block) {
  const Recurrence::Matrix& m = c.r.matrices[matrix];
  Panels p = panels_of(c.r, matrix, block);
  GraphBuilder b;
  std::function<NodeId(NodeId)> copied = [&](NodeId n) {
    const Node& node = group.nodes[n];
    if (node.op == kInputOp) return b.input("x", group.type(n));
    NodeId from = copied(node.args[0]);
    return b.try_op(node.op, Args(&from, 1), node.attrs).value_or_throw();
  };
  NodeId x = copied(c.operands[m.operand]);
  int64_t units = c.r.units, missing = p.blocks * block - units;
  if (m.transposed) {
    x = b.op("reshape", {x}, Attrs({{"shape", Dims{m.gates, units, m.depth}}}));
    x = b.op("pad", {x}, Attrs({{"pads", Dims{0, 0, 0, 0, missing, 0}}, {"value", 0.0}}));
    x = b.op("reshape", {x}, Attrs({{"shape", Dims{m.gates, p.blocks, block, m.depth}}}));
    x = b.op("transpose", {x}, Attrs({{"perm", p.split ? Dims{1, 0, 3, 2} : Dims{1, 3, 0, 2}}}));
  } else {
    x = b.op("reshape", {x}, Attrs({{"shape", Dims{m.depth, m.gates, units}}}));
    x = b.op("pad", {x}, Attrs({{"pads", Dims{0, 0, 0, 0, 0, missing}}, {"value", 0.0}}));
    x = b.op("reshape", {x}, Attrs({{"shape", Dims{m.depth, m.gates, p.blocks, block}}}));
    x = b.op("transpose", {x}, Attrs({{"perm", p.split ? Dims{2, 1, 0, 3} : Dims{2, 0, 1, 3}}}));
  }
  b.output("y", x);
  return std::move(b).build();
}

// Inputs that are a matrix, constant, and nothing else.
std::vector<Graph> packings(const Wanted& wanted, const Cell& c, int64_t block) {
  std::vector<Graph> all(wanted.group.inputs.size());
  std::vector<int> users(all.size(), 0);
  for (NodeId n : c.operands) {
    if (int i = input_of(wanted.group, n); i >= 0) ++users[static_cast<size_t>(i)];
  }
  for (size_t m = 0; m < c.r.matrices.size(); ++m) {
    int i = input_of(wanted.group, c.operands[c.r.matrices[m].operand]);
    auto at = static_cast<size_t>(i);
    if (i < 0 || users[at] != 1 || !wanted.constant[at]) continue;
    all[at] = packing_of(wanted.group, c, m, block);
  }
  return all;
}

// Measured on a machine whose plain loops move 48 GB/s in the shared cache.
double estimate(const Recurrence& r, const RecurrentConfig& config, const Target& target) {
  constexpr double kMeeting = 3e-7, kLine = 4e-8;  // seconds: all meet; a line changes its owner
  constexpr double kInFlight = 8;                  // sums that hide an addition's latency
  constexpr double kOwnCache = 768 << 10, kOwnRate = 4, kSharedRate = 3;  // against plain loops
  int64_t width = target.vector_bytes / 4, block = config.vectors * width;
  auto all = static_cast<double>(blocks(r.units, block));
  double busiest = config.rows > 0 ? all : std::ceil(all / target.threads), again = 1;
  if (config.rows > 0) {
    again = std::ceil(static_cast<double>(r.products[0].rows / config.rows) / target.threads);
  }
  double bytes = 0, computing = 0, meeting = 0;
  for (size_t m = 0; m < r.matrices.size(); ++m) {
    bytes += static_cast<double>(panels_of(r, m, block).floats()) * busiest * sizeof(float);
  }
  for (const Recurrence::Product& p : r.products) {
    Panels panels = panels_of(r, p.matrix, block);
    int64_t rows = config.rows > 0 ? config.rows : p.rows;
    TileShape tile = tile_of(rows, sums_of_a_row(panels, width), target);
    double slow = std::max(1.0, kInFlight / static_cast<double>(tile.rows * tile.vectors));
    double flops = 2.0 * static_cast<double>(rows * p.gates * panels.depth * block) * busiest;
    computing += flops * slow * target.threads / target.peak_flops;
    if (config.rows == 0) meeting += kLine * static_cast<double>(rows * panels.depth) / 16;
  }
  if (config.rows == 0) meeting += kMeeting * static_cast<double>(r.stages.size());
  double rate = target.bandwidth / target.threads * (bytes < kOwnCache ? kOwnRate : kSharedRate);
  return target.launch_s +
         again * (bytes / rate + computing + meeting) * static_cast<double>(r.loop.trips);
}

std::vector<Candidate> candidates(const Wanted& wanted, const Target& target) {
  auto c = wanted.layouts.plain() ? cell_in(wanted.group) : std::nullopt;
  if (!c) return {};
  int64_t width = target.vector_bytes / 4, apart = separate_rows(c->r);
  std::vector<Candidate> all;
  for (int64_t vectors : {1, 2, 4, 8}) {
    if (vectors > 1 && vectors / 2 * width >= c->r.units) continue;
    auto packing = packings(wanted, *c, vectors * width);
    auto packed = std::ranges::count_if(packing, [](const Graph& g) { return !g.outputs.empty(); });
    auto add = [&](int64_t rows) {
      RecurrentConfig config{vectors, rows};
      all.push_back({.kernel = "recurrent",
                     .config = to_attrs(config),
                     .layouts = wanted.layouts,
                     .estimate_s = estimate(c->r, config, target),
                     .packing = packing});
    };
    add(0);
    // What the kernel packs itself, it packs together.
    bool possible = target.threads > 1 && apart > 1 && packed == std::ssize(c->r.matrices);
    if (possible && apart % target.threads == 0) add(apart / target.threads);
  }
  std::ranges::stable_sort(all, {}, &Candidate::estimate_s);
  return all;
}

}  // namespace

Kernel recurrent_kernel() {
  return {.name = "recurrent", .candidates = candidates, .emit = print_recurrent};
}

}  // namespace emend
