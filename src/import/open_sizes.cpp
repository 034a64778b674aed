#include "import/open_sizes.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <functional>
#include <optional>

#include "import/sizes.h"

namespace emend {
namespace {

constexpr size_t kReasoning = 4;  // programs that are compared
constexpr size_t kChecking = 10;  // sizes at which the written file is tried
constexpr int kAttempts = 300;    // imports, at most, until sizes are found

// How sizes are chosen: those of images for the inner dimensions of inputs of rank 4 and more,
// small numbers or multiples of `step` for the rest. What divides nothing comes first: sizes that
// halve evenly hide how halves are rounded.
using ImageSizes = std::array<int64_t, 6>;
constexpr ImageSizes kOdd = {37, 53, 45, 71, 59, 41}, kFours = {36, 52, 44, 68, 28, 60},
                     kEights = {24, 40, 56, 72, 48, 88}, kSixteens = {48, 80, 112, 64, 96, 144},
                     kThirtyTwos = {96, 160, 64, 224, 128, 192},
                     kLarge = {224, 448, 672, 896, 1120, 1344}, kNone = {};
using SmallSizes = std::array<int64_t, 12>;
constexpr SmallSizes kSmall = {5, 7, 11, 6, 13, 9, 17, 8, 19, 12, 23, 10},
                     kTiny = {3, 2, 5, 4, 7, 6, 4, 3, 6, 5, 2, 7};
struct Family {
  ImageSizes images;
  int64_t step;
  bool signals;  // the last dimension of inputs of rank 3 is like an image's
  SmallSizes small = kSmall;
};
constexpr Family kFamilies[] = {
    {kOdd, 1, false},         {kOdd, 1, true},        {kOdd, 1, false, kTiny},
    {kFours, 1, false},       {kEights, 1, false},    {kSixteens, 1, false},
    {kThirtyTwos, 1, false},  {kThirtyTwos, 1, true}, {kNone, 1, false},
    {kLarge, 1, false},       {kOdd, 4, false},       {kThirtyTwos, 8, false},
    {kThirtyTwos, 32, false}, {kNone, 64, false}};

// One symbol follows from others: they are equal, or it is the sum of two. Or it is a number that
// another input has.
struct Tie {
  size_t symbol;
  std::vector<size_t> sum_of;
  int64_t number = 0;
};

// A dimension whose name is arithmetic over other names ("past + sequence") is computed by it.
class NamedSum {
 public:
  NamedSum(const std::string& text, const SymbolSizes& sizes) : text_(text), sizes_(sizes) {}
  std::optional<int64_t> value() {
    auto v = sum();
    skip();
    return at_ == text_.size() ? v : std::nullopt;
  }

 private:
  void skip() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }
  bool take(std::string_view word) {
    skip();
    if (text_.compare(at_, word.size(), word) != 0) return false;
    at_ += word.size();
    return true;
  }
  std::optional<int64_t> sum() {
    auto left = product();
    while (left) {
      bool plus = take("+");
      if (!plus && !take("-")) break;
      auto right = product();
      if (!right) return right;
      left = plus ? *left + *right : *left - *right;
    }
    return left;
  }
  std::optional<int64_t> product() {
    auto left = atom();
    while (left) {
      bool quotient = take("//");
      if (!quotient && !take("*")) break;
      auto right = atom();
      if (!right || (quotient && *right <= 0)) return std::nullopt;
      left = quotient ? *left / *right : *left * *right;
    }
    return left;
  }
  std::optional<int64_t> atom() {
    if (take("(")) {
      auto inner = sum();
      return inner && take(")") ? inner : std::nullopt;
    }
    skip();
    size_t begin = at_;
    auto is_word = [](char c) {
      return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.';
    };
    while (at_ < text_.size() && is_word(text_[at_])) ++at_;
    std::string word = text_.substr(begin, at_ - begin);
    if (word.empty() || word.size() > 100) return std::nullopt;
    if (auto it = sizes_.find(word); it != sizes_.end()) return it->second;
    if (word.size() > 9 || !std::ranges::all_of(word, [](char c) { return c >= '0' && c <= '9'; }))
      return std::nullopt;
    return std::stoll(word);
  }

  const std::string& text_;
  const SymbolSizes& sizes_;
  size_t at_ = 0;
};

class Drawing {
 public:
  Drawing(const OnnxFile& file, const ImportOptions& given)
      : file_(file), given_(given), open_(file.open_dimensions(given)) {}

  bool nothing_open() const { return open_.empty(); }

  std::vector<SymbolSizes> draw(size_t count) {
    // Ties are rare, and there are many to try: all families come first.
    for (const auto& tie : ties()) {
      for (const Family& family : kFamilies) {
        if (attempts_ >= kAttempts) return {};
        auto found = draw(count, family, tie);
        if (found.empty()) continue;
        family_ = family;
        tie_ = tie;
        return found;
      }
    }
    return {};
  }

  // Edges of what was found: everything at 1, everything a little larger (all sizes may be odd, and
  // halves of even ones are rounded otherwise), each symbol alone at 1, 2 and 37, and other draws.
  std::vector<SymbolSizes> edges(const std::vector<SymbolSizes>& base) {
    std::vector<SymbolSizes> found;
    auto try_these = [&](SymbolSizes sizes) {
      // A tie that was only a guess shows where sizes are let go.
      if (!tie_.empty()) try_exactly(sizes, base, found);
      settle(sizes, tie_);
      try_exactly(sizes, base, found);
    };
    SymbolSizes ones;
    for (const auto& d : open_) ones[d.symbol] = 1;
    try_these(ones);
    for (int64_t by : {1, 3}) {
      SymbolSizes larger = base[0];
      for (auto& [symbol, size] : larger) size += by;
      try_these(std::move(larger));
    }
    for (int64_t size : {1, 2, 37}) {
      for (size_t i = 0; i < open_.size(); ++i) {
        SymbolSizes sizes = base[i % base.size()];
        sizes[open_[i].symbol] = size;
        try_these(std::move(sizes));
      }
    }
    for (size_t k = kReasoning + 4; k < kReasoning + 6; ++k) try_these(sizes_of(family_, tie_, k));
    return found;
  }

  void try_exactly(const SymbolSizes& sizes, const std::vector<SymbolSizes>& base,
                   std::vector<SymbolSizes>& found) {
    bool fresh = std::ranges::find(base, sizes) == base.end() &&
                 std::ranges::find(found, sizes) == found.end();
    if (fresh && found.size() < kChecking && imports(sizes)) found.push_back(sizes);
  }

  std::optional<Imported> import(const SymbolSizes& sizes) const {
    ImportOptions options = given_;
    options.symbols.insert(sizes.begin(), sizes.end());
    try {
      return file_.import_as_named(options);
    } catch (const Error&) {
      return std::nullopt;  // no size for this model
    }
  }

 private:
  bool imports(const SymbolSizes& sizes) {
    ++attempts_;
    return import(sizes).has_value();
  }

  // No tie, then pairs, then sums of two.
  std::vector<std::vector<Tie>> ties() const {
    std::vector<std::vector<Tie>> all = {{}};
    size_t n = open_.size();
    auto names = [&](size_t whole, size_t part) {
      return whole != part && open_[whole].symbol.find(open_[part].symbol) != std::string::npos;
    };
    for (size_t a = 0; a < n; ++a) {  // past_plus_sequence
      for (size_t b = 0; b < n; ++b) {
        for (size_t c = 0; c < b; ++c) {
          if (names(a, b) && names(a, c) && !names(b, c) && !names(c, b))
            all.push_back({{a, {b, c}}});
        }
      }
    }
    for (size_t a = 0; a < n; ++a) {
      for (size_t b = 0; b < a; ++b) all.push_back({{a, {b}}});
    }
    for (size_t a = 0; a < n; ++a) {
      for (size_t b = 0; b < n; ++b) {
        for (size_t c = 0; c < b; ++c) {
          if (a != b && a != c) all.push_back({{a, {b, c}}});
        }
      }
    }
    for (size_t a = 0; a < n; ++a) {
      for (int64_t number : file_.fixed_dimensions()) all.push_back({{a, {}, number}});
    }
    std::vector<Tie> same_axis;  // each like the first at its axis
    for (size_t a = 1; a < n; ++a) {
      for (size_t b = 0; b < a; ++b) {
        if (open_[a].axis != open_[b].axis) continue;
        same_axis.push_back({a, {b}});
        break;
      }
    }
    if (same_axis.size() > 1) all.insert(all.begin() + 1, same_axis);
    return all;
  }

  std::vector<SymbolSizes> draw(size_t count, const Family& family, const std::vector<Tie>& tie) {
    std::vector<SymbolSizes> found;
    for (size_t k = 0; found.size() < count && k < count + 4; ++k) {
      SymbolSizes sizes = sizes_of(family, tie, k);
      if (std::ranges::find(found, sizes) == found.end() && imports(sizes))
        found.push_back(std::move(sizes));
      if (found.empty() && k == 1) break;  // the first two failed
    }
    return found.size() >= std::min<size_t>(count, 3) ? found : std::vector<SymbolSizes>();
  }

  // The k-th choice: distinct within, and without a pattern from one to the next.
  SymbolSizes sizes_of(const Family& family, const std::vector<Tie>& tie, size_t k) const {
    static constexpr size_t kStride[] = {1, 5, 7, 11};
    SymbolSizes sizes;
    for (size_t i = 0; i < open_.size(); ++i) {
      const OpenDimension& d = open_[i];
      bool image = !is_integer(d.dtype) &&
                   ((d.rank >= 4 && d.axis >= 2) || (family.signals && d.rank == 3 && d.axis == 2));
      int64_t around = 1 + static_cast<int64_t>(i / family.small.size());
      int64_t small = around * family.small[(i * kStride[k % 4] + k) % family.small.size()];
      int64_t large = family.images[(i + 2 * k + k / 3) % family.images.size()];
      sizes[d.symbol] = image && large > 0 ? large : family.step * small;
    }
    settle(sizes, tie);
    return sizes;
  }

  void settle(SymbolSizes& sizes, const std::vector<Tie>& ties) const {
    for (const Tie& tie : ties) {
      int64_t sum = tie.number;
      for (size_t i : tie.sum_of) sum += sizes.at(open_[i].symbol);
      sizes[open_[tie.symbol].symbol] = sum;
    }
    for (const auto& d : open_) {
      if (std::ranges::none_of(d.symbol,
                               [](char c) { return c == '+' || c == '-' || c == '*' || c == '/'; }))
        continue;
      auto value = NamedSum(d.symbol, sizes).value();
      if (value && *value >= 0) sizes[d.symbol] = *value;
    }
  }

  const OnnxFile& file_;
  const ImportOptions& given_;
  std::vector<OpenDimension> open_;
  int attempts_ = 0;
  Family family_ = kFamilies[0];
  std::vector<Tie> tie_;
};

// What is known of a node whose results follow from sizes.
struct Seen {
  std::vector<std::optional<Tensor>> first;  // its results at the first sizes
  bool varies = false, varies_at_edges = false;
  bool numbers = true;  // as a shape has them
};

bool are_numbers(const std::vector<std::optional<Tensor>>& values,
                 const std::vector<std::optional<Tensor>>& first) {
  for (size_t i = 0; i < values.size(); ++i) {
    const auto& v = values[i];
    bool good = v && is_integer(v->dtype()) && v->shape().size() <= 1 &&
                v->count() <= kMostNumbersOfAShape && i < first.size() && first[i] &&
                first[i]->shape() == v->shape();
    if (!good) return false;
  }
  return true;
}

void note(const std::optional<Imported>& imported, bool reasoning,
          std::map<std::string, Seen>& seen) {
  if (!imported) return;
  for (const auto& [name, values] : imported->of_sizes) {
    Seen& s = seen.try_emplace(name, Seen{values}).first->second;
    bool same = s.first == values &&
                std::ranges::all_of(values, [](const auto& v) { return v.has_value(); });
    (reasoning ? s.varies : s.varies_at_edges) |= !same;
    s.numbers &= are_numbers(values, s.first);
  }
}

}  // namespace

std::vector<SymbolSizes> drawn_sizes(const OnnxFile& file, const ImportOptions& given,
                                     size_t count) {
  Drawing drawing(file, given);
  return drawing.nothing_open() ? std::vector<SymbolSizes>() : drawing.draw(count);
}

OpenSizes open_sizes(const OnnxFile& file, const ImportOptions& given) {
  Drawing drawing(file, given);
  OpenSizes open;
  if (drawing.nothing_open()) return open;
  open.to_reason_with = drawing.draw(kReasoning);
  if (open.to_reason_with.empty()) return open;
  open.to_check_with = drawing.edges(open.to_reason_with);
  std::map<std::string, Seen> seen;
  for (const SymbolSizes& sizes : open.to_reason_with) note(drawing.import(sizes), true, seen);
  for (const SymbolSizes& sizes : open.to_check_with) note(drawing.import(sizes), false, seen);
  for (const auto& [name, s] : seen) {
    if (s.varies || s.varies_at_edges) open.of_sizes.insert(name);
    if (s.varies_at_edges && !s.varies) open.data_of_sizes.insert(name);
    if ((s.varies || s.varies_at_edges) && !s.numbers) open.data_of_sizes.insert(name);
  }
  return open;
}

}  // namespace emend
