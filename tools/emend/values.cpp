#include "values.h"

#include <algorithm>

#include "base/mapped_file.h"
#include "equiv/compare.h"
#include "import/tensor.h"
#include "ir/npy.h"

namespace emend {
namespace {

namespace fs = std::filesystem;

Tensor read_raw(const fs::path& path, const Type& type) {
  return with_note([&] { return path.string(); },
                   [&] {
                     SharedBytes bytes = map_file(path).value_or_throw();
                     return Tensor(type.dtype, type.shape, bytes.owner(), bytes.view());
                   });
}

// "x/y:0" is no file name.
std::string file_name(std::string name) {
  std::replace_if(
      name.begin(), name.end(), [](char c) { return c == '/' || c == ':' || c == '\\'; }, '_');
  return name;
}

void save(const Value& v, const std::string& name, const fs::path& folder) {
  if (v.is_tensor()) return write_npy(v.tensor, folder / (file_name(name) + ".npy"));
  for (size_t i = 0; i < v.items.size(); ++i) save(v.items[i], str(name, "_", i), folder);
}

}  // namespace

void add_input_options(CLI::App& command, InputOptions& options) {
  command
      .add_option("--input", options.files, "value of an input: NAME:FILE (.npy, .pb or raw .bin)")
      ->allow_extra_args(false);
  add_shape_option(command, options.shapes);
}

GivenInputs::GivenInputs(const InputOptions& options, const DataSet& data) {
  for (const auto& i : options.files) {
    auto colon = i.rfind(':');  // names may hold colons
    if (colon == std::string::npos) throw UsageError{str("--input ", i, ": expected NAME:FILE")};
    files_[i.substr(0, colon)] = i.substr(colon + 1);
  }
  apply_shapes(options.shapes, import);
  for (const auto& [name, value] : data.inputs) import.input_values.insert({name, value});
  for (const auto& [name, file] : files_) {
    if (file.extension() == ".npy") import.input_values.insert_or_assign(name, read_npy(file));
    if (file.extension() == ".pb")
      import.input_values.insert_or_assign(name, read_value(file, Type::Kind::tensor));
  }
}

std::vector<Value> GivenInputs::values(const Graph& g, std::optional<uint64_t> seed) const {
  std::vector<Value> values;
  for (size_t i = 0; i < g.inputs.size(); ++i) {
    const std::string& name = g.inputs[i].name;
    const Type& type = g.types[g.inputs[i].node];
    auto given = import.input_values.find(name);
    if (given != import.input_values.end()) {
      if (given->second.is_tensor() && given->second.tensor.dtype() != type.dtype) {
        throw Error(str("input ", emend::quoted(name), " is ", to_text(type), ", the value ",
                        to_text(given->second.type())));
      }
      values.push_back(given->second);
    } else if (auto file = files_.find(name); file != files_.end()) {
      values.emplace_back(read_raw(file->second, type));
    } else if (seed && type.is_tensor()) {
      values.emplace_back(random_tensor(type, *seed, i));
    } else {
      throw UsageError{str("input ", name, " (", to_text(type), ") has no value; give --input ",
                           name, ":FILE, --data DIR or --random SEED")};
    }
  }
  return values;
}

void save_outputs(const Graph& g, const std::vector<Value>& outputs, const fs::path& folder) {
  fs::create_directories(folder);
  for (size_t i = 0; i < outputs.size(); ++i) save(outputs[i], g.outputs[i].name, folder);
}

}  // namespace emend
