// Numbers that follow from sizes, as nodes that compute them when the file runs. They are short:
// what was computed once is used again, whatever led to it, since numbers that are the same in all
// programs are the same number.
#pragma once

#include <map>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "export/size_formula.h"
#include "ops/build.h"

namespace emend {

struct SizeNumber {
  SizeFormula formula;
  Dims sizes;  // what it is in each program
};

// A number of an operand as the file will have it: written, or computed when the program runs.
using Number = std::variant<int64_t, SizeNumber>;

class NumberWriter {
 public:
  // `lists` are all that will be written as lists: a scalar is made of what stands alone there.
  NumberWriter(GraphBuilder& b, int64_t opset, const std::vector<std::vector<Number>>& lists);

  // A value of this type that holds the numbers; `made` maps values of the program, which the
  // formulas speak of, to those of the builder.
  NodeId write(const std::vector<Number>& numbers, const Type& type,
               const IdVec<NodeId, NodeId>& made);

 private:
  NodeId dimensions(const SizedDimension& from, const std::vector<Dims>& sizes,
                    const IdVec<NodeId, NodeId>& made);
  NodeId computed(const SizeNumber& n, const IdVec<NodeId, NodeId>& made);
  NodeId dimension(const SizedDimension& d, const IdVec<NodeId, NodeId>& made);
  NodeId read(NodeId value, int64_t axis, size_t many);
  NodeId formula(const SizeFormula& f, const IdVec<NodeId, NodeId>& made);
  NodeId number(int64_t n);
  NodeId arithmetic(const char* op, NodeId a, NodeId b);
  NodeId concat(const std::vector<NodeId>& pieces);
  Type type() const;
  std::string text_of(NodeId n) const;
  NodeId emit(const char* type, const std::vector<NodeId>& operands, Type result,
              std::vector<Attrs::Entry> attributes = {});

  GraphBuilder& b_;
  int64_t opset_;
  bool scalar_ = false;  // what is being written is of rank 0
  std::map<NodeId, NodeId> shapes_;
  std::map<std::string, NodeId> steps_;  // of formulas, by what they say
  // Nodes that were written, by the numbers they give in each program: scalars, lists of one
  // number, and several dimensions beside one another.
  std::map<Dims, NodeId> scalars_, lists_;
  std::map<std::vector<Dims>, NodeId> runs_;
  std::set<Dims> will_stand_alone_;  // in lists
};

}  // namespace emend
