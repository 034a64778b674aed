#include "pipeline/compile.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "base/contained.h"
#include "base/parallel.h"
#include "base/text.h"
#include "base/timed.h"
#include "codegen/codegen.h"
#include "equiv/compare.h"
#include "fuse/fuse.h"
#include "kernels/cpu/c_code.h"
#include "kernels/group.h"
#include "kernels/kernel.h"
#include "kernels/nest.h"
#include "ops/evaluate.h"
#include "ops/table.h"
#include "pipeline/kernel_check.h"
#include "pipeline/memory_limit.h"
#include "pipeline/planning.h"
#include "run/machine.h"
#include "run/onednn.h"
#include "select/select.h"

namespace emend {
namespace {

// The plan with these groups left to the reference, node by node.
Plan without_kernels(const Graph& g, const Plan& plan, const std::set<size_t>& groups,
                     const char* reason) {
  Plan out;
  for (size_t k = 0; k < plan.choices.size(); ++k) {
    const NodeGroup& group = plan.partition.groups[k];
    if (!groups.count(k)) {
      out.partition.groups.push_back(group);
      out.choices.push_back(plan.choices[k]);
      continue;
    }
    for (NodeId n : group.nodes) {
      if (is_renaming(g, n)) continue;
      out.partition.groups.push_back({{n}, {n}, true, reason});
      out.choices.emplace_back();
    }
  }
  return out;
}

// The same without any kernel.
Plan on_reference(const Graph& g, const Plan& plan, const char* reason) {
  std::set<size_t> kernels;
  for (size_t k = 0; k < plan.choices.size(); ++k) {
    if (!plan.partition.groups[k].host) kernels.insert(k);
  }
  return without_kernels(g, plan, kernels, reason);
}

// What is accepted of kernels that compute plain sums.
constexpr double kPlainSums = 1e-5;
double checked_accuracy(const CompileFlowOptions& options) {
  return options.accuracy > 0 ? options.accuracy : kPlainSums;
}

// On random inputs, smaller or larger ones where some kernel overflows on them; on those that are
// there where random ones do not serve, because they cannot be drawn or the program refuses them.
KernelChecks check_somehow(const Graph& g, const CpuProgram& compiled,
                           const CompileFlowOptions& options) {
  constexpr double kScales[] = {1, 0x1p-8, 0x1p-16, 0x1p8};
  try {
    std::optional<KernelChecks> checks;
    for (double scale : kScales) {
      if (checks && checks->unchecked.empty()) break;
      auto more = check_kernels(g, compiled, random_inputs(g, options.seed, scale),
                                checked_accuracy(options));
      if (checks) {
        more.checked += checks->checked;
        for (const KernelFault& f : checks->faults) {
          bool again = std::ranges::count(more.faults, f.step, &KernelFault::step) > 0;
          if (!again) more.faults.push_back(f);
        }
      }
      checks = std::move(more);
    }
    if (checks->unchecked.empty() || options.inputs.empty()) return std::move(*checks);
  } catch (const Error&) {
    if (options.inputs.empty()) throw;
  }
  return check_kernels(g, compiled, options.inputs, checked_accuracy(options));
}

// A kernel that does not serve, and why.
struct Unfit {
  size_t group = 0;       // of the plan
  bool converts = false;  // it only changes a layout
  std::string why;
  bool whatever_kernel = false;  // no other one would serve either
};

bool is_plainest(const Graph& g, const Plan& plan, size_t group) {
  const Candidate& c = plan.choices[group];
  return (c.kernel == "rows" && c.layouts.plain()) ||
         !nest_of(outlined(g, plan.partition.groups[group]).graph);
}

// Puts something else in their place: the plain template or, if it is that one, the reference; for
// a change of layout, layouts that need none. False if there was nothing left to be replaced.
bool replace(const Graph& g, Plan& plan, const std::vector<Unfit>& unfit, CompileReport& facts) {
  bool changed = false, converts = false;
  std::set<size_t> for_host;
  for (const Unfit& u : unfit) {
    if (u.converts) {
      facts.faults.push_back(
          str("kernel of a change of layout: ", u.why, "; replaced by layouts that need none"));
      converts = true;
      continue;
    }
    Candidate& choice = plan.choices[u.group];
    const bool host = u.whatever_kernel || is_plainest(g, plan, u.group);
    facts.faults.push_back(str("kernel ", choice.kernel, " ", to_text(choice.config), ": ", u.why,
                               "; replaced by ", host ? "the reference" : "the plain template"));
    if (host) for_host.insert(u.group);
    if (!host) choice = {.kernel = "rows"};
    changed = true;
  }
  for (Candidate& c : plan.choices) {
    if (!converts || c.layouts.plain()) continue;
    c = {.kernel = "rows"};
    changed = true;
  }
  if (!for_host.empty()) plan = without_kernels(g, plan, for_host, "its kernel was refused");
  return changed;
}

// Checks every kernel; those that fail are replaced in the plan. What cannot be checked is not
// used.
bool accept(const Graph& g, Plan& plan, const CpuProgram& compiled,
            const CompileFlowOptions& options, CompileReport& facts) {
  if (compiled.program().kernels.empty()) return true;
  KernelChecks checks;
  try {
    checks = check_somehow(g, compiled, options);
  } catch (const Error& e) {
    facts.faults.push_back(str("kernels could not be checked, and are not used: ", e.what()));
    plan = on_reference(g, plan, "its kernel could not be checked");
    return false;
  }
  facts.kernels_checked += checks.checked;
  facts.kernels_known = checks.known;
  std::vector<Unfit> unfit;
  for (const KernelFault& f : checks.faults) {
    const Step& step = compiled.program().steps[f.step];
    unfit.push_back({step.group, step.converts, str("error of ", f.error, " at ", f.where)});
  }
  for (const UncheckedKernel& u : checks.unchecked) {
    unfit.push_back({compiled.program().steps[u.step].group, false,
                     str("could not be checked: ", u.reason), true});
  }
  if (unfit.empty()) return true;
  replace(g, plan, unfit, facts);
  return false;
}

std::vector<Fallback> fallbacks(const Graph& g, const Partition& partition) {
  std::vector<Fallback> list;
  for (const NodeGroup& group : partition.groups) {
    if (!group.host) continue;
    NodeId n = group.nodes[0];
    const std::string& op = op_def(g.nodes[n]).name;
    list.push_back({g.names[n].empty() ? op : str(op, " (", g.names[n], ")"), group.reason});
  }
  return list;
}

}  // namespace

const Catalogue& catalogue_here() {
  static const Catalogue kHere = [] {
    Catalogue all = cpu_catalogue();
    if (!onednn_state().loaded) return all;
    for (Kernel& k : onednn_catalogue()) {
      // What the library takes only by its slow reference is not offered.
      auto offered = [k](const Wanted& wanted, const Target& target) {
        std::vector<Candidate> candidates = k.candidates(wanted, target);
        std::erase_if(candidates, [&](const Candidate& c) {
          KernelCode code = k.emit(wanted.group, c, target);
          return !std::ranges::all_of(code.calls, onednn_takes);
        });
        return candidates;
      };
      all.push_back({.name = k.name, .candidates = offered, .emit = k.emit});
    }
    return all;
  }();
  return kHere;
}

Target target_here(int threads) {
  Target target{.vector_bytes = vector_bytes(), .threads = threads > 0 ? threads : thread_count()};
  MachineRates rates = machine_rates(cache_folder());
  target.peak_flops = rates.flops * target.threads;
  target.bandwidth = rates.bytes * target.threads;
  target.byte_dots = has_byte_dots();
  target.bf16_dots = has_bf16_dots();
  return target;
}

std::filesystem::path default_price_list() {
  return cache_folder() / "prices.db";
}

std::optional<Device> device_named(std::string_view name) {
  if (name == "interp") return Device::interp;
  if (name == "cpu") return Device::cpu;
  return std::nullopt;
}

std::vector<Value> run_once(Graph g, std::span<const Value> inputs, Device device,
                            CompileFlowOptions options, CompileReport* report) {
  if (device == Device::interp) {
    require_memory_to_evaluate(g);
    return evaluate(g, inputs, {.monitor = options.cpu.compile.monitor});
  }
  options.inputs.assign(inputs.begin(), inputs.end());
  return compile(std::move(g), options, report).run(inputs);
}

namespace {

// What a compiler says about a text: its first error.
std::string first_error(const std::string& words) {
  for (const std::string& line : split(words, '\n')) {
    if (line.find("error") != std::string::npos) return line;
  }
  return split(words, '\n')[0];
}

// The groups, by their steps, whose kernels the compiler refused.
std::vector<Unfit> unfit_among(const std::vector<Step>& steps, const KernelsRefused& e) {
  std::vector<Unfit> unfit;
  for (const KernelsRefused::One& one : e.refused) {
    for (const Step& s : steps) {
      if (s.kind == Step::Kind::launch && s.kernel == one.kernel)
        unfit.push_back({s.group, s.converts, first_error(one.reason)});
    }
  }
  return unfit;
}

// Of a plan, step by step.
class Builder {
 public:
  Builder(const Graph& plain, Plan& plan, const Catalogue& catalogue, const Target& target,
          const CompileFlowOptions& options, CompileReport& facts)
      : plain_(plain),
        plan_(plan),
        catalogue_(catalogue),
        target_(target),
        options_(options),
        facts_(facts),
        told_(facts.faults.size()) {}

  // Nothing where the plan had to be changed.
  std::optional<CpuProgram> attempt() {
    std::vector<Step> steps;
    size_t printed = 0;
    try {
      Program program = timed(facts_.phases_ms, "codegen",
                              [&] { return generate(plain_, plan_, catalogue_, target_); });
      require_memory(program);
      steps = program.steps;
      printed = static_cast<size_t>(
          std::ranges::count_if(program.kernels, [](auto& k) { return k.calls.empty(); }));
      return timed(facts_.phases_ms, "compile",
                   [&] { return CpuProgram(std::move(program), c_prelude(), options_.cpu); });
    } catch (const NotWritten& e) {
      // Its name is the candidate's, or that of what changes a layout.
      unfit({{e.group, e.converts, str("cannot be written down: ", e.what())}});
    } catch (const KernelsRefused& e) {
      auto refused = unfit_among(steps, e);
      bool plainest = std::ranges::all_of(refused, [&](const Unfit& u) {
        return !u.converts && is_plainest(plain_, plan_, u.group);
      });
      // A compiler that takes nothing, not even what is simplest, is no kernel's fault.
      e.refused.size() == printed&& plainest ? give_up(e) : unfit(refused);
    } catch (const CompileFailure& e) {
      give_up(e);
    }
    return std::nullopt;
  }

 private:
  void unfit(const std::vector<Unfit>& kernels) {
    if (!replace(plain_, plan_, kernels, facts_))
      plan_ = on_reference(plain_, plan_, "its kernel was refused");
  }
  // What was said before for the same reason goes without saying, also that nothing was measured.
  void give_up(const CompileFailure& e) {
    facts_.faults.resize(std::min(told_, facts_.faults.size()));
    std::erase_if(facts_.faults, [&](const std::string& f) { return f.starts_with(e.what()); });
    facts_.faults.push_back(str(e.what(), "; the reference runs the program, slowly"));
    facts_.compiled = false;
    plan_ = on_reference(plain_, plan_, "its kernel could not be compiled");
  }

  const Graph& plain_;
  Plan& plan_;
  const Catalogue& catalogue_;
  const Target& target_;
  const CompileFlowOptions& options_;
  CompileReport& facts_;
  const size_t told_;  // faults of what came before
};

// A program of the plan whose kernels were all accepted; the plan is what became of it.
CpuProgram built(const Graph& plain, Plan& plan, const Catalogue& catalogue, const Target& target,
                 const CompileFlowOptions& options, CompileReport& facts) {
  Builder builder(plain, plan, catalogue, target, options, facts);
  for (;;) {
    std::optional<CpuProgram> compiled = builder.attempt();
    if (!compiled) continue;
    bool good = timed(facts.phases_ms, "check",
                      [&] { return accept(plain, plan, *compiled, options, facts); });
    if (good) return *compiled;
  }
}

// A kernel that fails while it is asked what it offers, offers nothing.
Catalogue contained(Catalogue catalogue, CompileReport& facts) {
  for (Kernel& k : catalogue) {
    k.candidates = [&facts, name = k.name, offered = std::move(k.candidates)](const Wanted& w,
                                                                              const Target& t) {
      std::vector<Candidate> candidates;
      if (auto fault = fault_of([&] { candidates = offered(w, t); })) {
        std::string told = str("kernel ", name, " was not asked for a group: ", *fault);
        if (std::ranges::find(facts.faults, told) == facts.faults.end())
          facts.faults.push_back(std::move(told));
      }
      return candidates;
    };
  }
  return catalogue;
}

}  // namespace

CpuProgram compile(Graph g, const CompileFlowOptions& options, CompileReport* report) {
  CompileReport facts;
  Target target = target_here(options.cpu.threads);
  const Catalogue catalogue =
      contained(options.catalogue ? *options.catalogue : catalogue_here(), facts);
  auto build = [&](const PlannedProgram& p) {
    CompileReport unused;
    Plan plan = p.plan;
    return built(p.graph, plan, catalogue, target, options, unused);
  };
  PlannedProgram p = planned(std::move(g), catalogue, target, options, build, facts);
  CpuProgram program = built(p.graph, p.plan, catalogue, target, options, facts);
  facts.program = p.program;
  facts.groups = p.plan.partition.groups.size();
  facts.on_reference = fallbacks(p.graph, p.plan.partition);
  p = {};
  timed(facts.phases_ms, "weights", [&] { return program.load_weights(), 0; });
  if (report) *report = std::move(facts);
  return program;
}

}  // namespace emend
