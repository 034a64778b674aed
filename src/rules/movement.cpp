// Elements that change place: views compose, cancel, and wander through what works on elements.
#include "rules/rule.h"

namespace emend {

std::vector<Rule> movement_rules() {
  // clang-format off
  return {
      // That the types of both sides agree is the whole guard of these.
      always("reshape-same",      "(reshape[?a] ?x)",   "?x", {}, "x:[a,b]"),
      always("broadcast-same",    "(broadcast[?a] ?x)", "?x", {}, "x:[a,b]"),
      always("concat-one",        "(concat[?a] ?x)",    "?x"),
      always("get-tuple",         "(get[index=?i] (tuple ?x*...))", "(at ?i ?x*)", {}, "x*:[a_i,b_i]"),
      always("split-whole",       "(get[index=0] (split[?a] ?x))", "?x"),
      always("reshape-reshape",   "(reshape[?a] (reshape[?b] ?x))", "(reshape[?a] ?x)", {}, "x:[a,b,6]"),
      always("broadcast-broadcast", "(broadcast[?a] (broadcast[?b] ?x))", "(broadcast[?a] ?x)"),

      always("transpose-same",    "(transpose[perm=?p] ?x)", "?x", {"(equal ?p (iota (rank ?x)))"}, "x:[a,b]"),
      always("transpose-is-reshape", "(transpose[perm=?p] ?x)", "(reshape[shape=(gather (shape ?x) ?p)] ?x)", {"(keeps_order ?x ?p)"}, "x:[a,1,b,1]"),
      always("transpose-transpose", "(transpose[perm=?p] (transpose[perm=?q] ?x))", "(transpose[perm=(gather ?q ?p)] ?x)"),
      always("slice-same",        "(slice[?a, steps=?s] ?x)", "?x", {"(every ?s 1)"}, "x:[a]"),
      always("slice-slice",       "(slice[starts=?a, sizes=?n, steps=?s] (slice[starts=?b, sizes=?m, steps=?t] ?x))",
                                  "(slice[starts=(sum ?b (product ?a ?t)), sizes=?n, steps=(product ?s ?t)] ?x)", {}, "x:[a,b,9]"),
      always("pad-same",          "(pad[?a, pads=?p] ?x)", "?x", {"(every ?p 0)"}, "x:[a]"),
      always("pad-pad",           "(pad[pads=?p, value=?v] (pad[pads=?q, value=?v] ?x))", "(pad[pads=(sum ?p ?q), value=?v] ?x)",
                                  {"(at_least ?p 0)", "(at_least ?q 0)"}, "x:[a,b]"),
      always("concat-axis",       "(concat[axis=?k] ?x ?y*...)", "(concat[axis=(sum ?k (rank ?x))] ?x ?y*...)", {"(negative ?k)"}, "x:[a,b,c] y*:[a,b,c]"),
      always("concat-concat",     "(concat[axis=?k] ?x*... (concat[axis=?k] ?y*...) ?z*...)", "(concat[axis=?k] ?x*... ?y*... ?z*...)", {}, "x*:[a_i,b] y*:[c_i,b] z*:[d_i,b]"),
      finish("concat-stack",      "(concat[axis=?k] (reshape[shape=?s] ?x*)...)", "(reshape[shape=(spliced ?s ?k (list (length (sizes ?x* ?k))))] (concat[axis=?k] ?x*...))",
                                  {"(equal (item ?s ?k) 1)", "(each (equal (shape ?x*) (spliced ?s ?k (between 0 0))))"}, "x*:[a,b]"),
      always("concat-split",      "(concat[axis=?k] (get[index=?i*] (split[axis=?k, sizes=?s] ?x))...)", "?x", {"(equal ?i* (iota (length ?s)))"}, "x:[a,b]"),
      always("split-concat",      "(get[index=?i] (split[axis=?k, sizes=?s] (concat[axis=?k] ?x*...)))", "(at ?i ?x*)", {"(equal ?s (sizes ?x* ?k))"}, "x*:[a_i,b]"),
      always("broadcast-left",    "(?f:binary (broadcast[?a] ?x) ?y)", "(?f ?x ?y)", {}, "x:~[a,b] y:[a,b]"),
      always("broadcast-right",   "(?f:binary ?x (broadcast[?a] ?y))", "(?f ?x ?y)", {}, "x:[a,b] y:~[a,b]"),
      always("reshape-around",    "(reshape[?b] (?f:unary (reshape[?a] ?x)))", "(?f ?x)"),
      always("transpose-around",  "(transpose[perm=?q] (?f:unary (transpose[perm=?p] ?x)))", "(?f ?x)", {"(equal (gather ?p ?q) (iota (rank ?x)))"}, "x:[a,b]"),
      always("reduce-sum-squeeze",  "(reshape[?s] (reduce_sum[?a, keepdims=true] ?x))",  "(reduce_sum[?a, keepdims=false] ?x)"),
      always("reduce-mean-squeeze", "(reshape[?s] (reduce_mean[?a, keepdims=true] ?x))", "(reduce_mean[?a, keepdims=false] ?x)"),
      always("reduce-max-squeeze",  "(reshape[?s] (reduce_max[?a, keepdims=true] ?x))",  "(reduce_max[?a, keepdims=false] ?x)"),
      always("reduce-sum-unsqueeze",  "(reshape[?s] (reduce_sum[?a, keepdims=false] ?x))",  "(reduce_sum[?a, keepdims=true] ?x)"),
      always("reduce-mean-unsqueeze", "(reshape[?s] (reduce_mean[?a, keepdims=false] ?x))", "(reduce_mean[?a, keepdims=true] ?x)"),
      always("reduce-max-unsqueeze",  "(reshape[?s] (reduce_max[?a, keepdims=false] ?x))",  "(reduce_max[?a, keepdims=true] ?x)"),

      both("reshape-through",     "(reshape[?a] (?f:unary ?x))",   "(?f (reshape[?a] ?x))"),
      both("transpose-through",   "(transpose[?a] (?f:unary ?x))", "(?f (transpose[?a] ?x))"),
      both("slice-through",       "(slice[?a] (?f:unary ?x))",     "(?f (slice[?a] ?x))"),
      both("split-through",       "(get[index=?i] (split[?a] (?f:unary ?x)))", "(?f (get[index=?i] (split[?a] ?x)))"),
      both("concat-through",      "(concat[?a] (?f:unary ?x*)...)", "(?f (concat[?a] ?x*...))", {}, "x*:[a_i,b]"),
      both("concat-through-both", "(concat[?a] (?f:binary ?x* ?y*)...)", "(?f (concat[?a] ?x*...) (concat[?a] ?y*...))", {"(same_shapes ?x* ?y*)"}, "x*:[a_i,b] y*:[a_i,b]"),
      both("transpose-through-both", "(transpose[?a] (?f:binary ?x ?y))", "(?f (transpose[?a] ?x) (transpose[?a] ?y))", {"(same_shape ?x ?y)"}),
      both("reshape-through-both",   "(reshape[?a] (?f:binary ?x ?y))",   "(?f (reshape[?a] ?x) (reshape[?a] ?y))", {"(same_shape ?x ?y)"}),
      both("broadcast-through",   "(broadcast[?a] (?f:unary ?x))", "(?f (broadcast[?a] ?x))", {}, "x:~[a,1,c]"),
      both("gather-through",      "(gather[?a] (?f:unary ?x) ?i)", "(?f (gather[?a] ?x ?i))", {}, "x:[10,b] i:i64[a]"),
      both("pad-through",         "(pad[pads=?p, value=0] (?f:zero_keeping_unary ?x))", "(?f (pad[pads=?p, value=0] ?x))", {}, "x:[a,b]"),
      both("slice-through-both",  "(slice[?a] (?f:binary ?x ?y))", "(?f (slice[?a] ?x) (slice[?a] ?y))", {"(same_shape ?x ?y)"}),
      both("split-through-both",  "(get[index=?i] (split[?a] (?f:binary ?x ?y)))", "(?f (get[index=?i] (split[?a] ?x)) (get[index=?i] (split[?a] ?y)))", {"(same_shape ?x ?y)"}),

      // With an operand that is broadcast. Where it is the same all along an axis, what happens along it passes by.
      both("concat-through-shared",      "(concat[axis=?k] (?f:binary ?x* ?y)...)", "(?f (concat[axis=?k] ?x*...) ?y)", {"(constant_along ?y ?x* ?k)"}, "x*:[a_i,b] y:~[1,b]"),
      both("concat-through-shared-left", "(concat[axis=?k] (?f:binary ?y ?x*)...)", "(?f ?y (concat[axis=?k] ?x*...))", {"(constant_along ?y ?x* ?k)"}, "x*:[a_i,b] y:~[1,b]"),
      both("split-through-shared",       "(get[index=?i] (split[axis=?k, sizes=?s] (?f:binary ?x ?y)))", "(?f (get[index=?i] (split[axis=?k, sizes=?s] ?x)) ?y)", {"(constant_along ?y ?x ?k)"}, "x:[a,b] y:~[a,b]"),
      both("split-through-shared-left",  "(get[index=?i] (split[axis=?k, sizes=?s] (?f:binary ?y ?x)))", "(?f ?y (get[index=?i] (split[axis=?k, sizes=?s] ?x)))", {"(constant_along ?y ?x ?k)"}, "x:[a,b] y:~[a,b]"),
      both("reshape-through-scalar",      "(reshape[?a] (?f:binary ?x ?y))", "(?f (reshape[?a] ?x) ?y)", {"(single ?y)"}, "x:[a,b,c] y:~[1]"),
      both("reshape-through-scalar-left", "(reshape[?a] (?f:binary ?y ?x))", "(?f ?y (reshape[?a] ?x))", {"(single ?y)"}, "x:[a,b,c] y:~[1]"),
      both("reshape-through-columns",     "(reshape[shape=?s] (?f:binary ?x ?y))", "(?f (reshape[shape=?s] ?x) ?y)", {"(per_column ?y ?x)", "(fits ?y ?x)", "(equal (dim ?x -1) (last ?s))"}, "x:[a,b,c] y:~[c]"),
      both("transpose-through-scalar",      "(transpose[?a] (?f:binary ?x ?y))", "(?f (transpose[?a] ?x) ?y)", {"(single ?y)"}, "x:[a,b,c] y:~[1]"),
      both("transpose-through-scalar-left", "(transpose[?a] (?f:binary ?y ?x))", "(?f ?y (transpose[?a] ?x))", {"(single ?y)"}, "x:[a,b,c] y:~[1]"),
      rule("transpose-through-smaller",      "(transpose[perm=?p] (?f:binary ?x ?y))", "(?f (transpose[perm=?p] ?x) (transpose[perm=?p] (reshape[shape=(aligned ?y ?x)] ?y)))", {"(fits ?y ?x)"}, "x:[a,b,c] y:~[a,b,c]"),
      rule("transpose-through-smaller-left", "(transpose[perm=?p] (?f:binary ?y ?x))", "(?f (transpose[perm=?p] (reshape[shape=(aligned ?y ?x)] ?y)) (transpose[perm=?p] ?x))", {"(fits ?y ?x)"}, "x:[a,b,c] y:~[a,b,c]"),
      rule("transpose-above-smaller",        "(?f:binary (transpose[perm=?p] ?x) ?y)", "(transpose[perm=?p] (?f ?x (transpose[perm=(inverse ?p)] (reshape[shape=(aligned ?y ?x)] ?y))))", {"(rank_within ?y ?x)"}, "x:[a,a,a] y:~[a,a,a]"),
      rule("transpose-above-smaller-left",   "(?f:binary ?y (transpose[perm=?p] ?x))", "(transpose[perm=?p] (?f (transpose[perm=(inverse ?p)] (reshape[shape=(aligned ?y ?x)] ?y)) ?x))", {"(rank_within ?y ?x)"}, "x:[a,a,a] y:~[a,a,a]"),

      // Parts and parts of parts.
      rule("split-split",         "(get[index=?j] (split[axis=?k, sizes=?t] (get[index=?i] (split[axis=?k, sizes=?s] ?x))))", "(get[index=(sum ?i ?j)] (split[axis=?k, sizes=(spliced ?s ?i ?t)] ?x))", {}, "x:[a,b,7]"),
      rule("split-of-transpose",  "(get[index=?i] (split[axis=?k, sizes=?s] (transpose[perm=?p] ?x)))", "(transpose[perm=?p] (get[index=?i] (split[axis=(item ?p (axis ?x ?k)), sizes=?s] ?x)))"),
      rule("transpose-of-split",  "(transpose[perm=?p] (get[index=?i] (split[axis=?k, sizes=?s] ?x)))", "(get[index=?i] (split[axis=(item (inverse ?p) (axis ?x ?k)), sizes=?s] (transpose[perm=?p] ?x)))"),
      rule("slice-of-transpose",  "(slice[starts=?a, sizes=?n, steps=?s] (transpose[perm=?p] ?x))", "(transpose[perm=?p] (slice[starts=(gather ?a (inverse ?p)), sizes=(gather ?n (inverse ?p)), steps=(gather ?s (inverse ?p))] ?x))"),
      rule("transpose-of-slice",  "(transpose[perm=?p] (slice[starts=?a, sizes=?n, steps=?s] ?x))", "(slice[starts=(gather ?a ?p), sizes=(gather ?n ?p), steps=(gather ?s ?p)] (transpose[perm=?p] ?x))"),
      rule("concat-of-transposes", "(concat[axis=?k] (transpose[perm=?p] ?x*)...)", "(transpose[perm=?p] (concat[axis=(item ?p (axis ?x* ?k))] ?x*...))", {}, "x*:[a_i,b,c] | x*:[a,b_i]"),
      rule("transpose-of-concat",  "(transpose[perm=?p] (concat[axis=?k] ?x*...))", "(concat[axis=(item (inverse ?p) (axis ?x* ?k))] (transpose[perm=?p] ?x*)...)", {}, "x*:[a_i,b,c] | x*:[a,b_i]"),
      both("concat-swap",         "(concat[axis=?k] (concat[axis=?m] ?a ?b) (concat[axis=?m] ?c ?d))",
                                  "(concat[axis=?m] (concat[axis=?k] ?a ?c) (concat[axis=?k] ?b ?d))", {"(different_axes ?k ?m ?a)"}, "a:[n,m] b:[n,k] c:[l,m] d:[l,k]"),
      rule("slice-of-slices",     "(concat[axis=?k] (slice[starts=?a, sizes=?n, steps=?s] ?x) (slice[starts=?b, sizes=?m, steps=?s] ?x))",
                                  "(slice[starts=?a, sizes=(widened ?n ?m ?k), steps=?s] ?x)", {"(adjacent ?a ?n ?s ?b ?k)"}, "x:[a,b]"),
  };
  // clang-format on
}

}  // namespace emend
