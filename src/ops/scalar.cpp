#include "ops/scalar.h"

#include <array>
#include <cmath>

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
