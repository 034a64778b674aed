#include "ops/running.h"

namespace emend {

std::optional<Running> as_running(const Meaning& m, const Dims& operand) {
  bool carries = m.reduce == Reduce::sum || m.reduce == Reduce::product;
  if (!carries || m.reads.size() != 1 || m.reduced.size() != 1 || operand != m.out) return {};
  if (!is_argument(m.body, 0) || !is_argument(m.finish, 0)) return {};
  if (m.reads[0].outside != (m.reduce == Reduce::sum ? 0.0 : 1.0)) return {};
  std::optional<Running> found;
  for (size_t d = 0; d < m.out.size(); ++d) {
    const IndexExpr& at = m.reads[0].index[d];
    if (at == index_of(static_cast<int>(d))) continue;
    if (found || m.reduced[0] != m.out[d]) return {};
    for (int64_t back : {-1, 1}) {
      for (int64_t shift : {int64_t{0}, back}) {
        auto reduced = static_cast<int>(m.out.size());
        if (at == index_of(static_cast<int>(d)) + index_of(reduced, back, shift))
          found = Running{.axis = d, .from_end = back > 0, .exclusive = shift != 0};
      }
    }
    if (!found) return {};
  }
  return found;
}

}  // namespace emend
