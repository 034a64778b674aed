#include "codegen/in_place.h"

#include <algorithm>

#include "kernels/nest.h"

namespace emend {
namespace {

// Values that some reduction is made of: its terms are read for other elements too.
std::vector<bool> reduced(const Nest& nest) {
  std::vector<bool> inside(nest.values.size());
  for (size_t v = nest.values.size(); v-- > 0;) {
    const NestValue& u = nest.values[v];
    if (!inside[v] && u.kind != NestValue::Kind::reduce) continue;
    for (int a : u.args) inside[static_cast<size_t>(a)] = true;
  }
  return inside;
}

}  // namespace

bool may_overwrite(const Graph& group, size_t load, size_t store) {
  // A second store could be written after the first has taken the operand's place.
  if (group.outputs.size() != 1 || store != 0) return false;
  const Type &from = group.type(group.inputs[load].node), &to = group.type(group.outputs[0].node);
  if (count(from.shape) != count(to.shape) || from.dtype != to.dtype) return false;
  auto nest = nest_of(group);
  if (!nest || nest->stores.size() != 1) return false;
  // What data names may be any element, also of what other tasks have written already.
  for (size_t a = 0; a < nest->math.size(); ++a) {
    if (nest->math.atom(static_cast<int>(a)).kind == Atom::Kind::value) return false;
  }
  const Linear& written = nest->stores[0].at;
  auto inside = reduced(*nest);
  for (size_t v = 0; v < nest->values.size(); ++v) {
    const NestValue& u = nest->values[v];
    if (u.kind != NestValue::Kind::load || u.buffer != static_cast<int>(load)) continue;
    if (inside[v] || u.at != written || !u.bounds.empty()) return false;
  }
  return true;
}

}  // namespace emend
