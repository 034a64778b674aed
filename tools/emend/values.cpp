#include "values.h"

#include <algorithm>
#include <cctype>
#include <set>

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

// "x/y:0" is no file name, and a model may call its outputs anything: letters, digits, points,
// lines and what is beyond ASCII stay, no longer than file systems take.
std::string file_name(std::string name) {
  constexpr size_t kLongest = 200;
  for (char& c : name) {
    bool harmless = std::isalnum(static_cast<unsigned char>(c)) || c == '.' || c == '-' ||
                    static_cast<unsigned char>(c) >= 0x80;
    if (!harmless) c = '_';
  }
  return name.substr(0, kLongest);
}

// Writes values under names of their own: what two names have become the same is numbered.
class OutputFiles {
 public:
  explicit OutputFiles(fs::path folder) : folder_(std::move(folder)) {
    fs::create_directories(folder_);
  }
  void save(const Value& v, const std::string& name) {
    if (!v.is_tensor()) {
      for (size_t i = 0; i < v.items.size(); ++i) save(v.items[i], str(name, "_", i));
      return;
    }
    std::string wanted = file_name(name), file = wanted;
    for (int i = 2; !taken_.insert(file).second; ++i) file = str(wanted, "_", i);
    write_npy(v.tensor, folder_ / (file + ".npy"));
  }

 private:
  fs::path folder_;
  std::set<std::string> taken_;
};

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
  OutputFiles files(folder);
  for (size_t i = 0; i < outputs.size(); ++i) files.save(outputs[i], g.outputs[i].name);
}

}  // namespace emend
