// The public functions of include/emend/emend.h, over the pipeline.
#include <cmath>
#include <cstring>
#include <mutex>
#include <tuple>

#include "emend/emend.h"
#include "export/onnx.h"
#include "import/onnx.h"
#include "ops/evaluate.h"
#include "pipeline/compile.h"
#include "pipeline/memory_limit.h"
#include "pipeline/optimize_file.h"
#include "text/text.h"

namespace emend {

namespace {

// Compiled once, whoever comes first; the others wait for it.
struct Prepared {
  std::mutex lock;
  std::optional<CpuProgram> program;
  CompileReport report;
};

// The programs of one model, by what they were compiled for.
class Programs {
 public:
  std::shared_ptr<Prepared> get(const RunOptions& o) {
    std::lock_guard guard(lock_);
    auto& slot = programs_[{o.threads, o.accuracy, o.budget}];
    if (!slot) slot = std::make_shared<Prepared>();
    return slot;
  }

 private:
  std::mutex lock_;
  std::map<std::tuple<int, double, double>, std::shared_ptr<Prepared>> programs_;
};

}  // namespace

// The file that a network came from, if its dimensions are to stay open when it is saved.
struct Origin {
  std::shared_ptr<const OnnxFile> file;
  ImportOptions import;
  int level = 0;  // at which it was optimized since
};

struct Network::Impl {
  Impl(Model m, Origin o, std::vector<Graph> e = {})
      : model(std::move(m)), origin(std::move(o)), others(std::move(e)) {}
  Model model;
  Origin origin;
  std::vector<Graph> others = {};  // equal programs: what optimizing began with, cleaned
  mutable Programs programs;
};

namespace {

Network network_of(Model model, Origin origin) {
  return Network(std::make_shared<const Network::Impl>(std::move(model), std::move(origin)));
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
  auto file = std::make_shared<const OnnxFile>(path);
  Model model = file->import(import);
  return network_of(std::move(model), {std::move(file), std::move(import)});
}

Network optimize(const Network& network) {
  OptimizeReport report;
  OptimizeOptions how;
  how.keeping.folder = default_search_folder();
  Origin origin = network.impl().origin;
  origin.level = how.level;
  Model better = optimize(network.impl().model, how, &report);
  if (report.checked.kind == Checked::Kind::failed)
    throw Error(str("the optimized model differs from what came in: ", report.checked.reason));
  std::vector<Graph> others;
  how.level = 1;
  const Graph& given = network.impl().model.graph;
  Graph cleaned = optimized(given, how);
  if (!(cleaned == better.graph) && check_result(given, cleaned, how).kind != Checked::Kind::failed)
    others.push_back(std::move(cleaned));
  return Network(std::make_shared<const Network::Impl>(std::move(better), std::move(origin),
                                                       std::move(others)));
}

namespace {

std::vector<Value> values_of(const Graph& g, const std::map<std::string, Array>& inputs) {
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
  return values;
}

std::map<std::string, Array> arrays_of(const Graph& g, const std::vector<Value>& outputs) {
  std::map<std::string, Array> results;
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

Device device_of(const RunOptions& o) {
  auto device = device_named(o.target);
  if (!device) throw Error(str("no target is called ", o.target, ": there are cpu and interp"));
  if (o.threads < 0) throw Error(str("threads: ", o.threads, " is not a number of threads"));
  if (!(o.accuracy >= 0) || std::isinf(o.accuracy))
    throw Error(str("accuracy: ", o.accuracy, " is not an error that can be allowed"));
  if (std::isnan(o.budget) || std::isinf(o.budget))
    throw Error(str("budget: ", o.budget, " is not a number of seconds"));
  return *device;
}

// A list that cannot be opened measures all the same, every time.
Measuring measuring_of(const RunOptions& o) {
  const double seconds = o.budget < 0 ? usual_budget() : o.budget;
  if (seconds == 0) return {};
  Measuring by{.seconds = seconds, .keeping = {.folder = default_search_folder()}};
  try {
    by.prices = std::make_shared<PriceList>(default_price_list());
  } catch (const Error&) {
    by.prices = std::make_shared<PriceList>(":memory:");
  }
  return by;
}

// The program for these options, compiled now if it is the first time.
CpuProgram program_of(const Network::Impl& impl, const RunOptions& o,
                      const std::vector<Value>& inputs, RunReport& told) {
  auto prepared = impl.programs.get(o);
  std::lock_guard guard(prepared->lock);
  if (!prepared->program) {
    CompileFlowOptions how;
    how.accuracy = o.accuracy;
    how.inputs = inputs;
    how.cpu.threads = o.threads;
    how.measuring = measuring_of(o);
    how.others = impl.others;
    prepared->program = compile(impl.model.graph, how, &prepared->report);
    told.compiled_now = true;
  }
  told.steps = prepared->report.groups;
  for (const Fallback& f : prepared->report.on_reference)
    told.on_reference.push_back(str(f.what, ": ", f.reason));
  told.warnings = prepared->report.faults;
  return *prepared->program;
}

}  // namespace

std::map<std::string, Array> run(const Network& network, const std::map<std::string, Array>& inputs,
                                 const RunOptions& options, RunReport* report) {
  const Graph& g = network.impl().model.graph;
  Device device = device_of(options);
  std::vector<Value> values = values_of(g, inputs);
  RunReport told;
  std::vector<Value> outputs;
  if (device == Device::cpu && options.accuracy > 0) {
    outputs = program_of(network.impl(), options, values, told).run(values);
  } else {
    require_memory_to_evaluate(g);
    outputs = evaluate(g, values);
  }
  if (report) *report = std::move(told);
  return arrays_of(g, outputs);
}

void save(const Network& network, const std::string& path) {
  const auto& [model, origin, others, programs] = network.impl();
  if (origin.file->open_dimensions(origin.import).empty()) {
    export_onnx(model, path);
    return;
  }
  OptimizeOptions how{.level = origin.level};
  how.keeping.folder = default_search_folder();
  OptimizedFile result = optimize_file(*origin.file, origin.import, how);
  if (result.report.checked.kind == Checked::Kind::failed)
    throw Error(
        str("the optimized model differs from what came in: ", result.report.checked.reason));
  write_onnx(result.exported, result.given.info, path);
}

}  // namespace emend
