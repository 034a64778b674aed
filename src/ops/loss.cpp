// Losses over classes along dimension 1. The class of a target is picked by comparing class numbers
// with it, not by gathering: a masked sum fuses with the reductions of the softmax before it, its
// derivative is a mask again, and a target outside the classes picks nothing.
#include <optional>

#include "ops/compose.h"
#include "ops/composite.h"
#include "ops/families.h"
#include "ops/table.h"

namespace emend {
namespace {

Dims without_classes(Dims shape) {
  shape.erase(shape.begin() + 1);
  return shape;
}

// scores [n, c, d..], target [n, d..], perhaps weights [c]
Formula nll_loss(const Loss& a, const Formula& scores, const Formula& target,
                 const Formula* weights) {
  Dims shape = scores.shape();
  if (shape.size() < 2 || target.shape() != without_classes(shape)) {
    throw Error(
        str("scores ", shape_text(shape), " do not fit targets ", shape_text(target.shape())));
  }
  if (weights && weights->shape() != Dims{shape[1]})
    throw Error(str("weights ", shape_text(weights->shape()), " for ", shape[1], " classes"));
  GraphBuilder& b = scores.builder();
  Formula zero = scores.number(0), one = scores.number(1);
  Dims column = shape;
  column[1] = 1;
  Formula wanted = reshape(target, column);
  std::optional<Formula> counts;  // how much each target counts, where not all count 1
  if (a.ignore) {                 // an ignored target is moved outside the classes
    Formula ignored = equal(wanted, wanted.number(static_cast<double>(a.ignore_index)));
    counts = where(ignored, zero, one);
    wanted = where(ignored, wanted.number(-1), wanted);
  }
  Formula picks = equal(counting(b, shape[1], target.dtype(), shape.size(), 1), wanted);
  auto picked = [&](const Formula& from) { return sum(where(picks, from, zero), {1}); };
  Formula loss = -picked(scores);
  if (weights) {
    Dims along(shape.size(), 1);
    along[1] = shape[1];
    counts = picked(reshape(*weights, along));
    loss = loss * *counts;
  }
  Dims all(shape.size());
  for (size_t d = 0; d < all.size(); ++d) all[d] = static_cast<int64_t>(d);
  if (a.reduction == "none") return reshape(loss, without_classes(shape));
  if (a.reduction == "sum") return reshape(sum(loss, all), {});
  if (a.reduction != "mean") throw Error(str("no reduction is called ", a.reduction));
  if (!counts) return reshape(mean(loss, all), {});
  return reshape(sum(loss, all) / sum(*counts, all), {});
}

NodeId nll_loss_expand(GraphBuilder& b, const Loss& a, Args args) {
  auto in = formulas(b, args);
  return nll_loss(a, in[0], in[1], in.size() > 2 ? &in[2] : nullptr);
}

NodeId cross_entropy_expand(GraphBuilder& b, const CrossEntropy& a, Args args) {
  auto in = formulas(b, args);
  Formula log_prob = apply("log_softmax", {in[0]}, to_attrs(Softmax{1}));
  Loss loss{a.reduction, a.ignore, a.ignore_index};
  Formula y = nll_loss(loss, log_prob, in[1], in.size() > 2 ? &in[2] : nullptr);
  if (!a.log_prob) return y;
  return b.op("tuple", {y, log_prob});
}

Result<std::vector<NodeId>> loss_lower(OnnxCall& c, const std::string& op, bool log_prob) {
  std::vector<Attrs::Entry> attrs = {{"reduction", c.text_attr("reduction", "mean")},
                                     {"ignore", c.has_attr("ignore_index")},
                                     {"ignore_index", c.int_attr("ignore_index", 0)}};
  if (log_prob) attrs.emplace_back("log_prob", true);
  std::vector<NodeId> args = {c.inputs.at(0), c.inputs.at(1)};
  if (c.has(2)) args.push_back(c.inputs[2]);
  return c.b.get_all(c.b.op(op, args, Attrs(attrs)));
}

std::vector<NodeId> loss_raise(OnnxWriter& w, const std::string& type, int outputs) {
  auto a = w.attrs.as<Loss>();
  std::vector<Attrs::Entry> attributes = {{"reduction", a.reduction}};
  if (a.ignore) attributes.emplace_back("ignore_index", a.ignore_index);
  return w.emit(type, w.args, attributes, outputs);
}

}  // namespace

std::vector<OpDef> loss_ops() {
  return {
      define<Loss>(
          {.name = "nll_loss",
           .min_args = 2,
           .max_args = 3,
           .expand = nll_loss_expand,
           .onnx = {{.type = "NegativeLogLikelihoodLoss",
                     .since = 12,
                     .lower = [](OnnxCall& c) { return loss_lower(c, "nll_loss", false); },
                     .raise =
                         [](OnnxWriter& w) {
                           return loss_raise(w, "NegativeLogLikelihoodLoss", 1);
                         }}},
           .doc = "minus the target's entry of log-probabilities [n, c, ..], weighted per class, "
                  "reduced (none, sum, mean)"}),
      define<CrossEntropy>(
          {.name = "cross_entropy",
           .min_args = 2,
           .max_args = 3,
           .expand = cross_entropy_expand,
           .onnx = {{.type = "SoftmaxCrossEntropyLoss",
                     .since = 12,
                     .lower =
                         [](OnnxCall& c) {
                           return loss_lower(c, "cross_entropy", c.node.outputs > 1);
                         },
                     .raise =
                         [](OnnxWriter& w) {
                           return loss_raise(w, "SoftmaxCrossEntropyLoss",
                                             w.attrs.as<CrossEntropy>().log_prob ? 2 : 1);
                         }}},
           .doc = "nll_loss of log_softmax of scores [n, c, ..]; with log_prob: (loss, log "
                  "probabilities)"}),
  };
}

}  // namespace emend
