#include "export/onnx.h"

#include <algorithm>

#include "export/generalise.h"
#include "export/graph_writer.h"
#include "export/onnx_types.h"
#include "export/wire.h"
#include "onnx/write.h"
#include "ops/onnx_raise.h"
#include "ops/onnx_row.h"
#include "ops/table.h"

namespace emend {
namespace {

using Pairs = std::vector<std::pair<std::string, std::string>>;

std::vector<onnx::StringPair> to_wire(const Pairs& list) {
  std::vector<onnx::StringPair> out;
  for (const auto& [key, value] : list) out.push_back({key, value});
  return out;
}

// The IR version that first knew an opset (only asked where the user asks for a newer opset).
int64_t oldest_ir(int64_t opset) {
  struct Row {
    int64_t opset, ir;
  };
  static constexpr Row kRows[] = {{25, 13}, {24, 12}, {23, 11}, {21, 10}, {19, 9}, {15, 8},
                                  {12, 7},  {11, 6},  {10, 5},  {9, 4},   {7, 3}};
  for (const Row& r : kRows) {
    if (opset >= r.opset) return r.ir;
  }
  return 3;
}

// An `onnx` node that was never lowered keeps its meaning only at its own version.
void check_versions(const Graph& g, int64_t opset) {
  for (size_t i = 0; i < g.size(); ++i) {
    NodeId id{i};
    if (op_def(g.nodes[id]).kind != Kind::opaque) continue;
    auto node = g.nodes[id].attrs.as<OnnxNode>();
    if (!node.domain.empty() || node.version == opset) continue;
    throw Error(str("node ", emend::quoted(g.names[id]), " (", node.type, " of opset ",
                    node.version, ") cannot be written at opset ", opset));
  }
}

// Why the program has no valid form at an opset; empty if it has one.
std::string obstacle(const Graph& g, int64_t opset) {
  try {
    Graph raised = raise_onnx(g, opset);
    check_versions(raised, opset);
    return type_obstacle(raised, opset);
  } catch (const Error& e) {
    return e.what();
  }
}

// Another opset than the file's own must know all that the program needs.
void check_opset(const Graph& g, int64_t opset, int64_t own) {
  std::string why = obstacle(g, opset);
  if (why.empty()) return;
  int64_t newest = std::max(own, newest_typed_opset());
  for (int64_t higher = opset + 1; higher <= newest; ++higher) {
    if (obstacle(g, higher).empty())
      throw Error(str(why, "; the lowest opset from there on that can hold the model is ", higher));
  }
  throw Error(str(why, "; no opset up to ", newest, " can hold the model"));
}

const Declaration* declaration_of(const std::vector<Declaration>& list, size_t i,
                                  const std::string& name) {
  return i < list.size() && list[i].name == name ? &list[i] : nullptr;
}

// A value of the model's interface: its types at the sizes of `written`, first the model's own.
void describe(onnx::ValueInfo& out, const std::vector<Type>& types, const Declaration* d,
              const Generalised& written) {
  if (d) {
    out.doc_string = d->doc;
    out.metadata_props = to_wire(d->metadata);
  }
  const Type& type = types[0];
  // What is known only at run time is as the file had it.
  bool known = type.is_static() || (type.kind != Type::Kind::any && !d);
  out.type = to_wire(known || !d ? type : d->type);
  auto* tensor = std::get_if<onnx::TensorType>(&out.type->value);
  if (!type.is_tensor() || !tensor || !tensor->shape) return;
  const bool of_one_rank = std::ranges::all_of(
      types, [&](const Type& t) { return t.is_tensor() && t.rank() == type.rank(); });
  if (!of_one_rank) {
    tensor->shape.reset();
    return;
  }
  for (size_t i = 0; i < type.shape.size(); ++i) {
    bool varies = std::any_of(types.begin(), types.end(),
                              [&](const Type& t) { return t.shape.at(i) != type.shape[i]; });
    std::string declared = d && i < d->symbols.size() ? d->symbols[i] : "";
    if (varies) tensor->shape->dim[i].value = written.dimension(types, i, declared);
  }
}

std::vector<Type> types_of(const Generalised& written, bool inputs, size_t i) {
  std::vector<Type> types;
  for (const auto& [sizes, g] : written.programs)
    types.push_back(g.types[inputs ? g.inputs[i].node : g.outputs[i].node]);
  return types;
}

void describe_model(onnx::Model& out, const ModelInfo& info) {
  out.ir_version = info.ir_version;
  out.producer_name = info.producer;
  out.producer_version = info.producer_version;
  out.domain = info.domain;
  out.model_version = info.model_version;
  out.doc_string = info.doc;
  out.metadata_props = to_wire(info.metadata);
  out.graph.name = info.graph_name.empty() ? "graph" : info.graph_name;
  out.graph.doc_string = info.graph_doc;
  out.graph.metadata_props = to_wire(info.graph_metadata);
}

// Before IR version 4 every initializer had to be listed as an input as well.
void list_initializers(onnx::Graph& g) {
  for (const auto& t : g.initializer) {
    onnx::ValueInfo& v = g.input.emplace_back();
    v.name = t.name;
    onnx::Shape shape;
    for (int64_t d : t.dims) shape.dim.emplace_back().value = d;
    v.type.emplace().value = onnx::TensorType{t.data_type, std::move(shape)};
  }
}

}  // namespace

std::variant<Exported, NotGeneral> export_for_all_sizes(const Model& model,
                                                        std::vector<AtSizes> others,
                                                        const ExportOptions& options) {
  const ModelInfo& info = model.info;
  auto stated = info.opsets.find("");
  int64_t own = stated == info.opsets.end() ? 1 : stated->second;
  // Before opset 7 operators broadcast by attributes, which we do not write.
  int64_t opset = options.target_opset ? options.target_opset : std::max<int64_t>(own, 7);
  if (opset != own) check_opset(model.graph, opset, own);
  others.insert(others.begin(), {others.empty() ? SymbolSizes() : info.defaulted, model.graph});
  auto general = for_all_sizes(std::move(others), opset);
  if (auto* obstacle = std::get_if<NotGeneral>(&general)) return std::move(*obstacle);
  auto& written = std::get<Generalised>(general);
  check_versions(written.raised, opset);

  Exported result;
  if (opset != own && !options.target_opset)
    result.notes.push_back(str("opset ", own, " is written as opset ", opset));
  onnx::Model& out = result.file;
  GraphWriter writer;
  out.graph = writer.main_graph(written.raised);
  if (written.programs.size() > 1) out.graph.value_info.clear();  // said of one size only
  describe_model(out, info);
  if (opset > own) out.ir_version = std::max(out.ir_version, oldest_ir(opset));
  for (size_t i = 0; i < out.graph.input.size(); ++i) {
    describe(out.graph.input[i], types_of(written, true, i),
             declaration_of(info.inputs, i, out.graph.input[i].name), written);
  }
  for (size_t i = 0; i < out.graph.output.size(); ++i) {
    describe(out.graph.output[i], types_of(written, false, i),
             declaration_of(info.outputs, i, out.graph.output[i].name), written);
  }
  if (out.ir_version < 4) list_initializers(out.graph);
  result.graph = std::move(written.raised);
  out.opset_import = {{"", opset}};
  for (const auto& [domain, version] : writer.domains()) {
    if (domain.empty()) continue;
    auto known = info.opsets.find(domain);
    int64_t stated_version = known == info.opsets.end() ? 0 : known->second;
    out.opset_import.push_back({domain, std::max(stated_version, version)});
  }
  return result;
}

Exported export_onnx(const Model& model, const ExportOptions& options) {
  return std::get<Exported>(export_for_all_sizes(model, {}, options));
}

void write_onnx(const Exported& exported, const ModelInfo& info, const std::filesystem::path& path,
                onnx::WriteOptions how) {
  if (info.external_data) how.placement = onnx::Placement::kBeside;
  onnx::write_model(exported.file, path, how);
}

Exported export_onnx(const Model& model, const std::filesystem::path& path,
                     const ExportOptions& options) {
  Exported result = export_onnx(model, options);
  write_onnx(result, model.info, path);
  return result;
}

}  // namespace emend
