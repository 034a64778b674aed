// Tensors whose elements live in another file. A model is a stranger's text, so the reference is
// not trusted: the file must be an ordinary one inside the model's folder (no absolute path, no
// "..", no link that leads out), the range must lie inside the file, and it must be exactly as long
// as shape and type say. Files are mapped once each and only when a tensor asks for one. A checksum
// is carried and not verified: hashing would read every byte of what we only map.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "onnx/schema.h"

namespace emend::onnx {

struct ExternalReference {
  std::string location;
  uint64_t offset = 0;
  std::optional<uint64_t> length;  // to the end of the file, if not given
  std::string checksum;
};

Result<ExternalReference> external_reference(const Tensor& tensor);

// The files that a model's tensors name, each once, sorted.
std::vector<std::string> external_locations(const Model& model);

class ExternalFiles {
 public:
  explicit ExternalFiles(std::filesystem::path folder) : folder_(std::move(folder)) {}
  // The elements of an external tensor, as a view.
  Result<SharedBytes> bytes_of(const Tensor& tensor);

 private:
  Result<SharedBytes> file(const std::string& location);

  std::filesystem::path folder_;
  std::map<std::string, SharedBytes> files_;
};

// Gives every external tensor of the model, wherever it is nested, its elements as raw_data.
// Throws Error naming the tensor's path and the reason.
void attach_external(Model& model, const std::filesystem::path& folder);

}  // namespace emend::onnx
