#include "ir/library_call.h"

#include "base/text.h"

namespace emend {
namespace {

std::string to_text(const CallOperand& o) {
  return str("#", o.buffer, "+", o.offset, shape_text(o.dims), "by", shape_text(o.strides));
}

}  // namespace

std::string to_text(const LibraryCall& c) {
  std::string text = c.what == LibraryCall::What::convolution ? "convolution" : "matmul";
  text += str(" ", to_text(c.in), " ", to_text(c.weights), c.pack ? " packed" : "", " to ",
              to_text(c.out), " strides ", shape_text(c.strides), " dilations ",
              shape_text(c.dilations), " pads ", shape_text(c.pads));
  for (const CallEpilogue& e : c.epilogue) {
    text += str(" then ", static_cast<int>(e.kind), " ", e.a, " ", e.b, " ", to_text(e.with));
  }
  return text;
}

}  // namespace emend
