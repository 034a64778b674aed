// Elementwise operators: one line each. Defaults that ONNX states as floats are floats. From the
// body follow the reference value in every arithmetic, the text in C and CUDA, the derivative, the
// documentation row and the tests.
#include <algorithm>
#include <cmath>
#include <numbers>

#include "ops/evaluate.h"
#include "ops/families.h"
#include "ops/table.h"

namespace emend {
namespace {

const Scalar x = arg(0), y = arg(1), z = arg(2);

Scalar fn(Fn f) {
  return call(f, x);
}
Scalar fn2(Fn f) {
  return call(f, x, y);
}
Scalar logical_not(const Scalar& s) {
  return call(Fn::logical_not, s);
}
Scalar sigmoid(const Scalar& s) {
  return 1 / (1 + exp(-s));
}
// log(1 + exp(s)) without overflow
Scalar softplus(const Scalar& s) {
  return max(s, 0) + log1p(exp(-abs(s)));
}

// Before opset 7 the second operand broadcasts only where `broadcast` says so, its dimensions
// standing at those of the first from `axis` on (at the end by default).
NodeId placed_at_axis(OnnxCall& c) {
  Dims shape = c.type(1).shape;
  auto rank = c.type(0).rank(), own = c.type(1).rank();
  bool per_channel = c.node.type == "PRelu" && own == 1 && shape[0] > 1;
  int64_t axis = c.int_attr("axis", per_channel ? 1 : rank - own);
  if (axis < 0) axis += rank;
  if (axis < 0 || axis > rank - own) {
    throw Error(str(c.node.type, ": ", shape_text(shape), " does not stand at axis ", axis, " of ",
                    shape_text(c.type(0).shape)));
  }
  shape.insert(shape.end(), static_cast<size_t>(rank - own - axis), 1);
  return c.b.op("reshape", {c.inputs.at(1)}, Attrs({{"shape", shape}}));
}

// The same way back: what broadcasts is the second operand without its outer dimensions of 1.
std::vector<NodeId> raise_at_axis(OnnxWriter& w, const std::string& type) {
  if (w.types[0].shape == w.types[1].shape) return w.emit(type, w.args);
  Dims shape = w.types[1].shape;
  auto axis = static_cast<int64_t>(w.type.shape.size() - shape.size());
  while (!shape.empty() && shape.back() == 1) shape.pop_back();
  for (; !shape.empty() && shape[0] == 1; ++axis) shape.erase(shape.begin());
  bool inner = std::ranges::equal(
      shape, std::span(w.type.shape).subspan(static_cast<size_t>(axis)).first(shape.size()));
  if (w.types[0].shape != w.type.shape || !inner) {
    throw Error(str(type, " does not broadcast ", shape_text(w.types[1].shape), " to ",
                    shape_text(w.type.shape), " before opset 7; try a higher --target-opset"));
  }
  NodeId second = w.emit("Reshape", {w.args[1], w.ints(shape)})[0];
  if (type == "PRelu") return w.emit(type, {w.args[0], second});
  return w.emit(type, {w.args[0], second}, {{"broadcast", 1}, {"axis", axis}});
}

OnnxRow pair(const std::string& type, const std::string& op) {
  return {.type = type,
          .lower = [op](OnnxCall& c) -> Result<std::vector<NodeId>> {
            bool old = c.version() < 7 && c.type(0).shape != c.type(1).shape;
            NodeId second = old ? placed_at_axis(c) : c.inputs.at(1);
            return std::vector{c.b.op(op, {c.inputs.at(0), second})};
          },
          .raise =
              [type](OnnxWriter& w) {
                return w.opset < 7 ? raise_at_axis(w, type) : w.emit(type, w.args);
              }};
}

// Before opset 8 the operators with any number of operands do not broadcast, but Add does.
NodeId spread(OnnxWriter& w, size_t i) {
  if (w.types[i].shape == w.type.shape) return w.args[i];
  return w.emit("Add", {w.args[i], w.b.constant(Tensor::zeros(w.type.dtype, w.type.shape))})[0];
}

// ONNX operators with any number of operands are chains of the binary one.
OnnxRow chain(const std::string& type, const std::string& op) {
  return {.type = type,
          .lower = [op](OnnxCall& c) -> Result<std::vector<NodeId>> {
            NodeId sum = c.inputs.at(0);
            for (size_t i = 1; i < c.inputs.size(); ++i) sum = c.b.op(op, {sum, c.inputs.at(i)});
            return std::vector{sum};
          },
          .raise =
              [type](OnnxWriter& w) {
                if (w.opset >= 8) return w.emit(type, w.args);
                return w.emit(type, {spread(w, 0), spread(w, 1)});
              }};
}

// The mean of any number of operands is their sum, divided.
Result<std::vector<NodeId>> mean_lower(OnnxCall& c) {
  NodeId sum = chain("Mean", "add").lower(c).value_or_throw()[0];
  NodeId n = c.b.scalar(static_cast<double>(c.inputs.size()), c.b.dtype(sum));
  return std::vector{c.inputs.size() == 1 ? sum : c.b.op("div", {sum, n})};
}

// Strings are compared and chosen, nothing else.
template <class Put>
void for_each_broadcast(const EvalContext& c, std::span<const Value> v, const Put& put) {
  std::vector<Dims> strides;
  Dims out = row_major_strides(c.type.shape);
  for (const Value& operand : v) {
    const Dims& shape = operand.tensor.shape();
    Dims own = row_major_strides(shape), aligned(c.type.shape.size() - shape.size(), 0);
    for (size_t d = 0; d < shape.size(); ++d) aligned.push_back(shape[d] == 1 ? 0 : own[d]);
    strides.push_back(aligned);
  }
  std::vector<size_t> at(v.size());
  for (int64_t i = 0; i < count(c.type.shape); ++i) {
    for (size_t k = 0; k < v.size(); ++k) {
      int64_t offset = 0;
      for (size_t d = 0; d < out.size(); ++d)
        offset += i / out[d] % c.type.shape[d] * strides[k][d];
      at[k] = static_cast<size_t>(offset);
    }
    put(static_cast<size_t>(i), at);
  }
}

Value equal_strings(const EvalContext& c, std::span<const Value> v) {
  return Tensor::make(DType::boolean, c.type.shape, [&](std::byte* out) {
    for_each_broadcast(c, v, [&](size_t i, const std::vector<size_t>& at) {
      bool same = v[0].tensor.strings()[at[0]] == v[1].tensor.strings()[at[1]];
      store_int(DType::boolean, out, i, same);
    });
  });
}

Value choose_strings(const EvalContext& c, std::span<const Value> v) {
  std::vector<std::string> chosen(static_cast<size_t>(count(c.type.shape)));
  for_each_broadcast(c, v, [&](size_t i, const std::vector<size_t>& at) {
    size_t from = v[0].tensor.integer(static_cast<int64_t>(at[0])) ? 1 : 2;
    chosen[i] = v[from].tensor.strings()[at[from]];
  });
  return Tensor::of_strings(c.type.shape, std::move(chosen));
}

OnnxRow shift_row(const std::string& direction) {
  return {.type = "BitShift",
          .since = 11,
          .lower = [](OnnxCall& c) -> Result<std::vector<NodeId>> {
            bool left = c.text_attr("direction", "") == "LEFT";
            return std::vector{
                c.b.op(left ? "shift_left" : "shift_right", {c.inputs.at(0), c.inputs.at(1)})};
          },
          .raise =
              [direction](OnnxWriter& w) {
                return w.emit("BitShift", w.args, {{"direction", direction}});
              }};
}

// A bound as a double, if it is known and a double holds it. The standard's defaults are the ends
// of the type, so that infinities become finite numbers.
std::optional<double> clip_bound(OnnxCall& c, size_t input, const char* attribute) {
  bool given = c.version() < 11 ? c.has_attr(attribute) : c.has(input);
  if (DType t = c.type(0).dtype; !given && is_float(t)) return input == 1 ? lowest(t) : highest(t);
  if (!given) return std::nullopt;
  if (c.version() < 11) return c.real_attr(attribute, 0);
  if (!c.b.graph().is_constant(c.inputs.at(input))) return std::nullopt;
  auto v = c.value(input);
  if (!v || v->count() != 1 || v->dtype() != c.type(0).dtype) return std::nullopt;
  double bound = v->real(0);
  bool exact = is_float(v->dtype()) || std::abs(bound) <= 0x1p53;
  return std::isfinite(bound) && exact ? std::optional(bound) : std::nullopt;
}

// Two known bounds are one clip; otherwise what is there, as max and min.
Result<std::vector<NodeId>> clip_lower(OnnxCall& c) {
  NodeId x = c.inputs.at(0);
  DType t = c.type(0).dtype;
  auto low = clip_bound(c, 1, "min"), high = clip_bound(c, 2, "max");
  if (low && high) return std::vector{c.b.op("clip", {x}, Attrs({{"min", *low}, {"max", *high}}))};
  auto bound = [&](size_t input, std::optional<double> known, const char* op) {
    bool is_value = c.version() >= 11 && c.has(input);
    if (!is_value && known) x = c.b.op(op, {x, c.b.scalar(*known, t)});
    if (!is_value) return;
    NodeId b = c.b.shape(c.inputs.at(input)).empty()
                   ? c.inputs.at(input)
                   : c.b.op("reshape", {c.inputs.at(input)}, Attrs({{"shape", Dims{}}}));
    x = c.b.op(op, {x, b});
  };
  bound(1, low, "max");
  bound(2, high, "min");
  return std::vector{x};
}

// Runtimes look for a quotient and for constants that come second.
std::vector<NodeId> gelu_spell(OnnxWriter& w) {
  if (w.opset < 9) return {};
  NodeId x = w.args[0], erf = w.emit("Erf", w.emit("Div", {x, w.number(std::numbers::sqrt2)}))[0];
  NodeId twice = w.emit("Mul", {x, w.emit("Add", {erf, w.number(1)})[0]})[0];
  return w.emit("Mul", {twice, w.number(0.5)});
}

std::vector<NodeId> clip_raise(OnnxWriter& w) {
  double low = w.attrs.get<double>("min"), high = w.attrs.get<double>("max");
  DType t = w.type.dtype;
  if (w.opset < 11) {  // an attribute is a float, which does not hold the ends of doubles
    std::vector<Attrs::Entry> bounds;
    if (low != lowest(t)) bounds.emplace_back("min", low);
    if (high != highest(t)) bounds.emplace_back("max", high);
    return w.emit("Clip", w.args, bounds);
  }
  auto bound = [&](double value, double by_default) {
    return is_float(t) && value == by_default ? NodeId() : w.b.constant(Tensor::of_real(value, t));
  };
  return w.emit("Clip", {w.args[0], bound(low, lowest(t)), bound(high, highest(t))});
}

// ONNX has neither of these two; the second loses digits of x near 0 there.
std::vector<NodeId> trunc_raise(OnnxWriter& w) {
  NodeId size = w.emit("Floor", w.emit("Abs", w.args))[0];
  return w.emit("Mul", {w.emit("Sign", w.args)[0], size});
}
std::vector<NodeId> log1p_raise(OnnxWriter& w) {
  NodeId one = w.b.constant(Tensor::of_real(1, w.type.dtype));
  return w.emit("Log", w.emit("Add", {w.args[0], one}));
}

}  // namespace

std::vector<OpDef> elementwise_ops() {
  const double kSqrtHalf = 0.70710678118654752440, kGeluTanh = 0.79788456080286535588;
  // clang-format off
  return {
      unary({.name = "neg",   .body = -x,               .onnx = {{"Neg"}}}),
      unary({.name = "abs",   .body = fn(Fn::abs),      .traits = idempotent | zero_to_zero, .onnx = {{"Abs"}}}),
      unary({.name = "sign",  .body = fn(Fn::sign),     .traits = idempotent | zero_to_zero, .onnx = {{.type = "Sign", .since = 9}}}),
      unary({.name = "floor", .body = fn(Fn::floor),    .traits = idempotent | zero_to_zero, .onnx = {{"Floor"}}}),
      unary({.name = "ceil",  .body = fn(Fn::ceil),     .traits = idempotent | zero_to_zero, .onnx = {{"Ceil"}}}),
      unary({.name = "round", .body = fn(Fn::round),    .traits = idempotent | zero_to_zero, .onnx = {{.type = "Round", .since = 11}}}),
      unary({.name = "trunc", .body = fn(Fn::trunc),    .traits = idempotent | zero_to_zero,
             .onnx = {{.type = "Floor", .raise = trunc_raise}}}),
      unary({.name = "sqrt",  .body = sqrt(x),          .traits = zero_to_zero, .onnx = {{"Sqrt"}}}),
      unary({.name = "reciprocal", .body = 1 / x,       .onnx = {{"Reciprocal"}}}),
      unary({.name = "exp",   .body = exp(x),           .onnx = {{"Exp"}}}),
      unary({.name = "log",   .body = log(x),           .onnx = {{"Log"}}}),
      unary({.name = "log1p", .body = log1p(x),         .traits = zero_to_zero, .onnx = {{.type = "Log", .raise = log1p_raise}}}),
      unary({.name = "sin",   .body = fn(Fn::sin),      .traits = zero_to_zero, .onnx = {{"Sin"}}}),
      unary({.name = "cos",   .body = fn(Fn::cos),      .onnx = {{"Cos"}}}),
      unary({.name = "tan",   .body = fn(Fn::tan),      .traits = zero_to_zero, .onnx = {{"Tan"}}}),
      unary({.name = "asin",  .body = fn(Fn::asin),     .traits = zero_to_zero, .onnx = {{"Asin"}}}),
      unary({.name = "acos",  .body = fn(Fn::acos),     .onnx = {{"Acos"}}}),
      unary({.name = "atan",  .body = fn(Fn::atan),     .traits = zero_to_zero, .onnx = {{"Atan"}}}),
      unary({.name = "sinh",  .body = fn(Fn::sinh),     .traits = zero_to_zero, .onnx = {{.type = "Sinh", .since = 9}}}),
      unary({.name = "cosh",  .body = fn(Fn::cosh),     .onnx = {{.type = "Cosh", .since = 9}}}),
      unary({.name = "tanh",  .body = tanh(x),          .traits = zero_to_zero, .onnx = {{"Tanh"}}}),
      unary({.name = "asinh", .body = fn(Fn::asinh),    .traits = zero_to_zero, .onnx = {{.type = "Asinh", .since = 9}}}),
      unary({.name = "acosh", .body = fn(Fn::acosh),    .onnx = {{.type = "Acosh", .since = 9}}}),
      unary({.name = "atanh", .body = fn(Fn::atanh),    .traits = zero_to_zero, .onnx = {{.type = "Atanh", .since = 9}}}),
      unary({.name = "erf",   .body = erf(x),           .traits = zero_to_zero, .onnx = {{.type = "Erf", .since = 9}}}),
      unary({.name = "relu",  .body = max(x, 0),        .traits = idempotent | zero_to_zero, .onnx = {{"Relu"}}}),
      unary({.name = "sigmoid",  .body = sigmoid(x),    .onnx = {{"Sigmoid"}}}),
      unary({.name = "softplus", .body = softplus(x),   .onnx = {{"Softplus"}}}),
      unary({.name = "softsign", .body = x / (1 + abs(x)), .traits = zero_to_zero, .onnx = {{"Softsign"}}}),
      unary({.name = "hard_swish", .body = x * max(0, min(1, x / 6 + 0.5)), .traits = zero_to_zero,
             .onnx = {{.type = "HardSwish", .since = 14}}}),
      unary({.name = "mish",  .body = x * tanh(softplus(x)), .traits = zero_to_zero, .onnx = {{.type = "Mish", .since = 18}}}),
      unary({.name = "swish", .body = x * sigmoid(attr("alpha") * x), .attrs = {{"alpha", 1.0}}, .traits = zero_to_zero,
             .onnx = {{.type = "Swish", .since = 24}}}),
      unary({.name = "leaky_relu", .body = select(x < 0, attr("alpha") * x, x), .attrs = {{"alpha", double{0.01f}}},
             .traits = zero_to_zero, .onnx = {{"LeakyRelu"}}}),
      unary({.name = "elu",  .body = select(x < 0, attr("alpha") * (exp(x) - 1), x), .attrs = {{"alpha", 1.0}},
             .traits = zero_to_zero, .onnx = {{"Elu"}}}),
      unary({.name = "celu", .body = max(x, 0) + min(0, attr("alpha") * (exp(x / attr("alpha")) - 1)),
             .attrs = {{"alpha", 1.0}}, .traits = zero_to_zero, .onnx = {{.type = "Celu", .since = 12}}}),
      unary({.name = "selu", .body = attr("gamma") * select(x <= 0, attr("alpha") * (exp(x) - 1), x),
             .attrs = {{"alpha", 1.67326319217681884765625}, {"gamma", 1.05070102214813232421875}},
             .traits = zero_to_zero, .onnx = {{"Selu"}}}),
      unary({.name = "hard_sigmoid", .body = max(0, min(1, attr("alpha") * x + attr("beta"))),
             .attrs = {{"alpha", double{0.2f}}, {"beta", 0.5}}, .onnx = {{"HardSigmoid"}}}),
      unary({.name = "thresholded_relu", .body = select(x > attr("alpha"), x, 0), .attrs = {{"alpha", 1.0}},
             .onnx = {{.type = "ThresholdedRelu", .since = 10}}}),
      unary({.name = "shrink",
             .body = select(x < -attr("lambd"), x + attr("bias"), select(x > attr("lambd"), x - attr("bias"), 0)),
             .attrs = {{"bias", 0.0}, {"lambd", 0.5}}, .onnx = {{.type = "Shrink", .since = 9}}}),
      unary({.name = "gelu", .body = 0.5 * x * (1 + erf(kSqrtHalf * x)), .traits = zero_to_zero,
             .onnx = {{.type = "Gelu", .since = 20,
                       .lower = [](OnnxCall& c) -> Result<std::vector<NodeId>> {
                         bool fast = c.text_attr("approximate", "none") == "tanh";
                         return std::vector{c.b.op(fast ? "gelu_tanh" : "gelu", {c.inputs.at(0)})};
                       },
                       .raise = [](OnnxWriter& w) { return w.emit("Gelu", w.args); },
                       .spell = gelu_spell}}}),
      unary({.name = "gelu_tanh", .body = 0.5 * x * (1 + tanh(kGeluTanh * (x + 0.044715 * x * x * x))),
             .traits = zero_to_zero,
             .onnx = {{.type = "Gelu", .since = 20,
                       .raise = [](OnnxWriter& w) { return w.emit("Gelu", w.args, {{"approximate", "tanh"}}); }}}}),
      unary({.name = "clip", .body = min(max(x, attr("min")), attr("max")), .attrs = {{"min", 0.0}, {"max", 6.0}},
             .traits = idempotent, .onnx = {{.type = "Clip", .lower = clip_lower, .raise = clip_raise}}}),
      unary({.name = "logical_not", .body = logical_not(x), .onnx = {{"Not"}}}),
      unary({.name = "bit_not", .body = fn(Fn::bit_not), .onnx = {{.type = "BitwiseNot", .since = 18}}}),
      unary({.name = "is_nan", .body = fn(Fn::is_nan), .result = ResultType::boolean, .onnx = {{.type = "IsNaN", .since = 9}}}),
      unary({.name = "is_inf",
             .body = call(Fn::logical_and, fn(Fn::is_inf),
                          select(x > 0, attr("detect_positive"), attr("detect_negative"))),
             .attrs = {{"detect_negative", int64_t{1}}, {"detect_positive", int64_t{1}}},
             .result = ResultType::boolean, .onnx = {{.type = "IsInf", .since = 10}}}),

      binary({.name = "add", .body = x + y, .traits = commutative | associative | multilinear, .onnx = {pair("Add", "add"), chain("Sum", "add")}}),
      binary({.name = "sub", .body = x - y, .onnx = {pair("Sub", "sub")}}),
      binary({.name = "mul", .body = x * y, .traits = commutative | associative | multilinear, .onnx = {pair("Mul", "mul")}}),
      binary({.name = "div", .body = x / y, .onnx = {pair("Div", "div"), {.type = "Mean", .lower = mean_lower, .lower_only = true}}}),
      binary({.name = "pow", .body = pow(x, y), .result = ResultType::first, .onnx = {pair("Pow", "pow")}}),
      binary({.name = "mod", .body = fn2(Fn::mod),
              .onnx = {{.type = "Mod", .since = 10,
                        .lower = [](OnnxCall& c) -> Result<std::vector<NodeId>> {
                          return std::vector{c.b.op(c.int_attr("fmod", 0) ? "fmod" : "mod", {c.inputs.at(0), c.inputs.at(1)})};
                        },
                        .raise = [](OnnxWriter& w) {
                          // ONNX allows mod without fmod on integers only: the sign is put right here.
                          if (is_integer(w.type.dtype)) return w.emit("Mod", w.args);
                          NodeId r = w.emit("Mod", w.args, {{"fmod", 1}})[0];
                          NodeId shifted = w.emit("Add", {r, w.args[1]})[0];
                          return w.emit("Mod", {shifted, w.args[1]}, {{"fmod", 1}});
                        }}}}),
      binary({.name = "fmod", .body = fn2(Fn::fmod),
              .onnx = {{.type = "Mod", .since = 10,
                        .raise = [](OnnxWriter& w) { return w.emit("Mod", w.args, {{"fmod", 1}}); }}}}),
      binary({.name = "max", .body = max(x, y), .traits = commutative | associative | idempotent, .onnx = {chain("Max", "max")}}),
      binary({.name = "min", .body = min(x, y), .traits = commutative | associative | idempotent, .onnx = {chain("Min", "min")}}),
      binary({.name = "equal", .body = fn2(Fn::eq), .traits = commutative, .result = ResultType::boolean, .onnx = {pair("Equal", "equal")},
              .on_strings = equal_strings}),
      binary({.name = "less", .body = x < y, .result = ResultType::boolean, .onnx = {pair("Less", "less")}}),
      binary({.name = "less_equal", .body = x <= y, .result = ResultType::boolean, .onnx = {{.type = "LessOrEqual", .since = 12}}}),
      binary({.name = "greater", .body = x > y, .result = ResultType::boolean, .onnx = {pair("Greater", "greater")}}),
      binary({.name = "greater_equal", .body = x >= y, .result = ResultType::boolean, .onnx = {{.type = "GreaterOrEqual", .since = 12}}}),
      binary({.name = "logical_and", .body = fn2(Fn::logical_and), .traits = commutative | associative | idempotent, .onnx = {pair("And", "logical_and")}}),
      binary({.name = "logical_or",  .body = fn2(Fn::logical_or),  .traits = commutative | associative | idempotent, .onnx = {pair("Or", "logical_or")}}),
      binary({.name = "logical_xor", .body = fn2(Fn::logical_xor), .traits = commutative | associative, .onnx = {pair("Xor", "logical_xor")}}),
      binary({.name = "bit_and", .body = fn2(Fn::bit_and), .traits = commutative | associative | idempotent, .onnx = {{.type = "BitwiseAnd", .since = 18}}}),
      binary({.name = "bit_or",  .body = fn2(Fn::bit_or),  .traits = commutative | associative | idempotent, .onnx = {{.type = "BitwiseOr", .since = 18}}}),
      binary({.name = "bit_xor", .body = fn2(Fn::bit_xor), .traits = commutative | associative, .onnx = {{.type = "BitwiseXor", .since = 18}}}),
      binary({.name = "shift_left", .body = fn2(Fn::shift_left), .onnx = {shift_row("LEFT")}}),
      binary({.name = "shift_right", .body = fn2(Fn::shift_right), .onnx = {shift_row("RIGHT")}}),
      binary({.name = "prelu", .body = select(x < 0, y * x, x), .onnx = {pair("PRelu", "prelu")}}),

      ternary({.name = "where", .body = select(x, y, z), .result = ResultType::condition, .onnx = {{.type = "Where", .since = 9}},
               .on_strings = choose_strings}),
  };
  // clang-format on
}

}  // namespace emend
