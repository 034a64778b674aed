#include "pipeline/verify.h"

namespace emend {

Verdict verify(const Model& a, const Model& b, const CompareOptions& options) {
  return compare(a.graph, b.graph, options);
}

}  // namespace emend
