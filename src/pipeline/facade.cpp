// The public functions of include/emend/emend.h, over the pipeline.
#include <cstring>

#include "emend/emend.h"
#include "export/onnx.h"
#include "import/onnx.h"
#include "ops/evaluate.h"
#include "pipeline/optimize.h"
#include "text/text.h"

namespace emend {

struct Network::Impl {
  Model model;
};

namespace {

Network network_of(Model model) {
  return Network(std::make_shared<const Network::Impl>(Network::Impl{std::move(model)}));
}

template <class T>
Array array_of(const char* type, std::vector<int64_t> shape, const std::vector<T>& values) {
  auto n = checked_count(shape);
  if (!n || *n != static_cast<int64_t>(values.size())) {
    throw Error(str("shape ", shape_text(shape), " does not hold ", values.size(), " values"));
  }
  Array a{type, std::move(shape), std::vector<std::byte>(values.size() * sizeof(T))};
  if (!values.empty()) std::memcpy(a.bytes.data(), values.data(), a.bytes.size());
  return a;
}

Tensor tensor_of(const std::string& name, const Array& a) {
  auto dtype = dtype_named(a.type);
  if (!dtype || *dtype == DType::string)
    throw Error(str("input ", name, ": no type is called ", a.type));
  auto owner = std::make_shared<const std::vector<std::byte>>(a.bytes);
  return with_note([&] { return str("input ", name); },
                   [&] {
                     return Tensor(*dtype, a.shape, owner, {owner->data(), owner->size()});
                   });
}

}  // namespace

Array Array::of(std::vector<int64_t> shape, const std::vector<float>& values) {
  return array_of("f32", std::move(shape), values);
}
Array Array::of(std::vector<int64_t> shape, const std::vector<int64_t>& values) {
  return array_of("i64", std::move(shape), values);
}

std::vector<float> Array::floats() const {
  if (type != "f32") throw Error(str("the array holds ", type, ", not f32"));
  std::vector<float> values(bytes.size() / sizeof(float));
  if (!values.empty()) std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

std::vector<std::string> Network::inputs() const {
  std::vector<std::string> names;
  for (const auto& i : impl_->model.graph.inputs) names.push_back(i.name);
  return names;
}

std::vector<std::string> Network::outputs() const {
  std::vector<std::string> names;
  for (const auto& o : impl_->model.graph.outputs) names.push_back(o.name);
  return names;
}

size_t Network::nodes() const {
  return impl_->model.graph.size();
}
std::string Network::text() const {
  return print(impl_->model.graph);
}

Network load(const std::string& path, const LoadOptions& options) {
  ImportOptions import;
  import.shapes = options.shapes;
  import.symbols = options.symbols;
  return network_of(import_onnx(path, import));
}

Network optimize(const Network& network) {
  return network_of(optimize(network.impl().model, OptimizeOptions{}));
}

std::map<std::string, Array> run(const Network& network,
                                 const std::map<std::string, Array>& inputs) {
  const Graph& g = network.impl().model.graph;
  std::vector<Value> values;
  for (const auto& i : g.inputs) {
    auto given = inputs.find(i.name);
    if (given == inputs.end()) throw Error(str("input ", i.name, " is missing"));
    Tensor t = tensor_of(i.name, given->second);
    if (g.types[i.node].is_tensor() && t.type() != g.types[i.node]) {
      throw Error(str("input ", i.name, " is ", to_text(t.type()), ", the program takes ",
                      to_text(g.types[i.node])));
    }
    values.emplace_back(std::move(t));
  }
  std::map<std::string, Array> results;
  auto outputs = evaluate(g, values);
  for (size_t i = 0; i < outputs.size(); ++i) {
    const std::string& name = g.outputs[i].name;
    if (!outputs[i].is_tensor() || outputs[i].tensor.dtype() == DType::string) {
      throw Error(str("output ", name, " is no tensor of numbers"));
    }
    const Tensor& t = outputs[i].tensor;
    results[name] = {
        std::string(to_text(t.dtype())), t.shape(), {t.bytes().begin(), t.bytes().end()}};
  }
  return results;
}

void save(const Network& network, const std::string& path) {
  export_onnx(network.impl().model, path);
}

}  // namespace emend
