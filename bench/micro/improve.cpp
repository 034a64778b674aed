// The search on the built-in models, without measuring: e-graph, prices by the back end before and
// after, time by phase.
//   ninja -C build improve_bench && build/improve_bench [MODEL ...]
// MUTATE=0 in the environment: without mutants.
#include "pipeline/improve.h"

#include <cstdio>
#include <cstdlib>

#include "simplify/simplify.h"
#include "zoo/zoo.h"

namespace emend {
namespace {

void measure(const std::string& name) {
  Graph g = simplify(build_zoo(name).graph, {.finish = false});
  ImproveReport r;
  ImproveOptions options;
  if (const char* n = std::getenv("NODES")) options.saturate.nodes = std::strtoul(n, nullptr, 10);
  if (const char* n = std::getenv("MATCHES"))
    options.saturate.back_off.matches = std::strtoul(n, nullptr, 10);
  if (const char* n = std::getenv("MUTATE"); n && *n == '0') options.mutate_from = 2;
  improve(g, options, &r);
  std::printf("%-16s %6zu | %7zu %4zu %-10s | %9.3f %9.3f %6.3f | %zu |", name.c_str(), g.size(),
              r.saturated.nodes, r.saturated.rounds,
              std::string(to_text(r.saturated.stopped)).c_str(), 1e3 * r.before_s, 1e3 * r.after_s,
              r.before_s / r.after_s, r.priced_s.size());
  for (const auto& [phase, ms] : r.phases_ms) std::printf(" %s %.1f", phase.c_str(), ms);
  std::printf("\n");
  std::fflush(stdout);
}

}  // namespace
}  // namespace emend

int main(int argc, char** argv) {
  std::vector<std::string> names(argv + 1, argv + argc);
  if (names.empty()) {
    for (const emend::ZooEntry& e : emend::zoo()) names.push_back(e.name);
  }
  std::printf("%-16s %6s | %7s %4s %-10s | %9s %9s %6s | extractions | ms by phase\n", "model",
              "nodes", "e-nodes", "rds", "stopped by", "before ms", "after ms", "gain");
  for (const std::string& name : names) emend::measure(name);
}
