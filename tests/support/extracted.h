// A program out of an e-graph, by prices of single nodes.
#pragma once

#include <functional>

#include "extract/greedy.h"
#include "saturate/saturate.h"

namespace emend {

using PriceOfNode = std::function<double(const ENode&)>;
using Extractor = std::vector<uint32_t> (*)(const ExtractionProblem&);

inline Graph extracted(const TensorEGraph& g, const PriceOfNode& price, Extractor extract) {
  const EGraph& engine = g.engine();
  ExtractionProblem p;
  std::vector<ClassId> classes;
  std::vector<ENodeId> nodes;
  std::vector<uint32_t> place(engine.ids(), kNoClass);
  auto place_of = [&](ClassId c) {
    if (place[c.value] == kNoClass) {
      place[c.value] = static_cast<uint32_t>(classes.size());
      classes.push_back(c);
    }
    return place[c.value];
  };
  for (ClassId root : g.roots()) p.roots.push_back(place_of(root));
  for (size_t c = 0; c < classes.size(); ++c) {
    p.add_class();
    for (ENodeId n : engine.nodes_of(classes[c])) {
      std::vector<uint32_t> children;
      for (ClassId child : engine.node(n).children)
        children.push_back(place_of(engine.find(child)));
      p.add_node(price(engine.node(n)), children);
      nodes.push_back(n);
    }
  }
  std::vector<uint32_t> choice = extract(p);
  return g.graph_of([&](ClassId c) { return nodes[choice[place[c.value]]]; });
}

}  // namespace emend
