// The e-graph against naive congruence closure, its searches against trying every assignment.
// Invariants are checked after every mutation.
#include "egraph/egraph.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "base/rng.h"
#include "egraph/explain.h"
#include "egraph/match.h"
#include "support/sound_egraph.h"

namespace emend {
namespace {

// Congruence closure by doing it over and over, on the ids that the e-graph gave.
struct Naive {
  struct Node {
    uint32_t op, attr;
    std::vector<uint32_t> children;
  };
  std::vector<Node> nodes;
  std::vector<uint32_t> name;

  void close() {
    for (bool changed = true; changed;) {
      changed = false;
      for (uint32_t a = 0; a < nodes.size(); ++a) {
        for (uint32_t b = 0; b < a; ++b) {
          if (name[a] != name[b] && content(a) == content(b)) {
            unite(a, b);
            changed = true;
          }
        }
      }
    }
  }
  std::vector<uint32_t> content(uint32_t n) const {
    std::vector<uint32_t> c = {nodes[n].op, nodes[n].attr};
    for (uint32_t child : nodes[n].children) c.push_back(name[child]);
    return c;
  }
  void unite(uint32_t a, uint32_t b) {
    const uint32_t from = std::max(name[a], name[b]), to = std::min(name[a], name[b]);
    std::replace(name.begin(), name.end(), from, to);
  }
  size_t distinct() const {
    std::set<std::vector<uint32_t>> all;
    for (uint32_t n = 0; n < nodes.size(); ++n) all.insert(content(n));
    return all.size();
  }
};

// A random mutation on both; `naive` may be null.
void mutate(EGraph& g, Naive* naive, Rng& rng) {
  const auto any = [&] {
    return id_of(static_cast<size_t>(rng.between(0, static_cast<int64_t>(g.ids()) - 1)));
  };
  if (g.ids() == 0 || rng.between(0, 3) > 0) {
    // Operator 3 has arities 0 to 6: more children than fit inline.
    const auto op = static_cast<uint32_t>(rng.between(0, 3));
    const int64_t arity = g.ids() == 0 ? 0 : op == 3 ? rng.between(0, 6) : op;
    std::vector<ClassId> children;
    for (int64_t i = 0; i < arity; ++i) children.push_back(any());
    const auto attr = static_cast<uint32_t>(rng.between(0, arity ? 1 : 5));
    const size_t before = g.ids();
    const ClassId n = g.add(op, attr, children);
    if (naive && g.ids() > before) {
      ASSERT_EQ(n.value, before);
      Naive::Node node{op, attr, {}};
      for (ClassId c : children) node.children.push_back(c.value);
      naive->nodes.push_back(node);
      naive->name.push_back(n.value);
    }
  } else {
    const ClassId a = any(), b = any();
    const bool different = !g.same(a, b);
    ASSERT_EQ(g.unite(a, b), different);
    if (naive) naive->unite(a.value, b.value);
  }
}

TEST(HashCons, IsAMap) {
  Rng rng(1);
  HashCons table;
  std::map<uint32_t, uint32_t> model;  // node -> hash
  for (int i = 0; i < 20000; ++i) {
    // Few hashes, so that runs are long and wrap around the end.
    const auto hash = static_cast<uint32_t>(rng.between(0, 40)) * 0x0FFFFFFFu;
    const auto node = static_cast<uint32_t>(rng.between(0, i < 10000 ? 60 : 3000));
    const auto known = model.find(node);
    if (known == model.end()) {
      table.fill(table.probe(hash, [&](uint32_t n) { return n == node; }), hash, node);
      model[node] = hash;
    } else {
      const uint32_t slot = table.probe(known->second, [&](uint32_t n) { return n == node; });
      ASSERT_EQ(table.node_at(slot), node);
      table.erase(slot);
      model.erase(known);
    }
    ASSERT_EQ(table.size(), model.size());
    if (i % 50) continue;
    for (const auto& [n, h] : model) {
      ASSERT_EQ(table.node_at(table.probe(h, [&, n = n](uint32_t x) { return x == n; })), n);
    }
  }
}

TEST(EGraph, UpwardMerging) {
  EGraph g;
  const ClassId a = g.add(0, 0, {}), b = g.add(0, 1, {});
  const ClassId fa = g.add(1, 0, {a}), fb = g.add(1, 0, {b});
  const ClassId ffa = g.add(1, 0, {fa}), ffb = g.add(1, 0, {fb});
  EXPECT_EQ(g.add(1, 0, {a}), fa);
  EXPECT_NE(g.add(1, 7, {a}), fa) << "attributes distinguish";
  expect_sound(g);
  EXPECT_FALSE(g.same(ffa, ffb));
  EXPECT_TRUE(g.unite(b, a));
  EXPECT_FALSE(g.unite(a, b));
  expect_sound(g);
  EXPECT_TRUE(g.same(ffa, ffb));
  EXPECT_EQ(g.find(b), a) << "the smallest id names the class";
  EXPECT_EQ(g.node_count(), 5u);
  EXPECT_EQ(g.class_count(), 4u);
  EXPECT_EQ(g.nodes_of(fa).size(), 1u);
  EXPECT_EQ(g.parents_of(b).size(), 2u);
  EXPECT_FALSE(g.lookup(1, 3, std::vector{a}).valid());
}

TEST(EGraph, ChildrenWithoutAnOrder) {
  enum : uint32_t { kLeaf, kPlus, kMinus };
  EGraph g;
  g.set_commutative(kPlus);
  ClassId a = g.add(kLeaf, 0, {}), b = g.add(kLeaf, 1, {}), c = g.add(kLeaf, 2, {});
  EXPECT_EQ(g.add(kPlus, 0, {a, b}), g.add(kPlus, 0, {b, a}));
  EXPECT_NE(g.add(kMinus, 0, {a, b}), g.add(kMinus, 0, {b, a}));
  EXPECT_EQ(g.lookup(kPlus, 0, std::vector{b, a}), g.add(kPlus, 0, {a, b}));
  // b + c becomes b + a: it meets a + b crosswise.
  ClassId bc = g.add(kPlus, 0, {b, c});
  g.unite(c, a);
  g.rebuild();
  EXPECT_TRUE(g.same(bc, g.add(kPlus, 0, {a, b})));
  EXPECT_EQ(g.faults(), std::vector<std::string>());
  EXPECT_TRUE(Explainer(g).of_equality(bc, g.add(kPlus, 0, {a, b})).empty());
}

TEST(EGraph, IsNaiveCongruenceClosure) {
  for (uint64_t seed = 0; seed < 150; ++seed) {
    Rng rng(seed);
    EGraph g;
    Naive naive;
    const int64_t pause = rng.between(1, 12);
    for (int i = 0; i < 60; ++i) {
      mutate(g, &naive, rng);
      if (i % pause) continue;
      expect_sound(g);
      naive.close();
      ASSERT_EQ(g.node_count(), naive.distinct()) << "seed " << seed;
      for (size_t n = 0; n < g.ids(); ++n) ASSERT_EQ(g.find(id_of(n)).value, naive.name[n]);
    }
  }
}

// --- Searching

Query random_query(Rng& rng) {
  Query q;
  const auto atoms = rng.between(1, 3);
  const auto slot = [&](int64_t fresh_share) {
    if (q.slots == 0 || rng.between(0, 9) < fresh_share) return q.slots++;
    return static_cast<uint32_t>(rng.between(0, q.slots - 1));
  };
  for (int64_t i = 0; i < atoms; ++i) {
    QueryAtom a{.op = static_cast<uint32_t>(rng.between(0, 3))};
    a.result = slot(3);
    const int64_t arity = a.op == 3 ? rng.between(0, 4) : a.op;
    for (int64_t c = 0; c < arity; ++c) a.children.push_back(slot(6));
    if (rng.between(0, 3) == 0) a.attr = static_cast<uint32_t>(rng.between(0, 2));
    if (rng.between(0, 3) == 0) a.attr_filter = [](uint32_t attr) { return attr % 2 == 0; };
    q.atoms.push_back(std::move(a));
  }
  q.slot_filters.resize(static_cast<size_t>(rng.between(0, q.slots)));
  for (auto& f : q.slot_filters) {
    if (rng.between(0, 2) == 0) f = [](ClassId c) { return c.value % 3 != 0; };
  }
  return q;
}

using Row = std::vector<uint32_t>;

// Every assignment of nodes to atoms, and then: does it fit?
void brute_force(const EGraph& g, const Query& q, std::vector<uint32_t>& nodes,
                 std::vector<Row>& out) {
  if (nodes.size() < q.atoms.size()) {
    for (uint32_t n = 0; n < g.ids(); ++n) {
      const QueryAtom& a = q.atoms[nodes.size()];
      const ENode node = g.node(id_of(n));
      if (!g.alive(id_of(n)) || node.op != a.op || node.children.size() != a.children.size())
        continue;
      nodes.push_back(n);
      brute_force(g, q, nodes, out);
      nodes.pop_back();
    }
    return;
  }
  Row row(q.slots, UINT32_MAX);
  const auto put = [&](uint32_t slot, ClassId c) {
    const bool fits = row[slot] == UINT32_MAX || row[slot] == c.value;
    row[slot] = c.value;
    return fits;
  };
  for (size_t i = 0; i < nodes.size(); ++i) {
    const QueryAtom& a = q.atoms[i];
    const ENode node = g.node(id_of(nodes[i]));
    if (a.attr && *a.attr != node.attr) return;
    if (a.attr_filter && !a.attr_filter(node.attr)) return;
    if (!put(a.result, g.find(id_of(nodes[i])))) return;
    for (size_t c = 0; c < a.children.size(); ++c) {
      if (!put(a.children[c], node.children[c])) return;
    }
  }
  for (size_t s = 0; s < q.slot_filters.size(); ++s) {
    if (q.slot_filters[s] && !q.slot_filters[s](id_of(row[s]))) return;
  }
  row.insert(row.end(), nodes.begin(), nodes.end());
  out.push_back(row);
}

std::vector<Row> sorted_rows(const Rows& rows) {
  std::vector<Row> out;
  for (size_t i = 0; i < rows.size(); ++i) {
    Row row;
    for (ClassId c : rows.classes(i)) row.push_back(c.value);
    for (ENodeId n : rows.nodes(i)) row.push_back(n.value);
    out.push_back(row);
  }
  std::sort(out.begin(), out.end());
  return out;
}

// What a snapshot holds of each live node: its class and children.
std::map<uint32_t, Row> tuples(const EGraph& g) {
  std::map<uint32_t, Row> all;
  for (uint32_t n = 0; n < g.ids(); ++n) {
    if (!g.alive(id_of(n))) continue;
    Row& row = all[n];
    row.push_back(g.find(id_of(n)).value);
    for (ClassId c : g.node(id_of(n)).children) row.push_back(c.value);
  }
  return all;
}

TEST(Search, FindsWhatTryingEverythingFinds) {
  size_t found = 0, found_new = 0;
  for (uint64_t seed = 0; seed < 120; ++seed) {
    Rng rng(seed, 1);
    EGraph g;
    std::vector<Query> queries;
    for (int i = 0; i < 6; ++i) queries.push_back(random_query(rng));
    std::vector<uint32_t> times;
    std::vector<std::map<uint32_t, Row>> snapshots;
    for (int round = 0; round < 5; ++round) {
      for (int64_t i = rng.between(0, 9); i >= 0; --i) mutate(g, nullptr, rng);
      times.push_back(g.refresh());
      snapshots.push_back(tuples(g));
      expect_sound(g);
      for (const Query& q : queries) {
        std::vector<uint32_t> nodes;
        std::vector<Row> all;
        brute_force(g, q, nodes, all);
        std::sort(all.begin(), all.end());
        found += all.size();
        ASSERT_EQ(sorted_rows(search(g, q)), all) << "seed " << seed << " round " << round;
        // Semi-naive, from every snapshot on: the rows with a tuple that the one before lacks.
        for (size_t t = 1; t < times.size(); ++t) {
          std::vector<Row> fresh;
          for (const Row& row : all) {
            if (std::any_of(row.begin() + q.slots, row.end(), [&](uint32_t n) {
                  // It may have changed and changed back: then every step counts.
                  for (size_t s = t; s < snapshots.size(); ++s) {
                    const auto was = snapshots[s - 1].find(n);
                    if (was == snapshots[s - 1].end() || was->second != snapshots[s].at(n))
                      return true;
                  }
                  return false;
                })) {
              fresh.push_back(row);
            }
          }
          found_new += fresh.size();
          ASSERT_EQ(sorted_rows(search(g, q, times[t])), fresh)
              << "seed " << seed << " since " << t;
        }
      }
    }
  }
  EXPECT_GT(found, 1000u) << "the queries must find something";
  EXPECT_GT(found_new, 1000u);
}

TEST(Search, GivesUpWithoutHoldingManyMoreRowsThanItMayFind) {
  EGraph g;
  for (uint32_t i = 0; i < 3000; ++i) g.add(i % 2, i, {});
  g.refresh();
  // All pairs, from few rows of the first atom.
  const QueryPlan pairs({.slots = 2, .atoms = {{.op = 0, .result = 0}, {.op = 1, .result = 1}}});
  Rows rows;
  const size_t most = 1000, at_once = 1500;
  EXPECT_FALSE(search(g, pairs, 0, rows, most));
  EXPECT_LE(rows.size(), most + at_once);
}

TEST(Search, SeesTheSnapshotWhileRulesAreApplied) {
  EGraph g;
  const ClassId a = g.add(0, 0, {}), b = g.add(0, 1, {}), fa = g.add(1, 0, {a});
  const Query q{.slots = 2, .atoms = {{.op = 1, .result = 0, .children = {1}}}};
  const uint32_t first = g.refresh();
  g.add(1, 0, {b});
  g.unite(a, b);
  EXPECT_EQ(sorted_rows(search(g, q)), (std::vector<Row>{{fa.value, a.value, fa.value}}));
  const uint32_t second = g.refresh();
  EXPECT_GT(second, first);
  EXPECT_EQ(search(g, q).size(), 1u);
  EXPECT_EQ(search(g, q, second).size(), 0u) << "its tuple is as it was: a named the class before";
}

}  // namespace
}  // namespace emend
