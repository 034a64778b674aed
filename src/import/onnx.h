// ONNX files to programs, in three steps: the wire format becomes a graph of `onnx` nodes that says
// what the file says (structure.h), symbolic dimensions get sizes on the way (sizes.h), and the
// operator table turns those nodes into operators (ops/onnx_lower.h). Weights stay in the mapped
// file. Whatever is wrong with a file ends in one Error naming the file, the node and the reason.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/shared_bytes.h"
#include "ir/model.h"

namespace emend {

namespace onnx {
struct Model;
}

struct ImportOptions {
  std::map<std::string, Dims> shapes;      // of inputs, by name (--shape x:1x3x224x224)
  std::map<std::string, int64_t> symbols;  // sizes of symbolic dimensions (--shape N=8)
  // Values of inputs: they give shapes, and where a shape depends on one it is pinned.
  std::map<std::string, Value> input_values;
  // Nodes, by the names of their first results, that stay ONNX nodes (ops/onnx_lower.h).
  std::set<std::string> kept, kept_of_sizes;
};

struct Imported {
  Model model;
  // What follows from sizes alone, by the name of the node that computes it (ops/onnx_lower.h).
  std::map<std::string, std::vector<std::optional<Tensor>>> of_sizes;
};

// A dimension of an input that the file leaves open and the options do not settle.
struct OpenDimension {
  std::string symbol;  // its name, or a made-up one (sizes.h)
  size_t axis = 0, rank = 0;
  DType dtype = DType::f32;
};

// Any file may come. Reading and importing one of `size` bytes never holds more memory than this,
// its own mapped bytes aside, or it ends in an Error: half of it is for what is made on the way
// (shape operands, sparse tensors made dense, ranges, functions and loops written out;
// ir/memory_budget.h), the rest for what the file says. The fuzz tests hold import to it.
constexpr uint64_t import_memory_bound(uint64_t size) {
  return (uint64_t{256} << 20) + 512 * size;
}

// A file that was read once and can be imported at several sizes; programs share its weights.
class OnnxFile {
 public:
  explicit OnnxFile(const std::filesystem::path& path);
  // From memory; `name` stands for the file in messages.
  OnnxFile(const SharedBytes& bytes, std::string name);
  // What is not written yet, as if it were a file of `size` bytes.
  OnnxFile(onnx::Model wire, std::string name, uint64_t size);

  // Sizes that nobody gave are drawn (open_sizes.h).
  Model import(const ImportOptions& options = {}) const;
  // The same, with what follows from sizes; all that is open takes a default by its name.
  Imported import_as_named(const ImportOptions& options) const;
  // Each symbol once, where it stands first.
  std::vector<OpenDimension> open_dimensions(const ImportOptions& options) const;
  // Sizes above 1 that inputs have, each once.
  std::set<int64_t> fixed_dimensions() const;
  // The file as it is.
  const onnx::Model& wire() const { return *wire_; }
  uint64_t size() const { return size_; }

 private:
  std::string name_;
  uint64_t size_;
  std::shared_ptr<const onnx::Model> wire_;
};

inline Model import_onnx(const std::filesystem::path& path, const ImportOptions& options = {}) {
  return OnnxFile(path).import(options);
}

// The newest versions that are understood; newer files are refused, since a known name may have got
// another meaning.
inline constexpr int64_t kNewestOpset = 27;
inline constexpr int64_t kNewestIr = 13;

}  // namespace emend
