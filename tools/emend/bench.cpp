// emend bench MODEL...: how long models take, against one another in one run, and how exact they
// are.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iomanip>
#include <iostream>
#include <memory>
#include <numeric>
#include <optional>
#include <sstream>

#include "base/parallel.h"
#include "device.h"
#include "equiv/region.h"
#include "fallbacks.h"
#include "how.h"
#include "interruption.h"
#include "kernels/recurrence.h"
#include "pipeline/accuracy.h"
#include "pipeline/compile.h"
#include "pipeline/memory_limit.h"
#include "run/machine.h"
#include "run/measure.h"
#include "run/onednn.h"
#include "serve.h"
#include "values.h"
#include "verb.h"

namespace emend {
namespace {

struct Options {
  std::vector<std::string> models, targets = {"cpu"};
  std::string against;
  std::vector<std::string> without;  // each a list of globs, for one more entry
  InputOptions inputs;
  HowOptions how;
  MeasureOptions measure;
  std::optional<double> memory;
  int candidates = 0;
  bool steps = false, no_check = false, serve = false, tune = false;
};

// A model on a target, ready to run.
struct Entry {
  std::string path, target;
  bool strict = false;  // kernels lose no more than plain sums do
  std::string without;  // rules and passes that were left out besides
  Graph graph;          // as the file has it: what results are compared with
  std::vector<Value> inputs;
  std::optional<CpuProgram> program;  // none: the reference runs it
  std::function<std::vector<Value>()> run;
  std::function<void()> timed;  // the same, into memory that is there already
  double compile_s = 0;         // from the file to the first run, which is not in it
  std::vector<std::pair<std::string, double>> phases_ms;
  CompileReport report = {};

  Timing timing = {};
  Accuracy accuracy = {};
};

// Where the list cannot be used, times are measured all the same.
std::shared_ptr<PriceList> price_list(const Globals& globals) {
  try {
    return std::make_shared<PriceList>(default_price_list());
  } catch (const Error& error) {
    globals.say(str(error.what(), "; measured times are not kept"));
    return std::make_shared<PriceList>(":memory:");
  }
}

std::function<void()> run_in_place(const CpuProgram& program, const std::vector<Value>& inputs) {
  std::vector<std::span<const std::byte>> from;
  for (const Value& v : inputs) from.push_back(v.tensor.bytes());
  auto memory = std::make_shared<std::vector<std::vector<std::byte>>>();
  for (BufferId b : program.program().outputs)
    memory->emplace_back(program.program().buffers[b].bytes);
  std::vector<std::span<std::byte>> to(memory->begin(), memory->end());
  return [program, inputs, from, memory, to] { program.run_into(from, to); };
}

void compile_for(Device device, Entry& e, Graph better, std::optional<Graph> without_search,
                 const Options& o, const Globals& globals) {
  if (device == Device::interp) {
    e.run = [better = std::move(better), inputs = e.inputs] { return evaluate(better, inputs); };
    e.timed = e.run;
    return;
  }
  CompileFlowOptions options;
  options.cpu.compile.monitor = globals.monitor;
  options.memory = o.memory;
  options.inputs = e.inputs;
  if (e.strict) {
    options.accuracy = 0;
  } else if (double asked = o.how.options(globals).accuracy; asked > 0) {
    options.accuracy = asked;
  }
  if (o.tune) options.prices = price_list(globals);
  options.otherwise = std::move(without_search);
  options.candidates = o.candidates;
  e.program = compile(std::move(better), options, &e.report);
  for (const auto& phase : e.report.phases_ms) e.phases_ms.push_back(phase);
  e.run = [program = *e.program, inputs = e.inputs] { return program.run(inputs); };
  e.timed = e.program->is_plain() ? run_in_place(*e.program, e.inputs) : e.run;
}

std::string title(const Entry& e) {
  return e.path + (e.strict ? " (strict)" : "") +
         (e.without.empty() ? "" : " without " + e.without);
}

Entry prepare(const std::string& path, const std::string& target, bool strict,
              const std::string& without, const Options& o, const Globals& globals) {
  Device device = device_of(target);
  Entry e{.path = path, .target = target, .strict = strict, .without = without};
  GivenInputs given(o.inputs, {});
  auto phase = [&](const char* name, const std::function<void()>& work) {
    globals.monitor.tell({name});
    e.phases_ms.emplace_back(name, milliseconds_of(work));
  };
  e.compile_s = milliseconds_of([&] {
                  Graph better;
                  std::optional<Graph> without_search;  // for the race
                  phase("import", [&] { e.graph = import_onnx(path, given.import).graph; });
                  auto how = o.how.options(globals);
                  if (!without.empty())
                    std::ranges::move(split(without, ','), std::back_inserter(how.disable));
                  if (how.accuracy == 0 && !strict) how.accuracy = OptimizeOptions().accuracy;
                  if (device == Device::cpu) how.fold_moves_below = kFoldMovesBelow;
                  phase("optimize", [&] { better = optimized(e.graph, how); });
                  if (o.tune && how.level > 1) {
                    how.level = 1;
                    without_search = optimized(e.graph, how);
                    if (*without_search == better) without_search.reset();
                  }
                  require_memory(e.graph);
                  e.inputs = given.values(e.graph, globals.seed);
                  compile_for(device, e, std::move(better), std::move(without_search), o, globals);
                }) /
                1e3;
  tell_fallbacks(e.report, globals, path + ": ");
  return e;
}

// Not getrusage's: that of a new process begins at what its parent held.
double peak_memory_bytes() {
  std::ifstream in("/proc/self/status");
  for (std::string word; in >> word;) {
    double kib = 0;
    if (word == "VmHWM:" && in >> kib) return kib * 1024;
  }
  return 0;
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
std::vector<StepTime> step_times(const Entry& e) {
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

// In the order in which they run, with the times of every run. Ends read what is given or write
// what is asked for: the order of these is not the program's to choose.
Json served_steps(const Entry& e, int runs) {
  Json list = Json::array();
  if (!e.program) return list;
  const Program& p = e.program->program();
  std::vector<std::vector<double>> seconds;
  for (int r = 0; r < runs; ++r) seconds.push_back(e.program->step_seconds(e.inputs, 1));
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

double constant_bytes(const Graph& g) {
  double bytes = 0;
  for (const Tensor& t : g.constants) bytes += static_cast<double>(t.bytes().size());
  return bytes;
}

Json facts_of(const Entry& e) {
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
  j["rankings"] = Json::array();
  for (const Ranking& r : e.report.rankings) {
    Json& ranking = j["rankings"].push(Json::object());
    ranking["best"] = r.best;
    ranking["rank"] = r.rank;
    ranking["of"] = r.of;
    ranking["ms"] = r.seconds * 1e3;
    ranking["first_ms"] = r.first_s * 1e3;
  }
  j["plans"] = Json::array();
  for (const PlanTime& p : e.report.plans) {
    Json& plan = j["plans"].push(Json::object());
    plan["name"] = p.name;
    plan["ms"] = p.ms;
    plan["used"] = p.used;
  }
  add_fallbacks(j, e.report);
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

void print_table(const std::vector<Entry>& entries, const Entry* against) {
  size_t width = 5;
  for (const Entry& e : entries) width = std::max(width, title(e).size());
  auto row = [&](const std::string& path, const std::vector<std::string>& cells) {
    std::cout << std::left << std::setw(static_cast<int>(width)) << path << std::right;
    for (const auto& c : cells) std::cout << std::setw(11) << c;
    std::cout << '\n';
  };
  std::vector<std::string> head = {"target", "median ms", "p10 ms", "p90 ms", "runs", "max error"};
  if (against) head.push_back("speedup");
  row("model", head);
  for (const Entry& e : entries) {
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
  for (const Entry& e : entries) {
    if (!e.accuracy.known) std::cout << e.path << ": not checked: " << e.accuracy.reason << '\n';
  }
}

void print_memory(const std::vector<Entry>& entries, double peak) {
  for (const Entry& e : entries) {
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
void print_price_of_strictness(const std::vector<Entry>& entries) {
  for (size_t i = 0; i + 1 < entries.size(); ++i) {
    if (!entries[i].strict || entries[i + 1].strict) continue;
    double strict = entries[i].timing.median_ms(), free = entries[i + 1].timing.median_ms();
    std::cout << entries[i].path << ": strict kernels take " << ms_text(strict) << " ms, others "
              << ms_text(free) << " ms: strictness costs " << fixed(strict / free, 2) << "x\n";
  }
}

// What was left out stands behind the whole.
void print_gains(const std::vector<Entry>& entries) {
  const Entry* whole = nullptr;
  for (const Entry& e : entries) {
    if (e.without.empty()) {
      // Of a strict one and its twin, the first.
      if (!whole || whole->path != e.path || whole->target != e.target) whole = &e;
    } else {
      std::cout << e.path << ": " << e.without << " gains "
                << fixed(e.timing.median_ms() / whole->timing.median_ms(), 2) << "x\n";
    }
  }
}

// What --tune let run against each other.
void print_plans(const std::vector<Entry>& entries) {
  for (const Entry& e : entries) {
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
void print_rankings(const std::vector<Entry>& entries, bool each) {
  constexpr size_t kFirst = 8;
  for (const Entry& e : entries) {
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

void print_steps(const Entry& e, const std::vector<StepTime>& times) {
  std::cout
      << "steps of " << e.path
      << "; of the FMA peak by the operations of plain sums, of what plain loops move by bytes\n"
         "         ms   estimate   share   FMA  bytes  what\n";
  for (const StepTime& t : times)
    std::cout << std::setw(11) << ms_text(t.ms) << std::setw(11) << ms_text(t.estimate_ms)
              << std::setw(7) << fixed(t.share * 100, 1) << '%' << std::setw(5)
              << fixed(t.of_flops * 100, 0) << '%' << std::setw(6) << fixed(t.of_bandwidth * 100, 0)
              << "%  " << printable(t.label) << (t.how.empty() ? "" : ": ") << t.how << '\n';
}

void measure_all(std::vector<Entry>& entries, const MeasureOptions& options) {
  std::vector<Contender> contenders;
  for (const Entry& e : entries) contenders.push_back(e.timed);
  auto timings = measure(contenders, options);
  for (size_t i = 0; i < entries.size(); ++i) entries[i].timing = std::move(timings[i]);
}

int bench(const Options& o, const Globals& globals) {
  std::vector<std::string> paths = o.models;
  if (!o.against.empty()) paths.insert(paths.begin(), o.against);
  for (const std::string& without : o.without) demand_known(split(without, ','), "--without");
  std::vector<Entry> entries;
  bool strict = o.how.accuracy == "strict";
  for (const auto& path : paths) {
    for (const auto& target : o.targets) {
      entries.push_back(prepare(path, target, strict, "", o, globals));
      // What strictness costs is measured in the same run.
      if (strict && !o.serve && device_of(target) == Device::cpu)
        entries.push_back(prepare(path, target, false, "", o, globals));
      for (const std::string& without : o.without)
        entries.push_back(prepare(path, target, strict, without, o, globals));
    }
  }
  if (o.serve && entries.size() != 1) throw UsageError{"--serve takes one model and one target"};
  if (o.serve) {
    const Entry& e = entries[0];
    return serve(e.graph, {e.timed, e.run, [&](int runs) { return served_steps(e, runs); }},
                 e.compile_s);
  }

  Interruption interruption;
  MeasureOptions how = o.measure;
  how.monitor = globals.monitor.stopped_by(interruption.flag());
  measure_all(entries, how);
  double peak = peak_memory_bytes();
  for (Entry& e : entries) {
    if (o.no_check)
      e.accuracy.reason = "--no-check";
    else if (!interruption.requested())
      e.accuracy = accuracy_of(e.graph, e.inputs, e.run(), globals.monitor);
    else
      e.accuracy.reason = "interrupted";
  }
  globals.finish_progress();

  const Entry* against = o.against.empty() ? nullptr : &entries[0];
  Json facts = Json::object();
  facts["schema"] = 1;
  facts["threads"] = thread_count();
  bool compiled = std::any_of(entries.begin(), entries.end(),
                              [](const Entry& e) { return e.program.has_value(); });
  facts["onednn"] = compiled && onednn_state().loaded;
  facts["models"] = Json::array();
  if (globals.json != "-") {
    print_table(entries, against);
    print_memory(entries, peak);
    print_plans(entries);
    print_rankings(entries, o.candidates > 0);
    print_price_of_strictness(entries);
    print_gains(entries);
  }
  for (const Entry& e : entries) {
    Json& j = facts["models"].push(facts_of(e));
    if (against) j["speedup"] = against->timing.median_ms() / e.timing.median_ms();
    if (!o.steps || !e.program) continue;
    auto times = step_times(e);
    j["steps"] = steps_json(times);
    if (globals.json != "-") print_steps(e, times);
  }
  facts["compile_s"] = std::accumulate(entries.begin(), entries.end(), 0.0,
                                       [](double s, const Entry& e) { return s + e.compile_s; });
  facts["peak_memory_bytes"] = peak;
  globals.report(facts);
  if (interruption.requested()) return kInterrupted;
  double allowed = o.how.options(globals).accuracy;
  bool wrong = !o.how.accuracy.empty() && allowed > 0 &&
               std::any_of(entries.begin(), entries.end(), [&](const Entry& e) {
                 return e.accuracy.known && !(e.accuracy.max_rel_err <= allowed);
               });
  return wrong ? kDifferent : kOk;
}

}  // namespace

Verb bench_verb(CLI::App& app, const Globals& globals) {
  auto o = std::make_shared<Options>();
  CLI::App* c = app.add_subcommand("bench", "how long models take, interleaved in one run");
  c->add_option("MODEL", o->models, "the models")->required();
  c->add_option("--target", o->targets, "what runs them: interp, cpu, or both (interp,cpu)")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->capture_default_str();
  c->add_option("--against", o->against, "one more model, with which the others are compared");
  c->add_option("--without", o->without,
                "time each model once more without these rules and passes (a list of globs: "
                "search, mutate, ...), to see what they gain")
      ->type_name("GLOB,...")
      ->allow_extra_args(false);
  c->add_option("--runs", o->measure.runs, "timed runs of each (0: as many as fit into --seconds)")
      ->check(CLI::Range(0, 1000000));
  c->add_option("--seconds", o->measure.seconds, "time for each")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  c->add_flag("--steps", o->steps, "the steps of each compiled program by time");
  c->add_flag("--no-check", o->no_check, "do not compare with double precision");
  c->add_flag("--tune", o->tune, "measure which kernels are fastest here; times are kept");
  c->add_option("--candidates", o->candidates,
                "with --tune: measure so many of each group (0: few), and say where the best stood")
      ->check(CLI::Range(0, 1000));
  c->add_flag("--serve", o->serve, "run one model when told to by lines on stdin")->group("");
  add_memory_option(*c, o->memory);
  add_input_options(*c, o->inputs);
  add_how_options(*c, o->how);
  return {c, [o, &globals] { return bench(*o, globals); }};
}

}  // namespace emend
