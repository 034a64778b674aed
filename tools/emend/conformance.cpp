// emend conformance DIR: runs a tree of ONNX test cases (a folder with model.onnx and
// test_data_set_* each) and compares with the outputs stored there.
#include <algorithm>
#include <fstream>
#include <iomanip>
#include <iostream>
#include <map>
#include <memory>

#include "base/parallel.h"
#include "child_jobs.h"
#include "device.h"
#include "onnx/read.h"
#include "ops/table.h"
#include "pipeline/test_data.h"
#include "verb.h"

namespace emend {
namespace {

namespace fs = std::filesystem;

struct Options {
  std::string folder, only = "*", target = "interp", expect;
  bool list = false;
  int limit = 30;  // seconds per case
};

struct Case {
  std::string name;
  fs::path model;
};

std::vector<Case> find_cases(const fs::path& folder, const std::string& only) {
  if (!fs::is_directory(folder)) throw Error(str(folder.string(), ": is not a folder"));
  std::vector<Case> cases;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.path().filename() != "model.onnx") continue;
    std::string name = entry.path().parent_path().filename().string();
    if (glob_match(only, name)) cases.push_back({name, entry.path()});
  }
  std::sort(cases.begin(), cases.end(),
            [](const Case& a, const Case& b) { return a.name < b.name; });
  return cases;
}

// Why the case fails; empty if it passes.
std::string run_case(const fs::path& model_path, Device device) {
  auto folders = data_sets_of(model_path);
  if (folders.empty()) return "has no test data";
  Tolerance tolerance = tolerance_of(model_path);
  for (const auto& folder : folders) {
    DataSet data = read_data_set(model_path, folder);
    ImportOptions options;
    for (const auto& [name, value] : data.inputs) options.input_values.insert({name, value});
    Model model = import_onnx(model_path, options);
    std::vector<Value> inputs;
    for (const auto& i : model.graph.inputs) {
      auto it = options.input_values.find(i.name);
      if (it == options.input_values.end()) return str("no data for input ", i.name);
      inputs.push_back(it->second);
    }
    CompileReport report;
    auto outputs = run_once(model.graph, inputs, device, {}, &report);
    // The right answer by another way than the one that is asked about is no pass.
    if (!report.compiled) return report.faults[0];
    for (size_t i = 0; i < data.outputs.size(); ++i) {
      auto d = difference(outputs.at(i), data.outputs[i], tolerance);
      if (!d.empty()) return str("output ", model.graph.outputs[i].name, " ", d);
    }
  }
  return "";
}

std::string guarded_run(const fs::path& model, Device device) {
  try {
    return run_case(model, device);
  } catch (const std::exception& e) {
    std::string what = e.what();
    // The file's path says nothing here, and differs from machine to machine.
    if (what.starts_with(model.string() + ": ")) what = what.substr(model.string().size() + 2);
    return what.empty() ? "an exception without a message" : what;
  }
}

// The operator that a case is about: its only node. Cases of several nodes go by their names:
// test_x_expanded belongs to test_x.
std::string only_operator(const fs::path& model) {
  try {
    onnx::Model m = onnx::read_model(model, onnx::External::kLeave);
    return m.graph.node.size() == 1 ? m.graph.node[0].op_type : "";
  } catch (const Error&) {
    return "";
  }
}

std::vector<std::string> operators_of(const std::vector<Case>& cases) {
  std::map<std::string, std::string> by_name;
  std::vector<std::string> operators;
  for (const Case& c : cases) {
    std::string op = only_operator(c.model);
    by_name[c.name] = op;
    operators.push_back(op);
  }
  for (size_t i = 0; i < cases.size(); ++i) {
    if (!operators[i].empty()) continue;
    const std::string& name = cases[i].name;
    auto base = by_name.find(name.substr(0, name.find("_expanded")));
    operators[i] =
        base != by_name.end() && !base->second.empty() ? base->second : "(several nodes)";
  }
  return operators;
}

// "case: reason" lines; '#' begins a comment.
std::map<std::string, std::string> read_expectations(const fs::path& path) {
  std::ifstream in(path);
  if (!in) throw UsageError{str("--expect ", path.string(), ": cannot be read")};
  std::map<std::string, std::string> expected;
  for (std::string line; std::getline(in, line);) {
    if (line.empty() || line[0] == '#') continue;
    auto colon = line.find(": ");
    if (colon == std::string::npos)
      throw UsageError{str("--expect ", path.string(), ": no 'case: reason' in ", line)};
    expected[line.substr(0, colon)] = line.substr(colon + 2);
  }
  return expected;
}

struct Tally {
  size_t passed = 0, failed = 0;
};

// How many cases began to pass or to fail, each named.
int compare_with(const std::map<std::string, std::string>& expected, const std::vector<Case>& cases,
                 const std::vector<std::string>& reasons, const std::string& only) {
  int surprises = 0;
  std::map<std::string, bool> ran;
  for (size_t i = 0; i < cases.size(); ++i) {
    ran[cases[i].name] = true;
    bool known = expected.contains(cases[i].name);
    if (known == !reasons[i].empty()) continue;
    ++surprises;
    std::cout << (known ? "began to pass: " : "began to fail: ") << cases[i].name
              << (known ? "" : ": ") << reasons[i] << '\n';
  }
  for (const auto& [name, reason] : expected) {
    if (ran.contains(name) || !glob_match(only, name)) continue;
    ++surprises;
    std::cout << "is expected to fail, but does not exist: " << name << '\n';
  }
  return surprises;
}

void print_table(const std::map<std::string, Tally>& table, const Tally& total) {
  size_t width = 20;
  for (const auto& [op, tally] : table) width = std::max(width, op.size());
  const auto row = [&](const std::string& name, const Tally& t) {
    std::cout << std::left << std::setw(static_cast<int>(width)) << name << std::right
              << std::setw(7) << t.passed << std::setw(7) << t.failed << '\n';
  };
  std::cout << std::left << std::setw(static_cast<int>(width)) << "operator"
            << " passed failed\n";
  for (const auto& [op, tally] : table) row(op, tally);
  row("total", total);
}

Json facts(const std::vector<Case>& cases, const std::vector<std::string>& reasons,
           const Tally& total, const std::string& target) {
  Json j = Json::object();
  j["schema"] = 1;
  j["target"] = target;
  j["passed"] = total.passed;
  j["failed"] = total.failed;
  j["cases"] = Json::array();
  for (size_t i = 0; i < cases.size(); ++i) {
    Json& c = j["cases"].push(Json::object());
    c["name"] = cases[i].name;
    c["passed"] = reasons[i].empty();
    if (!reasons[i].empty()) c["reason"] = reasons[i];
  }
  return j;
}

int run(const Options& o, const Globals& globals) {
  Device device = device_of(o.target);
  auto expected =
      o.expect.empty() ? std::map<std::string, std::string>() : read_expectations(o.expect);
  auto cases = find_cases(o.folder, o.only);
  if (cases.empty()) throw Error(str(o.folder, ": holds no test case that matches ", o.only));
  auto operators = operators_of(cases);
  all_ops();  // made once, before the children inherit it

  std::vector<std::string> reasons(cases.size());
  std::map<std::string, Tally> table;
  Tally total;
  int jobs = thread_count();
  set_thread_count(1);
  run_in_children(
      cases.size(), jobs, std::chrono::seconds(o.limit),
      [&](size_t i) { return guarded_run(cases[i].model, device); },
      [&](size_t i, const ChildResult& r) {
        globals.monitor.tell(
            {"conformance", static_cast<int64_t>(i + 1), static_cast<int64_t>(cases.size())});
        reasons[i] = r.trouble.empty() ? r.text : r.trouble;
        bool passed = reasons[i].empty();
        for (Tally* t : {&table[operators[i]], &total}) ++(passed ? t->passed : t->failed);
        if (o.list) {
          globals.finish_progress();
          std::cout << (passed ? "pass " : "FAIL ") << cases[i].name << (passed ? "" : ": ")
                    << reasons[i] << std::endl;
        }
      });
  globals.finish_progress();
  if (!o.list) print_table(table, total);
  globals.report(facts(cases, reasons, total, o.target));
  globals.say(str(total.passed, " of ", cases.size(), " cases pass"));
  if (o.expect.empty()) return total.failed == 0 ? kOk : kDifferent;
  return compare_with(expected, cases, reasons, o.only) == 0 ? kOk : kDifferent;
}

}  // namespace

Verb conformance_verb(CLI::App& app, const Globals& globals) {
  auto o = std::make_shared<Options>();
  CLI::App* c = app.add_subcommand("conformance", "run a tree of ONNX test cases");
  c->add_option("DIR", o->folder, "holds folders with model.onnx and test_data_set_*")->required();
  c->add_option("--only", o->only, "cases whose name matches")->type_name("GLOB");
  c->add_option("--target", o->target, "what runs them: interp, cpu");
  c->add_flag("--list", o->list, "a line per case instead of the table by operator");
  c->add_option("--limit", o->limit, "seconds that a case may take");
  c->add_option("--expect", o->expect,
                "known failures, 'case: reason' a line: only changes against it are failures");
  return {c, [o, &globals] { return run(*o, globals); }};
}

}  // namespace emend
