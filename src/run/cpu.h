// A program on the CPU: compiled kernels, weights and memory, ready to run. Copies share everything
// but nothing is written to after loading, so one program serves several threads; each call takes
// a set of buffers of its own.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "ir/program.h"
#include "run/compile.h"

namespace emend {

struct CpuOptions {
  int threads = 0;  // 0: as many as the machine has
  CompileOptions compile;
};

class CpuProgram {
 public:
  CpuProgram(Program program, const std::string& prelude, const CpuOptions& options);

  std::vector<Value> run(std::span<const Value> inputs) const;
  // The same, showing every step with where its loads and stores are while they are there.
  using Observer = std::function<void(size_t step, std::span<void* const> buffers)>;
  std::vector<Value> run_observed(std::span<const Value> inputs, const Observer& observe) const;
  const CompiledKernels& kernels() const;
  const Program& program() const;
  int compiled() const;       // kernels that were not in the cache
  size_t code_bytes() const;  // of all kernels

  // Seconds of each step, the fastest of some runs of the whole program.
  std::vector<double> step_seconds(std::span<const Value> inputs, int runs) const;

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace emend
