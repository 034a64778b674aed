// What terms fall apart into; that programs agree where their factors do is what agreement_test
// asks the interpreter.
#include "equiv/factors.h"

#include <gtest/gtest.h>

#include <set>

#include "text/text.h"

namespace emend {
namespace {

TermPair terms(std::string_view a, std::string_view b) {
  Graph x = parse_graph(a), y = parse_graph(b);
  TermPair p;
  p.digits = digits_of(x.type(x.outputs[0].node).shape);
  Leaves leaves;
  // Twice: what the second program splits, the first must know.
  for (int i = 0; i < 2; ++i) {
    p.a = terms_of(x, p.digits, leaves).value_or_throw();
    p.b = terms_of(y, p.digits, leaves).value_or_throw();
  }
  return p;
}

// The output's dimensions of each factor that has any.
std::set<std::set<int>> dimensions(const TermPair& whole) {
  std::set<std::set<int>> all;
  std::set<int> digits;
  for (const TermFactor& f : factors_of(whole)) {
    std::set<int> dims;
    for (int d : f.digits) {
      EXPECT_TRUE(digits.insert(d).second) << "digit " << d << " is in two factors";
      dims.insert(whole.digits.all[static_cast<size_t>(d)].dim);
    }
    if (!dims.empty()) all.insert(dims);
  }
  EXPECT_EQ(digits.size(), whole.digits.all.size());
  return all;
}

const std::string kIn = "graph(x: f32[2,3,8,9], w: f32[4,3,3,3]) { return ";

std::string conv(std::string_view of, int dilation) {
  return str("conv[strides=[1,1], dilations=[", dilation, ",", dilation, "], pads=[", dilation, ",",
             dilation, ",", dilation, ",", dilation, "], group=1](", of, ", w)");
}

TEST(Factors, RowsAndColumnsOfAMosaicAreApart) {
  // Two terms along each: a window of one phase may reach into the next.
  TermPair p =
      terms(kIn + conv("x", 2) + " }",
            kIn + "view[map=\"[2, 4, 4*2, 5*2:9] <- [a, b, c+5d, e+6f]\"](" +
                conv("view[map=\"[2, 3, 2*5, 2*6] <- [a, b, c+2d, e+2f]\"](x)", 1) + ") }");
  EXPECT_GT(p.b.size(), 1u);
  EXPECT_EQ(dimensions(p), (std::set<std::set<int>>{{0}, {1}, {2}, {3}}));
}

TEST(Factors, ImagesSideBySideTieBatchAndColumns) {
  TermPair p =
      terms(kIn + conv("x", 1) + " }",
            kIn + "transpose[perm=[2,0,1,3]](reshape[shape=[4,8,2,9]](" +
                conv("reshape[shape=[1,3,8,18]](transpose[perm=[1,2,0,3]](x))", 1) + ")) }");
  EXPECT_EQ(dimensions(p), (std::set<std::set<int>>{{0, 3}, {1}, {2}}));
}

TEST(Factors, ALeafReadTwiceKeepsItsDimensionsTogether) {
  const std::string square = "graph(x: f32[3,3]) { return mul(x, transpose[perm=[1,0]](x)) }";
  EXPECT_EQ(factors_of(terms(square, square)).size(), 1u);
}

TEST(Factors, TermsThatDoNotAllMeetStayTogether) {
  const std::string blocks =
      "graph(x: f32[4,4]) { return add("
      "pad[pads=[0,0,2,2]](slice[starts=[0,0], sizes=[2,2], steps=[1,1]](x)), "
      "pad[pads=[2,2,0,0]](slice[starts=[2,2], sizes=[2,2], steps=[1,1]](x))) }";
  EXPECT_EQ(dimensions(terms(blocks, "graph(x: f32[4,4]) { return x }")),
            (std::set<std::set<int>>{{0, 1}}));
}

}  // namespace
}  // namespace emend
