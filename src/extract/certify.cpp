#include "extract/certify.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "base/error.h"
#include "extract/bound.h"
#include "extract/check.h"
#include "extract/greedy.h"
#include "extract/linear.h"
#include "extract/reduce.h"

namespace emend {
namespace {

constexpr double kRounding = 1e-8;  // relative; smaller differences are none
constexpr int kRounds = 50;         // of bounds and removals, per subproblem
constexpr int kAscents = 12;        // per round
constexpr int kAscentsForCuts = 5;  // whose cuts a linear program begins with
constexpr int kFirstAscents = 60;   // of the whole problem, whose removals all others inherit

class Certifier {
 public:
  Certifier(const ExtractionProblem& p, Extraction known, const CertifyOptions& o)
      : p_(p), best_(std::move(known)), options_(o), rng_(o.seed) {}

  Extraction run(CertifyReport& report) {
    base_ = reduce(p_);
    ExtractionProblem left = base_.problem;
    double bound = narrow(left, kFirstAscents);
    report.method = "dual ascent";
    if (bound < target()) go_on_with(left);
    if (bound < target() && options_.solver && !stopped()) {
      report.method = "dual ascent and a linear program over cuts";
      bound = std::max(bound, relaxation_bound(bound));
      if (bound < target() && !stopped()) {
        report.method = "dual ascent and an integer program with cuts";
        bound = std::max(bound, integer_bound(bound));
      }
    } else if (bound < target() && !stopped()) {
      report.method = "dual ascent and branching";
      bound = std::max(bound, branch(base_.problem, bound));
    }
    report.branches = branches_;
    report.interrupted = interrupted_;
    best_.optimal = bound >= target();
    best_.lower_bound = best_.optimal ? best_.cost : bound;
    return std::move(best_);
  }

 private:
  // What a solution must cost less than to be of interest.
  double target() const { return best_.cost * (1 - kRounding); }

  double seconds_left() const {
    return options_.seconds -
           std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
  }

  bool stopped() {
    interrupted_ |= seconds_left() <= 0 || options_.monitor.stop_requested();
    return interrupted_ || branches_ >= options_.branches;
  }

  // Subproblems are variants of base_.problem with some prices infinite. This makes the base what
  // is left of it.
  void go_on_with(const ExtractionProblem& left) {
    Reduced smaller = reduce(left);
    for (uint32_t& n : smaller.node_origin) n = base_.node_origin[n];
    for (uint32_t& c : smaller.class_origin) c = base_.class_origin[c];
    for (uint32_t c = 0; c < smaller.decided.size(); ++c) {
      if (smaller.decided[c] == kNoNode) continue;
      base_.decided[base_.class_origin[c]] = base_.node_origin[smaller.decided[c]];
    }
    smaller.decided = std::move(base_.decided);
    base_ = std::move(smaller);
  }

  void try_solution(std::span<const uint32_t> small) {
    auto choice = base_.expand(p_, small);
    const auto cost = checked_cost(p_, choice);
    EMEND_ASSERT(cost.has_value(), cost.error());
    if (*cost >= best_.cost) return;
    best_.cost = *cost;
    best_.choice = std::move(choice);
  }

  // Takes nodes out of `left` that no solution below
  // the target holds, until none is found. A bound for all solutions in `left`; infinite where
  // there is none below the target.
  double narrow(ExtractionProblem& left, int ascents) {
    double bound = 0;
    for (int round = 0; round < kRounds; ++round) {
      const auto terms = tree_choices(left);
      for (uint32_t r : left.roots) {
        if (terms[r] == kNoNode) return std::numeric_limits<double>::infinity();
      }
      try_solution(needed(left, terms));
      const Reduced reduced = reduce(left);
      const SearchGraph graph(reduced.problem);
      bool removed = false;
      for (int i = 0; i < ascents; ++i) {
        const DualBound dual = dual_ascent(graph, rng_);
        bound = std::max(bound, dual.value);
        if (bound >= target()) return bound;
        for (uint32_t n = 0; n < dual.reduced.size(); ++n) {
          double& price = left.cost[reduced.node_origin[n]];
          if (dual.value + dual.reduced[n] < target() || std::isinf(price)) continue;
          price = std::numeric_limits<double>::infinity();
          removed = true;
        }
        if (stopped()) return bound;
      }
      if (!removed) break;
      ascents = std::min(ascents, kAscents);
    }
    return bound;
  }

  // Bounds by the relaxed program over cuts; what it finds useless goes, and the base shrinks with
  // it.
  double relaxation_bound(double bound) {
    for (bool shrunk = true; shrunk && bound < target() && !stopped();) {
      shrunk = false;
      const SearchGraph graph(base_.problem);
      CutProgram program = program_of(graph);
      ExtractionProblem left = base_.problem;
      size_t useless = 0;
      for (bool more = true; more && bound < target() && !stopped();) {
        const auto step = program.relaxed(options_.solver, seconds_left());
        if (!step) return bound;
        bound = std::max(bound, step->bound);
        more = step->cut_added;
        for (uint32_t n = 0; n < step->useless.size(); ++n) {
          if (!step->useless[n] || std::isinf(left.cost[n])) continue;
          left.cost[n] = std::numeric_limits<double>::infinity();
          ++useless;
        }
        more &= useless * 10 < left.node_count();  // else go on with what is left
      }
      if (useless == 0 || bound >= target()) continue;
      bound = std::max(bound, narrow(left, kAscents));
      if (bound < target()) go_on_with(left);
      shrunk = true;
    }
    return bound;
  }

  double integer_bound(double bound) {
    const SearchGraph graph(base_.problem);
    CutProgram program = program_of(graph);
    for (bool more = true; more && !stopped();) {
      auto relaxed = program.relaxed(options_.solver, seconds_left());
      if (!relaxed) return bound;
      more = relaxed->cut_added;
    }
    for (bool more = true; more && bound < target() && !stopped();) {
      const auto step = program.integral(options_.solver, seconds_left());
      if (!step) return bound;
      bound = std::max(bound, step->bound);
      more = step->cut_added;
      if (!step->choice.empty()) try_solution(step->choice);
    }
    return bound;
  }

  CutProgram program_of(const SearchGraph& graph) {
    CutProgram program(graph, target(), Rng(options_.seed, 1));
    for (int i = 0; i < kAscentsForCuts; ++i) {
      for (const auto& cut : dual_ascent(graph, rng_).cuts) program.add_cut(cut);
    }
    return program;
  }

  // A class that every solution of p needs and that has a choice; the one with the fewest nodes.
  static uint32_t class_to_branch(const ExtractionProblem& p) {
    std::vector<bool> seen(p.class_count());
    std::vector<uint32_t> open = p.roots;
    uint32_t best = kNoClass;
    while (!open.empty()) {
      const uint32_t c = open.back();
      open.pop_back();
      if (seen[c]) continue;
      seen[c] = true;
      const auto nodes = p.nodes(c);
      if (nodes.size() > 1 && (best == kNoClass || nodes.size() < p.nodes(best).size())) best = c;
      for (uint32_t d : p.children(nodes.front())) {
        const bool common = std::ranges::all_of(
            nodes, [&](uint32_t n) { return std::ranges::binary_search(p.children(n), d); });
        if (common) open.push_back(d);
      }
    }
    return best;
  }

  // A bound for the solutions in `left`, which narrow() has been through.
  double branch(const ExtractionProblem& left, double bound) {
    const Reduced reduced = reduce(left);
    const uint32_t c = class_to_branch(reduced.problem);
    if (c == kNoClass) {  // one solution is left
      try_solution(greedy_tree(left));
      return std::numeric_limits<double>::infinity();
    }
    options_.monitor.tell({"certify", branches_, options_.branches, best_.cost});
    double worst = std::numeric_limits<double>::infinity();
    for (uint32_t n : reduced.problem.nodes(c)) {
      ++branches_;
      if (stopped()) return bound;
      ExtractionProblem part = left;
      for (uint32_t m : reduced.problem.nodes(c)) {
        if (m != n) part.cost[reduced.node_origin[m]] = std::numeric_limits<double>::infinity();
      }
      double below = std::max(bound, narrow(part, kAscents));
      if (below < target()) below = branch(part, below);
      worst = std::min(worst, below);
    }
    return worst;
  }

  const ExtractionProblem& p_;
  Reduced base_;  // stand_in is not kept up
  Extraction best_;
  const CertifyOptions& options_;
  Rng rng_;
  int64_t branches_ = 0;
  bool interrupted_ = false;
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

}  // namespace

Extraction certify(const ExtractionProblem& p, Extraction known, const CertifyOptions& options,
                   CertifyReport* report) {
  CertifyReport r;
  Extraction out = Certifier(p, std::move(known), options).run(r);
  if (report) *report = r;
  return out;
}

}  // namespace emend
