#include "pipeline/test_data.h"

#include <algorithm>
#include <cmath>

#include "base/json.h"
#include "base/mapped_file.h"
#include "import/structure.h"
#include "import/tensor.h"
#include "onnx/read.h"

namespace emend {
namespace {

namespace fs = std::filesystem;

Type::Kind kind_of(const onnx::ValueInfo& v) {
  return v.type ? declared_type(*v.type).kind : Type::Kind::tensor;
}

// Where a tensor of ours differs most from what is expected.
std::string tensor_difference(const Tensor& actual, const Tensor& expected, const Tolerance& tol) {
  if (actual.dtype() != expected.dtype() || actual.shape() != expected.shape())
    return str("is ", to_text(actual.type()), ", expected ", to_text(expected.type()));
  if (actual.dtype() == DType::string)
    return actual.strings() == expected.strings() ? "" : "strings differ";
  int64_t parts = is_complex(actual.dtype()) ? 2 : 1;
  DType dtype = actual.dtype() == DType::c64    ? DType::f32
                : actual.dtype() == DType::c128 ? DType::f64
                                                : actual.dtype();
  double worst = -1;
  int64_t worst_at = 0, wrong = 0, n = actual.count() * parts;
  for (int64_t i = 0; i < n; ++i) {
    double a = load_real(dtype, actual.data(), static_cast<size_t>(i));
    double e = load_real(dtype, expected.data(), static_cast<size_t>(i));
    if (a == e || (std::isnan(a) && std::isnan(e))) continue;
    double error = std::abs(a - e);
    if (std::isfinite(a) && std::isfinite(e) && error <= tol.atol + tol.rtol * std::abs(e))
      continue;
    ++wrong;
    if (std::isfinite(error) ? error > worst : worst < HUGE_VAL) {
      worst = std::isfinite(error) ? error : HUGE_VAL;
      worst_at = i;
    }
  }
  if (wrong == 0) return "";
  auto at = static_cast<size_t>(worst_at);
  return str(wrong, " of ", n, " elements differ, most at ", worst_at / parts, ": ",
             load_real(dtype, actual.data(), at), ", expected ",
             load_real(dtype, expected.data(), at));
}

}  // namespace

DataSet read_data_set(const fs::path& model, const fs::path& folder) {
  onnx::Model wire = onnx::read_model(model, onnx::External::kLeave);
  DataSet data;
  auto inputs = proper_inputs(wire, {});
  for (size_t i = 0; i < inputs.size(); ++i) {
    fs::path file = folder / str("input_", i, ".pb");
    if (!fs::exists(file)) break;
    data.inputs.emplace_back(inputs[i]->name, read_value(file, kind_of(*inputs[i])));
  }
  for (size_t i = 0; i < wire.graph.output.size(); ++i) {
    fs::path file = folder / str("output_", i, ".pb");
    if (!fs::exists(file)) break;
    data.outputs.push_back(read_value(file, kind_of(wire.graph.output[i])));
  }
  return data;
}

std::vector<fs::path> data_sets_of(const fs::path& model) {
  std::vector<fs::path> folders;
  for (const auto& entry : fs::directory_iterator(model.parent_path())) {
    if (entry.is_directory() && entry.path().filename().string().starts_with("test_data_set_"))
      folders.push_back(entry.path());
  }
  std::sort(folders.begin(), folders.end());
  return folders;
}

Tolerance tolerance_of(const fs::path& model) {
  Tolerance t;
  fs::path file = model.parent_path() / "data.json";
  if (!fs::exists(file)) return t;
  return with_note([&] { return file.string(); },
                   [&] {
                     SharedBytes bytes = map_file(file).value_or_throw();
                     Json json = Json::parse(bytes.text()).value_or_throw();
                     t.rtol = json.at("rtol").number_or(t.rtol);
                     t.atol = json.at("atol").number_or(t.atol);
                     return t;
                   });
}

std::string difference(const Value& actual, const Value& expected, const Tolerance& tolerance) {
  if (actual.kind != expected.kind || actual.items.size() != expected.items.size())
    return str("is ", to_text(actual.type()), ", expected ", to_text(expected.type()));
  if (actual.is_tensor()) return tensor_difference(actual.tensor, expected.tensor, tolerance);
  for (size_t i = 0; i < actual.items.size(); ++i) {
    auto d = difference(actual.items[i], expected.items[i], tolerance);
    if (!d.empty()) return str("item ", i, " ", d);
  }
  return "";
}

}  // namespace emend
