// Partitions of the built-in models: groups, prices and how long finding them takes.
//   ninja -C build fuse_bench && build/fuse_bench [MODEL ...]
#include "fuse/fuse.h"

#include <chrono>
#include <cstdio>

#include "zoo/zoo.h"

int main(int argc, char** argv) {
  using namespace emend;
  std::vector<std::string> names(argv + 1, argv + argc);
  if (names.empty()) {
    for (const ZooEntry& e : zoo()) names.push_back(e.name);
  }
  Target target{.threads = 2};
  std::printf("%-16s %6s | groups: %7s %7s %7s | price, ms: %9s %9s %9s | %8s\n", "model", "nodes",
              "alone", "greedy", "fused", "alone", "greedy", "fused", "seconds");
  for (const std::string& name : names) {
    Graph g = decomposed(build_zoo(name, {.weights = false}).graph);
    Partition alone = fuse(g, {.fuse = false, .target = target});
    Partition greedy = fuse(g, {.target = target, .budget = 0});
    auto start = std::chrono::steady_clock::now();
    Partition fused = fuse(g, {.target = target});
    std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    auto ms = [&](const Partition& p) { return 1e3 * price(g, p, target).value_or(-1); };
    std::printf("%-16s %6zu | groups: %7zu %7zu %7zu | price, ms: %9.3f %9.3f %9.3f | %8.3f\n",
                name.c_str(), g.size(), alone.groups.size(), greedy.groups.size(),
                fused.groups.size(), ms(alone), ms(greedy), ms(fused), took.count());
  }
}
