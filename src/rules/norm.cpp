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
  // These composites compute in f32 inside, whatever their operand is.
  const Where norm = {"(last_axis ?k ?x)", "(constant ?e)", "(is_f32 ?x)", "(has_rank ?g 1)"};
  const std::string last = "x:f32[a,c] e:f32+[] g:f32[c] b:f32[c]";
  // clang-format off
  return {
      reassociating(always("batch-norm-into-conv", "(batch_norm[epsilon=?e] (conv[?a] ?x ?w) ?s ?b ?m ?v)", "(add (conv[?a] ?x " + weights + ") " + shift + ")",
             {"(weights ?w ?s ?b ?m ?v)"}, draw)),
      reassociating(always("batch-norm-into-conv-bias", "(batch_norm[epsilon=?e] (add (conv[?a] ?x ?w) ?c) ?s ?b ?m ?v)",
             "(add (conv[?a] ?x " + weights + ") (add (mul ?c " + channels + ") " + shift + "))",
             {"(weights ?w ?c ?s ?b ?m ?v)", "(per_channel ?c ?w)"}, draw)),
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
      // Dimensions of size one beside a softmax do not matter to it.
      always("softmax-reshape", "(reshape[?b] (softmax[axis=?k] (reshape[shape=?t] ?x)))", "(softmax[axis=(unsqueezed_axis ?x ?t ?k)] ?x)", {}, "x:[a,b,1,1]"),
  };
  // clang-format on
}

}  // namespace emend
