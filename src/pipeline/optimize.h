// The whole flow from a model to a better one, stage by stage, with what each did and how long it
// took, and a check of the result against what came in.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/progress.h"
#include "ir/model.h"
#include "pipeline/accuracy.h"
#include "pipeline/improve.h"
#include "pipeline/kept_searches.h"
#include "pipeline/other_runtime.h"
#include "pipeline/result_check.h"
#include "simplify/simplify.h"

namespace emend {

// What is no rule and has a name all the same: `enable` and `disable` know these, too.
inline constexpr const char* kPasses[] = {
    "fold-constants", "common-subexpressions", "merge-constants", "search", "mutate", "correct",
    "generated"};

struct OptimizeReport;

struct OptimizeOptions {
  // 0: nothing; 1: simplify; 2: search, too; 3: and generate mutants that the table does not name
  int level = 2;
  std::vector<std::string> enable, disable;  // globs over rules and passes
  uint64_t seed = 1;
  double effort = 1;       // times the usual limits of the search
  double accuracy = 1e-4;  // largest error that is accepted, see Checked; 0: the same bits
  double max_check_operations = kMaxCheckOperations;
  int rounds = 200;                      // of cleaning, at most
  int64_t fold_moves_below = INT64_MAX;  // see SimplifyOptions
  std::optional<Target> target;          // whose prices decide; none: this machine's
  std::optional<double> memory;  // weights of what runs, at most so many times those that came in
  // With it, what is measured there decides, and the result is the input where nothing is faster.
  std::shared_ptr<OtherRuntime> runtime;
  // Says which of two equal programs is the faster one, by a clock where the result is to run: what
  // the search found is handed over only where this says so.
  std::function<size_t(std::span<const Graph>, OptimizeReport&)> fastest = nullptr;
  // The result is for any runtime: what the search found is kept for our own kernels (`keeping`),
  // and handed over only where it is less work for everyone's (less_work.h).
  bool for_everyone = false;
  Keeping keeping = {};  // of what the search found and the check said
  // A stop ends the search with the best so far. The check of that runs to its end: what is handed
  // over is no less checked for having been found early.
  Monitor monitor = {};
  // Hears what went wrong and was done without, as the report says it, too.
  std::function<void(const std::string& fault)> warn = nullptr;
  // Sees the program after each stage.
  std::function<void(std::string_view stage, const Graph&)> dump = nullptr;
};

// Seconds of one run of the input and of the result in another runtime.
struct RuntimeReport {
  std::string runtime;
  double before_s = 0, after_s = 0;
  size_t measured = 0, known = 0;  // prices: by this run, and by earlier ones
  std::vector<std::string> forms;  // that the result has, see rules/forms.h
  bool kept_input = false;         // nothing was faster
};

struct OptimizeReport {
  std::vector<std::pair<std::string, double>> phases_ms;  // in the order they ran
  SimplifyReport simplified;
  std::optional<ImproveReport> improved;  // of the search, where there was one
  Checked checked;
  std::optional<RuntimeReport> elsewhere;  // in another runtime, where that decides
  std::vector<std::string> faults;         // bugs of ours that cost a search, part or all of it
  // The search found nothing, or nothing that is less work for everyone: the result is cleaned.
  bool kept_cleaned = false;
};

// How a program that was cleaned is searched, at these prices.
ImproveOptions search_options(const OptimizeOptions& options, SearchPrices prices);

// What optimize says of its result before it is handed over.
Checked check_result(const Graph& before, const Graph& after, const OptimizeOptions& options);

using ResultCheck = std::function<decltype(check_result)>;

// What is run in place of `g`: the result of optimizing it, compared with it once on this machine.
// Where they differ it is cleaned only, and where that differs, too, it is `g` itself; the faults
// of the report say so.
Graph optimized_to_run(const Graph& g, const OptimizeOptions& options,
                       OptimizeReport* report = nullptr, const ResultCheck& check = check_result);

Model optimize(const Model& model, const OptimizeOptions& options = {},
               OptimizeReport* report = nullptr);
// The changes alone, without the comparison: for other sizes of the same model.
Graph optimized(const Graph& g, const OptimizeOptions& options = {},
                OptimizeReport* report = nullptr);

}  // namespace emend
