// Control flow over body graphs. A `loop` is a scan with a static trip count: a body graph maps
//   (iteration i64[], states.., slices.., captured..)  ->  (states.., per-step outputs..),
// the operands are (initial states.., scanned tensors.., captured..), the result is the tuple
// (final states.., stacked outputs..). Every step takes one slice of each scanned tensor.
//
//   auto r = add_loop(b, {.trips = 5, .states = {h0}, .scanned = {{x}}, .captured = {w}},
//                     [](GraphBuilder& body, const LoopStep& s) -> LoopResults {
//                       NodeId h = body.op("add", {body.op("matmul", {s.states[0], s.captured[0]}),
//                                                  s.slices[0]});
//                       return {.states = {h}, .outputs = {h}};
//                     });
//   r.states[0], r.outputs[0]
#pragma once

#include <functional>
#include <vector>

#include "ops/build.h"

namespace emend {

struct Loop {
  GraphRef body;
  int64_t trips = 0;
  int64_t states = 0;
  Dims scan_axes, scan_reverse;      // per scanned operand; reverse is 0 or 1
  Dims output_axes, output_reverse;  // per stacked output: where the new dimension stands
  EMEND_FIELDS(body, trips, states, scan_axes, scan_reverse, output_axes, output_reverse)
};

// One of two body graphs over the same inputs (captured..), chosen by the first operand.
struct If {
  GraphRef then_body, else_body;
  EMEND_FIELDS(then_body, else_body)
};

// --- Building a loop from C++ ---

struct Scanned {
  NodeId node;
  int64_t axis = 0;
  bool reverse = false;
};
struct LoopOperands {
  int64_t trips = 0;
  std::vector<NodeId> states;
  std::vector<Scanned> scanned = {};
  std::vector<NodeId> captured = {};
  // Along dimension 0 and forwards unless said otherwise, per output.
  Dims output_axes = {}, output_reverse = {};
};
struct LoopStep {
  NodeId iteration;
  std::vector<NodeId> states, slices, captured;
};
struct LoopResults {
  std::vector<NodeId> states, outputs;
};
// `step` builds the body in its own builder, where only the ids of LoopStep exist.
LoopResults add_loop(GraphBuilder& b, const LoopOperands& operands,
                     const std::function<LoopResults(GraphBuilder&, const LoopStep&)>& step);

}  // namespace emend
