// Lists in one array: list i is item[first[i] .. first[i+1]).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "extract/problem.h"

namespace emend {

struct Lists {
  std::vector<uint32_t> first, item;

  std::span<const uint32_t> of(uint32_t i) const {
    return std::span(item).subspan(first[i], first[i + 1] - first[i]);
  }
};

// The nodes that have a class as a child, in their order, once for every time they do.
inline Lists users_of_classes(const ExtractionProblem& p) {
  Lists out{std::vector<uint32_t>(p.class_count() + 1), std::vector<uint32_t>(p.child.size())};
  for (uint32_t d : p.child) ++out.first[d + 1];
  for (size_t c = 0; c < p.class_count(); ++c) out.first[c + 1] += out.first[c];
  std::vector<uint32_t> at(out.first.begin(), out.first.end() - 1);
  for (uint32_t n = 0; n < p.node_count(); ++n) {
    for (uint32_t d : p.children(n)) out.item[at[d]++] = n;
  }
  return out;
}

}  // namespace emend
