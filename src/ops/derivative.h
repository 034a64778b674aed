// Derivatives, as more of the same graph. Reverse mode: from the gradient of a result to the
// gradients of the operands.
//   elementwise operators   the derivative of the body, written with plain elementwise operators
//   index notation          one node per operand: what the meaning reads is added to (transposed.h)
//   composites              through their expansion
//   loops                   a loop backwards through the derivatives of the body
// Integers, bools and places (indices) have no gradient; an invalid id stands for a gradient that
// is zero. At kinks the derivative is that of one side; equal maxima share a gradient evenly.
//
//   NodeId y = b.op("matmul", {x, w}), by[] = {x, w};
//   std::vector<NodeId> g = gradients(b, Args(&y, 1), Args(&seed, 1), by);   // of <y, seed>
#pragma once

#include "ops/build.h"

namespace emend {

// Gradients of the operands of a node (operator, attributes, operands in b) from those of its
// result: one, or one per item of a tuple. Throws Error where an operator has no derivative.
std::vector<NodeId> vjp(GraphBuilder& b, Node node, Args grads);

// Gradients of sum over i of <of[i], seeds[i]> by the nodes `by`.
std::vector<NodeId> gradients(GraphBuilder& b, Args of, Args seeds, Args by);

}  // namespace emend
