// emend optimize IN OUT: reads a model, improves it, compares, writes it, and says what changed.
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <iomanip>
#include <iostream>
#include <map>
#include <memory>
#include <optional>

#include "base/atomic_file.h"
#include "base/mapped_file.h"
#include "how.h"
#include "interruption.h"
#include "onnx/read.h"
#include "pipeline/compile.h"
#include "pipeline/optimize_file.h"
#include "pipeline/read_back.h"
#include "text/text.h"
#include "verb.h"

namespace emend {
namespace {

struct Options {
  std::string in, out;
  std::vector<std::string> shapes;
  HowOptions how;
  int64_t target_opset = 0;
  std::string dump_dir, target = "any";
  bool strict = false;
};

// The nodes of a file by operator, subgraphs included; constants are data and do not count.
void count_operators(const onnx::Graph& g, std::map<std::string, int>& counts) {
  for (const onnx::Node& n : g.node) {
    if (n.op_type != "Constant") ++counts[n.op_type];
    for (const onnx::Attribute& a : n.attribute) {
      if (a.g) count_operators(*a.g, counts);
      for (const onnx::Graph& inner : a.graphs) count_operators(inner, counts);
    }
  }
}

struct Sizes {
  std::map<std::string, int> operators;
  int nodes = 0;
  double parameter_bytes = 0;
};

Sizes sizes_of(const onnx::Model& file, const Graph& g) {
  Sizes s;
  count_operators(file.graph, s.operators);
  for (const auto& [name, n] : s.operators) s.nodes += n;
  for (const Tensor& t : g.constants) s.parameter_bytes += static_cast<double>(t.bytes().size());
  return s;
}

void print_mutants(const MutateReport& r) {
  if (r.mutants.empty()) return;
  struct Count {
    int tried = 0, equal = 0, corrected = 0;
  };
  std::map<std::string, Count> counts;
  for (const auto& m : r.mutants) {
    Count& c = counts[m.mutation];
    ++c.tried;
    c.equal += m.outcome == MutateReport::Mutant::Outcome::equal;
    c.corrected += m.outcome == MutateReport::Mutant::Outcome::corrected;
  }
  std::cout << "mutants: " << r.mutants.size() << " tried in " << std::setprecision(3)
            << 1e3 * r.seconds << " ms, of which " << 1e3 * r.pricing_seconds
            << " ms asked for prices; " << r.proofs << " proofs, " << r.known << " known\n  "
            << std::left << std::setw(34) << "mutation" << std::right << std::setw(10) << "tried"
            << std::setw(10) << "equal" << std::setw(10) << "corrected" << '\n';
  for (const auto& [name, c] : counts)
    std::cout << "  " << std::left << std::setw(34) << name << std::right << std::setw(10)
              << c.tried << std::setw(10) << c.equal << std::setw(10) << c.corrected << '\n';
}

void print_search(const ImproveReport& r) {
  std::cout << "search: " << r.saturated.nodes << " e-nodes in " << r.saturated.classes
            << " classes, " << r.saturated.rounds << " rounds, stopped by "
            << to_text(r.saturated.stopped) << "; " << r.priced_s.size() << " extractions priced"
            << (r.recalled ? "; kept from an earlier start" : "") << '\n';
  for (const auto& f : r.saturated.fired) {
    if (f.times == 0) continue;
    std::cout << "  " << std::left << std::setw(34) << f.rule << std::right << std::setw(10)
              << f.times << '\n';
  }
  print_mutants(r.mutated);
  std::map<std::string, int> steps;
  for (const std::string& rule : r.trail) ++steps[rule];
  std::cout << "the result rests on " << r.trail.size() << " of these firings\n";
  for (const auto& [rule, times] : steps)
    std::cout << "  " << std::left << std::setw(34) << rule << std::right << std::setw(10) << times
              << '\n';
  std::cout << "price of one run with our own kernels, estimated: " << 1e3 * r.before_s
            << " ms before, " << 1e3 * r.after_s << " ms after\n";
}

void print_elsewhere(const RuntimeReport& there) {
  for (const std::string& form : there.forms) std::cout << "written in the form " << form << '\n';
  std::cout << "measured in " << there.runtime << ": " << 1e3 * there.before_s << " ms before, "
            << 1e3 * there.after_s << " ms after"
            << (there.kept_input ? " (nothing was faster: what came in is kept)" : "") << "; "
            << there.measured << " times measured, " << there.known << " known\n";
}

void print_table(const Sizes& before, const Sizes& after, const OptimizeReport& report) {
  auto row = [](const std::string& name, const std::string& a, const std::string& b) {
    std::cout << "  " << std::left << std::setw(28) << printable(name) << std::right
              << std::setw(10) << a << std::setw(10) << b << '\n';
  };
  row("operator", "before", "after");
  std::map<std::string, std::pair<int, int>> both;
  for (const auto& [name, n] : before.operators) both[name].first = n;
  for (const auto& [name, n] : after.operators) both[name].second = n;
  for (const auto& [name, n] : both) row(name, str(n.first), str(n.second));
  row("nodes", str(before.nodes), str(after.nodes));
  row("parameters", bytes_text(before.parameter_bytes), bytes_text(after.parameter_bytes));
  std::cout << "rules that fired\n";
  for (const auto& f : report.simplified.fired)
    std::cout << "  " << std::left << std::setw(28) << f.rule << std::right << std::setw(10)
              << f.times << '\n';
  if (report.simplified.fired.empty()) std::cout << "  none\n";
  if (report.improved) print_search(*report.improved);
  if (report.improved && report.improved->after_s < report.improved->before_s &&
      report.kept_cleaned && !report.elsewhere)
    std::cout
        << "what the search found pays with our own kernels and is kept for them: the file is "
           "written without it (--target cpu writes it)\n";
  if (report.elsewhere) print_elsewhere(*report.elsewhere);
  std::cout << "checked against the input: " << printable(report.checked.reason) << '\n';
}

Json json_of(const MutateReport::Mutant& m) {
  Json j = Json::object();
  j["mutation"] = m.mutation;
  j["site"] = m.site;
  j["parameters"] = m.parameters;
  j["outcome"] = std::string(to_text(m.outcome));
  j["agreement"] = m.share;
  j["patches"] = m.patches;
  j["repaired"] = m.repaired;
  j["method"] = m.method;
  j["kernels_us"] = m.seconds > 0 ? Json(1e6 * m.seconds) : Json();
  j["reason"] = m.reason;
  return j;
}

Json operators_json(const Sizes& s) {
  Json j = Json::object();
  for (const auto& [name, n] : s.operators) j[name] = n;
  return j;
}

void add_elsewhere(Json& j, const std::optional<RuntimeReport>& there) {
  j["runtime"] = there ? Json(there->runtime) : Json();
  j["measured_before_ms"] = there ? Json(1e3 * there->before_s) : Json();
  j["measured_after_ms"] = there ? Json(1e3 * there->after_s) : Json();
  j["prices_measured"] = there ? Json(there->measured) : Json();
  j["prices_known"] = there ? Json(there->known) : Json();
  j["forms"] = Json::array();
  if (there) {
    for (const std::string& form : there->forms) j["forms"].push(form);
  }
  j["kept_input"] = there ? Json(there->kept_input) : Json();
}

// With the rules that cleaned.
void add_search(Json& j, const OptimizeReport& report) {
  const auto& search = report.improved;
  j["cost_before"] = search ? Json(1e3 * search->before_s) : Json();
  j["cost_after"] = search ? Json(1e3 * search->after_s) : Json();
  j["enodes"] = search ? Json(static_cast<int64_t>(search->saturated.nodes)) : Json();
  j["iterations"] = search ? Json(static_cast<int64_t>(search->saturated.rounds)) : Json();
  j["search_recalled"] = search ? Json(search->recalled) : Json();
  j["fired"] = Json::array();
  auto fired = [&](const std::string& rule, int64_t times) {
    Json entry = Json::object();
    entry["rule"] = rule;
    entry["times"] = times;
    j["fired"].push(entry);
  };
  for (const auto& f : report.simplified.fired) fired(f.rule, f.times);
  if (search) {
    for (const auto& f : search->saturated.fired) {
      if (f.times) fired(f.rule, static_cast<int64_t>(f.times));
    }
  }
  j["mutate_ms"] = search ? Json(1e3 * search->mutated.seconds) : Json();
  j["mutate_pricing_ms"] = search ? Json(1e3 * search->mutated.pricing_seconds) : Json();
  j["mutants_proven"] = search ? Json(search->mutated.proofs) : Json();
  j["mutants_known"] = search ? Json(search->mutated.known) : Json();
  j["mutants"] = Json::array();
  if (search) {
    for (const auto& m : search->mutated.mutants) j["mutants"].push(json_of(m));
  }
  j["trail"] = Json::array();
  if (search) {
    for (const std::string& rule : search->trail) j["trail"].push(rule);
  }
}

Json facts_of(const Options& o, int level, const Sizes& before, const Sizes& after,
              const OptimizeReport& report) {
  Json j = Json::object();
  j["schema"] = 1;
  j["path"] = o.in;
  j["level"] = level;
  j["phases_ms"] = Json::object();
  for (const auto& [name, ms] : report.phases_ms) j["phases_ms"][name] = ms;
  j["nodes_before"] = before.nodes;
  j["nodes_after"] = after.nodes;
  j["operators_before"] = operators_json(before);
  j["operators_after"] = operators_json(after);
  j["parameter_bytes_before"] = before.parameter_bytes;
  j["parameter_bytes_after"] = after.parameter_bytes;
  j["target"] = o.target;
  add_elsewhere(j, report.elsewhere);
  add_search(j, report);
  j["stop_reason"] = report.improved ? std::string(to_text(report.improved->saturated.stopped))
                                     : report.simplified.stop_reason;
  Json verified = Json::object();
  bool ran = report.checked.kind != Checked::Kind::not_run;
  verified["method"] = ran ? "run against double precision" : "none";
  verified["max_rel_err"] = ran ? Json(report.checked.max_rel_err) : Json();
  verified["reason"] = report.checked.reason;
  j["verified"] = verified;
  j["faults"] = Json::array();
  for (const std::string& fault : report.faults) j["faults"].push(fault);
  return j;
}

// The text of the program after each stage, in numbered files.
class Dumps {
 public:
  explicit Dumps(std::string folder) : folder_(std::move(folder)) {
    if (!folder_.empty()) std::filesystem::create_directories(folder_);
  }
  void write(std::string_view stage, const Graph& g) {
    if (folder_.empty()) return;
    AtomicFile file(std::filesystem::path(folder_) /
                    str(next_ < 10 ? "0" : "", next_, "-", stage, ".emend"));
    file.write(print(g));
    file.commit();
    ++next_;
  }

 private:
  std::string folder_;
  int next_ = 1;
};

std::shared_ptr<OtherRuntime> runtime_of(const Options& o, const ModelInfo& info,
                                         const Globals& globals, const Monitor& monitor) {
  OtherRuntimeOptions there{.name = o.target,
                            .threads = globals.threads,
                            .prices = std::make_shared<PriceList>(default_price_list()),
                            .ir_version = info.ir_version,
                            .opsets = info.opsets,
                            .monitor = monitor};
  if (o.target_opset > 0) there.opsets[""] = o.target_opset;
  const char* patience = std::getenv("EMEND_RUNTIME_TIMEOUT");
  if (patience && std::atof(patience) > 0) there.patience_s = std::atof(patience);
  return std::make_shared<OtherRuntime>(std::move(there));
}

// What was not changed is the same file, byte by byte, unless other files belong to it. All else is
// read again before it takes the place of another; the input's own data stays where it is.
void write_file(const OptimizedFile& result, const Options& o) {
  if (!result.as_given || result.given.info.external_data) {
    onnx::WriteOptions how{.others = {o.in}};
    how.look = [&](const std::filesystem::path& written) {
      require_written(written, result.exported);
    };
    return write_onnx(result.exported, result.given.info, o.out, how);
  }
  SharedBytes bytes = map_file(o.in).value_or_throw();
  AtomicFile file(o.out);
  file.write(bytes.view());
  file.commit();
}

int run(const Options& o, const Globals& globals) {
  require_apart({{"OUT", o.out}, {"--json", globals.json}, {"--dump-dir", o.dump_dir}}, o.in);
  ImportOptions import;
  apply_shapes(o.shapes, import);
  Interruption interruption;
  Dumps dumps(o.dump_dir);
  OptimizeOptions how = o.how.options(globals);
  how.monitor = globals.monitor.stopped_by(interruption.flag());
  how.dump = [&](std::string_view stage, const Graph& g) { dumps.write(stage, g); };
  globals.monitor.tell({"import"});
  OnnxFile source(o.in);
  how.for_everyone = o.target == "any";
  if (o.target == "onnxruntime" || o.target == "openvino")
    how.runtime = runtime_of(o, source.import(import).info, globals, how.monitor);
  const Measuring by = o.target == "cpu" ? measuring(o.how, globals) : Measuring();
  if (by.prices) {
    how.fastest = [&](std::span<const Graph> programs, OptimizeReport& report) {
      return fastest_here(programs, how, by, report);
    };
  }
  OptimizedFile result = optimize_file(source, import, how, {.target_opset = o.target_opset});
  auto& [model, better, report, exported, level, as_given, notes, fixed] = result;
  bool wrong = report.checked.kind == Checked::Kind::failed;
  globals.monitor.tell({"export"});
  if (!o.out.empty() && !wrong) write_file(result, o);
  dumps.write("export", exported.graph);
  globals.finish_progress();
  for (const auto& note : model.info.specialised) globals.say("specialised: " + note);
  for (const auto& note : exported.notes) globals.say(note);
  for (const auto& note : notes) globals.say(note);

  onnx::Model file = onnx::read_model(o.in, onnx::External::kLeave);
  Sizes before = sizes_of(file, model.graph), after = sizes_of(exported.file, better.graph);
  Json facts = facts_of(o, level, before, after, report);
  facts["fixed_dimensions"] = Json::object();
  for (const auto& [symbol, size] : fixed) facts["fixed_dimensions"][symbol] = size;
  globals.report(facts);
  if (globals.json != "-") {
    print_table(before, after, report);
    for (const auto& [symbol, size] : fixed)
      std::cout << "dimension " << printable(symbol) << " is fixed: the file takes " << size
                << " only\n";
  }
  if (wrong) {
    globals.say("FAILED: the result differs from the input; nothing was written");
    return kDifferent;
  }
  if (interruption.requested()) {
    globals.say("interrupted: this is the best result so far");
    return kInterrupted;
  }
  if (!fixed.empty()) return kDimensionsFixed;
  const auto& search = report.improved;
  bool gained = after.nodes < before.nodes || after.parameter_bytes < before.parameter_bytes ||
                (search && !report.kept_cleaned && search->after_s < search->before_s);
  if (o.strict && !gained) {
    globals.say("nothing was gained");
    return kNothingGained;
  }
  return kOk;
}

}  // namespace

Verb optimize_verb(CLI::App& app, const Globals& globals) {
  auto o = std::make_shared<Options>();
  CLI::App* c = app.add_subcommand("optimize", "improve a model and write it as ONNX");
  c->add_option("IN", o->in, "the model")->required();
  c->add_option("OUT", o->out, "where to write the result")->check(a_file_name());
  add_how_options(*c, o->how);
  add_measure_options(*c, o->how);
  c->add_option("--target", o->target,
                "for whom the file is written: any runtime (cleaned, and what is less work for "
                "everyone), cpu (what pays with our own kernels), or onnxruntime or openvino, "
                "measured there by a helper process: the file is faster there, or the input")
      ->check(CLI::IsMember({"any", "cpu", "onnxruntime", "openvino"}))
      ->capture_default_str();
  c->add_option("--target-opset", o->target_opset, "write this version of the ONNX operators");
  c->add_option("--dump-dir", o->dump_dir, "write the program after each stage here, as text")
      ->type_name("DIR");
  c->add_flag("--strict", o->strict, "exit code 6 where nothing was gained");
  add_shape_option(*c, o->shapes);
  return {c, [o, &globals] { return run(*o, globals); }};
}

}  // namespace emend
