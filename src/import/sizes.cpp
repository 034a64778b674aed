#include "import/sizes.h"

#include <algorithm>
#include <set>

#include "import/tensor.h"
#include "ir/unshaped.h"

namespace emend {
namespace {

const onnx::Shape* shape_of(const onnx::ValueInfo& input) {
  auto* tensor = input.type ? std::get_if<onnx::TensorType>(&input.type->value) : nullptr;
  return tensor && tensor->shape ? &*tensor->shape : nullptr;
}

// Large enough to mean something for what the name says it is, 1 otherwise.
int64_t default_size(std::string symbol) {
  std::transform(symbol.begin(), symbol.end(), symbol.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  const auto has = [&](std::string_view part) { return symbol.find(part) != std::string::npos; };
  if (has("batch") || has("past")) return 1;
  if (has("seq") || has("token") || has("time")) return 128;
  if (has("height") || has("width") || symbol == "h" || symbol == "w") return 224;
  return 1;
}

}  // namespace

std::string symbol_of(const onnx::Dimension& d, const std::string& value_name, size_t index) {
  if (std::holds_alternative<int64_t>(d.value)) return "";
  auto* name = std::get_if<std::string>(&d.value);
  return name && !name->empty() ? *name : str("?", value_name, ".", index);
}

Sizes::Sizes(const std::vector<const onnx::ValueInfo*>& inputs, const ImportOptions& options)
    : options_(options) {
  check_symbols(inputs);
  for (const auto& [name, size] : options.symbols) bind(name, size, "given");
  for (const auto* input : inputs) {
    if (auto it = options.shapes.find(input->name); it != options.shapes.end())
      bind_shape(*input, it->second, "given");
    auto value = options.input_values.find(input->name);
    if (value != options.input_values.end() && value->second.is_tensor())
      bind_shape(*input, value->second.tensor.shape(), "from its value");
  }
  for (const auto* input : inputs) bind_defaults(*input);
}

void Sizes::check_symbols(const std::vector<const onnx::ValueInfo*>& inputs) const {
  std::set<std::string> known;
  for (const auto* input : inputs) {
    const onnx::Shape* shape = shape_of(*input);
    for (size_t i = 0; shape && i < shape->dim.size(); ++i)
      known.insert(symbol_of(shape->dim[i], input->name, i));
  }
  for (const auto& [name, size] : options_.symbols) {
    if (!known.contains(name))
      throw Error(str("no dimension of an input is called ", emend::quoted(name)));
  }
}

void Sizes::bind(const std::string& symbol, int64_t size, const std::string& why) {
  if (size < 0) throw Error(str("dimension ", symbol, " cannot have the size ", size));
  auto [it, fresh] = symbols_.insert({symbol, size});
  if (!fresh && it->second != size) {
    throw Error(str("dimension ", symbol, " is ", it->second, " and also ", size));
  }
  if (fresh) notes_.push_back(str(symbol, " = ", size, " (", why, ")"));
}

void Sizes::bind_shape(const onnx::ValueInfo& input, const Dims& shape, const char* why) {
  if (auto it = shapes_.find(input.name); it != shapes_.end() && it->second != shape) {
    throw Error(str("input ", emend::quoted(input.name), " has the shape ", shape_text(it->second),
                    ", but its value ", shape_text(shape)));
  }
  shapes_[input.name] = shape;
  const onnx::Shape* declared = shape_of(input);
  if (!declared) {
    notes_.push_back(str("shape of ", input.name, " = ", shape_text(shape), " (", why, ")"));
    return;
  }
  if (declared->dim.size() != shape.size()) {
    throw Error(str("input ", emend::quoted(input.name), " has ", declared->dim.size(),
                    " dimensions, the shape ", shape_text(shape), " ", shape.size()));
  }
  for (size_t i = 0; i < shape.size(); ++i) {
    const auto& d = declared->dim[i];
    if (auto* fixed = std::get_if<int64_t>(&d.value)) {
      if (*fixed == shape[i]) continue;
      overridden_ = true;
      notes_.push_back(
          str("dimension ", i, " of ", input.name, " = ", shape[i], " instead of ", *fixed));
    } else {
      bind(symbol_of(d, input.name, i), shape[i], why);
    }
  }
}

void Sizes::bind_defaults(const onnx::ValueInfo& input) {
  const onnx::Shape* declared = shape_of(input);
  if (!declared || shapes_.contains(input.name)) return;
  for (size_t i = 0; i < declared->dim.size(); ++i) {
    std::string symbol = symbol_of(declared->dim[i], input.name, i);
    if (symbol.empty() || symbols_.contains(symbol)) continue;
    bind(symbol, default_size(symbol), "default");
    defaulted_[symbol] = symbols_[symbol];
  }
}

std::vector<OpenDimension> open_dimensions(const std::vector<const onnx::ValueInfo*>& inputs,
                                           const ImportOptions& options) {
  const std::map<std::string, int64_t> open = Sizes(inputs, options).defaulted();
  std::vector<OpenDimension> found;
  for (const auto* input : inputs) {
    const onnx::Shape* shape = shape_of(*input);
    for (size_t i = 0; shape && i < shape->dim.size(); ++i) {
      std::string symbol = symbol_of(shape->dim[i], input->name, i);
      bool known = std::ranges::any_of(found, [&](const auto& f) { return f.symbol == symbol; });
      if (known || !open.contains(symbol)) continue;
      const auto& tensor = std::get<onnx::TensorType>(input->type->value);
      auto dtype = dtype_from_onnx(static_cast<int>(tensor.elem_type));
      found.push_back({symbol, i, shape->dim.size(), dtype.value_or(DType::f32)});
    }
  }
  return found;
}

Type Sizes::input_type(const onnx::ValueInfo& input) const {
  if (!input.type) throw Error(str("input ", emend::quoted(input.name), " has no type"));
  if (!std::holds_alternative<onnx::TensorType>(input.type->value)) {
    Type t = declared_type(*input.type);
    if (t.kind == Type::Kind::any)
      throw Error(str("input ", emend::quoted(input.name), " is of a type that is not supported"));
    return known_type(*input.type);
  }
  const auto& tensor = std::get<onnx::TensorType>(input.type->value);
  auto dtype = dtype_from_onnx(static_cast<int>(tensor.elem_type));
  if (!dtype) throw Error(str("input ", emend::quoted(input.name), " has no valid element type"));
  Dims shape;
  if (auto given = shapes_.find(input.name); given != shapes_.end()) {
    shape = given->second;
  } else if (!tensor.shape) {
    throw Error(str("input ", emend::quoted(input.name), " has no shape; give one by --shape ",
                    input.name, ":..."));
  } else {
    for (size_t i = 0; i < tensor.shape->dim.size(); ++i) {
      const auto& d = tensor.shape->dim[i];
      auto* fixed = std::get_if<int64_t>(&d.value);
      shape.push_back(fixed ? *fixed : symbols_.at(symbol_of(d, input.name, i)));
    }
  }
  if (!checked_count(shape))
    throw Error(
        str("input ", emend::quoted(input.name), " has the absurd shape ", shape_text(shape)));
  return Type::tensor(*dtype, std::move(shape));
}

Type Sizes::known_type(const onnx::Type& t) const {
  return type_from_onnx(t, [this](DType dtype, const onnx::Shape* shape) {
    if (!shape || overridden_) return unshaped(dtype);
    Dims dims;
    for (const auto& d : shape->dim) {
      if (auto* size = std::get_if<int64_t>(&d.value)) {
        dims.push_back(*size);
      } else if (auto* name = std::get_if<std::string>(&d.value);
                 name && symbols_.contains(*name)) {
        dims.push_back(symbols_.at(*name));
      } else {
        return unshaped(dtype);
      }
    }
    return checked_count(dims) ? Type::tensor(dtype, std::move(dims)) : unshaped(dtype);
  });
}

}  // namespace emend
