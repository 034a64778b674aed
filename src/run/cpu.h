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

  // Reads the inputs and writes the outputs where the caller has them, in the order and with the
  // bytes of program().inputs and outputs, aligned to their elements. Once as many calls at a time
  // were made as ever are, nothing is allocated and no lock is taken, save by steps of the host and
  // by a library inside its calls. Only for programs that is_plain() says yes to.
  void run_into(std::span<const std::span<const std::byte>> inputs,
                std::span<const std::span<std::byte>> outputs) const;
  // All inputs and outputs are tensors of numbers.
  bool is_plain() const;

  // Packs the weights, which the first run would do otherwise. Whoever has let go of the graph that
  // the program was made from before does not pay for weights twice.
  void load_weights() const;
  // Of the weights as they are stored, once loaded: what a library has packed for itself counts
  // instead of what it was packed from.
  size_t weight_bytes() const;

  // As run, showing every step with where its loads and stores are while they are there.
  using Observer = std::function<void(size_t step, std::span<void* const> buffers)>;
  std::vector<Value> run_observed(std::span<const Value> inputs, const Observer& observe) const;
  const CompiledKernels& kernels() const;
  const Program& program() const;
  int compiled() const;       // kernels that were not in the cache
  size_t code_bytes() const;  // of all kernels

  // Seconds of each step, the lower quartile of some runs of the whole program. Results go to the
  // same memory in every run, of which `room` is kept by who asks again and again: what is fresh
  // from the system is dear to touch, and inside of a larger program nothing is.
  using Room = std::vector<std::vector<std::byte>>;
  std::vector<double> step_seconds(std::span<const Value> inputs, int runs,
                                   Room* room = nullptr) const;

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace emend
