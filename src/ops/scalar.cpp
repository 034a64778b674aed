#include "ops/scalar.h"

#include <array>
#include <cmath>
#include <map>
#include <tuple>

#include "ops/scalar_eval.h"

namespace emend {
namespace {

// clang-format off
constexpr std::array<FnInfo, kFnCount> kFns = {{
    {"constant", 0, ""}, {"arg", 0, ""}, {"iter", 0, ""}, {"attr", 0, ""},
    {"neg", 1, "-$0"}, {"abs", 1, "~fabs($0)"}, {"sign", 1, "($0 != $0 ? $0 : (T)(($0 > 0) - ($0 < 0)))"},
    {"floor", 1, "~floor($0)"}, {"ceil", 1, "~ceil($0)"}, {"round", 1, "~rint($0)"},
    {"trunc", 1, "~trunc($0)"}, {"sqrt", 1, "~sqrt($0)"}, {"exp", 1, "~exp($0)"},
    {"log", 1, "~log($0)"}, {"log1p", 1, "~log1p($0)"}, {"sin", 1, "~sin($0)"},
    {"cos", 1, "~cos($0)"}, {"tan", 1, "~tan($0)"}, {"asin", 1, "~asin($0)"},
    {"acos", 1, "~acos($0)"}, {"atan", 1, "~atan($0)"}, {"sinh", 1, "~sinh($0)"},
    {"cosh", 1, "~cosh($0)"}, {"tanh", 1, "~tanh($0)"}, {"asinh", 1, "~asinh($0)"},
    {"acosh", 1, "~acosh($0)"}, {"atanh", 1, "~atanh($0)"}, {"erf", 1, "~erf($0)"},
    {"is_nan", 1, "(T)($0 != $0)", "0"}, {"is_inf", 1, "(T)(~fabs($0) == (T)INFINITY)", "0"},
    {"logical_not", 1, "(T)($0 == 0)"}, {"bit_not", 1, "~(long long)$0"},
    {"add", 2, "$0 + $1"}, {"sub", 2, "$0 - $1"}, {"mul", 2, "$0 * $1"}, {"div", 2, "$0 / $1", "~div($0, $1)"},
    {"mod", 2, "~fmod($0, $1) + (~fmod($0, $1) != 0 && ($0 < 0) != ($1 < 0) ? $1 : 0)"},
    {"fmod", 2, "~fmod($0, $1)"}, {"pow", 2, "~pow($0, $1)"},
    {"min", 2, "($0 < $1 || $0 != $0 ? $0 : $1)"}, {"max", 2, "($0 > $1 || $0 != $0 ? $0 : $1)"},
    {"lt", 2, "(T)($0 < $1)"}, {"le", 2, "(T)($0 <= $1)"}, {"eq", 2, "(T)($0 == $1)"},
    {"and", 2, "(T)($0 != 0 && $1 != 0)"}, {"or", 2, "(T)($0 != 0 || $1 != 0)"},
    {"xor", 2, "(T)(($0 != 0) != ($1 != 0))"},
    {"bit_and", 2, "((long long)$0 & (long long)$1)"}, {"bit_or", 2, "((long long)$0 | (long long)$1)"},
    {"bit_xor", 2, "((long long)$0 ^ (long long)$1)"},
    {"shift_left", 2, "((long long)$0 << (long long)$1)", "~shl($0, $1)"},
    {"shift_right", 2, "((long long)$0 >> (long long)$1)", "~shr($0, $1)"},
    {"select", 3, "($0 != 0 ? $1 : $2)"},
}};
// clang-format on

// Arithmetic on constants during simplification; only what is the same in every arithmetic.
std::optional<double> folded(Fn fn, double a, double b) {
  switch (fn) {
    case Fn::neg:
      return -a;
    case Fn::add:
      return a + b;
    case Fn::sub:
      return a - b;
    case Fn::mul:
      return a * b;
    default:
      return std::nullopt;
  }
}

// Appends instructions to a program, sharing equal ones and dropping what arithmetic makes idle.
class Writer {
 public:
  int32_t constant(double v) { return emit({.fn = Fn::constant, .value = v}); }
  int32_t emit(Instr i) {
    if (auto simpler = simplify(i)) return *simpler;
    auto key = std::make_tuple(i.fn, i.a, i.b, i.c, std::signbit(i.value), i.value);
    if (auto it = seen_.find(key); it != seen_.end() && !std::isnan(i.value)) return it->second;
    code.push_back(i);
    return seen_[key] = static_cast<int32_t>(code.size() - 1);
  }
  int32_t emit(Fn fn, int32_t a, int32_t b = -1, int32_t c = -1) {
    return emit({.fn = fn, .a = a, .b = b, .c = c});
  }
  bool is(int32_t i, double v) const {
    const Instr& in = code[static_cast<size_t>(i)];
    return in.fn == Fn::constant && in.value == v;
  }
  std::vector<Instr> code;

 private:
  std::optional<int32_t> simplify(const Instr& i) {
    auto value = [&](int32_t at) -> std::optional<double> {
      if (at < 0 || info(i.fn).arity == 0) return std::nullopt;
      const Instr& in = code[static_cast<size_t>(at)];
      return in.fn == Fn::constant ? std::optional(in.value) : std::nullopt;
    };
    auto va = value(i.a), vb = value(i.b);
    if (info(i.fn).arity >= 1 && va && (info(i.fn).arity == 1 || vb)) {
      if (auto v = folded(i.fn, *va, vb.value_or(0))) return constant(*v);
    }
    switch (i.fn) {
      case Fn::add:
        if (va == 0.0) return i.b;
        if (vb == 0.0) return i.a;
        break;
      case Fn::sub:
        if (vb == 0.0) return i.a;
        if (va == 0.0) return emit(Fn::neg, i.b);
        break;
      case Fn::mul:
        if (va == 1.0) return i.b;
        if (vb == 1.0) return i.a;
        break;
      case Fn::div:
        if (vb == 1.0) return i.a;
        break;
      case Fn::select:
        if (i.b == i.c) return i.b;
        break;
      default:
        break;
    }
    return std::nullopt;
  }
  std::map<std::tuple<Fn, int32_t, int32_t, int32_t, bool, double>, int32_t> seen_;
};

// Only what the result needs, in order.
std::vector<Instr> live(const std::vector<Instr>& code, int32_t result) {
  std::vector<int32_t> renamed(code.size(), -1);
  std::vector<bool> needed(code.size(), false);
  needed[static_cast<size_t>(result)] = true;
  for (size_t i = static_cast<size_t>(result) + 1; i-- > 0;) {
    if (!needed[i] || info(code[i].fn).arity == 0) continue;
    for (int32_t operand : {code[i].a, code[i].b, code[i].c}) {
      if (operand >= 0) needed[static_cast<size_t>(operand)] = true;
    }
  }
  std::vector<Instr> kept;
  for (size_t i = 0; i <= static_cast<size_t>(result); ++i) {
    if (!needed[i]) continue;
    Instr in = code[i];
    if (info(in.fn).arity > 0) {
      for (int32_t* operand : {&in.a, &in.b, &in.c}) {
        if (*operand >= 0) *operand = renamed[static_cast<size_t>(*operand)];
      }
    }
    renamed[i] = static_cast<int32_t>(kept.size());
    kept.push_back(in);
  }
  return kept;
}

// Copies a program through a Writer; returns where each instruction went.
std::vector<int32_t> copy_into(Writer& w, const std::vector<Instr>& code) {
  std::vector<int32_t> at;
  for (Instr in : code) {
    if (info(in.fn).arity > 0) {
      for (int32_t* operand : {&in.a, &in.b, &in.c}) {
        if (*operand >= 0) *operand = at[static_cast<size_t>(*operand)];
      }
    }
    at.push_back(w.emit(in));
  }
  return at;
}

// The partial derivatives of one instruction times the tangents of its operands, summed. `self` is
// where the instruction's own value stands; da, db, dc are tangents (a constant 0 where none).
int32_t tangent(Writer& w, const Instr& in, int32_t self, int32_t da, int32_t db, int32_t dc) {
  int32_t a = in.a, b = in.b;
  auto zero = [&] { return w.constant(0); };
  auto mul = [&](int32_t x, int32_t y) {
    return w.is(x, 0) || w.is(y, 0) ? w.constant(0) : w.emit(Fn::mul, x, y);
  };
  auto over = [&](int32_t x, int32_t y) { return w.is(x, 0) ? x : w.emit(Fn::div, x, y); };
  auto sum = [&](int32_t x, int32_t y) { return w.emit(Fn::add, x, y); };
  auto square = [&](int32_t x) { return w.emit(Fn::mul, x, x); };
  auto one_plus = [&](int32_t x) { return sum(w.constant(1), x); };
  auto one_minus = [&](int32_t x) { return w.emit(Fn::sub, w.constant(1), x); };
  auto neg = [&](int32_t x) { return w.emit(Fn::neg, x); };
  auto fn = [&](Fn f, int32_t x) { return w.emit(f, x); };
  switch (in.fn) {
    case Fn::neg:
      return neg(da);
    case Fn::abs:
      return mul(da, fn(Fn::sign, a));
    case Fn::sqrt:
      return over(da, mul(w.constant(2), self));
    case Fn::exp:
      return mul(da, self);
    case Fn::log:
      return over(da, a);
    case Fn::log1p:
      return over(da, one_plus(a));
    case Fn::sin:
      return mul(da, fn(Fn::cos, a));
    case Fn::cos:
      return neg(mul(da, fn(Fn::sin, a)));
    case Fn::tan:
      return mul(da, one_plus(square(self)));
    case Fn::asin:
      return over(da, fn(Fn::sqrt, one_minus(square(a))));
    case Fn::acos:
      return neg(over(da, fn(Fn::sqrt, one_minus(square(a)))));
    case Fn::atan:
      return over(da, one_plus(square(a)));
    case Fn::sinh:
      return mul(da, fn(Fn::cosh, a));
    case Fn::cosh:
      return mul(da, fn(Fn::sinh, a));
    case Fn::tanh:
      return mul(da, one_minus(square(self)));
    case Fn::asinh:
      return over(da, fn(Fn::sqrt, one_plus(square(a))));
    case Fn::acosh:
      return over(da, fn(Fn::sqrt, w.emit(Fn::sub, square(a), w.constant(1))));
    case Fn::atanh:
      return over(da, one_minus(square(a)));
    case Fn::erf:  // 2/sqrt(pi) exp(-a^2)
      return mul(da, mul(w.constant(1.1283791670955126), fn(Fn::exp, neg(square(a)))));
    case Fn::add:
      return sum(da, db);
    case Fn::sub:
      return w.emit(Fn::sub, da, db);
    case Fn::mul:
      return sum(mul(da, b), mul(a, db));
    case Fn::div:
      return over(w.emit(Fn::sub, da, mul(self, db)), b);
    case Fn::mod:
      return w.emit(Fn::sub, da, mul(db, fn(Fn::floor, over(a, b))));
    case Fn::fmod:
      return w.emit(Fn::sub, da, mul(db, fn(Fn::trunc, over(a, b))));
    case Fn::pow: {
      int32_t by_base =
          w.is(da, 0) ? zero()
                      : mul(da, mul(b, w.emit(Fn::pow, a, w.emit(Fn::sub, b, w.constant(1)))));
      int32_t by_exponent = w.is(db, 0) ? zero() : mul(db, mul(self, fn(Fn::log, a)));
      return sum(by_base, by_exponent);
    }
    case Fn::min:
      return w.emit(Fn::select, w.emit(Fn::lt, a, b), da, db);
    case Fn::max:
      return w.emit(Fn::select, w.emit(Fn::lt, b, a), da, db);
    case Fn::select:
      return w.emit(Fn::select, a, db, dc);
    default:
      return zero();  // piecewise constant
  }
}

std::string constant_text(double v, const std::string& type) {
  if (type == "int64_t") {
    auto whole = number<int64_t>(v);
    return whole == INT64_MIN ? "INT64_MIN" : str("((int64_t)", whole, ")");
  }
  if (type == "uint64_t") return str(number<uint64_t>(v), "u");
  if (type == "int32_t") return str("((int32_t)", number<int64_t>(v), ")");
  if (std::isinf(v)) return v > 0 ? "INFINITY" : "(-INFINITY)";
  if (std::isnan(v)) return "NAN";
  std::string text = number_text(v);
  if (type == "float") text += "f";
  return v < 0 ? "(" + text + ")" : text;
}

void replace_all(std::string& text, const std::string& what, const std::string& by) {
  for (size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += by.size()) {
    text.replace(at, what.size(), by);
  }
}

// "~exp($0)" with suffix "f" -> "expf($0)".
std::string with_suffix(std::string text, const std::string& suffix) {
  for (size_t at; (at = text.find('~')) != std::string::npos;) {
    if (!std::isalpha(static_cast<unsigned char>(text[at + 1]))) break;
    size_t end = text.find('(', at);
    text.insert(end, suffix);
    text.erase(at, 1);
  }
  return text;
}

}  // namespace

const FnInfo& info(Fn fn) {
  return kFns[static_cast<size_t>(fn)];
}

Scalar::Scalar(double value) : code{{.fn = Fn::constant, .value = value}} {}

Scalar arg(int index) {
  Scalar s;
  s.code = {{.fn = Fn::arg, .a = index}};
  return s;
}

Scalar iter(int index) {
  Scalar s;
  s.code = {{.fn = Fn::iter, .a = index}};
  return s;
}

Scalar attr(const std::string& name) {
  Scalar s;
  s.code = {{.fn = Fn::attr, .a = 0}};
  s.attrs = {name};
  return s;
}

namespace {

// Appends `s` to `out`, returns where its result stands.
int32_t append(Scalar& out, const Scalar& s) {
  EMEND_ASSERT(!s.empty());
  auto base = static_cast<int32_t>(out.code.size());
  auto names = static_cast<int32_t>(out.attrs.size());
  for (Instr in : s.code) {
    if (in.fn == Fn::attr) in.a += names;
    if (info(in.fn).arity > 0) {
      for (int32_t* operand : {&in.a, &in.b, &in.c}) {
        if (*operand >= 0) *operand += base;
      }
    }
    out.code.push_back(in);
  }
  out.attrs.insert(out.attrs.end(), s.attrs.begin(), s.attrs.end());
  return static_cast<int32_t>(out.code.size() - 1);
}

Scalar combine(Fn fn, std::initializer_list<const Scalar*> operands) {
  Scalar out;
  Instr in{.fn = fn};
  int32_t* slots[] = {&in.a, &in.b, &in.c};
  size_t next = 0;
  for (const Scalar* s : operands) *slots[next++] = append(out, *s);
  out.code.push_back(in);
  return out;
}

}  // namespace

Scalar call(Fn fn, const Scalar& a) {
  return combine(fn, {&a});
}
Scalar call(Fn fn, const Scalar& a, const Scalar& b) {
  return combine(fn, {&a, &b});
}
Scalar call(Fn fn, const Scalar& a, const Scalar& b, const Scalar& c) {
  return combine(fn, {&a, &b, &c});
}

Scalar bind(const Scalar& s, Attrs attrs) {
  Scalar out;
  out.code = s.code;
  for (Instr& in : out.code) {
    if (in.fn != Fn::attr) continue;
    const std::string& name = s.attrs[static_cast<size_t>(in.a)];
    const AttrValue* v = attrs.find(name);
    EMEND_ASSERT(v, "attribute ", name, " in ", to_text(attrs));
    double number = v->as<double>()    ? *v->as<double>()
                    : v->as<int64_t>() ? static_cast<double>(*v->as<int64_t>())
                                       : static_cast<double>(*v->as<bool>());
    in = {.fn = Fn::constant, .value = number};
  }
  return simplified(out);
}

Scalar simplified(const Scalar& s) {
  Writer w;
  auto at = copy_into(w, s.code);
  Scalar out;
  out.code = live(w.code, at.back());
  out.attrs = s.attrs;
  return out;
}

Scalar derivative(const Scalar& s, int index) {
  Writer w;
  auto at = copy_into(w, s.code);
  std::vector<int32_t> tangents;
  for (size_t i = 0; i < s.code.size(); ++i) {
    Instr in = s.code[i];
    if (info(in.fn).arity == 0) {
      bool varies = in.fn == Fn::arg && in.a == index;
      tangents.push_back(w.constant(varies ? 1 : 0));
      continue;
    }
    int32_t d[3] = {-1, -1, -1};
    int32_t* operands[] = {&in.a, &in.b, &in.c};
    for (int k = 0; k < 3; ++k) {
      if (*operands[k] < 0) continue;
      d[k] = tangents[static_cast<size_t>(*operands[k])];
      *operands[k] = at[static_cast<size_t>(*operands[k])];
    }
    tangents.push_back(tangent(w, in, at[i], d[0], d[1], d[2]));
  }
  Scalar out;
  out.code = live(w.code, tangents.back());
  out.attrs = s.attrs;
  return simplified(out);
}

int operation_count(const Scalar& s) {
  int n = 0;
  for (const Instr& in : s.code) n += info(in.fn).arity > 0;
  return n;
}

bool is_argument(const Scalar& s, int index) {
  return s.code.size() == 1 && s.code[0].fn == Fn::arg && s.code[0].a == index;
}

bool is_product(const Scalar& s) {
  return s.code.size() == 3 && s.code[2].fn == Fn::mul && s.code[0].fn == Fn::arg &&
         s.code[1].fn == Fn::arg && s.code[0].a != s.code[1].a;
}

namespace {

// The extremes ask whether an operand is no number; of one that is known to be none but a number
// they need not, and the compiler makes one comparison of it.
const char* c_form(const Scalar& s, const Instr& in, bool integer) {
  const FnInfo& fn = info(in.fn);
  if (integer && fn.c_integer) return fn.c_integer;
  if (in.fn != Fn::min && in.fn != Fn::max) return fn.c;
  auto is_number = [&](int32_t operand) {
    const Instr& i = s.code[static_cast<size_t>(operand)];
    return i.fn == Fn::constant && !std::isnan(i.value);
  };
  bool least = in.fn == Fn::min;
  if (is_number(in.b)) return least ? "(!($0 >= $1) ? $0 : $1)" : "(!($0 <= $1) ? $0 : $1)";
  if (is_number(in.a)) return least ? "($0 < $1 ? $0 : $1)" : "($0 > $1 ? $0 : $1)";
  return fn.c;
}

}  // namespace

CText c_text(const Scalar& s, std::span<const std::string> args, std::span<const std::string> iters,
             const std::string& type, const std::string& prefix) {
  CText out;
  std::vector<std::string> value;
  const std::string suffix = type == "float"      ? "f"
                             : type == "int64_t"  ? "_i"
                             : type == "uint64_t" ? "_u"
                                                  : "";
  for (const Instr& in : s.code) {
    switch (in.fn) {
      case Fn::constant:
        value.push_back(constant_text(in.value, type));
        continue;
      case Fn::arg:
        value.push_back(args[static_cast<size_t>(in.a)]);
        continue;
      case Fn::iter:
        value.push_back(str("(", type, ")", iters[static_cast<size_t>(in.a)]));
        continue;
      case Fn::attr:
        EMEND_ASSERT(false, "unbound attribute ", s.attrs[static_cast<size_t>(in.a)]);
      default:
        break;
    }
    bool integer = !suffix.empty() && suffix != "f";
    std::string text = with_suffix(c_form(s, in, integer), suffix);
    replace_all(text, "(T)", "(" + type + ")");
    const int32_t operands[] = {in.a, in.b, in.c};
    for (int k = 0; k < info(in.fn).arity; ++k) {
      replace_all(text, str("$", k), value[static_cast<size_t>(operands[k])]);
    }
    std::string name = str(prefix, out.statements.size());
    out.statements.push_back(str("const ", type, " ", name, " = ", text, ";"));
    value.push_back(name);
  }
  out.result = value.back();
  return out;
}

std::string to_text(const Scalar& s) {
  static constexpr const char* kInfix[] = {"add", "+",  "sub", "-",  "mul", "*",  "div",
                                           "/",   "lt", "<",   "le", "<=",  "eq", "=="};
  std::vector<std::string> value;
  for (const Instr& in : s.code) {
    if (in.fn == Fn::constant) {
      bool whole = in.value == std::floor(in.value) && std::abs(in.value) < 1e9;
      value.push_back(whole ? str(static_cast<int64_t>(in.value)) : number_text(in.value));
    } else if (in.fn == Fn::arg) {
      value.push_back(in.a < 3 ? std::string(1, "xyz"[in.a]) : str("x", in.a));
    } else if (in.fn == Fn::iter) {
      value.push_back(str("i", in.a));
    } else if (in.fn == Fn::attr) {
      value.push_back(s.attrs[static_cast<size_t>(in.a)]);
    } else {
      std::string name = info(in.fn).name, text;
      for (size_t k = 0; k + 1 < std::size(kInfix); k += 2) {
        if (name != kInfix[k]) continue;
        text = str("(", value[static_cast<size_t>(in.a)], " ", kInfix[k + 1], " ",
                   value[static_cast<size_t>(in.b)], ")");
      }
      if (text.empty()) {
        text = name + "(";
        const int32_t operands[] = {in.a, in.b, in.c};
        for (int k = 0; k < info(in.fn).arity; ++k) {
          text += (k ? ", " : "") + value[static_cast<size_t>(operands[k])];
        }
        text += ")";
      }
      value.push_back(text);
    }
  }
  std::string text = value.back();
  if (text.size() > 2 && text.front() == '(' && text.back() == ')') {
    // Drop the outer pair if it encloses everything.
    int depth = 0;
    for (size_t i = 0; i + 1 < text.size(); ++i) {
      depth += (text[i] == '(') - (text[i] == ')');
      if (depth == 0) return text;
    }
    return text.substr(1, text.size() - 2);
  }
  return text;
}

}  // namespace emend
