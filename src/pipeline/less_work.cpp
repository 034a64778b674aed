#include "pipeline/less_work.h"

#include <optional>

#include "equiv/region.h"
#include "export/onnx_types.h"
#include "ops/onnx_raise.h"
#include "ops/table.h"

namespace emend {
namespace {

struct Work {
  double nodes = 0, operations = 0, traffic = 0, weights = 0;
};

double bytes_of(const Type& t) {
  if (!t.is_tensor() || !t.is_static()) return 0;
  return static_cast<double>(count(t.shape)) * static_cast<double>(info(t.dtype).bits) / 8;
}

// As ONNX nodes, which is what others run; none where the program has no such form.
std::optional<Work> work_of(const Graph& g) {
  try {
    Work w{.operations = operation_count(g)};
    Graph raised = raise_onnx(g, newest_typed_opset());
    IdVec<NodeId, Type> types = value_types(raised);
    for (size_t i = 0; i < raised.size(); ++i) {
      NodeId id{i};
      if (op_def(raised.nodes[id]).kind != Kind::opaque) continue;
      ++w.nodes;
      w.traffic += bytes_of(types[id]);
      for (NodeId a : raised.nodes[id].args) w.traffic += bytes_of(types[a]);
    }
    for (const Tensor& t : raised.constants) w.weights += static_cast<double>(t.bytes().size());
    return w;
  } catch (const Error&) {
    return std::nullopt;
  }
}

}  // namespace

bool is_less_work(const Graph& a, const Graph& than) {
  auto mine = work_of(a), other = work_of(than);
  if (!mine || !other) return false;
  constexpr double Work::*kAll[] = {&Work::nodes, &Work::operations, &Work::traffic,
                                    &Work::weights};
  bool less = false;
  for (auto part : kAll) {
    if ((*mine).*part > (*other).*part) return false;
    less |= (*mine).*part < (*other).*part;
  }
  return less;
}

}  // namespace emend
