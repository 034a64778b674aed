// Sizes to reason with, for dimensions that a file leaves open. A program has static shapes
// (decision 0004), so what shall hold for every size is made at several and compared. Sizes are
// drawn by use: what the model can be imported at, distinct and above 1 where it can, large where a
// dimension is an image's. A model may tie sizes together (two must be equal, one is the sum of two
// others, all are multiples of 32); that is found by trying.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "import/onnx.h"

namespace emend {

// Up to `count` choices for all open dimensions, each of which the model can be imported at; none
// where nothing was found.
std::vector<SymbolSizes> drawn_sizes(const OnnxFile& file, const ImportOptions& given,
                                     size_t count);

struct OpenSizes {
  std::vector<SymbolSizes> to_reason_with;  // at least two and one to compare, or none
  // Sizes at the edge, 1 above all, and others: what holds at those above must hold here.
  std::vector<SymbolSizes> to_check_with;
  // Nodes whose results follow from sizes and differ between them: they are no constants. Those of
  // `data_of_sizes` make more than the few numbers of a shape.
  std::set<std::string> of_sizes, data_of_sizes;
};
OpenSizes open_sizes(const OnnxFile& file, const ImportOptions& given);

}  // namespace emend
