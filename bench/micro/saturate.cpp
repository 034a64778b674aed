// Saturation of the built-in models alone: how large the e-graph becomes, why it stops, how long it
// takes, and with --rules what every rule did.
//   ninja -C build saturate_bench && build/saturate_bench [--rules] [--nodes N] [--repeats N]
//   [MODEL ...]
#include "saturate/saturate.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "simplify/simplify.h"
#include "zoo/zoo.h"

namespace emend {
namespace {

void measure(const std::string& name, size_t nodes, size_t repeats, bool rules) {
  Graph g = simplify(build_zoo(name).graph, {.finish = false});
  SaturateOptions options;
  if (nodes) options.nodes = nodes;
  SaturateReport r;  // the fastest
  for (size_t i = 0; i < repeats; ++i) {
    SaturateReport again;
    saturate(g, options, &again);
    if (i == 0 || again.seconds < r.seconds) r = again;
  }
  std::printf("%-16s %6zu | %7zu %7zu | %4zu %-11s | %8.1f\n", name.c_str(), g.size(), r.nodes,
              r.classes, r.rounds, std::string(to_text(r.stopped)).c_str(), 1e3 * r.seconds);
  if (!rules) return;
  for (const auto& f : r.fired)
    std::printf("    %-34s %8zu matches %8zu fired %8.2f ms\n", f.rule.c_str(), f.matches, f.times,
                1e3 * f.seconds);
}

}  // namespace
}  // namespace emend

int main(int argc, char** argv) {
  std::vector<std::string> names;
  bool rules = false;
  size_t nodes = 0, repeats = 1;
  for (int i = 1; i < argc; ++i) {
    std::string arg = argv[i];
    if (arg == "--rules") {
      rules = true;
    } else if (arg == "--nodes" && i + 1 < argc) {
      nodes = static_cast<size_t>(std::atoll(argv[++i]));
    } else if (arg == "--repeats" && i + 1 < argc) {
      repeats = static_cast<size_t>(std::max(1LL, std::atoll(argv[++i])));
    } else {
      names.push_back(arg);
    }
  }
  if (names.empty()) {
    for (const emend::ZooEntry& e : emend::zoo()) names.push_back(e.name);
  }
  std::printf("%-16s %6s | %15s | %16s |\n", "", "", "e-graph", "");
  std::printf("%-16s %6s | %7s %7s | %4s %-11s | %8s\n", "model", "nodes", "nodes", "classes",
              "rds", "stopped by", "ms");
  for (const std::string& name : names) emend::measure(name, nodes, repeats, rules);
}
