// emend bench MODEL...: how long models take, against one another in one run, and how exact they
// are.
#include <algorithm>
#include <fstream>
#include <memory>
#include <optional>

#include "bench_report.h"
#include "device.h"
#include "fallbacks.h"
#include "how.h"
#include "interruption.h"
#include "pipeline/accuracy.h"
#include "pipeline/compile.h"
#include "pipeline/memory_limit.h"
#include "run/measure.h"
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
  bool steps = false, no_check = false, serve = false;
};

std::function<void()> run_in_place(const CpuProgram& program, const std::vector<Value>& inputs) {
  std::vector<std::span<const std::byte>> from;
  for (const Value& v : inputs) from.push_back(v.tensor.bytes());
  auto memory = std::make_shared<std::vector<std::vector<std::byte>>>();
  for (BufferId b : program.program().outputs)
    memory->emplace_back(program.program().buffers[b].bytes);
  std::vector<std::span<std::byte>> to(memory->begin(), memory->end());
  return [program, inputs, from, memory, to] { program.run_into(from, to); };
}

void compile_for(Device device, BenchEntry& e, ToRun better, Measuring measuring, const Options& o,
                 const Globals& globals) {
  if (device == Device::interp) {
    e.run = [better = std::move(better.graph), inputs = e.inputs] {
      return evaluate(better, inputs);
    };
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
  options.measuring = std::move(measuring);
  options.measuring.candidates = o.candidates;
  options.others = std::move(better.others);
  e.program = compile(std::move(better.graph), options, &e.report);
  for (const auto& phase : e.report.phases_ms) e.phases_ms.push_back(phase);
  e.run = [program = *e.program, inputs = e.inputs] { return program.run(inputs); };
  e.timed = e.program->is_plain() ? run_in_place(*e.program, e.inputs) : e.run;
}

BenchEntry prepare(const std::string& path, const std::string& target, bool strict,
                   const std::string& without, const Options& o, const Globals& globals) {
  Device device = device_of(target);
  BenchEntry e{.path = path, .target = target, .strict = strict, .without = without};
  GivenInputs given(o.inputs, {});
  auto phase = [&](const char* name, const std::function<void()>& work) {
    globals.monitor.tell({name});
    e.phases_ms.emplace_back(name, milliseconds_of(work));
  };
  e.compile_s = milliseconds_of([&] {
                  phase("import", [&] { e.graph = import_onnx(path, given.import).graph; });
                  auto how = o.how.options(globals);
                  if (!without.empty())
                    std::ranges::move(split(without, ','), std::back_inserter(how.disable));
                  if (how.accuracy == 0 && !strict) how.accuracy = OptimizeOptions().accuracy;
                  if (device == Device::cpu) how.fold_moves_below = kFoldMovesBelow;
                  how.memory = o.memory;
                  Measuring by = device == Device::cpu ? measuring(o.how, globals) : Measuring();
                  ToRun better =
                      optimized_for_here(e.graph, how, by.prices != nullptr, &e.optimizing);
                  std::ranges::copy(e.optimizing.phases_ms, std::back_inserter(e.phases_ms));
                  require_memory(e.graph);
                  e.inputs = given.values(e.graph, globals.seed);
                  compile_for(device, e, std::move(better), std::move(by), o, globals);
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

void measure_all(std::vector<BenchEntry>& entries, const MeasureOptions& options) {
  std::vector<Contender> contenders;
  for (const BenchEntry& e : entries) contenders.push_back(e.timed);
  auto timings = measure(contenders, options);
  for (size_t i = 0; i < entries.size(); ++i) entries[i].timing = std::move(timings[i]);
}

int bench(const Options& o, const Globals& globals) {
  std::vector<std::string> paths = o.models;
  if (!o.against.empty()) paths.insert(paths.begin(), o.against);
  for (const std::string& without : o.without) demand_known(split(without, ','), "--without");
  std::vector<BenchEntry> entries;
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
    const BenchEntry& e = entries[0];
    return serve(e.graph, {e.timed, e.run, [&](int runs) { return served_steps(e, runs); }},
                 e.compile_s);
  }

  Interruption interruption;
  MeasureOptions how = o.measure;
  how.monitor = globals.monitor.stopped_by(interruption.flag());
  measure_all(entries, how);
  double peak = peak_memory_bytes();
  for (BenchEntry& e : entries) {
    if (o.no_check)
      e.accuracy.reason = "--no-check";
    else if (!interruption.requested())
      e.accuracy = accuracy_of(e.graph, e.inputs, e.run(), globals.monitor);
    else
      e.accuracy.reason = "interrupted";
  }
  globals.finish_progress();

  globals.report(bench_report(entries, {.against = o.against.empty() ? nullptr : &entries[0],
                                        .peak_memory_bytes = peak,
                                        .steps = o.steps,
                                        .rankings = o.candidates > 0,
                                        .print = globals.json != "-"}));
  if (interruption.requested()) return kInterrupted;
  double allowed = o.how.options(globals).accuracy;
  bool wrong = !o.how.accuracy.empty() && allowed > 0 &&
               std::any_of(entries.begin(), entries.end(), [&](const BenchEntry& e) {
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
  c->add_option("--candidates", o->candidates,
                "measure so many kernels of each group (0: few), and say where the best stood")
      ->check(CLI::Range(0, 1000));
  c->add_flag("--serve", o->serve, "run one model when told to by lines on stdin")->group("");
  add_memory_option(*c, o->memory);
  add_input_options(*c, o->inputs);
  add_how_options(*c, o->how);
  add_measure_options(*c, o->how);
  return {c, [o, &globals] { return bench(*o, globals); }};
}

}  // namespace emend
