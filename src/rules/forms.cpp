#include "rules/forms.h"

#include "base/error.h"

namespace emend {
namespace {

// Rules of the tables by name, left to right or, with "<- " before the name, right to left.
Form form_of(std::string name, std::string why, const std::vector<std::string>& rules) {
  Form out{std::move(name), std::move(why), {}};
  for (const std::string& r : rules) {
    bool back = r.starts_with("<- ");
    const Rule* found = find_rule(back ? r.substr(3) : r);
    EMEND_ASSERT(found && (!back || found->both), r);
    out.rules.push_back(back ? reversed(*found) : *found);
  }
  return out;
}

}  // namespace

std::vector<Rule> form_rules() {
  // A reshape that takes rows, and nothing else, to something of more dimensions. Only such ones
  // move, and only towards the outputs: so there is an end to it.
  const std::string over = "(reshape[shape=?s] ?x)";
  const auto rows = [](Where also) {
    also.insert(also.begin(), {"(has_rank ?x 2)", "(negative (difference 2 (length ?s)))"});
    return also;
  };
  const char* last = "(equal (dim ?x -1) (last ?s))";
  const char* on_last = "(either (equal ?k -1) (equal ?k (difference (length ?s) 1)))";
  const std::string norm = "x:f32[a*b,c] g:f32[c] b:f32[c]";
  const auto channels = [](const std::string& from, const std::string& many) {  // of the filters
    return "(slice[starts=" + from + ", sizes=(joined (list (dim ?w 0) " + many +
           ") (kernel ?w)), steps=(repeated 1 (rank ?w))] ?w)";
  };
  const std::string of_first =
      "(conv[?a, group=1] ?x " + channels("(repeated 0 (rank ?w))", "(dim ?x 1)") + ")";
  const std::string of_others =
      "(conv[?a, group=1] (concat[axis=1] ?y*...) " +
      channels("(joined (list 0 (dim ?x 1)) (repeated 0 (length (kernel ?w))))",
               "(difference (dim ?w 1) (dim ?x 1))") +
      ")";
  const std::string parts = "x:[n,c,h,w] y*:[n,c,h,w] w:[f,c*3,r,s]";
  // clang-format off
  return {
      // Rows: what works on the last dimension alone needs no others than one for all of them.
      also_true(1, form("matmul-over-rows", "(matmul ?x ?w)", "(reshape[shape=(with_last (shape ?x) (dim ?w 1))] (matmul (reshape[shape=(flattened ?x)] ?x) ?w))",
           {"(rank_at_least ?x 3)", "(has_rank ?w 2)"}, "x:[a,b,c] w:[c,d] | x:[a,b,e,c] w:[c,d]")),
      form("layer-norm-over-rows", "(layer_norm[axis=?k, epsilon=?e, stats=false] " + over + " ?g ?b)", "(reshape[shape=?s] (layer_norm[axis=-1, epsilon=?e, stats=false] ?x ?g ?b))", rows({on_last, last}), norm),
      form("rms-norm-over-rows",   "(rms_norm[axis=?k, epsilon=?e] " + over + " ?g)", "(reshape[shape=?s] (rms_norm[axis=-1, epsilon=?e] ?x ?g))", rows({on_last, last}), norm),
      form("unary-over-rows",       "(?f:unary " + over + ")",     "(reshape[shape=?s] (?f ?x))", rows({}), "x:[a*b,c]"),
      form("columns-over-rows",      "(?f:binary " + over + " ?y)", "(reshape[shape=?s] (?f ?x ?y))", rows({"(per_column ?y ?x)", "(fits ?y ?x)", last}), "x:[a*b,c] y:~[c]"),
      form("columns-over-rows-left", "(?f:binary ?y " + over + ")", "(reshape[shape=?s] (?f ?y ?x))", rows({"(per_column ?y ?x)", "(fits ?y ?x)", last}), "x:[a*b,c] y:~[c]"),
      form("binary-over-rows",       "(?f:binary " + over + " ?y)", "(reshape[shape=?s] (?f ?x (reshape[shape=(shape ?x)] ?y)))", rows({"(equal (shape ?y) ?s)"}), "x:[a*b,c] y:[a,b,c]"),
      form("binary-over-rows-left",  "(?f:binary ?y " + over + ")", "(reshape[shape=?s] (?f (reshape[shape=(shape ?x)] ?y) ?x))", rows({"(equal (shape ?y) ?s)"}), "x:[a*b,c] y:[a,b,c]"),
      // Convolutions of the parts instead of one of the whole: nobody has to put the parts together.
      reassociating(form("conv-of-concat", "(conv[?a, group=1] (concat[axis=1] ?x ?y*...) ?w)", "(add " + of_first + " " + of_others + ")",
           {}, parts + " | x:[n,c,h,w] y*:[n,d_i,h,w] w:[f,k,r,s]")),
      reassociating(form("conv-of-concat-bias", "(add (conv[?a, group=1] (concat[axis=1] ?x ?y*...) ?w) ?b)", "(add (add " + of_first + " ?b) " + of_others + ")",
           {"(per_channel ?b ?w)", "(equal (elements ?b) (dim ?w 0))"}, parts + " b:[f,1,1]")),
  };
  // clang-format on
}

const std::vector<Form>& forms() {
  static const std::vector<Form> kForms = {
      form_of("rows", "no reshapes between products, norms and sums over the last dimension",
              {"matmul-over-rows", "layer-norm-over-rows", "rms-norm-over-rows", "unary-over-rows",
               "columns-over-rows", "columns-over-rows-left", "binary-over-rows",
               "binary-over-rows-left"}),
      form_of("parts", "convolutions and pools read the parts of a concatenation",
              {"conv-of-concat-bias", "conv-of-concat", "<- max-pool-channels",
               "<- avg-pool-channels"}),
  };
  return kForms;
}

}  // namespace emend
