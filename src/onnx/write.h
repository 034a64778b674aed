// The values of schema.h to files and bytes. The same Model gives the same bytes, fields in the
// order of their numbers. Sizes are computed first and tensor contents go straight from where they
// lie to the file, so writing needs no second copy of the model. Files are replaced atomically
// (base/atomic_file.h), also the pair of a model and its data file.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "onnx/schema.h"

namespace emend::onnx {

// Where the elements of initializers go: into the model file, or beside it into MODEL.onnx.data,
// each at a multiple of 4096 so that it can be mapped. Small ones always stay in the model. A file
// of that name is replaced only if the old MODEL.onnx has its data there: otherwise it belongs to
// somebody else, and a numbered name is taken.
enum class Placement {
  kAutomatic,  // beside, when the model would pass inline_limit
  kInline,     // in the model; refused past inline_limit
  kBeside,
};

struct WriteOptions {
  Placement placement = Placement::kAutomatic;
  // Protobuf readers stop at 2 GiB.
  uint64_t inline_limit = (uint64_t{1} << 31) - (uint64_t{1} << 20);
  uint64_t small = 1024;  // bytes
  // Models whose data files stay as they are, besides those that nobody is known to need.
  std::vector<std::filesystem::path> others = {};
  // See AtomicFile::commit; of the model, with its data beside it.
  std::function<void(const std::filesystem::path& written)> look = nullptr;
};

inline constexpr uint64_t kDataAlignment = 4096;

// All throw Error. A tensor whose elements are in another file that was not attached is refused:
// the written reference would point somewhere else.
void write_model(const Model& model, const std::filesystem::path& path,
                 const WriteOptions& options = {});
void write_tensor(const Tensor& tensor, const std::filesystem::path& path);

// The bytes of a file, everything inline.
std::string serialize(const Model& model);
std::string serialize(const Tensor& tensor);
std::string serialize(const Sequence& sequence);
std::string serialize(const Optional& optional);

// How large serialize(model) would be.
uint64_t inline_size(const Model& model);

}  // namespace emend::onnx
