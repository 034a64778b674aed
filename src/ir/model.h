// A program together with what its file says about it and what the program does not need: names of
// dimensions, documentation, versions, metadata. Survives import -> optimize -> export.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "ir/graph.h"

namespace emend {

// An input or output as the file declared it; the type in the graph is what it was specialised to.
struct Declaration {
  std::string name, doc;
  // In the file's words: unknown dimensions are -1, a tensor of unknown rank is `unshaped`.
  Type type;
  bool has_shape = true;
  // Per dimension: the symbol (dim_param) it had, or "" if it was a number.
  std::vector<std::string> symbols;
  std::vector<std::pair<std::string, std::string>> metadata;
  bool operator==(const Declaration&) const = default;
};

// A size for each of some symbolic dimensions.
using SymbolSizes = std::map<std::string, int64_t>;

// A longer list of numbers is data, not a shape.
inline constexpr int64_t kMostNumbersOfAShape = 16;

struct ModelInfo {
  int64_t ir_version = 10;
  std::map<std::string, int64_t> opsets = {{"", 21}};  // domain -> version
  std::string producer, producer_version, domain, doc, graph_name, graph_doc;
  int64_t model_version = 0;
  std::vector<std::pair<std::string, std::string>> metadata, graph_metadata;
  std::vector<Declaration> inputs, outputs;
  // What the program was specialised to: "batch = 1 (default)", "value of input 'shape' = [2,3]".
  std::vector<std::string> specialised;
  // Inputs whose values were used as shapes: the program is right for these values only.
  std::vector<std::pair<std::string, Tensor>> pinned;
  // Symbolic dimensions that nobody gave a size, and the one they took.
  SymbolSizes defaulted;
  // Nodes that stay ONNX nodes, with the reason: "NonZero_3 (NonZero): ...".
  std::vector<std::string> deferred;
  bool external_data = false;  // the file kept its weights in a second file
};

struct Model {
  Graph graph;
  ModelInfo info;
};

}  // namespace emend
