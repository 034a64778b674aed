// emend explain IN: why the optimized model is what it is. Which rules changed it, with their
// equations; on which firings of the search it rests, in the order in which they replay; what was
// found besides and why it lost.
#include <algorithm>
#include <iostream>
#include <memory>
#include <set>

#include "how.h"
#include "interruption.h"
#include "pipeline/optimize.h"
#include "rules/rule.h"
#include "verb.h"

namespace emend {
namespace {

struct Options {
  std::string in;
  std::vector<std::string> shapes;
  HowOptions how;
};

// A rule by the name that a report gives; what is no rule (a pass) explains itself.
void print_rule(const std::string& name, const std::string& times) {
  std::cout << "  " << name << times << '\n';
  if (const Rule* r = find_rule(name)) std::cout << "      " << to_text(*r) << '\n';
}

// What a limit kept from being looked at: a step is a firing, or what makes the program dearer by
// a hundredth of its price.
void print_held_back(const SaturateReport& r) {
  bool any = false;
  for (const auto& f : r.fired) {
    if (f.waiting == 0) continue;
    if (!any) std::cout << "held back by the limit of nodes (--effort raises it)\n";
    any = true;
    std::cout << "  " << f.rule << ", " << f.waiting << " places, the nearest " << f.nearest
              << " steps from the program\n";
  }
  for (const auto& f : r.fired) {
    if (f.too_many)
      std::cout << "given up, since it matches at too many places: " << f.rule << '\n';
  }
}

void print_trail(const ImproveReport& r) {
  std::cout << "search: " << r.saturated.nodes << " e-nodes in " << r.saturated.classes
            << " classes after " << r.saturated.rounds << " rounds, stopped by "
            << to_text(r.saturated.stopped) << (r.recalled ? ", at an earlier start" : "") << '\n';
  std::cout << "the result rests on " << r.trail.size() << " firings, in this order\n";
  std::set<std::string> told;
  size_t i = 0;
  while (i < r.trail.size()) {
    size_t first = i;
    while (i < r.trail.size() && r.trail[i] == r.trail[first]) ++i;
    std::string times = i - first > 1 ? str(", ", i - first, " times") : "";
    if (told.insert(r.trail[first]).second) {
      print_rule(r.trail[first], times);
    } else {
      std::cout << "  " << r.trail[first] << times << '\n';
    }
  }
  std::cout << "found besides, without being of use\n";
  bool any = false;
  for (const auto& f : r.saturated.fired) {
    if (f.times == 0 || told.count(f.rule)) continue;
    std::cout << "  " << f.rule << ", " << f.times << " times\n";
    any = true;
  }
  if (!any) std::cout << "  nothing\n";
  print_held_back(r.saturated);
  std::cout << "prices of one run by the back end's estimate\n  as it was: " << 1e3 * r.before_s
            << " ms\n";
  for (double s : r.priced_s) {
    std::cout << "  found:     " << 1e3 * s << " ms"
              << (s == r.after_s && s < r.before_s ? ", taken" : "") << '\n';
  }
  if (r.trail.empty())
    std::cout << "nothing that was found is cheaper by more than estimates can tell\n";
}

Json facts_of(const OptimizeReport& report) {
  Json j = Json::object();
  j["schema"] = 1;
  j["cleaned_by"] = Json::array();
  for (const auto& f : report.simplified.fired) j["cleaned_by"].push(f.rule);
  j["trail"] = Json::array();
  j["prices_ms"] = Json::array();
  if (report.improved) {
    for (const std::string& rule : report.improved->trail) j["trail"].push(rule);
    j["price_before_ms"] = 1e3 * report.improved->before_s;
    for (double s : report.improved->priced_s) j["prices_ms"].push(1e3 * s);
  }
  return j;
}

int run(const Options& o, const Globals& globals) {
  ImportOptions import;
  apply_shapes(o.shapes, import);
  Interruption interruption;
  OptimizeOptions how = o.how.options(globals);
  how.monitor = globals.monitor.stopped_by(interruption.flag());
  OptimizeReport report;
  optimized(import_onnx(o.in, import).graph, how, &report);
  globals.finish_progress();
  globals.report(facts_of(report));
  if (globals.json == "-") return kOk;
  std::cout << "cleaned by\n";
  for (const auto& f : report.simplified.fired)
    print_rule(f.rule, f.times > 1 ? str(", ", f.times, " times") : "");
  if (report.simplified.fired.empty()) std::cout << "  nothing\n";
  if (report.improved) print_trail(*report.improved);
  return interruption.requested() ? kInterrupted : kOk;
}

}  // namespace

Verb explain_verb(CLI::App& app, const Globals& globals) {
  auto o = std::make_shared<Options>();
  CLI::App* c =
      app.add_subcommand("explain", "why: which rules change a model, and what else was found");
  c->add_option("IN", o->in, "the model")->required();
  add_how_options(*c, o->how);
  add_shape_option(*c, o->shapes);
  return {c, [o, &globals] { return run(*o, globals); }};
}

}  // namespace emend
