#include "synthesize/inputs.h"

#include <algorithm>
#include <set>

#include "base/error.h"
#include "ops/exact.h"

namespace emend {
namespace {

constexpr std::string_view kContents[] = {"any",      "filter",          "ones",
                                          "identity", "identity_filter", "averaging_filter"};

bool is_number(const std::string& s) {
  return !s.empty() && std::all_of(s.begin(), s.end(), [](char c) { return std::isdigit(c); });
}

Input parse_input(const std::string& item) {
  size_t colon = item.find(':'), open = item.find('[');
  if (colon == std::string::npos || open == std::string::npos || open < colon || item.back() != ']')
    throw Error(str("cannot read the operand '", item, "'; it should look like x:[a,b]"));
  Input in{.name = item.substr(0, colon)};
  std::string content = item.substr(colon + 1, open - colon - 1);
  if (!content.empty()) {
    auto it = std::find(std::begin(kContents), std::end(kContents), content);
    if (it == std::end(kContents)) throw Error(str("no content is called ", content, ": ", item));
    in.content = static_cast<Input::Content>(it - std::begin(kContents));
  }
  std::string inside = item.substr(open + 1, item.size() - open - 2);
  if (!inside.empty()) in.extents = split(inside, ',');
  return in;
}

// Sizes by the letter's usual meaning, as in the rules' own drawings, but small: thousands of
// terms are evaluated.
const Dims& choices(const std::string& name) {
  static const Dims kBatch = {2, 1, 3}, kKernel = {2, 3, 1}, kPicture = {4, 3, 5, 6, 7, 8, 9},
                    kAny = {2, 3, 4, 5, 6, 7, 8, 9};
  switch (name[0]) {
    case 'n':
    case 'm':
      return kBatch;
    case 'r':
    case 't':
      return kKernel;
    case 'h':
    case 'w':
      return kPicture;
    default:
      return kAny;
  }
}

// One on the diagonal (of the first two dimensions, for a filter at the middle of its window).
bool on_diagonal(Input::Content content, const Dims& shape, const Dims& at) {
  if (content == Input::Content::ones) return true;
  if (at[0] != at[1]) return false;
  if (content != Input::Content::identity_filter) return true;
  for (size_t d = 2; d < shape.size(); ++d) {
    if (at[d] != shape[d] / 2) return false;
  }
  return true;
}

bool fits(Input::Content content, const Dims& shape) {
  bool square = shape.size() >= 2 && shape[0] == shape[1];
  switch (content) {
    case Input::Content::any:
    case Input::Content::filter:
    case Input::Content::ones:
      return true;
    case Input::Content::identity:
      return square && shape.size() == 2;
    case Input::Content::identity_filter:
      return square && shape.size() > 2 &&
             std::all_of(shape.begin() + 2, shape.end(), [](int64_t d) { return d % 2 == 1; });
    case Input::Content::averaging_filter:
      return square && shape.size() > 2;
  }
  return false;
}

int64_t window_of(const Dims& shape) {
  return count(std::span(shape).subspan(std::min<size_t>(2, shape.size())));
}

struct Range {
  int64_t low, high;
};
constexpr Range kBothSigns = {-9, 9}, kBelowZero = {-9, -1}, kAboveZero = {1, 9};

Range some_range(Rng& rng) {
  static constexpr Range kSome[] = {kBothSigns, kBothSigns, kBelowZero, kAboveZero};
  return kSome[rng.between(0, 3)];
}

template <class Store>
void for_each_place(const Dims& shape, const Store& store) {
  Dims at(shape.size(), 0);
  for (int64_t i = 0; i < count(shape); ++i) {
    store(static_cast<size_t>(i), at);
    for (size_t d = shape.size(); d-- > 0 && ++at[d] == shape[d];) at[d] = 0;
  }
}

std::optional<ExactValue> draw_exact(Input::Content content, const Dims& shape, Range range,
                                     Rng& rng) {
  if (!fits(content, shape)) return std::nullopt;
  ExactValue v{Type::tensor(DType::f64, shape), {}, {}, {}};
  bool any = content == Input::Content::any || content == Input::Content::filter;
  bool averaging = content == Input::Content::averaging_filter;
  const Mod61 entry = averaging ? Mod61(1) / Mod61::of(window_of(shape)) : Mod61(1);
  v.field = Tensor::make(DType::u64, shape, [&](std::byte* out) {
    for_each_place(shape, [&](size_t i, const Dims& at) {
      uint64_t element =
          any ? rng.bits() % Mod61::kPrime : (on_diagonal(content, shape, at) ? entry.v : 0);
      store_int(DType::u64, out, i, static_cast<int64_t>(element));
    });
  });
  if (averaging) return v;
  v.integer = Tensor::make(DType::i64, shape, [&](std::byte* out) {
    for_each_place(shape, [&](size_t i, const Dims& at) {
      // Multiples of 36, so that means over windows of 2x2 and 3x3 are integers.
      int64_t element =
          any ? 36 * rng.between(range.low, range.high) : on_diagonal(content, shape, at);
      store_int(DType::i64, out, i, element);
    });
  });
  return v;
}

}  // namespace

std::string_view to_text(Input::Content c) {
  return kContents[static_cast<size_t>(c)];
}

std::vector<Input> parse_inputs(std::string_view text) {
  std::vector<Input> out;
  for (const std::string& item : split(text, ' ')) {
    if (!item.empty()) out.push_back(parse_input(item));
  }
  return out;
}

std::string to_text(const Input& input) {
  bool any = input.content == Input::Content::any;
  return str(input.name, ":", any ? "" : to_text(input.content), "[", join(input.extents, ","),
             "]");
}

std::vector<std::string> size_names(const std::vector<Input>& inputs) {
  std::vector<std::string> names;
  for (const Input& in : inputs) {
    for (const std::string& extent : in.extents) {
      for (const std::string& factor : split(extent, '*')) {
        if (!is_number(factor) && std::find(names.begin(), names.end(), factor) == names.end())
          names.push_back(factor);
      }
    }
  }
  return names;
}

Dims shape_of(const Input& input, const SizeTable& sizes) {
  Dims shape;
  for (const std::string& extent : input.extents) {
    int64_t product = 1;
    for (const std::string& factor : split(extent, '*'))
      product *= is_number(factor) ? std::stoll(factor) : sizes.at(factor);
    shape.push_back(product);
  }
  return shape;
}

SizeTable draw_sizes(const std::vector<std::string>& names, SizeDraw how, Rng& rng,
                     int64_t largest) {
  SizeTable sizes;
  std::set<int64_t> used;
  int64_t common = rng.between(0, 2);
  for (const std::string& name : names) {
    Dims from = choices(name);
    std::erase_if(from, [&](int64_t size) { return size > largest; });
    int64_t size = rng.pick(from);
    if (how == SizeDraw::different) {
      // As long as there is something left to choose; never one, which broadcasts.
      for (int tries = 0; size == 1 || (tries < 40 && used.count(size)); ++tries)
        size = rng.pick(from);
      used.insert(size);
    } else if (rng.between(0, 3) > 0) {
      size = from[static_cast<size_t>(common)];
    }
    if (how == SizeDraw::single && rng.between(0, 2) == 0) size = 1;
    sizes[name] = size;
  }
  return sizes;
}

std::optional<ExactValue> draw_value(Input::Content content, const Dims& shape, Rng& rng) {
  return draw_exact(content, shape, kBothSigns, rng);
}

std::optional<ExactValue> draw_real_value(Input::Content content, const Dims& shape, Rng& rng) {
  Range range = some_range(rng);
  auto v = draw_exact(content, shape, range, rng);
  if (!v) return v;
  if (auto constant = constant_of(content, shape)) {
    v->real = *constant;
    return v;
  }
  v->real = Tensor::make(DType::f64, shape, [&](std::byte* out) {
    for (int64_t i = 0; i < count(shape); ++i) {
      auto width = static_cast<double>(range.high - range.low);
      double element = static_cast<double>(range.low) + rng.uniform() * width;
      store_real(DType::f64, out, static_cast<size_t>(i), element / 3);
    }
  });
  return v;
}

std::optional<Tensor> constant_of(Input::Content content, const Dims& shape) {
  bool any = content == Input::Content::any || content == Input::Content::filter;
  if (any || !fits(content, shape)) return std::nullopt;
  double entry = content == Input::Content::averaging_filter
                     ? 1.0 / static_cast<double>(window_of(shape))
                     : 1.0;
  return Tensor::make(DType::f64, shape, [&](std::byte* out) {
    for_each_place(shape, [&](size_t i, const Dims& at) {
      store_real(DType::f64, out, i, on_diagonal(content, shape, at) ? entry : 0);
    });
  });
}

}  // namespace emend
