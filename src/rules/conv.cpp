// Convolutions: what comes before or after them moves into their weights, sums and products of
// weights are weights, and some are simpler operators. Groups, strides, pads and dilations are what
// the match says; where a rule needs more of them, its guard says so.
#include "rules/rule.h"

namespace emend {

std::vector<Rule> conv_rules() {
  const char* const x_w = "x:[n,c*g,h,w] w:[f*g,c,r,s]";
  const std::string with_scale = std::string(x_w) + " s:~[f*g,1,1]";
  const std::string window = "strides=?s, dilations=?d, pads=?p";
  const std::string larger = "(largest ?p ?q)";
  // A convolution by one pixel, all groups as one.
  const std::string pixel = "strides=?t, pads=?z, dilations=?e, group=1";
  const Where is_pixel = {"(every ?t 1)", "(every ?z 0)", "(every (kernel ?v) 1)"};
  const Where of_weights = {"(weights ?v ?w)", is_pixel[0], is_pixel[1], is_pixel[2]};
  Where of_channels = of_weights;
  of_channels.insert(of_channels.end(), {"(equal (dim ?w 0) ?g)", "(equal (dim ?w 1) 1)"});
  const auto swapped = [](const std::string& w) {  // filters and channels
    return "(transpose[perm=(joined [1,0] (between 2 (rank " + w + ")))] " + w + ")";
  };
  const std::string identity = "strides=?t, dilations=?d, pads=?p, group=1";
  // One group of two: its channels are followed, the other's preceded by as many zeros.
  const auto of_pair = [](const std::string& side) {
    return "(pad[pads=(pair_pads ?w " + side + ")] (get[index=" + side +
           "] (split[axis=1, sizes=[1,1]] (reshape[shape=(group_pairs ?w ?g)] ?w))))";
  };
  // clang-format off
  return {
      always("pad-into-conv", "(conv[?a, pads=?p] (pad[pads=?q, value=0] ?x) ?w)", "(conv[?a, pads=(sum ?p (spatial ?q))] ?x ?w)",
             {"(spatial_only ?q)", "(at_least ?q 0)"}, x_w),
      reassociating(always("scale-into-conv", "(mul (conv[?a] ?x ?w) ?s)", "(conv[?a] ?x (mul ?w (reshape[shape=(filter_shape ?s ?w)] ?s)))",
             {"(weights ?w ?s)", "(per_channel ?s ?w)"}, with_scale)),
      reassociating(always("scale-into-conv-bias", "(mul (add (conv[?a] ?x ?w) ?b) ?s)", "(add (conv[?a] ?x (mul ?w (reshape[shape=(filter_shape ?s ?w)] ?s))) (mul ?b ?s))",
             {"(weights ?w ?s ?b)", "(per_channel ?s ?w)"}, with_scale + " b:[f*g,1,1]")),
      reassociating(always("scale-before-conv", "(conv[?a, group=1] (mul ?x ?s) ?w)", "(conv[?a] ?x (mul ?w ?s))",
             {"(weights ?w ?s)", "(per_channel ?s ?w)", "(fits ?s ?x)"}, "x:[n,c,h,w] w:[f,c,r,s] s:~[c,1,1]")),
      reassociating(always("conv-identity", "(conv[" + identity + "] ?x ?w)", "?x", {"(identity ?w)", "(every ?t 1)", "(centred ?p ?w ?d)"}, "x:[n,c,h,w] w:I[c,c,r,s] | x:[n,c,h] w:I[c,c,r]")),

      // What ONNX has one node for.
      finish("conv-bias", "(add (conv[?a] ?x ?w) ?b)", "(conv_bias[?a] ?x ?w (reshape[shape=(list (elements ?b))] ?b))",
             {"(per_channel ?b ?w)", "(equal (elements ?b) (dim ?w 0))"}, std::string(x_w) + " b:[f*g,1,1]"),
      rule("conv-bias-apart", "(conv_bias[?a] ?x ?w ?b)", "(add (conv[?a] ?x ?w) (reshape[shape=(channel_shape ?b ?w)] ?b))", {}, std::string(x_w) + " b:[f*g]"),

      finish("conv-transpose-bias", "(add (conv_transpose[?a, group=?g] ?x ?w) ?b)", "(conv_transpose_bias[?a] ?x ?w (reshape[shape=(list (elements ?b))] ?b))",
             {"(per_channel ?b ?w)", "(equal (elements ?b) (product ?g (dim ?w 1)))"}, "x:[n,c*g,h,w] w:[c*g,f,r,s] b:[f*g,1,1]"),

      // Linear in both operands. Where shapes broadcast these are false: a border of zeros is not a border of y.
      reassociating(both("conv-adds-inputs",  "(conv[?a] (add ?x ?y) ?w)", "(add (conv[?a] ?x ?w) (conv[?a] ?y ?w))", {"(same_shape ?x ?y)"}, "x:[n,c*g,h,w] y:[n,c*g,h,w] w:[f*g,c,r,s]")),
      reassociating(both("conv-adds-weights", "(conv[?a] ?x (add ?w ?v))", "(add (conv[?a] ?x ?w) (conv[?a] ?x ?v))", {"(same_shape ?w ?v)"}, "x:[n,c*g,h,w] w:[f*g,c,r,s] v:[f*g,c,r,s]")),
      both("conv-neg-input",   "(conv[?a] (neg ?x) ?w)", "(neg (conv[?a] ?x ?w))", {}, x_w),
      both("conv-neg-weights", "(conv[?a] ?x (neg ?w))", "(neg (conv[?a] ?x ?w))", {}, x_w),
      reassociating(both("conv-scales-input",   "(mul (conv[?a] ?x ?w) ?s)", "(conv[?a] (mul ?x ?s) ?w)", {"(single ?s)"}, "x:[n,c*g,h,w] w:[f*g,c,r,s] s:~[1,1]")),
      reassociating(both("conv-scales-weights", "(mul (conv[?a] ?x ?w) ?s)", "(conv[?a] ?x (mul ?w ?s))", {"(single ?s)"}, "x:[n,c*g,h,w] w:[f*g,c,r,s] s:~[1,1]")),
      // A border of zeros is not shifted: none may be there.
      reassociating(rule("shift-before-conv", "(conv[?a, pads=?p, group=1] (add ?x ?s) ?w)", "(add (conv[?a] ?x ?w) (reshape[shape=(joined (list (dim ?w 0)) (repeated 1 (length (kernel ?w))))] (reduce_sum[axes=(between 1 (rank ?w))] (mul ?w ?s))))",
             {"(weights ?w ?s)", "(every ?p 0)", "(per_channel ?s ?w)", "(fits ?s ?x)"}, "x:[n,c,h,w] w:[f,c,r,s] s:~[c,1,1] | x:[n,c,h] w:[f,c,r] s:~[c,1]")),
      reassociating(rule("conv-residual", "(add ?x (conv[" + identity + "] ?x ?w))", "(conv[" + identity + "] ?x (add ?w (identity (shape ?w))))",
             {"(weights ?w)", "(every ?t 1)", "(centred ?p ?w ?d)", "(equal (dim ?w 0) (dim ?w 1))"}, "x:[n,c,h,w] w:[c,c,r,s] | x:[n,c,h] w:[c,c,r]")),

      // Kernels of different sizes on one operand: the smaller is the larger with zeros around it, where the pads
      // make up for it. Enlarging a kernel as such has no end and no use; taking zeros away has both.
      reassociating(rule("conv-zeros-around", "(conv[?a, pads=?p, dilations=?d] ?x (pad[pads=?q, value=0] ?w))", "(conv[?a, pads=(difference ?p (dilated (spatial ?q) ?d))] ?x ?w)",
             {"(spatial_only ?q)", "(at_least ?q 0)", "(at_least (difference ?p (dilated (spatial ?q) ?d)) 0)"}, x_w)),
      reassociating(rule("sum-of-convs-enlarged", "(add (conv[" + window + ", group=?g] ?x ?w) (conv[strides=?s, dilations=?d, pads=?q, group=?g] ?x ?v))",
             "(conv[strides=?s, dilations=?d, pads=" + larger + ", group=?g] ?x (add (pad[pads=(enlarging ?p " + larger + " ?d)] ?w) (pad[pads=(enlarging ?q " + larger + " ?d)] ?v)))",
             {"(equal (extent ?w ?p ?d) (extent ?v ?q ?d))"}, "x:[n,c*g,h,w] w:[f*g,c,1,3] v:[f*g,c,3,r] | x:[n,c*g,h,w] w:[f*g,c,1,1] v:[f*g,c,3,3]")),

      // One after the other, nothing between.
      reassociating(rule("conv-after-pixel", "(conv[?a, group=1] (conv[" + pixel + "] ?x ?v) ?w)", "(conv[?a, group=1] ?x (conv[" + pixel + "] ?w " + swapped("?v") + "))",
             of_weights, "x:[n,c,h,w] v:[m,c,1,1] w:[f,m,r,s] | x:[n,c,h] v:[m,c,1] w:[f,m,r]")),
      reassociating(rule("pixel-after-conv", "(conv[" + pixel + "] (conv[?a, group=1] ?x ?w) ?v)",
             "(conv[?a, group=1] ?x (reshape[shape=(joined (list (dim ?v 0)) (shape_without ?w 0))] (matmul (reshape[shape=(list (dim ?v 0) (dim ?v 1))] ?v) (reshape[shape=(list (dim ?w 0) (product_of (shape_without ?w 0)))] ?w))))",
             of_weights, "x:[n,c,h,w] w:[m,c,r,s] v:[f,m,1,1] | x:[n,c,h] w:[m,c,r] v:[f,m,1]")),
      reassociating(rule("pixel-after-depthwise", "(conv[" + pixel + "] (conv[" + window + ", group=?g] ?x ?w) ?v)", "(conv[" + window + ", group=1] ?x (mul ?v " + swapped("?w") + "))",
             of_channels, "x:[n,c,h,w] w:[c,1,r,s] v:[f,c,1,1] | x:[n,c,h] w:[c,1,r] v:[f,c,1]")),

      // The same work by other operators.
      rule("conv-pixel-is-matmul", "(conv[" + pixel + "] ?x ?v)",
             "(reshape[shape=(joined (list (dim ?x 0) (dim ?v 0)) (kernel ?x))] (matmul (reshape[shape=(list (dim ?v 0) (dim ?v 1))] ?v) (reshape[shape=(list (dim ?x 0) (dim ?x 1) (product_of (kernel ?x)))] ?x)))",
             is_pixel, "x:[n,c,h,w] v:[f,c,1,1] | x:[n,c,h] v:[f,c,1]"),
      reassociating(rule("conv-is-avg-pool", "(conv[" + window + ", group=?g] ?x ?w)",
             "(mul (avg_pool[kernel=(kernel ?w), " + window + ", count_include_pad=true] ?x) (number (product (uniform ?w) (product_of (kernel ?w)))))",
             {"(floating ?x)", "(equal ?g (dim ?w 0))", "(equal (dim ?w 1) 1)", "(below ?p (kernel ?w))", "(every ?d 1)"}, "x:[n,c,h,w] w:=[c,1,r,s]")),
      // The way back is one group per channel, which nothing else wants.
      // Half as many groups, the filters of one with zeros where the other's channels are.
      reassociating(also_true(1, rule("conv-groups-paired", "(conv[?a, group=?g] ?x ?w)",
             "(conv[?a, group=(quotient ?g 2)] ?x (reshape[shape=(joined (list (dim ?w 0) (product (dim ?w 1) 2)) (kernel ?w))] (concat[axis=1] " + of_pair("0") + " " + of_pair("1") + ")))",
             {"(at_least (list (dim ?w 1)) 2)", "(weights ?w)"}, "x:[n,c*2*k,h,w] w:[f*2*k,c,r,s]"))),
      rule("split-conv-filters", "(get[index=?i] (split[axis=1, sizes=?t] (conv[?a, group=1] ?x ?w)))", "(conv[?a, group=1] ?x (get[index=?i] (split[axis=0, sizes=?t] ?w)))", {}, "x:[n,c,h,w] w:[f,c,r,s]"),
      rule("split-conv-batch",   "(get[index=?i] (split[axis=0, sizes=?t] (conv[?a] ?x ?w)))", "(conv[?a] (get[index=?i] (split[axis=0, sizes=?t] ?x)) ?w)", {}, x_w),
  };
  // clang-format on
}

}  // namespace emend
