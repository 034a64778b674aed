#include "pipeline/kept_plans.h"

#include "base/json.h"

namespace emend {
namespace {

Json json_of(const std::vector<NodeId>& nodes) {
  Json j = Json::array();
  for (NodeId n : nodes) j.push(static_cast<int64_t>(n.value));
  return j;
}

std::vector<NodeId> nodes_of(const Json& j) {
  std::vector<NodeId> nodes;
  if (const auto* list = j.as<Json::Array>()) {
    for (const Json& n : *list) nodes.push_back(NodeId(static_cast<size_t>(n.number_or(0))));
  }
  return nodes;
}

std::string text_in(const Json& j) {
  const auto* text = j.as<std::string>();
  return text ? *text : "";
}

bool is_true(const Json& j) {
  const bool* b = j.as<bool>();
  return b && *b;
}

}  // namespace

std::optional<KeptPlan> KeptPlans::find(const std::string& key) const {
  auto content = files_.find(key);
  if (!content) return std::nullopt;
  auto j = Json::parse(*content);
  if (!j) return std::nullopt;
  const auto* groups = j->at("groups").as<Json::Array>();
  const auto* raced = j->at("raced").as<Json::Array>();
  if (!groups || !raced) return std::nullopt;
  KeptPlan plan{.program = static_cast<size_t>(j->at("program").number_or(0)),
                .ahead = nodes_of(j->at("ahead")),
                .graph = text_in(j->at("graph"))};
  for (const Json& g : *groups) {
    plan.partition.groups.push_back({.nodes = nodes_of(g.at("nodes")),
                                     .stores = nodes_of(g.at("stores")),
                                     .host = is_true(g.at("host"))});
    plan.choices.push_back(text_in(g.at("choice")));
    plan.prices_s.push_back(g.at("price_s").number_or(0));
  }
  for (const Json& r : *raced)
    plan.raced.push_back({text_in(r.at("name")), r.at("ms").number_or(0), is_true(r.at("used"))});
  return plan;
}

void KeptPlans::keep(const std::string& key, const KeptPlan& plan) const {
  Json j = Json::object();
  j["program"] = plan.program;
  j["ahead"] = json_of(plan.ahead);
  j["graph"] = plan.graph;
  j["groups"] = Json::array();
  for (size_t k = 0; k < plan.partition.groups.size(); ++k) {
    const NodeGroup& group = plan.partition.groups[k];
    Json& g = j["groups"].push(Json::object());
    g["nodes"] = json_of(group.nodes);
    g["stores"] = json_of(group.stores);
    g["host"] = group.host;
    g["choice"] = plan.choices[k];
    g["price_s"] = plan.prices_s[k];
  }
  j["raced"] = Json::array();
  for (const PlanTime& p : plan.raced) {
    Json& r = j["raced"].push(Json::object());
    r["name"] = p.name;
    r["ms"] = p.ms;
    r["used"] = p.used;
  }
  files_.keep(key, j.line());
}

}  // namespace emend
