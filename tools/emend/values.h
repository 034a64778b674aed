// What goes into a model that a verb runs, and what comes out: inputs from files, from a
// test_data_set or random; outputs as files.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "ir/graph.h"
#include "pipeline/test_data.h"
#include "verb.h"

namespace emend {

struct InputOptions {
  std::vector<std::string> files, shapes;  // --input NAME:FILE, --shape
};
void add_input_options(CLI::App& command, InputOptions& options);

// Values may decide shapes, so that most are read before the model is imported.
class GivenInputs {
 public:
  GivenInputs(const InputOptions& options, const DataSet& data);

  ImportOptions import;
  // For every input of the program; those without a value are random where there is a seed.
  std::vector<Value> values(const Graph& g, std::optional<uint64_t> seed) const;

 private:
  std::map<std::string, std::filesystem::path> files_;
};

// Each output as NAME.npy, where what does not belong into a file name becomes a line: x/y:0 is in
// x_y_0.npy.
void save_outputs(const Graph& g, const std::vector<Value>& outputs,
                  const std::filesystem::path& folder);

}  // namespace emend
