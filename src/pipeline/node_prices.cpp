#include "pipeline/node_prices.h"

#include <algorithm>

#include "base/hash.h"
#include "equiv/compare.h"
#include "equiv/region.h"
#include "fuse/fuse.h"
#include "ir/bytes.h"
#include "kernels/group.h"
#include "ops/build.h"
#include "ops/meaning.h"
#include "ops/table.h"
#include "select/select.h"

namespace emend {
namespace {

// So that of two programs of equal price the shorter one is taken.
constexpr double kPerNode = 1e-9;
// The share of moves that no neighbour takes in: products read transposed operands, concatenations
// are written in place, loops read slices where they lie.
constexpr double kMoved = 0.5;

}  // namespace

Graph graph_of(const PricedNode& n, bool constants) {
  GraphBuilder b;
  std::vector<NodeId> args;
  for (size_t i = 0; i < n.operands.size(); ++i) {
    const Type& t = n.operands[i];
    args.push_back(constants && n.weights[i] && t.is_tensor() ? b.constant(random_tensor(t, 1, i))
                                                              : b.input(str("x", i), t));
  }
  b.output("y", b.try_op(n.op, args, n.attrs).value_or_throw());
  return std::move(b).build();
}

uint64_t key_of(const PricedNode& n) {
  uint64_t h = hash_mix(n.op.value, n.attrs.hash());
  for (size_t i = 0; i < n.operands.size(); ++i)
    h = hash_mix(hash_mix(h, n.weights[i]), hash_text(to_text(n.operands[i])));
  return h;
}

std::optional<double> price_beside_nuclei(const PricedNode& n, const BesideNuclei& there) {
  const OpDef& def = op_def(n.op);
  if (def.kind == Kind::structure || std::ranges::all_of(n.weights, [](bool w) { return w; }))
    return 0;
  double read = 0, largest = 0;
  for (const Type& t : n.operands) {
    read += bytes_of(t);
    largest = std::max(largest, bytes_of(t));
  }
  double written = bytes_of(n.result);
  if (def.kind == Kind::elementwise)
    return there.per_node +
           (read + (there.fuses ? -std::min(largest, written) : written)) / there.bandwidth;
  if (def.kind == Kind::movement) {
    bool renames = n.operands.size() == 1 && def.name == "reshape";
    return there.per_node + (renames ? 0 : there.moved * std::min(read, written) / there.bandwidth);
  }
  return std::nullopt;
}

double lowest_price(const PricedNode& n, const Target& target) {
  // Transforms save so much where windows overlap, and nothing is known to save more.
  constexpr double kSaved = 4;
  double bytes = bytes_of(n.result);
  for (const Type& t : n.operands) bytes += bytes_of(t);
  bool windows = n.operands[0].rank() > 3;
  double operations = operation_count(graph_of(n)) / (windows ? kSaved : 1);
  return target.launch_s + std::max(operations / target.peak_flops, bytes / (2 * target.bandwidth));
}

std::optional<double> NodePrices::beside_nuclei(const PricedNode& n) const {
  // Neighbours read through other moves, but a view of an image is a pass of its own.
  bool passes = op_def(n.op).name == "view" && !n.weights[0];
  return passes ? std::nullopt
                : price_beside_nuclei(
                      n, {.bandwidth = target_.bandwidth, .per_node = kPerNode, .moved = kMoved});
}

NodePrice NodePrices::quick(const PricedNode& n) {
  if (auto price = beside_nuclei(n)) return {*price};
  uint64_t key = key_of(n);
  if (auto it = known_.find(key); it != known_.end()) return {it->second};
  Kind kind = op_def(n.op).kind;
  if (kind != Kind::contraction && kind != Kind::movement) return {exact(n)};
  auto [it, fresh] = guesses_.try_emplace(key);
  if (fresh) it->second = lowest_price(n, target_);
  return {it->second, true};
}

double NodePrices::exact(const PricedNode& n) {
  if (auto price = beside_nuclei(n)) return *price;
  auto [it, fresh] = known_.try_emplace(key_of(n));
  if (fresh) it->second = nucleus(n);
  return it->second;
}

double NodePrices::nucleus(const PricedNode& n) const {
  Graph plain = decomposed(graph_of(n));
  Partition partition = fuse(plain, {.target = target_, .catalogue = &catalogue_});
  double seconds = 0;
  for (const NodeGroup& group : partition.groups) {
    double alone = target_.launch_s;
    for (NodeId s : group.stores) alone += bytes_of(plain.type(s)) / target_.bandwidth;
    if (group.host) {
      seconds += alone;
      continue;
    }
    Outline o = outlined(plain, group);
    std::vector<bool> constant;
    for (NodeId load : o.loads) {
      NodeId s = storage_of(plain, load);
      constant.push_back(
          plain.nodes[s].op == kInputOp &&
          n.weights[static_cast<size_t>(plain.nodes[s].attrs.get<int64_t>("index"))]);
    }
    seconds += target_.launch_s + cheapest(o.graph, constant, catalogue_, target_, choose_)
                                      .value_or(alone - target_.launch_s);
  }
  return seconds;
}

}  // namespace emend
