// The verbs of the command `emend`: one file each, which adds a subcommand with its options and
// says what to do. main.cpp lists them. Results go to stdout, everything else to stderr.
#pragma once

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <functional>
#include <string>
#include <string_view>

#include "base/json.h"
#include "base/progress.h"
#include "import/onnx.h"
#include "progress_view.h"

namespace emend {

// The contract of the command line.
enum ExitCode : int {
  kOk = 0,
  kInternalError = 1,
  kUsage = 2,
  kBadModel = 3,  // unsupported or invalid
  kDifferent = 4,
  kGateFailed = 5,
  kNothingGained = 6,
  kUnknown = 7,  // verify could not decide
  kDimensionsFixed = 8,
  kInterrupted = 130,
};

// A mistake in the command line that only shows once it is looked at: exit code 2.
struct UsageError {
  std::string message;
};

// Text for a terminal, without what one obeys: control characters become \n, \t, \x1b. Names of a
// model may hold anything.
std::string printable(std::string_view text);

// Options that mean the same for every verb.
struct Globals {
  std::string json;  // a file, "-" for stdout, or none
  bool quiet = false;
  int threads = 0;
  uint64_t seed = 0;
  std::string debug_fail;         // the phase that fails, to see what happens then
  std::string progress = "auto";  // how long work is shown
  ProgressView* view = nullptr;   // what shows it
  Monitor monitor = {};           // what verbs hand to long work: the view listens

  // Writes the report where --json asked for it.
  void report(const Json& facts) const;
  // Work is over: nothing is in the way of results.
  void finish_progress() const { view->clear(); }
  // A line on stderr, unless --quiet.
  void say(const std::string& line) const;
};

struct Verb {
  CLI::App* command;
  std::function<int()> run;
};

// Each adds its subcommand to `app`. Options live as long as the Verb's function.
Verb optimize_verb(CLI::App& app, const Globals& globals);
Verb run_verb(CLI::App& app, const Globals& globals);
Verb conformance_verb(CLI::App& app, const Globals& globals);
Verb zoo_verb(CLI::App& app, const Globals& globals);
Verb doctor_verb(CLI::App& app, const Globals& globals);
Verb inspect_verb(CLI::App& app, const Globals& globals);
Verb verify_verb(CLI::App& app, const Globals& globals);
Verb bench_verb(CLI::App& app, const Globals& globals);
Verb cache_verb(CLI::App& app, const Globals& globals);
Verb explain_verb(CLI::App& app, const Globals& globals);
Verb extract_verb(CLI::App& app, const Globals& globals);
Verb rules_verb(CLI::App& app, const Globals& globals);

// What several options would write to one place, or over what is read, is a UsageError. The file
// that is read may be replaced by OUT. Empty paths and - stand for none.
struct Written {
  std::string option, path;
};
void require_apart(const std::vector<Written>& written, const std::string& read);
// An empty one is none.
CLI::Validator a_file_name();

// --shape x:1x3x224x224 (a whole input) or N=8 (a symbolic dimension), any number of times.
void add_shape_option(CLI::App& command, std::vector<std::string>& shapes);
void apply_shapes(const std::vector<std::string>& shapes, ImportOptions& options);

}  // namespace emend
