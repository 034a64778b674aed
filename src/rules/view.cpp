// Views: one after the other they are one, and elementwise operators, concatenations and masks pass
// by them, so that a layout that several operators want is made once and undone once. Where a view
// laid gaps of zeros, what is computed on them is forgotten by a mask: where(mask, x, 0).
#include "rules/rule.h"

namespace emend {

std::vector<Rule> view_rules() {
  const auto over = [](const std::string& outer, const std::string& inner) {
    return "(composed " + outer + " " + inner + " ?x)";
  };
  const std::string one = over("?m", "?n");
  const std::string pixel = "strides=?t, pads=?z, dilations=?e, group=?g";
  const Where is_pixel = {"(every ?t 1)", "(every ?z 0)", "(every (kernel ?v) 1)"};
  std::vector<Rule> absorbed;
  // What is a view without being called so becomes a part of one beside it.
  for (const std::string op : {"reshape", "transpose", "slice", "pad"}) {
    const std::string inner = "(viewed " + op + " ?a ?x)", outer = "(viewed " + op + " ?a ?m)";
    const std::string holds_inner = "(unmasked ?m " + inner + " ?x)";
    const std::string holds_outer = "(unmasked " + outer + " ?m ?x)";
    const char* const drawn = op == "reshape" ? "x:[2,a,6] | x:[4,6]" : "x:[a,b,6]";
    absorbed.push_back(rule("view-of-" + op, "(view[map=?m] (" + op + "[?a] ?x))",
                            "(view[map=" + over("?m", inner) + "] ?x)", {holds_inner.c_str()},
                            drawn));
    absorbed.push_back(rule(op + "-of-view", "(" + op + "[?a] (view[map=?m] ?x))",
                            "(view[map=" + over(outer, "?m") + "] ?x)", {holds_outer.c_str()},
                            drawn));
  }
  // clang-format off
  std::vector<Rule> all = {
      always("view-same",         "(view[map=?m] ?x)", "?x", {"(unmoved ?m ?x)"}),
      always("view-normal",       "(view[map=?m] ?x)", "(view[map=(normal ?m)] ?x)", {"(different ?m (normal ?m))"}),
      always("view-is-reshape",   "(view[map=?m] ?x)", "(reshape[shape=(view_shape ?m)] ?x)", {"(only_reshapes ?m ?x)"}, "x:[a,b] | x:[1,b,1]"),
      always("view-is-transpose", "(view[map=?m] ?x)", "(transpose[perm=(permutation ?m ?x)] ?x)", {}, "x:[a,b]"),
      always("view-view",         "(view[map=?m] (view[map=?n] ?x))", "(view[map=" + one + "] ?x)", {"(unmasked ?m ?n ?x)"}, "x:[a,b,6]"),
      rule("view-view-masked",    "(view[map=?m] (view[map=?n] ?x))", "(where (constant (mask ?m ?n ?x)) (view[map=" + one + "] ?x) 0)", {}, "x:[a,b,6]"),

      both("view-through",        "(view[map=?m] (?f:unary ?x))", "(?f (view[map=?m] ?x))", {"(total ?m ?x)"}),
      both("view-through-zero",   "(view[map=?m] (?f:zero_keeping_unary ?x))", "(?f (view[map=?m] ?x))"),
      both("view-through-both",   "(view[map=?m] (?f:binary ?x ?y))", "(?f (view[map=?m] ?x) (view[map=?m] ?y))", {"(same_shape ?x ?y)", "(total ?m ?x)"}),
      // With an operand that is broadcast along every dimension that the view changes: a bias, a scale, a number.
      both("view-through-smaller",      "(view[map=?m] (?f:binary ?x ?y))", "(?f (view[map=?m] ?x) ?y)", {"(total ?m ?x)", "(passes_by ?m ?x ?y)"}, "x:[n,c,h,w] y:~[c,1,1]"),
      both("view-through-smaller-left", "(view[map=?m] (?f:binary ?y ?x))", "(?f ?y (view[map=?m] ?x))", {"(total ?m ?x)", "(passes_by ?m ?x ?y)"}, "x:[n,c,h,w] y:~[c,1,1]"),

      // Convolutions by one pixel see one place at a time, wherever it is; of zeros they make zeros.
      rule("pixel-of-view",       "(conv[" + pixel + "] (view[map=?m] ?x) ?v)", "(view[map=(channel_map ?m ?x (dim ?x 1) (dim ?v 0))] (conv[" + pixel + "] ?x ?v))", is_pixel, "x:[n,c*g,h,w] v:[f*g,c,1,1] | x:[n,c*g,h] v:[f*g,c,1]"),
      rule("view-of-pixel",       "(view[map=?m] (conv[" + pixel + "] ?x ?v))", "(conv[" + pixel + "] (view[map=(channel_map ?m ?x (dim ?v 0) (dim ?x 1))] ?x) ?v)", is_pixel, "x:[n,c*g,h,w] v:[f*g,c,1,1] | x:[n,c*g,h] v:[f*g,c,1]"),

      rule("concat-of-views",     "(concat[axis=?k] (view[map=?m*] ?x*)...)", "(view[map=(whole_map ?k ?m* ?x*)] (concat[axis=(inner_axis ?k ?m* ?x*)] ?x*...))", {}, "x*:[n,c_i,h]"),
      rule("view-of-concat",      "(view[map=?m] (concat[axis=?k] ?x*...))", "(concat[axis=(outer_axis ?m ?k ?x*)] (view[map=(part_map ?m ?k (all ?x*) ?x*)] ?x*)...)", {}, "x*:[n,c_i,h]"),

      // Masks. A condition that is broadcast stays so.
      always("where-where",       "(where ?c (where ?c ?x ?y) ?z)", "(where ?c ?x ?z)", {}, "c:bool[a,b] x:[a,b] y:[a,b] z:~[a,b]"),
      rule("where-where-zero",    "(where ?c (where ?d ?x 0) 0)", "(where (logical_and ?c ?d) ?x 0)", {"(weights ?c ?d)"}, "c:bool~[a,b] d:bool~[a,b] x:[a,b]"),
      both("where-through",       "(where ?c (?f:zero_keeping_unary ?x) 0)", "(?f (where ?c ?x 0))", {}, "c:bool[a,b] x:[a,b]"),
      rule("add-masked",          "(add (where ?c ?x 0) (where ?c ?y 0))", "(where ?c (add ?x ?y) 0)", {"(same_shape ?x ?y)"}, "c:bool~[a,b] x:[a,b] y:[a,b]"),
      always("view-forgets-mask", "(view[map=?m] (where ?c ?x 0))", "(view[map=?m] ?x)", {"(kept ?m ?c ?x)"}, "c:bool~[a,b] x:[a,b]"),
      rule("view-of-masked",      "(view[map=?m] (where ?c ?x 0))", "(where (view[map=(condition_map ?m ?c ?x)] ?c) (view[map=?m] ?x) 0)", {"(weights ?c)"}, "c:bool~[a,b] x:[a,b]"),
  };
  // clang-format on
  all.insert(all.end(), absorbed.begin(), absorbed.end());
  return all;
}

}  // namespace emend
