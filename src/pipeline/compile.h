// From a graph to a program that runs: decompose, fuse, select, generate, compile.
#pragma once

#include <optional>

#include "cost/price_list.h"
#include "ir/graph.h"
#include "kernels/kernel.h"
#include "pipeline/kept_files.h"
#include "pipeline/race.h"
#include "pipeline/tune.h"
#include "run/cpu.h"

namespace emend {

// Something that the reference computes, between compiled steps, and why.
struct Fallback {
  std::string what, reason;
};

struct CompileReport {
  std::vector<std::pair<std::string, double>> phases_ms;
  size_t groups = 0;
  std::vector<Fallback> on_reference;
  size_t prices_measured = 0, prices_known = 0;
  size_t prices_left = 0;         // that could matter, when the budget was spent
  bool plan_recalled = false;     // decided at an earlier start
  size_t program = 0;             // which of the equal ones runs: 0 is the graph, then the others
  std::vector<Ranking> rankings;  // of what was measured
  std::vector<Price> prices;
  int kernels_checked = 0, kernels_known = 0;
  std::vector<PlanTime> plans;  // those that were raced, where prices are measured
  bool compiled = true;  // false: no kernel could be compiled, and the reference does everything
  // Kernels that were refused or could not be had, and what took their place.
  std::vector<std::string> faults;
};

// What weights as stored may take of those of the graph where nobody says; small ones may grow to
// so many bytes in any case.
inline constexpr int kUsualMemory = 4, kSmallMemory = 512 << 20;

// A clock decides, where there is a price list: which kernels, and which of several equal programs.
struct Measuring {
  std::shared_ptr<PriceList> prices;  // none: estimates decide
  double seconds = 0;  // of this start at most, beyond what compiling takes anyway; 0: as measured
                       // at earlier starts, and estimates
  int candidates = 0;  // of a group in one layout that are measured; 0: few, the best by estimate
  Keeping keeping = {};  // of what was decided, so that the next start need not ask again
};

// The seconds that a first start may take to measure where nobody says: EMEND_BUDGET, else 10.
double usual_budget();

struct CompileFlowOptions {
  bool fuse = true;
  double accuracy = 1e-4;     // of every kernel's sums, see docs/ir.md; 0: as plain sums have it
  uint64_t seed = 1;          // of the inputs that kernels are checked with
  std::vector<Value> inputs;  // to check them with where random ones do not serve
  Measuring measuring;
  // Equal programs, one of which is taken where it turns out faster: without what a search did,
  // say.
  std::vector<Graph> others = {};
  // Weights as stored: at most this times those of the graph; where nobody says, as above.
  std::optional<double> memory;
  CpuOptions cpu;
  const Catalogue* catalogue = nullptr;  // none: the kernels that this machine has
};

// The kernels that this machine has: generated ones, and a library's if it can be loaded.
const Catalogue& catalogue_here();

// The machine that programs are compiled for; 0: with as many threads as it has.
Target target_here(int threads = 0);

// Where a user's prices are kept (EMEND_CACHE_DIR, XDG_CACHE_HOME).
std::filesystem::path default_price_list();

// What programs run on: the reference, or this machine's processor.
enum class Device : uint8_t { interp, cpu };
std::optional<Device> device_named(std::string_view name);

// One run, compiled first where the device needs it.
std::vector<Value> run_once(Graph g, std::span<const Value> inputs, Device device,
                            CompileFlowOptions options = {}, CompileReport* report = nullptr);

// For what comes before compiling, see SimplifyOptions: weights of this size are packed anyway.
inline constexpr int64_t kFoldMovesBelow = 64 << 10;

// Where kernels cannot be compiled at all (no compiler, a full disk), the reference computes every
// group and the report says so.
// A graph that is moved in is let go before its weights are packed.
CpuProgram compile(Graph g, const CompileFlowOptions& options = {},
                   CompileReport* report = nullptr);

}  // namespace emend
