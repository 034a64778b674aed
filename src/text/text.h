// Programs as text, with an exact round trip: parse(print(g)) == g for graphs of any kind.
//
//   graph(x: f32[1,8], w: f32[8,4]) {
//     %2 = constant f32[4]{0.5, 0.0, 1.0, 2.0}
//     %3 = matmul(x, w) : f32[1,4] @"fc.matmul"
//     return y = add(%3, %2)
//   }
//
// Attributes that have their default value are not printed. Operands may be nested calls, and types
// and names (@) may be left out when writing by hand. An input is referred to by its name, or by
// its place (%0) where several inputs have that name. Large constants are printed as `pool(k)`: the
// text then needs the graph's constants beside it.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "ir/partition.h"

namespace emend {

struct PrintOptions {
  int64_t inline_elements = 16;  // constants up to this size are printed with their values
  bool all_constants = false;    // print every constant in full
  bool names = true;             // where nodes came from
  // The k of pool(k); none: the constant's place in its own graph. Bodies of loops have constants
  // of their own: whoever wants to read those back gives all of them places in one pool.
  std::function<size_t(const Tensor&)> place = nullptr;
};

std::string print(const Graph& g, const PrintOptions& options = {});
// The same with its nodes in the groups that compute them: one that several groups compute stands
// in each, a renaming before its first reader. A graph that has nothing to spare comes back as it
// was.
//   kernel {
//     %3 = matmul(x, w) : f32[1,4]
//     store %4 = relu(%3) : f32[1,4]
//   }
std::string print(const Graph& g, const Partition& p, const PrintOptions& options = {});

// Throws Error with line and column. `pool` stands for constants printed as pool(k).
Graph parse_graph(std::string_view text, const std::vector<Tensor>& pool = {});
Type parse_type(std::string_view text);
// Statements end their lines, and their numbers are their places in the graph.
struct ParsedPartition {
  Graph graph;
  Partition partition;
};
ParsedPartition parse_partition(std::string_view text, const std::vector<Tensor>& pool = {});

}  // namespace emend
