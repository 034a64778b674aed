// Views as text, and what keeps a text or a struct from being one.
#include <algorithm>
#include <charconv>

#include "base/text.h"
#include "ir/view.h"

namespace emend {
namespace {

// One letter each.
constexpr std::string_view kDigitNames = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
// Extents, numbers of digits times coefficients and their sums all stay below.
constexpr int64_t kLargest = kMaxElements;

using Wide = __int128;

Wide magnitude(int64_t v) {
  return v < 0 ? -static_cast<Wide>(v) : v;
}

// A dimension's extent against its digits.
std::string dim_fault(const View::Dim& d) {
  if (d.radices.empty()) return "a dimension without digits";
  Wide product = 1;
  for (int64_t r : d.radices) {
    if (r < 1 || r > kLargest) return str("a digit of radix ", r);
    product *= r;
    if (product > kLargest) return str("a dimension of more than ", kLargest, " positions");
  }
  if (d.extent < 1) return str("a dimension of extent ", d.extent);
  if (d.extent > product)
    return str("extent ", d.extent, " is more than its digits ", join(d.radices, "*"), " count to");
  return "";
}

std::string index_fault(const Linear& e, const Dims& radices) {
  Wide sum = magnitude(e.constant);
  int last = -1;
  for (auto [digit, coef] : e.terms) {
    if (digit < 0 || static_cast<size_t>(digit) >= radices.size())
      return str("an index uses digit ", digit, " of ", radices.size());
    if (digit <= last || coef == 0) return "the terms of an index are not in order";
    if (magnitude(coef) > kLargest) return str("the coefficient ", coef, " is absurd");
    sum += magnitude(coef) * (radices[static_cast<size_t>(digit)] - 1);
    last = digit;
  }
  return sum > kLargest ? str("an index reaches further than ", kLargest) : "";
}

void append_term(std::string& out, int64_t coef, char name) {
  if (coef > 0 && out.back() != '[' && out.back() != ' ') out += '+';
  if (coef < 0) out += '-';
  if (magnitude(coef) != 1) out += std::to_string(coef < 0 ? -coef : coef);
  out += name;
}

// Reads the text form, character by character; `at` is where it failed.
class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text) {}

  bool take(char c) {
    skip();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  // Digits of a number that fits, or -1.
  int64_t number() {
    skip();
    int64_t v = -1;
    auto [end, error] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), v);
    if (error != std::errc() || v < 0 || v > kLargest || text_[at_] == '-') return -1;
    at_ = static_cast<size_t>(end - text_.data());
    return v;
  }
  // The digit that a letter names, or -1.
  int name() {
    skip();
    size_t k = at_ < text_.size() ? kDigitNames.find(text_[at_]) : std::string_view::npos;
    if (k == std::string_view::npos) return -1;
    ++at_;
    return static_cast<int>(k);
  }
  bool at_end() {
    skip();
    return at_ == text_.size();
  }
  bool at_number() {
    skip();
    return at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9';
  }
  Failure expected(std::string_view what) {
    return fail("a view such as \"[2*4, 3] <- [b, a+2c]\": expected ", what, " at ",
                at_ < text_.size() ? quoted(text_.substr(at_, 12)) : std::string("its end"));
  }

 private:
  void skip() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }
  std::string_view text_;
  size_t at_ = 0;
};

// 2*4:7
Result<View::Dim> read_dim(Reader& r) {
  View::Dim d{.extent = 1, .radices = {}};
  Wide product = 1;
  do {
    int64_t radix = r.number();
    if (radix < 1) return r.expected("a radix (a number from 1 on, not absurdly large)");
    d.radices.push_back(radix);
    product *= radix;
    if (product > kLargest) return fail("a view: dimensions of more than ", kLargest);
  } while (r.take('*'));
  d.extent = static_cast<int64_t>(product);
  if (r.take(':')) {
    d.extent = r.number();
    if (d.extent < 1) return r.expected("an extent (a number from 1 on)");
  }
  return d;
}

// 4c+d-1
Result<Linear> read_index(Reader& r) {
  Linear e;
  bool first = true, constant = false;
  while (true) {
    bool minus = r.take('-'), plus = !minus && r.take('+');
    if (!first && !minus && !plus) return e;
    int64_t v = 1;
    bool numeral = r.at_number();
    if (numeral && (v = r.number()) < 0) return r.expected("a number that is not absurdly large");
    int digit = r.name();
    if (digit < 0 && !numeral) return r.expected("a digit's letter or a number");
    if (minus) v = -v;
    if (digit < 0) {
      if (constant) return fail("a view: two constants in one index");
      constant = true;
      e.constant = v;
    } else {
      auto same = [&](const auto& t) { return t.first == digit; };
      if (std::ranges::any_of(e.terms, same) || v == 0)
        return fail("a view: digit ", kDigitNames[static_cast<size_t>(digit)],
                    v == 0 ? " with coefficient 0" : " twice in one index");
      e.terms.emplace_back(digit, v);
    }
    first = false;
  }
}

// [item, item, ..]
template <class T, class Read>
Result<std::vector<T>> read_list(Reader& r, const Read& read) {
  std::vector<T> items;
  if (!r.take('[')) return r.expected("'['");
  if (r.take(']')) return items;
  do {
    auto item = read(r);
    if (!item) return Failure{item.error()};
    items.push_back(*std::move(item));
  } while (r.take(','));
  if (!r.take(']')) return r.expected("',' or ']'");
  return items;
}

}  // namespace

std::string fault(const View& v) {
  Wide elements = 1;
  for (const View::Dim& d : v.out) {
    if (std::string why = dim_fault(d); !why.empty()) return why;
    elements *= d.extent;
    if (elements > kLargest) return str("more than ", kLargest, " elements");
  }
  Dims radices = radices_of(v);
  if (radices.size() > kDigitNames.size())
    return str(radices.size(), " digits, of which at most ", kDigitNames.size(), " have a name");
  for (const Linear& e : v.index)
    if (std::string why = index_fault(e, radices); !why.empty()) return why;
  return "";
}

std::string to_text(const View& v) {
  std::string out = "[";
  for (size_t k = 0; k < v.out.size(); ++k) {
    const View::Dim& d = v.out[k];
    if (k) out += ", ";
    out += join(d.radices, "*");
    if (d.extent != count(d.radices)) out += str(":", d.extent);
  }
  out += "] <- [";
  for (size_t k = 0; k < v.index.size(); ++k) {
    const Linear& e = v.index[k];
    if (k) out += ", ";
    for (auto [digit, coef] : e.terms)
      append_term(out, coef, kDigitNames[static_cast<size_t>(digit)]);
    if (e.constant > 0 && !e.terms.empty()) out += '+';
    if (e.constant != 0 || e.terms.empty()) out += std::to_string(e.constant);
  }
  return out + "]";
}

Result<View> parse_view(std::string_view text) {
  Reader r(text);
  View v;
  auto out = read_list<View::Dim>(r, read_dim);
  if (!out) return Failure{out.error()};
  if (!r.take('<') || !r.take('-')) return r.expected("'<-'");
  auto index = read_list<Linear>(r, read_index);
  if (!index) return Failure{index.error()};
  if (!r.at_end()) return r.expected("nothing more");
  v = {.out = *std::move(out), .index = *std::move(index)};
  for (Linear& e : v.index) std::sort(e.terms.begin(), e.terms.end());
  if (std::string why = fault(v); !why.empty())
    return fail("the view ", quoted(text.substr(0, 200)), ": ", why);
  return v;
}

}  // namespace emend
