// What mutants cost: proposing and proving all of the table at 20 shapes of one pattern, without
// the manager, with an empty one, and with one that was written and read back; then what they cost
// inside of the search of some models, prices left out.
//   make bench-mutate   or   build/mutate_bench [MODEL ...]
#include "mutate/mutate.h"

#include <chrono>
#include <cstdio>

#include "ops/build.h"
#include "ops/contraction.h"
#include "pipeline/improve.h"
#include "simplify/simplify.h"
#include "zoo/zoo.h"

namespace emend {
namespace {

struct Shapes {
  const char* name;
  Dims image, kernel;
  int64_t stride, dilation, pad, channels;  // channels 0: they vary, too
};

const Shapes kPatterns[] = {
    {"3x3 dilation 2, 28x28", {28, 28}, {3, 3}, 1, 2, 2, 0},
    {"7x7 stride 2, 224x224", {224, 224}, {7, 7}, 2, 1, 3, 3},
    {"3x3x3, 8x28x28", {8, 28, 28}, {3, 3, 3}, 1, 1, 1, 0},
};

// The shapes of a pattern: filters, and channels where they vary.
std::vector<PricedNode> sites_of(const Shapes& p) {
  std::vector<PricedNode> sites;
  for (int64_t i = 0; i < 20; ++i) {
    GraphBuilder b;
    const int64_t filters = 16 + 24 * i, channels = p.channels ? p.channels : 8 + 16 * i;
    Dims x = {1, channels}, w = {filters, channels};
    x.insert(x.end(), p.image.begin(), p.image.end());
    w.insert(w.end(), p.kernel.begin(), p.kernel.end());
    const size_t n = p.image.size();
    NodeId in = b.input("x", Type::tensor(DType::f32, x));
    NodeId weights = b.input("w", Type::tensor(DType::f32, w));
    NodeId y = b.op("conv", {in, weights},
                    Conv{Dims(n, p.stride), Dims(n, p.dilation), Dims(2 * n, p.pad), 1});
    sites.push_back({.op = b.graph().nodes[y].op,
                     .attrs = b.graph().nodes[y].attrs,
                     .operands = {b.type(in), b.type(weights)},
                     .weights = {false, true},
                     .result = b.type(y)});
  }
  return sites;
}

void measure(const Shapes& p) {
  const std::vector<PricedNode> sites = sites_of(p);
  MutationManager manager;
  auto run = [&](MutationManager* with) {
    MutateReport r;
    mutate(sites, {.manager = with}, &r);
    return r;
  };
  MutateReport without = run(nullptr), cold = run(&manager);
  MutationManager again;
  again.read(manager.text("bench"), "bench");
  MutateReport warm = run(&again);
  auto n = static_cast<double>(warm.mutants.size());
  std::printf("%-24s %8.0f | %10.1f %8zu | %10.1f %8zu | %10.1f %8zu | %10.1f\n", p.name, n,
              1e3 * without.seconds, without.proofs, 1e3 * cold.seconds, cold.proofs,
              1e3 * warm.seconds, warm.proofs, 1e6 * warm.seconds / n);
  std::fflush(stdout);
}

void measure(const std::string& model) {
  Graph g = simplify(build_zoo(model).graph, {.finish = false});
  MutationManager manager;
  MutateReport r[2];
  for (MutateReport& one : r) {
    ImproveReport report;
    improve(g, {.mutate = {.manager = &manager}}, &report);
    one = report.mutated;
  }
  auto ms = [](const MutateReport& m) { return 1e3 * (m.seconds - m.pricing_seconds); };
  std::printf("%-24s %8zu | %10.1f %8zu | %10.1f %8zu\n", model.c_str(), r[0].mutants.size(),
              ms(r[0]), r[0].proofs, ms(r[1]), r[1].proofs);
  std::fflush(stdout);
}

}  // namespace
}  // namespace emend

int main(int argc, char** argv) {
  std::vector<std::string> models(argv + 1, argv + argc);
  if (models.empty()) models = {"resnet18", "csrnet", "bert_pet", "inception_v3"};
  std::printf("20 shapes of a pattern   %8s | %19s | %19s | %19s | %10s\n%-24s %8s", "",
              "no manager", "cold", "warm", "warm", "", "mutants");
  for (int i = 0; i < 3; ++i) std::printf(" | %10s %8s", "ms", "proofs");
  std::printf(" | %10s\n", "us/mutant");
  for (const emend::Shapes& p : emend::kPatterns) emend::measure(p);
  std::printf("\nat -O2, without prices   %8s | %19s | %19s\n%-24s %8s | %10s %8s | %10s %8s\n", "",
              "cold", "warm", "", "mutants", "ms", "proofs", "ms", "proofs");
  for (const std::string& m : models) emend::measure(m);
}
