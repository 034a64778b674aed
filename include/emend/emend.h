// The public face of Emend: load a model, optimize it, run it, save it.
//
//   emend::Network p = emend::load("model.onnx");
//   emend::Network q = emend::optimize(p);
//   auto outputs = emend::run(q, {{"x", emend::Array::of({1, 3}, {1.0f, 2.0f, 3.0f})}});
//   emend::save(q, "better.onnx");
//
// Everything that goes wrong throws std::exception with one sentence that names the file, the node
// and the reason.
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

// A model in memory; copies share their weights.
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
Network optimize(const Network& network);
// Outputs by name. Inputs that are missing or of the wrong type are an error.
std::map<std::string, Array> run(const Network& network,
                                 const std::map<std::string, Array>& inputs);
void save(const Network& network, const std::string& path);

}  // namespace emend
