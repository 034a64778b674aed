// Another runtime on this machine, asked how long it takes: programs are written as ONNX files of
// standard operators into a folder that passes, and a helper process (runtime_helper.py, Python
// with that runtime) times them. What was measured goes into the price list under the runtime's
// name and version, so that the same question is not measured twice and a decision can be replayed.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/progress.h"
#include "base/result.h"
#include "cost/price_list.h"
#include "ir/model.h"
#include "run/line_process.h"

namespace emend {

struct OtherRuntimeOptions {
  std::string name;  // "onnxruntime" or "openvino"
  int threads = 0;   // 0: as many as there are
  std::shared_ptr<PriceList> prices;
  // Of a program that is timed: what the file that is to be written has.
  int64_t ir_version = ModelInfo().ir_version;
  std::map<std::string, int64_t> opsets = ModelInfo().opsets;
  double patience_s = 600;  // for one answer
  Monitor monitor = {};
};

class OtherRuntime {
 public:
  // Starts the helper; throws Error that says what to install where it cannot be had.
  explicit OtherRuntime(OtherRuntimeOptions options);
  ~OtherRuntime();
  OtherRuntime(const OtherRuntime&) = delete;
  OtherRuntime& operator=(const OtherRuntime&) = delete;

  static bool knows(std::string_view name);
  std::string title() const;  // "onnxruntime 1.31.1"
  // Whether chains of elementwise operators are one kernel there; a few known pairs do not count.
  bool fuses() const { return options_.name == "openvino"; }

  // Seconds of one run. Fails where the program does not run there, with the reason, and where it
  // was stopped. Throws Error when the helper fails again and again.
  Result<double> seconds(const Graph& g, const std::string& key);
  // Of both, by turns: their ratio is worth more than either.
  Result<std::pair<double, double>> race(const Graph& a, const Graph& b);

  size_t measured() const { return measured_; }
  size_t known() const { return known_; }
  bool stopped() const { return options_.monitor.stop_requested(); }

 private:
  void start();
  Result<std::vector<double>> time(const std::vector<std::filesystem::path>& files, double seconds);
  std::filesystem::path written(const Graph& g);
  // The price as it is listed from now on.
  double listed(const std::string& key, double seconds);

  OtherRuntimeOptions options_;
  std::string version_, prefix_;  // of its keys
  std::filesystem::path folder_;
  std::unique_ptr<LineProcess> process_;
  int failures_ = 0;  // of the helper, in a row
  size_t measured_ = 0, known_ = 0, files_ = 0;
  // The first of the last race lies there still, and is loaded still.
  uint64_t first_ = 0;
  std::filesystem::path first_file_;
};

}  // namespace emend
