// Random typed programs through the search: whatever is taken out of an e-graph equals what was put
// in. Prices are drawn at random, so that every rule's right side is chosen sometimes and chains of
// rules meet one another. EMEND_CASES says how many programs (10,000 by hand, fewer in CI).
#include <gtest/gtest.h>

#include <cstdlib>

#include "base/rng.h"
#include "equiv/compare.h"
#include "extract/greedy.h"
#include "ops/table.h"
#include "ops/verify.h"
#include "pipeline/improve.h"
#include "pipeline/optimize.h"
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
    switch (rng_.between(0, 11)) {
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
      default:
        return tried("matmul", {x, alike(x)});
    }
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
  const EGraph& engine = g.engine();
  ExtractionProblem p;
  std::vector<ClassId> classes;
  std::vector<ENodeId> nodes;
  std::vector<uint32_t> place(engine.ids(), kNoClass);
  auto place_of = [&](ClassId c) {
    if (place[c.value] == kNoClass) {
      place[c.value] = static_cast<uint32_t>(classes.size());
      classes.push_back(c);
    }
    return place[c.value];
  };
  for (ClassId root : g.roots()) p.roots.push_back(place_of(root));
  for (size_t c = 0; c < classes.size(); ++c) {
    p.add_class();
    for (ENodeId n : engine.nodes_of(classes[c])) {
      std::vector<uint32_t> children;
      for (ClassId child : engine.node(n).children)
        children.push_back(place_of(engine.find(child)));
      p.add_node(static_cast<double>(rng.between(1, 1000)), children);
      nodes.push_back(n);
    }
  }
  std::vector<uint32_t> choice = greedy_tree(p);
  return g.graph_of([&](ClassId c) { return nodes[choice[place[c.value]]]; });
}

void check(uint64_t seed, bool polynomial) {
  Graph g = Drawer(seed, polynomial).draw();
  auto egraph = saturate(g, {.nodes = 400, .rounds = 4});
  EXPECT_EQ(egraph->engine().faults(), std::vector<std::string>());
  improve(g, {.saturate = {.nodes = 400, .rounds = 4}, .target = Target{}});  // it must not trip
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

}  // namespace

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
  Graph better = improve(g, {.target = Target{}});
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
