// How much the search leaves on the table: each model by default, and searched in many other ways,
// none of which a user may have to know: a family of rules left out, all that only grow, mutation,
// ten and a hundred times the limits. One line of JSON for each model (bench/regret.py reads them).
//   build/bench_regret [--ways all|quick|again|useless|none] MODEL.onnx ...
#include <chrono>
#include <cstdio>
#include <cstring>
#include <set>
#include <string>
#include <vector>

#include "base/json.h"
#include "import/onnx.h"
#include "pipeline/compile.h"
#include "pipeline/optimize.h"

namespace emend {
namespace {

struct Way {
  std::string name;
  std::vector<std::string> disable;
  double effort = 1;
  bool quick = true;  // it takes no longer than the default
  int useless = 0;    // rules besides those of the table
};

// Rules that are true, match nearly everywhere, and are of no use to anybody: what the table says
// in other words, and identities in disguise.
std::vector<Rule> useless_rules(int count) {
  std::vector<Rule> rules;
  for (int i = 0; static_cast<int>(rules.size()) < count; ++i) {
    const std::string c = std::to_string(2 + i), n = "useless-" + c + "-";
    for (Rule& r : std::vector<Rule>{
             rule(n + "1", "(add (add ?x ?y) ?z)", "(add (add ?x ?z) ?y)"),
             rule(n + "2", "(add ?x ?y)", "(sub (add ?x (add ?y " + c + ")) " + c + ")"),
             rule(n + "3", "(mul (add ?x ?y) ?z)", "(add (mul ?x ?z) (mul ?y ?z))"),
             rule(n + "4", "(mul ?x ?y)",
                  "(mul (mul ?x " + c + ") (mul ?y (reciprocal " + c + ")))"),
             rule(n + "5", "(matmul ?x (matmul ?y ?z))", "(matmul (matmul ?x ?y) ?z)")}) {
      if (static_cast<int>(rules.size()) < count) rules.push_back(std::move(r));
    }
  }
  return rules;
}

// Rules that make programs wider before they make them better, by what they say.
const std::vector<Way>& ways() {
  static const std::vector<Way> kWays = [] {
    std::vector<Way> all = {
        {"at prices that are known", {}},
        {"without sum-of-convs", {"sum-of-convs*"}},
        {"without conv-adds", {"conv-adds-*"}},
        {"without conv-scales", {"conv-scales-*", "conv-neg-*"}},
        {"without composed convolutions", {"conv-after-pixel", "pixel-after-*"}},
        {"without pixels as products", {"conv-pixel-is-matmul"}},
        {"without groups paired", {"conv-groups-paired"}},
        {"without mul-distributes", {"mul-distributes"}},
        {"without mul-distributes, split-through", {"mul-distributes", "split-through*"}},
        {"without split-through", {"split-through*"}},
        {"without concat-through", {"concat-through*", "concat-of-*", "concat-swap"}},
        {"without slice-through", {"slice-through*", "slice-of-*", "*-of-slice"}},
        {"without reshape-through", {"reshape-through*"}},
        {"without transpose-through", {"transpose-through*", "transpose-above*", "transpose-of-*"}},
        {"without view-through", {"view-through*", "view-of-*", "*-of-view"}},
        {"without patches", {"patch-*", "*-of-patch"}},
        {"without commuting", {"*-commutes"}},
        {"without associating", {"*-associates"}},
        {"without commuting, associating", {"*-commutes", "*-associates"}},
        {"without moved weights", {"add-moves-weights", "add-pulls-constant"}},
        {"without sums of products", {"sum-of-matmuls*", "matmul-adds-*", "matmul-distributes*"}},
        {"without merges", {"merge-*"}},
        {"without pulled reductions", {"*-pulls-*", "*-of-matmul-*"}},
        {"without differences as sums", {"sub-is-add", "div-is-mul"}},
        {"without mutation", {"mutate"}},
        {"with 200 useless rules", {}, 1, true, 200},
        {"with 10 times the limits", {}, 10, false},
        {"with 100 times the limits", {}, 100, false},
    };
    Way none{"without all that grows", {}};
    for (const Way& w : all) {
      if (!w.disable.empty() && w.disable[0] != "mutate" && w.disable[0] != "merge-*")
        none.disable.insert(none.disable.end(), w.disable.begin(), w.disable.end());
    }
    all.push_back(none);
    return all;
  }();
  return kWays;
}

std::string arguments_of(const Way& w) {
  std::string text;
  for (const std::string& glob : w.disable)
    text += (text.empty() ? "--disable '" : " '") + glob + "'";
  if (w.useless > 0) return "";  // no command has them
  if (w.effort != 1) text += "--effort " + std::to_string(static_cast<int>(w.effort));
  return text;
}

// What one search came to.
Json searched(const Graph& cleaned, const Way& way, const SearchPrices& prices, double& before_s) {
  OptimizeOptions how{.disable = way.disable, .effort = way.effort};
  ImproveReport report;
  auto start = std::chrono::steady_clock::now();
  ImproveOptions options = search_options(how, prices);
  if (way.useless > 0) {
    options.saturate.rules = all_rules();
    for (Rule& r : useless_rules(way.useless)) options.saturate.rules.push_back(std::move(r));
  }
  improve(cleaned, options, &report);
  std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  before_s = report.before_s;
  Json j = Json::object();
  j["price_ms"] = 1e3 * report.after_s;
  j["seconds"] = seconds.count();
  j["enodes"] = report.saturated.nodes;
  j["stopped"] = std::string(to_text(report.saturated.stopped));
  j["rests_on"] = Json::array();
  for (const std::string& rule : std::set(report.trail.begin(), report.trail.end()))
    j["rests_on"].push(rule);
  return j;
}

Json measured(const std::string& path, const std::string& asked) {
  Graph cleaned = simplify(import_onnx(path).graph, {.finish = false});
  SearchPrices prices = back_end_prices(target_here());  // known to all ways but the first
  prices.worthwhile = 1;  // what is found counts, not whether it is worth a change
  Json j = Json::object();
  double before_s = 0;
  j["model"] = path;
  j["nodes"] = cleaned.size();
  Json first = searched(cleaned, {}, prices, before_s);
  j["before_ms"] = 1e3 * before_s;
  j["default"] = std::move(first);
  j["ways"] = Json::array();
  for (const Way& way : ways()) {
    if (asked == "none" ||
        (asked == "again" && !(way.disable.empty() && way.quick && !way.useless)) ||
        (asked == "quick" && !way.quick) || (asked == "useless" && way.useless == 0))
      continue;
    Json found = searched(cleaned, way, prices, before_s);
    Json& entry = j["ways"].push(Json::object());
    entry["name"] = way.name;
    entry["arguments"] = arguments_of(way);
    for (const char* fact : {"price_ms", "seconds", "enodes", "stopped", "rests_on"})
      entry[fact] = found.at(fact);
  }
  return j;
}

}  // namespace
}  // namespace emend

int main(int argc, char** argv) {
  std::string asked = "all";
  int first = 1;
  if (argc > 2 && std::strcmp(argv[1], "--ways") == 0) {
    asked = argv[2];
    first = 3;
  }
  for (int i = first; i < argc; ++i) {
    emend::Json line = emend::Json::object();
    try {
      line = emend::measured(argv[i], asked);
    } catch (const std::exception& e) {
      line["model"] = argv[i];
      line["error"] = e.what();
    }
    std::printf("%s\n", line.line().c_str());
    std::fflush(stdout);
  }
}
