#include "extract/problem.h"

#include <cmath>

#include "base/error.h"
#include "extract/greedy.h"

namespace emend {

std::vector<uint32_t> ExtractionProblem::owners() const {
  std::vector<uint32_t> out(node_count());
  for (uint32_t c = 0; c < class_count(); ++c) {
    for (uint32_t n : nodes(c)) out[n] = c;
  }
  return out;
}

std::string ExtractionProblem::class_name(uint32_t c) const {
  return c < class_names.size() && !class_names[c].empty() ? class_names[c] : std::to_string(c);
}

std::string ExtractionProblem::node_name(uint32_t n) const {
  return n < node_names.size() && !node_names[n].empty() ? node_names[n] : std::to_string(n);
}

uint32_t ExtractionProblem::add_class(std::string name) {
  if (!name.empty()) {
    class_names.resize(class_count());
    class_names.push_back(std::move(name));
  }
  first_node.push_back(static_cast<uint32_t>(node_count()));
  return static_cast<uint32_t>(class_count() - 1);
}

uint32_t ExtractionProblem::add_node(double price, std::span<const uint32_t> child_classes,
                                     std::string name) {
  EMEND_ASSERT(class_count() > 0, "a node before the first class");
  if (!name.empty()) {
    node_names.resize(node_count());
    node_names.push_back(std::move(name));
  }
  child.insert(child.end(), child_classes.begin(), child_classes.end());
  first_child.push_back(static_cast<uint32_t>(child.size()));
  cost.push_back(price);
  first_node.back() = static_cast<uint32_t>(node_count());
  return static_cast<uint32_t>(node_count() - 1);
}

namespace {

void validate_nodes(const ExtractionProblem& p, uint32_t c) {
  if (p.nodes(c).empty()) throw Error(str("class ", p.class_name(c), " has no nodes"));
  for (uint32_t n : p.nodes(c)) {
    const auto where = [&] { return str("node ", p.node_name(n), " of class ", p.class_name(c)); };
    if (std::isnan(p.cost[n]) || p.cost[n] < 0) {
      throw Error(str(where(), " costs ", p.cost[n], "; a cost is a number that is not negative"));
    }
    for (uint32_t d : p.children(n)) {
      if (d >= p.class_count()) throw Error(str(where(), " has a child that does not exist: ", d));
    }
  }
}

}  // namespace

void validate(const ExtractionProblem& p) {
  EMEND_ASSERT(p.cost.size() == p.node_count() && p.first_node.back() == p.node_count() &&
                   p.first_child.back() == p.child.size(),
               "arrays of different lengths");
  double sum = 0;
  for (uint32_t c = 0; c < p.class_count(); ++c) {
    validate_nodes(p, c);
    for (uint32_t n : p.nodes(c)) sum += std::isfinite(p.cost[n]) ? p.cost[n] : 0;
  }
  if (!std::isfinite(sum)) throw Error("the costs are so large that their sum is infinite");
  if (p.roots.empty()) throw Error("no root is given: nothing is to be extracted");
  for (uint32_t r : p.roots) {
    if (r >= p.class_count()) throw Error(str("root ", r, " is a class that does not exist"));
  }
  std::vector<uint32_t> choice = tree_choices(p);
  for (uint32_t r : p.roots) {
    if (choice[r] == kNoNode) {
      throw Error(str("root ", p.class_name(r),
                      " cannot be extracted: all its terms are cyclic or infinitely dear"));
    }
  }
}

}  // namespace emend
