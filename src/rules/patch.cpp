// Patches: one over another, past elementwise operators and views, and gone where nobody reads the
// box. So a repair that a crop or a stride throws away is not made, and what two layers repair at
// the same place is repaired once.
#include "rules/rule.h"

namespace emend {

std::vector<Rule> patch_rules() {
  const std::string patched = "(patch[begin=?b] ?x ?f)";
  std::vector<Rule> seen;
  // Through whatever moves elements: of the base where the box is missed, of the fix where nothing
  // else is read, otherwise of both, if what is seen of the box is one.
  for (const std::string op : {"view", "reshape", "transpose", "slice", "pad"}) {
    const bool named = op == "view";
    const std::string head = "(" + op + (named ? "[map=?m] " : "[?a] ");
    const std::string map = named ? "?m" : "(viewed " + op + " ?a ?x)", box = map + " ?b ?f";
    const std::string fixed = "(view[map=(fix_map " + box + ")] ?f)";
    const std::string misses = "(misses " + box + ")", within = "(within " + box + ")";
    const char* const drawn = op == "reshape" ? "x:[2,a,6] f:[2,b,6] | x:[a,4] f:[b,4]"
                                              : "x:[a,b] f:[c,d] | x:[a,b,c] f:[d,e,c]";
    if (op != "reshape" && op != "transpose")
      seen.push_back(always(op + "-misses-patch", head + patched + ")", head + "?x)",
                            {misses.c_str()}, drawn));
    if (op == "view" || op == "slice")
      seen.push_back(
          always(op + "-within-patch", head + patched + ")", fixed, {within.c_str()}, drawn));
    seen.push_back(rule(op + "-of-patch", head + patched + ")",
                        "(patch[begin=(seen_begin " + box + ")] " + head + "?x) " + fixed + ")", {},
                        drawn));
  }
  // clang-format off
  std::vector<Rule> all = {
      always("patch-whole",        "(patch[begin=?b] ?x ?f)", "?f", {"(same_shape ?x ?f)"}, "x:[a,b] f:[a,b]"),
      always("patch-same",         "(patch[begin=?b] ?x (slice[starts=?b, sizes=?n, steps=?s] ?x))", "?x", {"(every ?s 1)"}, "x:[a,b]"),
      always("patch-hides-patch",  "(patch[begin=?b] (patch[begin=?c] ?x ?f) ?h)", "(patch[begin=?b] ?x ?h)", {"(covers ?b ?h ?c ?f)"}, "x:[a,b] f:[c,d] h:[e,g]"),
      always("patch-in-patch",     "(patch[begin=?c] (patch[begin=?b] ?x ?f) ?h)", "(patch[begin=?b] ?x (patch[begin=(difference ?c ?b)] ?f ?h))", {"(covers ?b ?f ?c ?h)"}, "x:[a,b] f:[c,d] h:[e,g]"),
      rule("patch-beside-patch",   "(patch[begin=?c] (patch[begin=?b] ?x ?f) ?h)", "(patch[begin=?b] ?x (concat[axis=(side_by_side ?b ?f ?c ?h)] ?f ?h))", {}, "x:[a,b] f:[c,d] h:[e,d] | x:[a,b] f:[c,d] h:[c,e]"),
      rule("patch-before-patch",   "(patch[begin=?c] (patch[begin=?b] ?x ?f) ?h)", "(patch[begin=?c] ?x (concat[axis=(side_by_side ?c ?h ?b ?f)] ?h ?f))", {}, "x:[a,b] f:[c,d] h:[e,d] | x:[a,b] f:[c,d] h:[c,e]"),

      both("patch-through",        "(?g:unary (patch[begin=?b] ?x ?f))", "(patch[begin=?b] (?g ?x) (?g ?f))", {}, "x:[a,b] f:[c,d]"),
      both("patch-through-both",   "(?g:binary (patch[begin=?b] ?x ?f) (patch[begin=?b] ?y ?h))", "(patch[begin=?b] (?g ?x ?y) (?g ?f ?h))", {"(same_shape ?x ?y)", "(same_shape ?f ?h)"}, "x:[a,b] f:[c,d] y:[a,b] h:[c,d]"),
      // With another operand, of which the box is a part: a bias, a shortcut.
      rule("patch-through-other",      "(?g:binary (patch[begin=?b] ?x ?f) ?y)", "(patch[begin=?b] (?g ?x ?y) (?g ?f (slice[starts=(part_starts ?b ?x ?y), sizes=(part_sizes (shape ?f) ?x ?y), steps=(repeated 1 (rank ?y))] ?y)))", {}, "x:[a,b] f:[c,d] y:~[a,b]"),
      rule("patch-through-other-left", "(?g:binary ?y (patch[begin=?b] ?x ?f))", "(patch[begin=?b] (?g ?y ?x) (?g (slice[starts=(part_starts ?b ?x ?y), sizes=(part_sizes (shape ?f) ?x ?y), steps=(repeated 1 (rank ?y))] ?y) ?f))", {}, "x:[a,b] f:[c,d] y:~[a,b]"),

      // What strides pass over and windows leave at the border.
      always("conv-skips-patch",     "(conv[?a] (patch[begin=?b] ?x ?f) ?w)", "(conv[?a] ?x ?w)", {"(unread conv ?a ?b ?f ?x ?w)"}, "x:[n,c,h,w] f:[n,c,h,1] w:[f,c,1,1] | x:[n,c,h] f:[n,c,1] w:[f,c,r]"),
      always("max-pool-skips-patch", "(max_pool[?a] (patch[begin=?b] ?x ?f))", "(max_pool[?a] ?x)", {"(unread max_pool ?a ?b ?f ?x)"}, "x:[n,c,h,w] f:[n,c,h,1] | x:[n,c,h] f:[n,c,1]"),
      always("sum-pool-skips-patch", "(sum_pool[?a] (patch[begin=?b] ?x ?f))", "(sum_pool[?a] ?x)", {"(unread sum_pool ?a ?b ?f ?x)"}, "x:[n,c,h,w] f:[n,c,h,1] | x:[n,c,h] f:[n,c,1]"),
      always("avg-pool-skips-patch", "(avg_pool[?a] (patch[begin=?b] ?x ?f))", "(avg_pool[?a] ?x)", {"(unread avg_pool ?a ?b ?f ?x)"}, "x:[n,c,h,w] f:[n,c,h,1] | x:[n,c,h] f:[n,c,1]"),
  };
  // clang-format on
  all.insert(all.end(), seen.begin(), seen.end());
  return all;
}

}  // namespace emend
