#include "select/select.h"

#include <algorithm>
#include <map>

#include "base/error.h"
#include "base/hash.h"
#include "kernels/group.h"

namespace emend {
namespace {

// What the catalogue offers, best estimate first.
std::vector<Candidate> offers(const Graph& group, const std::vector<bool>& constant,
                              const Catalogue& catalogue, const Target& target) {
  std::vector<Candidate> all;
  for (const Kernel& k : catalogue) {
    for (Candidate& c : k.candidates(group, constant, target)) all.push_back(std::move(c));
  }
  EMEND_ASSERT(!all.empty(), "no kernel takes a group");
  std::stable_sort(all.begin(), all.end(), [](const Candidate& a, const Candidate& b) {
    return a.estimate_s < b.estimate_s;
  });
  return all;
}

Candidate cheapest(const Graph& group, const std::vector<bool>& constant,
                   std::vector<Candidate> all, const SelectOptions& options) {
  if (!options.price) return std::move(all[0]);
  size_t best = 0;
  double best_price = 1e30, limit = options.hopeless * all[0].estimate_s;
  for (size_t i = 0; i < all.size() && i < static_cast<size_t>(options.asked); ++i) {
    if (all[i].estimate_s > limit) break;
    double price = options.price({group, constant, all[i]}).value_or(all[i].estimate_s);
    if (price < best_price) {
      best = i;
      best_price = price;
    }
  }
  return std::move(all[best]);
}

}  // namespace

Plan select(const Graph& g, Partition partition, const Catalogue& catalogue, const Target& target,
            const SelectOptions& options) {
  Plan plan{std::move(partition), {}};
  std::map<std::pair<uint64_t, std::vector<bool>>, Candidate> decided;
  for (const NodeGroup& group : plan.partition.groups) {
    if (group.host) {
      plan.choices.emplace_back();
      continue;
    }
    Outline o = outlined(g, group);
    std::vector<bool> constant;
    for (NodeId n : o.loads) constant.push_back(g.is_constant(storage_of(g, n)));
    auto [it, fresh] = decided.try_emplace({hash(o.graph), constant});
    if (fresh) {
      it->second =
          cheapest(o.graph, constant, offers(o.graph, constant, catalogue, target), options);
    }
    plan.choices.push_back(it->second);
  }
  return plan;
}

}  // namespace emend
