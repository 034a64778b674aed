// Bad models through import and export, as files: both return or throw Error naming the file.
// Models of ONNX's own suite are where the operators' own checks of attributes and shapes are met.
#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "base/mapped_file.h"
#include "export/onnx.h"
#include "fuzz/bad_models.h"
#include "fuzz/fuzz_main.h"
#include "fuzz/scratch_folder.h"
#include "import/onnx.h"
#include "onnx/write.h"
#include "support/onnx_models.h"
#include "support/onnx_samples.h"

namespace {

namespace fs = std::filesystem;
using namespace emend;

// A function, a subgraph, a symbol, a sparse tensor and a shape that is computed.
onnx::Model varied_model() {
  onnx::Graph branch;
  branch.name = "branch";
  branch.node = {onnx_node("Neg", {"x"}, {"t"})};
  branch.output = {value_info("t", {2, 3})};
  onnx::ValueInfo condition = value_info("c", {});
  std::get<onnx::TensorType>(condition.type->value).elem_type = onnx::DataType::kBool;
  onnx::Model m = onnx_model(
      {value_info("x", {"N", 3}), condition},
      {onnx_node("Twice", {"x"}, {"d"}), onnx_node("Add", {"d", "w"}, {"e"}),
       onnx_node("If", {"c"}, {"f"},
                 {graph_attribute("then_branch", branch), graph_attribute("else_branch", branch)}),
       onnx_node("Shape", {"e"}, {"s"}), onnx_node("Reshape", {"f", "s"}, {"y"})},
      {value_info("y", {"N", 3})});
  onnx::Function twice;
  twice.name = "Twice";
  twice.domain = "local";
  twice.input = {"a"};
  twice.output = {"b"};
  twice.opset_import = {{"", 17}};
  twice.node = {onnx_node("Add", {"a", "a"}, {"b"})};
  m.functions = {twice};
  m.graph.node[0].domain = "local";
  m.opset_import.push_back({"local", 1});
  m.graph.sparse_initializer = {{onnx::float_tensor("w", 2, 1), int_tensor("", {0, 2}), {1, 3}}};
  return m;
}

}  // namespace

std::vector<std::string> fuzz_corpus() {
  std::vector<std::string> corpus = {onnx::serialize(varied_model())};
  const char* root = std::getenv("EMEND_ONNX_DATA");
  if (!root) return corpus;
  std::vector<fs::path> models;
  for (const auto& entry : fs::recursive_directory_iterator(root)) {
    if (entry.is_regular_file() && entry.file_size() <= 4096 && entry.path().extension() == ".onnx")
      models.push_back(entry.path());
  }
  std::sort(models.begin(), models.end());
  for (const auto& path : models) corpus.emplace_back(map_file(path).value_or_throw().text());
  return corpus;
}

std::vector<FuzzKind> fuzz_kinds() {
  return {{"damaged", [](ByteMutator& r, const auto& corpus) { return r.mutate(corpus); }},
          {"truncated", fuzz::truncated},
          {"external data", fuzz::external_tricks},
          {"cyclic", fuzz::cyclic},
          {"duplicated", fuzz::duplicated},
          {"absurd shapes", fuzz::absurd_shapes}};
}

uint64_t fuzz_memory_limit(size_t input_size) {
  return import_memory_bound(input_size);
}

bool fuzz_one(const std::string& input) {
  static const fs::path path = fuzz::scratch_folder() / "model.onnx";
  fs::remove(path);  // interned attributes may still view the one before: never write into it
  std::ofstream(path, std::ios::binary) << input;
  try {
    Model model = import_onnx(path);
    try {
      onnx::serialize(export_onnx(model).file);
    } catch (const Error&) {  // what was read need not have a form at its opset
    }
    return true;
  } catch (const Error& e) {
    const std::string named = path.string() + ": ", said = e.what();
    if (said.rfind(named, 0) != 0 || said.size() == named.size())
      throw std::logic_error("does not name the file and a reason: " + said);
    return false;
  }
}
