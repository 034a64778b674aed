// Views: the text form, normal forms, and what the two primitives mean, element by element.
#include "ir/view.h"

#include <gtest/gtest.h>

#include <map>

#include "base/rng.h"
#include "base/text.h"

namespace emend {
namespace {

View view(std::string_view text) {
  return parse_view(text).value_or_throw();
}

// All positions of a shape in row-major order.
std::vector<Dims> positions(const Dims& shape) {
  std::vector<Dims> all;
  for (int64_t flat = 0; flat < count(shape); ++flat) {
    Dims at(shape.size());
    int64_t rest = flat;
    for (size_t d = shape.size(); d-- > 0; rest /= shape[d]) at[d] = rest % shape[d];
    all.push_back(at);
  }
  return all;
}

bool inside(const Dims& at, const Dims& shape) {
  for (size_t d = 0; d < at.size(); ++d)
    if (at[d] < 0 || at[d] >= shape[d]) return false;
  return true;
}

View random_view(Rng& rng) {
  View v;
  int digits = 0;
  for (int64_t d = rng.between(0, 3); d > 0; --d) {
    View::Dim dim{.extent = 1, .radices = {}};
    for (int64_t k = rng.between(1, 3); k > 0; --k, ++digits)
      dim.radices.push_back(rng.between(1, 4));
    dim.extent = rng.between(0, 1) ? count(dim.radices) : rng.between(1, count(dim.radices));
    v.out.push_back(dim);
  }
  for (int64_t d = rng.between(0, 3); d > 0; --d) {
    Linear e{.constant = rng.between(-2, 2), .terms = {}};
    for (int k = 0; k < digits; ++k)
      if (int64_t coef = rng.between(-2, 4); coef != 0 && rng.between(0, 1))
        e.terms.emplace_back(k, coef);
    v.index.push_back(e);
  }
  return v;
}

TEST(View, ReadsAndPrints) {
  for (std::string_view text :
       {"[1, 512, 2*15, 2*15] <- [a, b, c+2d, e+2f]", "[1, 3, 2*4:7] <- [a, b, 4c+d-1]",
        "[] <- [3]", "[4] <- []", "[] <- []", "[2*3] <- [-a-2b-3, 0, 7]"}) {
    EXPECT_EQ(to_text(view(text)), text);
  }
  View v = view("[ 2 * 4 : 7,3 ]<-[ 1+2b - a ]");
  EXPECT_EQ(to_text(v), "[2*4:7, 3] <- [-a+2b+1]");
  EXPECT_EQ(shape_of(v), (Dims{7, 3}));
  EXPECT_EQ(place(v, Dims{6, 0}), (Dims{-1 + 2 * 2 + 1}));
}

TEST(View, RefusesWhatIsNone) {
  const std::pair<const char*, const char*> bad[] = {
      {"", "expected '[' at its end"},
      {"[2] <- [b]", "digit 1 of 1"},
      {"[2] <- [a", "expected ',' or ']'"},
      {"[2] <- [a] x", "expected nothing more at \"x\""},
      {"[0] <- [a]", "expected a radix"},
      {"[-2] <- [a]", "expected a radix"},
      {"[2*3:7] <- [a]", "extent 7 is more than its digits 2*3 count to"},
      {"[2:0] <- [a]", "expected an extent"},
      {"[2] <- [a+a]", "digit a twice"},
      {"[2] <- [0a]", "coefficient 0"},
      {"[2] <- [1+2]", "two constants"},
      {"[2] <- [a+]", "a digit's letter"},
      {"[99999999999999999999] <- [a]", "expected a radix"},
      {"[2] <- [9223372036854775807a]", "a number that is not absurdly large"},
      {"[17592186044416] <- [17592186044416a]", "reaches further"},
      {"[17592186044416, 2] <- [a]", "elements"},
      {"[17592186044416*2:3] <- [a]", "dimensions of more than"},
  };
  for (auto [text, why] : bad) {
    auto v = parse_view(text);
    ASSERT_FALSE(v) << text;
    EXPECT_NE(v.error().find(why), std::string::npos) << text << ": " << v.error();
  }
  std::string many = "[1";
  for (int k = 0; k < 60; ++k) many += "*1";
  EXPECT_FALSE(parse_view(many + "] <- []"));
}

TEST(View, RoundTripsAndNormalForms) {
  std::map<std::vector<Dims>, std::string> seen;
  for (uint64_t seed = 0; seed < 3000; ++seed) {
    Rng rng(7, seed);
    View v = random_view(rng);
    ASSERT_EQ(fault(v), "");
    EXPECT_EQ(view(to_text(v)), v);
    View n = normalised(v);
    ASSERT_EQ(fault(n), "") << to_text(v);
    EXPECT_EQ(normalised(n), n) << to_text(v);
    EXPECT_EQ(shape_of(n), shape_of(v));
    // The same map, by all of its values; and no other text for the same one.
    std::vector<Dims> values = {shape_of(v), {static_cast<int64_t>(v.index.size())}};
    std::vector<std::pair<int64_t, int64_t>> range(v.index.size(), {INT64_MAX, INT64_MIN});
    for (const Dims& at : positions(shape_of(v))) {
      Dims to = place(v, at);
      EXPECT_EQ(place(n, at), to) << to_text(v) << " and " << to_text(n);
      for (size_t d = 0; d < to.size(); ++d)
        range[d] = {std::min(range[d].first, to[d]), std::max(range[d].second, to[d])};
      values.push_back(std::move(to));
    }
    EXPECT_EQ(reach(v), range) << to_text(v);
    auto [it, fresh] = seen.emplace(values, to_text(n));
    EXPECT_EQ(it->second, to_text(n)) << (fresh ? "" : to_text(v));
  }
}

TEST(View, IdentityAndTotality) {
  EXPECT_TRUE(is_identity(view("[2*3, 1, 5] <- [3a+b, 0, d]"), {6, 1, 5}));
  EXPECT_TRUE(is_identity(view("[2*4:7] <- [4a+b]"), {7}));
  EXPECT_FALSE(is_identity(view("[2*3] <- [a+2b]"), {6}));
  EXPECT_FALSE(is_identity(view("[6] <- [a]"), {7}));
  EXPECT_FALSE(is_identity(view("[6] <- [a, 0]"), {6, 1}));
  EXPECT_TRUE(is_total(view("[2*4:7] <- [4a+b]"), {7}));
  EXPECT_FALSE(is_total(view("[2*4] <- [4a+b]"), {7}));
  EXPECT_FALSE(is_total(view("[4] <- [a-1]"), {7}));
}

TEST(View, DimensionsThatPass) {
  View v = view("[3, 4, 2*5, 1] <- [b, c, a, 0]");
  const Dims shape = {4, 2, 3, 1};
  EXPECT_EQ(passed(v, 0, shape), size_t{2});
  EXPECT_EQ(passed(v, 1, shape), size_t{0});
  EXPECT_EQ(passed(v, 2, shape), std::nullopt);  // only a digit of it
  EXPECT_EQ(passed(v, 3, shape), size_t{3});
  EXPECT_EQ(passed(v, 1, {5, 2, 3, 1}), std::nullopt);  // cropped
  EXPECT_EQ(passed(view("[3] <- [a+1]"), 0, {3}), std::nullopt);
  EXPECT_EQ(passed(view("[3] <- [a, a]"), 0, {3, 3}), std::nullopt);
  EXPECT_EQ(to_text(with_extent(v, 0, 2, 7)), "[7, 4, 2*5, 1] <- [b, c, a, 0]");
  EXPECT_EQ(to_text(with_extent(v, 3, 3, 7)), "[3, 4, 2*5, 7] <- [b, c, a, e]");
  EXPECT_EQ(to_text(with_extent(v, 0, 2, 1)), "[1, 4, 2*5, 1] <- [b, c, 0, 0]");
}

// What the header says of `split_view`, taken literally.
TEST(View, SplitsIntoParts) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    Rng rng(11, seed);
    Dims shape = {rng.between(1, 3), rng.between(1, 3), rng.between(1, 6)};
    SplitView s{.axis = static_cast<size_t>(rng.between(0, 2)),
                .into = 0,
                .count = rng.between(1, 3),
                .step = rng.between(-1, 4),
                .stride = rng.between(1, 3),
                .size = rng.between(1, 5),
                .offset = rng.between(-2, 1),
                .slow = rng.between(0, 1) == 0};
    s.into = (s.axis + static_cast<size_t>(rng.between(1, 2))) % 3;
    View v = split_view(shape, s);
    Dims expected_shape = shape;
    expected_shape[s.axis] = s.size;
    expected_shape[s.into] *= s.count;
    ASSERT_EQ(shape_of(v), expected_shape);
    for (const Dims& at : positions(expected_shape)) {
      int64_t whole = shape[s.into], q = at[s.into];
      int64_t i = s.slow ? q / whole : q % s.count, t = s.slow ? q % whole : q / s.count;
      Dims from = at;
      from[s.into] = t;
      from[s.axis] = i * s.step + at[s.axis] * s.stride + s.offset;
      EXPECT_EQ(place(v, at), from) << to_text(v);
    }
  }
}

// A canvas is written image by image, and read by the view.
TEST(View, JoinsParts) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    Rng rng(13, seed);
    JoinView j{.axis = static_cast<size_t>(rng.between(0, 2)),
               .from = 0,
               .count = rng.between(1, 3),
               .period = 0,
               .size = 1,
               .slow = rng.between(0, 1) == 0};
    j.from = (j.axis + static_cast<size_t>(rng.between(1, 2))) % 3;
    Dims shape = {rng.between(1, 3), rng.between(1, 3), rng.between(1, 3)};
    const int64_t whole = shape[j.from], n = shape[j.axis];
    shape[j.from] = whole * j.count;
    const bool blocks = rng.between(0, 1) == 0;
    if (blocks) j.period = n + rng.between(0, 2);
    j.size = rng.between(1, blocks ? j.count * j.period : j.count * n);
    View v = join_view(shape, j);
    std::map<Dims, Dims> canvas;  // where every element of x goes
    for (const Dims& at : positions(shape)) {
      int64_t i = j.slow ? at[j.from] / whole : at[j.from] % j.count;
      Dims to = at;
      to[j.from] = j.slow ? at[j.from] % whole : at[j.from] / j.count;
      to[j.axis] = blocks ? i * j.period + at[j.axis] : at[j.axis] * j.count + i;
      canvas[to] = at;
    }
    Dims expected_shape = shape;
    expected_shape[j.axis] = j.size;
    expected_shape[j.from] = whole;
    ASSERT_EQ(shape_of(v), expected_shape);
    for (const Dims& at : positions(expected_shape)) {
      Dims from = place(v, at);
      auto it = canvas.find(at);
      EXPECT_EQ(inside(from, shape), it != canvas.end()) << to_text(v);
      EXPECT_EQ(from, it != canvas.end() ? it->second : from) << to_text(v);
    }
  }
}

}  // namespace
}  // namespace emend
