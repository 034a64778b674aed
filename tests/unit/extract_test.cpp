// Extraction: every method against all choices of small problems, cycles included.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <functional>
#include <set>

#include "base/error.h"
#include "base/parallel.h"
#include "base/rng.h"
#include "extract/bound.h"
#include "extract/certify.h"
#include "extract/check.h"
#include "extract/greedy.h"
#include "extract/gym.h"
#include "extract/marginal.h"
#include "extract/reduce.h"
#include "extract/search.h"

namespace emend {
namespace {

// Random classes; children may point anywhere, so that cycles are common.
ExtractionProblem random_problem(Rng& rng, int classes, int nodes, int children) {
  ExtractionProblem p;
  for (int c = 0; c < classes; ++c) {
    p.add_class();
    for (int64_t n = rng.between(1, nodes); n > 0; --n) {
      std::vector<uint32_t> kids;
      for (int64_t k = rng.between(0, children); k > 0; --k) {
        kids.push_back(static_cast<uint32_t>(rng.between(0, classes - 1)));
      }
      const double prices[] = {0, 0, 1, 2, 3, 5, 8, INFINITY};
      p.add_node(prices[rng.between(0, rng.between(0, 9) ? 6 : 7)], kids);
    }
  }
  p.roots = {0};
  if (classes > 1 && rng.between(0, 2) == 0) p.roots.push_back(1);
  return p;
}

bool is_sound(const ExtractionProblem& p) {
  try {
    validate(p);
    return true;
  } catch (const Error&) {
    return false;
  }
}

// The least cost of all choices, by trying them; infinite if there is none.
double brute_force(const ExtractionProblem& p) {
  double best = INFINITY;
  std::vector<uint32_t> choice(p.class_count(), kNoNode);
  const std::function<void(std::vector<uint32_t>, double)> pick = [&](std::vector<uint32_t> open,
                                                                      double cost) {
    if (cost >= best) return;
    while (!open.empty() && choice[open.back()] != kNoNode) open.pop_back();
    if (open.empty()) {
      if (find_cycle(p, choice).empty()) best = cost;
      return;
    }
    const uint32_t c = open.back();
    open.pop_back();
    for (uint32_t n : p.nodes(c)) {
      choice[c] = n;
      auto more = open;
      more.insert(more.end(), p.children(n).begin(), p.children(n).end());
      pick(more, cost + p.cost[n]);
      choice[c] = kNoNode;
    }
  };
  pick(p.roots, 0);
  return best;
}

uint32_t random_node(Rng& rng, const ExtractionProblem& p, uint32_t c) {
  return static_cast<uint32_t>(rng.between(p.first_node[c], int64_t{p.first_node[c + 1]} - 1));
}

// q and k multiply the same x; the merged product pays only if both use it.
ExtractionProblem merge_problem() {
  ExtractionProblem p;
  p.add_class("x"), p.add_node(1, {});
  p.add_class("q"), p.add_node(4, {0}), p.add_node(0, {3});
  p.add_class("k"), p.add_node(4, {0}), p.add_node(0, {3});
  p.add_class("qk"), p.add_node(5, {0});
  p.roots = {1, 2};
  return p;
}

TEST(Extract, CheckerRefusesWhatIsNoSolution) {
  ExtractionProblem p;
  p.add_class("a"), p.add_node(1, {1}), p.add_node(2, {});
  p.add_class("b"), p.add_node(1, {0});
  p.roots = {1};
  EXPECT_EQ(*checked_cost(p, std::vector<uint32_t>{1, 2}), 3);
  EXPECT_EQ(checked_cost(p, std::vector<uint32_t>{0, 2}).error(), "class b depends on itself");
  EXPECT_EQ(checked_cost(p, std::vector<uint32_t>{kNoNode, 2}).error(),
            "class a is needed and has no choice");
  EXPECT_EQ(checked_cost(p, std::vector<uint32_t>{2, 2}).error(),
            "the choice of class a is a node of another class");
  EXPECT_EQ(checked_cost(p, std::vector<uint32_t>{1}).error(), "1 choices for 2 classes");
}

TEST(Extract, SharingIsPaidOnce) {
  ExtractionProblem p;
  p.add_class("a"), p.add_node(2, {});
  p.add_class("b"), p.add_node(1, {0, 0});
  p.roots = {1};
  EXPECT_EQ(*checked_cost(p, greedy_tree(p)), 3);
}

TEST(Extract, OnlyTheSearchSeesAMergeThatNeedsBothUsers) {
  const auto p = merge_problem();
  EXPECT_EQ(*checked_cost(p, greedy_tree(p)), 9);
  EXPECT_EQ(search(p, {})[0].cost, 6);
}

TEST(Extract, AllMethodsAgainstAllChoices) {
  Rng rng(1);
  int sound = 0, missed = 0;
  for (int i = 0; i < 6000; ++i) {
    const auto p = random_problem(rng, static_cast<int>(rng.between(1, 9)), 4, 3);
    const double best = brute_force(p);
    ASSERT_EQ(is_sound(p), std::isfinite(best)) << i;
    if (!std::isfinite(best)) continue;
    ++sound;
    const auto tree = checked_cost(p, greedy_tree(p));
    ASSERT_TRUE(tree) << tree.error();
    const auto dag = checked_cost(p, greedy_dag(p));
    ASSERT_TRUE(dag) << dag.error();
    const auto found = search(p, {.seed = static_cast<uint64_t>(i)});
    ASSERT_EQ(*checked_cost(p, found[0].choice), found[0].cost);
    ASSERT_GE(*tree, best);
    ASSERT_GE(*dag, best);
    ASSERT_GE(found[0].cost, best);
    ASSERT_LE(found[0].cost, *tree);
    missed += found[0].cost > best;
  }
  EXPECT_GT(sound, 2000);
  // A heuristic may miss an optimum; on problems this small it hardly ever does.
  EXPECT_LE(missed, sound / 1000) << "of " << sound;
}

TEST(Extract, ReductionKeepsTheOptimum) {
  Rng rng(2);
  for (int i = 0; i < 4000; ++i) {
    const auto p = random_problem(rng, static_cast<int>(rng.between(1, 9)), 4, 3);
    if (!is_sound(p)) continue;
    const Reduced r = reduce(p);
    ASSERT_LE(r.problem.node_count(), p.node_count());
    if (r.problem.roots.empty()) {
      ASSERT_EQ(brute_force(p), 0);
      continue;
    }
    ASSERT_EQ(brute_force(r.problem), brute_force(p)) << i;
    // A solution there is one here, and the way back costs nothing more.
    const auto small = greedy_tree(r.problem);
    const auto large = r.expand(p, small);
    const auto cost = checked_cost(p, large);
    ASSERT_TRUE(cost) << cost.error();
    ASSERT_LE(*cost, *checked_cost(r.problem, small));
    const auto back = checked_cost(r.problem, r.restrict_to(p, greedy_tree(p)));
    ASSERT_TRUE(back) << back.error();
    ASSERT_LE(*back, *checked_cost(p, greedy_tree(p)));
  }
}

TEST(Extract, BoundsAreValidAndClose) {
  Rng rng(9);
  int proven = 0, sound = 0;
  for (int i = 0; i < 4000; ++i) {
    const auto p = random_problem(rng, static_cast<int>(rng.between(1, 9)), 4, 3);
    if (!is_sound(p)) continue;
    ++sound;
    const double best = brute_force(p);
    const Reduced r = reduce(p);
    const SearchGraph graph(r.problem);
    const DualBound dual = dual_ascent(graph, rng);
    ASSERT_LE(dual.value, best + 1e-9) << i;
    for (double left : dual.reduced) ASSERT_GE(left, 0);
    // From a poor start, so that better ones must be found on the way.
    const auto start = greedy_tree(p);
    const auto e = certify(p, {start, *checked_cost(p, start)}, {});
    ASSERT_EQ(*checked_cost(p, e.choice), e.cost);
    ASSERT_LE(e.lower_bound, best + 1e-9) << i;
    ASSERT_EQ(e.cost, e.optimal ? best : e.cost) << i;
    proven += e.optimal;
  }
  EXPECT_EQ(proven, sound);
}

// Children only among what has a smaller number, plus some that point back: large and sound.
ExtractionProblem large_problem(Rng& rng, int classes) {
  ExtractionProblem p;
  for (int c = 0; c < classes; ++c) {
    p.add_class();
    for (int64_t n = rng.between(1, 4); n > 0; --n) {
      std::vector<uint32_t> kids;
      for (int64_t k = rng.between(1, 3); k > 0 && c > 0; --k) {
        const bool back = n > 1 && rng.between(0, 5) == 0;
        kids.push_back(static_cast<uint32_t>(rng.between(0, back ? classes - 1 : c - 1)));
      }
      p.add_node(static_cast<double>(rng.between(0, 20)), kids);
    }
  }
  p.roots = {static_cast<uint32_t>(classes - 1)};
  return p;
}

TEST(Extract, MarginalCostsKeptUpToDateEqualThoseComputedAnew) {
  Rng rng(3);
  for (int i = 0; i < 40; ++i) {
    const Reduced r = reduce(large_problem(rng, 60));
    const SearchGraph graph(r.problem);
    const auto& p = graph.problem;
    Solution s(graph, greedy_tree(p));
    Marginal kept(graph, s);
    std::vector<uint32_t> changed, switched;
    for (int step = 0; step < 100; ++step) {
      const auto c =
          static_cast<uint32_t>(rng.between(0, static_cast<int64_t>(p.class_count()) - 1));
      if (!s.active(c)) continue;
      const auto n = random_node(rng, p, c);
      const auto before = s.mark();
      const auto active = [&](uint32_t d) { return s.active(d); };
      if (!std::ranges::all_of(p.children(n), active) || n == s.node(c) || !s.repick(c, n)) {
        s.undo(before);
        continue;
      }
      s.changed_since(before, changed);
      switched.clear();
      for (uint32_t d : changed) {
        if (d != c) switched.push_back(d);
      }
      s.forget();
      kept.update(s, switched);
      const Marginal anew(graph, s);
      for (uint32_t d = 0; d < p.class_count(); ++d) ASSERT_DOUBLE_EQ(kept.value(d), anew.value(d));
      const auto cost = checked_cost(p, s.choices());
      ASSERT_TRUE(cost) << cost.error();
      ASSERT_DOUBLE_EQ(*cost, s.cost());
    }
  }
}

TEST(Extract, UndoLeavesNothingBehind) {
  Rng rng(4);
  for (int i = 0; i < 40; ++i) {
    const Reduced r = reduce(large_problem(rng, 60));
    const SearchGraph graph(r.problem);
    Solution s(graph, greedy_tree(graph.problem));
    const auto choices = s.choices();
    const auto begin = s.mark();
    for (int step = 0; step < 50; ++step) {
      const auto c = static_cast<uint32_t>(
          rng.between(0, static_cast<int64_t>(graph.problem.class_count()) - 1));
      const auto n = random_node(rng, graph.problem, c);
      const auto active = [&](uint32_t d) { return s.active(d); };
      if (!s.active(c) || !std::ranges::all_of(graph.problem.children(n), active)) continue;
      const auto before = s.mark();
      if (!s.repick(c, n)) s.undo(before);
    }
    s.undo(begin);
    EXPECT_EQ(s.choices(), choices);
    EXPECT_EQ(s.cost(), begin.cost);
    s.tidy();
    EXPECT_DOUBLE_EQ(s.cost(), begin.cost);
  }
}

TEST(Extract, SameSeedSameAnswerForAnyNumberOfThreads) {
  Rng rng(5);
  const auto p = large_problem(rng, 400);
  std::vector<std::vector<uint32_t>> answers;
  for (int threads : {1, 2, 5}) {
    set_thread_count(threads);
    answers.push_back(search(p, {.seed = 7, .starts = 5})[0].choice);
  }
  set_thread_count(0);
  EXPECT_EQ(answers[0], answers[1]);
  EXPECT_EQ(answers[0], answers[2]);
}

TEST(Extract, TheBestDifferentOnesAreDifferentAndSorted) {
  Rng rng(6);
  for (int i = 0; i < 20; ++i) {
    const auto p = large_problem(rng, 80);
    std::vector<uint32_t> apart;
    for (uint32_t c = 0; c < 80; c += 2) apart.push_back(c);
    const auto found = search(p, {.keep = 6, .tell_apart_by = apart});
    ASSERT_GT(found.size(), 1u);
    ASSERT_LE(found.size(), 6u);
    std::set<std::vector<uint32_t>> keys;
    for (size_t k = 0; k < found.size(); ++k) {
      ASSERT_EQ(*checked_cost(p, found[k].choice), found[k].cost);
      ASSERT_LE(found[0].cost, found[k].cost);
      ASSERT_LE(found[k].cost, found.back().cost);
      std::vector<uint32_t> key;
      for (uint32_t c : apart) key.push_back(found[k].choice[c]);
      ASSERT_TRUE(keys.insert(key).second);
    }
    ASSERT_EQ(found[0].cost, search(p, {})[0].cost);
  }
}

TEST(Extract, BeginsFromAGivenSolution) {
  Rng rng(7);
  for (int i = 0; i < 20; ++i) {
    auto p = large_problem(rng, 80);
    const auto first = search(p, {.seed = 1})[0];
    // No moves: the start itself, or what a reduction makes of it.
    ASSERT_LE(search(p, {.moves = 0, .start = first.choice})[0].cost, first.cost);
    for (double& c : p.cost) c += static_cast<double>(rng.between(0, 3));
    const double before = *checked_cost(p, first.choice);
    ASSERT_LE(search(p, {.start = first.choice})[0].cost, before);
  }
}

TEST(Extract, StopsWhenAsked) {
  Rng rng(8);
  const auto p = large_problem(rng, 500);
  const std::atomic<bool> stop = true;
  SearchReport report;
  const auto found = search(p, {.monitor = Monitor([](const Progress&) {}, &stop)}, &report);
  EXPECT_TRUE(report.interrupted);
  EXPECT_TRUE(checked_cost(p, found[0].choice));
}

std::string fault(std::string_view json) {
  try {
    parse_gym(json);
    return "";
  } catch (const Error& e) {
    return e.what();
  }
}

TEST(Extract, GymFilesGoInAndOut) {
  auto p = merge_problem();
  const auto again = parse_gym(gym_json(p).text());
  EXPECT_EQ(again.class_names, p.class_names);
  EXPECT_EQ(again.first_node, p.first_node);
  EXPECT_EQ(again.child, p.child);
  EXPECT_EQ(again.cost, p.cost);
  EXPECT_EQ(again.roots, p.roots);
  const auto best = search(again, {})[0];
  EXPECT_EQ(choices_json(again, best.choice).line(),
            R"({"choices": {"x": "0", "q": "2", "k": "4", "qk": "5"}})");
}

TEST(Extract, BadFilesAreToldClearly) {
  const std::string good = R"({"nodes": {"n": {"op": "a", "cost": 1, "eclass": "A"}},)"
                           R"( "root_eclasses": ["A"]})";
  EXPECT_EQ(fault(good), "");
  EXPECT_EQ(fault(good.substr(0, 40)), "this is not JSON: it ends too early");
  EXPECT_EQ(fault("[1]"), "this is no e-graph: the member \"nodes\" is missing or no object");
  const auto with = [](std::string node) {
    return R"({"nodes": {"n": )" + node + R"(}, "root_eclasses": ["A"]})";
  };
  EXPECT_EQ(fault(with(R"({"cost": -1, "eclass": "A"})")),
            "node n of class A costs -1.0; a cost is a number that is not negative");
  EXPECT_EQ(fault(with(R"({"cost": "nan", "eclass": "A"})")), "node n: its cost is not a number");
  EXPECT_NE(fault(with(R"({"cost": NaN, "eclass": "A"})")), "");
  EXPECT_EQ(fault(with(R"({"cost": 1})")), "node n: its \"eclass\" is missing or not a text");
  EXPECT_EQ(fault(with(R"({"eclass": "A", "children": ["m"]})")),
            "node n: its child m does not exist");
  EXPECT_EQ(fault(with(R"({"eclass": "A", "children": ["n"]})")),
            "root A cannot be extracted: all its terms are cyclic or infinitely dear");
  EXPECT_EQ(fault(with(R"({"eclass": "A", "subsumed": true})")), "class A has no nodes");
  EXPECT_EQ(fault(R"({"nodes": {"n": {"eclass": "B"}}, "root_eclasses": ["A"]})"),
            "root A is a class without nodes");
  EXPECT_EQ(fault(R"({"nodes": {"n": {"eclass": "A"}}})"),
            "no root is given: nothing is to be extracted");
}

TEST(Extract, LongChainsAndHugeTermsAreNoTrouble) {
  // A term of 2^5000 nodes, and one that is 5000 classes deep.
  ExtractionProblem p;
  p.add_class(), p.add_node(1, {});
  for (uint32_t c = 1; c < 5000; ++c) {
    p.add_class(), p.add_node(1, {c - 1, c - 1}), p.add_node(2, {c - 1});
  }
  p.roots = {4999};
  validate(p);
  EXPECT_EQ(search(p, {})[0].cost, 5000);
}

}  // namespace
}  // namespace emend
