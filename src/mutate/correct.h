// The smallest repair of a mutant that is wrong somewhere: where it disagrees with the original
// (equiv/agreement.h), in a few boxes of positions, the original is computed and patched over it.
// Whether the whole is right now is not said here: it is proven like any mutant.
#pragma once

#include <cstddef>
#include <vector>

#include "equiv/agreement.h"
#include "mutate/restrict.h"

namespace emend {

struct CorrectOptions {
  size_t max_patches = 8;
  double max_share = 0.3;  // of the original's operations
  bool together = true;    // boxes that are alike are computed by one operator, see restrict.h
};

struct Correction {
  Graph program;
  std::vector<PositionBox> patches;
  double share = 0;  // of the original's operations that the repair does again
};

// `where` holds every position at which they may differ. Fails, with the reason, where the repair
// is not worth it or an operator of the original cannot be computed in part.
Result<Correction> corrected(const Graph& original, const Graph& mutant,
                             const std::vector<PositionBox>& where,
                             const CorrectOptions& options = {});
// `where` knows every box of both.
Result<Correction> corrected(const Graph& original, const Graph& mutant, const Agreement& where,
                             const CorrectOptions& options = {});

// The positions of boxes that disagree, as few boxes that may overlap but hold no other position.
// Fails where they are scattered over more than `most`.
Result<std::vector<PositionBox>> disagreement(const Agreement& where, const Dims& shape,
                                              size_t most);

}  // namespace emend
