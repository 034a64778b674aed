#include "select/select.h"

#include <algorithm>
#include <map>

#include "base/error.h"
#include "base/hash.h"
#include "kernels/group.h"
#include "ops/table.h"
#include "select/pbqp.h"

namespace emend {
namespace {

// What the catalogue offers, best estimate first.
std::vector<Candidate> offers(const Wanted& wanted, const Catalogue& catalogue,
                              const Target& target) {
  std::vector<Candidate> all;
  for (const Kernel& k : catalogue) {
    for (Candidate& c : k.candidates(wanted, target)) all.push_back(std::move(c));
  }
  std::stable_sort(all.begin(), all.end(), [](const Candidate& a, const Candidate& b) {
    return a.estimate_s < b.estimate_s;
  });
  return all;
}

// The best candidate for one choice of layouts.
struct Option {
  Candidate candidate;
  double price = 0;
};

// A group with what it loads, and those of its loads that may lie otherwise.
struct Place {
  Outline outline;
  std::vector<bool> constant, movable;
};

// All plain, all with channels last, or changing from one to the other.
std::vector<Layouts> layouts_worth_trying(const Place& p) {
  auto last_of = [&](NodeId n) { return channels_last(p.outline.graph.type(n).shape); };
  Layouts last;
  for (size_t i = 0; i < p.movable.size(); ++i) {
    last.loads.push_back(p.movable[i] ? last_of(p.outline.graph.inputs[i].node) : Layout{});
  }
  for (const auto& o : p.outline.graph.outputs) last.stores.push_back(last_of(o.node));
  Layouts plain{std::vector<Layout>(last.loads.size()), std::vector<Layout>(last.stores.size())};
  std::vector<Layouts> all = {plain};
  for (const Layouts& l : {last, Layouts{last.loads, plain.stores}, {plain.loads, last.stores}}) {
    if (std::ranges::find(all, l) == all.end()) all.push_back(l);
  }
  return all;
}

class Selector {
 public:
  Selector(const Graph& g, Plan& plan, const Catalogue& catalogue, const Target& target,
           const SelectOptions& options)
      : g_(g), plan_(plan), catalogue_(catalogue), target_(target), options_(options) {
    for (size_t n = 0; n < g.size() && !convolves_; ++n) {
      convolves_ = op_def(g.nodes[NodeId(n)]).name == "conv";
    }
  }

  void run() {
    size_t groups = plan_.partition.groups.size();
    places_.resize(groups);
    for (size_t k = 0; k < groups; ++k) {
      const NodeGroup& group = plan_.partition.groups[k];
      for (size_t s = 0; s < group.stores.size(); ++s) stored_by_[group.stores[s]] = {k, s};
      if (!group.host) places_[k] = place_of(group);
      problem_.options.emplace_back();
      for (const Option& o : options_of(k)) problem_.options.back().push_back(o.price);
    }
    for (size_t k = 0; k < groups; ++k) add_loads(k);
    for (const auto& o : g_.outputs) needs_plain(storage_of(g_, o.node));
    PbqpChoice choice = solve(problem_);
    for (size_t k = 0; k < groups; ++k) {
      plan_.choices.push_back(options_of(k)[choice.options[k]].candidate);
    }
  }

 private:
  Place place_of(const NodeGroup& group) const {
    Place p{outlined(g_, group), {}, {}};
    for (NodeId n : p.outline.loads) {
      NodeId s = storage_of(g_, n);
      p.constant.push_back(g_.is_constant(s));
      p.movable.push_back(convolves_ && !g_.is_constant(s) && g_.type(s).shape == g_.type(n).shape);
    }
    return p;
  }

  const std::vector<Option>& options_of(size_t k) {
    static const std::vector<Option> kHost(1);
    if (plan_.partition.groups[k].host) return kHost;
    const Place& p = places_[k];
    auto [it, fresh] = decided_.try_emplace({hash(p.outline.graph), p.constant, p.movable});
    if (fresh) it->second = priced(p);
    return it->second;
  }

  std::vector<Option> priced(const Place& p) const {
    std::vector<std::vector<Candidate>> offered;
    double best = 1e30;
    auto all = convolves_ ? layouts_worth_trying(p) : std::vector<Layouts>{{}};
    for (Layouts& l : all) {
      offered.push_back(offers({p.outline.graph, p.constant, l}, catalogue_, target_));
      if (!offered.back().empty()) best = std::min(best, offered.back()[0].estimate_s);
    }
    std::vector<Option> found;
    for (std::vector<Candidate>& candidates : offered) {
      if (!candidates.empty()) found.push_back(cheapest(p, candidates, best * options_.hopeless));
    }
    EMEND_ASSERT(!found.empty(), "no kernel takes a group");
    return found;
  }

  Option cheapest(const Place& p, std::vector<Candidate>& candidates, double hopeless) const {
    Option best{candidates[0], candidates[0].estimate_s};
    if (!options_.price || best.price > hopeless) return best;
    bool measured = false;
    for (size_t i = 0; i < candidates.size() && i < static_cast<size_t>(options_.asked); ++i) {
      if (candidates[i].estimate_s > hopeless) break;
      auto price = options_.price({p.outline.graph, p.constant, candidates[i]});
      // What was measured is not held against what was only estimated.
      if (!price || (measured && *price >= best.price)) continue;
      best = {candidates[i], *price};
      measured = true;
    }
    return best;
  }

  double conversion(const Type& type, const Layout& from, const Layout& to) {
    if (from == to) return 0;
    auto [it, fresh] = conversions_.try_emplace({type.dtype, type.shape, from, to});
    if (fresh) {
      Graph group = identity_group(type);
      it->second = offers({group, {false}, {{from}, {to}}}, catalogue_, target_)[0].estimate_s;
    }
    return it->second;
  }

  // Somebody reads the value as it is: whoever stores it otherwise pays.
  void needs_plain(NodeId storage) {
    auto it = stored_by_.find(storage);
    if (it == stored_by_.end()) return;
    auto [k, s] = it->second;
    const auto& options = options_of(k);
    for (size_t o = 0; o < options.size(); ++o) {
      problem_.options[k][o] +=
          conversion(g_.type(storage), options[o].candidate.layouts.store(s), {});
    }
  }

  void add_loads(size_t k) {
    const NodeGroup& group = plan_.partition.groups[k];
    if (group.host) {
      for (NodeId a : g_.nodes[group.nodes[0]].args) needs_plain(storage_of(g_, a));
      return;
    }
    const Place& p = places_[k];
    for (size_t i = 0; i < p.outline.loads.size(); ++i) {
      NodeId s = storage_of(g_, p.outline.loads[i]);
      auto producer = stored_by_.find(s);
      if (!p.movable[i]) {
        needs_plain(s);
      } else if (producer == stored_by_.end()) {
        const auto& options = options_of(k);
        for (size_t o = 0; o < options.size(); ++o) {
          problem_.options[k][o] +=
              conversion(g_.type(s), {}, options[o].candidate.layouts.load(i));
        }
      } else {
        add_edge(producer->second, k, i, g_.type(s));
      }
    }
  }

  void add_edge(std::pair<size_t, size_t> from, size_t to, size_t load, const Type& type) {
    Pbqp::Edge edge{from.first, to, {}};
    const auto &a = options_of(from.first), &b = options_of(to);
    for (const Option& x : a) {
      for (const Option& y : b) {
        edge.costs.push_back(conversion(type, x.candidate.layouts.store(from.second),
                                        y.candidate.layouts.load(load)));
      }
    }
    if (std::ranges::any_of(edge.costs, [](double c) { return c > 0; })) {
      problem_.edges.push_back(std::move(edge));
    }
  }

  const Graph& g_;
  Plan& plan_;
  const Catalogue& catalogue_;
  const Target& target_;
  const SelectOptions& options_;
  bool convolves_ = false;  // only convolutions care
  std::vector<Place> places_;
  std::map<NodeId, std::pair<size_t, size_t>> stored_by_;  // group, which of its stores
  std::map<std::tuple<uint64_t, std::vector<bool>, std::vector<bool>>, std::vector<Option>>
      decided_;
  std::map<std::tuple<DType, Dims, Layout, Layout>, double> conversions_;
  Pbqp problem_;
};

}  // namespace

Plan select(const Graph& g, Partition partition, const Catalogue& catalogue, const Target& target,
            const SelectOptions& options) {
  Plan plan{std::move(partition), {}};
  Selector(g, plan, catalogue, target, options).run();
  return plan;
}

}  // namespace emend
