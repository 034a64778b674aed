// Tensor programs in an e-graph: the generic engine with what is known of every class. All members
// of a class have one type and one value. Attributes are interned; inputs and constants are nodes
// without operands. What is known (an analysis in the literature's word): the type, the value where
// it is a constant, whether it depends on any input of the program, and if not, how large its
// numbers are.
//
// Nodes of operators without a meaning here (opaque) are never taken for equal ones.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "egraph/egraph.h"
#include "ir/graph.h"
#include "ops/fold.h"
#include "ops/priced_node.h"
#include "rules/instance.h"
#include "saturate/flatten.h"

namespace emend {

class TensorEGraph {
 public:
  // Holds a program, whatever the limits: they are set for what follows.
  explicit TensorEGraph(const Graph& g);
  // The engine calls back: it stays where it was made.
  TensorEGraph(const TensorEGraph&) = delete;
  TensorEGraph& operator=(const TensorEGraph&) = delete;

  EGraph& engine() { return engine_; }
  const EGraph& engine() const { return engine_; }

  // Not valid where a limit was met.
  ClassId add(OpId op, Attrs attrs, std::span<const ClassId> operands, const Type& type);
  ClassId add_constant(const Tensor& value);
  // A right side over places in a list of classes, ready to be added again and again.
  struct Recipe {
    struct Step {
      uint32_t op, attr, type;
      std::vector<RightSide::Ref> operands;
    };
    std::vector<Step> steps;
    std::vector<Tensor> constants;
    std::vector<RightSide::Ref> results;
  };
  Recipe recipe_of(const RightSide& side);
  // One class per result; none where a limit was met.
  std::vector<ClassId> add(const Recipe& recipe, std::span<const ClassId> matched);
  // Small values that can be computed become constants; true if there were any.
  bool fold();

  const Type& type(ClassId c) const { return types_[facts_[c.value].type]; }
  // All that rules may ask about a class: equal numbers, equal answers.
  struct Known {
    uint32_t type, constant, weight_only, scale;
  };
  Known known(ClassId c) const;
  const Tensor* constant(ClassId c) const;
  bool weight_only(ClassId c) const { return facts_[c.value].weight_only; }
  // Of what depends on no input, where that is known.
  std::optional<Scale> scale(ClassId c) const;
  const Type& type_at(uint32_t id) const { return types_[id]; }
  // A node as prices see it.
  PricedNode priced(ENodeId n) const;
  Attrs attrs(uint32_t id) const { return attrs_[id]; }

  // The nodes of the program's outputs, as they were given.
  const std::vector<ClassId>& given_roots() const { return roots_; }
  // Classes of the program's outputs, in their order.
  std::vector<ClassId> roots() const;
  // Of every class by id: of the least deep term that it has, how deep.
  std::vector<uint32_t> depths() const;
  // Of what depends on inputs: the rest costs nothing however it is written.
  Vocabulary vocabulary() const;

  // The program in which every class that is needed is computed by the node that was chosen.
  Graph graph_of(const std::function<ENodeId(ClassId)>& chosen) const;

 private:
  struct ClassFacts {
    uint32_t type = 0;
    int32_t constant = -1;  // in constants_
    bool weight_only = false;
    int32_t scale = -1;  // in scales_
  };
  uint32_t id_of(Attrs attrs);
  uint32_t id_of(const Type& type);
  ClassFacts facts_of_node(ENodeId n);
  int32_t scale_of_node(const ENode& node, const Type& result);
  int32_t id_of(const Scale& scale);
  void make(ENodeId n);
  void merge(ClassId kept, ClassId gone);

  EGraph engine_;
  std::vector<GraphInput> inputs_;
  std::vector<Type> input_types_;
  std::vector<GraphOutput> outputs_;
  std::vector<ClassId> roots_;
  std::vector<Attrs> attrs_;
  std::unordered_map<uint64_t, std::vector<uint32_t>> attr_ids_;
  std::vector<Type> types_;
  std::unordered_map<uint64_t, std::vector<uint32_t>> type_ids_;
  std::vector<Tensor> constants_;
  std::unordered_map<uint64_t, std::vector<uint32_t>> constant_ids_;
  ConstantIndex index_;
  std::vector<Scale> scales_;
  std::map<std::pair<double, double>, std::vector<int32_t>> scale_ids_;  // by least and most
  std::vector<int32_t> constant_scales_;                                 // of constants_
  std::vector<ClassFacts> facts_;                    // by class, what its id says now
  std::unordered_map<uint32_t, std::string> names_;  // of nodes of the program
  uint32_t pending_type_ = 0;                        // of the node that is being added
  uint32_t fresh_ = 0;                               // ids from here on were not yet made
  std::vector<ENodeId> foldable_;
};

}  // namespace emend
