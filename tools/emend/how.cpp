#include "how.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "base/text.h"

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

// Everything that can be switched.
std::vector<std::string> switches() {
  std::vector<std::string> names(std::begin(kPasses), std::end(kPasses));
  for (const Rule& r : all_rules()) names.push_back(r.name);
  for (const Mutation& m : all_mutations()) names.push_back(m.rule.name);
  return names;
}

// How many letters must be put in, taken out or changed.
size_t distance(const std::string& a, const std::string& b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = std::exchange(row[0], i);
    for (size_t j = 1; j <= b.size(); ++j) {
      size_t changed = diagonal + (a[i - 1] != b[j - 1]);
      diagonal = row[j];
      row[j] = std::min({changed, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row.back();
}

// 60, 60s, 2m or 1h.
double seconds_named(const std::string& text) {
  char* end = nullptr;
  const double number = std::strtod(text.c_str(), &end);
  const std::string unit = end;
  const double scale = unit.empty() || unit == "s" ? 1 : unit == "m" ? 60 : unit == "h" ? 3600 : -1;
  if (end == text.c_str() || !std::isfinite(number) || number < 0 || scale < 0)
    throw UsageError{str("--budget ", text, ": not a time such as 60s, 2m or 1h")};
  return number * scale;
}

// Where the list cannot be used, times are measured all the same.
std::shared_ptr<PriceList> price_list(const Globals& globals) {
  try {
    return std::make_shared<PriceList>(default_price_list());
  } catch (const Error& error) {
    globals.say(str(error.what(), "; measured times are not kept"));
    return std::make_shared<PriceList>(":memory:");
  }
}

}  // namespace

Measuring measuring(const HowOptions& how, const Globals& globals) {
  if (how.no_measure) return {};
  double seconds = 0;
  try {
    seconds = how.budget.empty() ? usual_budget() : seconds_named(how.budget);
  } catch (const Error& e) {
    throw UsageError{e.what()};
  }
  const int level = how.level.value_or(OptimizeOptions().level);
  if (seconds == 0 || level < 2) return {};
  return {.prices = price_list(globals),
          .seconds = seconds,
          .keeping = {default_search_folder(), how.search_again}};
}

size_t fastest_here(std::span<const Graph> programs, const OptimizeOptions& how,
                    const Measuring& by, OptimizeReport& report) {
  CompileFlowOptions options{.accuracy = how.accuracy, .seed = how.seed, .measuring = by};
  options.memory = how.memory;
  options.cpu.compile.monitor = how.monitor;
  options.others.assign(programs.begin() + 1, programs.end());
  CompileReport facts;
  try {
    compile(programs[0], options, &facts);
  } catch (const Error& e) {
    report.faults.push_back(str("nothing was measured: ", e.what()));
    if (how.warn) how.warn(report.faults.back());
    return 0;
  }
  RuntimeReport here{
      .runtime = "emend", .measured = facts.prices_measured, .known = facts.prices_known};
  for (const PlanTime& p : facts.plans) {
    const bool cleaned = p.name.starts_with("without search");
    double& best = cleaned ? here.before_s : here.after_s;
    if (best == 0 || p.ms / 1e3 < best) best = p.ms / 1e3;
  }
  if (here.before_s == 0 || here.after_s == 0) return facts.program;  // they did not race
  here.kept_input = facts.program == 1;
  if (here.kept_input) here.after_s = here.before_s;
  report.elsewhere = std::move(here);
  return facts.program;
}

ToRun optimized_for_here(const Graph& g, const OptimizeOptions& how, bool measured,
                         OptimizeReport* report) {
  ToRun result{optimized_to_run(g, how, report), {}};
  if (!measured || how.level < 2) return result;
  OptimizeOptions cleaning = how;
  cleaning.level = 1;
  cleaning.warn = nullptr;
  Graph cleaned = optimized_to_run(g, cleaning);
  if (!(cleaned == result.graph)) result.others.push_back(std::move(cleaned));
  return result;
}

void add_measure_options(CLI::App& command, HowOptions& how) {
  command
      .add_option("--budget", how.budget,
                  "how long the first start on a machine may measure kernels and programs, as 60s, "
                  "2m or 1h ($EMEND_BUDGET in seconds, else 10s)")
      ->type_name("TIME");
  command.add_flag("--no-measure", how.no_measure,
                   "by estimates alone: the same decisions on every machine of this kind");
}

void demand_known(const std::vector<std::string>& globs, const char* option) {
  if (globs.empty()) return;
  std::vector<std::string> names = switches();
  for (const std::string& glob : globs) {
    if (std::ranges::any_of(names, [&](const std::string& n) { return glob_match(glob, n); }))
      continue;
    std::ranges::stable_sort(names, {}, [&](const std::string& n) { return distance(glob, n); });
    throw UsageError{str(option, " ", glob, ": no rule, mutation or pass is called so; near are ",
                         names[0], ", ", names[1], " and ", names[2],
                         " ('emend rules list' prints them)")};
  }
}

OptimizeOptions HowOptions::options(const Globals& globals) const {
  demand_known(enable, "--enable");
  demand_known(disable, "--disable");
  OptimizeOptions how{.enable = enable, .disable = disable};
  if (level) how.level = *level;
  how.keeping = {default_search_folder(), search_again};
  if (!accuracy.empty()) how.accuracy = accuracy_named(accuracy);
  how.seed = globals.seed + 1;
  how.effort = effort;
  how.monitor = globals.monitor;
  how.warn = [&globals](const std::string& fault) { globals.say(fault); };
  return how;
}

void add_how_options(CLI::App& command, HowOptions& how) {
  command
      .add_option("-O", how.level,
                  str("how hard to try: 0 changes nothing, 1 cleans, 2 searches, too, 3 searches "
                      "longer, with mutants that no table names (",
                      OptimizeOptions().level, ")"))
      ->check(CLI::Range(0, 3));
  command.add_flag("--search-again", how.search_again,
                   "search although the result of an earlier search is kept");
  command.add_option("--effort", how.effort, "times the usual limits of the search (1)")
      ->check(CLI::Range(0.01, 1000.0));
  command
      .add_option("--enable", how.enable,
                  "rules, mutations and passes to keep although --disable names them")
      ->type_name("GLOB");
  command.add_option("--disable", how.disable, "rules, mutations and passes to leave out")
      ->type_name("GLOB");
  command
      .add_option("--accuracy", how.accuracy,
                  "largest error of a kernel's sums, relative to the sums of magnitudes of their "
                  "output channel, for any finite input (docs/ir.md), or strict: the same bits "
                  "from optimizing, no kernel that loses more than a plain sum")
      ->type_name("ERROR");
}

}  // namespace emend
