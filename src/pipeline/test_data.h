// ONNX's way of storing test data: folders test_data_set_N with input_K.pb and output_K.pb, beside
// a model and sometimes a data.json with tolerances.
#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "ir/tensor.h"

namespace emend {

struct DataSet {
  std::vector<std::pair<std::string, Value>> inputs;  // by the model's input names, in order
  std::vector<Value> outputs;                         // as many as there are files
};

// The model says of which kind each value is. Throws Error naming the file and the reason.
DataSet read_data_set(const std::filesystem::path& model, const std::filesystem::path& folder);
// The folders test_data_set_* beside a model, sorted.
std::vector<std::filesystem::path> data_sets_of(const std::filesystem::path& model);

struct Tolerance {
  double rtol = 1e-3, atol = 1e-7;  // the suite's defaults
};
Tolerance tolerance_of(const std::filesystem::path& model);

// Empty if `actual` is as expected: same types and shapes, |actual - expected| <= atol + rtol *
// |expected| for every element, NaNs equal, strings exact. Else what differs most.
std::string difference(const Value& actual, const Value& expected, const Tolerance& tolerance);

}  // namespace emend
