// Reductions (softmax is one): sums are linear, views and factors wander through, and some sums are
// known.
#include "rules/rule.h"

namespace emend {

std::vector<Rule> reduce_rules() {
  const char* const x_y = "x:[a,b,c] y:~[a,b,c]";
  // clang-format off
  return {
      // One spelling of axes.
      rule("sum-axes", "(reduce_sum[axes=?k, keepdims=?h] ?x)", "(reduce_sum[axes=(axes_together ?x ?k ?k), keepdims=?h] ?x)", {"(different ?k (axes_together ?x ?k ?k))"}),
      rule("mean-axes", "(reduce_mean[axes=?k, keepdims=?h] ?x)", "(reduce_mean[axes=(axes_together ?x ?k ?k), keepdims=?h] ?x)", {"(different ?k (axes_together ?x ?k ?k))"}),
      rule("max-axes", "(reduce_max[axes=?k, keepdims=?h] ?x)", "(reduce_max[axes=(axes_together ?x ?k ?k), keepdims=?h] ?x)", {"(different ?k (axes_together ?x ?k ?k))"}),
      rule("min-axes", "(reduce_min[axes=?k, keepdims=?h] ?x)", "(reduce_min[axes=(axes_together ?x ?k ?k), keepdims=?h] ?x)", {"(different ?k (axes_together ?x ?k ?k))"}),
      rule("softmax-axis",     "(softmax[axis=?k] ?x)",     "(softmax[axis=(axis ?x ?k)] ?x)",     {"(negative ?k)"}),
      rule("log-softmax-axis", "(log_softmax[axis=?k] ?x)", "(log_softmax[axis=(axis ?x ?k)] ?x)", {"(negative ?k)"}),

      reassociating(both("sum-adds",       "(reduce_sum[?a] (add ?x ?y))", "(add (reduce_sum[?a] ?x) (reduce_sum[?a] ?y))", {"(same_shape ?x ?y)"})),
      reassociating(both("mean-adds",      "(reduce_mean[?a] (add ?x ?y))", "(add (reduce_mean[?a] ?x) (reduce_mean[?a] ?y))", {"(floating ?x)", "(same_shape ?x ?y)"})),
      both("sum-neg",  "(reduce_sum[?a] (neg ?x))",  "(neg (reduce_sum[?a] ?x))"),
      both("mean-neg", "(reduce_mean[?a] (neg ?x))", "(neg (reduce_mean[?a] ?x))", {"(floating ?x)"}),
      both("max-neg",  "(reduce_max[?a] (neg ?x))",  "(neg (reduce_min[?a] ?x))", {"(floating ?x)"}),
      both("min-neg",  "(reduce_min[?a] (neg ?x))",  "(neg (reduce_max[?a] ?x))", {"(floating ?x)"}),

      // What is the same all along the axes need not be summed.
      reassociating(both("sum-pulls-factor",  "(reduce_sum[axes=?k, keepdims=true] (mul ?x ?y))",  "(mul (reduce_sum[axes=?k, keepdims=true] ?x) ?y)",  {"(constant_along ?y ?x ?k)"}, x_y)),
      reassociating(both("mean-pulls-factor", "(reduce_mean[axes=?k, keepdims=true] (mul ?x ?y))", "(mul (reduce_mean[axes=?k, keepdims=true] ?x) ?y)", {"(floating ?x)", "(constant_along ?y ?x ?k)"}, x_y)),
      reassociating(both("sum-pulls-divisor",  "(reduce_sum[axes=?k, keepdims=true] (div ?x ?y))",  "(div (reduce_sum[axes=?k, keepdims=true] ?x) ?y)",  {"(floating ?x)", "(constant_along ?y ?x ?k)"}, x_y)),
      reassociating(both("mean-pulls-divisor", "(reduce_mean[axes=?k, keepdims=true] (div ?x ?y))", "(div (reduce_mean[axes=?k, keepdims=true] ?x) ?y)", {"(floating ?x)", "(constant_along ?y ?x ?k)"}, x_y)),
      reassociating(both("mean-pulls-shift",  "(reduce_mean[axes=?k, keepdims=true] (add ?x ?y))", "(add (reduce_mean[axes=?k, keepdims=true] ?x) ?y)", {"(floating ?x)", "(constant_along ?y ?x ?k)"}, x_y)),
      both("max-pulls-shift", "(reduce_max[axes=?k, keepdims=true] (add ?x ?y))", "(add (reduce_max[axes=?k, keepdims=true] ?x) ?y)", {"(floating ?x)", "(constant_along ?y ?x ?k)"}, x_y),
      both("min-pulls-shift", "(reduce_min[axes=?k, keepdims=true] (add ?x ?y))", "(add (reduce_min[axes=?k, keepdims=true] ?x) ?y)", {"(floating ?x)", "(constant_along ?y ?x ?k)"}, x_y),
      both("max-pulls-factor", "(reduce_max[axes=?k, keepdims=true] (mul ?x ?y))", "(mul (reduce_max[axes=?k, keepdims=true] ?x) ?y)", {"(floating ?x)", "(positive ?y)", "(constant_along ?y ?x ?k)"}, "x:[a,b,c] y:+~[a,b,c]"),
      both("max-relu", "(reduce_max[?a] (relu ?x))", "(relu (reduce_max[?a] ?x))"),
      reassociating(rule("sum-of-broadcast", "(reduce_sum[axes=?k, keepdims=true] (broadcast[shape=?s] ?x))", "(mul (broadcast[shape=(reduced_shape ?s ?k)] ?x) (number (product_along ?s ?k)))",
           {"(one_along ?x ?s ?k)"}, "x:~[a,1,c] | x:[1,b]")),
      rule("mean-of-broadcast", "(reduce_mean[axes=?k, keepdims=true] (broadcast[shape=?s] ?x))", "(broadcast[shape=(reduced_shape ?s ?k)] ?x)", {"(floating ?x)", "(one_along ?x ?s ?k)"}, "x:~[a,1,c] | x:[1,b]"),
      rule("max-of-broadcast",  "(reduce_max[axes=?k, keepdims=true] (broadcast[shape=?s] ?x))",  "(broadcast[shape=(reduced_shape ?s ?k)] ?x)", {"(one_along ?x ?s ?k)"}, "x:~[a,1,c] | x:[1,b]"),

      // One after the other.
      reassociating(rule("sum-sum",   "(reduce_sum[axes=?k] (reduce_sum[axes=?m] ?x))",   "(reduce_sum[axes=(axes_together ?x ?k ?m)] ?x)")),
      reassociating(rule("mean-mean", "(reduce_mean[axes=?k] (reduce_mean[axes=?m] ?x))", "(reduce_mean[axes=(axes_together ?x ?k ?m)] ?x)", {"(floating ?x)"})),
      rule("max-max", "(reduce_max[axes=?k] (reduce_max[axes=?m] ?x))", "(reduce_max[axes=(axes_together ?x ?k ?m)] ?x)"),
      rule("min-min", "(reduce_min[axes=?k] (reduce_min[axes=?m] ?x))", "(reduce_min[axes=(axes_together ?x ?k ?m)] ?x)"),
      both("sum-square", "(reduce_sum_square[?a] ?x)", "(reduce_sum[?a] (mul ?x ?x))"),

      // Views.
      rule("sum-of-transpose",  "(reduce_sum[axes=?k] (transpose[perm=?p] ?x))",  "(transpose[perm=?p] (reduce_sum[axes=(permuted_axes ?p ?k)] ?x))"),
      rule("mean-of-transpose", "(reduce_mean[axes=?k] (transpose[perm=?p] ?x))", "(transpose[perm=?p] (reduce_mean[axes=(permuted_axes ?p ?k)] ?x))"),
      rule("max-of-transpose",  "(reduce_max[axes=?k] (transpose[perm=?p] ?x))",  "(transpose[perm=?p] (reduce_max[axes=(permuted_axes ?p ?k)] ?x))"),
      rule("softmax-of-transpose", "(softmax[axis=?k] (transpose[perm=?p] ?x))", "(transpose[perm=?p] (softmax[axis=(item ?p (axis ?x ?k))] ?x))"),
      rule("transpose-of-softmax", "(transpose[perm=?p] (softmax[axis=?k] ?x))", "(softmax[axis=(item (inverse ?p) (axis ?x ?k))] (transpose[perm=?p] ?x))"),
      also_true(1, rule("sum-keeps-dims",  "(reduce_sum[axes=?k, keepdims=false] ?x)",  "(reshape[shape=(reduced ?x ?k false)] (reduce_sum[axes=?k, keepdims=true] ?x))")),
      also_true(1, rule("mean-keeps-dims", "(reduce_mean[axes=?k, keepdims=false] ?x)", "(reshape[shape=(reduced ?x ?k false)] (reduce_mean[axes=?k, keepdims=true] ?x))")),
      also_true(1, rule("max-keeps-dims",  "(reduce_max[axes=?k, keepdims=false] ?x)",  "(reshape[shape=(reduced ?x ?k false)] (reduce_max[axes=?k, keepdims=true] ?x))")),

      // Products: rows and columns of the result are summed beforehand.
      reassociating(both("sum-of-matmul-rows", "(reduce_sum[axes=?k, keepdims=true] (matmul ?x ?w))", "(matmul (reduce_sum[axes=?k, keepdims=true] ?x) ?w)",
           {"(rows_kept ?x ?w)", "(is_axes ?k ?x [-2])"}, "x:[a,b] w:[b,c] | x:[d,a,b] w:[d,b,c]")),
      reassociating(both("mean-of-matmul-rows", "(reduce_mean[axes=?k, keepdims=true] (matmul ?x ?w))", "(matmul (reduce_mean[axes=?k, keepdims=true] ?x) ?w)",
           {"(floating ?x)", "(rows_kept ?x ?w)", "(is_axes ?k ?x [-2])"}, "x:[a,b] w:[b,c] | x:[d,a,b] w:[d,b,c]")),
      reassociating(both("sum-of-matmul-columns", "(reduce_sum[axes=?k, keepdims=true] (matmul ?x ?w))", "(matmul ?x (reduce_sum[axes=?k, keepdims=true] ?w))",
           {"(same_rank ?x ?w)", "(rank_at_least ?x 2)", "(is_axes ?k ?x [-1])"}, "x:[a,b] w:[b,c] | x:[d,a,b] w:[d,b,c]")),
      reassociating(rule("sum-of-products", "(reduce_sum[axes=?k, keepdims=true] (mul ?x ?y))", "(matmul ?x (reshape[shape=(list (dim ?x -1) 1)] ?y))",
           {"(is_axes ?k ?x [-1])", "(per_column ?y ?x)", "(rank_at_least ?x 2)", "(equal (elements ?y) (dim ?x -1))"}, "x:[a,b] y:[b] | x:[d,a,b] y:[1,b]")),

      // Known sums. That of a one-hot row is not among them: an index out of range makes it zero.
      reassociating(rule("sum-of-softmax", "(reduce_sum[axes=?k, keepdims=?h] (softmax[axis=?m] ?x))", "(broadcast[shape=(reduced ?x ?k ?h)] 1)", {"(floating ?x)", "(at_least (list (elements_along ?x ?k)) 1)", "(is_axes ?k ?x (list ?m))"})),
      reassociating(also_true(1, rule("sum-of-deviations",  "(reduce_sum[axes=?k, keepdims=?h] (sub ?x (reduce_mean[axes=?k] ?x)))",  "(broadcast[shape=(reduced ?x ?k ?h)] 0)", {"(floating ?x)"}))),
      reassociating(also_true(1, rule("mean-of-deviations", "(reduce_mean[axes=?k, keepdims=?h] (sub ?x (reduce_mean[axes=?k] ?x)))", "(broadcast[shape=(reduced ?x ?k ?h)] 0)", {"(at_least (list (elements_along ?x ?k)) 1)", "(floating ?x)"}))),
  };
  // clang-format on
}

}  // namespace emend
