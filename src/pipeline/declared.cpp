#include "pipeline/declared.h"

#include <algorithm>

namespace emend {

std::vector<DeclaredOtherwise> declared_otherwise(const Model& m) {
  std::vector<DeclaredOtherwise> found;
  for (size_t k = 0; k < std::min(m.info.outputs.size(), m.graph.outputs.size()); ++k) {
    const Declaration& said = m.info.outputs[k];
    const Type& is = m.graph.type(m.graph.outputs[k].node);
    if (!said.has_shape || !is.is_tensor() || said.type.shape.size() != is.shape.size()) continue;
    for (size_t d = 0; d < is.shape.size(); ++d) {
      if (said.type.shape[d] >= 0 && said.type.shape[d] != is.shape[d])
        found.push_back({k, d, said.type.shape[d], is.shape[d]});
    }
  }
  return found;
}

}  // namespace emend
