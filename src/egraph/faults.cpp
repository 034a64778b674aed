// The invariants of an e-graph, checked the slow way.
#include <algorithm>
#include <map>
#include <set>

#include "egraph/egraph.h"

namespace emend {

std::vector<std::string> EGraph::faults() const {
  std::vector<std::string> found;
  const auto check = [&](bool good, const auto&... what) {
    if (!good && found.size() < 20) found.push_back(str(what...));
  };
  const auto size = static_cast<uint32_t>(rows_.size());
  check(clean(), "not rebuilt");
  check(classes_.size() == size && next_.size() == size && state_.size() == size &&
            users_.size() == size,
        "columns of different lengths");
  if (!found.empty()) return found;

  // Classes: the smallest id is the root, the circle holds the members, one of them lives.
  std::map<uint32_t, std::set<uint32_t>> members;
  for (uint32_t id = 0; id < size; ++id) members[classes_.find(id)].insert(id);
  check(members.size() == class_count_, class_count_, " classes counted, there are ",
        members.size());
  for (const auto& [root, ids] : members) {
    check(root == *ids.begin(), "class ", root, " is not named by its smallest id");
    std::set<uint32_t> circle;
    uint32_t at = root;
    do {
      check(circle.insert(at).second, "class ", root, " meets ", at, " twice");
      at = next_[at];
    } while (at != root && circle.size() <= ids.size());
    check(circle == ids, "class ", root, " lists others than its nodes");
    check(std::any_of(ids.begin(), ids.end(), [&](uint32_t n) { return !(state_[n] & kDead); }),
          "class ", root, " has no live node");
  }

  // Hash-consing: the live nodes are canonical, different, found, and nothing else is.
  std::map<std::pair<std::pair<uint32_t, uint32_t>, std::vector<uint32_t>>, uint32_t> contents;
  size_t live = 0;
  std::map<uint32_t, std::set<uint32_t>> users;
  for (uint32_t id = 0; id < size; ++id) {
    if (state_[id] & kDead) continue;
    ++live;
    const auto mine = children(id);
    check(canonical(rows_[id], mine), "node ", id, " has a child that is not canonical");
    std::vector<uint32_t> content;
    for (ClassId c : mine) {
      content.push_back(c.value);
      users[c.value].insert(id);
    }
    const auto [other, fresh] =
        contents.try_emplace({{rows_[id].kind, rows_[id].attr}, content}, id);
    check(fresh, "nodes ", id, " and ", other->second, " are the same");
    check(lookup(rows_[id].op(), rows_[id].attr, mine).value == id, "node ", id, " is not found");
  }
  check(live == hash_cons_.size(), live, " live nodes, ", hash_cons_.size(), " in the table");
  size_t filled = 0;
  for (const auto& slot : hash_cons_.slots()) filled += slot.node != HashCons::kEmpty;
  check(filled == live, filled, " slots are filled for ", live, " nodes");

  for (const auto& [root, ids] : members) {
    std::set<uint32_t> listed;
    for (ENodeId p : parents_of(ClassId(size_t{root}))) listed.insert(p.value);
    check(listed == users[root], "class ", root, " lists others than its users");
  }
  return found;
}

}  // namespace emend
