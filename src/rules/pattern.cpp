#include "rules/pattern.h"

#include <algorithm>
#include <cctype>
#include <charconv>

#include "ops/table.h"

namespace emend {
namespace {

constexpr std::pair<std::string_view, OpClass> kClasses[] = {
    {"unary", OpClass::unary},
    {"binary", OpClass::binary},
    {"idempotent_unary", OpClass::idempotent_unary},
    {"zero_keeping_unary", OpClass::zero_keeping_unary}};

constexpr std::pair<std::string_view, AttrExpr::Kind> kForms[] = {
    {"all", AttrExpr::Kind::all},
    {"position", AttrExpr::Kind::position},
    {"each", AttrExpr::Kind::each},
    {"alike", AttrExpr::Kind::alike}};

AttrExpr::Kind kind_of(std::string_view function) {
  for (const auto& [name, kind] : kForms) {
    if (function == name) return kind;
  }
  return AttrExpr::Kind::call;
}

class Parser {
 public:
  Parser(std::string_view text, Variables& variables) : text_(text), variables_(variables) {}

  // A side of a rule: `tuple` at its top is no operator, but several roots.
  Pattern side() {
    if (!take("(tuple ")) return pattern();
    Pattern p;
    p.kind = Pattern::Kind::tuple;
    while (!take(")")) p.args.push_back(pattern());
    return p;
  }

  Pattern pattern() {
    Pattern p = term();
    if (take("...")) p.repeated = true;
    return p;
  }

  AttrExpr expr() {
    AttrExpr e;
    if (take("(")) {
      e.function = word();
      e.kind = kind_of(e.function);
      while (!take(")")) e.args.push_back(expr());
    } else if (peek() == '?') {
      e.kind = AttrExpr::Kind::variable;
      e.variable = variable();
    } else {
      e.literal = literal();
    }
    return e;
  }

  void expect_end() {
    if (peek() != '\0') error("text after the end");
  }

 private:
  Pattern term() {
    Pattern p;
    if (peek() == '?') {
      p.variable = variable();
    } else if (!take("(")) {
      p.kind = Pattern::Kind::number;
      p.number = number();
    } else if (take("at ")) {
      p.kind = Pattern::Kind::at;
      p.index = expr();
      p.variable = variable();
      expect(")");
    } else if (take("number ")) {
      p.kind = Pattern::Kind::number;
      p.index = expr();
      if (p.index.kind != AttrExpr::Kind::call) error("expected a call");
      expect(")");
    } else if (bool identity = take("identity "); identity || take("constant ")) {
      p.kind = identity ? Pattern::Kind::identity : Pattern::Kind::constant;
      p.index = expr();
      expect(")");
    } else {
      p.kind = Pattern::Kind::node;
      head(p);
      if (take("[")) attributes(p);
      while (!take(")")) p.args.push_back(pattern());
    }
    return p;
  }

  void head(Pattern& p) {
    if (peek() != '?') {
      std::string name = word();
      p.op = find_op(name);
      if (!p.op.valid()) error("no operator is called " + name);
      return;
    }
    p.variable = variable();
    if (!take(":")) return;
    std::string name = word();
    auto it = std::find_if(std::begin(kClasses), std::end(kClasses),
                           [&](const auto& c) { return c.first == name; });
    if (it == std::end(kClasses)) error("no class of operators is called " + name);
    variables_.classes[static_cast<size_t>(p.variable)] = it->second;
  }

  void attributes(Pattern& p) {
    do {
      if (peek() == '?') {
        p.whole = variable();
      } else {
        std::string name = word();
        if (p.op.valid()) {
          const auto& specs = op_def(p.op).attrs;
          bool known = std::any_of(specs.begin(), specs.end(),
                                   [&](const AttrSpec& s) { return s.name == name; });
          if (!known) error(str(op_def(p.op).name, " has no attribute ", name));
        }
        expect("=");
        p.attrs.emplace_back(name, expr());
      }
    } while (take(","));
    expect("]");
  }

  AttrValue literal() {
    if (take("[")) {
      Dims items;
      while (!take("]")) {
        items.push_back(static_cast<int64_t>(number()));
        take(",");
      }
      return items;
    }
    if (std::isalpha(static_cast<unsigned char>(peek()))) {
      std::string name = word();
      if (name == "true" || name == "false") return name == "true";
      return name;
    }
    bool real = false;
    double v = number(&real);
    if (real) return v;
    return static_cast<int64_t>(v);
  }

  double number(bool* real = nullptr) {
    skip();
    size_t end = at_;
    while (end < text_.size() && (std::isalnum(static_cast<unsigned char>(text_[end])) ||
                                  text_[end] == '.' || text_[end] == '-')) {
      ++end;
    }
    double v = 0;
    auto [stop, code] = std::from_chars(text_.data() + at_, text_.data() + end, v);
    if (code != std::errc()) error("expected a number");
    auto used = text_.substr(at_, static_cast<size_t>(stop - text_.data()) - at_);
    if (real) *real = used.find_first_of(".ein") != std::string_view::npos;
    at_ += used.size();
    return v;
  }

  int variable() {
    expect("?");
    std::string name = word();
    if (at_ < text_.size() && text_[at_] == '*') {
      ++at_;
      name += '*';
    }
    return variables_.index(name);
  }

  std::string word() {
    skip();
    size_t begin = at_;
    while (at_ < text_.size() &&
           (std::isalnum(static_cast<unsigned char>(text_[at_])) || text_[at_] == '_')) {
      ++at_;
    }
    if (begin == at_) error("expected a name");
    return std::string(text_.substr(begin, at_ - begin));
  }
  void skip() {
    while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_]))) ++at_;
  }
  char peek() {
    skip();
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  bool take(std::string_view what) {
    skip();
    if (!text_.substr(at_).starts_with(what)) return false;
    at_ += what.size();
    return true;
  }
  void expect(std::string_view what) {
    if (!take(what)) error(str("expected '", what, "'"));
  }
  [[noreturn]] void error(const std::string& reason) {
    throw Error(str(reason, " at '", text_.substr(std::min(at_, text_.size())), "' in ", text_));
  }

  std::string_view text_;
  Variables& variables_;
  size_t at_ = 0;
};

std::string name_of(int v, const Variables& variables) {
  return "?" + variables.names[static_cast<size_t>(v)];
}

}  // namespace

int Variables::index(std::string_view name) {
  auto it = std::find(names.begin(), names.end(), name);
  if (it == names.end()) {
    it = names.insert(it, std::string(name));
    classes.push_back(OpClass::unary);
  }
  return static_cast<int>(it - names.begin());
}

Pattern parse_pattern(std::string_view text, Variables& variables) {
  Parser parser(text, variables);
  Pattern p = parser.side();
  parser.expect_end();
  return p;
}

AttrExpr parse_expr(std::string_view text, Variables& variables) {
  Parser parser(text, variables);
  AttrExpr e = parser.expr();
  parser.expect_end();
  return e;
}

std::string to_text(const AttrExpr& e, const Variables& v) {
  if (e.kind == AttrExpr::Kind::literal) return to_text(e.literal);
  if (e.kind == AttrExpr::Kind::variable) return name_of(e.variable, v);
  std::string out = "(" + e.function;
  for (const AttrExpr& a : e.args) out += " " + to_text(a, v);
  return out + ")";
}

std::string to_text(const Pattern& p, const Variables& v) {
  std::string out;
  switch (p.kind) {
    case Pattern::Kind::variable:
      out = name_of(p.variable, v);
      break;
    case Pattern::Kind::number: {
      if (p.index.kind == AttrExpr::Kind::call) {
        out = "(number " + to_text(p.index, v) + ")";
        break;
      }
      out = number_text(p.number);
      if (out.ends_with(".0")) out.resize(out.size() - 2);
      break;
    }
    case Pattern::Kind::identity:
      out = "(identity " + to_text(p.index, v) + ")";
      break;
    case Pattern::Kind::constant:
      out = "(constant " + to_text(p.index, v) + ")";
      break;
    case Pattern::Kind::at:
      out = str("(at ", to_text(p.index, v), " ", name_of(p.variable, v), ")");
      break;
    case Pattern::Kind::node: {
      out = "(" + (p.variable >= 0 ? name_of(p.variable, v) : op_def(p.op).name);
      std::string attrs = p.whole >= 0 ? name_of(p.whole, v) : "";
      for (const auto& [name, e] : p.attrs)
        attrs += str(attrs.empty() ? "" : ", ", name, "=", to_text(e, v));
      if (!attrs.empty()) out += "[" + attrs + "]";
      for (const Pattern& a : p.args) out += " " + to_text(a, v);
      out += ")";
      break;
    }
    case Pattern::Kind::tuple:
      out = "(tuple";
      for (const Pattern& a : p.args) out += " " + to_text(a, v);
      out += ")";
  }
  return out + (p.repeated ? "..." : "");
}

}  // namespace emend
