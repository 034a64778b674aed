// Attributes of the composites, for code that builds them.
#pragma once

#include <string>

#include "ir/attrs.h"

namespace emend {

// softmax, log_softmax, hardmax
struct Softmax {
  int64_t axis = -1;
  EMEND_FIELDS(axis)
};

struct Gemm {
  double alpha = 1, beta = 1;
  bool trans_a = false, trans_b = false;
  EMEND_FIELDS(alpha, beta, trans_a, trans_b)
};

// batch_norm, instance_norm
struct Epsilon {
  double epsilon = 1e-5;
  EMEND_FIELDS(epsilon)
};

struct BatchNormTraining {
  double epsilon = 1e-5, momentum = 0.9;
  EMEND_FIELDS(epsilon, momentum)
};

// layer_norm: the axes from `axis` on are normalised, in the dtype `stash`.
struct LayerNorm {
  int64_t axis = -1;
  double epsilon = 1e-5;
  DType stash = DType::f32;
  bool stats = false;  // the result is (y, mean, 1 / standard deviation)
  EMEND_FIELDS(axis, epsilon, stash, stats)
};

struct GroupNorm {
  int64_t groups = 1;
  double epsilon = 1e-5;
  DType stash = DType::f32;
  EMEND_FIELDS(groups, epsilon, stash)
};

struct RmsNorm {
  int64_t axis = -1;
  double epsilon = 1e-5;
  DType stash = DType::f32;
  EMEND_FIELDS(axis, epsilon, stash)
};

struct LpNorm {
  int64_t axis = -1, p = 2;
  EMEND_FIELDS(axis, p)
};

struct MeanVarianceNorm {
  Dims axes = {0, 2, 3};
  EMEND_FIELDS(axes)
};

// nll_loss, cross_entropy
struct Loss {
  std::string reduction = "mean";  // or "sum", "none"
  bool ignore = false;             // targets equal to ignore_index do not count
  int64_t ignore_index = 0;
  EMEND_FIELDS(reduction, ignore, ignore_index)
};

struct CrossEntropy {
  std::string reduction = "mean";
  bool ignore = false;
  int64_t ignore_index = 0;
  bool log_prob = false;  // the result is (loss, logarithms of the probabilities)
  EMEND_FIELDS(reduction, ignore, ignore_index, log_prob)
};

// Operands: q, k, v, then those that the flags announce: mask, past_key and past_value, lengths.
struct Attention {
  double scale = 1;                   // of q k^T; both are scaled by its root
  double softcap = 0;                 // 0: none
  bool causal = false;                // aligned at the upper left, after what is past
  int64_t q_heads = 0, kv_heads = 0;  // of rank 3 operands [batch, sequence, heads * size]
  DType precision = DType::f32;       // of the softmax
  bool mask = false, past = false, lengths = false;
  // 1: y alone; 3: (y, present_key, present_value); 4: and the scores of that stage, which are
  // 0: q k^T, 1: after softcap, 2: after masking, 3: after softmax.
  int64_t results = 1, stage = 0;
  EMEND_FIELDS(scale, softcap, causal, q_heads, kv_heads, precision, mask, past, lengths, results,
               stage)
};

// Operands: q, k, v, then what prob_mod and score_mod capture. The subgraphs are programs of our
// operators: (scores, captured..) -> scores.
struct FlexAttention {
  double scale = 1;
  DType precision = DType::f32;
  GraphRef prob_mod, score_mod;
  EMEND_FIELDS(scale, precision, prob_mod, score_mod)
};

// Operands: q, k, v, then past state, decay (gated) and beta (delta) where there are any.
struct LinearAttention {
  int64_t q_heads = 1, kv_heads = 1;
  double scale = 1;
  bool gated = false, delta = false, past = false;
  EMEND_FIELDS(q_heads, kv_heads, scale, gated, delta, past)
};

struct RotaryEmbedding {
  bool interleaved = false;
  int64_t heads = 0;    // of a rank 3 operand
  int64_t rotated = 0;  // how much of each head is rotated; 0: all of it
  EMEND_FIELDS(interleaved, heads, rotated)
};

}  // namespace emend
