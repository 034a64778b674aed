// emend zoo [NAME OUT]: writes a built-in model; without a name, lists them.
#include "zoo/zoo.h"

#include <iomanip>
#include <iostream>
#include <memory>

#include "base/text.h"
#include "equiv/region.h"
#include "export/onnx.h"
#include "verb.h"

namespace emend {
namespace {

struct Options {
  std::string name, out;
  ZooOptions zoo;
};

// All the numbers a model starts with.
double parameter_count(const Graph& g) {
  double n = 0;
  for (const Tensor& t : g.constants) {
    if (is_float(t.dtype())) n += static_cast<double>(t.count());
  }
  return n;
}

int list(const Options& o, const Globals& globals) {
  Json models = Json::array();
  bool table = globals.json != "-";
  if (table) {
    std::cout << std::left << std::setw(17) << "model" << std::right << std::setw(11)
              << "parameters" << std::setw(10) << "FLOPs" << std::setw(8) << "nodes"
              << "  what it is\n";
  }
  for (const ZooEntry& e : zoo()) {
    Graph g = build_zoo(e.name, {.batch = o.zoo.batch, .weights = false}).graph;
    double parameters = parameter_count(g), operations = operation_count(g);
    size_t nodes = g.size() - g.inputs.size() - g.constants.size();
    if (table) {
      std::cout << std::left << std::setw(17) << e.name << std::right << std::setw(11)
                << count_text(parameters) << std::setw(10) << count_text(operations) << std::setw(8)
                << nodes << "  " << e.doc << '\n';
    }
    Json& m = models.push(Json::object());
    m["name"] = e.name;
    m["doc"] = e.doc;
    m["parameters"] = parameters;
    m["operations"] = operations;
    m["nodes"] = nodes;
  }
  Json facts = Json::object();
  facts["schema"] = 1;
  facts["models"] = std::move(models);
  globals.report(facts);
  return kOk;
}

int write(Options o, const Globals& globals) {
  if (o.out.empty()) throw UsageError{str("emend zoo ", o.name, " needs a file to write to")};
  o.zoo.seed = static_cast<int64_t>(globals.seed);
  Model model = build_zoo(o.name, o.zoo);
  Exported exported = export_onnx(model, o.out);
  for (const auto& note : exported.notes) globals.say(note);
  return kOk;
}

}  // namespace

Verb zoo_verb(CLI::App& app, const Globals& globals) {
  auto o = std::make_shared<Options>();
  CLI::App* c = app.add_subcommand("zoo", "write a built-in model; without a name, list them");
  c->add_option("NAME", o->name, "which model");
  c->add_option("OUT", o->out, "the ONNX file to write");
  c->add_option("--batch", o->zoo.batch, "how many samples at once");
  c->add_option("--size", o->zoo.size, "height and width of images");
  c->add_option("--seq", o->zoo.seq, "tokens of a sequence");
  c->add_option("--steps", o->zoo.steps, "time steps or frames");
  c->add_option("--layers", o->zoo.layers, "how many of the equal layers");
  return {c, [o, &globals] { return o->name.empty() ? list(*o, globals) : write(*o, globals); }};
}

}  // namespace emend
