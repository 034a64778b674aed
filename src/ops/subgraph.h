// Running ONNX subgraphs on the host, where values, types and even the number of steps are known
// only as it happens. States may be tensors of changing shapes, sequences or optionals.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <vector>

#include "ir/graph.h"

namespace emend {

// The number in a tensor of one element; Error otherwise.
int64_t single_integer(const Tensor& t, const char* what);

// A subgraph of `onnx` nodes that is run again and again: it is lowered for the values at hand, and
// again only when types change or the lowering had looked at a value that may have changed.
class HostBody {
 public:
  // Inputs from `fixed_from` on have the same values in every call.
  HostBody(const Graph& onnx, size_t fixed_from) : onnx_(onnx), fixed_from_(fixed_from) {}
  std::vector<Value> run(std::span<const Value> inputs, uint64_t repetition);
  // What the results' types would be, as far as that is known without values.
  std::vector<Type> result_types(std::span<const Type> inputs) const;

 private:
  const Graph& onnx_;
  size_t fixed_from_;
  bool reusable_ = false;
  std::vector<Type> types_;
  Graph lowered_;
};

struct HostScan {
  Tensor tensor;
  int64_t axis = 0;
  bool reverse = false;
};
struct HostLoop {
  int64_t trips = std::numeric_limits<int64_t>::max();
  bool condition = true;
  bool takes_condition = false;  // the body takes (iteration, condition) and gives the condition
  std::vector<Value> states;
  std::vector<HostScan> scanned;
  Dims output_axes, output_reverse;  // missing ones are 0
  std::span<const Value> captured;
  uint64_t repetition = 0;  // that the whole loop is in (evaluate.h)
};
// The final states, then the stacked outputs.
std::vector<Value> run_host_loop(const Graph& onnx_body, HostLoop loop);

}  // namespace emend
