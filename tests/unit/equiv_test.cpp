#include <gtest/gtest.h>

#include "equiv/compare.h"
#include "equiv/region.h"
#include "text/text.h"

namespace emend {
namespace {

Verdict verdict(std::string_view a, std::string_view b) {
  return compare(parse_graph(a), parse_graph(b));
}

#define EXPECT_EQUAL(a, b, how)                                                \
  do {                                                                         \
    Verdict v = verdict(a, b);                                                 \
    EXPECT_EQ(to_text(v.kind), "equal") << v.reason << " rel " << v.worst.rel; \
    EXPECT_EQ(v.method, how);                                                  \
  } while (false)

TEST(Equiv, SameExpressionUpToCommutation) {
  EXPECT_EQUAL("graph(x: f32[3], y: f32[3]) { return add(x, y) }",
               "graph(a: f32[3], b: f32[3]) { return add(b, a) }", "same expression");
}

TEST(Equiv, PolynomialIdentities) {
  EXPECT_EQUAL("graph(a: f32[2,3], b: f32[3,4], c: f32[4,5]) { return matmul(matmul(a, b), c) }",
               "graph(a: f32[2,3], b: f32[3,4], c: f32[4,5]) { return matmul(a, matmul(b, c)) }",
               "symbols");
  EXPECT_EQUAL("graph(x: f32[2,3], y: f32[2,3], z: f32[2,3]) { return mul(x, add(y, z)) }",
               "graph(x: f32[2,3], y: f32[2,3], z: f32[2,3]) { return add(mul(x, y), mul(z, x)) }",
               "symbols");
}

TEST(Equiv, AnInputIsAValueLikeAnyOther) {
  EXPECT_EQUAL("graph(x: f32[3,4]) { return reshape[shape=[3,4]](x) }",
               "graph(x: f32[3,4]) { return x }", "symbols");
}

TEST(Equiv, ConstantsComputedAheadAreOpened) {
  const std::string weights = "%c = constant f32[2,2]{1.0, 2.0, 3.0, 4.0}\n";
  EXPECT_EQUAL("graph(x: f32[1,2]) {\n" + weights +
                   "%d = constant f32[1,2]{5.0, 6.0}\nreturn matmul(add(x, %d), %c) }",
               "graph(x: f32[1,2]) {\n" + weights +
                   "%d = constant f32[1,2]{23.0, 34.0}\nreturn add(matmul(x, %c), %d) }",
               "symbols");
}

TEST(Equiv, AValueMayTurnOutToBeAConstant) {
  EXPECT_EQUAL("graph(x: f32[2]) { return sub(x, x) }",
               "graph(x: f32[2]) {\n%c = constant f32[2]{0.0, 0.0}\nreturn %c }", "symbols");
}

TEST(Equiv, ExpKeepsItsAlgebra) {
  EXPECT_EQUAL("graph(x: f32[4], y: f32[4]) { return exp(add(x, y)) }",
               "graph(x: f32[4], y: f32[4]) { return mul(exp(x), exp(y)) }", "symbols");
  // softmax with and without the subtracted maximum
  EXPECT_EQUAL(
      "graph(x: f32[2,4]) { %1 = exp(sub(x, reduce_max[axes=[1]](x))) return div(%1, "
      "reduce_sum[axes=[1]](%1)) }",
      "graph(x: f32[2,4]) { %1 = exp(x) return div(%1, reduce_sum[axes=[1]](%1)) }", "symbols");
}

TEST(Equiv, OrderIsExactOnIntegers) {
  EXPECT_EQUAL("graph(x: f32[5]) { return relu(relu(x)) }", "graph(x: f32[5]) { return relu(x) }",
               "integers");
  EXPECT_EQUAL("graph(x: f32[5], y: f32[5]) { return max(x, y) }",
               "graph(x: f32[5], y: f32[5]) { return add(x, relu(sub(y, x))) }", "integers");
  EXPECT_EQUAL("graph(x: f32[3,4]) { return reduce_max[keepdims=false](x) }",
               "graph(x: f32[3,4]) { return reduce_max[axes=[0], "
               "keepdims=false](reduce_max[axes=[1], keepdims=false](x)) }",
               "integers");
}

TEST(Equiv, FoldedConstantsAreComparedWithinRounding) {
  EXPECT_EQUAL(
      "graph(x: f32[2]) { return mul(mul(x, constant f32[2]{0.1, 0.3}), constant f32[2]{0.7, 0.9}) "
      "}",
      "graph(x: f32[2]) { return mul(x, constant f32[2]{0.07, 0.27}) }", "doubles");
}

TEST(Equiv, DifferencesAreSeenOrAtLeastNotCalledEqual) {
  EXPECT_EQ(
      verdict("graph(x: f32[8]) { return relu(x) }", "graph(x: f32[8]) { return leaky_relu(x) }")
          .kind,
      Verdict::Kind::different);
  EXPECT_EQ(verdict("graph(x: f32[2]) { return x }", "graph(x: f32[3]) { return x }").kind,
            Verdict::Kind::different);
  // Seen only where |x| is large.
  EXPECT_NE(verdict("graph(x: f32[8]) { return min(x, constant f32[]{60.0}) }",
                    "graph(x: f32[8]) { return min(x, constant f32[]{61.0}) }")
                .kind,
            Verdict::Kind::equal);
  EXPECT_NE(verdict("graph(x: f32[2]) { return mul(x, constant f32[2]{0.5, 0.25}) }",
                    "graph(x: f32[2]) { return mul(x, constant f32[2]{0.5, 0.25001}) }")
                .kind,
            Verdict::Kind::equal);
}

// A step between floats or integers against none, with `y` added so that there is a region.
void expect_not_equal(const std::string& type, const std::string& step) {
  auto program = [&](const std::string& value) {
    return "graph(x: " + type + "[3], y: " + type + "[3]) { return add(" + value + ", y) }";
  };
  EXPECT_NE(to_text(verdict(program(step), program("x")).kind), "equal") << step;
}

TEST(Equiv, ConversionsThatRoundAreNotIdentities) {
  for (const char* narrow : {"f16", "bf16"})
    expect_not_equal("f32", str("cast[to=f32](cast[to=", narrow, "](x))"));
  for (const char* narrow : {"i32", "i16", "u16", "u8", "f32", "f16"})
    expect_not_equal("i64", str("cast[to=i64](cast[to=", narrow, "](x))"));
  expect_not_equal("f64", "cast[to=f64](cast[to=f32](x))");
  // The same conversion of the same value is the same.
  EXPECT_EQUAL("graph(x: f32[3], y: f16[3]) { return add(cast[to=f16](mul(x, x)), y) }",
               "graph(x: f32[3], y: f16[3]) { return add(y, cast[to=f16](mul(x, x))) }",
               "same expression");
}

TEST(Equiv, StepsFarFromOneAreSeen) {
  for (const char* bound : {"1e4", "1e6", "1e9", "1e15"}) {
    expect_not_equal("f32", str("clip[min=-", bound, ", max=", bound, "](x)"));
    expect_not_equal("f32", str("where(greater(x, constant f32[]{", bound, "}), y, x)"));
  }
  for (const char* bound : {"500", "5000", "1000000", "1000000000000"}) {
    expect_not_equal("i64", str("min(x, constant i64[]{", bound, "})"));
    expect_not_equal("i64", str("mod(x, constant i64[]{", bound, "})"));
  }
  expect_not_equal("i64", "abs(x)");
  expect_not_equal("i64", "max(x, constant i64[]{0})");
}

TEST(Equiv, WhatHappensBetweenIntegersCounts) {
  expect_not_equal("f32", "div(floor(mul(x, constant f32[]{1e6})), constant f32[]{1e6})");
  EXPECT_NE(to_text(verdict("graph(x: f32[64], y: f32[64]) { return where(less(x, constant "
                            "f32[]{1000.0}), x, y) }",
                            "graph(x: f32[64], y: f32[64]) { return where(less_equal(x, constant "
                            "f32[]{999.0}), x, y) }")
                        .kind),
            "equal");
}

TEST(Equiv, NoiseAndDrawsAreNoDifference) {
  // The sum of the deviations from a mean is zero but for rounding.
  std::string zero =
      "graph(x: f32[3,4]) { %1 = reduce_sum[axes=[1]](x) return mul(%1, constant f32[]{0.0}) }";
  std::string noise =
      "graph(x: f32[3,4]) { %1 = tanh(x) return reduce_sum[axes=[1]](sub(%1, "
      "reduce_mean[axes=[1]](%1))) }";
  EXPECT_NE(to_text(verdict(noise, zero).kind), "different");
  EXPECT_NE(to_text(verdict(zero, noise).kind), "different");
  auto draw = [](int stream) {
    return str("graph(x: f32[8]) { return add(x, random_uniform[stream=", stream,
               ", shape=[8]]()) }");
  };
  EXPECT_EQ(to_text(verdict(draw(1), draw(2)).kind), "unknown");
  EXPECT_EQ(to_text(verdict(draw(1), draw(1)).kind), "equal");
}

// h = h * w + x over five steps
std::string horner(const std::string& step) {
  return "graph(h: f32[3], x: f32[5,3], w: f32[]) { return get(loop[body=graph(i: i64[], s: "
         "f32[3], v: f32[3], c: f32[]) { return s = " +
         step + " }, trips=5, states=1, scan_axes=[0], scan_reverse=[0]](h, x, w)) }";
}

TEST(Equiv, LoopsAreRunInTheArithmeticOfTheComparison) {
  EXPECT_EQUAL(horner("add(mul(s, c), v)"), horner("sub(v, mul(c, neg(s)))"), "symbols");
  EXPECT_EQ(to_text(verdict(horner("add(mul(s, c), v)"), horner("add(mul(v, c), s)")).kind),
            "different");
}

TEST(Equiv, ALoopCountsItsStepsOperations) {
  EXPECT_EQ(operation_count(parse_graph(horner("add(mul(s, c), v)"))), 5 * 2 * 3);
}

}  // namespace
}  // namespace emend
