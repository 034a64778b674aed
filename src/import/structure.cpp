#include "import/structure.h"

#include <algorithm>
#include <queue>
#include <set>
#include <unordered_map>
#include <unordered_set>

#include "import/arity.h"
#include "import/attributes.h"
#include "import/tensor.h"
#include "ir/memory_budget.h"
#include "ir/unshaped.h"
#include "ops/onnx_lower.h"

namespace emend {
namespace {

constexpr size_t kMaxCallDepth = 64;

using Opsets = std::map<std::string, int64_t>;

std::string plain_domain(const std::string& domain) {
  return domain == "ai.onnx" ? "" : domain;
}

std::string node_label(const onnx::Node& n) {
  std::string name = n.name;
  for (size_t i = 0; name.empty() && i < n.output.size(); ++i) name = n.output[i];
  return str("node ", name.empty() ? "" : emend::quoted(name) + " ", "(", n.op_type, ")");
}

// What the nodes of one graph or function body see.
struct Scope {
  GraphBuilder& b;
  Scope* outer = nullptr;  // of a subgraph: the graph around it
  const Opsets& opsets;
  const AttributeBindings& attributes;  // of the function around, for attribute references
  std::string prefix;                   // of names, inside inlined functions
  bool main = false;                    // the model's own graph
  // What the file says of values: of those in subgraphs only the element type, since a body may
  // run at several shapes.
  std::unordered_map<std::string, Type> types = {};
  // An invalid id is an optional parameter that the function's caller left out.
  std::unordered_map<std::string, NodeId> values = {};
  std::vector<std::string> captured = {};

  void define(const std::string& name, NodeId id) {
    if (!values.insert({name, id}).second)
      throw Error(str("the value ", emend::quoted(name), " is defined twice"));
  }
  // The type of a value that this scope or one around it defines; null if none does.
  const Type* visible_type(const std::string& name) const {
    for (const Scope* s = this; s; s = s->outer) {
      auto it = s->values.find(name);
      if (it != s->values.end()) return it->second.valid() ? &s->b.type(it->second) : nullptr;
    }
    return nullptr;
  }
  NodeId find(const std::string& name) {
    if (auto it = values.find(name); it != values.end()) return it->second;
    const Type* type = outer ? outer->visible_type(name) : nullptr;
    if (!type)
      throw Error(str("the value ", emend::quoted(name), " is used, but nothing produces it"));
    captured.push_back(name);
    return values[name] = b.input(name, *type);
  }
};

// Gradient names values of the graph around it by attributes: they become captured values, in the
// order xs, zs, y.
std::vector<std::string> values_named_by(const OnnxNode& node) {
  std::vector<std::string> names;
  if (node.type != "Gradient" || node.domain != "ai.onnx.preview.training") return names;
  for (const char* list : {"xs", "zs"}) {
    for (auto& name : node.attributes.get_or<std::vector<std::string>>(list, {}))
      names.push_back(std::move(name));
  }
  names.push_back(node.attributes.get_or<std::string>("y", ""));
  return names;
}

// Names that a node refers to, its subgraphs' free names included.
void add_used_names(const onnx::Node& n, std::unordered_set<std::string>& used);

void add_used_names(const onnx::Graph& g, std::unordered_set<std::string>& used) {
  std::unordered_set<std::string> inside;
  for (const auto& n : g.node) add_used_names(n, inside);
  for (const auto& o : g.output) inside.insert(o.name);
  for (const auto& n : g.node) {
    for (const auto& o : n.output) inside.erase(o);
  }
  for (const auto& i : g.input) inside.erase(i.name);
  for (const auto& t : g.initializer) inside.erase(t.name);
  used.insert(inside.begin(), inside.end());
}

void add_used_names(const onnx::Node& n, std::unordered_set<std::string>& used) {
  used.insert(n.input.begin(), n.input.end());
  for (const auto& a : n.attribute) {
    if (a.g) add_used_names(*a.g, used);
    for (const auto& g : a.graphs) add_used_names(g, used);
  }
}

// Nodes in an order in which every value is produced before it is used; the file's own order
// wherever that is one.
std::vector<size_t> topological_order(const std::vector<onnx::Node>& nodes) {
  std::unordered_map<std::string, size_t> producer;
  for (size_t i = 0; i < nodes.size(); ++i) {
    for (const auto& o : nodes[i].output) {
      if (!o.empty() && !producer.insert({o, i}).second) {
        throw Error(str("the value ", emend::quoted(o), " is produced twice"))
            .note(node_label(nodes[i]));
      }
    }
  }
  std::vector<size_t> waiting_for(nodes.size(), 0);
  std::vector<std::vector<size_t>> users(nodes.size());
  std::priority_queue<size_t, std::vector<size_t>, std::greater<>> ready;
  for (size_t i = 0; i < nodes.size(); ++i) {
    std::unordered_set<std::string> used;
    add_used_names(nodes[i], used);
    for (const auto& name : used) {
      auto it = producer.find(name);
      if (name.empty() || it == producer.end()) continue;
      users[it->second].push_back(i);
      ++waiting_for[i];
    }
    if (waiting_for[i] == 0) ready.push(i);
  }
  std::vector<size_t> order;
  while (!ready.empty()) {
    size_t i = ready.top();
    ready.pop();
    order.push_back(i);
    for (size_t user : users[i]) {
      if (--waiting_for[user] == 0) ready.push(user);
    }
  }
  if (order.size() < nodes.size()) {
    auto stuck =
        std::find_if(waiting_for.begin(), waiting_for.end(), [](size_t w) { return w > 0; });
    throw Error("the graph has a cycle through this node")
        .note(node_label(nodes[static_cast<size_t>(stuck - waiting_for.begin())]));
  }
  return order;
}

void check_inputs(const OnnxNode& node) {
  if (!node.domain.empty()) return;
  auto required = static_cast<size_t>(required_inputs(node.type));
  if (node.present.size() < required) {
    throw Error(str("needs at least ", required, " inputs and has ", node.present.size()));
  }
  for (size_t i = 0; i < required; ++i) {
    if (!node.present[i]) throw Error(str("needs input ", i, ", which is left out"));
  }
}

class Structure {
 public:
  Structure(const onnx::Model& model, const Sizes& sizes) : model_(model), sizes_(sizes) {
    for (const auto& f : model.functions) {
      auto key = std::make_tuple(plain_domain(f.domain), f.name, f.overload);
      if (!functions_.insert({key, &f}).second)
        throw Error(str("function ", emend::quoted(f.name), " is defined twice"));
    }
  }

  Graph run(const std::vector<const onnx::ValueInfo*>& inputs) {
    GraphBuilder b;
    Opsets opsets = opset_versions(model_.opset_import);
    AttributeBindings none;
    Scope scope{.b = b, .opsets = opsets, .attributes = none, .main = true};
    add_types(model_.graph, scope);
    for (const auto* i : inputs) scope.define(i->name, b.input(i->name, sizes_.input_type(*i)));
    add_initializers(model_.graph, scope);
    add_nodes(model_.graph.node, scope);
    for (const auto& o : model_.graph.output) b.output(o.name, output_value(o.name, scope));
    return std::move(b).build();
  }

 private:
  static NodeId output_value(const std::string& name, Scope& scope) {
    return with_note([&] { return str("output ", emend::quoted(name)); },
                     [&] {
                       NodeId n = scope.find(name);
                       if (!n.valid()) throw Error("its value is a parameter that was left out");
                       return n;
                     });
  }

  void add_types(const onnx::Graph& g, Scope& scope) const {
    for (const auto* list : {&g.value_info, &g.output}) {
      for (const auto& v : *list) {
        if (!v.type) continue;
        Type type = sizes_.known_type(*v.type);
        if (!scope.main && type.is_tensor()) type = unshaped(type.dtype);
        scope.types.insert({v.name, std::move(type)});
      }
    }
  }

  static void add_initializers(const onnx::Graph& g, Scope& scope) {
    for (const auto& t : g.initializer) {
      if (scope.values.contains(t.name) && scope.main) continue;  // an input that overrides it
      scope.b.set_origin(scope.prefix + t.name);
      scope.define(t.name, scope.b.constant(to_tensor(t)));
    }
    for (const auto& t : g.sparse_initializer) {
      Tensor dense = to_dense(t);
      scope.b.set_origin(scope.prefix + t.values->name);
      scope.define(t.values->name, scope.b.constant(dense));
    }
  }

  void add_nodes(const std::vector<onnx::Node>& nodes, Scope& scope) {
    for (size_t i : topological_order(nodes)) {
      with_note([&] { return node_label(nodes[i]); }, [&] { add_node(nodes[i], scope); });
    }
  }

  void add_node(const onnx::Node& n, Scope& scope) {
    if (!calls_.empty()) spend_node(scope.prefix.size());
    auto first = std::find_if(n.output.begin(), n.output.end(),
                              [](const std::string& o) { return !o.empty(); });
    if (first == n.output.end()) return;  // nobody can see what it computes
    const std::string origin = scope.prefix + *first;
    scope.b.set_origin(origin);
    auto function = functions_.find({plain_domain(n.domain), n.op_type, n.overload});
    if (function != functions_.end()) return add_call(n, *function->second, scope, origin);
    if (n.op_type == "Constant" && plain_domain(n.domain).empty()) {
      if (auto value = constant_value(n, scope.attributes)) {
        return scope.define(n.output[0], scope.b.constant(*value));
      }
    }
    add_onnx(n, scope);
  }

  void add_onnx(const onnx::Node& n, Scope& scope) {
    OnnxNode node{.type = n.op_type, .domain = plain_domain(n.domain)};
    auto version = scope.opsets.find(node.domain);
    if (version == scope.opsets.end() && node.domain.empty())
      throw Error("the file does not say which version of the ONNX operators it uses");
    node.version = version == scope.opsets.end() ? 1 : version->second;
    if (node.domain.empty() && node.version > kNewestOpset) {
      throw Error(
          str("opset ", node.version, " is newer than ", kNewestOpset, ", the newest one known"));
    }
    std::vector<NodeId> operands;
    for (const auto& name : n.input) {
      NodeId id = name.empty() ? NodeId() : scope.find(name);
      node.present.push_back(id.valid());
      if (id.valid()) operands.push_back(id);
    }
    while (!node.present.empty() && !node.present.back()) node.present.pop_back();
    check_inputs(node);
    size_t outputs = n.output.size();
    while (n.output[outputs - 1].empty()) --outputs;
    node.outputs = static_cast<int64_t>(outputs);
    node.attributes = attributes_of(n, scope, operands, node.captures);
    for (const std::string& name : values_named_by(node)) operands.push_back(scope.find(name));
    node.result = declared_result(n, outputs, scope);
    NodeId made = add_onnx_node(scope.b, node, operands);
    if (outputs == 1) return scope.define(n.output[0], made);
    for (size_t i = 0; i < outputs; ++i) {
      if (n.output[i].empty()) continue;
      scope.b.set_origin(scope.prefix + n.output[i]);
      scope.define(n.output[i], scope.b.get(made, static_cast<int64_t>(i)));
    }
  }

  // What the file says of a node's results.
  static Type declared_result(const onnx::Node& n, size_t outputs, const Scope& scope) {
    std::vector<Type> types;
    for (size_t i = 0; i < outputs; ++i) {
      auto it = scope.types.find(n.output[i]);
      types.push_back(it == scope.types.end() ? Type::any() : it->second);
    }
    return outputs == 1 ? types[0] : Type::tuple(std::move(types));
  }

  // Attributes, and as operands the values that subgraphs capture, by the attributes' names.
  Attrs attributes_of(const onnx::Node& n, Scope& scope, std::vector<NodeId>& operands,
                      Dims& captures) {
    std::vector<Attrs::Entry> entries;
    std::map<std::string, const onnx::Graph*> graphs;
    std::set<std::string> names;
    for (const auto& given : n.attribute) {
      const onnx::Attribute* a = scope.attributes.resolve(given);
      if (!a) continue;  // refers to an attribute that the caller left out
      if (!names.insert(given.name).second)
        throw Error(str("attribute ", emend::quoted(given.name), " is given twice"));
      if (a->g) {
        if (a != &given) throw Error("subgraphs as attributes of functions are not supported");
        graphs[given.name] = &*a->g;
      } else {
        with_note([&] { return str("attribute ", emend::quoted(given.name)); },
                  [&] { entries.emplace_back(given.name, to_attribute(*a)); });
      }
    }
    for (const auto& [name, graph] : graphs) {
      std::vector<std::string> captured;
      Graph body = with_note([&, &name = name] { return str("subgraph ", emend::quoted(name)); },
                             [&, graph = graph] { return subgraph(*graph, scope, captured); });
      entries.emplace_back(name, GraphRef(std::move(body)));
      captures.push_back(static_cast<int64_t>(captured.size()));
      for (const auto& c : captured) operands.push_back(scope.find(c));
    }
    return Attrs(std::move(entries));
  }

  Graph subgraph(const onnx::Graph& g, Scope& outer, std::vector<std::string>& captured) {
    GraphBuilder b;
    Scope scope{.b = b,
                .outer = &outer,
                .opsets = outer.opsets,
                .attributes = outer.attributes,
                .prefix = outer.prefix};
    add_types(g, scope);
    for (const auto& i : g.input) {
      Type type = i.type ? sizes_.known_type(*i.type) : Type::any();
      scope.define(i.name, b.input(i.name, std::move(type)));
    }
    add_initializers(g, scope);
    add_nodes(g.node, scope);
    for (const auto& o : g.output) b.output(o.name, output_value(o.name, scope));
    captured = std::move(scope.captured);
    return std::move(b).build();
  }

  void add_call(const onnx::Node& n, const onnx::Function& f, Scope& caller,
                const std::string& origin) {
    if (std::find(calls_.begin(), calls_.end(), &f) != calls_.end())
      throw Error(str("function ", emend::quoted(f.name), " calls itself"));
    if (calls_.size() >= kMaxCallDepth)
      throw Error(str("functions call one another deeper than ", kMaxCallDepth));
    if (n.input.size() > f.input.size() || n.output.size() > f.output.size()) {
      throw Error(str("function ", emend::quoted(f.name), " takes ", f.input.size(),
                      " inputs and gives ", f.output.size(), " outputs, the call has ",
                      n.input.size(), " and ", n.output.size()));
    }
    Opsets opsets = f.opset_import.empty() ? caller.opsets : opset_versions(f.opset_import);
    AttributeBindings attributes(f, n, caller.attributes);
    Scope scope{.b = caller.b, .opsets = opsets, .attributes = attributes, .prefix = origin + "/"};
    for (size_t i = 0; i < f.input.size(); ++i) {
      bool given = i < n.input.size() && !n.input[i].empty();
      scope.define(f.input[i], given ? caller.find(n.input[i]) : NodeId());
    }
    calls_.push_back(&f);
    with_note([&] { return str("function ", emend::quoted(f.name)); },
              [&] { add_nodes(f.node, scope); });
    calls_.pop_back();
    for (size_t i = 0; i < n.output.size(); ++i) {
      if (n.output[i].empty()) continue;
      NodeId result = output_value(f.output[i], scope);
      caller.b.name(result, caller.prefix + n.output[i]);
      caller.define(n.output[i], result);
    }
  }

  const onnx::Model& model_;
  const Sizes& sizes_;
  std::map<std::tuple<std::string, std::string, std::string>, const onnx::Function*> functions_;
  std::vector<const onnx::Function*> calls_;  // being inlined
};

}  // namespace

std::vector<const onnx::ValueInfo*> proper_inputs(const onnx::Model& model,
                                                  const ImportOptions& options) {
  std::unordered_set<std::string> constants;
  for (const auto& t : model.graph.initializer) constants.insert(t.name);
  for (const auto& t : model.graph.sparse_initializer) {
    if (t.values) constants.insert(t.values->name);
  }
  std::vector<const onnx::ValueInfo*> inputs;
  for (const auto& i : model.graph.input) {
    bool overridden = model.ir_version >= 4 && options.input_values.contains(i.name);
    if (!constants.contains(i.name) || overridden) inputs.push_back(&i);
  }
  return inputs;
}

Graph onnx_structure(const onnx::Model& model, const std::vector<const onnx::ValueInfo*>& inputs,
                     const Sizes& sizes) {
  return Structure(model, sizes).run(inputs);
}

std::map<std::string, int64_t> opset_versions(const std::vector<onnx::OperatorSetId>& imports) {
  std::map<std::string, int64_t> versions;
  for (const auto& o : imports) versions[plain_domain(o.domain)] = o.version;
  if (imports.empty()) versions[""] = 1;  // what files said before there were versions
  return versions;
}

}  // namespace emend
