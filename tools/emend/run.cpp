// emend run MODEL: runs a model on given, stored or random inputs.
#include <iostream>
#include <memory>
#include <optional>

#include "device.h"
#include "fallbacks.h"
#include "how.h"
#include "pipeline/memory_limit.h"
#include "values.h"
#include "verb.h"

namespace emend {
namespace {

struct Options {
  std::string model, target = "interp", data, save;
  InputOptions inputs;
  std::optional<uint64_t> random;
  std::optional<double> memory;
  HowOptions how;
};

int run(const Options& o, const Globals& globals) {
  Device device = device_of(o.target);
  DataSet data;
  if (!o.data.empty()) data = read_data_set(o.model, o.data);
  GivenInputs given(o.inputs, data);
  Model model = import_onnx(o.model, given.import);
  for (const auto& note : model.info.specialised) globals.say("specialised: " + note);
  require_memory(model.graph);
  std::vector<Value> values = given.values(model.graph, o.random);
  CompileFlowOptions options;
  options.memory = o.memory;
  options.cpu.compile.monitor = globals.monitor;
  Graph program = model.graph;
  OptimizeReport optimizing;
  if (device == Device::cpu) {
    OptimizeOptions how = o.how.options(globals);
    how.fold_moves_below = kFoldMovesBelow;
    how.memory = o.memory;
    options.measuring = measuring(o.how, globals);
    ToRun better =
        optimized_for_here(program, how, options.measuring.prices != nullptr, &optimizing);
    program = std::move(better.graph);
    options.others = std::move(better.others);
    options.accuracy = how.accuracy;
  } else if (o.how.level) {
    throw UsageError{"-O: the reference runs a model as it is (--target cpu)"};
  }
  CompileReport report;
  auto outputs = run_once(std::move(program), values, device, options, &report);
  tell_fallbacks(report, globals);
  globals.finish_progress();

  Json facts = Json::object();
  facts["schema"] = 1;
  facts["outputs"] = Json::array();
  bool different = false;
  Tolerance tolerance = data.outputs.empty() ? Tolerance() : tolerance_of(o.model);
  for (size_t i = 0; i < outputs.size(); ++i) {
    const std::string& name = model.graph.outputs[i].name;
    std::string verdict;
    if (i < data.outputs.size()) {
      verdict = difference(outputs[i], data.outputs[i], tolerance);
      different |= !verdict.empty();
      if (verdict.empty()) verdict = "as expected";
    }
    Json& j = facts["outputs"].push(Json::object());
    j["name"] = name;
    j["type"] = to_text(outputs[i].type());
    if (!verdict.empty()) j["verdict"] = verdict;
    if (globals.json != "-")
      std::cout << printable(name) << ": " << to_text(outputs[i].type())
                << (verdict.empty() ? "" : " ") << printable(verdict) << '\n';
  }
  if (!o.save.empty()) save_outputs(model.graph, outputs, o.save);
  if (device == Device::cpu) {
    facts["check"] = optimizing.checked.reason;
    facts["plan_recalled"] = report.plan_recalled;
    add_fallbacks(facts, report, optimizing.faults);
  }
  globals.report(facts);
  return different ? kDifferent : kOk;
}

}  // namespace

Verb run_verb(CLI::App& app, const Globals& globals) {
  auto o = std::make_shared<Options>();
  CLI::App* c = app.add_subcommand("run", "run a model");
  c->add_option("MODEL", o->model, "the model")->required();
  c->add_option("--target", o->target, "what runs it: interp, cpu");
  add_input_options(*c, o->inputs);
  c->add_option("--data", o->data, "an ONNX test_data_set: its inputs are fed, outputs compared");
  c->add_option("--random", o->random, "random values for the other inputs, from this seed");
  add_memory_option(*c, o->memory);
  add_how_options(*c, o->how);
  add_measure_options(*c, o->how);
  c->add_option("--save", o->save, "write each output to NAME.npy in this folder");
  return {c, [o, &globals] { return run(*o, globals); }};
}

}  // namespace emend
