// Elementwise operators: one line each. Defaults that ONNX states as floats are floats. From the body follow the reference value in every
// arithmetic, the text in C and CUDA, the derivative, the documentation row and the tests.
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

// ONNX operators with any number of operands are chains of the binary one.
OnnxRow chain(const std::string& type, const std::string& op) {
  return {.type = type, .lower = [op](OnnxCall& c) -> Result<std::vector<NodeId>> {
            NodeId sum = c.inputs.at(0);
            for (size_t i = 1; i < c.inputs.size(); ++i) sum = c.b.op(op, {sum, c.inputs[i]});
            return std::vector{sum};
          }};
}

}  // namespace

std::vector<OpDef> elementwise_ops() {
  const double kSqrtHalf = 0.70710678118654752440, kGeluTanh = 0.79788456080286535588;
  // clang-format off
  return {
      unary({.name = "neg",   .body = -x,               .onnx = {{"Neg"}}}),
      unary({.name = "abs",   .body = fn(Fn::abs),      .traits = idempotent | zero_to_zero, .onnx = {{"Abs"}}}),
      unary({.name = "sign",  .body = fn(Fn::sign),     .traits = idempotent | zero_to_zero, .onnx = {{"Sign"}}}),
      unary({.name = "floor", .body = fn(Fn::floor),    .traits = idempotent | zero_to_zero, .onnx = {{"Floor"}}}),
      unary({.name = "ceil",  .body = fn(Fn::ceil),     .traits = idempotent | zero_to_zero, .onnx = {{"Ceil"}}}),
      unary({.name = "round", .body = fn(Fn::round),    .traits = idempotent | zero_to_zero, .onnx = {{"Round"}}}),
      unary({.name = "trunc", .body = fn(Fn::trunc),    .traits = idempotent | zero_to_zero}),
      unary({.name = "sqrt",  .body = sqrt(x),          .traits = zero_to_zero, .onnx = {{"Sqrt"}}}),
      unary({.name = "reciprocal", .body = 1 / x,       .onnx = {{"Reciprocal"}}}),
      unary({.name = "exp",   .body = exp(x),           .onnx = {{"Exp"}}}),
      unary({.name = "log",   .body = log(x),           .onnx = {{"Log"}}}),
      unary({.name = "sin",   .body = fn(Fn::sin),      .traits = zero_to_zero, .onnx = {{"Sin"}}}),
      unary({.name = "cos",   .body = fn(Fn::cos),      .onnx = {{"Cos"}}}),
      unary({.name = "tan",   .body = fn(Fn::tan),      .traits = zero_to_zero, .onnx = {{"Tan"}}}),
      unary({.name = "asin",  .body = fn(Fn::asin),     .traits = zero_to_zero, .onnx = {{"Asin"}}}),
      unary({.name = "acos",  .body = fn(Fn::acos),     .onnx = {{"Acos"}}}),
      unary({.name = "atan",  .body = fn(Fn::atan),     .traits = zero_to_zero, .onnx = {{"Atan"}}}),
      unary({.name = "sinh",  .body = fn(Fn::sinh),     .traits = zero_to_zero, .onnx = {{"Sinh"}}}),
      unary({.name = "cosh",  .body = fn(Fn::cosh),     .onnx = {{"Cosh"}}}),
      unary({.name = "tanh",  .body = tanh(x),          .traits = zero_to_zero, .onnx = {{"Tanh"}}}),
      unary({.name = "asinh", .body = fn(Fn::asinh),    .traits = zero_to_zero, .onnx = {{"Asinh"}}}),
      unary({.name = "acosh", .body = fn(Fn::acosh),    .onnx = {{"Acosh"}}}),
      unary({.name = "atanh", .body = fn(Fn::atanh),    .traits = zero_to_zero, .onnx = {{"Atanh"}}}),
      unary({.name = "erf",   .body = erf(x),           .traits = zero_to_zero, .onnx = {{"Erf"}}}),
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
                         return std::vector{c.b.op(fast ? "gelu_tanh" : "gelu", {c.inputs[0]})};
                       }}}}),
      unary({.name = "gelu_tanh", .body = 0.5 * x * (1 + tanh(kGeluTanh * (x + 0.044715 * x * x * x))),
             .traits = zero_to_zero,
             .onnx = {{.type = "Gelu", .since = 20,
                       .raise = [](OnnxWriter& w) { return w.emit("Gelu", w.args, {{"approximate", "tanh"}}); }}}}),
      unary({.name = "logical_not", .body = logical_not(x), .onnx = {{"Not"}}}),
      unary({.name = "bit_not", .body = fn(Fn::bit_not), .onnx = {{.type = "BitwiseNot", .since = 18}}}),
      unary({.name = "is_nan", .body = fn(Fn::is_nan), .result = ResultType::boolean, .onnx = {{.type = "IsNaN", .since = 9}}}),
      unary({.name = "is_inf",
             .body = call(Fn::logical_and, fn(Fn::is_inf),
                          select(x > 0, attr("detect_positive"), attr("detect_negative"))),
             .attrs = {{"detect_negative", int64_t{1}}, {"detect_positive", int64_t{1}}},
             .result = ResultType::boolean, .onnx = {{.type = "IsInf", .since = 10}}}),

      binary({.name = "add", .body = x + y, .traits = commutative | associative | multilinear, .onnx = {{"Add"}, chain("Sum", "add")}}),
      binary({.name = "sub", .body = x - y, .onnx = {{"Sub"}}}),
      binary({.name = "mul", .body = x * y, .traits = commutative | associative | multilinear, .onnx = {{"Mul"}}}),
      binary({.name = "div", .body = x / y, .onnx = {{"Div"}}}),
      binary({.name = "pow", .body = pow(x, y), .result = ResultType::first, .onnx = {{"Pow"}}}),
      binary({.name = "mod", .body = fn2(Fn::mod),
              .onnx = {{.type = "Mod", .since = 10,
                        .lower = [](OnnxCall& c) -> Result<std::vector<NodeId>> {
                          return std::vector{c.b.op(c.int_attr("fmod", 0) ? "fmod" : "mod", {c.inputs[0], c.inputs[1]})};
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
      binary({.name = "equal", .body = fn2(Fn::eq), .traits = commutative, .result = ResultType::boolean, .onnx = {{"Equal"}}}),
      binary({.name = "less", .body = x < y, .result = ResultType::boolean, .onnx = {{"Less"}}}),
      binary({.name = "less_equal", .body = x <= y, .result = ResultType::boolean, .onnx = {{.type = "LessOrEqual", .since = 12}}}),
      binary({.name = "greater", .body = x > y, .result = ResultType::boolean, .onnx = {{"Greater"}}}),
      binary({.name = "greater_equal", .body = x >= y, .result = ResultType::boolean, .onnx = {{.type = "GreaterOrEqual", .since = 12}}}),
      binary({.name = "logical_and", .body = fn2(Fn::logical_and), .traits = commutative | associative | idempotent, .onnx = {{"And"}}}),
      binary({.name = "logical_or",  .body = fn2(Fn::logical_or),  .traits = commutative | associative | idempotent, .onnx = {{"Or"}}}),
      binary({.name = "logical_xor", .body = fn2(Fn::logical_xor), .traits = commutative | associative, .onnx = {{"Xor"}}}),
      binary({.name = "bit_and", .body = fn2(Fn::bit_and), .traits = commutative | associative | idempotent, .onnx = {{.type = "BitwiseAnd", .since = 18}}}),
      binary({.name = "bit_or",  .body = fn2(Fn::bit_or),  .traits = commutative | associative | idempotent, .onnx = {{.type = "BitwiseOr", .since = 18}}}),
      binary({.name = "bit_xor", .body = fn2(Fn::bit_xor), .traits = commutative | associative, .onnx = {{.type = "BitwiseXor", .since = 18}}}),
      binary({.name = "prelu", .body = select(x < 0, y * x, x), .onnx = {{"PRelu"}}}),

      ternary({.name = "where", .body = select(x, y, z), .result = ResultType::condition, .onnx = {{.type = "Where", .since = 9}}}),
  };
  // clang-format on
}

}  // namespace emend
