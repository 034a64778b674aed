// What accepted equations imply: terms at concrete sizes in an e-graph that grows by the equations
// in both directions. Two terms that end in one class need no equation of their own.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "egraph/match.h"
#include "synthesize/equation.h"

namespace emend {

struct DeriveOptions {
  size_t nodes = 3000;
  int iterations = 6;
  size_t rows = 20000;  // of one rule in one iteration; more are left out
};

class Derivation {
 public:
  explicit Derivation(const DeriveOptions& options);

  // A side of an equation with its operands at these sizes; nullopt where it is illegal, or where
  // the graph is full. Operands of one name and shape are one.
  std::optional<ClassId> add(const Equation& e, const Pattern& side, const SizeTable& sizes);
  // Applies the rules, of which those known from earlier calls must be the first, until nothing
  // changes or a limit is met.
  void saturate(const std::vector<Directed>& rules);
  bool same(ClassId a, ClassId b) const { return graph_.same(a, b); }

 private:
  struct Compiled;
  struct Shaped {
    Type type;
    Input::Content content = Input::Content::any;
    std::optional<Tensor> constant;
  };
  ClassId add_node(uint32_t op, uint32_t attr, std::span<const ClassId> args, Shaped shaped);
  uint32_t attr_id(Attrs attrs);
  ClassId operand(const Input& input, const SizeTable& sizes, bool& legal);
  std::optional<ClassId> add(const struct RightSide& plan);
  void apply(Compiled& c);
  void apply_row(const Compiled& c, std::span<const ClassId> classes,
                 std::span<const ENodeId> nodes);

  DeriveOptions options_;
  EGraph graph_;
  std::vector<Shaped> shaped_;  // by id
  std::vector<Attrs> attrs_;
  std::map<uint64_t, std::vector<uint32_t>> attr_ids_;  // by hash
  std::map<std::string, uint32_t> operand_ids_;
  std::vector<std::shared_ptr<Compiled>> compiled_;
};

// Does it follow from the rules, at these sizes?
bool derivable(const Equation& e, const SizeTable& sizes, const std::vector<Directed>& rules,
               const DeriveOptions& options);

}  // namespace emend
