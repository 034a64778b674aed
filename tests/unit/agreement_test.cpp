// Where programs agree, against the interpreter over the prime field at every position.
#include "equiv/agreement.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <set>

#include "base/rng.h"
#include "equiv/compare.h"
#include "equiv/field_value.h"
#include "ops/contraction.h"
#include "ops/evaluate.h"
#include "ops/movement.h"
#include "ops/table.h"
#include "text/text.h"

namespace emend {
namespace {

size_t cases(size_t otherwise) {
  const char* n = std::getenv("EMEND_CASES");
  return n ? static_cast<size_t>(std::atoll(n)) : otherwise;
}

// Positions at which the interpreter finds equal values over the field.
std::set<Dims> oracle(const Graph& a, const Graph& b) {
  std::vector<Value> inputs;
  for (size_t i = 0; i < a.inputs.size(); ++i) {
    Dims shape = a.type(a.inputs[i].node).shape;
    uint64_t n = 0;
    inputs.emplace_back(Tensor::make(DType::u64, shape, [&](std::byte* bytes) {
      auto* v = reinterpret_cast<uint64_t*>(bytes);
      for (int64_t k = 0; k < count(shape); ++k) v[k] = random_bits(99, i, n++) % Mod61::kPrime;
    }));
  }
  EvalOptions in_field{.arithmetic = Arithmetic::field};
  Tensor x = evaluate(a, inputs, in_field)[0].tensor, y = evaluate(b, inputs, in_field)[0].tensor;
  std::set<Dims> equal;
  Dims shape = x.shape(), at(shape.size(), 0);
  for (int64_t i = 0; i < x.count(); ++i) {
    int64_t rest = i;
    for (size_t d = shape.size(); d-- > 0; rest /= shape[d]) at[d] = rest % shape[d];
    if (x.integer(i) == y.integer(i)) equal.insert(at);
  }
  return equal;
}

struct Checked {
  bool shown = false;
  double share = 0;  // of the positions that do agree: how many were said to
};

// Boxes are disjoint, cover every position, and none is too large.
Checked check(const Graph& a, const Graph& b, const AgreementOptions& options = {}) {
  auto found = agreement(a, b, options);
  if (!found) return {};
  const Dims& shape = a.type(a.outputs[0].node).shape;
  std::set<Dims> truth = oracle(a, b), seen;
  size_t said = 0;
  for (const Agreement::Box& box : found->boxes) {
    for (const Dims& p : positions_of(*found, box, shape.size())) {
      EXPECT_TRUE(seen.insert(p).second) << "twice: " << shape_text(p);
      if (!box.agree) continue;
      ++said;
      EXPECT_TRUE(truth.contains(p)) << "said to agree at " << shape_text(p) << "\n"
                                     << print(a) << print(b);
    }
  }
  EXPECT_EQ(static_cast<int64_t>(seen.size()), count(shape));
  return {true, truth.empty() ? 1 : static_cast<double>(said) / static_cast<double>(truth.size())};
}

double share(std::string_view a, std::string_view b) {
  Graph x = parse_graph(a), y = parse_graph(b);
  check(x, y);
  auto found = agreement(x, y);
  EXPECT_TRUE(found) << found.error();
  return found ? found->share() : -1;
}

TEST(Agreement, EqualPrograms) {
  const char* conv =
      "graph(x: f32[2,3,7,6], w: f32[4,3,3,3]) { return conv[strides=[1,1], "
      "dilations=[1,1], pads=[1,1,1,1], group=1](x, w) }";
  EXPECT_EQ(share(conv, conv), 1);
  EXPECT_EQ(share("graph(a: f32[4,5], b: f32[5,6]) { return matmul(a, b) }",
                  "graph(a: f32[4,5], b: f32[5,6]) { return transpose[perm=[1,0]]("
                  "matmul(transpose[perm=[1,0]](b), transpose[perm=[1,0]](a))) }"),
            1);
  EXPECT_EQ(share("graph(x: f32[4,6]) { return reshape[shape=[4,6]](reshape[shape=[3,8]](x)) }",
                  "graph(x: f32[4,6]) { return x }"),
            1);
}

TEST(Agreement, AMovedTapIsWrongEverywhereButWhereItReadsZeros) {
  double s = share(
      "graph(x: f32[1,1,8], w: f32[1,1,3]) { return conv[strides=[1], dilations=[1], pads=[1,1], "
      "group=1](x, w) }",
      "graph(x: f32[1,1,8], w: f32[1,1,3]) { return conv[strides=[1], dilations=[1], pads=[0,2], "
      "group=1](x, w) }");
  EXPECT_EQ(s, 0);
}

// Two images side by side: wrong at the joint, where windows see both.
TEST(Agreement, PairsOfImagesAreWrongAtTheJoint) {
  const std::string conv = "conv[strides=[1,1], dilations=[1,1], pads=[1,1,1,1], group=1](";
  double s = share("graph(x: f32[2,3,5,6], w: f32[4,3,3,3]) { return " + conv + "x, w) }",
                   "graph(x: f32[2,3,5,6], w: f32[4,3,3,3]) {\n"
                   "%1 = transpose[perm=[1,2,0,3]](x)\n"
                   "%2 = " +
                       conv +
                       "reshape[shape=[1,3,5,12]](%1), w)\n"
                       "return transpose[perm=[2,0,1,3]](reshape[shape=[4,5,2,6]](%2)) }");
  EXPECT_DOUBLE_EQ(s, 10.0 / 12.0);
}

TEST(Agreement, SumsThatMeetAtSomePointsDoNotAgree) {
  // X[i,j] + X[j,i] against X[i+j,0] + X[0,i+j]: the same at (0,0), (0,1), (1,0), not at (1,1).
  Graph a = parse_graph(
      "graph(x: f32[3,3]) { return slice[starts=[0,0], sizes=[2,2], "
      "steps=[1,1]](add(x, transpose[perm=[1,0]](x))) }");
  GraphBuilder b;
  NodeId x = b.input("x", Type::tensor(DType::f32, {3, 3}));
  auto at = [&](int64_t r, int64_t c) { return b.op("slice", {x}, Slice{{r, c}, {1, 1}, {1, 1}}); };
  auto row = [&](int64_t i) {
    NodeId l = b.op("add", {at(i, 0), at(0, i)}), r = b.op("add", {at(i + 1, 0), at(0, i + 1)});
    return b.op("concat", {l, r}, Axis{1});
  };
  b.output("y", b.op("concat", {row(0), row(1)}, Axis{0}));
  Graph g = std::move(b).build();
  check(a, g);
  auto found = agreement(a, g);
  ASSERT_TRUE(found) << found.error();
  EXPECT_FALSE(found->everywhere());
}

// Two reads of one input trade a dimension: along each alone nothing changed.
TEST(Agreement, DimensionsOfTwoReadsAreNotTraded) {
  auto outer = [](const std::string& left, const std::string& right) {
    auto read = [](const std::string& at) { return "view[map=\"[2, 3, 2, 3] <- " + at + "\"](x)"; };
    return "graph(x: f32[2,3]) { return mul(" + read(left) + ", " + read(right) + ") }";
  };
  EXPECT_EQ(share(outer("[a, b]", "[c, d]"), outer("[c, d]", "[a, b]")), 1);
  EXPECT_LT(share(outer("[a, b]", "[c, d]"), outer("[a, d]", "[c, b]")), 1);
}

// Blocks on a diagonal are all of the rows and all of the columns, but not of their pairs.
TEST(Agreement, BlocksOnADiagonalAreNotAll) {
  auto block = [](std::string_view pads, std::string_view at) {
    return str("pad[pads=", pads, "](slice[starts=", at, ", sizes=[2,2], steps=[1,1]](x))");
  };
  EXPECT_EQ(share("graph(x: f32[4,4]) { return x }", "graph(x: f32[4,4]) { return add(" +
                                                         block("[0,0,2,2]", "[0,0]") + ", " +
                                                         block("[2,2,0,0]", "[2,2]") + ") }"),
            0.5);
}

// Beyond the image both are zero, whatever one of them does to its columns.
TEST(Agreement, WhatIsNothingInBothAgrees) {
  const std::string in = "graph(x: f32[1,1,3,4], w: f32[1,1,1,1]) { return ",
                    conv = "conv[strides=[1,1], dilations=[1,1], pads=[0,0,2,0], group=1](";
  EXPECT_EQ(
      share(in + conv + "x, w) }",
            in + conv + "slice[starts=[0,0,0,3], sizes=[1,1,3,4], steps=[1,1,1,-1]](x), w) }"),
      0.4);
}

TEST(Agreement, BordersOfGroupsAreBorders) {
  const std::string in = "graph(x: f32[1,4,5], w: f32[4,2,1]) { ";
  double s = share(in + "return conv[strides=[1], dilations=[1], pads=[0,0], group=2](x, w) }",
                   in + "%1 = slice[starts=[0,0,0], sizes=[3,2,1], steps=[1,1,1]](w)\n"
                        "%2 = slice[starts=[3,0,0], sizes=[1,2,1], steps=[1,1,1]](w)\n"
                        "%3 = conv[strides=[1], dilations=[1], pads=[0,0], group=1](slice[starts=["
                        "0,0,0], sizes=[1,2,5], steps=[1,1,1]](x), %1)\n"
                        "%4 = conv[strides=[1], dilations=[1], pads=[0,0], group=1](slice[starts=["
                        "0,2,0], sizes=[1,2,5], steps=[1,1,1]](x), %2)\n"
                        "return concat[axis=1](%3, %4) }");
  EXPECT_DOUBLE_EQ(s, 0.75);
}

// A dilated convolution by the phases of its image, side by side, and what goes wrong when one
// number of that is another.
TEST(Agreement, PlantedErrorsInAMosaicAreFound) {
  const std::string in = "graph(x: f32[1,3,8,9], w: f32[2,3,3,3]) { ";
  auto mosaic = [&](const std::string& fold, const std::string& pads, const std::string& unfold) {
    return in + "return view[map=\"[1, 2, 4*2, 5*2:9] <- " + unfold +
           "\"](conv[strides=[1,1], dilations=[1,1], pads=" + pads +
           ", group=1](view[map=\"[1, 3, 2*5, 2*6] <- " + fold + "\"](x), w)) }";
  };
  const std::string dilated =
      in + "return conv[strides=[1,1], dilations=[2,2], pads=[2,2,2,2], group=1](x, w) }";
  const std::string fold = "[a, b, c+2d, e+2f]", pads = "[1,1,1,1]", unfold = "[a, b, c+5d, e+6f]";
  EXPECT_EQ(share(dilated, mosaic(fold, pads, unfold)), 1);
  EXPECT_LT(share(dilated, mosaic(fold, "[0,1,2,1]", unfold)), 1) << "a tap is shifted";
  EXPECT_LT(share(dilated, mosaic("[a, b, d+5c, e+2f]", pads, unfold)), 1) << "digits are swapped";
  EXPECT_LT(share(dilated, mosaic(fold, pads, "[a, b, c+5d, e+5f]")), 1) << "another period";
  EXPECT_LT(share(dilated, mosaic("[a, b, c+2d, e+2f+1]", pads, unfold)), 1) << "another offset";
  const std::string narrow =
      in +
      "return view[map=\"[1, 2, 4*2, 5*2:9] <- [a, b, c+4d, e+5f]\"](conv[strides=[1,1], "
      "dilations=[1,1], pads=[1,1,1,1], group=1](view[map=\"[1, 3, 2*4, 2*5] <- [a, b, c+2d, "
      "e+2f]\"](x), w)) }";
  EXPECT_LT(share(dilated, narrow), 1) << "no gap";
  EXPECT_GT(share(dilated, narrow), 0.3);
}

// What compares values, or rounds in a way of its own, has no place in a proof about reals.
TEST(Agreement, NothingIsSaidOfWhatIsNotLinear) {
  const char* pairs[][2] = {
      {"graph(x: f32[4]) { return leaky_relu(x) }", "graph(x: f32[4]) { return x }"},
      {"graph(x: f32[4]) { return relu(x) }", "graph(x: f32[4]) { return x }"},
      {"graph(x: i32[4]) { %c = constant i32[1]{2}\nreturn mul(div(x, %c), %c) }",
       "graph(x: i32[4]) { return x }"},
      {"graph(x: f32[4]) { return cast[to=f32](cast[to=f16](x)) }",
       "graph(x: f32[4]) { return x }"},
  };
  for (const auto& [a, b] : pairs) {
    auto found = agreement(parse_graph(a), parse_graph(b));
    EXPECT_FALSE(found && found->share() > 0) << a;
  }
}

// --- Random pairs ---

struct Step {
  std::string op;
  std::vector<size_t> args;
  Attrs attrs;
  bool operator==(const Step&) const = default;
};

// A program as a list of steps, so that its mutants differ in one of them.
struct Recipe {
  std::vector<Dims> inputs;
  std::vector<Step> steps;

  Result<Graph> built() const {
    GraphBuilder b;
    std::vector<NodeId> values;
    for (size_t i = 0; i < inputs.size(); ++i)
      values.push_back(b.input(str("x", i), Type::tensor(DType::f32, inputs[i])));
    for (const Step& s : steps) {
      std::vector<NodeId> args;
      for (size_t a : s.args) args.push_back(values[a]);
      auto attrs = complete_attrs(op_def(op_named(s.op)), s.attrs);
      if (!attrs) return Failure{attrs.error()};
      auto made = b.try_op(op_named(s.op), args, *attrs);
      if (!made) return Failure{made.error()};
      values.push_back(*made);
    }
    b.output("y", values.back());
    return std::move(b).build();
  }
};

class PairDrawer {
 public:
  explicit PairDrawer(uint64_t seed) : rng_(seed) {}

  Recipe draw() {
    Recipe r;
    r.inputs = {
        {rng_.between(1, 2), 2 * rng_.between(1, 2), rng_.between(3, 7), rng_.between(3, 7)},
        {2 * rng_.between(1, 2), 0, rng_.between(1, 3), rng_.between(1, 3)}};
    int64_t group = rng_.between(1, 2);
    r.inputs[1][1] = r.inputs[0][1] / group;
    Conv conv{{1, 1}, {1, 1}, {0, 0, 0, 0}, group};
    for (int64_t& s : conv.strides) s = rng_.between(1, 2);
    for (int64_t& d : conv.dilations) d = rng_.between(1, 2);
    for (int64_t& p : conv.pads) p = rng_.between(0, 2);
    for (int64_t n = rng_.between(0, 2); n > 0; --n) grow(r);
    auto x = r.inputs.size() + r.steps.size() - 1;
    if (rng_.between(0, 4))
      r.steps.push_back({"conv", {r.steps.empty() ? 0 : x, 1}, to_attrs(conv)});
    for (int64_t n = rng_.between(0, 3); n > 0; --n) grow(r);
    return r;
  }

  // One step's attributes changed a little, or two steps' order.
  Recipe mutated(const Recipe& r) {
    Recipe m = r;
    if (m.steps.empty()) return m;
    Step& s =
        m.steps[static_cast<size_t>(rng_.between(0, static_cast<int64_t>(m.steps.size()) - 1))];
    for (const auto& [name, value] :
         std::vector(s.attrs.entries().begin(), s.attrs.entries().end())) {
      const Dims* list = value.as<Dims>();
      if (!list || list->empty() || rng_.between(0, 1)) continue;
      Dims changed = *list;
      size_t i = static_cast<size_t>(rng_.between(0, static_cast<int64_t>(changed.size()) - 1));
      size_t j = static_cast<size_t>(rng_.between(0, static_cast<int64_t>(changed.size()) - 1));
      if (rng_.between(0, 1)) {
        std::swap(changed[i], changed[j]);
      } else {
        changed[i] += 1;
        changed[j] -= 1;
      }
      s.attrs = s.attrs.with(name, changed);
    }
    return m;
  }

 private:
  Dims shape(const Recipe& r) {
    auto g = r.built();
    return g ? g->type(g->outputs[0].node).shape : Dims{};
  }
  void grow(Recipe& r) {
    Recipe with = r;
    if (r.steps.empty()) with.steps.push_back({"neg", {0}, {}});
    Dims s = shape(with);
    if (s.empty()) return;
    size_t last = with.inputs.size() + with.steps.size() - 1, rank = s.size();
    size_t d = static_cast<size_t>(rng_.between(0, static_cast<int64_t>(rank) - 1));
    Step step;
    switch (rng_.between(0, 7)) {
      case 0: {
        Dims perm(rank);
        for (size_t i = 0; i < rank; ++i) perm[i] = static_cast<int64_t>(i);
        std::swap(perm[d], perm[rank - 1]);
        step = {"transpose", {last}, to_attrs(Transpose{perm})};
        break;
      }
      case 1: {
        Dims pads(2 * rank, 0);
        pads[d] = rng_.between(0, 2);
        pads[d + rank] = rng_.between(0, 2);
        step = {"pad", {last}, to_attrs(Pad{pads})};
        break;
      }
      case 2: {
        Slice a{Dims(rank, 0), s, Dims(rank, 1)};
        a.starts[d] = rng_.between(0, s[d] - 1);
        a.steps[d] = rng_.between(1, 2);
        a.sizes[d] = rng_.between(1, (s[d] - a.starts[d] + a.steps[d] - 1) / a.steps[d]);
        step = {"slice", {last}, to_attrs(a)};
        break;
      }
      case 3:
        step = {"add", {last, last}, {}};
        break;
      case 4: {  // a dimension moves into its neighbour, or apart
        Dims to = s;
        if (d + 1 < rank && rng_.between(0, 1)) {
          to[d] *= to[d + 1];
          to[d + 1] = 1;
        } else {
          int64_t by = rng_.between(2, 3);
          size_t e = static_cast<size_t>(rng_.between(0, static_cast<int64_t>(rank) - 1));
          if (s[d] % by || e == d) return;
          to[d] /= by;
          to[e] *= by;
        }
        step = {"reshape", {last}, to_attrs(Reshape{to})};
        break;
      }
      case 5:
        step = {"concat", {last, last}, to_attrs(Axis{static_cast<int64_t>(d)})};
        break;
      case 6:
        step = {"mul", {last, last}, {}};
        break;
      default:
        step = {"neg", {last}, {}};
    }
    with.steps.push_back(step);
    auto built = with.built();
    if (built && count(built->type(built->outputs[0].node).shape) < 600) r = with;
  }
  Rng rng_;
};

TEST(Agreement, BoxesAreNeverTooLarge) {
  size_t pairs = 0, shown = 0, differ = 0;
  double shares = 0;
  for (uint64_t seed = 1; pairs < cases(800); ++seed) {
    PairDrawer draw(seed);
    Recipe r = draw.draw();
    auto a = r.built();
    if (!a || count(a->type(a->outputs[0].node).shape) == 0) continue;
    for (int tries = 0; tries < 20; ++tries) {
      Recipe m = draw.mutated(r);
      if (m.steps == r.steps) continue;
      auto b = m.built();
      if (!b || !(b->type(b->outputs[0].node) == a->type(a->outputs[0].node))) continue;
      SCOPED_TRACE(str("seed ", seed));
      Checked c = check(*a, *b, {.max_operations = 0});
      ++pairs;
      shown += c.shown;
      shares += c.share;
      differ +=
          oracle(*a, *b).size() != static_cast<size_t>(count(a->type(a->outputs[0].node).shape));
      if (HasFailure()) return;
    }
  }
  // The test sees differences, answers are had, and are about as large as the truth.
  EXPECT_GT(differ, pairs / 10);
  EXPECT_GT(shown, pairs * 9 / 10);
  EXPECT_GT(shares, 0.95 * static_cast<double>(shown));
  std::cout << pairs << " pairs, " << differ << " that differ, " << shown << " shown by terms, "
            << shares / static_cast<double>(shown) << " of what agrees was found\n";
}

TEST(Agreement, OneElementOverTheFieldIsWhatTheInterpreterSays) {
  Graph g = parse_graph(
      "graph(x: f32[2,3,7,6], w: f32[4,3,3,3]) { return conv[strides=[2,1], "
      "dilations=[1,2], pads=[1,1,2,1], group=1](x, w) }");
  Graph moved = parse_graph(
      "graph(x: f32[2,3,7,6], w: f32[4,3,3,3]) { return conv[strides=[2,1], "
      "dilations=[1,2], pads=[2,1,1,1], group=1](x, w) }");
  std::set<Dims> truth = oracle(g, moved);
  size_t same = 0;
  for (int64_t n = 0; n < 2; ++n) {
    for (int64_t h = 0; h < 4; ++h) {
      Dims at = {n, 1, h, 2};
      bool equal = field_value(g, at, 5) == field_value(moved, at, 5);
      EXPECT_EQ(equal, truth.contains(at));
      same += equal;
    }
  }
  EXPECT_LT(same, 8u);
}

}  // namespace
}  // namespace emend
