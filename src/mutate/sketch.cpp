#include "mutate/sketch.h"

#include "base/text.h"
#include "ops/movement.h"
#include "ops/table.h"
#include "ops/view.h"

namespace emend {
namespace {

std::string to_text(const Join& j) {
  return j.kind == Join::Kind::stacked ? "stack" : str("concat ", j.axis);
}

NodeId moved(GraphBuilder& b, NodeId x, const std::vector<Move>& moves) {
  const MoveChain chain = chain_of(moves, b.shape(x));
  for (const View& v : chain.views) x = b.op("view", {x}, ViewMap{to_text(v)});
  return x;
}

// The parts of a result that belong to the operators, each of its type.
Result<std::vector<NodeId>> parted(GraphBuilder& b, NodeId y, const Join& how,
                                   const std::vector<Type>& types) {
  if (how.kind == Join::Kind::none) return std::vector<NodeId>{y};
  const Dims whole = b.shape(y);
  if (how.axis >= whole.size()) return fail("no such dimension");
  std::vector<NodeId> parts;
  int64_t start = 0;
  for (const Type& t : types) {
    Dims sizes = t.shape;
    if (how.kind == Join::Kind::stacked) sizes.insert(sizes.begin(), 1);
    if (sizes.size() != whole.size()) return fail("parts of another rank");
    Slice s{Dims(whole.size(), 0), sizes, Dims(whole.size(), 1)};
    s.starts[how.axis] = start;
    start += sizes[how.axis];
    auto slice = b.try_op(op_named("slice"), std::vector{y}, to_attrs(s));
    if (!slice) return Failure{slice.error()};
    parts.push_back(how.kind == Join::Kind::stacked ? b.op("reshape", {*slice}, Reshape{t.shape})
                                                    : *slice);
  }
  if (start != whole[how.axis]) return fail("parts that are not the whole");
  return parts;
}

}  // namespace

std::string to_text(const Sketch& s) {
  std::vector<std::string> steps;
  for (size_t slot : {0u, 1u}) {
    if (s.joins[slot].kind != Join::Kind::none)
      steps.push_back(str("x", slot, " ", to_text(s.joins[slot])));
    for (const Move& m : s.moves[slot]) steps.push_back(str("x", slot, " ", to_text(m)));
  }
  steps.push_back(op_def(s.compute->op).name + to_text(s.compute->attrs) +
                  (s.compute->swapped ? " swapped" : ""));
  if (s.part.kind != Join::Kind::none) steps.push_back("parts of " + to_text(s.part));
  for (const Move& m : s.back) steps.push_back(to_text(m));
  if (s.refined) steps.push_back("refine");
  return join(steps, ", ");
}

std::vector<Type> output_types(const Graph& g) {
  std::vector<Type> types;
  for (const GraphOutput& o : g.outputs) types.push_back(g.type(o.node));
  return types;
}

NodeId joined(GraphBuilder& b, const std::vector<NodeId>& parts, const Join& how) {
  if (how.kind == Join::Kind::none) return parts[0];
  std::vector<NodeId> all = parts;
  if (how.kind == Join::Kind::stacked) {
    for (NodeId& n : all) {
      Dims shape = b.shape(n);
      shape.insert(shape.begin(), 1);
      n = b.op("reshape", {n}, Reshape{shape});
    }
  }
  return b.op("concat", all, to_attrs(Axis{static_cast<int64_t>(how.axis)}));
}

Result<Graph> program_of(const Sketch& s, const ParallelOps& ops, const Graph& original) {
  GraphBuilder b;
  std::vector<NodeId> inputs, operands;
  for (const GraphInput& i : original.inputs)
    inputs.push_back(b.input(i.name, original.type(i.node)));
  for (size_t slot : {0u, 1u}) {
    std::vector<NodeId> parts;
    for (size_t i : ops.operands[slot]) parts.push_back(inputs[i]);
    NodeId x = joined(b, parts, s.joins[slot]);
    Dims shape = b.shape(x);
    for (const Move& m : s.moves[slot]) {
      auto next = shape_after(m, shape);
      if (!next) return fail("a move that does not apply");
      shape = *next;
    }
    operands.push_back(moved(b, x, s.moves[slot]));
  }
  if (s.compute->swapped) std::swap(operands[0], operands[1]);
  auto y = b.try_op(s.compute->op, operands, s.compute->attrs);
  if (!y) return Failure{y.error()};
  const std::vector<Type> types = output_types(original);
  NodeId back = *y;
  Dims shape = b.shape(back);
  for (const Move& m : s.back) {
    auto next = shape_after(m, shape);
    if (!next) return fail("a move that does not apply");
    shape = *next;
  }
  back = moved(b, back, s.back);
  if (s.refined) {
    auto v = refined_to(b.shape(back), types[0].shape);
    if (!v) return fail("dimensions that are none of the result's");
    back = b.op("view", {back}, ViewMap{to_text(*v)});
  }
  auto parts = parted(b, back, s.part, types);
  if (!parts) return Failure{parts.error()};
  for (size_t i = 0; i < types.size(); ++i) {
    if (!(b.type((*parts)[i]) == types[i])) return fail("another type");
    b.output(original.outputs[i].name, (*parts)[i]);
  }
  return std::move(b).build();
}

}  // namespace emend
