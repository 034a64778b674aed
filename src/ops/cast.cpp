// Conversions between element types. Numbers are converted by what it means to store them
// (ir/dtype.h): to nearest, ties to even, into floats; towards zero into integers, which wrap; what
// is not zero is true. ONNX's one Cast is three operators here, because texts and powers of two
// have no scalar body.
#include <charconv>
#include <cmath>
#include <cstring>

#include "ops/evaluate.h"
#include "ops/families.h"
#include "ops/table.h"

namespace emend {
namespace {

using Lowered1 = Result<std::vector<NodeId>>;

struct Cast {
  DType to = DType::f32;
  bool saturate = true;  // into 8-bit floats: the largest value instead of infinity or NaN
  EMEND_FIELDS(to, saturate)
};
struct CastE8m0 {
  bool saturate = true;
  std::string round_mode = "up";
  EMEND_FIELDS(saturate, round_mode)
};
struct To {
  DType to = DType::f32;
  EMEND_FIELDS(to)
};

bool is_number(const Type& t) {
  return t.is_tensor() && t.dtype != DType::string && !is_complex(t.dtype);
}

Result<Type> cast_infer(const Cast& a, Types in) {
  bool fits = a.to != DType::string && a.to != DType::f8e8m0 &&
              (is_number(in[0]) ? !is_complex(a.to) : is_complex(in[0].dtype) && is_complex(a.to));
  if (!fits) return fail("cast: ", to_text(in[0]), " is not converted to ", to_text(a.to));
  return Type::tensor(a.to, in[0].shape);
}

bool is_float8(DType t) {
  return is_float(t) && info(t).bits == 8;
}

// The rounding itself is in the storing. trunc has no value in a field, as it must be.
Meaning cast_means(const Cast& a, Types in) {
  Meaning m;
  m.out = in[0].shape;
  m.reads = {broadcast_read(0, in[0].shape, in[0].shape.size())};
  if (is_float(in[0].dtype) && is_integer(a.to)) m.body = call(Fn::trunc, arg(0));
  if (is_float8(a.to) && a.saturate) m.body = max(min(arg(0), highest(a.to)), lowest(a.to));
  return m;
}

// --- f8e8m0: powers of two ---

int e8m0_code(double x, const CastE8m0& a) {
  constexpr int kBias = 127, kTop = 254, kNan = 255;
  if (std::isnan(x)) return kNan;
  if (std::isinf(x)) return a.saturate ? kTop : kNan;
  if (x == 0) return a.saturate ? 0 : kNan;
  int exponent;
  double mantissa = std::frexp(std::abs(x), &exponent);  // in [0.5, 1)
  bool up = a.round_mode == "up"        ? mantissa > 0.5
            : a.round_mode == "nearest" ? mantissa >= 0.75
                                        : false;
  int code = exponent - 1 + kBias + (up ? 1 : 0);
  if (code > kTop) return a.saturate ? kTop : kNan;
  if (code < 0) return a.saturate ? 0 : kNan;
  return code;
}

Value cast_e8m0_eval(const EvalContext& c, const CastE8m0& a, std::span<const Value> v) {
  const Tensor& x = v[0].tensor;
  DType stored = c.result_dtype();
  return Tensor::make(stored, x.shape(), [&](std::byte* out) {
    for (int64_t i = 0; i < x.count(); ++i) {
      auto at = static_cast<size_t>(i);
      if (stored == DType::f8e8m0)
        out[i] = static_cast<std::byte>(e8m0_code(x.real(i), a));
      else
        store_real(stored, out, at, x.real(i));
    }
  });
}

// --- texts ---

std::string text_of(const Tensor& x, int64_t i) {
  if (x.dtype() == DType::u64) return std::to_string(static_cast<uint64_t>(x.integer(i)));
  if (!is_float(x.dtype())) return std::to_string(x.integer(i));
  double v = x.real(i);
  if (std::isnan(v)) return "NaN";
  if (std::isinf(v)) return v > 0 ? "INF" : "-INF";
  return x.dtype() == DType::f64 ? number_text(v) : number_text(static_cast<float>(v));
}

// A number in plain or scientific notation; infinities and NaN in any case of letters.
void parse_into(std::string_view text, DType to, std::byte* out, size_t at) {
  std::string_view s = text;
  while (!s.empty() && std::isspace(static_cast<unsigned char>(s.front()))) s.remove_prefix(1);
  while (!s.empty() && std::isspace(static_cast<unsigned char>(s.back()))) s.remove_suffix(1);
  if (!s.empty() && s.front() == '+') s.remove_prefix(1);
  const char* end = s.data() + s.size();
  auto all = [&](std::from_chars_result r) { return r.ec == std::errc() && r.ptr == end; };
  if (is_integer(to)) {
    int64_t i = 0;
    if (all(std::from_chars(s.data(), end, i))) return store_int(to, out, at, i);
    uint64_t u = 0;
    if (all(std::from_chars(s.data(), end, u)))
      return store_int(to, out, at, static_cast<int64_t>(u));
  }
  double v = 0;
  if (!all(std::from_chars(s.data(), end, v)))
    throw Error(str("the text ", quoted(text), " is not a number"));
  if (to == DType::f32) {  // not through double, which would round twice
    float f = 0;
    std::from_chars(s.data(), end, f);
    v = static_cast<double>(f);
  }
  store_real(to, out, at, v, is_float8(to));
}

Result<Type> cast_text_infer(const To& a, Types in) {
  bool from = in[0].is_tensor() && in[0].dtype == DType::string, to = a.to == DType::string;
  if (!in[0].is_tensor() || !(from || to) || is_complex(a.to) || is_complex(in[0].dtype))
    return fail("cast_text: ", to_text(in[0]), " to ", to_text(a.to), " involves no text");
  return Type::tensor(a.to, in[0].shape);
}

Value cast_text_eval(const EvalContext& c, const To& a, std::span<const Value> v) {
  const Tensor& x = v[0].tensor;
  if (a.to == DType::string) {
    if (x.dtype() == DType::string) return x;
    // Digits are those of the declared type, however the number is stored.
    DType declared = c.types[0].dtype;
    std::vector<std::string> texts;
    for (int64_t i = 0; i < x.count(); ++i) {
      texts.push_back(declared == x.dtype() ? text_of(x, i)
                                            : text_of(Tensor::of_real(x.real(i), declared), 0));
    }
    return Tensor::of_strings(x.shape(), std::move(texts));
  }
  Tensor parsed = Tensor::make(a.to, x.shape(), [&](std::byte* out) {
    for (size_t i = 0; i < x.strings().size(); ++i) parse_into(x.strings()[i], a.to, out, i);
  });
  return converted(parsed, c.arithmetic);
}

// --- bits ---

Result<Type> bit_cast_infer(const To& a, Types in) {
  if (!in[0].is_tensor() || info(in[0].dtype).bits != info(a.to).bits || a.to == DType::string)
    return fail("bit_cast: ", to_text(in[0]), " and ", to_text(a.to), " differ in width");
  return Type::tensor(a.to, in[0].shape);
}

Value bit_cast_eval(const EvalContext& c, const To& a, std::span<const Value> v) {
  Tensor x = v[0].tensor;
  if (DType declared = c.types[0].dtype; declared != x.dtype())  // in double precision
    x = Tensor::of_reals(declared, x.shape(), x.reals());
  Tensor bits =
      Tensor::make(a.to, x.shape(), [&](std::byte* out) { std::ranges::copy(x.bytes(), out); });
  return converted(bits, c.arithmetic);
}

// --- ONNX ---

DType target_type(const OnnxCall& c) {
  auto to = dtype_from_onnx(static_cast<int>(c.int_attr("to", 0)));
  if (!to) throw Error(str(c.node.type, ": there is no element type ", c.int_attr("to", 0)));
  return *to;
}

Lowered1 cast_to(OnnxCall& c, DType to) {
  NodeId x = c.inputs.at(0);
  DType from = c.type(0).dtype;
  bool saturate = c.int_attr("saturate", 1) != 0;
  if (to == DType::string || from == DType::string)
    return std::vector{c.b.op("cast_text", {x}, To{to})};
  if (to == DType::f8e8m0 && from != to) {
    std::string mode = c.text_attr("round_mode", "up");
    if (mode != "up" && mode != "down" && mode != "nearest")
      throw Error(str(c.node.type, ": there is no round_mode ", mode));
    return std::vector{c.b.op("cast_e8m0", {x}, CastE8m0{saturate, mode})};
  }
  if (from == to) return std::vector{x};
  return std::vector{c.b.op("cast", {x}, Cast{to, saturate || !is_float8(to)})};
}

std::vector<NodeId> cast_raise(OnnxWriter& w) {
  auto a = w.attrs.as<Cast>();
  std::vector<Attrs::Entry> attributes = {{"to", int64_t{info(a.to).onnx}}};
  if (!a.saturate && w.opset >= 19) attributes.emplace_back("saturate", 0);
  return w.emit("Cast", w.args, attributes);
}

OpDef cast_op() {
  OpDef d =
      define<Cast>({.name = "cast",
                    .kind = Kind::elementwise,
                    .infer = cast_infer,
                    .means = cast_means,
                    .onnx = {{.type = "Cast",
                              .lower = [](OnnxCall& c) { return cast_to(c, target_type(c)); },
                              .raise = cast_raise},
                             {.type = "CastLike",
                              .since = 15,
                              .lower = [](OnnxCall& c) { return cast_to(c, c.type(1).dtype); },
                              .lower_only = true}},
                    .doc = "the same numbers as another element type"});
  d.body = arg(0);
  d.result = ResultType::attribute;
  return d;
}

}  // namespace

std::vector<OpDef> cast_ops() {
  return {
      cast_op(),
      define<CastE8m0>({.name = "cast_e8m0",
                        .kind = Kind::host,
                        .infer = [](const CastE8m0&, Types in) -> Result<Type> {
                          if (!is_number(in[0])) return fail("cast_e8m0 of ", to_text(in[0]));
                          return Type::tensor(DType::f8e8m0, in[0].shape);
                        },
                        .eval = cast_e8m0_eval,
                        .onnx = {{.type = "Cast",
                                  .since = 24,
                                  .raise =
                                      [](OnnxWriter& w) {
                                        auto a = w.attrs.as<CastE8m0>();
                                        return w.emit("Cast", w.args,
                                                      {{"to", int64_t{info(DType::f8e8m0).onnx}},
                                                       {"saturate", int64_t{a.saturate}},
                                                       {"round_mode", a.round_mode}});
                                      }}},
                        .doc = "the power of two beside a number: up, down or nearest"}),
      define<To>({.name = "cast_text",
                  .kind = Kind::host,
                  .infer = cast_text_infer,
                  .eval = cast_text_eval,
                  .onnx = {{.type = "Cast", .since = 9}},
                  .doc = "numbers written as texts, or read from them"}),
      define<To>(
          {.name = "bit_cast",
           .kind = Kind::host,
           .infer = bit_cast_infer,
           .eval = bit_cast_eval,
           .onnx = {{.type = "BitCast",
                     .since = 26,
                     .lower = [](OnnxCall& c) -> Lowered1 {
                       return std::vector{c.b.op("bit_cast", {c.inputs[0]}, To{target_type(c)})};
                     },
                     .raise =
                         [](OnnxWriter& w) {
                           DType to = w.attrs.as<To>().to;
                           return w.emit("BitCast", w.args, {{"to", int64_t{info(to).onnx}}});
                         }}},
           .doc = "the same bits read as another element type of equal width"}),
  };
}

}  // namespace emend
