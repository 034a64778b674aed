// Prices that do not depend on the machine: of a device with dear launches and fast memory, as a
// GPU has. So what a search finds can be written down.
#pragma once

#include <algorithm>

#include "ops/families.h"
#include "ops/table.h"
#include "pipeline/search_prices.h"

namespace emend {

// Operations of the node's sum of products, or 0.
inline double work_of(const PricedNode& n) {
  const OpDef& def = op_def(n.op);
  if (!def.means || (def.name != "conv" && def.name != "matmul")) return 0;
  return operation_count(meaning_of(def, n.attrs, n.operands));
}

// Every kernel a launch; contractions their work at so many operations a second, and half of that
// where windows are 3x3 without stride or dilation (Winograd); moves and others their bytes at 500
// GB/s; elementwise operators almost nothing, since they are fused, and what only changes
// addresses.
inline double launched_at(const PricedNode& n, double speed) {
  const OpDef& def = op_def(n.op);
  if (def.kind == Kind::structure) return 0;
  bool ahead = !n.weights.empty();
  for (bool w : n.weights) ahead &= w;
  if (ahead) return 0;
  if (!def.body.empty() || def.kind == Kind::elementwise) return 1e-7;
  if (def.name == "split" || def.name == "reshape" || def.name == "slice" || !n.result.is_tensor())
    return 1e-7;
  const double launch = 5e-6, bytes = 4.0 * static_cast<double>(count(n.result.shape));
  double work = work_of(n);
  if (def.name == "conv") {
    const Dims& w = n.operands[1].shape;
    const auto all = [](const Dims& d) {
      return std::ranges::all_of(d, [](int64_t v) { return v == 1; });
    };
    bool winograd = all(n.attrs.get<Dims>("strides")) && all(n.attrs.get<Dims>("dilations")) &&
                    w.size() == 4 && w[2] == 3 && w[3] == 3;
    if (winograd) work /= 2;
  }
  return launch + work / speed + 2 * bytes / 500e9;
}

inline double launched(const PricedNode& n) {
  return launched_at(n, 10e12);
}

inline SearchPrices made_up(const std::function<double(const PricedNode&)>& price,
                            std::string key = {}) {
  auto whole = [price](std::span<const Graph> programs, const Monitor&) {
    std::vector<double> seconds;
    for (const Graph& g : programs) {
      std::vector<bool> ahead(g.size(), false);
      double sum = 0;
      for (size_t i = 0; i < g.size(); ++i) {
        const Node& n = g.nodes[NodeId(i)];
        PricedNode asked{.op = n.op, .attrs = n.attrs, .result = g.type(NodeId(i))};
        for (NodeId a : n.args) {
          asked.operands.push_back(g.type(a));
          asked.weights.push_back(ahead[a.value]);
        }
        ahead[i] =
            n.op == kConstantOp ||
            (!n.args.empty() && std::ranges::all_of(asked.weights, [](bool w) { return w; }));
        if (!ahead[i]) sum += price(asked);
      }
      seconds.push_back(sum);
    }
    return seconds;
  };
  return {.quick =
              [price](const PricedNode& n) {
                return NodePrice{price(n), false};
              },
          .exact = price,
          .programs = whole,
          .key = std::move(key)};
}

}  // namespace emend
