// From ONNX nodes to operators. A graph of `onnx` nodes (what the file says, structurally) is
// lowered node by node through the rows of the operator table. A node whose row needs a value or a
// type that is not known before run time stays an `onnx` node: it is evaluated on the host, where
// it is lowered by the same row with the actual values at hand (decision 0004).
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "ir/graph.h"
#include "ops/build.h"
#include "ops/onnx_row.h"

namespace emend {

// Sources that a value may follow from: the same for all inputs, or for all of the same sizes.
enum class Known : uint8_t { constants, constants_and_sizes };
bool follows_from(Known known, const Graph& g, NodeId value);

// The value of a data operand where it follows from constants and sizes: values of inputs must not
// become part of the program.
std::optional<Tensor> value_of_data(const OnnxCall& c, size_t i);

struct LowerOptions {
  // Values of inputs by name; one is pinned when a shape depends on it.
  std::map<std::string, Tensor> input_values;
  // Nodes, by the names of their first results, that stay `onnx` nodes although they could be
  // lowered. Their types are known all the same, and their values where those follow from sizes.
  std::set<std::string> kept;
  // The same for nodes whose operands all follow from sizes: what they make (a range as long as a
  // dimension) is data that differs from size to size, not a constant.
  std::set<std::string> kept_of_sizes;
};

struct Lowered {
  Graph graph;
  std::vector<std::pair<std::string, Tensor>>
      pinned;  // inputs whose values became part of the program
  // Nodes that stay ONNX nodes, with the reason: "NonZero_3 (NonZero): ...".
  std::vector<std::string> deferred;
  // Results that follow from sizes alone (Shape, and what is computed from it and constants), by
  // the name of the node's first result; nullopt where one is too large to be computed here.
  std::map<std::string, std::vector<std::optional<Tensor>>> of_sizes;
};

Lowered lower_onnx(const Graph& onnx, const LowerOptions& options = {});

// The value of an input node of the graph under construction, where it is known.
using InputValue = std::function<std::optional<Tensor>(NodeId)>;

// Lowers the nodes of a subgraph (a body of If, Loop, Scan, or a function) into `b`; `args` stand
// for its inputs. Nodes that cannot be lowered stay `onnx` nodes.
std::vector<NodeId> lower_into(GraphBuilder& b, const Graph& onnx, Args args,
                               InputValue input_value = {});

// Adds an `onnx` node; operands are the present inputs, then captured values.
NodeId add_onnx_node(GraphBuilder& b, const OnnxNode& node, Args operands);

}  // namespace emend
