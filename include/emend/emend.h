// The public face of Emend: load a model, optimize it, run it, save it.
//
//   emend::Network p = emend::load("model.onnx");
//   emend::Network q = emend::optimize(p);
//   auto outputs = emend::run(q, {{"x", emend::Array::of({1, 3}, {1.0f, 2.0f, 3.0f})}});
//   emend::save(q, "better.onnx");
//
// All of it may be called from several threads at once. Everything that goes wrong throws
// std::exception with one sentence that names the file, the node and the reason. docs/library.md
// has a whole program.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace emend {

// A dense tensor in row-major order. `type` is one of Emend's names: f32, f64, f16, i64, bool ...
struct Array {
  std::string type = "f32";
  std::vector<int64_t> shape;
  std::vector<std::byte> bytes;

  static Array of(std::vector<int64_t> shape, const std::vector<float>& values);
  static Array of(std::vector<int64_t> shape, const std::vector<int64_t>& values);
  std::vector<float> floats() const;  // of an f32 array
};

struct LoadOptions {
  std::map<std::string, std::vector<int64_t>> shapes;  // of inputs
  std::map<std::string, int64_t> symbols;              // sizes of symbolic dimensions
};

// A model in memory; copies share their weights and what was compiled for them.
class Network {
 public:
  struct Impl;
  explicit Network(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}
  std::vector<std::string> inputs() const;
  std::vector<std::string> outputs() const;
  size_t nodes() const;
  std::string text() const;  // the program in Emend's text form
  const Impl& impl() const { return *impl_; }

 private:
  std::shared_ptr<const Impl> impl_;
};

Network load(const std::string& path, const LoadOptions& options = {});
// Cleans, then searches over all programs that the rules make equal for the one that this machine's
// processor runs fastest by estimate; what was found is kept for the next start. The result was
// compared with what came in; one that differs is an error.
Network optimize(const Network& network);

struct RunOptions {
  std::string target = "cpu";  // this machine's processor, or "interp": the reference
  int threads = 0;             // 0: as many as the machine has
  // The largest error of a kernel's sums beyond what plain sums lose, relative to the largest sum
  // of magnitudes of their output channel, for any finite input (docs/ir.md). 0: rounded as the
  // reference rounds, which then computes everything.
  double accuracy = 1e-4;
  // Seconds that the first run on a machine may take to measure which kernels and which of several
  // equal programs are the fastest; what was found is kept. 0: estimates decide. Below 0:
  // EMEND_BUDGET, else 10.
  double budget = -1;
};

// How a program runs, and why not faster.
struct RunReport {
  bool compiled_now = false;  // false: an earlier run did
  size_t steps = 0;
  std::vector<std::string> on_reference;  // steps that no kernel computes, and why
  // Kernels that failed their check or could not be compiled, and what took their place.
  std::vector<std::string> warnings;
};

// Outputs by name. Inputs that are missing or of the wrong type are an error. The first run with
// some options compiles for them; the program stays with the network and its copies.
std::map<std::string, Array> run(const Network& network, const std::map<std::string, Array>& inputs,
                                 const RunOptions& options = {}, RunReport* report = nullptr);
void save(const Network& network, const std::string& path);

}  // namespace emend
