// Normalisations whose statistics are known beforehand are scales and shifts.
#include "rules/rule.h"

namespace emend {

std::vector<Rule> norm_rules() {
  const std::string draw =
      "x:[n,c*g,h,w] w:[f*g,c,r,s] c:[f*g,1,1] s:[f*g] b:[f*g] m:[f*g] v:+[f*g]";
  const std::string scale = "(div ?s (sqrt (add ?v ?e)))";
  const std::string weights = "(mul ?w (reshape[shape=(filter_shape ?s ?w)] " + scale + "))";
  const std::string shift =
      "(reshape[shape=(channel_shape ?b ?w)] (sub ?b (mul ?m " + scale + ")))";
  const std::string channels = "(reshape[shape=(channel_shape ?s ?w)] " + scale + ")";
  const std::string deviation = "(sub ?x (reduce_mean[axes=?k] ?x))";
  const auto layer_norm = [&](const std::string& square) {
    return "(add (mul (div " + deviation + " (sqrt (add (reduce_mean[axes=?k] " + square +
           ") ?e))) ?g) ?b)";
  };
  const auto row_mean = [](const std::string& of) {
    return "(reduce_mean[axes=(list (axis ?x -1))] " + of + ")";
  };
  // These composites compute in f32 inside, whatever their operand is.
  const Where formula = {"(is_axis ?k ?x -1)", "(is_f32 ?x)"};
  const Where norm = {"(last_axis ?k ?x)", "(constant ?e)", "(is_f32 ?x)", "(has_rank ?g 1)"};
  const std::string last = "x:f32[a,c] e:f32+[] g:f32[c] b:f32[c]";
  // clang-format off
  return {
      reassociating(always("batch-norm-into-conv", "(batch_norm[epsilon=?e] (conv[?a] ?x ?w) ?s ?b ?m ?v)", "(add (conv[?a] ?x " + weights + ") " + shift + ")",
             {"(floating ?x)", "(weights ?w ?s ?b ?m ?v)"}, draw)),
      reassociating(always("batch-norm-into-conv-bias", "(batch_norm[epsilon=?e] (add (conv[?a] ?x ?w) ?c) ?s ?b ?m ?v)",
             "(add (conv[?a] ?x " + weights + ") (add (mul ?c " + channels + ") " + shift + "))",
             {"(floating ?x)", "(weights ?w ?c ?s ?b ?m ?v)", "(per_channel ?c ?w)"}, draw)),
      reassociating(always("scale-into-batch-norm", "(mul (batch_norm[?a] ?x ?s ?b ?m ?v) ?c)",
             "(batch_norm[?a] ?x (mul ?s (reshape[shape=(shape ?s)] ?c)) (mul ?b (reshape[shape=(shape ?s)] ?c)) ?m ?v)",
             {"(weights ?s ?b ?c)", "(per_channel ?c ?x)"}, "x:[n,c,h,w] s:[c] b:[c] m:[c] v:+[c] c:[c,1,1]")),
      reassociating(always("shift-into-batch-norm", "(add (batch_norm[?a] ?x ?s ?b ?m ?v) ?c)",
             "(batch_norm[?a] ?x ?s (add ?b (reshape[shape=(shape ?b)] ?c)) ?m ?v)",
             {"(weights ?b ?c)", "(per_channel ?c ?x)"}, "x:[n,c,h,w] s:[c] b:[c] m:[c] v:+[c] c:[c,1,1]")),
      // What exporters spell out.
      reassociating(always("layer-norm-pow", layer_norm("(pow " + deviation + " 2)"), "(layer_norm[epsilon=(value ?e)] ?x ?g ?b)", norm, last)),
      reassociating(always("layer-norm-mul", layer_norm("(mul " + deviation + " " + deviation + ")"), "(layer_norm[epsilon=(value ?e)] ?x ?g ?b)", norm, last)),
      reassociating(always("rms-norm-div", "(mul (div ?x (sqrt (add (reduce_mean[axes=?k] (pow ?x 2)) ?e))) ?g)", "(rms_norm[epsilon=(value ?e)] ?x ?g)", norm, last)),
      reassociating(always("rms-norm-reciprocal", "(mul (mul ?x (reciprocal (sqrt (add (reduce_mean[axes=?k] (pow ?x 2)) ?e)))) ?g)", "(rms_norm[epsilon=(value ?e)] ?x ?g)", norm, last)),
      // Scales and shifts apart from what is normalised, for neighbours that take them in.
      reassociating(rule("batch-norm-is-affine", "(batch_norm[epsilon=?e] ?x ?s ?b ?m ?v)", "(add (mul ?x (reshape[shape=(channel_shape ?s ?x)] " + scale + ")) (reshape[shape=(channel_shape ?b ?x)] (sub ?b (mul ?m " + scale + "))))",
             {"(floating ?x)", "(weights ?s ?b ?m ?v)"}, "x:[n,c,h,w] s:[c] b:[c] m:[c] v:+[c]")),
      rule("layer-norm-shift-apart", "(layer_norm[?a, stats=false] ?x ?g ?b)", "(add (layer_norm[?a, stats=false] ?x ?g) ?b)", {}, "x:f32[a,c] g:f32[c] b:f32[c]"),
      also_true(1, rule("layer-norm-scale-apart", "(layer_norm[?a, stats=false] ?x ?g)", "(mul (layer_norm[?a, stats=false] ?x (broadcast[shape=(shape ?g)] 1)) ?g)", {}, "x:f32[a,c] g:f32[c]")),
      also_true(1, rule("rms-norm-scale-apart",   "(rms_norm[?a] ?x ?g)", "(mul (rms_norm[?a] ?x (broadcast[shape=(shape ?g)] 1)) ?g)", {}, "x:f32[a,c] g:f32[c]")),
      reassociating(rule("rms-norm-is-division", "(rms_norm[axis=?k, epsilon=?e] ?x ?g)", "(mul (div ?x (sqrt (add " + row_mean("(mul ?x ?x)") + " ?e))) ?g)", formula, "x:f32[a,c] g:f32[c]")),
      reassociating(rule("softmax-is-division", "(softmax[axis=?k] ?x)", "(div (exp (sub ?x (reduce_max[axes=(list (axis ?x ?k))] ?x))) (reduce_sum[axes=(list (axis ?x ?k))] (exp (sub ?x (reduce_max[axes=(list (axis ?x ?k))] ?x)))))", {"(floating ?x)"}, "x:[a,b,c]")),
      rule("layer-norm-of-transpose", "(layer_norm[axis=?k, epsilon=?e, stats=false] (transpose[perm=?p] ?x) ?g ?b)", "(transpose[perm=?p] (layer_norm[axis=?k, epsilon=?e, stats=false] ?x ?g ?b))", {"(is_axis ?k ?x -1)", "(keeps_last ?p 1)"}, "x:f32[a,b,c] g:f32[c] b:f32[c]"),
      // Dimensions of size one beside a softmax do not matter to it.
      always("softmax-reshape", "(reshape[?b] (softmax[axis=?k] (reshape[shape=?t] ?x)))", "(softmax[axis=(unsqueezed_axis ?x ?t ?k)] ?x)", {}, "x:[a,b,1,1]"),
  };
  // clang-format on
}

}  // namespace emend
