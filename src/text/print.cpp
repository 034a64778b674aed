#include <algorithm>
#include <cctype>
#include <cmath>
#include <functional>

#include "ops/table.h"
#include "text/text.h"

namespace emend {
namespace {

bool is_identifier(std::string_view s) {
  if (s.empty() || !(std::isalpha(static_cast<unsigned char>(s[0])) || s[0] == '_')) return false;
  for (char c : s) {
    if (!std::isalnum(static_cast<unsigned char>(c)) && c != '_') return false;
  }
  return s != "graph" && s != "return" && s != "donated";
}

std::string name_text(const std::string& s) {
  return is_identifier(s) ? s : quoted(s);
}

class Printer {
 public:
  explicit Printer(const PrintOptions& options) : options_(options) {}

  std::string graph(const Graph& g, const std::string& indent) {
    std::string out = head(g);
    std::vector<NodeId> first_use(g.constants.size());
    for (size_t i = 0; i < g.size(); ++i) {
      NodeId id{i};
      if (g.nodes[id].op != kInputOp) out += line(g, id, indent + "  ", "", first_use);
    }
    return out + tail(g, indent);
  }

  std::string partition(const Graph& g, const Partition& p) {
    std::string out = head(g);
    std::vector<NodeId> first_use(g.constants.size());
    std::vector<bool> grouped(g.size(), false), printed(g.size(), false);
    for (size_t i = 0; i < g.size(); ++i) {
      if (g.is_constant(NodeId(i))) out += line(g, NodeId(i), "  ", "", first_use);
      printed[i] = g.is_constant(NodeId(i)) || g.nodes[NodeId(i)].op == kInputOp;
    }
    // What no group computes stands before whoever reads it.
    std::function<void(NodeId)> renaming = [&](NodeId n) {
      if (printed[n.value] || grouped[n.value]) return;
      printed[n.value] = true;
      for (NodeId a : g.nodes[n].args) renaming(a);
      out += line(g, n, "  ", "", first_use);
    };
    for (const NodeGroup& group : p.groups) {
      for (NodeId n : group.nodes) grouped[n.value] = true;
      for (NodeId n : group.nodes) {
        for (NodeId a : g.nodes[n].args) renaming(a);
      }
      out += group.host ? str("  host ", quoted(group.reason), " {\n") : "  kernel {\n";
      for (NodeId n : group.nodes) {
        bool stored = std::ranges::find(group.stores, n) != group.stores.end();
        out += line(g, n, "    ", stored ? "store " : "", first_use);
      }
      out += "  }\n";
    }
    for (const GraphOutput& o : g.outputs) renaming(o.node);
    return out + tail(g, "");
  }

 private:
  std::string head(const Graph& g) {
    std::string out = "graph(";
    for (size_t i = 0; i < g.inputs.size(); ++i) {
      const GraphInput& in = g.inputs[i];
      out += str(i ? ", " : "", in.donated ? "donated " : "", name_text(in.name), ": ",
                 to_text(g.types[in.node]));
    }
    return out + ") {\n";
  }

  std::string tail(const Graph& g, const std::string& indent) {
    std::string out = indent + "  return";
    for (size_t i = 0; i < g.outputs.size(); ++i) {
      out += str(i ? ", " : " ", name_text(g.outputs[i].name), " = ", ref(g, g.outputs[i].node));
    }
    return out + "\n" + indent + "}";
  }

  std::string line(const Graph& g, NodeId id, const std::string& indent, const char* mark,
                   std::vector<NodeId>& first_use) {
    std::string out = str(indent, mark, "%", id.value, " = ");
    out += g.is_constant(id) ? constant(g, id, first_use) : call(g, id, indent);
    if (options_.names && !g.names[id].empty()) out += " @" + quoted(g.names[id]);
    return out + "\n";
  }

  std::string ref(const Graph& g, NodeId id) {
    const Node& n = g.nodes[id];
    if (n.op != kInputOp) return str("%", id.value);
    const std::string& name = g.inputs[static_cast<size_t>(n.attrs.get<int64_t>("index"))].name;
    // Inputs of a loop's body may share a name; their place tells them apart.
    auto called_so = [&](const GraphInput& i) { return i.name == name; };
    bool unique = std::count_if(g.inputs.begin(), g.inputs.end(), called_so) == 1;
    return unique ? name_text(name) : str("%", id.value);
  }

  std::string constant(const Graph& g, NodeId id, std::vector<NodeId>& first_use) {
    auto k = static_cast<size_t>(g.nodes[id].attrs.get<int64_t>("index"));
    if (first_use[k].valid()) return str("same %", first_use[k].value);
    first_use[k] = id;
    const Tensor& t = g.constants[ConstId(k)];
    if (options_.all_constants || t.count() <= options_.inline_elements)
      return "constant " + tensor(t);
    return str("constant ", to_text(t.type()), " pool(", options_.place ? options_.place(t) : k,
               ")");
  }

  std::string call(const Graph& g, NodeId id, const std::string& indent) {
    const Node& n = g.nodes[id];
    const OpDef& def = op_def(n);
    std::string attrs;
    for (const AttrSpec& spec : def.attrs) {
      const AttrValue* v = n.attrs.find(spec.name);
      if (*v == spec.fallback && !spec.required) continue;
      attrs += str(attrs.empty() ? "[" : ", ", spec.name, "=", value(*v, indent));
    }
    if (!attrs.empty()) attrs += "]";
    std::string args;
    for (NodeId a : n.args) args += (args.empty() ? "" : ", ") + ref(g, a);
    return str(def.name, attrs, "(", args, ") : ", to_text(g.types[id]));
  }

  std::string tensor(const Tensor& t) {
    std::string out = to_text(t.type());
    bool plain = t.dtype() == DType::string || !is_complex(t.dtype());
    for (int64_t i = 0; plain && is_float(t.dtype()) && i < t.count(); ++i)
      plain = !std::isnan(t.real(i));
    if (!plain) {  // bit patterns that decimal text would lose
      static constexpr char kHex[] = "0123456789abcdef";
      out += " hex ";
      for (std::byte b : t.bytes()) {
        out += kHex[std::to_integer<int>(b) >> 4];
        out += kHex[std::to_integer<int>(b) & 15];
      }
      return out;
    }
    out += "{";
    for (int64_t i = 0; i < t.count(); ++i) {
      if (i) out += ", ";
      if (t.dtype() == DType::string)
        out += quoted(t.strings()[static_cast<size_t>(i)]);
      else if (t.dtype() == DType::f32)
        out += number_text(static_cast<float>(t.real(i)));
      else if (is_float(t.dtype()))
        out += number_text(t.real(i));
      else if (t.dtype() == DType::u64)
        out += str(static_cast<uint64_t>(t.integer(i)));
      else
        out += str(t.integer(i));
    }
    return out + "}";
  }

  std::string value(const AttrValue& v, const std::string& indent) {
    if (auto* t = v.as<Tensor>()) return "tensor " + tensor(*t);
    if (auto* t = v.as<Type>()) return "type " + to_text(*t);
    if (auto* g = v.as<GraphRef>()) return *g ? graph(**g, indent) : "none";
    if (auto* d = v.as<std::vector<double>>(); d && d->empty()) return "reals[]";
    if (auto* s = v.as<std::vector<std::string>>(); s && s->empty()) return "strings[]";
    if (auto* a = v.as<Attrs>()) {
      std::string out;
      for (const auto& [name, item] : a->entries()) {
        out += str(out.empty() ? "" : ", ", name_text(name), "=", value(item, indent));
      }
      return "{" + out + "}";
    }
    return to_text(v);
  }

  const PrintOptions& options_;
};

}  // namespace

std::string print(const Graph& g, const PrintOptions& options) {
  return Printer(options).graph(g, "") + "\n";
}

std::string print(const Graph& g, const Partition& p, const PrintOptions& options) {
  return Printer(options).partition(g, p) + "\n";
}

}  // namespace emend
