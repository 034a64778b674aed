// emend optimize IN OUT: reads a model, improves it, writes it.
#include <iostream>
#include <memory>

#include "export/onnx.h"
#include "verb.h"

namespace emend {
namespace {

struct Options {
  std::string in, out;
  std::vector<std::string> shapes;
  int level = 0;
  int64_t target_opset = 0;
};

int run(const Options& o, const Globals& globals) {
  ImportOptions import;
  apply_shapes(o.shapes, import);
  Model model = import_onnx(o.in, import);
  for (const auto& note : model.info.specialised) globals.say("specialised: " + note);
  if (o.out.empty()) return kOk;
  Exported exported = export_onnx(model, o.out, {.target_opset = o.target_opset});
  for (const auto& note : exported.notes) globals.say(note);
  return kOk;
}

}  // namespace

Verb optimize_verb(CLI::App& app, const Globals& globals) {
  auto o = std::make_shared<Options>();
  CLI::App* c = app.add_subcommand("optimize", "improve a model and write it as ONNX");
  c->add_option("IN", o->in, "the model")->required();
  c->add_option("OUT", o->out, "where to write the result");
  c->add_option("-O", o->level, "how hard to try; 0 changes nothing")->check(CLI::Range(0, 0));
  c->add_option("--target-opset", o->target_opset, "write this version of the ONNX operators");
  add_shape_option(*c, o->shapes);
  return {c, [o, &globals] { return run(*o, globals); }};
}

}  // namespace emend
