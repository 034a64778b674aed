// Every model of ONNX's suite and of the zoo through both notations. As text: print and parse give
// the same program and again the same text. As a file: import, export and import give a program
// that is the same, or one that computes the same and changes no more the second time (an operator
// written as several, an attribute rounded to the file's single precision). That written files are
// valid for others is tests/oracle/test_onnx_roundtrip.py's part.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <mutex>

#include "base/parallel.h"
#include "equiv/compare.h"
#include "export/onnx.h"
#include "import/onnx.h"
#include "onnx/write.h"
#include "ops/evaluate.h"
#include "ops/table.h"
#include "pipeline/test_data.h"
#include "text/text.h"
#include "zoo/zoo.h"

namespace emend {
namespace {

namespace fs = std::filesystem;

// Why the text of a program is not as good as the program; empty if it is.
std::string text_fault(const Graph& g) {
  int64_t elements = 0;
  for (const Tensor& t : g.constants) elements += t.count();
  // Weights of whole networks stand beside the text; everything else is spelled out.
  PrintOptions options{.all_constants = elements < 100'000};
  std::string text = print(g, options);
  Graph again = parse_graph(text, {g.constants.begin(), g.constants.end()});
  if (again != g) return "its text is another program";
  return print(again, options) == text ? "" : "its text is written otherwise the second time";
}

// On the values that came with the model, or on random ones.
std::vector<Value> run(const Graph& g, const std::map<std::string, Value>& values) {
  std::vector<Value> inputs;
  if (values.empty()) inputs = random_inputs(g, 1);
  for (size_t i = 0; i < g.inputs.size() && !values.empty(); ++i)
    inputs.push_back(values.at(g.inputs[i].name));
  return evaluate(g, inputs);
}

// Files do not say which stream a random operator draws from, so its numbers may change.
bool draws(const Graph& g) {
  return std::any_of(g.nodes.begin(), g.nodes.end(),
                     [](const Node& n) { return op_def(n).kind == Kind::random; });
}

struct Tally {
  size_t same_program = 0, same_results = 0;
  std::vector<std::string> faults;
};

Model written_and_read(const Model& m, const ImportOptions& options) {
  std::string bytes = onnx::serialize(export_onnx(m).file);
  return OnnxFile(SharedBytes::adopt(std::move(bytes)), "written.onnx").import(options);
}

// The same program up to the order in which its nodes are listed: files have their constants first.
bool same_expression(const Graph& a, const Graph& b) {
  return a == b || compare(a, b, {.max_operations = 0}).kind == Verdict::Kind::equal;
}

// Why the file of a model is not as good as the model; empty if it is.
std::string file_fault(const Model& m, const ImportOptions& options, bool& same_program) {
  Model again = written_and_read(m, options);
  same_program = same_expression(again.graph, m.graph);
  if (same_program) return "";
  if (again.graph.outputs.size() != m.graph.outputs.size()) return "its file has other outputs";
  if (written_and_read(again, options).graph != again.graph) return "its file changes every time";
  auto before = run(m.graph, options.input_values), after = run(again.graph, options.input_values);
  for (size_t i = 0; i < before.size(); ++i) {
    auto d = difference(after[i], before[i], {.rtol = 1e-6, .atol = 1e-7});
    if (draws(m.graph) && after[i].type() == before[i].type()) continue;
    if (!d.empty()) return str("its file computes another ", m.graph.outputs[i].name, ": ", d);
  }
  return "";
}

std::string case_fault(const fs::path& path, bool& same_program) {
  ImportOptions options;
  if (path.filename() == "model.onnx") {  // the light networks lie side by side and have no inputs
    for (auto& [name, value] : read_data_set(path, data_sets_of(path).at(0)).inputs)
      options.input_values.emplace(name, value);
  }
  Model m = import_onnx(path, options);
  std::string fault = text_fault(m.graph);
  return fault.empty() ? file_fault(m, options, same_program) : fault;
}

Tally tally(const std::vector<fs::path>& files) {
  Tally all;
  std::mutex one_at_a_time;
  parallel_for(static_cast<int64_t>(files.size()), 16, [&](int64_t begin, int64_t end) {
    for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i) {
      bool same_program = false;
      std::string fault;
      try {
        fault = case_fault(files[i], same_program);
      } catch (const std::exception& e) {
        fault = e.what();
      }
      std::lock_guard lock(one_at_a_time);
      if (!fault.empty())
        all.faults.push_back(str(files[i].parent_path().filename().string(), "/",
                                 files[i].filename().string(), ": ", fault));
      else
        ++(same_program ? all.same_program : all.same_results);
    }
  });
  return all;
}

std::vector<fs::path> models_below(const fs::path& folder) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.path().extension() == ".onnx") files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

class RoundTripOfSuite : public testing::TestWithParam<const char*> {};

TEST_P(RoundTripOfSuite, KeepsEveryModel) {
  const char* data = std::getenv("EMEND_ONNX_DATA");
  if (!data) GTEST_SKIP() << "EMEND_ONNX_DATA does not say where ONNX's test cases are";
  auto files = models_below(fs::path(data) / GetParam());
  ASSERT_FALSE(files.empty());
  Tally all = tally(files);
  std::sort(all.faults.begin(), all.faults.end());
  for (const auto& fault : all.faults) ADD_FAILURE() << fault;
  std::cout << files.size() << " models of " << GetParam() << ": " << all.same_program
            << " are read back as the same program, " << all.same_results
            << " as one that computes the same\n";
  EXPECT_GT(all.same_program, all.same_results);
}

INSTANTIATE_TEST_SUITE_P(Kinds, RoundTripOfSuite,
                         testing::Values("node", "simple", "pytorch-converted", "pytorch-operator",
                                         "light"),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

// At full depth and size; weights are zeros that cost no memory, since notations do not look at
// them.
TEST(RoundTripOfZoo, TextKeepsEveryModel) {
  for (const ZooEntry& e : zoo())
    EXPECT_EQ(text_fault(build_zoo(e.name, {.weights = false}).graph), "") << e.name;
}

// Smaller than they are known for: every file is made in memory, some are run, twice.
TEST(RoundTripOfZoo, FilesKeepEveryModel) {
  for (const ZooEntry& e : zoo()) {
    ZooOptions options{.seed = 5,
                       .size = std::min<int64_t>(e.defaults.size, 128),
                       .steps = std::min<int64_t>(e.defaults.steps, 4),
                       .layers = std::min<int64_t>(e.defaults.layers, 2)};
    bool same_program = false;
    EXPECT_EQ(file_fault(build_zoo(e.name, options), {}, same_program), "") << e.name;
    if (!same_program) std::cout << e.name << " is read back as a program that computes the same\n";
  }
}

}  // namespace
}  // namespace emend
