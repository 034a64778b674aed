// Calls of a library's kernels, as data: what `kernels` writes down and a device's runner turns
// into the library's own objects. One call is one task; a group is cut into several so that the
// library needs no threads of its own.
#pragma once

#include <string>
#include <vector>

#include "ir/type.h"

namespace emend {

// Elements of one of a step's buffers (loads first, then stores).
struct CallOperand {
  int64_t buffer = 0;
  int64_t offset = 0;  // in elements
  Dims dims, strides;
  bool operator==(const CallOperand&) const = default;
};

// Done to every element of the result, one after the other.
struct CallEpilogue {
  enum class Kind : uint8_t {
    relu,
    tanh,
    clip,    // to [a, b]
    linear,  // a * x + b
    add,
    subtract,
    multiply,  // `with`, whose dimensions of size 1 are repeated
  };
  Kind kind = Kind::relu;
  double a = 0, b = 0;
  CallOperand with;
  bool operator==(const CallEpilogue&) const = default;
};

struct LibraryCall {
  enum class What : uint8_t {
    convolution,  // in [batch, channels, space..], weights [(groups), out, in, window..]
    matmul,       // in [(batch), m, k], weights [(batch), k, n]
  };
  What what = What::convolution;
  CallOperand in, weights, out;
  bool pack = false;              // weights are constant: the library may store them its own way
  Dims strides, dilations, pads;  // convolution: one per dimension of space; pads: begins, ends
  std::vector<CallEpilogue> epilogue;
  bool operator==(const LibraryCall&) const = default;
};

std::string to_text(const LibraryCall& call);

}  // namespace emend
