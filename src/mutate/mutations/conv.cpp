// Convolutions over images that were cut, laid side by side, or read phase by phase (PET, and its
// exact forms): gaps and halos are solved for.
#include "mutate/mutation.h"

namespace emend {

std::vector<Mutation> conv_mutations() {
  const std::string conv = "(conv[strides=?s, dilations=?d, pads=?p, group=?g] ?x ?w)";
  const std::string at = "?x ?w ?s ?d ?p";
  const std::string ones = "(repeated 1 (length ?s))", zeros = "(repeated 0 (length ?p))";
  const std::string axes = "(between 0 (length ?s))";
  const char* const drawn =
      "x:[n,c*g,h,w] w:[f*g,c,r,s] | x:[n,c*g,h] w:[f*g,c,r] | x:[n,c*g,h,w,d] w:[f*g,c,r,s,2]";
  const char* const batches = "x:[n*2,c*g,h,w] w:[f*g,c,r,s] | x:[n*6,c*g,h] w:[f*g,c,r]";
  // The convolution of a view of x, and the way back.
  const auto between = [&](const std::string& in, const std::string& strides,
                           const std::string& dilations, const std::string& pads,
                           const std::string& back) {
    return "(view[map=" + back + "] (conv[strides=" + strides + ", dilations=" + dilations +
           ", pads=" + pads + ", group=?g] (view[map=" + in + "] ?x) ?w))";
  };
  const std::string merged = at + " ?a ?k ?q", square = at + " (repeated ?t (length ?s)) ?q",
                    strip = at + " (ones_but ?a ?t (length ?s)) ?q";
  const Where dilated = {"(every ?s 1)", "(differ ?d 1)"},
              strided = {"(differ ?s 1)", "(every ?d 1)"};
  // clang-format off
  return {
      // A dilated convolution is one of each phase. Side by side they are one image, as images of a batch are.
      mutation("dilation-into-mosaic", conv, between("(mosaic " + at + " ?q)", "?s", ones, "(mosaic_pads " + at + ")", "(mosaic_back " + at + " ?q)"), {solve("q")}, dilated, drawn),
      mutation("dilation-into-batch", conv, between("(phases " + at + ")", "?s", ones, "(phase_pads " + at + ")", "(phases_back " + at + ")"), {}, dilated, drawn),
      mutation("batch-into-space", conv, between("(merged_batch " + merged + ")", "?s", "?d", "(merged_pads " + merged + ")", "(merged_back " + merged + ")"),
               {each("a", axes), each("k", "(divisors (dim ?x 0) 64)"), solve("q", 64)}, {}, batches),
      // Tiles with a halo, square or strips.
      mutation("space-into-batch", conv, between("(tiles " + square + ")", "?s", "?d", "(tile_pads " + square + ")", "(tiles_back " + square + ")"),
               {each("t", "(between 2 5)"), solve("q", 64)}, {}, drawn),
      mutation("strips-into-batch", conv, between("(tiles " + strip + ")", "?s", "?d", "(tile_pads " + strip + ")", "(tiles_back " + strip + ")"),
               {each("a", axes), each("t", "(between 2 5)"), solve("q", 64)}, {"(at_least (list (length ?s)) 2)"}, drawn),
      // Strides become channels, channels become strides.
      mutation("stride-into-channels", conv, "(conv[strides=" + ones + ", dilations=?d, pads=" + zeros + ", group=?g] (view[map=(stride_phases " + at + ")] ?x) (view[map=(stride_taps " + at + ")] ?w))", {}, strided, drawn),
      mutation("channels-into-space", conv,
               "(conv[strides=(scaled_along ?s ?a ?k (rank ?x)), dilations=?d, pads=(scaled_along ?p ?a ?k (rank ?x)), group=?g] (view[map=(channels_along ?x ?a ?k)] ?x) (view[map=(channels_along ?w ?a ?k)] ?w))",
               {each("a", axes), each("k", "(divisors (dim ?w 1) 4)")}, {"(every ?d 1)"}, "x:[n,2*c*g,h,w] w:[f*g,2*c,r,s] | x:[n,4*c*g,h] w:[f*g,4*c,r]"),
      // The products of all taps at all places; each output adds those that belong to it.
      mutation("conv-as-products", conv,
               "(reduce_sum[axes=(between (rank ?x) (sum (rank ?x) (length ?s))), keepdims=false] (view[map=(tap_offsets " + at + ")]"
               " (reshape[shape=(joined (list (dim ?x 0) (dim ?w 0)) (kernel ?w) (kernel ?x))] (matmul (reshape[shape=(list (quotient (elements ?w) (dim ?w 1)) (dim ?w 1))] (transpose[perm=(joined (list 0) (between 2 (rank ?w)) (list 1))] ?w))"
               " (reshape[shape=(list (dim ?x 0) (dim ?x 1) (product_of (kernel ?x)))] ?x)))))",
               {}, {"(equal ?g 1)", "(differ (kernel ?w) 1)"}, "x:[n,c,h,w] w:[f,c,r,s] | x:[n,c,h] w:[f,c,r]"),
  };
  // clang-format on
}

}  // namespace emend
