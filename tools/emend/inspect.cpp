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

// An ONNX node that is carried along.
struct Opaque {
  std::string node, type, reason;
};

struct Contents {
  std::vector<std::pair<std::string, int>> operators;  // the most frequent first
  int nodes = 0;
  double parameters = 0, weight_bytes = 0, activation_bytes = 0, operations = 0;
  std::vector<Opaque> opaque;
};

// Opaque ones by their ONNX name.
std::string label(const Node& n) {
  if (op_def(n).kind != Kind::opaque) return op_def(n).name;
  auto node = n.attrs.as<OnnxNode>();
  return str("onnx ", node.domain.empty() ? "" : node.domain + ".", node.type);
}

Opaque opaque_node(const Graph& g, NodeId id) {
  auto node = g.nodes[id].attrs.as<OnnxNode>();
  bool known = find_onnx(node.domain, node.type, node.version).row != nullptr;
  return {g.names[id], node.type,
          known ? "waits for values or types that exist only at run time; runs on the host"
                : "not known to Emend; carried through untouched, cannot be run"};
}

Contents contents_of(const Graph& g) {
  Contents all{.operations = operation_count(g)};
  std::map<std::string, int> uses;
  for (size_t i = 0; i < g.size(); ++i) {
    NodeId id{i};
    const Node& n = g.nodes[id];
    if (n.op == kInputOp) continue;
    if (n.op == kConstantOp) {
      if (!is_integer(g.types[id].dtype))
        all.parameters += static_cast<double>(count(g.types[id].shape));
      all.weight_bytes += bytes_of(g.types[id]);
      continue;
    }
    ++uses[label(n)];
    ++all.nodes;
    all.activation_bytes += bytes_of(g.types[id]);
    if (op_def(n).kind == Kind::opaque) all.opaque.push_back(opaque_node(g, id));
  }
  all.operators.assign(uses.begin(), uses.end());
  std::stable_sort(all.operators.begin(), all.operators.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  return all;
}

Json facts_of(const std::string& path, const ModelInfo& info, const Contents& all) {
  Json facts = Json::object();
  facts["schema"] = 1;
  facts["path"] = path;
  facts["opset"] = info.opsets.contains("") ? info.opsets.at("") : 0;
  facts["nodes"] = all.nodes;
  facts["parameters"] = all.parameters;
  facts["weight_bytes"] = all.weight_bytes;
  facts["activation_bytes"] = all.activation_bytes;
  facts["flops"] = all.operations;
  facts["operators"] = Json::object();
  for (const auto& [name, nodes] : all.operators) facts["operators"][name] = nodes;
  facts["opaque"] = Json::array();
  for (const Opaque& o : all.opaque) {
    Json& item = facts["opaque"].push(Json::object());
    item["node"] = o.node;
    item["operator"] = o.type;
    item["reason"] = o.reason;
  }
  facts["specialised"] = Json::array();
  for (const auto& s : info.specialised) facts["specialised"].push(s);
  return facts;
}

void print_head(const std::string& path, const ModelInfo& info) {
  std::cout << path << ": ir " << info.ir_version;
  for (const auto& [domain, version] : info.opsets)
    std::cout << ", opset " << (domain.empty() ? "" : printable(domain) + " ") << version;
  if (!info.producer.empty())
    std::cout << ", by " << printable(info.producer) << (info.producer_version.empty() ? "" : " ")
              << printable(info.producer_version);
  std::cout << '\n';
}

template <class Values>
void print_values(const char* title, const Graph& g, const Values& values,
                  const std::vector<Declaration>& declarations) {
  std::cout << title << '\n';
  for (size_t i = 0; i < values.size(); ++i)
    std::cout << printable(value_line(g, values[i].name, values[i].node, declared(declarations, i)))
              << '\n';
}

void print_contents(const Contents& all) {
  std::cout << "operators\n";
  for (const auto& [name, nodes] : all.operators)
    std::cout << "  " << std::left << std::setw(28) << name << std::right << std::setw(6) << nodes
              << '\n';
  std::cout << "nodes       " << all.nodes << "\nparameters  " << count_text(all.parameters) << " ("
            << bytes_text(all.weight_bytes) << ")\nactivations " << bytes_text(all.activation_bytes)
            << "\narithmetic  " << count_text(all.operations)
            << (all.operations < 1000 ? " FLOP\n" : "FLOP\n");
  for (const Opaque& o : all.opaque)
    std::cout << "not compiled: " << printable(str(o.type, " ", o.node, ": ", o.reason)) << '\n';
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
  const Contents all = contents_of(g);
  globals.report(facts_of(o.model, model.info, all));
  if (globals.json == "-") return kOk;
  print_head(o.model, model.info);
  print_values("inputs", g, g.inputs, model.info.inputs);
  print_values("outputs", g, g.outputs, model.info.outputs);
  for (const auto& s : model.info.specialised) std::cout << "specialised: " << printable(s) << '\n';
  print_contents(all);
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
