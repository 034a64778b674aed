// emend inspect MODEL: what is in it, what it costs, and what Emend cannot do with it.
#include <algorithm>
#include <iomanip>
#include <iostream>
#include <map>
#include <memory>

#include "equiv/region.h"
#include "ir/bytes.h"
#include "ops/onnx_row.h"
#include "ops/table.h"
#include "text/text.h"
#include "verb.h"

namespace emend {
namespace {

struct Options {
  std::string model;
  bool text = false;
  std::vector<std::string> shapes;
};

std::string value_line(const Graph& g, const std::string& name, NodeId node,
                       const Declaration* declared) {
  std::string line = str("  ", name, ": ", to_text(g.types[node]));
  if (!declared) return line;
  std::string symbols;
  for (const auto& s : declared->symbols)
    symbols += (symbols.empty() ? "" : ", ") + (s.empty() ? std::string("-") : s);
  bool any = std::any_of(declared->symbols.begin(), declared->symbols.end(),
                         [](const auto& s) { return !s.empty(); });
  return any ? str(line, "  (declared ", symbols, ")") : line;
}

const Declaration* declared(const std::vector<Declaration>& all, size_t i) {
  return i < all.size() ? &all[i] : nullptr;
}

// Operators by name, with the operations they take; opaque ones by their ONNX name.
struct Use {
  int nodes = 0;
  double operations = 0;
};

std::string label(const Node& n) {
  if (op_def(n).kind != Kind::opaque) return op_def(n).name;
  auto node = n.attrs.as<OnnxNode>();
  return str("onnx ", node.domain.empty() ? "" : node.domain + ".", node.type);
}

int inspect(const Options& o, const Globals& globals) {
  ImportOptions import;
  apply_shapes(o.shapes, import);
  Model model = import_onnx(o.model, import);
  const Graph& g = model.graph;
  if (o.text) {
    std::cout << print(g);
    return kOk;
  }
  std::map<std::string, Use> uses;
  double parameters = 0, weight_bytes = 0, activation_bytes = 0, operations = operation_count(g);
  Json opaque = Json::array();
  for (size_t i = 0; i < g.size(); ++i) {
    NodeId id{i};
    const Node& n = g.nodes[id];
    if (n.op == kInputOp) continue;
    if (n.op == kConstantOp) {
      if (!is_integer(g.types[id].dtype))
        parameters += static_cast<double>(count(g.types[id].shape));
      weight_bytes += bytes_of(g.types[id]);
      continue;
    }
    ++uses[label(n)].nodes;
    activation_bytes += bytes_of(g.types[id]);
    if (op_def(n).kind == Kind::opaque) {
      auto node = n.attrs.as<OnnxNode>();
      bool known = find_onnx(node.domain, node.type, node.version).row != nullptr;
      Json item = Json::object();
      item["node"] = g.names[id];
      item["operator"] = node.type;
      item["reason"] =
          known ? "waits for values or types that exist only at run time; runs on the host"
                : "not known to Emend; carried through untouched, cannot be run";
      opaque.push(item);
    }
  }
  Json facts = Json::object();
  facts["schema"] = 1;
  facts["path"] = o.model;
  facts["opset"] = model.info.opsets.contains("") ? model.info.opsets.at("") : 0;
  facts["nodes"] = 0;
  facts["parameters"] = parameters;
  facts["weight_bytes"] = weight_bytes;
  facts["activation_bytes"] = activation_bytes;
  facts["flops"] = operations;
  int nodes = 0;
  Json operators = Json::object();
  std::vector<std::pair<std::string, Use>> sorted(uses.begin(), uses.end());
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const auto& a, const auto& b) { return a.second.nodes > b.second.nodes; });
  for (const auto& [name, use] : sorted) {
    operators[name] = use.nodes;
    nodes += use.nodes;
  }
  facts["nodes"] = nodes;
  facts["operators"] = operators;
  facts["opaque"] = opaque;
  Json specialised = Json::array();
  for (const auto& s : model.info.specialised) specialised.push(s);
  facts["specialised"] = specialised;
  globals.report(facts);
  if (globals.json == "-") return kOk;

  std::cout << o.model << ": ir " << model.info.ir_version;
  for (const auto& [domain, version] : model.info.opsets)
    std::cout << ", opset " << (domain.empty() ? "" : printable(domain) + " ") << version;
  if (!model.info.producer.empty())
    std::cout << ", by " << printable(model.info.producer)
              << (model.info.producer_version.empty() ? "" : " ")
              << printable(model.info.producer_version);
  std::cout << "\ninputs\n";
  for (size_t i = 0; i < g.inputs.size(); ++i) {
    std::cout << printable(value_line(g, g.inputs[i].name, g.inputs[i].node,
                                      declared(model.info.inputs, i)))
              << "\n";
  }
  std::cout << "outputs\n";
  for (size_t i = 0; i < g.outputs.size(); ++i) {
    std::cout << printable(value_line(g, g.outputs[i].name, g.outputs[i].node,
                                      declared(model.info.outputs, i)))
              << "\n";
  }
  for (const auto& s : model.info.specialised) std::cout << "specialised: " << printable(s) << "\n";
  std::cout << "operators\n";
  for (const auto& [name, use] : sorted)
    std::cout << "  " << std::left << std::setw(28) << name << std::right << std::setw(6)
              << use.nodes << "\n";
  std::cout << "nodes       " << nodes << "\nparameters  " << count_text(parameters) << " ("
            << bytes_text(weight_bytes) << ")\nactivations " << bytes_text(activation_bytes)
            << "\narithmetic  " << count_text(operations)
            << (operations < 1000 ? " FLOP\n" : "FLOP\n");
  for (const Json& item : *opaque.as<Json::Array>()) {
    std::cout << "not compiled: "
              << printable(str(*item.at("operator").as<std::string>(), " ",
                               *item.at("node").as<std::string>(), ": ",
                               *item.at("reason").as<std::string>()))
              << "\n";
  }
  return kOk;
}

}  // namespace

Verb inspect_verb(CLI::App& app, const Globals& globals) {
  auto options = std::make_shared<Options>();
  CLI::App* c =
      app.add_subcommand("inspect", "operators, shapes, parameters, arithmetic of a model");
  c->add_option("MODEL", options->model, "an ONNX file")->required();
  c->add_flag("--text", options->text, "print the program instead");
  add_shape_option(*c, options->shapes);
  return {c, [options, &globals] { return inspect(*options, globals); }};
}

}  // namespace emend
