// Random typed programs through the search: whatever is taken out of an e-graph equals what was put
// in. Prices are drawn at random, so that every rule's right side is chosen sometimes and chains of
// rules meet one another. Some are compiled and run, too. EMEND_CASES says how many programs
// (10,000 by hand, 1,000 where they are compiled; fewer in CI).
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "base/rng.h"
#include "equiv/compare.h"
#include "ops/table.h"
#include "ops/verify.h"
#include "pipeline/accuracy.h"
#include "pipeline/compile.h"
#include "pipeline/improve.h"
#include "pipeline/optimize.h"
#include "rules/draw_map.h"
#include "support/extracted.h"
#include "support/scratch.h"
#include "text/text.h"

namespace emend {
namespace {

size_t cases(size_t otherwise) {
  const char* n = std::getenv("EMEND_CASES");
  return n ? static_cast<size_t>(std::atoll(n)) : otherwise;
}

// Programs of matrices and pictures. `polynomial`: sums, products and moves only.
class Drawer {
 public:
  Drawer(uint64_t seed, bool polynomial) : rng_(seed), polynomial_(polynomial) {}

  Graph draw() {
    int64_t inputs = rng_.between(1, 3);
    for (int64_t i = 0; i < inputs; ++i) {
      bool picture = rng_.between(0, 2) == 0;
      Dims shape = picture ? Dims{rng_.between(1, 2), 2 * rng_.between(1, 2), 4, 5}
                           : Dims{rng_.between(1, 4), rng_.between(2, 4)};
      live_.push_back(b_.input(str("x", i), Type::tensor(DType::f32, shape)));
    }
    for (int64_t n = rng_.between(4, 10); n > 0;) n -= step();
    b_.output("y", live_.back());
    b_.output("z", rng_.pick(live_));
    return std::move(b_).build();
  }

 private:
  NodeId weight(Dims shape) {
    std::vector<double> v(static_cast<size_t>(count(shape)));
    for (double& x : v) x = static_cast<double>(rng_.between(-3, 3));
    return b_.constant(Tensor::of_reals(DType::f32, std::move(shape), v));
  }

  // Another value of this shape, or a weight.
  NodeId alike(NodeId x) {
    std::vector<NodeId> fitting;
    for (NodeId n : live_) {
      if (b_.shape(n) == b_.shape(x)) fitting.push_back(n);
    }
    return rng_.between(0, 2) == 0 ? weight(b_.shape(x)) : rng_.pick(fitting);
  }

  // What may stand there instead of any other operand.
  int step() {
    NodeId x = rng_.pick(live_);
    Result<NodeId> made = polynomial_ || rng_.between(0, 3) ? linear(x) : other(x);
    if (!made || count(b_.shape(*made)) > 400) return 0;
    live_.push_back(*made);
    return 1;
  }

  Result<NodeId> tried(std::string_view op, std::vector<NodeId> args, Attrs attrs = {}) {
    return b_.try_op(op_named(op), args, attrs);
  }

  Result<NodeId> linear(NodeId x) {
    const Dims s = b_.shape(x);
    auto rank = static_cast<int64_t>(s.size());
    if (rank == 0) return tried("neg", {x});
    switch (rng_.between(0, 13)) {
      case 0:
        return tried("add", {x, alike(x)});
      case 1:
        return tried("mul", {x, rng_.between(0, 1) ? alike(x) : weight({1})});
      case 2:
        return tried("sub", {x, alike(x)});
      case 3:
      case 4:
        if (rank == 2) {
          // Shared operands are what merges look for.
          NodeId left = x, right = weight({s[1], rng_.between(1, 4)});
          NodeId p = b_.op("matmul", {left, right});
          live_.push_back(p);
          return tried("matmul", {left, weight({s[1], rng_.between(1, 4)})});
        }
        return conv(x);
      case 5:
        return conv(x);
      case 6: {
        int64_t axis = rng_.between(0, rank - 1);
        return tried("concat", {x, alike(x)}, Attrs({{"axis", axis}}));
      }
      case 7: {
        if (rank < 2) return tried("neg", {x});
        Dims perm(s.size());
        for (size_t i = 0; i < perm.size(); ++i) perm[i] = static_cast<int64_t>(i);
        std::swap(perm[perm.size() - 1], perm[perm.size() - 2]);
        return tried("transpose", {x}, Attrs({{"perm", perm}}));
      }
      case 8:
        return tried("reshape", {x}, Attrs({{"shape", Dims{count(s) / s.back(), s.back()}}}));
      case 9: {
        int64_t axis = rng_.between(0, rank - 1), size = s[static_cast<size_t>(axis)];
        if (size < 2) return tried("neg", {x});
        NodeId parts = b_.op("split", {x}, Attrs({{"axis", axis}, {"sizes", Dims{1, size - 1}}}));
        live_.push_back(b_.get(parts, 0));
        return b_.get(parts, 1);
      }
      case 10:
        return tried("reduce_sum", {x},
                     Attrs({{"axes", Dims{rank - 1}}, {"keepdims", rng_.between(0, 1) == 1}}));
      case 11:
        return tried("view", {x}, Attrs({{"map", to_text(some_view(s, rng_))}}));
      case 12:
        return patched(x);
      default:
        return tried("matmul", {x, alike(x)});
    }
  }

  // Another value over one corner or slab of it.
  Result<NodeId> patched(NodeId x) {
    const Dims s = b_.shape(x);
    Dims starts, sizes;
    for (int64_t n : s) {
      sizes.push_back(rng_.between(0, 1) ? n : rng_.between(1, n));
      starts.push_back(rng_.between(0, n - sizes.back()));
    }
    Attrs part({{"starts", starts}, {"sizes", sizes}, {"steps", Dims(s.size(), 1)}});
    auto fix = tried("slice", {alike(x)}, part);
    if (!fix) return fix;
    return tried("patch", {x, *fix}, Attrs({{"begin", starts}}));
  }

  Result<NodeId> conv(NodeId x) {
    const Dims s = b_.shape(x);
    if (s.size() != 4) return tried("neg", {x});
    int64_t group = s[1] % 2 == 0 && rng_.between(0, 2) == 0 ? 2 : 1, k = rng_.between(1, 3);
    NodeId w = weight({group * rng_.between(1, 2), s[1] / group, k, k});
    Attrs attrs({{"group", group},
                 {"pads", Dims(4, rng_.between(0, 1))},
                 {"strides", Dims(2, rng_.between(1, 2))}});
    auto first = tried("conv", {x, w}, attrs);
    if (!first) return first;
    live_.push_back(*first);
    return tried("conv", {x, weight(b_.shape(w))}, attrs);
  }

  Result<NodeId> other(NodeId x) {
    static const char* const kUnary[] = {"relu", "sigmoid", "tanh", "exp", "abs", "neg", "gelu"};
    if (b_.shape(x).empty()) return tried("neg", {x});
    switch (rng_.between(0, 4)) {
      case 0:
        return tried("softmax", {x}, Attrs({{"axis", b_.type(x).rank() - 1}}));
      case 1:
        return tried("max", {x, alike(x)});
      case 2:
        return tried("reduce_mean", {x}, Attrs({{"axes", Dims{b_.type(x).rank() - 1}}}));
      default:
        return tried(kUnary[rng_.between(0, 6)], {x});
    }
  }

  Rng rng_;
  bool polynomial_;
  GraphBuilder b_;
  std::vector<NodeId> live_;
};

// Any program of the e-graph.
Graph some_program(const TensorEGraph& g, Rng& rng) {
  auto price = [&](const ENode&) { return static_cast<double>(rng.between(1, 1000)); };
  return extracted(g, price, greedy_tree);
}

void check(uint64_t seed, bool polynomial) {
  Graph g = Drawer(seed, polynomial).draw();
  auto egraph = saturate(g, {.nodes = 400, .rounds = 4});
  EXPECT_EQ(egraph->engine().faults(), std::vector<std::string>());
  improve(g, {.saturate = {.nodes = 400, .rounds = 4},
              .prices = back_end_prices(Target{})});  // it must not trip
  Rng rng(seed);
  for (int k = 0; k < 2; ++k) {
    Graph other = some_program(*egraph, rng);
    verify(other, "search_test");
    Verdict v = compare(g, other, {.seed = seed + 1});
    bool good = v.kind == Verdict::Kind::equal || (!polynomial && v.kind == Verdict::Kind::unknown);
    ASSERT_TRUE(good) << "seed " << seed << ": " << to_text(v.kind) << ", " << v.reason << '\n'
                      << print(g) << "became\n"
                      << print(other);
  }
}

// What was taken out, compiled, against what was put in. A result may also agree with the reference
// as it rounds: where rounding tips a choice, both are right.
void check_compiled(uint64_t seed, const CompileFlowOptions& options) {
  Graph g = Drawer(seed, false).draw();
  Rng rng(seed);
  SaturateOptions few{.nodes = 400, .rounds = 4};
  Graph other = seed % 2 ? some_program(*saturate(g, few), rng)
                         : optimized(g, {.seed = seed, .target = Target{}});
  std::vector<Value> inputs = random_inputs(g, seed);
  auto exact = reference_outputs(g, inputs, Arithmetic::real64);
  double own = worst_difference(g, exact, reference_outputs(g, inputs, Arithmetic::own)).rel;
  CompileReport report;
  std::vector<Value> outputs = as_doubles(compile(other, options, &report).run(inputs));
  EXPECT_EQ(report.faults, std::vector<std::string>()) << "seed " << seed;
  double error = worst_difference(g, exact, outputs).rel;
  double allowed = std::isfinite(own) ? std::max(1e-4, 4 * own) : 1e-4;
  if (error <= allowed) return;
  auto rounded = reference_outputs(other, inputs, Arithmetic::own);
  ASSERT_LE(worst_difference(other, rounded, outputs).rel, 1e-4)
      << "seed " << seed << ": error of " << error << '\n'
      << print(g) << "became\n"
      << print(other);
}

}  // namespace

// Compiling takes a while: few in CI.
TEST(Search, CompiledProgramsStayEqual) {
  Scratch scratch;
  CompileFlowOptions options;
  options.cpu.compile.cache = scratch / "kernels";
  for (size_t i = 0; i < std::min<size_t>(cases(100), 1000) && !HasFatalFailure(); ++i)
    check_compiled(900000 + i, options);
}

TEST(Search, PolynomialProgramsStayEqual) {
  for (size_t i = 0; i < cases(400) && !HasFatalFailure(); ++i) check(1000 + i, true);
}

TEST(Search, ProgramsStayEqual) {
  for (size_t i = 0; i < cases(400) && !HasFatalFailure(); ++i) check(500000 + i, false);
}

// relu(a) dies when a becomes one with the older b, of which a rule has made a relu.
TEST(Search, GivenNodesMayDie) {
  Graph g = parse_graph(
      "graph(x: f32[3,4], y: f32[3,4], z: f32[3,4]) {\n"
      "  %b = add(mul(x, y), mul(x, z))\n"
      "  %p = relu(transpose[perm=[1,0]](%b))\n"
      "  %o = relu(mul(x, add(y, z)))\n"
      "  return %p, %o\n}\n");
  Graph better = improve(g, {.prices = back_end_prices(Target{})});
  EXPECT_EQ(compare(g, better).kind, Verdict::Kind::equal);
}

TEST(Search, TheSameEveryTime) {
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    Graph g = Drawer(seed, false).draw();
    auto once = optimized(g, {.level = 2, .target = Target{}});
    EXPECT_EQ(print(once), print(optimized(g, {.level = 2, .target = Target{}})));
  }
}

}  // namespace emend
