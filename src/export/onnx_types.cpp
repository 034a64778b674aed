#include "export/onnx_types.h"

#include <algorithm>
#include <map>
#include <sstream>

#include "ops/onnx_lower.h"
#include "ops/table.h"

namespace emend {
namespace {

// One bit per element type.
using TypeSet = uint32_t;
static_assert(kDTypeCount <= 32);

TypeSet bit(DType t) {
  return TypeSet{1} << static_cast<unsigned>(t);
}

// What an operator takes and gives, from a version on.
struct Signature {
  int64_t since = 0;
  std::vector<TypeSet> inputs, outputs;
  bool any_number = false;  // the last input stands for all that follow

  // Every type, where nothing is known about the place.
  TypeSet at(bool input, size_t place) const {
    const auto& sets = input ? inputs : outputs;
    if (place >= sets.size() && (!any_number || sets.empty())) return ~TypeSet{0};
    return sets[std::min(place, sets.size() - 1)];
  }
};

using Signatures = std::map<std::string, std::vector<Signature>, std::less<>>;

Signature parse_signature(const std::string& text, const std::vector<TypeSet>& sets) {
  Signature s;
  std::istringstream words(text);
  char colon = 0;
  words >> s.since >> colon;
  bool inputs = true;
  for (std::string word; words >> word;) {
    if (word == ">") {
      inputs = false;
      continue;
    }
    s.any_number |= word.back() == '*';
    (inputs ? s.inputs : s.outputs)
        .push_back(word[0] == '-' ? ~TypeSet{0} : sets.at(std::stoul(word)));
  }
  return s;
}

Signatures parse_table() {
  std::istringstream lines(
#include "export/onnx_types.inc"
  );
  std::vector<TypeSet> sets;
  Signatures table;
  for (std::string line; std::getline(lines, line);) {
    if (auto equals = line.find(" = "); equals != std::string::npos) {
      TypeSet set = 0;
      for (const auto& name : split(line.substr(equals + 3), ' ')) set |= bit(*dtype_named(name));
      sets.push_back(set);
      continue;
    }
    auto parts = split(line, '|');
    auto& versions = table[parts[0].substr(0, parts[0].find(' '))];
    for (size_t i = 1; i < parts.size(); ++i) versions.push_back(parse_signature(parts[i], sets));
  }
  return table;
}

const Signatures& signatures() {
  static const Signatures table = parse_table();
  return table;
}

// Does the operator take the type there at this opset?
bool takes(const std::vector<Signature>& versions, int64_t opset, bool input, size_t place,
           DType t) {
  const Signature* last = nullptr;
  for (const Signature& s : versions) {
    if (s.since <= opset) last = &s;
  }
  return !last || (last->at(input, place) & bit(t)) != 0;
}

class Search {
 public:
  Search(const Graph& g, int64_t opset) : g_(g), opset_(opset), types_(value_types(g)) {}

  std::string run() const {
    for (size_t i = 0; i < g_.size(); ++i) {
      std::string found = obstacle_at(NodeId(i));
      if (!found.empty()) return found;
    }
    return "";
  }

 private:
  std::string obstacle_at(NodeId id) const {
    const Node& n = g_.nodes[id];
    if (n.op == kGetOp)
      return misfit(n.args[0], id, false, static_cast<size_t>(n.attrs.get<int64_t>("index")));
    if (op_def(n).kind != Kind::opaque) return "";
    auto node = n.attrs.as<OnnxNode>();
    size_t next = 0;
    for (size_t place = 0; place < node.present.size(); ++place) {
      if (!node.present[place]) continue;
      auto found = misfit(id, n.args[next++], true, place);
      if (!found.empty()) return found;
    }
    for (const auto& [name, value] : node.attributes.entries()) {
      if (auto* body = value.as<GraphRef>()) {
        auto found = type_obstacle(**body, opset_);
        if (!found.empty()) return found;
      }
    }
    return misfit(id, id, false, 0);
  }

  // Of a value that is an operand or a result of a node.
  std::string misfit(NodeId at, NodeId value, bool input, size_t place) const {
    if (op_def(g_.nodes[at]).kind != Kind::opaque) return "";
    auto node = g_.nodes[at].attrs.as<OnnxNode>();
    const Type& type = types_[value];
    auto found = signatures().find(node.type);
    if (!node.domain.empty() || !type.is_tensor() || found == signatures().end()) return "";
    if (takes(found->second, opset_, input, place, type.dtype)) return "";
    const std::string& name = g_.names[at];
    std::string whose =
        name.empty() ? node.type : str("node ", emend::quoted(name), " (", node.type, ")");
    return str(whose, ": ", input ? "input " : "output ", place, " is ", to_text(type.dtype),
               ", which ", node.type, " of opset ", opset_,
               input ? " does not take" : " does not give");
  }

  const Graph& g_;
  int64_t opset_;
  IdVec<NodeId, Type> types_;
};

}  // namespace

IdVec<NodeId, Type> value_types(const Graph& raised) {
  Graph g = raised;
  IdVec<NodeId, Type> types(g.size(), Type::any());
  IdVec<NodeId, char> is_tuple(g.size(), 0);
  for (const Node& n : g.nodes) {
    if (n.op == kGetOp) is_tuple[n.args[0]] = 1;
  }
  std::vector<NodeId> asked;
  g.outputs.clear();
  for (size_t i = 0; i < g.size(); ++i) {
    if (is_tuple[NodeId(i)]) continue;
    g.outputs.push_back({"", NodeId(i)});
    asked.push_back(NodeId(i));
  }
  Graph lowered = lower_onnx(g).graph;
  for (size_t i = 0; i < asked.size(); ++i)
    types[asked[i]] = lowered.types[lowered.outputs[i].node];
  return types;
}

std::string type_obstacle(const Graph& raised, int64_t opset) {
  return Search(raised, opset).run();
}

int64_t newest_typed_opset() {
  int64_t newest = 0;
  for (const auto& [name, versions] : signatures())
    newest = std::max(newest, versions.back().since);
  return newest;
}

}  // namespace emend
