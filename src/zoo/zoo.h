// The built-in models: the networks that demos, tests and benchmarks run on, and the papers' own
// variants of them. Each is built layer by layer with seeded, properly scaled random weights, so
// that nothing is downloaded and activations stay of order one through the whole depth. Parameters
// carry the names and shapes of the PyTorch state dict of the same network; nodes carry the paths
// of the modules they come from.
//
//   Model m = build_zoo("resnet18", {.batch = 2, .seed = 7});
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/fields.h"
#include "ir/model.h"

namespace emend {

class Net;  // nn.h

// Zero means: as the model has it. An option that means nothing to a model is refused.
struct ZooOptions {
  int64_t batch = 1;
  int64_t seed = 0;
  int64_t size = 0;     // height and width of images
  int64_t seq = 0;      // tokens of a sequence
  int64_t steps = 0;    // time steps, frames
  int64_t layers = 0;   // depth of a stack of equal layers
  bool weights = true;  // false: zeros that cost no memory, for who wants only the structure
  EMEND_FIELDS(batch, seed, size, seq, steps, layers, weights)
};

struct ZooEntry {
  std::string name, doc;
  ZooOptions defaults;  // zero where an option means nothing to this model
  std::function<void(Net&, const ZooOptions&)> build;
};

const std::vector<ZooEntry>& zoo();
// Throws Error for an unknown name, an option the model does not have or a size it cannot take.
Model build_zoo(std::string_view name, const ZooOptions& options = {});

}  // namespace emend
