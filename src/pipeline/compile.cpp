#include "pipeline/compile.h"

#include <chrono>

#include "base/parallel.h"
#include "codegen/codegen.h"
#include "fuse/fuse.h"
#include "kernels/cpu/c_code.h"
#include "kernels/kernel.h"
#include "ops/evaluate.h"
#include "select/select.h"

namespace emend {
namespace {

template <class Stage>
auto timed(CompileReport& report, const std::string& name, const Stage& stage) {
  auto start = std::chrono::steady_clock::now();
  auto result = stage();
  std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
  report.phases_ms.emplace_back(name, took.count());
  return result;
}

}  // namespace

std::optional<Device> device_named(std::string_view name) {
  if (name == "interp") return Device::interp;
  if (name == "cpu") return Device::cpu;
  return std::nullopt;
}

std::vector<Value> run_once(const Graph& g, std::span<const Value> inputs, Device device,
                            const Monitor& monitor) {
  if (device == Device::interp) return evaluate(g, inputs, {.monitor = monitor});
  CompileFlowOptions options;
  options.cpu.compile.monitor = monitor;
  return compile(g, options).run(inputs);
}

CpuProgram compile(const Graph& g, const CompileFlowOptions& options, CompileReport* report) {
  CompileReport facts;
  Target target{.vector_bytes = 64,
                .threads = options.cpu.threads > 0 ? options.cpu.threads : thread_count()};
  // One vector FMA per cycle at 3.5 GHz.
  target.peak_flops = 2 * 3.5e9 * target.vector_bytes / 4 * target.threads;
  const Catalogue& catalogue = cpu_catalogue();
  Graph plain = timed(facts, "decompose", [&] { return decomposed(g); });
  Partition partition =
      timed(facts, "fuse", [&] { return fuse(plain, {.fuse = options.fuse, .target = target}); });
  for (const NodeGroup& group : partition.groups) {
    if (group.host) facts.host_reasons.push_back(group.reason);
  }
  facts.groups = partition.groups.size();
  facts.host_groups = facts.host_reasons.size();
  Plan plan = timed(facts, "select",
                    [&] { return select(plain, std::move(partition), catalogue, target); });
  Program program =
      timed(facts, "codegen", [&] { return generate(plain, plan, catalogue, target); });
  CpuProgram compiled = timed(
      facts, "compile", [&] { return CpuProgram(std::move(program), c_prelude(), options.cpu); });
  if (report) *report = std::move(facts);
  return compiled;
}

}  // namespace emend
