#include "extract/gym.h"

#include <unordered_map>

#include "base/mapped_file.h"

namespace emend {
namespace {

struct RawNode {
  const std::string* id;
  const Json* facts;
  uint32_t cls;
};

double cost_of(const Json& facts) {
  const Json& cost = facts.at("cost");
  if (cost.is_null()) return 1;
  if (!cost.as<int64_t>() && !cost.as<double>()) throw Error("its cost is not a number");
  return cost.number_or(0);
}

const Json::Array& list_of(const Json& facts, std::string_view name) {
  static const Json::Array kNone;
  const Json& list = facts.at(name);
  if (list.is_null()) return kNone;
  const auto* items = list.as<Json::Array>();
  if (!items) throw Error(str("its member ", quoted(name), " is not a list"));
  return *items;
}

const std::string& text_of(const Json& value, std::string_view what) {
  const auto* text = value.as<std::string>();
  if (!text) throw Error(str(what, " is missing or not a text"));
  return *text;
}

// Nodes in the file's order, their classes numbered as they turn up.
class Reader {
 public:
  ExtractionProblem read(const Json& json) {
    const auto* nodes = json.at("nodes").as<Json::Object>();
    if (!nodes) throw Error("this is no e-graph: the member \"nodes\" is missing or no object");
    for (const auto& node : *nodes) {
      with_note([&] { return str("node ", node.first); }, [&] { add(node.first, node.second); });
    }
    std::vector<std::vector<RawNode>> of_class(class_names_.size());
    for (const RawNode& n : nodes_) {
      const bool* subsumed = n.facts->at("subsumed").as<bool>();
      if (!subsumed || !*subsumed) of_class[n.cls].push_back(n);
    }
    for (size_t c = 0; c < of_class.size(); ++c) {
      problem_.add_class(class_names_[c]);
      for (const RawNode& n : of_class[c]) {
        with_note([&] { return str("node ", *n.id); }, [&] { fill(n); });
      }
    }
    for (const Json& root : list_of(json, "root_eclasses")) {
      const std::string& name = text_of(root, "a root");
      auto found = class_ids_.find(name);
      if (found == class_ids_.end()) throw Error(str("root ", name, " is a class without nodes"));
      problem_.roots.push_back(found->second);
    }
    return std::move(problem_);
  }

 private:
  void add(const std::string& id, const Json& facts) {
    if (!facts.as<Json::Object>()) throw Error("is not an object");
    const std::string& name = text_of(facts.at("eclass"), "its \"eclass\"");
    auto [at, fresh] = class_ids_.try_emplace(name, static_cast<uint32_t>(class_names_.size()));
    if (fresh) class_names_.push_back(name);
    class_of_node_.emplace(id, at->second);
    nodes_.push_back({&id, &facts, at->second});
  }

  void fill(const RawNode& n) {
    std::vector<uint32_t> children;
    for (const Json& child : list_of(*n.facts, "children")) {
      const std::string& id = text_of(child, "a child");
      auto found = class_of_node_.find(id);
      if (found == class_of_node_.end()) throw Error(str("its child ", id, " does not exist"));
      children.push_back(found->second);
    }
    problem_.add_node(cost_of(*n.facts), children, *n.id);
  }

  ExtractionProblem problem_;
  std::vector<RawNode> nodes_;
  std::vector<std::string> class_names_;
  std::unordered_map<std::string, uint32_t> class_ids_, class_of_node_;
};

}  // namespace

ExtractionProblem parse_gym(std::string_view text) {
  const Json json = Json::parse(text).value_or_throw();
  ExtractionProblem p = Reader().read(json);
  validate(p);
  return p;
}

ExtractionProblem read_gym(const std::filesystem::path& file) {
  return with_note([&] { return file.string(); },
                   [&] {
                     SharedBytes bytes = map_file(file).value_or_throw();
                     return parse_gym(bytes.text());
                   });
}

Json gym_json(const ExtractionProblem& p) {
  Json::Object nodes;
  for (uint32_t c = 0; c < p.class_count(); ++c) {
    for (uint32_t n : p.nodes(c)) {
      Json facts = Json::object();
      facts["op"] = p.node_name(n);
      facts["cost"] = p.cost[n];
      facts["eclass"] = p.class_name(c);
      facts["children"] = Json::array();
      for (uint32_t d : p.children(n)) facts["children"].push(p.node_name(p.first_node[d]));
      nodes.emplace_back(p.node_name(n), std::move(facts));
    }
  }
  Json out = Json::object();
  out["nodes"] = Json(std::move(nodes));
  out["root_eclasses"] = Json::array();
  for (uint32_t r : p.roots) out["root_eclasses"].push(p.class_name(r));
  return out;
}

Json choices_json(const ExtractionProblem& p, std::span<const uint32_t> choice) {
  Json::Object picked;
  for (uint32_t c = 0; c < p.class_count(); ++c) {
    if (choice[c] != kNoNode) picked.emplace_back(p.class_name(c), p.node_name(choice[c]));
  }
  Json out = Json::object();
  out["choices"] = Json(std::move(picked));
  return out;
}

}  // namespace emend
