#include "extract/search.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <iterator>
#include <queue>

#include "base/parallel.h"
#include "base/rng.h"
#include "extract/check.h"
#include "extract/greedy.h"
#include "extract/marginal.h"
#include "extract/pool.h"
#include "extract/reduce.h"

namespace emend {
namespace {

constexpr int kSweeps = 4;          // of offers per chain
constexpr int kPricedOffers = 10;   // classes per sweep from which offers go on that cost something
constexpr int64_t kMostForced = 3;  // moves of a kick
constexpr size_t kDetour = 64;      // classes looked at for a way around a cycle
constexpr int kDeepest = 10'000;    // of terms that one move builds
constexpr int64_t kTidyEvery = 4096;   // kicks
constexpr int64_t kBuiltPerMove = 40;  // classes that moves may build each, all in all

// Says when to stop, for all searches of one problem.
class Limits {
 public:
  explicit Limits(const SearchOptions& o) : options_(o) {}

  bool reached(int64_t moves, int64_t built) {
    if (moves >= options_.moves || built >= kBuiltPerMove * options_.moves) return true;
    if (moves % 16 == 0 && (elapsed() > options_.seconds || options_.monitor.stop_requested())) {
      interrupted_ = true;
    }
    return interrupted_;
  }
  bool interrupted() const { return interrupted_; }

 private:
  double elapsed() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
  }

  const SearchOptions& options_;
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  std::atomic<bool> interrupted_ = false;
};

// One search from one start. What it knows beside the solution (marginal costs, which classes can
// move, which are worth a look) follows every change that is kept.
class Searcher {
 public:
  Searcher(const SearchGraph& graph, std::span<const uint32_t> start, Rng rng, SolutionPool pool,
           Limits& limits)
      : graph_(graph),
        p_(graph.problem),
        solution_(graph, start),
        marginal_(graph, solution_),
        rng_(rng),
        pool_(std::move(pool)),
        limits_(limits),
        pending_(p_.class_count()),
        memory_(solution_.choices()),
        offered_(p_.class_count()),
        above_(p_.class_count()),
        founded_(p_.class_count()),
        position_(p_.class_count(), kNoClass),
        waiting_(p_.class_count()) {
    for (uint32_t c = 0; c < p_.class_count(); ++c) note_movable(c);
    pool_.offer(solution_.cost(), memory_);
  }

  void run(int patience, const Monitor& monitor) {
    for (uint32_t c : movable_) enqueue(c);
    shuffle(queue_);
    descend(true);
    solution_.forget();
    int vain = 0;
    while (!movable_.empty() && vain < patience && !limits_.reached(moves_, built_)) {
      monitor.tell({"extract", vain, patience, best_cost()});
      const double before = best_cost();
      kick();
      vain = best_cost() < before - tiny() ? 0 : vain + 1;
      if (kicks_ % kTidyEvery == 0) solution_.tidy();
    }
  }

  const SolutionPool& pool() const { return pool_; }
  double best_cost() const { return pool_.items()[0].cost; }
  int64_t moves() const { return moves_; }
  int64_t kicks() const { return kicks_; }

 private:
  struct Offer {
    uint32_t cls, node;
  };
  // How a class could be built by what a chain has made active.
  struct Offered {
    uint32_t chain = 0, support = kNoNode;
    double value = 0;
  };

  // A gain must be more than rounding.
  double tiny() const { return 1e-9 * solution_.cost(); }

  void shuffle(std::vector<uint32_t>& items) {
    for (size_t i = items.size(); i > 1; --i) {
      std::swap(items[i - 1], items[static_cast<size_t>(rng_.bits() % i)]);
    }
  }

  // ---- One move ----

  // The node by which an inactive class would be built now. What was active a moment ago is built
  // as it was.
  uint32_t way_to(uint32_t c) const {
    if (offered_[c].chain == chain_) return offered_[c].support;
    return marginal_.support(c) != kNoNode ? marginal_.support(c) : memory_[c];
  }

  double value(uint32_t c) const {
    if (solution_.active(c)) return 0;
    return offered_[c].chain == chain_ ? offered_[c].value : marginal_.value(c);
  }

  // Makes the children of n active; false where that leads back to a class that waits for them.
  bool acquire(uint32_t n, int depth = 0) {
    if (depth > kDeepest) return false;
    for (uint32_t d : p_.children(n)) {
      if (solution_.active(d)) continue;
      const uint32_t way = way_to(d);
      if (pending_[d] || way == kNoNode) return false;
      pending_[d] = true;
      const bool built = acquire(way, depth + 1);
      pending_[d] = false;
      if (!built) return false;
      solution_.activate(d, way);
      ++built_;
      fresh_.push_back(d);
    }
    return true;
  }

  // Lets an active class pick n, or makes an inactive one active by n, which nobody uses yet.
  bool move_to(uint32_t c, uint32_t n) {
    pending_[c] = true;
    const bool built = acquire(n);
    pending_[c] = false;
    if (!built) return false;
    if (solution_.active(c)) return solution_.repick(c, n);
    solution_.activate(c, n);
    return true;
  }

  // The active classes that depend on c, c included; with many of them, everything that stands no
  // lower than c, which holds them all.
  void mark_above(uint32_t c) {
    above_[c] = chain_;
    above_level_ = UINT32_MAX;
    found_.assign(1, c);
    for (size_t i = 0; i < found_.size(); ++i) {
      if (found_.size() > kDetour) {
        above_level_ = solution_.level(c);
        return;
      }
      for (uint32_t n : graph_.users.of(found_[i])) {
        const uint32_t o = graph_.owner[n];
        if (solution_.node(o) != n || above_[o] == chain_) continue;
        above_[o] = chain_;
        found_.push_back(o);
      }
    }
  }
  bool is_above(uint32_t c) const {
    return above_[c] == chain_ || solution_.level(c) >= above_level_;
  }

  // Marginal costs count on every active class, also on those that depend on c, by which nothing
  // below c can be built. This looks for ways to the children of n that do without.
  bool find_detour(uint32_t c, uint32_t n) {
    mark_above(c);
    found_.clear();
    const auto reach = [&](uint32_t user) {
      for (uint32_t d : p_.children(user)) {
        if (solution_.active(d) || (offered_[d].chain == chain_)) continue;
        offered_[d] = {chain_, kNoNode, std::numeric_limits<double>::infinity()};
        found_.push_back(d);
      }
    };
    reach(n);
    for (size_t i = 0; i < found_.size() && found_.size() < kDetour; ++i) {
      for (uint32_t m : p_.nodes(found_[i])) reach(m);
    }
    for (bool changed = true; changed;) {
      changed = false;
      for (size_t i = found_.size(); i-- > 0;) {
        const uint32_t x = found_[i];
        for (uint32_t m : p_.nodes(x)) {
          double s = p_.cost[m];
          for (uint32_t d : p_.children(m)) {
            s += solution_.active(d) && is_above(d) ? std::numeric_limits<double>::infinity()
                                                    : value(d);
          }
          if (!(s < offered_[x].value)) continue;
          offered_[x] = {chain_, m, s};
          changed = true;
        }
      }
    }
    return std::ranges::all_of(p_.children(n), [&](uint32_t d) {
      return solution_.active(d) ? !is_above(d) : offered_[d].support != kNoNode;
    });
  }

  // What c would give back if it moved away, not looking deeper than its children.
  double saving(uint32_t c) const {
    double s = p_.cost[solution_.node(c)];
    for (uint32_t d : p_.children(solution_.node(c))) {
      if (solution_.uses(d) == 1) s += p_.cost[solution_.node(d)];
    }
    return s;
  }

  // Goes up from what is newly active, cheapest first, to active classes that could use it.
  void collect_offers() {
    offers_.clear();
    for (uint32_t c : fresh_) {
      if (solution_.active(c)) open_.emplace(0.0, c);
    }
    fresh_.clear();
    for (int priced = 0; !open_.empty() && priced < kPricedOffers;) {
      const auto [v, x] = open_.top();
      open_.pop();
      if (v > value(x)) continue;
      priced += v > 0;
      for (uint32_t n : graph_.users.of(x)) {
        const uint32_t o = graph_.owner[n];
        if (solution_.node(o) == n) continue;
        double s = p_.cost[n];
        for (uint32_t d : p_.children(n)) s += value(d);
        if (solution_.active(o)) {
          if (s <= saving(o)) offers_.push_back({o, n});
        } else if (s < value(o)) {
          offered_[o] = {chain_, n, s};
          open_.emplace(s, o);
        }
      }
    }
    open_ = {};
  }

  void take_offers() {
    for (const Offer& offer : offers_) {
      if (!solution_.active(offer.cls) || solution_.node(offer.cls) == offer.node) continue;
      const auto before = solution_.mark();
      const size_t fresh = fresh_.size();
      if (!move_to(offer.cls, offer.node) || !(solution_.cost() < before.cost)) {
        solution_.undo(before);
        fresh_.resize(fresh);
      }
    }
  }

  // One chain that begins with c picking n. False: it cannot be done (or what it begins with ends
  // up unused), and is to be taken back.
  bool chain(uint32_t c, uint32_t n) {
    ++moves_;
    ++chain_;
    fresh_.clear();
    if (const auto before = solution_.mark(); !move_to(c, n)) {
      solution_.undo(before);
      fresh_.clear();
      if (!find_detour(c, n) || !move_to(c, n)) return false;
    }
    fresh_.push_back(c);  // on its new footing even an active class may suit others
    for (int sweep = 0; sweep < kSweeps && !fresh_.empty(); ++sweep) {
      collect_offers();
      take_offers();
    }
    if (solution_.active(c) && solution_.uses(c) == 0) return false;
    if (pool_.wants(solution_.cost())) pool_.offer(solution_.cost(), solution_.choices());
    return true;
  }

  // ---- Which moves ----

  void enqueue(uint32_t c) {
    if (waiting_[c] || position_[c] == kNoClass) return;
    waiting_[c] = true;
    queue_.push_back(c);
  }

  // Active classes with more than one node, in a list from which one can be drawn.
  void note_movable(uint32_t c) {
    const bool movable = solution_.active(c) && p_.nodes(c).size() > 1;
    uint32_t& at = position_[c];
    if (movable && at == kNoClass) {
      at = static_cast<uint32_t>(movable_.size());
      movable_.push_back(c);
    } else if (!movable && at != kNoClass) {
      movable_[at] = movable_.back();
      position_[movable_.back()] = at;
      movable_.pop_back();
      at = kNoClass;
    }
  }

  // What is known about the solution follows the change of repicked_.
  void follow() {
    switched_.clear();
    for (uint32_t c : repicked_) {
      if (solution_.active(c)) memory_[c] = solution_.node(c);
      note_movable(c);
      if (solution_.active(c) != (marginal_.support(c) == kNoNode)) switched_.push_back(c);
    }
    marginal_.update(solution_, switched_);
  }

  // The chain since `before` stays; its surroundings are worth another look.
  void keep(Solution::Mark before) {
    ++kept_;
    solution_.changed_since(before, repicked_);
    follow();
    for (uint32_t c : repicked_) {
      enqueue(c);
      if (!solution_.active(c)) continue;
      for (uint32_t d : p_.children(solution_.node(c))) enqueue(d);
      for (uint32_t n : graph_.users.of(c)) enqueue(graph_.owner[n]);
    }
  }

  bool try_chain(uint32_t c, uint32_t n) {
    const auto before = solution_.mark();
    if (chain(c, n) && solution_.cost() < before.cost - tiny()) {
      keep(before);
      return true;
    }
    solution_.undo(before);
    return false;
  }

  // Every other node of an active class, and for what such a node needs and is not there, every way
  // to build it: the cheapest may rest on the very classes that another would replace.
  void improve(uint32_t c, bool thorough) {
    order_.clear();
    for (uint32_t n : p_.nodes(c)) order_.push_back(n);
    shuffle(order_);
    for (uint32_t n : order_) {
      if (!solution_.active(c) || limits_.reached(moves_, built_)) return;
      if (n == solution_.node(c) || try_chain(c, n) || !thorough) continue;
      for (uint32_t d : p_.children(n)) {
        if (solution_.active(d) || founded_[d] == kept_) continue;
        founded_[d] = kept_;
        for (uint32_t k : p_.nodes(d)) {
          if (k != way_to(d) && try_chain(d, k)) break;
        }
      }
    }
  }

  // Until no class that is worth a look has a chain that pays.
  void descend(bool thorough) {
    size_t next = 0;
    for (; next < queue_.size() && !limits_.reached(moves_, built_); ++next) {
      waiting_[queue_[next]] = false;
      improve(queue_[next], thorough);
    }
    for (; next < queue_.size(); ++next) waiting_[queue_[next]] = false;
    queue_.clear();
  }

  void force_a_move() {
    const uint32_t c = rng_.pick(movable_);
    const auto nodes = p_.nodes(c);
    auto n = static_cast<uint32_t>(rng_.between(nodes.front(), int64_t{nodes.back()} - 1));
    if (n >= solution_.node(c)) ++n;  // another one than now
    const auto before = solution_.mark();
    if (chain(c, n)) {
      keep(before);
    } else {
      solution_.undo(before);
    }
  }

  void kick() {
    ++kicks_;
    const auto before = solution_.mark();
    for (int64_t k = rng_.between(1, kMostForced); k > 0 && !movable_.empty(); --k) force_a_move();
    descend(false);
    if (solution_.cost() > before.cost + tiny()) {
      solution_.changed_since(before, repicked_);
      solution_.undo(before);
      follow();
    }
    solution_.forget();
  }

  const SearchGraph& graph_;
  const ExtractionProblem& p_;
  Solution solution_;
  Marginal marginal_;
  Rng rng_;
  SolutionPool pool_;
  Limits& limits_;
  int64_t moves_ = 0, kicks_ = 0, built_ = 0;

  std::vector<bool> pending_;     // is being built
  std::vector<uint32_t> memory_;  // the last pick of every class
  std::vector<Offered> offered_;  // valid where `chain` is that of today
  uint32_t chain_ = 0;
  std::vector<uint32_t> above_;  // the chain in which a class was seen to depend on the moving one
  uint32_t above_level_ = UINT32_MAX;
  uint32_t kept_ = 1;               // how many chains were kept
  std::vector<uint32_t> founded_;   // the value of kept_ when all ways to a class were last tried
  std::vector<uint32_t> position_;  // in movable_, or kNoClass
  std::vector<uint32_t> movable_;
  std::vector<bool> waiting_;  // in queue_
  std::vector<uint32_t> queue_;
  std::vector<uint32_t> fresh_;  // made active by this chain, not offered yet
  std::vector<uint32_t> repicked_, switched_, order_, found_;  // scratch
  std::vector<Offer> offers_;
  using Entry = std::pair<double, uint32_t>;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> open_;
};

// The cheapest terms at prices that are up to twice what they are: another place to begin.
std::vector<uint32_t> shaken_start(ExtractionProblem p, Rng& rng) {
  for (double& c : p.cost) c *= 1 + rng.uniform();
  return greedy_tree(p);
}

// The classes of the reduced problem among these.
std::vector<uint32_t> reduced_classes(const Reduced& reduced, std::span<const uint32_t> classes) {
  std::vector<uint32_t> number(reduced.decided.size(), kNoClass), out;
  for (uint32_t c = 0; c < reduced.class_origin.size(); ++c) number[reduced.class_origin[c]] = c;
  for (uint32_t c : classes) {
    if (number[c] != kNoClass) out.push_back(number[c]);
  }
  return out;
}

}  // namespace

std::vector<FoundSolution> search(const ExtractionProblem& p, const SearchOptions& options,
                                  SearchReport* report) {
  const Reduced reduced = reduce(p);
  const SearchGraph graph(reduced.problem);
  auto start =
      options.start.empty() ? greedy_tree(graph.problem) : reduced.restrict_to(p, options.start);
  EMEND_ASSERT(checked_cost(graph.problem, start), "the start is no solution");
  const auto size = static_cast<size_t>(std::max(1, options.keep));
  const SolutionPool empty(size, reduced_classes(reduced, options.tell_apart_by));
  Limits limits(options);

  // Searches know nothing of one another, so that their number of threads does not matter.
  std::vector<SolutionPool> pools(static_cast<size_t>(std::max(1, options.starts)), empty);
  std::vector<SearchReport> reports(pools.size());
  parallel_for(static_cast<int64_t>(pools.size()), 1, [&](int64_t begin, int64_t end) {
    for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i) {
      Rng rng(options.seed, i);
      Searcher searcher(graph, i % 2 ? shaken_start(graph.problem, rng) : start, rng, empty,
                        limits);
      searcher.run(options.patience, i == 0 ? options.monitor : options.monitor.silent());
      pools[i] = searcher.pool();
      reports[i] = {searcher.moves(), searcher.kicks()};
    }
  });

  SolutionPool merged(size, options.tell_apart_by);
  for (const SolutionPool& pool : pools) {
    for (const auto& item : pool.items()) {
      auto choice = reduced.expand(p, item.choice);
      auto cost = checked_cost(p, choice);
      EMEND_ASSERT(cost.has_value(), cost.error());
      merged.offer(*cost, std::move(choice));
    }
  }
  if (report) {
    *report = {.interrupted = limits.interrupted()};
    for (const SearchReport& r : reports) {
      report->moves += r.moves;
      report->kicks += r.kicks;
    }
  }
  std::vector<FoundSolution> out;
  for (const auto& item : merged.items()) out.push_back({item.choice, item.cost});
  return out;
}

std::vector<FoundSolution> search_from_both(const ExtractionProblem& p,
                                            const SearchOptions& options) {
  std::vector<SearchOptions> ways{options};
  if (!options.start.empty()) ways.emplace_back(options).start.clear();
  std::vector<std::vector<FoundSolution>> found(ways.size());
  parallel_for(static_cast<int64_t>(ways.size()), 1, [&](int64_t begin, int64_t end) {
    for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i)
      found[i] = search(p, ways[i]);
  });
  for (size_t i = 1; i < found.size(); ++i)
    std::ranges::move(found[i], std::back_inserter(found[0]));
  return std::move(found[0]);
}

}  // namespace emend
