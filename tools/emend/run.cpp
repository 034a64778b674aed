// emend run MODEL: runs a model on given, stored or random inputs.
#include <algorithm>
#include <fstream>
#include <iostream>
#include <memory>
#include <optional>

#include "base/mapped_file.h"
#include "base/rng.h"
#include "device.h"
#include "import/tensor.h"
#include "ir/npy.h"
#include "pipeline/test_data.h"
#include "verb.h"

namespace emend {
namespace {

namespace fs = std::filesystem;

struct Options {
  std::string model, target = "interp", data, save;
  std::vector<std::string> inputs, shapes;
  std::optional<uint64_t> random;
};

Tensor read_raw(const fs::path& path, const Type& type) {
  return with_note([&] { return path.string(); },
                   [&] {
                     SharedBytes bytes = map_file(path).value_or_throw();
                     return Tensor(type.dtype, type.shape, bytes.owner(), bytes.view());
                   });
}

// Values that every operator can take: small reals, small whole numbers.
Tensor random_tensor(const Type& type, uint64_t seed, uint64_t stream) {
  if (type.dtype == DType::string) return Tensor::zeros(type.dtype, type.shape);
  int64_t n = count(type.shape) * (is_complex(type.dtype) ? 2 : 1);
  DType part = type.dtype == DType::c64    ? DType::f32
               : type.dtype == DType::c128 ? DType::f64
                                           : type.dtype;
  return Tensor::make(type.dtype, type.shape, [&](std::byte* out) {
    for (int64_t i = 0; i < n; ++i) {
      auto at = static_cast<size_t>(i);
      if (is_float(part))
        store_real(part, out, at, random_normal(seed, stream, at));
      else
        store_int(part, out, at, static_cast<int64_t>(random_bits(seed, stream, at) & 1));
    }
  });
}

// --input NAME:FILE; names may hold colons, so the last one counts.
std::map<std::string, fs::path> input_files(const Options& o) {
  std::map<std::string, fs::path> files;
  for (const auto& i : o.inputs) {
    auto colon = i.rfind(':');
    if (colon == std::string::npos) throw UsageError{str("--input ", i, ": expected NAME:FILE")};
    files[i.substr(0, colon)] = i.substr(colon + 1);
  }
  return files;
}

// Inputs that need no type to be read; they give shapes and values to the import.
ImportOptions import_options(const Options& o, const std::map<std::string, fs::path>& files,
                             const DataSet& data) {
  ImportOptions import;
  apply_shapes(o.shapes, import);
  for (const auto& [name, value] : data.inputs) import.input_values.insert({name, value});
  for (const auto& [name, file] : files) {
    if (file.extension() == ".npy") import.input_values.insert_or_assign(name, read_npy(file));
    if (file.extension() == ".pb")
      import.input_values.insert_or_assign(name, read_value(file, Type::Kind::tensor));
  }
  return import;
}

std::vector<Value> input_values(const Options& o, const Graph& g, const ImportOptions& import,
                                const std::map<std::string, fs::path>& files) {
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
    } else if (auto file = files.find(name); file != files.end()) {
      values.emplace_back(read_raw(file->second, type));
    } else if (o.random && type.is_tensor()) {
      values.emplace_back(random_tensor(type, *o.random, i));
    } else {
      throw UsageError{str("input ", name, " (", to_text(type), ") has no value; give --input ",
                           name, ":FILE, --data DIR or --random SEED")};
    }
  }
  return values;
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

int run(const Options& o, const Globals& globals) {
  Device device = device_of(o.target);
  DataSet data;
  if (!o.data.empty()) data = read_data_set(o.model, o.data);
  auto files = input_files(o);
  ImportOptions import = import_options(o, files, data);
  Model model = import_onnx(o.model, import);
  for (const auto& note : model.info.specialised) globals.say("specialised: " + note);
  auto outputs =
      run_once(model.graph, input_values(o, model.graph, import, files), device, globals.monitor);
  globals.finish_progress();

  Json facts = Json::object();
  facts["schema"] = 1;
  facts["outputs"] = Json::array();
  bool different = false;
  Tolerance tolerance = data.outputs.empty() ? Tolerance() : tolerance_of(o.model);
  for (size_t i = 0; i < outputs.size(); ++i) {
    const std::string& name = model.graph.outputs[i].name;
    std::string verdict;
    if (i < data.outputs.size()) {
      verdict = difference(outputs[i], data.outputs[i], tolerance);
      different |= !verdict.empty();
      if (verdict.empty()) verdict = "as expected";
    }
    Json& j = facts["outputs"].push(Json::object());
    j["name"] = name;
    j["type"] = to_text(outputs[i].type());
    if (!verdict.empty()) j["verdict"] = verdict;
    if (globals.json != "-")
      std::cout << name << ": " << to_text(outputs[i].type()) << (verdict.empty() ? "" : " ")
                << verdict << '\n';
  }
  if (!o.save.empty()) {
    fs::create_directories(o.save);
    for (size_t i = 0; i < outputs.size(); ++i)
      save(outputs[i], model.graph.outputs[i].name, o.save);
  }
  globals.report(facts);
  return different ? kDifferent : kOk;
}

}  // namespace

Verb run_verb(CLI::App& app, const Globals& globals) {
  auto o = std::make_shared<Options>();
  CLI::App* c = app.add_subcommand("run", "run a model");
  c->add_option("MODEL", o->model, "the model")->required();
  c->add_option("--target", o->target, "what runs it: interp, cpu");
  c->add_option("--input", o->inputs, "value of an input: NAME:FILE (.npy, .pb or raw .bin)")
      ->allow_extra_args(false);
  c->add_option("--data", o->data, "an ONNX test_data_set: its inputs are fed, outputs compared");
  c->add_option("--random", o->random, "random values for the other inputs, from this seed");
  c->add_option("--save", o->save, "write each output to NAME.npy in this folder");
  add_shape_option(*c, o->shapes);
  return {c, [o, &globals] { return run(*o, globals); }};
}

}  // namespace emend
