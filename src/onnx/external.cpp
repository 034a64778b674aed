#include "onnx/external.h"

#include <algorithm>
#include <charconv>
#include <set>

#include "base/mapped_file.h"
#include "onnx/tensor_data.h"
#include "onnx/walk.h"

namespace emend::onnx {
namespace {

namespace fs = std::filesystem;

Result<uint64_t> parse_count(const StringPair& entry) {
  uint64_t value = 0;
  const char* const end = entry.value.data() + entry.value.size();
  const auto [stop, problem] = std::from_chars(entry.value.data(), end, value);
  if (problem != std::errc() || stop != end) {
    return fail("external ", entry.key, " ", emend::quoted(entry.value.substr(0, 40)),
                " is not a count of bytes");
  }
  return value;
}

// Is `location` a path that stays inside by its own text?
bool stays_inside(const fs::path& location) {
  return !location.empty() && location.is_relative() &&
         location.native().find('\0') == std::string::npos &&
         std::none_of(location.begin(), location.end(),
                      [](const fs::path& p) { return p == ".."; });
}

}  // namespace

Result<ExternalReference> external_reference(const Tensor& tensor) {
  ExternalReference reference;
  for (const StringPair& entry : tensor.external_data) {
    if (entry.key == "location") {
      reference.location = entry.value;
    } else if (entry.key == "checksum") {
      reference.checksum = entry.value;
    } else if (entry.key == "offset" || entry.key == "length") {
      const auto count = parse_count(entry);
      if (!count) return fail(count.error());
      if (entry.key == "offset") {
        reference.offset = *count;
      } else {
        reference.length = *count;
      }
    }  // other keys are notes of other tools
  }
  if (reference.location.empty()) return fail("external data without a location");
  return reference;
}

Result<SharedBytes> ExternalFiles::file(const std::string& location) {
  if (const auto known = files_.find(location); known != files_.end()) return known->second;
  const std::string name = "external data file " + emend::quoted(location.substr(0, 200));
  if (!stays_inside(location)) return fail(name, " is not inside the model's folder");

  std::error_code problem;
  const fs::path folder = fs::canonical(folder_.empty() ? fs::path(".") : folder_, problem);
  if (problem) return fail("the model's folder: ", problem.message());
  const fs::path path = fs::canonical(folder / location, problem);
  if (problem) return fail(name, ": ", problem.message());
  const auto [left, inside] = std::mismatch(folder.begin(), folder.end(), path.begin(), path.end());
  if (left != folder.end()) {
    return fail(name, " is a link that leads out of the model's folder; copy the file there");
  }
  const auto mapped = map_file(path);
  if (!mapped) return fail(name, ": ", mapped.error());
  return files_.emplace(location, *mapped).first->second;
}

Result<SharedBytes> ExternalFiles::bytes_of(const Tensor& tensor) {
  const auto reference = external_reference(tensor);
  if (!reference) return fail(reference.error());
  const auto size = byte_size(tensor.data_type, tensor.dims);
  if (!size) return fail(size.error());
  const auto whole = file(reference->location);
  if (!whole) return fail(whole.error());

  const uint64_t available = whole->size();
  const uint64_t offset = reference->offset;
  const uint64_t length = reference->length.value_or(available - std::min(offset, available));
  if (offset > available || length > available - offset) {
    return fail("external data at ", offset, " of ", length, " bytes ends past the ", available,
                " bytes of ", emend::quoted(reference->location));
  }
  if (length != *size) {
    return fail("external data of ", length, " bytes where ", type_name(tensor.data_type), "[",
                join(tensor.dims, ","), "] takes ", *size);
  }
  return whole->slice(offset, length);
}

std::vector<std::string> external_locations(const Model& model) {
  std::set<std::string> locations;
  for_each_tensor(model, [&](const auto&, const Tensor& t) {
    if (t.data_location != DataLocation::kExternal) return;
    if (auto reference = external_reference(t)) locations.insert(reference->location);
  });
  return {locations.begin(), locations.end()};
}

void attach_external(Model& model, const fs::path& folder) {
  ExternalFiles files(folder);
  try {
    for_each_tensor(model, [&](const auto&, Tensor& tensor) {
      if (tensor.data_location != DataLocation::kExternal) return;
      auto bytes = files.bytes_of(tensor);
      if (!bytes) throw FieldError{.path = {}, .reason = bytes.error()};
      tensor.raw_data = *std::move(bytes);
      tensor.external_data.clear();
      tensor.data_location = DataLocation::kDefault;
      model.had_external_data = true;
    });
  } catch (const FieldError& e) {
    throw Error(e.reason).note(e.path);
  }
}

}  // namespace emend::onnx
