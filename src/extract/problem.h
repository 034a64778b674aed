// An extraction problem: classes of equal terms, each a list of nodes with a price and child
// classes, and the classes that are wanted (roots). A solution picks one node for every class that
// is needed, without cycles; its cost is the sum over the *distinct* classes picked (sharing is
// free).
//
// Plain arrays, so that any e-graph can be turned into one and a test can write one by hand:
//   ExtractionProblem p;
//   p.add_class("a");  p.add_node(2.0, {});          // a = leaf
//   p.add_class("b");  p.add_node(1.0, {0, 0});      // b = f(a, a)
//   p.roots = {1};                                   // costs 3
// Nodes belong to the class added last. Cycles between classes are ordinary; a class that has only
// cyclic terms can never be picked. An infinite price means: never pick this node.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <vector>

namespace emend {

// Classes and nodes are named by their position.
constexpr uint32_t kNoNode = UINT32_MAX;
constexpr uint32_t kNoClass = UINT32_MAX;

// The nodes from `first` up to the one before `end_node`. (std::views::iota is more than clang 14
// takes.)
struct NodeRange {
  struct Iterator {
    using value_type = uint32_t;
    using difference_type = std::ptrdiff_t;
    uint32_t n = 0;

    uint32_t operator*() const { return n; }
    Iterator& operator++() {
      ++n;
      return *this;
    }
    Iterator operator++(int) { return {n++}; }
    bool operator==(const Iterator&) const = default;
  };
  uint32_t first, end_node;

  Iterator begin() const { return {first}; }
  Iterator end() const { return {end_node}; }
  uint32_t front() const { return first; }
  uint32_t back() const { return end_node - 1; }
  size_t size() const { return end_node - first; }
  bool empty() const { return first == end_node; }
};

struct ExtractionProblem {
  std::vector<uint32_t> first_node = {0};   // of every class; one more entry than classes
  std::vector<uint32_t> first_child = {0};  // of every node; one more entry than nodes
  std::vector<uint32_t> child;              // classes
  std::vector<double> cost;                 // of every node
  std::vector<uint32_t> roots;              // classes
  // For messages and files; both may be empty.
  std::vector<std::string> class_names, node_names;

  size_t class_count() const { return first_node.size() - 1; }
  size_t node_count() const { return first_child.size() - 1; }
  NodeRange nodes(uint32_t c) const { return {first_node[c], first_node[c + 1]}; }
  std::span<const uint32_t> children(uint32_t n) const {
    return std::span(child).subspan(first_child[n], first_child[n + 1] - first_child[n]);
  }
  // The class of every node.
  std::vector<uint32_t> owners() const;
  std::string class_name(uint32_t c) const;
  std::string node_name(uint32_t n) const;

  uint32_t add_class(std::string name = "");
  uint32_t add_node(double price, std::span<const uint32_t> child_classes, std::string name = "");
  uint32_t add_node(double price, std::initializer_list<uint32_t> child_classes) {
    return add_node(price, std::span(child_classes.begin(), child_classes.size()));
  }
};

// Throws Error, naming class and node, unless the problem is sound and every root can be built:
// no class without nodes, no child or root that does not exist, no NaN and no negative price, at
// least one root, a finite term without cycles for each.
void validate(const ExtractionProblem& p);

// An answer. `choice` holds a node for every class that is needed and kNoNode elsewhere.
struct Extraction {
  std::vector<uint32_t> choice;
  double cost = 0;         // as the checker computes it
  double lower_bound = 0;  // no solution costs less
  bool optimal = false;    // proven
};

}  // namespace emend
