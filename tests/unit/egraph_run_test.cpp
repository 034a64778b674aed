// Saturation of an e-graph: its limits, its reasons by replaying them, its analyses.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <fstream>
#include <map>
#include <optional>
#include <set>

#include "base/parallel.h"
#include "base/rng.h"
#include "egraph/egg_text.h"
#include "egraph/explain.h"
#include "egraph/run.h"
#include "support/sound_egraph.h"

namespace emend {
namespace {

constexpr std::string_view kArithmetic =
    R"((datatype Math (Add Math Math) (Mul Math Math) (Neg Math) (Const i64) (Var String))
(rewrite (Add a b) (Add b a))
(rewrite (Mul a b) (Mul b a))
(rewrite (Add a (Add b c)) (Add (Add a b) c))
(rewrite (Mul a (Mul b c)) (Mul (Mul a b) c))
(rewrite (Mul a (Add b c)) (Add (Mul a b) (Mul a c)))
(rewrite (Add (Mul a b) (Mul a c)) (Mul a (Add b c)))
(rewrite (Add a (Const 0)) a)
(rewrite (Mul a (Const 0)) (Const 0))
(rewrite (Mul a (Const 1)) a)
(rewrite (Add a (Neg a)) (Const 0))
(rewrite (Neg (Neg a)) a)
(let $x (Var "x"))
(let $e (Add (Mul $x (Add (Var "y") (Const 0))) (Mul $x (Add (Var "z") (Const 1)))))
(let $zero (Add (Neg (Mul $x (Var "y"))) (Mul (Var "y") $x)))
)";
constexpr std::string_view kSum = R"((datatype Math (Add Math Math) (Var String))
(rewrite (Add a b) (Add b a))
(rewrite (Add a (Add b c)) (Add (Add a b) c))
(let $sum (Add (Var "a") (Add (Var "b") (Add (Var "c") (Add (Var "d") (Add (Var "e") (Var "f")))))))
)";

struct Saturation {
  EggProgram program;
  EGraph g;
  std::vector<ClassId> lets;
  Runner runner;

  explicit Saturation(std::string_view text, Analysis analysis = {})
      : program(read_egg(text, "test.egg")), g(std::move(analysis)), runner(rewrites(program)) {
    lets = add_lets(g, program);
  }
  static std::vector<Rewrite> rewrites(const EggProgram& program) {
    std::vector<Rewrite> all;
    for (const TermRule& r : program.rules) all.push_back(to_rewrite(r));
    return all;
  }
};

RunnerOptions plain(size_t iterations, size_t nodes = SIZE_MAX) {
  RunnerOptions o;
  o.limits = {.iterations = iterations, .nodes = nodes};
  o.back_off.on = false;
  return o;
}

// All there is about an e-graph, in words.
std::string text_of(const EGraph& g) {
  std::string out;
  for (size_t n = 0; n < g.ids(); ++n) {
    const ENode node = g.node(id_of(n));
    out += str(g.find(id_of(n)).value, g.alive(id_of(n)) ? " = " : " was ", node.op, "[", node.attr,
               "]");
    for (ClassId c : node.children) out += str(" ", c.value);
    out += "\n";
  }
  return out;
}

TEST(Run, SumOfSixTermsSaturates) {
  Saturation s(kSum);
  const RunnerReport report = s.runner.run(s.g, plain(100));
  expect_sound(s.g);
  EXPECT_EQ(report.stopped, StopReason::saturated);
  // Every non-empty subset of six terms is a class, and every ordered split of it a node.
  EXPECT_EQ(report.classes, 63u);
  EXPECT_EQ(report.nodes, 608u);
  size_t applied = 0;
  for (const RuleReport& r : report.rules) applied += r.applied;
  EXPECT_GE(applied, 600u);
}

TEST(Run, MathBenchmarkHasTheKnownCounts) {
  const EggProgram program = [] {
    std::ifstream in("bench/egraph/math.egg");
    const std::string text((std::istreambuf_iterator<char>(in)), {});
    return read_egg(text, "math.egg");
  }();
  EGraph g;
  add_lets(g, program);
  Runner runner(Saturation::rewrites(program));
  EXPECT_EQ(runner.run(g, plain(8)).nodes, 8113u);
  expect_sound(g);
  EXPECT_EQ(runner.run(g, plain(1)).nodes, 28303u) << "a run goes on where it stopped";
}

TEST(Run, SameForAnyNumberOfThreads) {
  const int before = thread_count();
  std::string first;
  Rows first_rows;
  for (int threads : {1, 2, 3, 7}) {
    set_thread_count(threads);
    Saturation s(kArithmetic);
    s.runner.run(s.g, plain(6));
    expect_sound(s.g);
    const Query pairs{.slots = 4,
                      .atoms = {{.op = 0, .result = 0, .children = {1, 2}},
                                {.op = 0, .result = 3, .children = {1, 0}}}};
    s.g.refresh();
    const std::string text = text_of(s.g);
    const Rows rows = search(s.g, pairs);
    if (threads == 1) {
      first = text;
      first_rows = rows;
    }
    ASSERT_TRUE(text == first) << threads << " threads";
    ASSERT_TRUE(rows == first_rows) << threads << " threads";
    const Query sums{.slots = 3, .atoms = {{.op = 0, .result = 0, .children = {1, 2}}}};
    ASSERT_GT(search(s.g, sums).size(), 2500u) << "enough rows to be shared among threads";
  }
  set_thread_count(before);
}

TEST(Run, LimitsHoldInsideAnIterationAndNothingIsLost) {
  Saturation whole(kSum);
  whole.runner.run(whole.g, plain(100));
  for (size_t limit : {12u, 13u, 50u, 200u, 607u}) {
    Saturation s(kSum);
    const RunnerReport report = s.runner.run(s.g, plain(100, limit));
    expect_sound(s.g);
    EXPECT_EQ(report.stopped, StopReason::nodes);
    EXPECT_LE(report.nodes, limit);
    EXPECT_GE(report.nodes * 5, limit * 4) << "only congruence takes nodes away again";
    const RunnerReport rest = s.runner.run(s.g, plain(100));
    expect_sound(s.g);
    EXPECT_EQ(rest.stopped, StopReason::saturated);
    EXPECT_EQ(rest.nodes, whole.g.node_count());
    EXPECT_EQ(rest.classes, whole.g.class_count());
  }
}

TEST(Run, BytesAreALimit) {
  for (size_t limit : {60000u, 200000u, 1000000u}) {
    Saturation s(kArithmetic);
    RunnerOptions options = plain(100);
    options.limits.bytes = limit;
    const RunnerReport report = s.runner.run(s.g, options);
    expect_sound(s.g);
    EXPECT_EQ(report.stopped, StopReason::bytes);
    EXPECT_LE(s.g.bytes(), limit);
    EXPECT_GE(s.g.bytes() * 4, limit);
  }
}

TEST(Run, BackOffDelaysAndLosesNothing) {
  Saturation plain_run(kSum), backed_off(kSum);
  plain_run.runner.run(plain_run.g, plain(100));
  RunnerOptions options = plain(100);
  options.back_off = {.on = true, .matches = 8, .rounds = 2};
  const RunnerReport report = backed_off.runner.run(backed_off.g, options);
  expect_sound(backed_off.g);
  EXPECT_EQ(report.stopped, StopReason::saturated);
  EXPECT_GT(report.rules[0].bans + report.rules[1].bans, 3u);
  EXPECT_EQ(report.nodes, plain_run.g.node_count());
  EXPECT_EQ(report.classes, plain_run.g.class_count());
}

TEST(Run, StopsWhenAsked) {
  std::atomic<bool> stop = true;
  Saturation s(kArithmetic);
  RunnerOptions options = plain(100);
  options.monitor = Monitor([](const Progress&) {}, &stop);
  EXPECT_EQ(s.runner.run(s.g, options).stopped, StopReason::interrupted);
  options = plain(100);
  options.limits.seconds = 0;
  EXPECT_EQ(s.runner.run(s.g, options).stopped, StopReason::seconds);
  EXPECT_EQ(s.runner.run(s.g, plain(0)).stopped, StopReason::iterations);
  expect_sound(s.g);
}

TEST(Run, ManyRowsAtOnceAreAsOneByOne) {
  Saturation batched(kArithmetic);
  // With an analysis, even an idle one, rows are applied one after the other.
  Saturation single(kArithmetic, {.make = [](EGraph&, ENodeId) {}});
  for (int i = 0; i < 6; ++i) {
    batched.runner.run(batched.g, plain(1));
    single.runner.run(single.g, plain(1));
    expect_sound(batched.g);
    expect_sound(single.g);
    EXPECT_EQ(batched.g.node_count(), single.g.node_count());
    EXPECT_EQ(batched.g.class_count(), single.g.class_count());
  }
}

// --- Reasons

// Replays firings on a fresh e-graph: ids of the old one are found by their terms.
class Replay {
 public:
  Replay(const Saturation& s, const Explainer& explainer) : old_(s), explainer_(explainer) {
    for (size_t n = 0; n < s.g.ids(); ++n) {
      if (s.g.provenance().maker(id_of(n)).valid()) continue;
      std::vector<ClassId> children;
      for (ClassId c : explainer.term(id_of(n)).children) children.push_back(*find(c));
      const ENode term = explainer.term(id_of(n));
      g_.add(term.op, term.attr, children);
    }
    g_.rebuild();
  }

  // Where the term of an old node is now.
  std::optional<ClassId> find(ENodeId n) const {
    const ENode term = explainer_.term(n);
    std::vector<ClassId> children;
    for (ClassId c : term.children) {
      const auto found = find(c);
      if (!found) return std::nullopt;
      children.push_back(*found);
    }
    const ENodeId found = g_.lookup(term.op, term.attr, children);
    if (!found.valid()) return std::nullopt;
    return g_.find(found);
  }

  void apply(FiringId f) {
    const Firing firing = old_.g.provenance().firing(f);
    const TermRule& rule = old_.program.rules[firing.rule.value];
    std::vector<std::optional<ClassId>> slots(rule.query.slots);
    const auto put = [&](uint32_t slot, ClassId c) {
      ASSERT_TRUE(!slots[slot] || *slots[slot] == c)
          << "the pattern of " << rule.name << " does not fit";
      slots[slot] = c;
    };
    for (size_t i = 0; i < firing.matched.size(); ++i) {
      const QueryAtom& a = rule.query.atoms[i];
      const ENode term = explainer_.term(firing.matched[i]);
      const auto here = find(firing.matched[i]);
      ASSERT_TRUE(here.has_value()) << "what " << rule.name << " matched is not there";
      ASSERT_EQ(term.op, a.op);
      put(a.result, *here);
      for (size_t c = 0; c < a.children.size(); ++c) put(a.children[c], *find(term.children[c]));
    }
    std::vector<ClassId> values;
    for (const auto& s : slots) values.push_back(*s);
    for (const NewTerm::Node& n : rule.term.nodes) {
      std::vector<ClassId> children;
      for (uint32_t c : n.children) children.push_back(values[c]);
      values.push_back(g_.add(n.op, n.attr, children));
    }
    g_.unite(*slots[rule.query.atoms[0].result],
             rule.term.nodes.empty() ? values[rule.term.bare] : values.back());
    g_.rebuild();
  }

 private:
  const Saturation& old_;
  const Explainer& explainer_;
  EGraph g_;
};

void expect_replays(Saturation& s, uint64_t seed, int questions) {
  Explainer explainer(s.g);
  Rng rng(seed);
  size_t longest = 0;
  for (int i = 0; i < questions; ++i) {
    const auto a = id_of(static_cast<size_t>(rng.between(0, static_cast<int64_t>(s.g.ids()) - 1)));
    const auto b = rng.pick(s.g.nodes_of(a));
    const auto trail = explainer.of_equality(a, b);
    ASSERT_TRUE(std::is_sorted(trail.begin(), trail.end()));
    Replay replay(s, explainer);
    for (FiringId f : trail) ASSERT_NO_FATAL_FAILURE(replay.apply(f));
    ASSERT_TRUE(replay.find(a) && replay.find(b)) << "the nodes are made";
    ASSERT_EQ(*replay.find(a), *replay.find(b)) << "and are equal";
    longest = std::max(longest, trail.size());
  }
  EXPECT_GT(longest, 3u);
  EXPECT_LT(longest, s.g.provenance().firings()) << "an explanation is not everything";
}

TEST(Explain, TrailsReplay) {
  for (std::string_view text : {kSum, kArithmetic}) {
    Saturation s(text);
    s.runner.run(s.g, plain(5));
    expect_replays(s, 1, 60);
    Saturation single(text, {.make = [](EGraph&, ENodeId) {}});
    single.runner.run(single.g, plain(5));
    expect_replays(single, 2, 60);
  }
}

TEST(Explain, EveryNodeHasAReason) {
  Saturation s(kArithmetic);
  const size_t given = s.g.ids();
  s.runner.run(s.g, plain(5));
  const Provenance& p = s.g.provenance();
  for (size_t n = 0; n < s.g.ids(); ++n) ASSERT_EQ(p.maker(id_of(n)).valid(), n >= given) << n;
  for (const Union& u : p.unions())
    ASSERT_TRUE(u.by_congruence() || u.firing().value < p.firings());
  // What was given rests on nothing.
  EXPECT_TRUE(Explainer(s.g).of_node(id_of(0)).empty());
}

TEST(Explain, NothingIsKeptWhereNobodyAsks) {
  EGraph g({}, false);
  const ClassId a = g.add(0, 0, {}), b = g.add(0, 1, {});
  g.begin_firing(RuleId(size_t{0}), {});
  g.unite(g.add(1, 0, {a}), b);
  expect_sound(g);
  EXPECT_EQ(g.provenance().bytes(), 0u);
}

// --- Analyses: the value of constant terms, as a client keeps it.

constexpr uint32_t kNumber = 0, kPlus = 1, kVariable = 2;

struct Values {
  std::map<uint32_t, uint32_t> of;  // by class

  void learn(EGraph& g, ClassId c, uint32_t value) {
    if (!of.try_emplace(g.find(c).value, value).second) return;
    g.unite(c, g.add(kNumber, value, {}));
    g.touch(c);
  }
  std::optional<uint32_t> value(const EGraph& g, ClassId c) const {
    const auto found = of.find(g.find(c).value);
    return found == of.end() ? std::nullopt : std::optional(found->second);
  }
  Analysis analysis() {
    return {.make =
                [this](EGraph& g, ENodeId n) {
                  const ENode node = g.node(n);
                  if (node.op == kNumber) return learn(g, n, node.attr);
                  if (node.op != kPlus) return;
                  const auto a = value(g, node.children[0]), b = value(g, node.children[1]);
                  if (a && b) learn(g, n, *a + *b);
                },
            .merge =
                [this](EGraph& g, ClassId kept, ClassId gone) {
                  const auto lost = of.find(gone.value);
                  if (lost == of.end()) return;
                  const uint32_t value = lost->second;
                  of.erase(lost);
                  if (of.try_emplace(kept.value, value).second) g.touch(kept);
                }};
  }
};

TEST(Analysis, ValuesTravelUpwards) {
  Values values;
  EGraph g(values.analysis());
  const ClassId x = g.add(kVariable, 0, {}), y = g.add(kVariable, 1, {});
  ClassId sum = g.add(kPlus, 0, {x, y});
  for (int i = 0; i < 5; ++i) sum = g.add(kPlus, 0, {sum, x});
  expect_sound(g);
  EXPECT_FALSE(values.value(g, sum));
  g.unite(x, g.add(kNumber, 3, {}));
  expect_sound(g);
  EXPECT_FALSE(values.value(g, sum));
  const uint32_t before = g.refresh();
  g.unite(y, g.add(kNumber, 10, {}));
  expect_sound(g);
  EXPECT_EQ(values.value(g, sum), 28u);
  EXPECT_TRUE(g.lookup(kNumber, 28, {}).valid());
  EXPECT_TRUE(g.same(sum, g.lookup(kNumber, 28, {})));
  // Those who use what became known count as changed.
  const Query q{.slots = 3, .atoms = {{.op = kPlus, .result = 0, .children = {1, 2}}}};
  g.refresh();
  EXPECT_EQ(search(g, q, before + 1).size(), 6u);
}

TEST(Analysis, AFilterThatOpensLaterLetsTheRuleFire) {
  std::set<uint32_t> open;
  EGraph g;
  const ClassId x = g.add(kVariable, 0, {}), y = g.add(kVariable, 1, {});
  g.add(kPlus, 0, {x, y});
  Query q{.slots = 3, .atoms = {{.op = kPlus, .result = 0, .children = {1, 2}}}};
  q.slot_filters = {{}, {}, [&](ClassId c) { return open.contains(c.value); }};
  size_t fired = 0;
  Runner runner({{.name = "when open", .query = q, .apply = [&](EGraph&, RuleId, const Rows& rows) {
                    fired += rows.size();
                    return size_t{0};
                  }}});
  EXPECT_EQ(runner.run(g, plain(10)).stopped, StopReason::saturated);
  EXPECT_EQ(fired, 0u);
  open.insert(y.value);
  g.touch(y);
  runner.run(g, plain(10));
  EXPECT_EQ(fired, 1u);
}

// --- Text

void expect_refused(std::string_view text, const std::string& message) {
  try {
    read_egg(text, "bad.egg");
    FAIL() << "accepted: " << text;
  } catch (const Error& e) {
    EXPECT_EQ(std::string(e.what()), message);
  }
}

TEST(EggText, SaysWhatItDoesNotUnderstand) {
  expect_refused("(datatype M (A))\n(run 3)",
                 "bad.egg:2: \"run\" is not understood; known are datatype, rewrite and let");
  expect_refused("(datatype M (A)", "bad.egg:1: a parenthesis that is never closed");
  expect_refused("; a comment\n)", "bad.egg:2: a closing parenthesis that nothing opened");
  expect_refused("x", "bad.egg:1: this is not understood; known are datatype, rewrite and let");
  expect_refused("(datatype M (A N))", "bad.egg:1: there is no sort N");
  expect_refused("(datatype M (A) (A))", "bad.egg:1: the constructor A is already there");
  expect_refused("(datatype M (A M))\n\n(rewrite (A a) b)",
                 "bad.egg:3: b does not occur on the left side");
  expect_refused("(datatype M (A M))\n(rewrite (A a a) a)", "bad.egg:2: A takes 1 argument, not 2");
  expect_refused("(datatype M (A M))\n(rewrite (A a) a :when ())",
                 "bad.egg:2: a rewrite has a left and a right side; options are not understood");
  expect_refused("(datatype M (C i64))\n(rewrite (C x) (C x))",
                 "bad.egg:2: argument 1 of C must be a literal of sort i64");
  expect_refused("(datatype M (C String))\n(let $x (C \"a\nb\"))",
                 "bad.egg:2: a text that does not end on its line");
  expect_refused("(datatype M (A))\n(let x (A))",
                 "bad.egg:2: the name of a let begins with $, as $x does");
  expect_refused("(datatype M (A) (F M)) (datatype N (B))\n(let $x (F (B)))",
                 "bad.egg:2: expected a term of sort M, this one is of N");
  expect_refused(std::string(300, '('), "bad.egg:1: more than 200 parentheses inside each other");
}

}  // namespace
}  // namespace emend
