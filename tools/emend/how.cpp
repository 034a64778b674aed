#include "how.h"

#include <cmath>
#include <cstdlib>

namespace emend {
namespace {

// "strict", or a number that is an error.
double accuracy_named(const std::string& text) {
  if (text == "strict") return 0;
  char* end = nullptr;
  double accuracy = std::strtod(text.c_str(), &end);
  if (*end != 0 || !std::isfinite(accuracy) || accuracy <= 0)
    throw UsageError{str("--accuracy ", text, ": neither strict nor a number above zero")};
  return accuracy;
}

}  // namespace

OptimizeOptions HowOptions::options(const Globals& globals) const {
  OptimizeOptions how{.level = level, .enable = enable, .disable = disable};
  if (!accuracy.empty()) how.accuracy = accuracy_named(accuracy);
  how.seed = globals.seed + 1;
  how.monitor = globals.monitor;
  return how;
}

void add_how_options(CLI::App& command, HowOptions& how) {
  command.add_option("-O", how.level, "how hard to try: 0 changes nothing, 1 cleans, 2 searches")
      ->check(CLI::Range(0, 2))
      ->capture_default_str();
  command
      .add_option("--enable", how.enable, "rules and passes to keep although --disable names them")
      ->type_name("GLOB");
  command.add_option("--disable", how.disable, "rules and passes to leave out")->type_name("GLOB");
  command
      .add_option("--accuracy", how.accuracy,
                  "largest error relative to an output's largest value, or strict: the same bits "
                  "from optimizing, no kernel that loses more than a plain sum")
      ->type_name("ERROR");
}

}  // namespace emend
