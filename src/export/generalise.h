// One file for every size. A program is specialised to one size of its symbolic dimensions; written
// down, it holds for others only if nothing in it depends on that size. So the same program is made
// at several sizes, and the graphs of `onnx` nodes are compared: they must be the same node by
// node, except that a target shape of Reshape or Expand may differ where ONNX has words for
// "whatever it is" (-1, 0, or 1 for Expand). Then the file that is written is, literally, what each
// of the sizes would have given.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <variant>
#include <vector>

#include "base/result.h"
#include "ir/model.h"

namespace emend {

// The graph that stands for all of these, or where they differ.
Result<Graph> generalise(const std::vector<Graph>& raised);

// The program at other sizes of its symbolic dimensions, made in the way that led to the model.
using AtSizes = std::function<Graph(const std::map<std::string, int64_t>&)>;

struct Generalised {
  Graph raised;                 // what to write
  std::vector<Graph> programs;  // at the model's own size, then at others (if any)
  std::vector<std::map<std::string, int64_t>> sizes;  // of the kept symbols, for each program
  std::vector<std::string> notes;                     // which symbols became numbers, and why

  // How dimension i of a value that has these types in the programs is written: as the kept symbol
  // it is equal to, else as the file called it, else open.
  std::variant<std::monostate, int64_t, std::string> dimension(const std::vector<Type>& types,
                                                               size_t i,
                                                               const std::string& declared) const;
};

// Keeps every symbol that took a default size and that the program does not depend on.
Generalised for_all_sizes(const Model& model, int64_t opset, const AtSizes& at_sizes);

}  // namespace emend
