#include "pipeline/read_back.h"

#include <algorithm>

#include "base/error.h"
#include "import/onnx.h"
#include "onnx/read.h"
#include "onnx/write.h"

namespace emend {
namespace {

bool same_tensor(const onnx::Tensor& a, const onnx::Tensor& b) {
  if (a.name != b.name || a.dims != b.dims || a.data_type != b.data_type) return false;
  if (a.raw_data.has_value() != b.raw_data.has_value()) return false;
  return !a.raw_data || std::ranges::equal(a.raw_data->view(), b.raw_data->view());
}

// Nodes with their attributes and bodies, as bytes; functions, too.
std::string nodes_of(const onnx::Model& m) {
  onnx::Model nodes;
  nodes.graph.node = m.graph.node;
  nodes.functions = m.functions;
  return onnx::serialize(nodes);
}

// At the sizes that the program was made for.
ImportOptions sizes_of(const Graph& g) {
  ImportOptions import;
  for (const GraphInput& i : g.inputs) {
    if (g.type(i.node).is_tensor()) import.shapes[i.name] = g.type(i.node).shape;
  }
  return import;
}

// What is otherwise in the file; empty if nothing is.
std::string difference_of(const std::filesystem::path& file, const Exported& wanted) {
  const Graph written = OnnxFile(file).import(sizes_of(wanted.graph)).graph;
  if (!std::ranges::equal(wanted.graph.inputs, written.inputs, {}, &GraphInput::name,
                          &GraphInput::name))
    return "its inputs have other names";
  if (!std::ranges::equal(wanted.graph.outputs, written.outputs, {}, &GraphOutput::name,
                          &GraphOutput::name))
    return "its outputs have other names";
  const onnx::Model read = onnx::read_model(file);
  if (nodes_of(read) != nodes_of(wanted.file)) return "its nodes are others";
  return std::ranges::equal(read.graph.initializer, wanted.file.graph.initializer, same_tensor)
             ? ""
             : "its weights are others";
}

}  // namespace

void require_written(const std::filesystem::path& file, const Exported& wanted) {
  std::string fault;
  try {
    fault = difference_of(file, wanted);
  } catch (const Error& e) {
    fault = e.message();
  }
  if (!fault.empty())
    throw InternalError(str("the file that was written does not say what was to be written (",
                            fault, "); it takes nobody's place"));
}

}  // namespace emend
