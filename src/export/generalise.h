// One file for every size. A program is specialised to one size of its symbolic dimensions; written
// down, it holds for others only if nothing in it depends on that size. So the same program is made
// at several sizes, and the graphs of `onnx` nodes are compared: they must be the same node by
// node, except for whole numbers that operands hold (the target of a Reshape, the ends of a Slice).
// Those are written by what ONNX has words for ("whatever it is": -1, 0, the end), else they are
// computed from the shapes of values (size_formula.h). Then the file that is written is, literally,
// what each of the sizes would have given.
#pragma once

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "ir/model.h"

namespace emend {

// A program at other sizes of its symbolic dimensions, made in the way that led to the first.
struct AtSizes {
  SymbolSizes sizes;
  Graph program;
};

// Why programs at several sizes are not one program, and nodes that have to do with it.
struct NotGeneral {
  std::string reason;
  std::vector<std::string> nodes;
};

// The graph that stands for all of these.
std::variant<Graph, NotGeneral> generalise(const std::vector<Graph>& raised, int64_t opset);

struct Generalised {
  Graph raised;                   // what to write
  std::vector<AtSizes> programs;  // the model's own first; sizes of the symbols that stay open

  // How dimension i of a value that has these types in the programs is written: as the symbol it is
  // equal to, else as the file called it, else open.
  std::variant<std::monostate, int64_t, std::string> dimension(const std::vector<Type>& types,
                                                               size_t i,
                                                               const std::string& declared) const;
};

// The model, whose program stands first among `programs`, written for all sizes. With one program
// alone, every dimension is a number.
std::variant<Generalised, NotGeneral> for_all_sizes(std::vector<AtSizes> programs, int64_t opset);

}  // namespace emend
