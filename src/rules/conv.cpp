// Convolutions and matrix products: what comes before or after them moves into their weights.
#include "rules/rule.h"

namespace emend {

std::vector<Rule> conv_rules() {
  const char* const x_w = "x:[n,c*g,h,w] w:[f*g,c,r,s]";
  const std::string with_scale = std::string(x_w) + " s:~[f*g,1,1]";
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
      reassociating(always("scale-into-matmul", "(mul (matmul ?x ?w) ?s)", "(matmul ?x (mul ?w ?s))",
             {"(weights ?w ?s)", "(has_rank ?w 2)", "(per_column ?s ?w)"}, "x:[a,b] w:[b,c] s:~[c]")),
      reassociating(always("scale-into-matmul-bias", "(mul (add (matmul ?x ?w) ?b) ?s)", "(add (matmul ?x (mul ?w ?s)) (mul ?b ?s))",
             {"(weights ?w ?s ?b)", "(has_rank ?w 2)", "(per_column ?s ?w)"}, "x:[a,b] w:[b,c] b:~[c] s:~[c]")),
      always("matmul-transposed-weights", "(transpose[perm=[1,0]] (matmul ?w (transpose[perm=[1,0]] ?x)))", "(matmul ?x (transpose[perm=[1,0]] ?w))",
             {"(weights ?w)"}, "x:[a,b] w:[c,b]"),

      always("gemm-add-constant", "(add (gemm[?a, beta=1] ?x ?w ?c) ?b)", "(gemm[?a] ?x ?w (add ?c ?b))", {"(weights ?c ?b)"}, "x:[a,b] w:[b,c] c:~[c] b:~[a,c]"),

      // What ONNX has one node for.
      finish("conv-bias", "(add (conv[?a] ?x ?w) ?b)", "(conv_bias[?a] ?x ?w (reshape[shape=(list (elements ?b))] ?b))",
             {"(per_channel ?b ?w)", "(equal (elements ?b) (dim ?w 0))"}, std::string(x_w) + " b:[f*g,1,1]"),
      finish("gemm-bias", "(add (matmul ?x ?w) ?b)", "(gemm ?x ?w ?b)", {"(has_rank ?x 2)", "(has_rank ?w 2)"}, "x:[a,b] w:[b,c] b:~[a,c]"),
      finish("gemm-addend", "(add (gemm[?a] ?x ?w) ?b)", "(gemm[?a, beta=1] ?x ?w ?b)", {}, "x:[a,b] w:[b,c] b:~[a,c]"),
      finish("gemm-transposed", "(gemm[?a, trans_b=false] ?x (transpose[perm=[1,0]] ?w) ?b)", "(gemm[?a, trans_b=true] ?x ?w ?b)", {}, "x:[a,b] w:[c,b] b:~[a,c]"),

      finish("gemm-batched", "(reshape[?s] (add (matmul ?x ?w) ?b))", "(reshape[?s] (gemm (reshape[shape=(flattened ?x)] ?x) ?w ?b))", {"(has_rank ?x 3)", "(has_rank ?w 2)", "(has_rank ?b 1)"}, "x:[a,d,b] w:[b,c] b:~[c]"),
      finish("gemm-above-reshape", "(add (matmul (reshape[shape=?s] ?x) ?w) ?b)", "(reshape[shape=(with_last ?s (dim ?w 1))] (gemm (reshape[shape=(flattened ?s)] ?x) ?w ?b))",
             {"(has_rank ?w 2)", "(has_rank ?b 1)", "(negative (difference 2 (length ?s)))"}, "x:[a,d,2,3] w:[6,c] b:~[c]"),
      finish("unary-above-reshape", "(?f:unary (reshape[?s] (gemm[?a] ?x ?w ?b)))", "(reshape[?s] (?f (gemm[?a] ?x ?w ?b)))", {}, "x:[a,b] w:[b,c] b:[c]"),

      // Linear in both operands. Where shapes broadcast these are false: a border of zeros is not a border of y.
      reassociating(both("conv-adds-inputs",  "(conv[?a] (add ?x ?y) ?w)", "(add (conv[?a] ?x ?w) (conv[?a] ?y ?w))", {"(same_shape ?x ?y)"}, "x:[n,c*g,h,w] y:[n,c*g,h,w] w:[f*g,c,r,s]")),
      reassociating(both("conv-adds-weights", "(conv[?a] ?x (add ?w ?v))", "(add (conv[?a] ?x ?w) (conv[?a] ?x ?v))", {"(same_shape ?w ?v)"}, "x:[n,c*g,h,w] w:[f*g,c,r,s] v:[f*g,c,r,s]")),
      reassociating(both("conv-scales-input",   "(mul (conv[?a] ?x ?w) ?s)", "(conv[?a] (mul ?x ?s) ?w)", {"(single ?s)"}, "x:[n,c*g,h,w] w:[f*g,c,r,s] s:~[1,1]")),
      reassociating(both("conv-scales-weights", "(mul (conv[?a] ?x ?w) ?s)", "(conv[?a] ?x (mul ?w ?s))", {"(single ?s)"}, "x:[n,c*g,h,w] w:[f*g,c,r,s] s:~[1,1]")),
      reassociating(both("matmul-associates",   "(matmul (matmul ?x ?y) ?z)", "(matmul ?x (matmul ?y ?z))", {"(has_rank ?x 2)", "(has_rank ?y 2)", "(has_rank ?z 2)"}, "x:[a,b] y:[b,c] z:[c,d]")),
      reassociating(both("matmul-adds-right",   "(matmul ?x (add ?y ?z))", "(add (matmul ?x ?y) (matmul ?x ?z))", {"(same_shape ?y ?z)"}, "x:[a,b] y:[b,c] z:[b,c]")),
      reassociating(both("matmul-adds-left",    "(matmul (add ?x ?y) ?z)", "(add (matmul ?x ?z) (matmul ?y ?z))", {"(same_shape ?x ?y)"}, "x:[a,b] y:[a,b] z:[b,c]")),
      reassociating(both("matmul-scales-right", "(mul (matmul ?x ?y) ?s)", "(matmul ?x (mul ?y ?s))", {"(single ?s)"}, "x:[a,b] y:[b,c] s:~[1]")),
      reassociating(both("matmul-scales-left",  "(mul (matmul ?x ?y) ?s)", "(matmul (mul ?x ?s) ?y)", {"(single ?s)"}, "x:[a,b] y:[b,c] s:~[1]")),
      both("matmul-transpose", "(transpose[perm=[1,0]] (matmul ?x ?y))", "(matmul (transpose[perm=[1,0]] ?y) (transpose[perm=[1,0]] ?x))", {}, "x:[a,b] y:[b,c]"),
      rule("enlarge-kernel", "(conv[?a, pads=?p, dilations=[1,1]] ?x ?w)", "(conv[?a, pads=(sum ?p 1)] ?x (pad[pads=[0,0,1,1,0,0,1,1]] ?w))", {}, x_w),
  };
  // clang-format on
}

}  // namespace emend
