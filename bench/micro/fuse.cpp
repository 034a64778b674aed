// Partitions of the built-in models: groups, prices, how long finding them takes, and how many
// islands (and pieces of those that are too large) are solved exactly.
//   ninja -C build fuse_bench && build/fuse_bench [MODEL ...]
#include "fuse/fuse.h"

#include <chrono>
#include <cstdio>

#include "fuse/island.h"
#include "zoo/zoo.h"

namespace emend {
namespace {

struct Islands {
  size_t islands = 0, exact = 0, pieces = 0, pieces_exact = 0;
};

Islands islands_of(const Graph& g, const Target& target) {
  Units units(g);
  Reach reach(units);
  KnownGroups known;
  GroupPrices prices(g, target, known);
  size_t budget = FuseOptions().budget;
  Islands n;
  for (const Island& island : reach.islands()) {
    if (island.size() < 2) continue;
    ++n.islands;
    if (exact(island, units, prices, budget)) {
      ++n.exact;
      continue;
    }
    for (const Island& piece : reach.pieces(island)) {
      if (piece.size() < 2) continue;
      ++n.pieces;
      n.pieces_exact += exact(piece, units, prices, budget).has_value();
    }
  }
  return n;
}

void measure(const std::string& name) {
  Target target{.threads = 2};
  Graph g = decomposed(build_zoo(name, {.weights = false}).graph);
  Partition alone = fuse(g, {.fuse = false, .target = target});
  Partition greedy = fuse(g, {.target = target, .budget = 0});
  auto start = std::chrono::steady_clock::now();
  Partition fused = fuse(g, {.target = target});
  std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  auto ms = [&](const Partition& p) { return 1e3 * price(g, p, target).value_or(-1); };
  Islands n = islands_of(g, target);
  std::printf(
      "%-16s %6zu | %5zu %6zu %5zu | %9.3f %9.3f %9.3f | %7.3f | %3zu of %3zu, %3zu of %3zu\n",
      name.c_str(), g.size(), alone.groups.size(), greedy.groups.size(), fused.groups.size(),
      ms(alone), ms(greedy), ms(fused), took.count(), n.exact, n.islands, n.pieces_exact, n.pieces);
}

}  // namespace
}  // namespace emend

int main(int argc, char** argv) {
  std::vector<std::string> names(argv + 1, argv + argc);
  if (names.empty()) {
    for (const emend::ZooEntry& e : emend::zoo()) names.push_back(e.name);
  }
  std::printf("%-16s %6s | %18s | %29s | %7s | exact islands, pieces\n", "", "", "groups",
              "price in ms", "");
  std::printf("%-16s %6s | %5s %6s %5s | %9s %9s %9s | %7s |\n", "model", "nodes", "alone",
              "greedy", "fused", "alone", "greedy", "fused", "seconds");
  for (const std::string& name : names) emend::measure(name);
}
