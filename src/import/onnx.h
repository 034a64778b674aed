// ONNX files to programs, in three steps: the wire format becomes a graph of `onnx` nodes that says
// what the file says (structure.h), symbolic dimensions get sizes on the way (sizes.h), and the
// operator table turns those nodes into operators (ops/onnx_lower.h). Weights stay in the mapped
// file. Whatever is wrong with a file ends in one Error naming the file, the node and the reason.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>

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

  Model import(const ImportOptions& options = {}) const;

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
