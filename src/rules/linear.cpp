// Matrix products: linear in both operands, so that sums, scales and views wander through them, and
// what only weights are asked for moves into the weights.
#include "rules/rule.h"

namespace emend {

std::vector<Rule> linear_rules() {
  const char* const mixed = "x:[a,b] w:[b,c] | x:[d,a,b] w:[b,c] | x:[d,a,b] w:[d,b,c]";
  // clang-format off
  return {
      reassociating(always("scale-into-matmul", "(mul (matmul ?x ?w) ?s)", "(matmul ?x (mul ?w ?s))",
             {"(weights ?w ?s)", "(has_rank ?w 2)", "(per_column ?s ?w)"}, "x:[a,b] w:[b,c] s:~[c]")),
      reassociating(always("scale-into-matmul-bias", "(mul (add (matmul ?x ?w) ?b) ?s)", "(add (matmul ?x (mul ?w ?s)) (mul ?b ?s))",
             {"(weights ?w ?s ?b)", "(has_rank ?w 2)", "(per_column ?s ?w)"}, "x:[a,b] w:[b,c] b:~[c] s:~[c]")),
      always("matmul-transposed-weights", "(transpose[perm=[1,0]] (matmul ?w (transpose[perm=[1,0]] ?x)))", "(matmul ?x (transpose[perm=[1,0]] ?w))",
             {"(weights ?w)"}, "x:[a,b] w:[c,b]"),
      reassociating(always("matmul-identity",      "(matmul ?x ?w)", "?x", {"(identity ?w)"}, "x:[a,b] w:I[b,b] | x:[d,a,b] w:I[b,b]")),
      reassociating(always("matmul-identity-left", "(matmul ?w ?x)", "?x", {"(identity ?w)"}, "x:[a,b] w:I[a,a] | x:[d,a,b] w:I[a,a]")),

      always("gemm-add-constant", "(add (gemm[?a, beta=1] ?x ?w ?c) ?b)", "(gemm[?a] ?x ?w (add ?c ?b))", {"(weights ?c ?b)"}, "x:[a,b] w:[b,c] c:~[c] b:~[a,c]"),

      // ONNX has one node for these. Most runtimes have no Gemm of integers.
      finish("gemm-bias", "(add (matmul ?x ?w) ?b)", "(gemm ?x ?w ?b)", {"(floating ?x)", "(has_rank ?x 2)", "(has_rank ?w 2)"}, "x:[a,b] w:[b,c] b:~[a,c]"),
      finish("gemm-addend", "(add (gemm[?a] ?x ?w) ?b)", "(gemm[?a, beta=1] ?x ?w ?b)", {}, "x:[a,b] w:[b,c] b:~[a,c]"),
      finish("gemm-transposed", "(gemm[?a, trans_b=false] ?x (transpose[perm=[1,0]] ?w) ?b)", "(gemm[?a, trans_b=true] ?x ?w ?b)", {}, "x:[a,b] w:[c,b] b:~[a,c]"),
      finish("gemm-batched", "(reshape[?s] (add (matmul ?x ?w) ?b))", "(reshape[?s] (gemm (reshape[shape=(flattened ?x)] ?x) ?w ?b))", {"(floating ?x)", "(has_rank ?x 3)", "(has_rank ?w 2)", "(has_rank ?b 1)"}, "x:[a,d,b] w:[b,c] b:~[c]"),
      finish("gemm-above-reshape", "(add (matmul (reshape[shape=?s] ?x) ?w) ?b)", "(reshape[shape=(with_last ?s (dim ?w 1))] (gemm (reshape[shape=(flattened ?s)] ?x) ?w ?b))",
             {"(floating ?x)", "(has_rank ?w 2)", "(has_rank ?b 1)", "(negative (difference 2 (length ?s)))"}, "x:[a,d,2,3] w:[6,c] b:~[c]"),
      finish("unary-above-reshape", "(?f:unary (reshape[?s] (gemm[?a] ?x ?w ?b)))", "(reshape[?s] (?f (gemm[?a] ?x ?w ?b)))", {}, "x:[a,b] w:[b,c] b:[c]"),

      // For the search a gemm is what it is made of; the way back is formed at the end, not here: it would double every product.
      reassociating(rule("gemm-factors-apart", "(gemm[alpha=?a, beta=?b, trans_a=?t, trans_b=?u] ?x ?w ?c)", "(add (mul (gemm[trans_a=?t, trans_b=?u] ?x ?w) ?a) (mul ?c ?b))", {"(either (different ?a 1.0) (different ?b 1.0))"}, "x:[a,b] w:[b,c] c:~[a,c]")),
      reassociating(rule("gemm-factor-apart",  "(gemm[alpha=?a, trans_a=?t, trans_b=?u] ?x ?w)", "(mul (gemm[trans_a=?t, trans_b=?u] ?x ?w) ?a)", {"(different ?a 1.0)"}, "x:[a,b] w:[b,c]")),
      rule("gemm-bias-apart", "(gemm[trans_a=?t, trans_b=?u] ?x ?w ?c)", "(add (gemm[trans_a=?t, trans_b=?u] ?x ?w) ?c)", {}, "x:[a,b] w:[b,c] c:~[a,c]"),
      rule("gemm-is-matmul",       "(gemm ?x ?w)", "(matmul ?x ?w)", {}, "x:[a,b] w:[b,c]"),
      rule("gemm-is-matmul-right", "(gemm[trans_b=true] ?x ?w)", "(matmul ?x (transpose[perm=[1,0]] ?w))", {}, "x:[a,b] w:[c,b]"),
      rule("gemm-is-matmul-left",  "(gemm[trans_a=true] ?x ?w)", "(matmul (transpose[perm=[1,0]] ?x) ?w)", {}, "x:[b,a] w:[b,c]"),
      rule("gemm-is-matmul-both",  "(gemm[trans_a=true, trans_b=true] ?x ?w)", "(matmul (transpose[perm=[1,0]] ?x) (transpose[perm=[1,0]] ?w))", {}, "x:[b,a] w:[c,b]"),

      reassociating(both("matmul-associates",   "(matmul (matmul ?x ?y) ?z)", "(matmul ?x (matmul ?y ?z))", {"(rank_at_least ?x 2)", "(rank_at_least ?y 2)", "(rank_at_least ?z 2)"},
           "x:[a,b] y:[b,c] z:[c,d] | x:[e,a,b] y:[b,c] z:[e,c,d] | x:[a,b] y:[e,b,c] z:[c,d]")),
      reassociating(both("matmul-adds-right",   "(matmul ?x (add ?y ?z))", "(add (matmul ?x ?y) (matmul ?x ?z))", {"(same_shape ?y ?z)"}, "x:[a,b] y:[b,c] z:[b,c] | x:[d,a,b] y:[b,c] z:[b,c]")),
      reassociating(both("matmul-adds-left",    "(matmul (add ?x ?y) ?z)", "(add (matmul ?x ?z) (matmul ?y ?z))", {"(same_shape ?x ?y)"}, "x:[a,b] y:[a,b] z:[b,c] | x:[a,b] y:[a,b] z:[d,b,c]")),
      both("matmul-neg-left",  "(matmul (neg ?x) ?y)", "(neg (matmul ?x ?y))", {}, "x:[a,b] y:[b,c]"),
      both("matmul-neg-right", "(matmul ?x (neg ?y))", "(neg (matmul ?x ?y))", {}, "x:[a,b] y:[b,c]"),

      // Factors of rows and of columns leave a product; those of the inner dimension change sides.
      reassociating(both("matmul-scales-columns", "(mul (matmul ?x ?w) ?s)", "(matmul ?x (mul ?w ?s))", {"(per_column ?s ?w)", "(rank_at_least ?w 2)"}, "x:[a,b] w:[b,c] s:~[1,c] | x:[d,a,b] w:[b,c] s:~[c]")),
      reassociating(both("matmul-scales-rows",    "(mul (matmul ?x ?w) ?s)", "(matmul (mul ?x ?s) ?w)", {"(constant_along ?s ?x -1)", "(rows_kept ?x ?w)"},
           "x:[a,b] w:[b,c] s:~[a,1] | x:[d,a,b] w:[b,c] s:~[d,a,1] | x:[d,a,b] w:[d,b,c] s:[d,a,1]")),
      reassociating(both("matmul-divides-rows",   "(div (matmul ?x ?w) ?s)", "(matmul (div ?x ?s) ?w)", {"(floating ?x)", "(constant_along ?s ?x -1)", "(rows_kept ?x ?w)"},
           "x:[a,b] w:[b,c] s:~[a,1] | x:[d,a,b] w:[b,c] s:[d,a,1] | x:[d,a,b] w:[d,b,c] s:[d,a,1]")),
      reassociating(both("matmul-divides-columns", "(div (matmul ?x ?w) ?s)", "(matmul ?x (div ?w ?s))", {"(floating ?x)", "(per_column ?s ?w)", "(rank_at_least ?w 2)"}, "x:[a,b] w:[b,c] s:~[1,c]")),
      reassociating(rule("matmul-scales-inner", "(matmul (mul ?x ?s) ?w)", "(matmul ?x (mul ?w (reshape[shape=(list (elements ?s) 1)] ?s)))",
           {"(weights ?s ?w)", "(has_rank ?w 2)", "(fits ?s ?x)", "(per_column ?s ?x)"}, "x:[a,b] w:[b,c] s:~[1,b] | x:[d,a,b] w:[b,c] s:~[b]")),
      reassociating(rule("matmul-shifts-inner", "(matmul (add ?x ?s) ?w)", "(add (matmul ?x ?w) (matmul ?s ?w))",
           {"(weights ?s ?w)", "(has_rank ?w 2)", "(fits ?s ?x)", "(per_column ?s ?x)"}, "x:[a,b] w:[b,c] s:[b] | x:[d,a,b] w:[b,c] s:[1,b]")),
      reassociating(rule("matmul-residual", "(add ?x (matmul ?x ?w))", "(matmul ?x (add ?w (identity (shape ?w))))",
           {"(weights ?w)", "(has_rank ?w 2)", "(equal (dim ?w 0) (dim ?w 1))"}, "x:[a,b] w:[b,b] | x:[d,a,b] w:[b,b]")),

      // Views. A view that keeps the last dimension does not matter to a matrix on the right.
      both("matmul-transpose", "(transpose[perm=?p] (matmul ?x ?y))", "(matmul (transpose[perm=?p] ?y) (transpose[perm=?p] ?x))", {"(swaps_last ?p)", "(same_rank ?x ?y)"}, "x:[a,b] y:[b,c] | x:[d,a,b] y:[d,b,c]"),
      both("matmul-transpose-batch", "(transpose[perm=?p] (matmul ?x ?y))", "(matmul (transpose[perm=?p] ?x) (transpose[perm=?p] ?y))", {"(keeps_last ?p 2)", "(same_rank ?x ?y)"}, "x:[d,e,a,b] y:[d,e,b,c]"),
      rule("matmul-below-reshape", "(matmul (reshape[shape=?s] ?x) ?w)", "(reshape[shape=(with_last ?s (dim ?w 1))] (matmul ?x ?w))",
           {"(has_rank ?w 2)", "(rank_at_least ?x 2)", "(equal (dim ?x -1) (last ?s))"}, "x:[a,b] w:[b,c] | x:[d,a,b] w:[b,c]"),
      rule("matmul-above-reshape", "(reshape[shape=?s] (matmul ?x ?w))", "(matmul (reshape[shape=(with_last ?s (dim ?x -1))] ?x) ?w)",
           {"(has_rank ?w 2)", "(rank_at_least ?x 2)", "(equal (dim ?w 1) (last ?s))"}, "x:[a,b] w:[b,c] | x:[d,a,b] w:[b,c]"),
      rule("split-matmul-columns", "(get[index=?i] (split[axis=?k, sizes=?s] (matmul ?x ?w)))", "(matmul ?x (get[index=?i] (split[axis=(axis ?w -1), sizes=?s] ?w)))",
           {"(rows_kept ?x ?w)", "(is_axis ?k ?x -1)"}, mixed),
      rule("split-matmul-rows", "(get[index=?i] (split[axis=?k, sizes=?s] (matmul ?x ?w)))", "(matmul (get[index=?i] (split[axis=(axis ?x -2), sizes=?s] ?x)) ?w)",
           {"(rows_kept ?x ?w)", "(is_axis ?k ?x -2)"}, mixed),
  };
  // clang-format on
}

}  // namespace emend
