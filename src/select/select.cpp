#include "select/select.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <set>

#include "base/error.h"
#include "base/hash.h"
#include "base/text.h"
#include "ir/bytes.h"
#include "kernels/group.h"
#include "kernels/nest.h"
#include "ops/table.h"
#include "select/pbqp.h"

namespace emend {
namespace {

// Without computing plain sums after all.
bool keeps(const Candidate& c, double bound) {
  return bound == 0 || c.least_bound <= bound;
}

// What the catalogue offers of kernels that may lose so much, best estimate first. Those that keep
// a bound are told it.
std::vector<Candidate> offers(const Wanted& wanted, const Catalogue& catalogue,
                              const Target& target, double error = 0, double bound = 0) {
  std::vector<Candidate> all;
  for (const Kernel& k : catalogue) {
    for (Candidate& c : k.candidates(wanted, target)) {
      if (c.error > error || !keeps(c, bound)) continue;
      if (bound > 0 && c.least_bound > 0) c.config = c.config.with("bound", bound);
      all.push_back(std::move(c));
    }
  }
  std::stable_sort(all.begin(), all.end(), [](const Candidate& a, const Candidate& b) {
    return a.estimate_s < b.estimate_s;
  });
  return all;
}

double most_allowed(const SelectOptions& options) {
  return std::max(options.error, options.errors);
}

// What its way of storing weights takes besides the weights.
double added_bytes(const Candidate& c) {
  double bytes = c.growth;
  for (const Graph& packing : c.packing) {
    if (packing.outputs.empty()) continue;
    bytes += bytes_of(packing.type(packing.outputs[0].node)) -
             bytes_of(packing.type(packing.inputs[0].node));
  }
  for (const auto& norms : c.norms) bytes += norms ? 4 * static_cast<double>(norms->count()) : 0;
  return bytes;
}

// A group with what it loads, and those of its loads that may lie otherwise.
struct Place {
  Outline outline;
  std::vector<bool> constant, movable;
  const std::vector<PricedCandidates>* options = nullptr;  // once they were asked for
};

// Only convolutions care how values lie.
bool convolves(const Graph& g) {
  return std::ranges::any_of(g.nodes, [](const Node& n) { return op_def(n).name == "conv"; });
}

Place place_of(const Graph& g, const NodeGroup& group, bool convolves) {
  Place p{outlined(g, group), {}, {}, nullptr};
  for (NodeId n : p.outline.loads) {
    NodeId s = storage_of(g, n);
    p.constant.push_back(g.is_constant(s));
    p.movable.push_back(convolves && !g.is_constant(s) && g.type(s).shape == g.type(n).shape);
  }
  return p;
}

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

// Candidates that are cheaper than all that add and lose less.
PricedCandidates undominated(PricedCandidates all) {
  std::ranges::stable_sort(all, {}, &PricedCandidate::price);
  PricedCandidates kept;
  for (PricedCandidate& o : all) {
    bool worse = std::ranges::any_of(kept, [&](const PricedCandidate& k) {
      return k.added <= o.added && k.candidate.error <= o.candidate.error;
    });
    if (!worse) kept.push_back(std::move(o));
  }
  return kept;
}

// By measured prices where there are any: what was measured is not held against what was only
// estimated. Kernels that lose more than their share are asked about besides the others.
PricedCandidates worthwhile(const Place& p, std::vector<Candidate>& candidates, double hopeless,
                            const SelectOptions& options) {
  PricedCandidates all, measured;
  for (const Candidate& c : candidates) all.push_back({c, c.estimate_s, added_bytes(c)});
  int within = options.asked, beyond = (options.asked + 1) / 2;  // still to be asked about
  for (const PricedCandidate& o : all) {
    if (!options.price || o.price > hopeless) break;
    if ((o.candidate.error <= options.error ? within : beyond)-- <= 0) continue;
    auto price = options.price({p.outline.graph, p.constant, o.candidate});
    if (price) measured.push_back({o.candidate, *price, o.added});
  }
  if (!measured.empty()) {
    // Room and precision can be had in any case.
    double dearest = std::ranges::max(measured, {}, &PricedCandidate::price).price;
    auto keep_least = [&](auto&& measure) {
      PricedCandidate least = *std::ranges::min_element(all, {}, measure);
      if (measure(*std::ranges::min_element(measured, {}, measure)) <= measure(least)) return;
      least.price = std::max(least.price, dearest);
      measured.push_back(std::move(least));
    };
    keep_least([](const PricedCandidate& o) { return o.added; });
    keep_least([](const PricedCandidate& o) { return o.candidate.error; });
    all = std::move(measured);
  }
  return undominated(std::move(all));
}

// Nothing where no kernel takes the group.
std::vector<PricedCandidates> priced(const Place& p, bool convolves, const Catalogue& catalogue,
                                     const Target& target, const SelectOptions& options) {
  std::vector<std::vector<Candidate>> offered;
  double best = 1e30;
  auto all = convolves ? layouts_worth_trying(p) : std::vector<Layouts>{{}};
  for (Layouts& l : all) {
    offered.push_back(offers({p.outline.graph, p.constant, l, options.wide}, catalogue, target,
                             most_allowed(options), options.bound));
    if (!offered.back().empty()) best = std::min(best, offered.back()[0].estimate_s);
  }
  std::vector<PricedCandidates> found;
  for (std::vector<Candidate>& candidates : offered) {
    if (!candidates.empty())
      found.push_back(worthwhile(p, candidates, best * options.hopeless, options));
  }
  return found;
}

const std::vector<PricedCandidates>& known_prices(const Place& p, bool convolves,
                                                  const Catalogue& catalogue, const Target& target,
                                                  const SelectOptions& options,
                                                  KnownPrices& known) {
  auto [it, fresh] =
      known.offers.try_emplace({hash(p.outline.graph), p.constant, p.movable, convolves});
  if (fresh) it->second = priced(p, convolves, catalogue, target, options);
  return it->second;
}

// Kernels that need no less than plain sums are asked only where those could be fast enough.
std::optional<double> least_price(const Graph& group, const std::vector<bool>& constant,
                                  const Catalogue& catalogue, const Target& target,
                                  const SelectOptions& options) {
  Place p{{group, {}, {}}, constant, constant, nullptr};
  p.movable.flip();
  std::vector<Wanted> ways;  // the plain one first
  for (Layouts& l : layouts_worth_trying(p)) ways.emplace_back(group, constant, std::move(l), 0);
  bool f32 = std::ranges::all_of(group.types, [](const Type& t) { return t.dtype == DType::f32; });
  const Result<Nest>& nest = ways[0].in_memory.nest;
  double plain = f32 && nest ? operation_count(*nest) / target.peak_flops : 0;
  std::optional<double> best;
  for (bool all : {false, true}) {
    for (const Kernel& k : catalogue) {
      if ((k.executes > 0) != all || (best && k.executes * plain >= *best)) continue;
      for (const Wanted& wanted : ways) {
        for (const Candidate& c : k.candidates(wanted, target)) {
          if (c.error <= options.error && keeps(c, options.bound))
            best = std::min(best.value_or(c.estimate_s), c.estimate_s);
        }
      }
    }
  }
  return best;
}

class Selector {
 public:
  Selector(const Graph& g, Plan& plan, const Catalogue& catalogue, const Target& target,
           const SelectOptions& options)
      : g_(g),
        plan_(plan),
        catalogue_(catalogue),
        target_(target),
        options_(options),
        convolves_(convolves(g)),
        known_(options.known ? *options.known : decided_) {}

  void run() {
    size_t groups = plan_.partition.groups.size();
    places_.resize(groups);
    for (size_t k = 0; k < groups; ++k) {
      const NodeGroup& group = plan_.partition.groups[k];
      for (size_t s = 0; s < group.stores.size(); ++s) stored_by_[group.stores[s]] = {k, s};
      if (!group.host) places_[k] = place_of(g_, group, convolves_);
    }
    decide_within(room_for_weights());
    plan_.estimate_s = choice_.cost;
    for (size_t k = 0; k < groups; ++k) {
      const PricedCandidate& c = chosen(k);
      plan_.choices.push_back(c.candidate);
      plan_.choices.back().estimate_s = c.price;
      plan_.estimate_s -= price(c) - c.price;  // what bytes and errors cost is no time
    }
  }

 private:
  // What weights may grow by. Every use may end up with a copy of its own, so all of them count.
  double room_for_weights() const {
    double held = 0, used = 0;
    std::set<NodeId> known;
    for (const Place& p : places_) {
      for (NodeId n : p.outline.loads) {
        NodeId s = storage_of(g_, n);
        if (!g_.is_constant(s)) continue;
        used += bytes_of(g_.type(s));
        if (known.insert(s).second) held += bytes_of(g_.type(s));
      }
    }
    return std::max(options_.memory * held, options_.memory_bytes) - used;
  }

  double added() {
    double bytes = 0;
    for (size_t k = 0; k < places_.size(); ++k) bytes += chosen(k).added;
    return bytes;
  }

  // The square of what a kernel loses, of what all of them together may.
  double share_of_errors(const PricedCandidate& o) const {
    double error = o.candidate.error, most = most_allowed(options_);
    return error == 0 || options_.errors == 0 ? 0 : error * error / (most * most);
  }
  double errors() {
    double shares = 0;
    for (size_t k = 0; k < places_.size(); ++k) shares += share_of_errors(chosen(k));
    return shares;
  }

  // Without prices for bytes and errors; where that asks for too much of one, with the least price
  // of it that does not. One bound may push against the other, a little further every time.
  void decide_within(double room) {
    constexpr double kFree = 1e-16, kDear = 1;               // seconds for a byte
    constexpr double kFreeErrors = 1e-9, kDearErrors = 1e4;  // for all errors that are allowed
    constexpr int kRounds = 4;
    auto fits = [&] { return added() <= room; };
    auto precise = [&] { return errors() <= 1; };
    decide();
    for (int round = 0; round < kRounds && !(fits() && precise()); ++round) {
      if (!precise()) raise(error_price_, kFreeErrors, kDearErrors, precise);
      if (!fits()) raise(byte_price_, kFree, kDear, fits);
    }
    if (fits() && precise()) return;
    byte_price_ = kDear;
    error_price_ = kDearErrors;
    decide();
  }

  // Decides with the least price at which the bound holds, up to one at which nothing else counts.
  void raise(double& price, double free, double dear, const std::function<bool()>& holds) {
    double low = std::log(std::max(price, free)), high = std::log(dear);
    for (int step = 0; step < 16; ++step) {
      double middle = (low + high) / 2;
      price = std::exp(middle);
      decide();
      (holds() ? high : low) = middle;
    }
    price = std::exp(high);
    decide();
  }

  // All at once, with a price for every byte that weights grow by and for what kernels lose.
  void decide() {
    problem_ = {};
    for (size_t k = 0; k < places_.size(); ++k) {
      problem_.options.emplace_back();
      for (const PricedCandidates& o : options_of(k))
        problem_.options.back().push_back(price(best(o)));
    }
    for (size_t k = 0; k < places_.size(); ++k) add_loads(k);
    for (const auto& o : g_.outputs) needs_plain(storage_of(g_, o.node));
    choice_ = solve(problem_);
  }

  const PricedCandidate& chosen(size_t k) { return best(options_of(k)[choice_.options[k]]); }
  double price(const PricedCandidate& o) const {
    return o.price + byte_price_ * o.added + error_price_ * share_of_errors(o);
  }
  const PricedCandidate& best(const PricedCandidates& options) const {
    return *std::ranges::min_element(options, {},
                                     [&](const PricedCandidate& o) { return price(o); });
  }

  const std::vector<PricedCandidates>& options_of(size_t k) {
    static const std::vector<PricedCandidates> kHost(1, PricedCandidates(1));
    if (plan_.partition.groups[k].host) return kHost;
    Place& p = places_[k];
    if (!p.options) p.options = &known_prices(p, convolves_, catalogue_, target_, options_, known_);
    EMEND_ASSERT(!p.options->empty(), "no kernel takes a group");
    return *p.options;
  }

  // All options of a list lie alike.
  static const Layouts& layouts(const PricedCandidates& o) { return o[0].candidate.layouts; }

  double conversion(const Type& type, const Layout& from, const Layout& to) {
    if (from == to) return 0;
    auto [it, fresh] = known_.conversions.try_emplace({type.dtype, type.shape, from, to});
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
      problem_.options[k][o] += conversion(g_.type(storage), layouts(options[o]).store(s), {});
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
          problem_.options[k][o] += conversion(g_.type(s), {}, layouts(options[o]).load(i));
        }
      } else {
        add_edge(producer->second, k, i, g_.type(s));
      }
    }
  }

  void add_edge(std::pair<size_t, size_t> from, size_t to, size_t load, const Type& type) {
    Pbqp::Edge edge{from.first, to, {}};
    const auto &a = options_of(from.first), &b = options_of(to);
    for (const PricedCandidates& x : a) {
      for (const PricedCandidates& y : b) {
        edge.costs.push_back(
            conversion(type, layouts(x).store(from.second), layouts(y).load(load)));
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
  const bool convolves_;
  std::vector<Place> places_;
  std::map<NodeId, std::pair<size_t, size_t>> stored_by_;  // group, which of its stores
  KnownPrices decided_;
  KnownPrices& known_;
  double byte_price_ = 0, error_price_ = 0;
  Pbqp problem_;
  PbqpChoice choice_;
};

}  // namespace

std::optional<double> cheapest(const Graph& group, const std::vector<bool>& constant,
                               const Catalogue& catalogue, const Target& target,
                               const SelectOptions& options) {
  KnownPrices unread;
  KnownPrices& known = options.known ? *options.known : unread;
  std::pair key(hash(group), constant);
  auto it = known.cheapest.find(key);
  if (it == known.cheapest.end()) {
    auto price = least_price(group, constant, catalogue, target, options);
    it = known.cheapest.emplace(std::move(key), price).first;
  }
  return it->second;
}

std::string text_of(const Candidate& c) {
  return str(c.kernel, to_text(c.config), to_text(c.layouts));
}

std::optional<Plan> chosen_before(const Graph& g, Partition partition,
                                  std::span<const std::string> choices,
                                  std::span<const double> seconds, const Catalogue& catalogue,
                                  const Target& target, const SelectOptions& options) {
  if (choices.size() != partition.groups.size()) return std::nullopt;
  const bool lies_otherwise = convolves(g);
  Plan plan{std::move(partition), {}};
  std::map<std::pair<uint64_t, std::string>, Candidate> known;  // equal groups are asked once
  for (size_t k = 0; k < choices.size(); ++k) {
    if (plan.partition.groups[k].host) {
      plan.choices.emplace_back();
      continue;
    }
    const Place p = place_of(g, plan.partition.groups[k], lies_otherwise);
    uint64_t place = hash(p.outline.graph);
    for (bool c : p.constant) place = hash_mix(place, c);
    auto [it, fresh] = known.try_emplace({place, choices[k]});
    for (Layouts& l : lies_otherwise ? layouts_worth_trying(p) : std::vector<Layouts>{{}}) {
      if (!fresh || !it->second.kernel.empty() || !choices[k].ends_with(to_text(l))) continue;
      for (Candidate& c : offers({p.outline.graph, p.constant, l, options.wide}, catalogue, target,
                                 most_allowed(options), options.bound)) {
        if (text_of(c) != choices[k]) continue;
        it->second = std::move(c);
        break;
      }
    }
    if (it->second.kernel.empty()) return std::nullopt;
    plan.choices.push_back(it->second);
    plan.choices.back().estimate_s = seconds[k];
    plan.estimate_s += seconds[k];
  }
  return plan;
}

Plan select(const Graph& g, Partition partition, const Catalogue& catalogue, const Target& target,
            const SelectOptions& options) {
  Plan plan{std::move(partition), {}};
  Selector(g, plan, catalogue, target, options).run();
  return plan;
}

}  // namespace emend
