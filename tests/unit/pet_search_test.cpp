// PET's optimizer of bench/pet, on models small enough to be compared with their results.
#include <gtest/gtest.h>

#include "base/rng.h"
#include "base/text.h"
#include "equiv/compare.h"
#include "ops/contraction.h"
#include "ops/table.h"
#include "ops/view.h"
#include "pet/search.h"
#include "text/text.h"

namespace emend {
namespace {

NodeId some(GraphBuilder& b, const Dims& shape, Rng& rng) {
  std::vector<double> v(static_cast<size_t>(count(shape)));
  for (double& x : v) x = static_cast<double>(rng.between(-3, 3));
  return b.constant(Tensor::of_reals(DType::f32, shape, v));
}

// Two dilated layers, and two products of what the second makes.
Graph small_model() {
  GraphBuilder b;
  Rng rng(5);
  NodeId y = b.input("x", Type::tensor(DType::f32, {1, 4, 6, 6}));
  for (int layer = 0; layer < 2; ++layer) {
    y = b.op("conv", {y, some(b, {4, 4, 3, 3}, rng)}, Conv{{1, 1}, {2, 2}, {2, 2, 2, 2}, 1});
    y = b.op("relu", {b.op("add", {y, some(b, {4, 1, 1}, rng)})});
  }
  for (int i = 0; i < 2; ++i) b.output(str("y", i), b.op("matmul", {y, some(b, {6, 5}, rng)}));
  return std::move(b).build();
}

TEST(PetSearch, UnitsAreOperatorsAloneAndMerged) {
  Graph g = small_model();
  std::vector<size_t> sizes;
  for (const Unit& u : units_of(g)) {
    sizes.push_back(u.nodes.size());
    for (size_t i = 0; i < u.operands.size(); ++i)
      EXPECT_EQ(u.weights[i], g.is_constant(u.operands[i]));
  }
  EXPECT_EQ(sizes, (std::vector<size_t>{1, 1, 2, 1, 1}));
}

TEST(PetSearch, EveryMutantInItsPlaceGivesAnEqualModel) {
  Graph g = small_model();
  Prices prices;
  PetOptions options{.depth = 3, .rounds = 2, .fastest = 100};
  Mutator mutator(options, prices);
  const std::vector<Unit> units = units_of(g);
  size_t equivalent = 0, others = 0;
  for (size_t u = 0; u < units.size(); ++u) {
    for (const PetMutant& m : mutator.of(units[u])) {
      ++(m.equivalent ? equivalent : others);
      std::vector<const Graph*> chosen(units.size(), nullptr);
      chosen[u] = &m.program;
      auto whole = assembled(g, units, chosen);
      ASSERT_TRUE(whole);
      EXPECT_EQ(to_text(compare(g, post_optimized(*whole)).kind), "equal") << m.how;
    }
  }
  EXPECT_GT(equivalent, 0u);
  EXPECT_GT(others, 0u);
  EXPECT_EQ(mutator.searched(), 3u);  // of five: the layers are alike, and so are the products
}

TEST(PetSearch, ResultIsEqualAndNotDearer) {
  Graph g = small_model();
  Prices prices;
  for (bool others : {false, true}) {
    PetOptions options{.depth = 3, .rounds = 1, .others = others};
    Mutator mutator(options, prices);
    PetResult found = pet_search(g, options, mutator, prices);
    EXPECT_LE(found.cost, cost_of(g, prices));
    EXPECT_GT(found.evaluated, 0u);
    EXPECT_EQ(to_text(compare(g, found.best).kind), "equal") << print(found.best);
  }
}

// Moves that undo one another vanish across an activation.
TEST(PetSearch, MovesMeetAcrossActivations) {
  GraphBuilder b;
  NodeId x = b.input("x", Type::tensor(DType::f32, {2, 4, 6}));
  auto view = [&](NodeId n, const char* map) { return b.op("view", {n}, ViewMap{map}); };
  NodeId y = view(x, "[1, 4, 2*6] <- [c, b, d]");
  b.output("y", view(b.op("relu", {y}), "[2, 4, 6] <- [0, b, 6a+c]"));
  Graph g = std::move(b).build();
  Graph better = post_optimized(g);
  for (const Node& n : better.nodes) EXPECT_NE(op_def(n).name, "view") << print(better);
  EXPECT_EQ(to_text(compare(g, better).kind), "equal");
}

}  // namespace
}  // namespace emend
