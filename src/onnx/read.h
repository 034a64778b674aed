// Files and bytes to the values of schema.h. Any bytes may come: what is not well-formed throws
// Error, naming the file, the path to the field and the reason, for instance
//   resnet.onnx: graph.node[12] "Conv_3".attribute[0] "pads": list ends in the middle of a number
// Nesting is limited to kMaxDepth messages. Memory is limited too: lists of small messages unfold
// in memory, by at most kBytesPerByte for each byte of the file (and kFreeBytes for small files);
// whatever asks for more is refused. Tensor contents are views and cost nothing.
#pragma once

#include <filesystem>
#include <string>

#include "onnx/schema.h"

namespace emend::onnx {

inline constexpr int kMaxDepth = 100;  // protobuf's own limit
inline constexpr uint64_t kBytesPerByte = 64;
inline constexpr uint64_t kFreeBytes = 16 << 20;

// Attach: raw_data of externally stored tensors becomes a view into the mapped data file, and the
// tensor forgets that it was external. Leave: the reference stays as it is in the file.
enum class External { kAttach, kLeave };

Model read_model(const std::filesystem::path& path, External external = External::kAttach);
// External references are left; `name` stands for the file in messages.
Model read_model(const SharedBytes& bytes, const std::string& name);

Tensor read_tensor(const std::filesystem::path& path);
Sequence read_sequence(const std::filesystem::path& path);
Optional read_optional(const std::filesystem::path& path);
Tensor read_tensor(const SharedBytes& bytes, const std::string& name);
Sequence read_sequence(const SharedBytes& bytes, const std::string& name);
Optional read_optional(const SharedBytes& bytes, const std::string& name);

}  // namespace emend::onnx
