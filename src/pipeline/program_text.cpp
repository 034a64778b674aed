#include "pipeline/program_text.h"

#include "text/text.h"

namespace emend {

std::string ConstantPool::text_of(const Graph& g) {
  return print(g, {.place = [&](const Tensor& t) { return added(index_.canonical(t)); }});
}

void ConstantPool::add(const Graph& g) {
  for (const Tensor& t : g.constants) added(index_.canonical(t));
  for (const Node& n : g.nodes) {
    for (const auto& [name, value] : n.attrs.entries()) {
      if (const GraphRef* body = value.as<GraphRef>(); body && *body) add(**body);
    }
  }
}

size_t ConstantPool::added(const Tensor& one) {
  if (auto at = place_of(one)) return *at;
  places_[one.data()].push_back(constants_.size());
  constants_.push_back(one);
  return constants_.size() - 1;
}

std::optional<size_t> ConstantPool::place_of(const Tensor& one) const {
  auto it = places_.find(one.data());
  if (it == places_.end()) return std::nullopt;
  for (size_t k : it->second) {
    const Tensor& t = constants_[k];
    if (t.dtype() != one.dtype() || t.shape() != one.shape()) continue;
    if (t.dtype() != DType::string || t.strings() == one.strings()) return k;
  }
  return std::nullopt;
}

}  // namespace emend
