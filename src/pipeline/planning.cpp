#include "pipeline/planning.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <numeric>

#include "base/hash.h"
#include "base/text.h"
#include "base/timed.h"
#include "equiv/compare.h"
#include "fuse/fuse.h"
#include "kernels/cpu/c_code.h"
#include "kernels/group.h"
#include "pipeline/kept_plans.h"
#include "pipeline/memory_limit.h"
#include "pipeline/program_text.h"
#include "pipeline/weights_ahead.h"
#include "run/machine.h"
#include "run/onednn.h"
#include "select/select.h"

namespace emend {
namespace {

// Shares of the budget: to see where the time goes, and for single kernels. Whole programs have
// what is left.
constexpr double kShareOfLook = 0.1, kShareOfKernels = 0.6;
// The share of the machine's memory that the weights of all who race may take.
constexpr double kShareOfMemory = 0.25;

// The library's kernels wherever it has one.
Catalogue library_first(Catalogue catalogue) {
  for (Kernel& k : catalogue) {
    bool library = std::ranges::any_of(onednn_catalogue(),
                                       [&](const Kernel& other) { return other.name == k.name; });
    if (!library) continue;
    k.candidates = [offered = std::move(k.candidates)](const Wanted& w, const Target& t) {
      constexpr double kNext = 1e-3;  // to nothing
      std::vector<Candidate> candidates = offered(w, t);
      for (Candidate& c : candidates) c.estimate_s *= kNext;
      return candidates;
    };
  }
  return catalogue;
}

// Groups that only move weights: nobody looks through them. Others that load weights alone stayed
// for a reason (weights_ahead.h).
std::vector<NodeId> made_of_weights(const Graph& g, const Partition& p) {
  std::vector<NodeId> stores;
  for (const NodeGroup& group : p.groups) {
    if (group.host) continue;
    Outline o = outlined(g, group);
    bool weights =
        std::ranges::all_of(o.loads, [&](NodeId n) { return g.is_constant(storage_of(g, n)); }) &&
        std::ranges::all_of(group.nodes, [&](NodeId n) { return is_move(g, n); });
    if (weights && !o.loads.empty()) stores.insert(stores.end(), o.stores.begin(), o.stores.end());
  }
  return stores;
}

// Graphs of one name have the same nodes, whatever their weights are.
std::string name_of(const Graph& g) {
  return str(hash_text(ConstantPool(g).text_of(g)));
}

// Everything that is decided from one start to the next about the same programs.
class Planning {
 public:
  Planning(const Catalogue& catalogue, const Target& target, const CompileFlowOptions& options,
           CompileReport& facts)
      : catalogue_(catalogue), target_(target), options_(options), facts_(facts) {}

  // Without composites; what weights alone decide is computed, as far as there is room for it.
  PlannedProgram prepared(size_t program, const Graph& g) {
    PlannedProgram p{.program = program, .name = program == 0 ? "chosen" : "without search"};
    const double held = constant_bytes(g);
    allowed_ = std::max({allowed_, options_.memory.value_or(kUsualMemory) * held,
                         options_.memory ? 0.0 : double{kSmallMemory}});
    AheadReport left;
    p.graph = timed(facts_.phases_ms, "decompose", [&] {
      return computed_ahead(decomposed(g), {.room = allowed_ - held}, &left);
    });
    if (!left.left.empty()) {
      facts_.faults.push_back(str(left.left.size(), " values that depend on weights alone are ",
                                  "computed in every run: they would take ",
                                  std::ceil(left.missing / (1 << 20)),
                                  " MiB more than is allowed (--memory)"));
    }
    return p;
  }

  void plan_by_estimates(PlannedProgram& p) {
    Partition partition = fused(p.graph);
    p.ahead = made_of_weights(p.graph, partition);
    if (!p.ahead.empty()) {
      p.graph = with_computed(p.graph, p.ahead);
      partition = fused(p.graph);
    }
    p.plan = chosen(p.graph, std::move(partition));
  }

  // As it was decided at an earlier start; nothing where that cannot be had any more.
  std::optional<PlannedProgram> recalled(const PlannedProgram& prepared,
                                         const KeptPlan& kept) const {
    PlannedProgram p = prepared;
    p.ahead = kept.ahead;
    p.graph = with_computed(p.graph, p.ahead);
    if (name_of(p.graph) != kept.graph) return std::nullopt;
    Partition partition = kept.partition;
    for (NodeGroup& group : partition.groups) {
      if (group.host) group.reason = host_reason(p.graph, group.nodes.at(0));
    }
    const SelectOptions choose = choosing(partition);
    auto plan = chosen_before(p.graph, std::move(partition), kept.choices, kept.prices_s,
                              catalogue_, target_, choose);
    if (!plan) return std::nullopt;
    p.plan = std::move(*plan);
    return p;
  }

  SelectOptions choosing(const Partition& partition) const {
    SelectOptions choose{.memory = 0,
                         .memory_bytes = allowed_,
                         .error = share_of_errors(options_.accuracy, partition.groups.size()),
                         .errors = options_.accuracy,
                         .bound = options_.accuracy};
    // Who measures finds out how wrong estimates are, and looks further where the first were.
    if (options_.measuring.prices) choose.hopeless = 8;
    if (options_.measuring.candidates > 0) {
      constexpr int kOffered = 8;  // by a kernel, see Wanted::wide
      choose.asked = options_.measuring.candidates;
      choose.wide = static_cast<size_t>((options_.measuring.candidates + kOffered - 1) / kOffered);
    }
    return choose;
  }

  Plan chosen(const Graph& g, Partition partition,
              const std::function<std::optional<double>(const Offer&)>& price = nullptr) const {
    SelectOptions choose = choosing(partition);
    choose.price = price;
    return timed(facts_.phases_ms, "select",
                 [&] { return select(g, std::move(partition), catalogue_, target_, choose); });
  }
  Plan of_library(const Graph& g, Partition partition) const {
    const SelectOptions choose = choosing(partition);
    return select(g, std::move(partition), library_first(catalogue_), target_, choose);
  }

  const Catalogue& catalogue_;
  const Target& target_;
  const CompileFlowOptions& options_;
  CompileReport& facts_;

 private:
  Partition fused(const Graph& g) {
    GroupSeconds seconds = [&, known = KnownPrices()](const Graph& group,
                                                      const std::vector<bool>& constant) mutable {
      return cheapest(
          group, constant, catalogue_, target_,
          {.error = kShareOfOne * options_.accuracy, .bound = options_.accuracy, .known = &known});
    };
    return timed(facts_.phases_ms, "fuse", [&] {
      return fuse(
          g,
          {.fuse = options_.fuse, .target = target_, .catalogue = &catalogue_, .seconds = seconds});
    });
  }

  double allowed_ = 0;  // bytes of weights as stored
};

// By the clock, within what is left of a budget.
class Measured {
 public:
  Measured(Planning& planning, const BuildPlanned& build)
      : planning_(planning),
        options_(planning.options_),
        facts_(planning.facts_),
        build_(build),
        machine_(machine_key(c_prelude(), options_.cpu.compile)) {}

  PlannedProgram best(std::vector<PlannedProgram> programs) {
    const std::vector<PlannedProgram> by_estimate = programs;
    if (!cut_short()) tune(programs);
    return race(std::move(programs), by_estimate);
  }

 private:
  double left() const {
    std::chrono::duration<double> spent = std::chrono::steady_clock::now() - start_;
    return options_.measuring.seconds - spent.count();
  }
  bool cut_short() const { return options_.cpu.compile.monitor.stop_requested(); }

  // What each group takes in the first program: what is slower than was thought is measured first.
  // To build that program would take its time in any case: the budget begins when it is there.
  std::vector<double> seconds_by_group(const PlannedProgram& p) {
    std::vector<double> seconds = estimates(p);
    if (options_.measuring.seconds <= 0) return seconds;
    try {
      constexpr int kRuns = 4;
      CpuProgram program = build_(p);
      build_s_ = options_.measuring.seconds - left();
      start_ = std::chrono::steady_clock::now();
      const auto inputs = random_inputs(p.graph, options_.seed);
      std::vector<double> times = program.step_seconds(inputs, 1);
      run_s_ = std::accumulate(times.begin(), times.end(), 0.0);
      if (kRuns * run_s_ < kShareOfLook * options_.measuring.seconds) {
        times = program.step_seconds(inputs, kRuns);
        run_s_ = std::accumulate(times.begin(), times.end(), 0.0);
      }
      std::ranges::fill(seconds, 0);
      const auto& steps = program.program().steps;
      for (size_t s = 0; s < steps.size(); ++s) {
        if (!steps[s].converts && steps[s].group < seconds.size())
          seconds[steps[s].group] += times[s];
      }
    } catch (const Error&) {
      // Estimates have to do; compiling the program says what is wrong.
    }
    return seconds;
  }
  static std::vector<double> estimates(const PlannedProgram& p) {
    std::vector<double> seconds;
    for (const Candidate& c : p.plan.choices) seconds.push_back(c.estimate_s);
    return seconds;
  }

  // Kernels are chosen anew by what was measured, now or at an earlier start.
  void tune(std::vector<PlannedProgram>& programs) {
    TuneReport tuned;
    try {
      std::vector<TunedProgram> asked;
      for (const PlannedProgram& p : programs)
        asked.push_back({p.graph, p.plan.partition, estimates(p)});
      asked[0].seconds =
          timed(facts_.phases_ms, "measure", [&] { return seconds_by_group(programs[0]); });
      const SelectOptions choose = planning_.choosing(programs[0].plan.partition);
      auto price = timed(facts_.phases_ms, "measure", [&] {
        return measured_prices(asked, planning_.catalogue_, planning_.target_,
                               *options_.measuring.prices,
                               {.cpu = options_.cpu,
                                .monitor = options_.cpu.compile.monitor,
                                .choose = choose,
                                .budget_s = kShareOfKernels * left(),
                                .all = options_.measuring.candidates > 0},
                               &tuned);
      });
      for (PlannedProgram& p : programs)
        p.plan = planning_.chosen(p.graph, p.plan.partition, price);
    } catch (const Error& e) {  // estimates have to do
      facts_.faults.push_back(str(e.what(), "; nothing was measured"));
    }
    if (!tuned.not_kept.empty())
      facts_.faults.push_back(str("measured times were not kept: ", tuned.not_kept));
    facts_.prices_measured = tuned.measured;
    facts_.prices_known = tuned.known;
    facts_.prices_left = tuned.left;
    facts_.rankings = std::move(tuned.rankings);
    facts_.prices = std::move(tuned.prices);
    std::ranges::move(tuned.faults, std::back_inserter(facts_.faults));
  }

  // Those that may be the fastest, the likeliest first: kernels that were measured alone may stand
  // in one another's way, and what fusion or a search did may not pay.
  std::vector<PlannedProgram> contenders(std::vector<PlannedProgram> programs,
                                         const std::vector<PlannedProgram>& by_estimate) {
    std::vector<PlannedProgram> all;
    auto add = [&](PlannedProgram p, const char* suffix) {
      p.name += suffix;
      bool known = std::ranges::any_of(all, [&](const PlannedProgram& other) {
        return key_of(other.graph, other.plan, {}) == key_of(p.graph, p.plan, {});
      });
      if (!known) all.push_back(std::move(p));
    };
    // What estimates say was built already, and nobody shall be worse off for measuring.
    add(programs[0], "");
    add(by_estimate[0], ", by estimates");
    for (const PlannedProgram& p : programs) add(p, "");
    if (left() <= 0) return all;
    auto other = [&](const char* name, auto&& make) {
      PlannedProgram p = programs[0];
      make(p);
      add(std::move(p), name);
    };
    if (options_.fuse) {
      other(", apart", [&](PlannedProgram& p) {
        p.plan = planning_.chosen(p.graph, fuse(p.graph, {.target = planning_.target_}));
      });
    }
    if (onednn_state().loaded) {
      other(", the library's kernels",
            [&](PlannedProgram& p) { p.plan = planning_.of_library(p.graph, p.plan.partition); });
    }
    other(", unfused", [&](PlannedProgram& p) {
      p.plan =
          planning_.chosen(p.graph, fuse(p.graph, {.fuse = false, .target = planning_.target_}));
    });
    return all;
  }

  PlannedProgram race(std::vector<PlannedProgram> programs,
                      const std::vector<PlannedProgram>& by_estimate) {
    return timed(facts_.phases_ms, "race", [&] {
      std::vector<PlannedProgram> all = contenders(std::move(programs), by_estimate);
      if (all.size() == 1 || cut_short()) return all[0];
      try {
        RaceOptions how{.seconds = left(),
                        .build_s = build_s_,
                        .run_s = run_s_,
                        .bytes = static_cast<double>(machine_memory()) * kShareOfMemory,
                        .threads = planning_.target_.threads,
                        .machine = machine_,
                        .monitor = options_.cpu.compile.monitor};
        auto inputs = random_inputs(all[0].graph, options_.seed);
        std::vector<RacedPlan> plans;
        for (const PlannedProgram& p : all) plans.push_back({p.name, &p.graph, &p.plan});
        return all[fastest_plan(
            plans, [&](size_t i) { return build_(all[i]); }, inputs, *options_.measuring.prices,
            how, &facts_.plans)];
      } catch (const CompileFailure&) {
        // What cannot be compiled cannot run; compiling the program says so.
      } catch (const Error& e) {
        facts_.faults.push_back(str("plans were not raced: ", e.what()));
      }
      return all[0];
    });
  }

  Planning& planning_;
  const CompileFlowOptions& options_;
  CompileReport& facts_;
  const BuildPlanned& build_;
  const uint64_t machine_;
  double build_s_ = 0, run_s_ = 0;  // what the program by estimates took
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

// Nothing can be timed that cannot be compiled; compiling the program says so.
bool can_compile(const CompileFlowOptions& options) {
  try {
    machine_key(c_prelude(), options.cpu.compile);
    return true;
  } catch (const CompileFailure&) {
    return false;
  }
}

// A decision depends on the programs, on how they are compiled, on the machine and on the build.
std::string decision_key(const Graph& g, const CompileFlowOptions& o, const Target& target) {
  std::string key = ConstantPool(g).text_of(g);
  for (const Graph& other : o.others) key += ConstantPool(other).text_of(other);
  return key +
         str("accuracy ", o.accuracy, " memory ", o.memory ? str(*o.memory) : "usual", " fuse ",
             o.fuse, " threads ", target.threads, " seconds ", o.measuring.seconds, " candidates ",
             o.measuring.candidates, " machine ", machine_key(c_prelude(), o.cpu.compile), " ",
             onednn_state().text, " ") +
         build_text();
}

KeptPlan kept_form(const PlannedProgram& p, const std::vector<PlanTime>& raced) {
  KeptPlan kept{p.program, p.ahead, name_of(p.graph), p.plan.partition, {}, {}, raced};
  for (size_t k = 0; k < p.plan.choices.size(); ++k) {
    const Candidate& c = p.plan.choices[k];
    kept.choices.push_back(p.plan.partition.groups[k].host ? "" : text_of(c));
    kept.prices_s.push_back(c.estimate_s);
  }
  return kept;
}

}  // namespace

double usual_budget() {
  constexpr double kUsual = 10;
  const char* text = std::getenv("EMEND_BUDGET");
  if (!text || !*text) return kUsual;
  char* end = nullptr;
  const double seconds = std::strtod(text, &end);
  if (*end != 0 || !(seconds >= 0) || std::isinf(seconds))
    throw Error(str("EMEND_BUDGET=", text, ": not a number of seconds"));
  return seconds;
}

double share_of_errors(double accuracy, size_t kernels) {
  return accuracy / std::sqrt(std::max(1.0, static_cast<double>(kernels)));
}

PlannedProgram planned(Graph g, const Catalogue& catalogue, const Target& target,
                       const CompileFlowOptions& options, const BuildPlanned& build,
                       CompileReport& facts) {
  Planning planning(catalogue, target, options, facts);
  const Measuring measuring =
      options.measuring.prices && can_compile(options) ? options.measuring : Measuring();
  // Kernels that somebody brings have no name here, and who asks for many wants to hear of them.
  const bool can_be_kept = measuring.keeping.folder && measuring.candidates == 0 &&
                           !options.catalogue && !build_text().empty();
  std::optional<KeptPlans> kept;
  if (measuring.prices && can_be_kept) kept.emplace(*measuring.keeping.folder);
  const std::string key = kept ? decision_key(g, options, target) : "";
  if (kept && !measuring.keeping.search_again) {
    auto known = kept->find(key);
    if (known && known->program <= options.others.size()) {
      const Graph& taken = known->program == 0 ? g : options.others[known->program - 1];
      if (auto p = planning.recalled(planning.prepared(known->program, taken), *known)) {
        facts.plans = std::move(known->raced);
        facts.plan_recalled = true;
        return std::move(*p);
      }
    }
  }
  std::vector<PlannedProgram> programs;
  programs.push_back(planning.prepared(0, g));
  g = {};
  for (size_t i = 0; measuring.prices && i < options.others.size(); ++i)
    programs.push_back(planning.prepared(i + 1, options.others[i]));
  for (PlannedProgram& p : programs) planning.plan_by_estimates(p);
  if (!measuring.prices) return std::move(programs[0]);
  PlannedProgram best = Measured(planning, build).best(std::move(programs));
  if (kept && !options.cpu.compile.monitor.stop_requested())
    kept->keep(key, kept_form(best, facts.plans));
  return best;
}

}  // namespace emend
