// Any bytes as a model, a tensor, a sequence, an optional, with external references into a small
// folder: the reader returns or throws Error; what it accepts is written and read again the same.
#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "base/error.h"
#include "base/mapped_file.h"
#include "fuzz/fuzz_main.h"
#include "fuzz/scratch_folder.h"
#include "onnx/external.h"
#include "onnx/read.h"
#include "onnx/tensor_data.h"
#include "onnx/write.h"
#include "support/onnx_samples.h"

namespace {

namespace fs = std::filesystem;
using emend::Error;
using emend::SharedBytes;
using namespace emend::onnx;

void check_tensors(const Model& model) {
  for (const Tensor& t : model.graph.initializer) {
    const auto bytes = tensor_bytes(t);
    const auto size = byte_size(t.data_type, t.dims);
    if (bytes && (!size || bytes->size() != *size))
      throw std::logic_error("wrong size of a tensor");
  }
}

template <class Read>
void check_round_trip(const std::string& input, const Read& read) {
  std::string once;
  try {
    once = serialize(read(SharedBytes::adopt(std::string(input))));
  } catch (const Error& e) {
    if (std::string(e.what()).rfind("fuzz: ", 0) != 0)
      throw std::logic_error("does not name the file");
    return;
  }
  try {
    if (serialize(read(SharedBytes::adopt(std::string(once)))) != once) {
      throw std::logic_error("what was read is not what was written");
    }
  } catch (const Error& e) {
    // Unknown fields are gone, and with them the memory that their bytes paid for.
    if (once.size() >= input.size()) throw;
    if (std::string(e.what()).find("times the file's size") == std::string::npos) throw;
  }
}

}  // namespace

std::vector<std::string> fuzz_corpus() {
  std::vector<std::string> corpus = {
      serialize(model_with_everything()), serialize(model_with_weights(0)),
      serialize(model_with_reference("w.bin", "4096", "16")), serialize(nested_sequence()),
      serialize(float_tensor("t", 5, 1))};
  const char* root = std::getenv("EMEND_ONNX_DATA");
  if (!root) return corpus;
  std::vector<fs::path> models, values;
  for (const auto& entry : fs::recursive_directory_iterator(root)) {
    if (!entry.is_regular_file() || entry.file_size() > 4096) continue;
    const auto extension = entry.path().extension();
    if (extension == ".onnx") models.push_back(entry.path());
    if (extension == ".pb") values.push_back(entry.path());
  }
  const auto take = [&](std::vector<fs::path>& paths, size_t every) {
    std::sort(paths.begin(), paths.end());
    for (size_t i = 0; i < paths.size(); i += every) {
      corpus.emplace_back(emend::map_file(paths[i]).value_or_throw().text());
    }
  };
  take(models, 10);
  take(values, 200);
  return corpus;
}

std::vector<FuzzKind> fuzz_kinds() {
  return {{"damaged", [](emend::ByteMutator& r, const auto& corpus) { return r.mutate(corpus); }}};
}

// The reader's own bound; lists that grow hold up to three times what they need; the harness keeps
// four copies of the input, and twice the model's bytes written.
uint64_t fuzz_memory_limit(size_t input_size) {
  return 3 * (kFreeBytes + kBytesPerByte * input_size) + 64 * input_size + (4 << 20);
}

bool fuzz_one(const std::string& input) {
  check_round_trip(input, [](const SharedBytes& b) { return read_model(b, "fuzz"); });
  check_round_trip(input, [](const SharedBytes& b) { return read_tensor(b, "fuzz"); });
  check_round_trip(input, [](const SharedBytes& b) { return read_sequence(b, "fuzz"); });
  check_round_trip(input, [](const SharedBytes& b) { return read_optional(b, "fuzz"); });
  try {
    Model model = read_model(SharedBytes::adopt(std::string(input)), "fuzz");
    check_tensors(model);
    attach_external(model, emend::fuzz::scratch_folder());
    check_tensors(model);
    return true;
  } catch (const Error&) {
    return false;
  }
}
