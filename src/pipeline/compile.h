// From a graph to a program that runs: decompose, fuse, select, generate, compile.
#pragma once

#include <optional>

#include "cost/price_list.h"
#include "ir/graph.h"
#include "run/cpu.h"

namespace emend {

struct CompileReport {
  std::vector<std::pair<std::string, double>> phases_ms;
  size_t groups = 0, host_groups = 0;
  std::vector<std::string> host_reasons;  // what fell back to the reference, and why
  size_t prices_measured = 0, prices_known = 0;
  int kernels_checked = 0, kernels_known = 0;
  std::vector<std::string> faults;  // kernels that were refused, and what took their place
};

struct CompileFlowOptions {
  bool fuse = true;
  double accuracy = 1e-4;             // of every kernel, see kernel_check.h
  uint64_t seed = 1;                  // of the inputs that kernels are checked with
  std::shared_ptr<PriceList> prices;  // measured times decide; none: estimates
  CpuOptions cpu;
};

// Where a user's prices are kept (EMEND_CACHE_DIR, XDG_CACHE_HOME).
std::filesystem::path default_price_list();

// What programs run on: the reference, or this machine's processor.
enum class Device : uint8_t { interp, cpu };
std::optional<Device> device_named(std::string_view name);

// One run, compiled first where the device needs it.
std::vector<Value> run_once(const Graph& g, std::span<const Value> inputs, Device device,
                            const Monitor& monitor = {}, CompileReport* report = nullptr);

CpuProgram compile(const Graph& g, const CompileFlowOptions& options = {},
                   CompileReport* report = nullptr);

}  // namespace emend
