#include "extract/check.h"

namespace emend {

std::vector<uint32_t> find_cycle(const ExtractionProblem& p, std::span<const uint32_t> choice) {
  enum State : char { untouched, on_path, done };
  std::vector<State> state(p.class_count(), untouched);
  struct Step {
    uint32_t cls, next_child;
  };
  std::vector<Step> path;
  for (uint32_t root : p.roots) {
    if (state[root] == untouched) path.push_back({root, 0});
    while (!path.empty()) {
      Step& step = path.back();
      const uint32_t c = step.cls, n = choice[c];
      state[c] = on_path;
      if (n == kNoNode || step.next_child == p.children(n).size()) {
        state[c] = done;
        path.pop_back();
        continue;
      }
      const uint32_t d = p.children(n)[step.next_child++];
      if (state[d] == untouched) path.push_back({d, 0});
      if (state[d] != on_path) continue;
      std::vector<uint32_t> cycle;
      for (size_t i = path.size(); i-- > 0;) {
        cycle.insert(cycle.begin(), path[i].cls);
        if (path[i].cls == d) return cycle;
      }
    }
  }
  return {};
}

Result<double> checked_cost(const ExtractionProblem& p, std::span<const uint32_t> choice) {
  if (choice.size() != p.class_count()) {
    return fail(choice.size(), " choices for ", p.class_count(), " classes");
  }
  std::vector<bool> needed(p.class_count());
  std::vector<uint32_t> open = p.roots;
  while (!open.empty()) {
    const uint32_t c = open.back(), n = choice[c];
    open.pop_back();
    if (needed[c]) continue;
    needed[c] = true;
    if (n == kNoNode) return fail("class ", p.class_name(c), " is needed and has no choice");
    if (n < p.first_node[c] || n >= p.first_node[c + 1]) {
      return fail("the choice of class ", p.class_name(c), " is a node of another class");
    }
    for (uint32_t d : p.children(n)) open.push_back(d);
  }
  if (auto cycle = find_cycle(p, choice); !cycle.empty()) {
    return fail("class ", p.class_name(cycle[0]), " depends on itself");
  }
  double cost = 0;
  for (uint32_t c = 0; c < p.class_count(); ++c) {
    if (needed[c]) cost += p.cost[choice[c]];
  }
  return cost;
}

}  // namespace emend
