#include "import/onnx.h"

#include <algorithm>

#include "import/open_sizes.h"
#include "import/sizes.h"
#include "import/structure.h"
#include "import/tensor.h"
#include "ir/memory_budget.h"
#include "onnx/read.h"
#include "ops/onnx_lower.h"

namespace emend {
namespace {

std::vector<std::pair<std::string, std::string>> pairs(const std::vector<onnx::StringPair>& list) {
  std::vector<std::pair<std::string, std::string>> out;
  for (const auto& p : list) out.emplace_back(p.key, p.value);
  return out;
}

Declaration declaration(const onnx::ValueInfo& v) {
  Declaration d{.name = v.name, .doc = v.doc_string, .metadata = pairs(v.metadata_props)};
  if (!v.type) return d;
  d.type = declared_type(*v.type);
  auto* tensor = std::get_if<onnx::TensorType>(&v.type->value);
  d.has_shape = tensor && tensor->shape;
  for (size_t i = 0; d.has_shape && i < tensor->shape->dim.size(); ++i)
    d.symbols.push_back(symbol_of(tensor->shape->dim[i], v.name, i));
  return d;
}

ModelInfo model_info(const onnx::Model& m, const std::vector<const onnx::ValueInfo*>& inputs) {
  ModelInfo info;
  info.ir_version = m.ir_version;
  info.opsets = opset_versions(m.opset_import);
  info.producer = m.producer_name;
  info.producer_version = m.producer_version;
  info.domain = m.domain;
  info.doc = m.doc_string;
  info.graph_name = m.graph.name;
  info.graph_doc = m.graph.doc_string;
  info.model_version = m.model_version;
  info.metadata = pairs(m.metadata_props);
  info.graph_metadata = pairs(m.graph.metadata_props);
  for (const auto* i : inputs) info.inputs.push_back(declaration(*i));
  for (const auto& o : m.graph.output) info.outputs.push_back(declaration(o));
  info.external_data = m.had_external_data;
  return info;
}

void check_options(const onnx::Model& m, const ImportOptions& options) {
  const auto check = [&](const std::string& name) {
    auto found = std::any_of(m.graph.input.begin(), m.graph.input.end(),
                             [&](const auto& i) { return i.name == name; });
    if (found) return;
    std::vector<std::string> names;
    for (const auto& i : m.graph.input) names.push_back(i.name);
    throw Error(
        str("there is no input ", emend::quoted(name), "; the inputs are ", join(names, ", ")));
  };
  for (const auto& [name, shape] : options.shapes) check(name);
  for (const auto& [name, value] : options.input_values) check(name);
}

Imported import_wire(const onnx::Model& m, const ImportOptions& options) {
  if (m.ir_version > kNewestIr) {
    throw Error(
        str("IR version ", m.ir_version, " is newer than ", kNewestIr, ", the newest one known"));
  }
  check_options(m, options);
  auto inputs = proper_inputs(m, options);
  Sizes sizes(inputs, options);
  LowerOptions lower{.kept = options.kept, .kept_of_sizes = options.kept_of_sizes};
  for (const auto& [name, value] : options.input_values) {
    if (value.is_tensor()) lower.input_values.insert({name, value.tensor});
  }
  Lowered lowered = lower_onnx(onnx_structure(m, inputs, sizes), lower);

  Model model{std::move(lowered.graph), model_info(m, inputs)};
  for (const auto& i : m.graph.input) {
    bool proper = std::any_of(inputs.begin(), inputs.end(), [&](auto* p) { return p == &i; });
    if (!proper && m.ir_version >= 4)
      model.info.specialised.push_back(
          str("input ", emend::quoted(i.name), " = its default value"));
  }
  model.info.defaulted = sizes.defaulted();
  for (const auto& note : sizes.notes()) model.info.specialised.push_back(note);
  for (const auto& [name, value] : lowered.pinned) {
    auto known = std::find_if(model.info.pinned.begin(), model.info.pinned.end(),
                              [&, &name = name](const auto& p) { return p.first == name; });
    if (known != model.info.pinned.end()) continue;
    model.info.pinned.emplace_back(name, value);
    model.info.specialised.push_back(str("the value of input ", emend::quoted(name), " is fixed"));
  }
  model.info.deferred = std::move(lowered.deferred);
  return {std::move(model), std::move(lowered.of_sizes)};
}

// 0 for what is no file: reading it says why.
uint64_t size_of(const std::filesystem::path& path) {
  std::error_code problem;
  const auto size = std::filesystem::file_size(path, problem);
  return problem ? 0 : size;
}

}  // namespace

OnnxFile::OnnxFile(const std::filesystem::path& path)
    : name_(path.string()),
      size_(size_of(path)),
      wire_(std::make_shared<const onnx::Model>(onnx::read_model(path))) {}

OnnxFile::OnnxFile(const SharedBytes& bytes, std::string name)
    : name_(std::move(name)),
      size_(bytes.size()),
      wire_(std::make_shared<const onnx::Model>(onnx::read_model(bytes, name_))) {}

OnnxFile::OnnxFile(onnx::Model wire, std::string name, uint64_t size)
    : name_(std::move(name)),
      size_(size),
      wire_(std::make_shared<const onnx::Model>(std::move(wire))) {}

Imported OnnxFile::import_as_named(const ImportOptions& options) const {
  const MemoryBudget budget(import_memory_bound(size_) / 2);
  return with_note([&] { return name_; }, [&] { return import_wire(*wire_, options); });
}

Model OnnxFile::import(const ImportOptions& options) const {
  try {
    return import_as_named(options).model;
  } catch (const Error&) {
    // The names of dimensions told too little: sizes are drawn by what the model can take.
    auto drawn = drawn_sizes(*this, options, 1);
    if (drawn.empty()) throw;
    ImportOptions sized = options;
    sized.symbols.insert(drawn[0].begin(), drawn[0].end());
    Model model = import_as_named(sized).model;
    model.info.defaulted = drawn[0];
    return model;
  }
}

std::set<int64_t> OnnxFile::fixed_dimensions() const {
  std::set<int64_t> sizes;
  for (const onnx::ValueInfo& input : wire_->graph.input) {
    auto* tensor = input.type ? std::get_if<onnx::TensorType>(&input.type->value) : nullptr;
    if (!tensor || !tensor->shape) continue;
    for (const auto& d : tensor->shape->dim) {
      auto* size = std::get_if<int64_t>(&d.value);
      if (size && *size > 1) sizes.insert(*size);
    }
  }
  return sizes;
}

std::vector<OpenDimension> OnnxFile::open_dimensions(const ImportOptions& options) const {
  return emend::open_dimensions(proper_inputs(*wire_, options), options);
}

}  // namespace emend
