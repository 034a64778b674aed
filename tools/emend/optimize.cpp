// emend optimize IN OUT: reads a model, improves it, compares, writes it, and says what changed.
#include "pipeline/optimize.h"

#include <chrono>
#include <filesystem>
#include <iomanip>
#include <iostream>
#include <map>
#include <memory>

#include "base/atomic_file.h"
#include "export/onnx.h"
#include "how.h"
#include "interruption.h"
#include "onnx/read.h"
#include "text/text.h"
#include "verb.h"

namespace emend {
namespace {

struct Options {
  std::string in, out;
  std::vector<std::string> shapes;
  HowOptions how;
  int64_t target_opset = 0;
  std::string dump_dir;
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

void print_search(const ImproveReport& r) {
  std::cout << "search: " << r.saturated.nodes << " e-nodes in " << r.saturated.classes
            << " classes, " << r.saturated.rounds << " rounds, stopped by "
            << to_text(r.saturated.stopped) << "; " << r.priced_s.size() << " extractions priced\n";
  for (const auto& f : r.saturated.fired) {
    if (f.times == 0) continue;
    std::cout << "  " << std::left << std::setw(34) << f.rule << std::right << std::setw(10)
              << f.times << '\n';
  }
  std::map<std::string, int> steps;
  for (const std::string& rule : r.trail) ++steps[rule];
  std::cout << "the result rests on " << r.trail.size() << " of these firings\n";
  for (const auto& [rule, times] : steps)
    std::cout << "  " << std::left << std::setw(34) << rule << std::right << std::setw(10) << times
              << '\n';
  std::cout << "price of one run, estimated: " << 1e3 * r.before_s << " ms before, "
            << 1e3 * r.after_s << " ms after\n";
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
  std::cout << "checked against the input: " << printable(report.checked.reason) << '\n';
}

Json operators_json(const Sizes& s) {
  Json j = Json::object();
  for (const auto& [name, n] : s.operators) j[name] = n;
  return j;
}

Json facts_of(const Options& o, const Sizes& before, const Sizes& after,
              const OptimizeReport& report) {
  Json j = Json::object();
  j["schema"] = 1;
  j["path"] = o.in;
  j["level"] = o.how.level;
  j["phases_ms"] = Json::object();
  for (const auto& [name, ms] : report.phases_ms) j["phases_ms"][name] = ms;
  j["nodes_before"] = before.nodes;
  j["nodes_after"] = after.nodes;
  j["operators_before"] = operators_json(before);
  j["operators_after"] = operators_json(after);
  j["parameter_bytes_before"] = before.parameter_bytes;
  j["parameter_bytes_after"] = after.parameter_bytes;
  // The names are fixed; what no stage finds out yet is null.
  for (const char* later : {"measured_before_ms", "measured_after_ms"}) j[later] = Json();
  const auto& search = report.improved;
  j["cost_before"] = search ? Json(1e3 * search->before_s) : Json();
  j["cost_after"] = search ? Json(1e3 * search->after_s) : Json();
  j["enodes"] = search ? Json(static_cast<int64_t>(search->saturated.nodes)) : Json();
  j["iterations"] = search ? Json(static_cast<int64_t>(search->saturated.rounds)) : Json();
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
  j["trail"] = Json::array();
  if (search) {
    for (const std::string& rule : search->trail) j["trail"].push(rule);
  }
  j["stop_reason"] =
      search ? std::string(to_text(search->saturated.stopped)) : report.simplified.stop_reason;
  Json verified = Json::object();
  bool ran = report.checked.kind != Checked::Kind::not_run;
  verified["method"] = ran ? "run against double precision" : "none";
  verified["max_rel_err"] = ran ? Json(report.checked.max_rel_err) : Json();
  verified["reason"] = report.checked.reason;
  j["verified"] = verified;
  return j;
}

double milliseconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start)
      .count();
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

// How the program looks at other sizes decides which dimensions stay symbolic. An interrupted
// search gives every size as many rounds as the model's own had.
AtSizes optimized_at_sizes(const OnnxFile& source, const ImportOptions& import, OptimizeOptions how,
                           const OptimizeReport& report) {
  how.monitor = {};
  if (report.simplified.stop_reason == "interrupted") how.rounds = report.simplified.rounds;
  return [&source, import, how](const std::map<std::string, int64_t>& sizes) {
    ImportOptions other = import;
    for (const auto& [symbol, size] : sizes) other.symbols[symbol] = size;
    return optimized(source.import(other).graph, how);
  };
}

int run(const Options& o, const Globals& globals) {
  ImportOptions import;
  apply_shapes(o.shapes, import);
  Interruption interruption;
  Dumps dumps(o.dump_dir);
  OptimizeOptions how = o.how.options(globals);
  how.monitor = globals.monitor.stopped_by(interruption.flag());
  how.dump = [&](std::string_view stage, const Graph& g) { dumps.write(stage, g); };
  globals.monitor.tell({"import"});
  auto start = std::chrono::steady_clock::now();
  OnnxFile source(o.in);
  Model model = source.import(import);
  double import_ms = milliseconds_since(start);
  dumps.write("import", model.graph);
  for (const auto& note : model.info.specialised) globals.say("specialised: " + note);
  OptimizeReport report;
  Model better = optimize(model, how, &report);
  report.phases_ms.insert(report.phases_ms.begin(), {"import", import_ms});

  ExportOptions writing{.target_opset = o.target_opset,
                        .at_sizes = optimized_at_sizes(source, import, how, report)};
  bool wrong = report.checked.kind == Checked::Kind::failed;
  globals.monitor.tell({"export"});
  start = std::chrono::steady_clock::now();
  Exported exported =
      o.out.empty() || wrong ? export_onnx(better, writing) : export_onnx(better, o.out, writing);
  report.phases_ms.emplace_back("export", milliseconds_since(start));
  dumps.write("export", exported.graph);
  globals.finish_progress();
  for (const auto& note : exported.notes) globals.say(note);

  onnx::Model file = onnx::read_model(o.in, onnx::External::kLeave);
  Sizes before = sizes_of(file, model.graph), after = sizes_of(exported.file, better.graph);
  globals.report(facts_of(o, before, after, report));
  if (globals.json != "-") print_table(before, after, report);
  if (wrong) {
    globals.say("FAILED: the result differs from the input; nothing was written");
    return kDifferent;
  }
  if (interruption.requested()) {
    globals.say("interrupted: this is the best result so far");
    return kInterrupted;
  }
  bool gained = after.nodes < before.nodes || after.parameter_bytes < before.parameter_bytes;
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
  c->add_option("OUT", o->out, "where to write the result");
  add_how_options(*c, o->how);
  c->add_option("--target-opset", o->target_opset, "write this version of the ONNX operators");
  c->add_option("--dump-dir", o->dump_dir, "write the program after each stage here, as text")
      ->type_name("DIR");
  c->add_flag("--strict", o->strict, "exit code 6 where nothing was gained");
  add_shape_option(*c, o->shapes);
  return {c, [o, &globals] { return run(*o, globals); }};
}

}  // namespace emend
