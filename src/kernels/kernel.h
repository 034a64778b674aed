// A kernel: what can compute a group, and how it is written down. One record each, listed in a
// catalogue; fuse, select and codegen get the catalogue as a value.
//
// A group is a Graph of its own: inputs are what it loads, outputs what it stores, its constants
// are scalars. So equal layers are equal groups, and a kernel knows nothing of the model around it.
#pragma once

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "ir/graph.h"
#include "ir/program.h"
#include "kernels/cpu/costs.h"
#include "kernels/in_memory.h"

namespace emend {

// The machine that code is written for.
struct Target {
  int vector_bytes = 16;  // of one register: 64 AVX-512, 32 AVX2, 16 plain
  int threads = 1;
  double peak_flops = 5e10;  // of all threads, f32
  double bandwidth = 1e10;   // bytes/s that plain loops move in the shared cache, all threads
  double launch_s = 2e-6;    // what starting one step costs
  bool byte_dots = false;    // adds four products of bytes to an i32 at once: AVX-512 VNNI
  bool bf16_dots = false;    // adds two products of bf16 to an f32 at once: AVX-512 BF16
  int64_t cached = 2 << 20;  // elements that caches hold; of more, the next are fetched ahead
  Costs costs;
  bool operator==(const Target&) const = default;
  // Of main memory, where weights come from once per run. Measured: 33 GB/s where it is 49.
  double memory_bandwidth() const { return bandwidth * 0.7; }
};

// What a kernel is wanted for.
struct Wanted {
  Wanted(const Graph& group_, std::vector<bool> constant_, Layouts layouts_ = {}, size_t wide_ = 1)
      : group(group_),
        constant(std::move(constant_)),
        layouts(std::move(layouts_)),
        wide(wide_),
        in_memory(group, layouts) {}
  const Graph& group;
  std::vector<bool> constant;  // inputs that are known ahead of time; they lie plainly
  Layouts layouts;
  size_t wide;  // kernels that keep their best candidates keep so many times as many; 0: one
  GroupInMemory in_memory;
  size_t kept(size_t usual) const { return std::max<size_t>(1, usual * wide); }
};

struct Candidate {
  std::string kernel;
  Attrs config;
  Layouts layouts;
  double estimate_s = 0;
  // Per input of the group: how a constant is stored ahead of time (a graph from the operand to
  // what the kernel reads); no outputs: as it is.
  std::vector<Graph> packing;
  std::vector<std::optional<ColumnNorms>> norms;  // of what is packed, shorter: none
  double growth = 0;  // bytes that a library may add when it packs constants its own way
  // What it may lose beyond a plain sum in the element type, relative to the largest output.
  double error = 0;
  // Above 0: it keeps any bound on its errors, `bound` of its configuration, by plain sums where it
  // must (kernels/cpu/sum_bound.h); from here on it need not for ordinary inputs.
  double least_bound = 0;
};

struct Kernel {
  std::string name;
  bool stores_anywhere = false;  // results may be parts of something larger (Layout::strides)
  // What is worth trying, best guess first; empty if it is not for this group or these layouts.
  std::function<std::vector<Candidate>(const Wanted& wanted, const Target& target)> candidates;
  std::function<KernelCode(const Graph& group, const Candidate& c, const Target& target)> emit;
  // The seconds that `candidates` says for one of them, of kernels whose costs are fitted
  // (kernels/cpu/costs.h).
  std::function<double(const Wanted& wanted, const Candidate& c, const Target& target)> estimate =
      nullptr;
  // Made for what else would be several groups: fuse asks it about such.
  bool joins = false;
  // Executes at least this share of the operations of plain sums: how fast it is at best.
  double executes = 0;
};

using Catalogue = std::vector<Kernel>;
const Catalogue& cpu_catalogue();  // generated code: for every machine
Catalogue onednn_catalogue();      // calls of the library, for machines that have it
const Kernel& kernel_named(const Catalogue& catalogue, const std::string& name);

}  // namespace emend
