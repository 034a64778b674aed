#include "base/pattern.h"

#include <algorithm>
#include <optional>
#include <string>
#include <tuple>

#include "base/utf8.h"

namespace emend {
namespace {

using Class = RegularExpression::Class;
using Do = RegularExpression::Do;
using Step = RegularExpression::Step;

// RE2 refuses more, and so do we: repetition is by copying.
constexpr int kMaxRepeat = 1000;
constexpr size_t kMaxSteps = 1 << 20;

void add_named(Class& set, char32_t letter) {
  switch (letter) {
    case 'd':
      set.ranges.push_back({'0', '9'});
      break;
    case 'w':
      for (auto [low, high] : {std::pair{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}})
        set.ranges.push_back({static_cast<char32_t>(low), static_cast<char32_t>(high)});
      break;
    case 's':
      for (char32_t c : {U'\t', U'\n', U'\f', U'\r', U' '}) set.ranges.push_back({c, c});
      break;
    default:
      break;
  }
}

// What is not in the ranges.
std::vector<std::pair<char32_t, char32_t>> complement(
    std::vector<std::pair<char32_t, char32_t>> ranges) {
  std::sort(ranges.begin(), ranges.end());
  std::vector<std::pair<char32_t, char32_t>> out;
  char32_t next = 0;
  for (auto [low, high] : ranges) {
    if (low > next) out.push_back({next, low - 1});
    next = std::max<char32_t>(next, high + 1);
  }
  out.push_back({next, 0x10FFFF});
  return out;
}

struct PosixClass {
  std::u32string_view name;
  std::vector<std::pair<char32_t, char32_t>> ranges;
};

const std::vector<PosixClass>& posix_classes() {
  static const std::vector<PosixClass> kClasses = {
      {U"alnum", {{'0', '9'}, {'A', 'Z'}, {'a', 'z'}}},
      {U"alpha", {{'A', 'Z'}, {'a', 'z'}}},
      {U"ascii", {{0, 0x7F}}},
      {U"blank", {{'\t', '\t'}, {' ', ' '}}},
      {U"cntrl", {{0, 0x1F}, {0x7F, 0x7F}}},
      {U"digit", {{'0', '9'}}},
      {U"graph", {{'!', '~'}}},
      {U"lower", {{'a', 'z'}}},
      {U"print", {{' ', '~'}}},
      {U"punct", {{'!', '/'}, {':', '@'}, {'[', '`'}, {'{', '~'}}},
      {U"space", {{'\t', '\r'}, {' ', ' '}}},
      {U"upper", {{'A', 'Z'}}},
      {U"word", {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}}},
      {U"xdigit", {{'0', '9'}, {'A', 'F'}, {'a', 'f'}}},
  };
  return kClasses;
}

// Recursive descent, from the back to the front: every piece is compiled with the step that comes
// after it, so a repetition just compiles its piece several times.
class Compiler {
 public:
  explicit Compiler(std::u32string text) : text_(std::move(text)) {}
  std::vector<Step> steps;

  // An expression as a tree of its pieces, by kind.
  struct Piece {
    enum class Kind : uint8_t { empty, step, sequence, either, repeat } kind = Kind::empty;
    Step step = {};
    int low = 0, high = 0;  // of a repetition; high < 0: no bound
    std::vector<Piece> parts = {};
  };

  Piece parse() {
    Piece p = alternatives();
    if (at_ < text_.size()) throw Error("an unmatched )");
    return p;
  }

  // The step to begin with so that the piece is followed by `next`.
  int emit(const Piece& p, int next) {
    switch (p.kind) {
      case Piece::Kind::empty:
        return next;
      case Piece::Kind::step: {
        Step s = p.step;
        s.next = next;
        return add(std::move(s));
      }
      case Piece::Kind::sequence:
        for (size_t i = p.parts.size(); i-- > 0;) next = emit(p.parts[i], next);
        return next;
      case Piece::Kind::either: {
        int begin = emit(p.parts.back(), next);
        for (size_t i = p.parts.size() - 1; i-- > 0;)
          begin = add({.what = Do::fork, .next = emit(p.parts[i], next), .other = begin});
        return begin;
      }
      case Piece::Kind::repeat:
        return emit_repeat(p, next);
    }
    return next;
  }

 private:
  int emit_repeat(const Piece& p, int next) {
    if (p.high < 0) {
      int loop = add({.what = Do::fork, .other = next});
      int begin = emit(p.parts[0], loop);
      steps[static_cast<size_t>(loop)].next = begin;
      next = loop;
    }
    for (int i = p.low; i < p.high; ++i)
      next = add({.what = Do::fork, .next = emit(p.parts[0], next), .other = next});
    for (int i = 0; i < p.low; ++i) next = emit(p.parts[0], next);
    return next;
  }

  int add(Step s) {
    if (steps.size() >= kMaxSteps) throw Error("it grows too large by its repetitions");
    steps.push_back(std::move(s));
    return static_cast<int>(steps.size()) - 1;
  }

  bool more() const { return at_ < text_.size(); }
  bool accept(char32_t c) {
    if (!more() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  char32_t take() {
    if (!more()) throw Error("it ends too early");
    return text_[at_++];
  }

  Piece alternatives() {
    if (++depth_ > 200) throw Error("its groups are nested too deep");
    Piece p{.kind = Piece::Kind::either, .parts = {sequence()}};
    while (accept('|')) p.parts.push_back(sequence());
    --depth_;
    return p.parts.size() == 1 ? p.parts[0] : p;
  }

  Piece sequence() {
    Piece p{.kind = Piece::Kind::sequence};
    while (more() && text_[at_] != '|' && text_[at_] != ')') {
      Piece one = item();
      while (auto r = repetition()) {
        one = {.kind = Piece::Kind::repeat, .low = r->first, .high = r->second, .parts = {one}};
        accept('?');  // lazy ones match the same whole strings
      }
      p.parts.push_back(std::move(one));
    }
    return p;
  }

  std::optional<std::pair<int, int>> repetition() {
    if (accept('*')) return std::pair{0, -1};
    if (accept('+')) return std::pair{1, -1};
    if (accept('?')) return std::pair{0, 1};
    size_t before = at_;
    if (!accept('{')) return std::nullopt;
    auto low = number();
    auto high = low;
    if (low && accept(',')) {
      high = number();
      if (!high) high = -1;
    }
    if (!low || !accept('}')) {  // a brace that stands for itself
      at_ = before;
      return std::nullopt;
    }
    if (*low > kMaxRepeat || *high > kMaxRepeat || (*high >= 0 && *high < *low))
      throw Error("a repetition's bounds are not right");
    return std::pair{*low, *high};
  }

  std::optional<int> number() {
    if (!more() || text_[at_] < '0' || text_[at_] > '9') return std::nullopt;
    int n = 0;
    while (more() && text_[at_] >= '0' && text_[at_] <= '9')
      n = std::min(n * 10 + static_cast<int>(take() - '0'), kMaxRepeat + 1);
    return n;
  }

  Piece character(char32_t c) { return set({.ranges = {{c, c}}}); }
  Piece set(Class s) {
    s.any_case = any_case_;
    return {.kind = Piece::Kind::step, .step = {.what = Do::character, .set = std::move(s)}};
  }
  static Piece check(Do what) { return {.kind = Piece::Kind::step, .step = {.what = what}}; }

  Piece item() {
    char32_t c = take();
    switch (c) {
      case '(':
        return group();
      case '[':
        return bracket();
      case '.':
        return set({.ranges = dot_all_ ? std::vector<std::pair<char32_t, char32_t>>{}
                                       : std::vector<std::pair<char32_t, char32_t>>{{'\n', '\n'}},
                    .negated = true});
      case '^':
        return check(lines_ ? Do::line_begin : Do::begin);
      case '$':
        return check(lines_ ? Do::line_end : Do::end);
      case '\\':
        return escape();
      case '*':
      case '+':
      case '?':
        throw Error("a repetition of nothing");
      default:
        return character(c);
    }
  }

  // (..), (?:..), (?P<name>..), (?<name>..), (?flags) and (?flags:..)
  Piece group() {
    auto flags = std::tuple(any_case_, dot_all_, lines_);
    if (accept('?')) {
      if (accept('P') || (more() && text_[at_] == '<')) {
        if (!accept('<')) throw Error("a group's name is written (?P<name>..)");
        while (take() != '>') {
        }
      } else if (!set_flags()) {
        return {};  // for the rest of the group around
      }
    }
    Piece p = alternatives();
    if (!accept(')')) throw Error("a missing )");
    std::tie(any_case_, dot_all_, lines_) = flags;
    return p;
  }

  // True if a group follows, false if the flags hold from here on.
  bool set_flags() {
    bool on = true;
    for (;;) {
      switch (char32_t c = take()) {
        case ':':
          return true;
        case ')':
          return false;
        case '-':
          on = false;
          break;
        case 'i':
          any_case_ = on;
          break;
        case 's':
          dot_all_ = on;
          break;
        case 'm':
          lines_ = on;
          break;
        case 'U':  // which repetitions are lazy: the same whole strings match
          break;
        default:
          throw Error(str("an unknown flag ", encode_utf8(std::u32string(1, c))));
      }
    }
  }

  Piece escape() {
    char32_t c = take();
    switch (c) {
      case 'A':
        return check(Do::begin);
      case 'z':
        return check(Do::end);
      case 'b':
        return check(Do::word);
      case 'B':
        return check(Do::no_word);
      case 'Q': {
        Piece p{.kind = Piece::Kind::sequence};
        while (more() && !(text_[at_] == '\\' && at_ + 1 < text_.size() && text_[at_ + 1] == 'E'))
          p.parts.push_back(character(take()));
        if (more()) at_ += 2;
        return p;
      }
      default: {
        Class s;
        if (auto one = class_escape(s, c)) return character(*one);
        return set(std::move(s));
      }
    }
  }

  // An escape that may stand in brackets too: a single character, or a class added to `s`.
  std::optional<char32_t> class_escape(Class& s, char32_t c) {
    switch (c) {
      case 'd':
      case 'w':
      case 's':
        add_named(s, c);
        return std::nullopt;
      case 'D':
      case 'W':
      case 'S': {
        Class positive;
        add_named(positive, c + 32);
        for (auto range : complement(positive.ranges)) s.ranges.push_back(range);
        return std::nullopt;
      }
      case 'n':
        return U'\n';
      case 't':
        return U'\t';
      case 'r':
        return U'\r';
      case 'f':
        return U'\f';
      case 'v':
        return U'\v';
      case 'a':
        return U'\a';
      case 'x':
        return hexadecimal();
      default:
        break;
    }
    bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    if (letter) throw Error(str("the escape \\", static_cast<char>(c), " is not supported"));
    return c;
  }

  char32_t hexadecimal() {
    bool braces = accept('{');
    char32_t value = 0;
    for (int digits = 0; braces ? !accept('}') : digits < 2; ++digits) {
      char32_t c = lower_case(take());
      bool is_digit = c >= '0' && c <= '9', is_letter = c >= 'a' && c <= 'f';
      if (!is_digit && !is_letter) throw Error("\\x needs hexadecimal digits");
      value = value * 16 + (is_digit ? c - '0' : c - 'a' + 10);
      if (value > 0x10FFFF) throw Error("\\x names no character");
    }
    return value;
  }

  Piece bracket() {
    Class s;
    s.negated = accept('^');
    for (bool first = true; first || !accept(']'); first = false) {
      char32_t c = take();
      if (c == '[' && accept(':')) {
        posix(s);
        continue;
      }
      if (c == '\\') {
        auto one = class_escape(s, take());
        if (!one) continue;
        c = *one;
      }
      char32_t high = c;
      bool range = more() && text_[at_] == '-' && at_ + 1 < text_.size() && text_[at_ + 1] != ']';
      if (range) {
        ++at_;
        high = take();
        if (high == '\\') {
          auto one = class_escape(s, take());
          if (!one) throw Error("a range in brackets ends with a class");
          high = *one;
        }
        if (high < c) throw Error("a range in brackets runs backwards");
      }
      s.ranges.push_back({c, high});
    }
    return set(std::move(s));
  }

  void posix(Class& s) {
    bool negated = accept('^');
    std::u32string name;
    while (more() && text_[at_] != ':') name.push_back(take());
    if (!accept(':') || !accept(']')) throw Error("[: needs :]");
    for (const PosixClass& c : posix_classes()) {
      if (c.name != name) continue;
      for (auto range : negated ? complement(c.ranges) : c.ranges) s.ranges.push_back(range);
      return;
    }
    throw Error(str("no class is called ", encode_utf8(name)));
  }

  std::u32string text_;
  size_t at_ = 0;
  int depth_ = 0;
  bool any_case_ = false, dot_all_ = false, lines_ = false;
};

bool is_word(std::u32string_view text, size_t position) {
  if (position >= text.size()) return false;
  char32_t c = text[position];
  return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_';
}

bool holds(Do what, std::u32string_view text, size_t at) {
  switch (what) {
    case Do::begin:
      return at == 0;
    case Do::end:
      return at == text.size();
    case Do::line_begin:
      return at == 0 || text[at - 1] == '\n';
    case Do::line_end:
      return at == text.size() || text[at] == '\n';
    case Do::word:
    case Do::no_word: {
      bool boundary = (at > 0 && is_word(text, at - 1)) != is_word(text, at);
      return boundary == (what == Do::word);
    }
    default:
      return true;
  }
}

}  // namespace

bool RegularExpression::Class::contains(char32_t c) const {
  auto in = [&](char32_t x) {
    return std::any_of(ranges.begin(), ranges.end(),
                       [&](const auto& r) { return r.first <= x && x <= r.second; });
  };
  bool found = in(c) || (any_case && (in(lower_case(c)) || in(upper_case(c))));
  return found != negated;
}

Result<RegularExpression> RegularExpression::compile(std::string_view pattern) {
  try {
    Compiler c(decode_utf8(pattern));
    auto tree = c.parse();
    c.steps.push_back({.what = Do::done});
    RegularExpression p;
    p.start_ = c.emit(tree, 0);
    p.steps_ = std::move(c.steps);
    return p;
  } catch (const Error& e) {
    return fail("the pattern ", pattern, " cannot be used: ", e.what());
  }
}

// Adds the states that are reached from `at` without reading a character.
void RegularExpression::follow(std::vector<int>& states, std::vector<int>& seen, int mark, int at,
                               std::u32string_view text, size_t position) const {
  std::vector<int> open = {at};
  while (!open.empty()) {
    int s = open.back();
    open.pop_back();
    if (seen[static_cast<size_t>(s)] == mark) continue;
    seen[static_cast<size_t>(s)] = mark;
    const Step& step = steps_[static_cast<size_t>(s)];
    if (step.what == Do::character || step.what == Do::done) {
      states.push_back(s);
    } else if (step.what == Do::fork) {
      open.push_back(step.other);
      open.push_back(step.next);
    } else if (holds(step.what, text, position)) {
      open.push_back(step.next);
    }
  }
}

bool RegularExpression::matches(std::string_view utf8) const {
  std::u32string text = decode_utf8(utf8);
  std::vector<int> states, next, seen(steps_.size(), -1);
  int mark = 0;
  follow(states, seen, mark++, start_, text, 0);
  for (size_t i = 0; i < text.size() && !states.empty(); ++i) {
    next.clear();
    for (int s : states) {
      const Step& step = steps_[static_cast<size_t>(s)];
      if (step.what == Do::character && step.set.contains(text[i]))
        follow(next, seen, mark, step.next, text, i + 1);
    }
    ++mark;
    states.swap(next);
  }
  return std::any_of(states.begin(), states.end(),
                     [&](int s) { return steps_[static_cast<size_t>(s)].what == Do::done; });
}

}  // namespace emend
