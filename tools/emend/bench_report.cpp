#include "bench_report.h"

#include <algorithm>
#include <iomanip>
#include <iostream>
#include <numeric>
#include <sstream>

#include "base/parallel.h"
#include "equiv/region.h"
#include "fallbacks.h"
#include "kernels/recurrence.h"
#include "run/machine.h"
#include "run/onednn.h"
#include "verb.h"

namespace emend {
namespace {

std::string title(const BenchEntry& e) {
  return e.path + (e.strict ? " (strict)" : "") +
         (e.without.empty() ? "" : " without " + e.without);
}

struct StepTime {
  std::string label, how;
  double ms, estimate_ms, share;
  double of_flops, of_bandwidth;  // that this machine has; kernels may need less than plain sums do
};

// Operations of the plain sums, bytes of all operands and results; what a loop reads in every step
// counts so often.
std::pair<double, double> work_of(const Program& p, const Step& step) {
  double bytes = 0;
  for (const auto& list : {step.loads, step.stores}) {
    for (BufferId b : list) bytes += static_cast<double>(p.buffers[b].bytes);
  }
  if (step.kind != Step::Kind::launch) return {0, bytes};
  for (size_t n = 0; n < step.computes.size(); ++n) {
    auto r = recurrence_of(step.computes, NodeId(n));
    if (!r) continue;
    return {operation_count(*r), bytes + matrix_bytes(*r) * static_cast<double>(r->loop.trips - 1)};
  }
  return {operation_count(step.computes), bytes};
}

// Slowest first.
std::vector<StepTime> step_times(const BenchEntry& e) {
  auto runs = static_cast<int>(std::clamp<size_t>(e.timing.ms.size(), 2, 20));
  auto seconds = e.program->step_seconds(e.inputs, runs);
  double all = std::accumulate(seconds.begin(), seconds.end(), 0.0);
  MachineRates rates = machine_rates(cache_folder());
  double threads = thread_count();
  std::vector<StepTime> times;
  for (size_t s = 0; s < seconds.size(); ++s) {
    const Step& step = e.program->program().steps[s];
    auto [operations, bytes] = work_of(e.program->program(), step);
    times.push_back({step.label, step.how, seconds[s] * 1e3, step.estimate_s * 1e3,
                     seconds[s] / all, operations / (seconds[s] * rates.flops * threads),
                     bytes / (seconds[s] * rates.bytes * threads)});
  }
  std::stable_sort(times.begin(), times.end(),
                   [](const StepTime& a, const StepTime& b) { return a.ms > b.ms; });
  return times;
}

double constant_bytes(const Graph& g) {
  double bytes = 0;
  for (const Tensor& t : g.constants) bytes += static_cast<double>(t.bytes().size());
  return bytes;
}

Json facts_of(const BenchEntry& e) {
  Json j = Json::object();
  j["path"] = e.path;
  j["target"] = e.target;
  j["strict"] = e.strict;
  j["without"] = e.without;
  j["median_ms"] = e.timing.median_ms();
  j["p10_ms"] = e.timing.quantile_ms(0.1);
  j["p90_ms"] = e.timing.quantile_ms(0.9);
  j["runs"] = e.timing.ms.size();
  j["max_abs_err"] = e.accuracy.known ? Json(e.accuracy.max_abs_err) : Json();
  j["max_rel_err"] = e.accuracy.known ? Json(e.accuracy.max_rel_err) : Json();
  if (!e.accuracy.known) j["not_checked"] = e.accuracy.reason;
  j["min_ms"] = e.timing.quantile_ms(0);
  j["compile_s"] = e.compile_s;
  j["phases_ms"] = Json::object();
  for (const auto& [name, ms] : e.phases_ms) j["phases_ms"][name] = ms;
  if (!e.program) return j;
  const Program& p = e.program->program();
  j["step_count"] = p.steps.size();
  j["model_weight_bytes"] = constant_bytes(e.graph);
  j["weight_bytes"] = static_cast<double>(e.program->weight_bytes());
  j["arena_bytes"] = p.arena_bytes;
  j["arena_lower_bound"] = p.arena_lower_bound;
  j["scratch_bytes"] = scratch_bytes(p);
  j["code_bytes"] = e.program->code_bytes();
  j["prices_measured"] = e.report.prices_measured;
  j["prices_known"] = e.report.prices_known;
  j["prices_left"] = e.report.prices_left;
  j["plan_recalled"] = e.report.plan_recalled;
  j["rankings"] = Json::array();
  for (const Ranking& r : e.report.rankings) {
    Json& ranking = j["rankings"].push(Json::object());
    ranking["best"] = r.best;
    ranking["rank"] = r.rank;
    ranking["of"] = r.of;
    ranking["ms"] = r.seconds * 1e3;
    ranking["first_ms"] = r.first_s * 1e3;
  }
  j["prices"] = Json::array();
  for (const Price& p : e.report.prices) {
    Json& price = j["prices"].push(Json::object());
    price["group"] = str(p.group);
    price["layouts"] = p.layouts;
    price["kernel"] = p.what;
    price["estimate_ms"] = p.estimate_s * 1e3;
    price["ms"] = p.seconds * 1e3;
    price["slopes_ms"] = Json::object();
    for (const auto& [cost, slope_s] : p.slopes_s) price["slopes_ms"][cost] = slope_s * 1e3;
  }
  j["plans"] = Json::array();
  for (const PlanTime& p : e.report.plans) {
    Json& plan = j["plans"].push(Json::object());
    plan["name"] = p.name;
    plan["ms"] = p.ms;
    plan["used"] = p.used;
  }
  j["check"] = e.optimizing.checked.reason;
  add_fallbacks(j, e.report, e.optimizing.faults);
  return j;
}

Json steps_json(const std::vector<StepTime>& times) {
  Json list = Json::array();
  for (const StepTime& t : times) {
    Json& j = list.push(Json::object());
    j["label"] = t.label;
    j["kernel"] = t.how;
    j["ms"] = t.ms;
    j["estimate_ms"] = t.estimate_ms;
    j["share"] = t.share;
    j["share_of_flops"] = t.of_flops;
    j["share_of_bandwidth"] = t.of_bandwidth;
  }
  return list;
}

std::string fixed(double v, int digits) {
  std::ostringstream out;
  out << std::fixed << std::setprecision(digits) << v;
  return out.str();
}

// Enough digits for either of microseconds and seconds.
std::string ms_text(double ms) {
  return fixed(ms, ms < 1 ? 4 : ms < 100 ? 3 : 1);
}

std::string error_text(const Accuracy& a) {
  if (!a.known) return "-";
  std::ostringstream out;
  out << std::scientific << std::setprecision(1) << a.max_rel_err;
  return out.str();
}

void print_table(const std::vector<BenchEntry>& entries, const BenchEntry* against) {
  size_t width = 5;
  for (const BenchEntry& e : entries) width = std::max(width, title(e).size());
  auto row = [&](const std::string& path, const std::vector<std::string>& cells) {
    std::cout << std::left << std::setw(static_cast<int>(width)) << path << std::right;
    for (const auto& c : cells) std::cout << std::setw(11) << c;
    std::cout << '\n';
  };
  std::vector<std::string> head = {"target", "median ms", "p10 ms", "p90 ms", "runs", "max error"};
  if (against) head.push_back("speedup");
  row("model", head);
  for (const BenchEntry& e : entries) {
    const Timing& t = e.timing;
    std::vector<std::string> cells = {e.target,
                                      ms_text(t.median_ms()),
                                      ms_text(t.quantile_ms(0.1)),
                                      ms_text(t.quantile_ms(0.9)),
                                      str(t.ms.size()),
                                      error_text(e.accuracy)};
    if (against) cells.push_back(fixed(against->timing.median_ms() / t.median_ms(), 2) + "x");
    row(title(e), cells);
  }
  for (const BenchEntry& e : entries) {
    if (!e.accuracy.known) std::cout << e.path << ": not checked: " << e.accuracy.reason << '\n';
  }
}

void print_memory(const std::vector<BenchEntry>& entries, double peak) {
  for (const BenchEntry& e : entries) {
    if (!e.program) continue;
    const Program& p = e.program->program();
    std::cout << e.path << ": weights as stored "
              << bytes_text(static_cast<double>(e.program->weight_bytes())) << " of "
              << bytes_text(constant_bytes(e.graph)) << " in the model, intermediate values "
              << bytes_text(static_cast<double>(p.arena_bytes)) << " of at least "
              << bytes_text(static_cast<double>(p.arena_lower_bound)) << ", scratch of a thread "
              << bytes_text(static_cast<double>(scratch_bytes(p))) << '\n';
  }
  std::cout << "peak memory of the process: " << bytes_text(peak) << '\n';
}

// Each strict entry stands before its twin.
void print_price_of_strictness(const std::vector<BenchEntry>& entries) {
  for (size_t i = 0; i + 1 < entries.size(); ++i) {
    if (!entries[i].strict || entries[i + 1].strict) continue;
    double strict = entries[i].timing.median_ms(), free = entries[i + 1].timing.median_ms();
    std::cout << entries[i].path << ": strict kernels take " << ms_text(strict) << " ms, others "
              << ms_text(free) << " ms: strictness costs " << fixed(strict / free, 2) << "x\n";
  }
}

// What was left out stands behind the whole.
void print_gains(const std::vector<BenchEntry>& entries) {
  const BenchEntry* whole = nullptr;
  for (const BenchEntry& e : entries) {
    if (e.without.empty()) {
      // Of a strict one and its twin, the first.
      if (!whole || whole->path != e.path || whole->target != e.target) whole = &e;
    } else {
      std::cout << e.path << ": " << e.without << " gains "
                << fixed(e.timing.median_ms() / whole->timing.median_ms(), 2) << "x\n";
    }
  }
}

// Prints which plans ran against one another, and how many kernels the budget did not suffice for.
void print_plans(const std::vector<BenchEntry>& entries) {
  for (const BenchEntry& e : entries) {
    if (e.report.prices_left > 0)
      std::cout << e.path << ": " << e.report.prices_left
                << " kernels that could matter were not measured: the budget was spent "
                   "(--budget)\n";
    if (e.report.plans.empty()) continue;
    std::cout << e.path << ": plans";
    const char* separator = " ";
    for (const PlanTime& p : e.report.plans) {
      std::cout << separator << p.name << ' ' << ms_text(p.ms) << " ms"
                << (p.used ? " (used)" : "");
      separator = ", ";
    }
    std::cout << '\n';
  }
}

// Where the best measured candidates stood by the estimate: those who ask for many see all.
void print_rankings(const std::vector<BenchEntry>& entries, bool each) {
  constexpr size_t kFirst = 8;
  for (const BenchEntry& e : entries) {
    const auto& all = e.report.rankings;
    if (all.empty()) continue;
    size_t first = 0, within = 0;
    double lost = 0, least = 0;
    for (const Ranking& r : all) {
      first += r.rank == 1;
      within += r.rank <= kFirst;
      lost += r.first_s - r.seconds;
      least += r.seconds;
      if (!each) continue;
      std::cout << std::setw(4) << r.rank << " of" << std::setw(4) << r.of << std::setw(11)
                << ms_text(r.seconds * 1e3) << " ms, first" << std::setw(9)
                << ms_text(r.first_s * 1e3) << " ms  " << r.best << '\n';
    }
    auto share = [&](size_t n) {
      return fixed(100 * static_cast<double>(n) / static_cast<double>(all.size()), 0) + "%";
    };
    std::cout << e.path << ": the best measured kernel was the estimate's first in " << share(first)
              << ", within its first " << kFirst << " in " << share(within) << " of " << all.size()
              << " groups and layouts; firsts are " << fixed(100 * lost / least, 1) << "% slower\n";
  }
}

void print_steps(const BenchEntry& e, const std::vector<StepTime>& times) {
  std::cout
      << "steps of " << e.path
      << "; of the FMA peak by the operations of plain sums, of what plain loops move by bytes\n"
         "         ms      price   share   FMA  bytes  what (!: more than 1.3 times its price)\n";
  constexpr double kMarked = 1.3;
  for (const StepTime& t : times)
    std::cout << std::setw(11) << ms_text(t.ms) << std::setw(11) << ms_text(t.estimate_ms)
              << (t.ms > kMarked * t.estimate_ms && t.estimate_ms > 0 ? '!' : ' ') << std::setw(6)
              << fixed(t.share * 100, 1) << '%' << std::setw(5) << fixed(t.of_flops * 100, 0) << '%'
              << std::setw(6) << fixed(t.of_bandwidth * 100, 0) << "%  " << printable(t.label)
              << (t.how.empty() ? "" : ": ") << t.how << '\n';
}

}  // namespace

Json bench_report(const std::vector<BenchEntry>& entries, const BenchReport& how) {
  Json facts = Json::object();
  facts["schema"] = 1;
  facts["threads"] = thread_count();
  bool compiled = std::any_of(entries.begin(), entries.end(),
                              [](const BenchEntry& e) { return e.program.has_value(); });
  facts["onednn"] = compiled && onednn_state().loaded;
  facts["models"] = Json::array();
  if (how.print) {
    print_table(entries, how.against);
    print_memory(entries, how.peak_memory_bytes);
    print_plans(entries);
    print_rankings(entries, how.rankings);
    print_price_of_strictness(entries);
    print_gains(entries);
  }
  for (const BenchEntry& e : entries) {
    Json& j = facts["models"].push(facts_of(e));
    if (how.against) j["speedup"] = how.against->timing.median_ms() / e.timing.median_ms();
    if (!how.steps || !e.program) continue;
    auto times = step_times(e);
    j["steps"] = steps_json(times);
    if (how.print) print_steps(e, times);
  }
  facts["compile_s"] =
      std::accumulate(entries.begin(), entries.end(), 0.0,
                      [](double s, const BenchEntry& e) { return s + e.compile_s; });
  facts["peak_memory_bytes"] = how.peak_memory_bytes;
  return facts;
}

Json served_steps(const BenchEntry& e, int runs) {
  Json list = Json::array();
  if (!e.program) return list;
  const Program& p = e.program->program();
  std::vector<std::vector<double>> seconds;
  CpuProgram::Room room;
  for (int r = 0; r < runs; ++r) seconds.push_back(e.program->step_seconds(e.inputs, 1, &room));
  auto share_any = [](const std::vector<BufferId>& a, const std::vector<BufferId>& b) {
    return std::ranges::find_first_of(a, b) != a.end();
  };
  for (size_t s = 0; s < p.steps.size(); ++s) {
    Json& j = list.push(Json::object());
    j["label"] = p.steps[s].label;
    j["end"] = share_any(p.steps[s].loads, p.inputs) || share_any(p.steps[s].stores, p.outputs);
    j["operations"] = work_of(p, p.steps[s]).first;
    j["ms"] = Json::array();
    for (const auto& run : seconds) j["ms"].push(run[s] * 1e3);
  }
  return list;
}

}  // namespace emend
