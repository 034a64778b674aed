// The model that docs/tour.md leads through every stage: a convolution, a batch norm, a relu, a
// mean over the picture and a linear layer, each so small that its numbers can be read.
#include "zoo/families.h"
#include "zoo/nn.h"

namespace emend {
namespace {

void tour(Net& n, const ZooOptions& o) {
  NodeId x = n.input("x", {o.batch, 2, o.size, o.size});
  x = n.relu("relu", n.batch_norm("bn", n.conv("conv", x, 2, {.kernel = {1}})));
  x = n.flatten("flatten", n.global_average_pool("pool", x));
  n.output("y", n.linear("fc", x, 3));
}

}  // namespace

std::vector<ZooEntry> tour_models() {
  return {{"tour", "the small model of docs/tour.md, images of 4", {.size = 4}, tour}};
}

}  // namespace emend
