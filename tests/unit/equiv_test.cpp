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

void expect_different(const std::string& a, const std::string& b) {
  Verdict v = verdict(a, b);
  EXPECT_EQ(to_text(v.kind), "different") << a << "\n" << b << "\n" << v.reason;
}

std::string elementwise(const std::string& type, const std::string& value) {
  return "graph(x: " + type + "[4], z: " + type + "[4]) { return " + value + " }";
}

TEST(Equiv, IntegersThatWrapAreSeenAtTheEndsOfTheirTypes) {
  for (const char* type : {"u8", "i8", "u16", "i16", "i32", "i64", "u32", "u64"}) {
    std::string one = str("constant ", type, "[]{1}");
    expect_different(elementwise(type, "max(add(x, " + one + "), x)"),
                     elementwise(type, "add(x, " + one + ")"));
  }
  for (const char* type : {"i8", "i16", "i32", "i64"}) {
    std::string zero = str("constant ", type, "[]{0}"), five = str("constant ", type, "[]{5}");
    expect_different(elementwise(type, "less(abs(x), " + zero + ")"),
                     elementwise(type, "less(x, x)"));
    expect_different(elementwise(type, "greater(sub(x, z), " + zero + ")"),
                     elementwise(type, "greater(x, z)"));
    expect_different(elementwise(type, "max(add(x, x), " + zero + ")"),
                     elementwise(type, "mul(max(x, " + zero + "), constant " + type + "[]{2})"));
    expect_different(elementwise(type, "div(mul(x, " + five + "), " + five + ")"),
                     elementwise(type, "add(x, " + zero + ")"));
  }
}

TEST(Equiv, IntegersThatWrapAreNoHindranceWhereItDoesNotMatter) {
  // Rings know no order; order alone wraps nothing; and small numbers stay small.
  EXPECT_EQUAL(elementwise("i8", "mul(x, add(x, z))"),
               elementwise("i8", "add(mul(z, x), mul(x, x))"), "symbols");
  EXPECT_EQUAL(elementwise("i32", "max(min(x, constant i32[]{5}), constant i32[]{0})"),
               elementwise("i32", "min(max(x, constant i32[]{0}), constant i32[]{5})"), "symbols");
  auto wide = [](const std::string& x) { return "cast[to=i32](" + x + ")"; };
  EXPECT_EQUAL(
      elementwise("u8", "max(sub(" + wide("x") + ", " + wide("z") + "), constant i32[]{0})"),
      elementwise("u8", "sub(max(" + wide("x") + ", " + wide("z") + "), " + wide("z") + ")"),
      "symbols");
}

TEST(Equiv, RoundingShowsBehindAPowerThatMustStayWhole) {
  const std::string power = "graph(x: f16[16]) {\n%p = pow(x, constant f16[]{2.0})\nreturn mul(";
  const std::string twice = power + "mul(%p, constant f16[]{0.3}), constant f16[]{0.7}) }";
  Verdict v = verdict(twice, power + "%p, constant f16[]{0.21}) }");
  EXPECT_NE(to_text(v.kind), "different") << v.reason;
  v = verdict(twice, power + "%p, constant f16[]{0.22}) }");
  EXPECT_EQ(to_text(v.kind), "different") << v.reason;
}

TEST(Equiv, AnElementIsHeldToItsOwnTerms) {
  const std::string x = "graph(x: f32[1,4]) { return ";
  // One channel of two is small beside the other.
  expect_different(x + "mul(x, constant f32[4]{1e8, 1.0, 1.0, 1.0}) }",
                   x + "mul(x, constant f32[4]{1e8, 1.0, -1.0, 1.0}) }");
  expect_different(x + "mul(x, constant f32[4]{1e8, 1.0, 1.0, 1.0}) }",
                   x + "mul(x, constant f32[4]{1e8, 1.0, 1.0001, 1.0}) }");
  expect_different("graph(x: f32[2]) { return constant f32[2]{1e10, 2.0} }",
                   "graph(x: f32[2]) { return constant f32[2]{1e10, 3.0} }");
  // One weight of many by ten roundings; one rounding is what folding may do.
  auto sum = [](const char* w) {
    return str("graph(x: f32[3,4]) { return matmul(x, constant f32[4,2]{0.1, 0.2, 0.3, 0.4, ", w,
               ", 0.6, 0.7, 0.8}) }");
  };
  EXPECT_NE(to_text(verdict(sum("0.5"), sum("0.5000006")).kind), "equal");
  EXPECT_EQUAL(sum("0.5"), sum("0.50000006"), "doubles");
}

TEST(Equiv, AStepThatWasTippedIsNotEqual) {
  auto sign = [](const char* small) {
    return str("graph(x: f32[1,4]) { return sign(matmul(x, constant f32[4,2]{1e7, ", small,
               ", 2e7, 1.0, -1e7, 0.5, 3e7, 0.3})) }");
  };
  EXPECT_NE(to_text(verdict(sign("1.0"), sign("-1.0")).kind), "equal");
}

TEST(Equiv, ASmallChangeFarAboveRoundingIsADifference) {
  auto layer = [](const char* bias) {
    return str(
        "graph(x: f32[5,4]) { return add(tanh(matmul(x, constant f32[4,2]{0.1, -0.2, 0.3, 0.4, "
        "-0.5, 0.6, 0.7, 0.8})), constant f32[2]{0.5, ",
        bias, "}) }");
  };
  expect_different(layer("0.25"), layer("0.2501"));
}

TEST(Equiv, WhatIsSaidOfFiniteValuesSaysSo) {
  auto bools = [](const std::string& value) { return "graph(x: f32[4]) { return " + value + " }"; };
  Verdict v = verdict(bools("is_nan(x)"), bools("less(x, x)"));
  EXPECT_TRUE(v.kind != Verdict::Kind::equal || v.finite_only);
  EXPECT_FALSE(verdict(bools("is_nan(x)"), bools("is_nan(x)")).finite_only);
}

TEST(Equiv, ATolerancesDifferencesAreAllowed) {
  auto moved = [](const char* by) {
    return parse_graph(str("graph(x: f32[8]) { return add(x, constant f32[]{", by, "}) }"));
  };
  auto at = [&](double atol) {
    return compare(moved("0.0"), moved("0.01"), {.tolerance = AllowedDifference{0, atol}});
  };
  EXPECT_EQ(to_text(at(0.02).kind), "equal");
  EXPECT_EQ(at(0.02).method, "tolerance");
  EXPECT_EQ(to_text(at(0.001).kind), "different");
}

TEST(Equiv, TheFirstNodeThatDiffersIsNamed) {
  auto program = [](const char* w) {
    return parse_graph(
        str("graph(x: f32[8]) { %a = tanh(x) @\"first\" %b = mul(%a, constant f32[]{", w,
            "}) @\"second\" %c = relu(%b) @\"third\" return %c }"));
  };
  Verdict v = compare(program("0.5"), program("0.6"), {.where = true});
  EXPECT_EQ(to_text(v.kind), "different");
  ASSERT_TRUE(v.where);
  EXPECT_EQ(v.where->node, "second");
}

TEST(Equiv, AProofThatTakesTooLongLeavesWhatTheNumbersSay) {
  std::string a = "graph(x: f32[64,64]) {", b = a;
  for (int i = 0; i < 6; ++i) {
    std::string from = i ? str("%", i) : "x";
    a += str("%", i + 1, " = relu(relu(matmul(", from, ", ", from, ")))\n");
    b += str("%", i + 1, " = relu(matmul(", from, ", ", from, "))\n");
  }
  Verdict v =
      compare(parse_graph(a + "return %6 }"), parse_graph(b + "return %6 }"), {.seconds = 1e-3});
  EXPECT_EQ(to_text(v.kind), "unknown");
  EXPECT_TRUE(v.out_of_time);
  EXPECT_EQ(v.worst.abs, 0) << v.reason;
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
