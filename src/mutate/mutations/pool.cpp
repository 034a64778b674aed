// Pooling by other operators.
#include "mutate/mutation.h"

namespace emend {

std::vector<Mutation> pool_mutations() {
  // clang-format off
  return {
      // One filter per channel, all taps alike. Wrong at borders where only elements count.
      mutation("avg-pool-as-conv", "(avg_pool[kernel=?k, strides=?s, dilations=?d, pads=?p, count_include_pad=?c, ceil_mode=?m] ?x)",
               "(div (conv[strides=?s, dilations=?d, pads=?p, group=(dim ?x 1)] ?x (broadcast[shape=(joined (list (dim ?x 1) 1) ?k)] 1)) (number (product_of ?k)))",
               {}, {"(floating ?x)"}, "x:[n,c,h,w] | x:[n,c,h]"),
  };
  // clang-format on
}

}  // namespace emend
