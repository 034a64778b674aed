// Attributes of the contractions, for code that builds them.
#pragma once

#include "ops/build.h"

namespace emend {

struct Conv {
  Dims strides, dilations;  // one per spatial dimension
  Dims pads;                // begins, then ends
  int64_t group = 1;
  EMEND_FIELDS(strides, dilations, pads, group)
};

// The attributes of an ONNX convolution (Conv, ConvInteger, QLinearConv), auto_pad made explicit.
Conv conv_attributes(const OnnxCall& c, const Dims& x, const Dims& w);

// What is wrong with the numbers of a window, or nothing. They come from files: within the bounds
// that are kept here their sums and products do not overflow.
std::optional<std::string> window_fault(std::span<const int64_t> kernel, const Dims& strides,
                                        const Dims& dilations, const Dims& pads);

// Explicit pads (begins, then ends) from ONNX's auto_pad for an input x[n,c,..]; nullopt for
// NOTSET.
std::optional<Dims> auto_pads(const std::string& mode, const Dims& x, const Dims& kernel,
                              const Dims& strides, const Dims& dilations);

// A bias of shape [c] as [c, 1, ..], so that it broadcasts over n spatial dimensions.
NodeId add_spatial_dims(GraphBuilder& b, NodeId bias, size_t n);

}  // namespace emend
