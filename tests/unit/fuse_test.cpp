// The partitioner: what it may never do, and that it finds the least price.
#include "fuse/fuse.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/rng.h"
#include "fuse/island.h"
#include "kernels/group.h"
#include "kernels/nest.h"
#include "kernels/sequential.h"
#include "ops/build.h"
#include "ops/evaluate.h"
#include "ops/table.h"
#include "text/text.h"
#include "zoo/zoo.h"

namespace emend {
namespace {

// --- what holds of every partition ---

bool is_given(const Graph& g, NodeId n) {
  return g.nodes[n].op == kInputOp || g.nodes[n].op == kConstantOp;
}

void check_group(const Graph& g, const NodeGroup& group, const std::set<NodeId>& stored) {
  int nuclei = 0, reductions = 0;
  ASSERT_TRUE(std::ranges::is_sorted(group.nodes));
  for (NodeId n : group.nodes) {
    for (NodeId a : g.nodes[n].args) {
      if (std::ranges::binary_search(group.nodes, a)) continue;
      NodeId memory = storage_of(g, a);
      EXPECT_TRUE(is_given(g, memory) || stored.count(memory)) << "loaded before it is stored";
    }
    if (group.host || is_renaming(g, n) || is_sequential(g, group)) continue;
    Role role = role_of(g, n);
    nuclei += role == Role::contraction || role == Role::window;
    reductions += role == Role::reduction;
  }
  if (is_sequential(g, group)) {
    // The loop, views of what it captures, and its results.
    for (NodeId n : group.nodes) {
      if (is_sequential(g, n)) ++nuclei;
      bool beside =
          g.nodes[n].op == kGetOp || is_renaming(g, n) || op_def(g.nodes[n]).kind == Kind::movement;
      EXPECT_TRUE(is_sequential(g, n) || beside) << op_def(g.nodes[n]).name;
    }
    EXPECT_EQ(nuclei, 1);
    return;
  }
  if (group.host) {
    EXPECT_EQ(group.nodes.size(), 1u);
    return;
  }
  EXPECT_LE(nuclei, 1);
  EXPECT_TRUE(nuclei == 0 || reductions == 0);
  EXPECT_FALSE(group.stores.empty());
  auto nest = nest_of(outlined(g, group).graph);
  EXPECT_TRUE(nest.has_value());
}

// Whether values lead from every node of the group to every other; siblings have none between them.
bool is_connected(const Graph& g, const NodeGroup& group) {
  std::set<NodeId> seen{group.nodes.front()};
  for (size_t before = 0; before != seen.size();) {
    before = seen.size();
    for (NodeId n : group.nodes) {
      for (NodeId a : g.nodes[n].args) {
        if (!std::ranges::binary_search(group.nodes, a)) continue;
        if (seen.count(n)) seen.insert(a);
        if (seen.count(a)) seen.insert(n);
      }
    }
  }
  return seen.size() == group.nodes.size();
}

void check_partition(const Graph& g, const Partition& p) {
  std::set<NodeId> stored;
  for (const NodeGroup& group : p.groups) {
    check_group(g, group, stored);
    for (NodeId n : group.stores) EXPECT_TRUE(stored.insert(n).second) << "stored twice";
  }
  for (const auto& o : g.outputs) {
    NodeId memory = storage_of(g, o.node);
    EXPECT_TRUE(is_given(g, memory) || stored.count(memory)) << "an output that nothing stores";
  }
}

// The groups run one after the other, by the reference.
std::vector<Value> evaluate_groups(const Graph& g, const Partition& p,
                                   const std::vector<Value>& in) {
  std::map<NodeId, Value> memory;
  for (size_t i = 0; i < in.size(); ++i) memory[g.inputs[i].node] = in[i];
  auto value = [&](NodeId n) -> Value {
    NodeId s = storage_of(g, n);
    Tensor t = g.is_constant(s) ? g.constant(s) : memory.at(s).tensor;
    return t.reshaped(g.type(n).shape);
  };
  for (const NodeGroup& group : p.groups) {
    Outline o = outlined(g, group);
    std::vector<Value> loads;
    for (NodeId n : o.loads) loads.push_back(value(n));
    std::vector<Value> made = evaluate(o.graph, loads);
    for (size_t i = 0; i < made.size(); ++i) memory[o.stores[i]] = made[i];
  }
  std::vector<Value> out;
  for (const auto& o : g.outputs) out.push_back(value(o.node));
  return out;
}

// --- random programs ---

size_t below(Rng& rng, size_t n) {
  return static_cast<size_t>(rng.bits() % n);
}

Graph random_graph(Rng& rng, size_t nodes) {
  GraphBuilder b;
  auto type = [](Dims shape) { return Type::tensor(DType::f32, std::move(shape)); };
  std::vector<NodeId> made;
  int64_t rows = (rng.uniform() < 0.5) ? 8 : 12, columns = 12;
  size_t inputs = 1 + below(rng, 2);
  for (size_t i = 0; i < inputs; ++i) made.push_back(b.input(str("x", i), type({rows, columns})));
  NodeId w = b.input("w", type({columns, columns}));
  NodeId v = b.input("v", type({columns}));
  auto pick = [&] { return made[made.size() - 1 - below(rng, std::min<size_t>(made.size(), 5))]; };
  while (made.size() + 2 < nodes) {
    NodeId x = pick(), y = pick();
    Result<NodeId> next = fail("none");
    auto attempt = [&](const char* op, std::vector<NodeId> args, Attrs attrs = {}) {
      next = b.try_op(op_named(op), args,
                      complete_attrs(op_def(op_named(op)), attrs).value_or_throw());
    };
    int64_t last = static_cast<int64_t>(b.shape(x).size()) - 1;
    switch (below(rng, 13)) {
      case 0:
      case 1:
        attempt("add", {x, y});
        break;
      case 2:
        attempt("mul", {x, v});
        break;
      case 3:
        attempt("relu", {x});
        break;
      case 4:
        attempt("tanh", {x});
        break;
      case 5:
        attempt("matmul", {x, w});
        break;
      case 6:
        attempt("matmul", {x, y});
        break;
      case 7:
        attempt("reduce_sum", {x}, Attrs({{"axes", Dims{last}}}));
        break;
      case 8:
        attempt("reduce_max", {x}, Attrs({{"axes", Dims{0}}}));
        break;
      case 9:
        attempt("transpose", {x}, Attrs({{"perm", Dims{1, 0}}}));
        break;
      case 11:
        attempt("cum_sum", {x}, Attrs({{"axis", last}}));
        break;
      case 10:
        attempt("concat", {x, y}, Attrs({{"axis", int64_t{0}}}));
        break;
      default:
        attempt("reshape", {x}, Attrs({{"shape", Dims{count(b.shape(x))}}}));
        break;
    }
    if (next && count(b.shape(*next)) <= 400) made.push_back(*next);
  }
  std::set<NodeId> read;
  for (const Node& n : b.graph().nodes) read.insert(n.args.begin(), n.args.end());
  size_t outputs = 0;
  for (NodeId n : made) {
    if (n.value < inputs + 2) continue;
    if (!read.count(n) || (rng.uniform() < 0.1)) b.output(str("y", outputs++), n);
  }
  if (outputs == 0) b.output("y", made.back());
  return std::move(b).build();
}

// --- the oracle ---

// The least price over every choice of dissolved nodes and every cover of the rest by connected
// groups (siblings are connected too) that do not wait for one another in a circle. Slow and
// obvious.
class Brute {
 public:
  Brute(const Graph& g, const Target& target) : units_(g), prices_(g, target, known_) {}

  double least() {
    std::vector<NodeId> cheap;
    for (size_t i = 0; i < units_.graph().size(); ++i) {
      if (units_.is_unit(NodeId(i)) && units_.cheap(NodeId(i))) cheap.push_back(NodeId(i));
    }
    for (size_t code = 0; code < size_t{1} << cheap.size(); ++code) {
      for (size_t k = 0; k < cheap.size(); ++k) units_.dissolve(cheap[k], (code >> k & 1) != 0);
      cover();
    }
    return best_;
  }

 private:
  void cover() {
    nodes_.clear();
    for (size_t i = 0; i < units_.graph().size(); ++i) {
      if (units_.is_unit(NodeId(i))) nodes_.push_back(NodeId(i));
    }
    size_t n = nodes_.size();
    users_.assign(n, 0);
    beside_.assign(n, 0);
    for (size_t i = 0; i < n; ++i) {
      for (NodeId u : units_.users(nodes_[i])) users_[i] |= 1u << place(u);
      for (NodeId u : units_.siblings(nodes_[i])) beside_[i] |= 1u << place(u);
    }
    blocks_.assign(n, {});
    for (uint32_t set = 1; set < 1u << n; ++set) {
      if (!connected(set)) continue;
      std::vector<NodeId> members;
      for (size_t i = 0; i < n; ++i) {
        if (set >> i & 1) members.push_back(nodes_[i]);
      }
      bool alone =
          std::ranges::any_of(members, [&](NodeId m) { return stays_alone(units_.role(m)); });
      if (alone && members.size() > 1) continue;
      if (auto seconds = prices_(units_.group(members))) {
        blocks_[static_cast<size_t>(__builtin_ctz(set))].emplace_back(set, *seconds);
      }
    }
    chosen_.clear();
    choose(0, 0);
  }

  size_t place(NodeId n) const {
    return static_cast<size_t>(std::ranges::find(nodes_, n) - nodes_.begin());
  }

  bool connected(uint32_t set) const {
    uint32_t seen = set & (~set + 1);
    for (uint32_t before = 0; before != seen;) {
      before = seen;
      for (size_t i = 0; i < nodes_.size(); ++i) {
        uint32_t edge = (1u << i | users_[i] | beside_[i]) & set;
        if ((set >> i & 1) == 0) continue;
        if (seen >> i & 1) seen |= edge;
        if (seen & users_[i]) seen |= 1u << i;
      }
    }
    return seen == set;
  }

  void choose(uint32_t done, double seconds) {
    if (seconds >= best_) return;
    uint32_t all = (1u << nodes_.size()) - 1;
    if (done == all) {
      if (acyclic()) best_ = seconds;
      return;
    }
    auto first = static_cast<size_t>(__builtin_ctz(~done));
    for (auto [set, price] : blocks_[first]) {
      if (set & done) continue;
      chosen_.push_back(set);
      choose(done | set, seconds + price);
      chosen_.pop_back();
    }
  }

  bool acyclic() const {
    uint32_t done = 0;
    std::vector<uint32_t> left = chosen_;
    for (bool moved = true; moved && !left.empty();) {
      moved = false;
      for (size_t k = 0; k < left.size(); ++k) {
        uint32_t needs = 0;
        for (size_t i = 0; i < nodes_.size(); ++i) {
          if (users_[i] & left[k]) needs |= 1u << i;
        }
        if (needs & ~done & ~left[k]) continue;
        done |= left[k];
        left.erase(left.begin() + static_cast<long>(k));
        moved = true;
        break;
      }
    }
    return left.empty();
  }

  Units units_;
  KnownGroups known_;
  GroupPrices prices_;
  std::vector<NodeId> nodes_;
  std::vector<uint32_t> users_, beside_;
  std::vector<std::vector<std::pair<uint32_t, double>>> blocks_;  // by their first unit
  std::vector<uint32_t> chosen_;
  double best_ = 1e300;
};

// Under the sanitizers a program takes twenty times as long, and what they look for shows soon.
#if defined(__SANITIZE_ADDRESS__)
constexpr int kPrograms = 300;
#else
constexpr int kPrograms = 10000;
#endif

TEST(Fuse, FindsTheLeastPriceOfRandomPrograms) {
  Rng rng(7);
  int fewer = 0, siblings = 0;
  for (int round = 0; round < kPrograms; ++round) {
    Graph g = random_graph(rng, 4 + below(rng, 9));
    SCOPED_TRACE(testing::Message() << "round " << round << "\n" << print(g));
    // Launches from nothing to far dearer than the bytes: both ends of the choice.
    Target target{.threads = 1, .launch_s = 1e-9 * static_cast<double>(1 + below(rng, 400))};
    Partition p = fuse(g, {.target = target, .budget = 1 << 20});
    check_partition(g, p);
    double found = price(g, p, target).value();
    double least = Brute(g, target).least();
    ASSERT_NEAR(found, least, 1e-9 * least);
    double alone = price(g, fuse(g, {.fuse = false}), target).value();
    EXPECT_LE(found, alone * (1 + 1e-12));
    fewer += found < alone * (1 - 1e-9);
    siblings += !std::ranges::all_of(
        p.groups, [&](const NodeGroup& group) { return is_connected(g, group); });
    // Without a budget the steps are greedy: never better, never wrong.
    Partition quick = fuse(g, {.target = target, .budget = 0});
    check_partition(g, quick);
    EXPECT_GE(price(g, quick, target).value(), least * (1 - 1e-9));
    if (HasFailure()) break;
  }
  EXPECT_GT(fewer, kPrograms * 6 / 10);
  EXPECT_GT(siblings, kPrograms / 5);
}

TEST(Fuse, GroupsComputeWhatTheProgramDoes) {
  Rng rng(11);
  int parted = 0;
  for (int round = 0; round < 300; ++round) {
    Graph g = random_graph(rng, 6 + below(rng, 20));
    SCOPED_TRACE(testing::Message() << "round " << round << "\n" << print(g));
    std::vector<Value> in;
    for (const auto& i : g.inputs) {
      std::vector<double> values(static_cast<size_t>(count(g.type(i.node).shape)));
      for (double& v : values) v = static_cast<double>(below(rng, 7)) - 3;
      in.emplace_back(Tensor::of_reals(DType::f32, g.type(i.node).shape, values));
    }
    Partition p = fuse(g);
    check_partition(g, p);
    std::vector<Value> whole = evaluate(g, in), parts = evaluate_groups(g, p, in);
    for (size_t i = 0; i < whole.size(); ++i) EXPECT_EQ(whole[i].tensor, parts[i].tensor);
    // The same where kernels would rather have views stored, some or all of them.
    GroupSeconds seconds = [&](const Graph& group, const std::vector<bool>&) {
      return static_cast<double>((hash(group) % 2 + 1) * group.size() * group.size());
    };
    Partition apart = fuse(g, {.seconds = seconds});
    check_partition(g, apart);
    parted += apart != p;
    parts = evaluate_groups(g, apart, in);
    for (size_t i = 0; i < whole.size(); ++i) EXPECT_EQ(whole[i].tensor, parts[i].tensor);
    if (HasFailure()) break;
  }
  EXPECT_GT(parted, 10);
}

// Of a chain that others read in the middle, only what is behind that becomes one.
TEST(Decomposed, WhatAConvolutionReadsIsOneView) {
  for (bool shared : {false, true}) {
    Graph g = parse_graph(str(R"(graph(x: f32[1,3,6,6], w: f32[2,12,2,2]) {
      %1 = pad[pads=[0,0,1,1,0,0,1,1]](x)
      %2 = reshape[shape=[1,3,4,2,4,2]](%1)
      %3 = transpose[perm=[0,1,3,5,2,4]](%2)
      %4 = reshape[shape=[1,12,4,4]](%3)
      return y = conv[strides=[1,1], dilations=[1,1], pads=[0,0,0,0]](%4, w))",
                              shared ? ", z = relu(%1)" : "", "\n}"));
    Graph plain = decomposed(g);
    int views = 0, others = 0;
    for (size_t i = 0; i < plain.size(); ++i) {
      const OpDef& def = op_def(plain.nodes[NodeId(i)]);
      views += def.name == "view";
      others += def.kind == Kind::movement && def.name != "view";
    }
    EXPECT_EQ(views, 1) << print(plain);
    EXPECT_EQ(others, shared ? 1 : 0) << print(plain);
    std::vector<Value> in;
    for (const auto& i : g.inputs) {
      std::vector<double> values(static_cast<size_t>(count(g.type(i.node).shape)));
      for (size_t k = 0; k < values.size(); ++k) values[k] = static_cast<double>(k * k % 11) - 5;
      in.emplace_back(Tensor::of_reals(DType::f32, g.type(i.node).shape, values));
    }
    EXPECT_EQ(evaluate(plain, in)[0].tensor, evaluate(g, in)[0].tensor);
  }
}

// Tuples are their items: nothing of a split, or of an operator with several results, is the
// host's.
TEST(Fuse, TuplesAreTakenApart) {
  Graph g = parse_graph(R"(graph(x: f32[4,6]) {
    %1 = split[axis=1, sizes=[2,4]](x)
    %2 = iota[shape=[4,2], dtype=f32]()
    return a = add(get[index=0](%1), %2), b = relu(get[index=1](%1))
  })");
  Graph plain = decomposed(g);
  Partition p = fuse(plain);
  check_partition(plain, p);
  for (const NodeGroup& group : p.groups) EXPECT_FALSE(group.host) << print(plain, p);
  std::vector<double> values(24);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<double>(i) - 9;
  std::vector<Value> in{Tensor::of_reals(DType::f32, {4, 6}, values)};
  std::vector<Value> whole = evaluate(g, in), parts = evaluate_groups(plain, p, in);
  for (size_t i = 0; i < whole.size(); ++i) EXPECT_EQ(whole[i].tensor, parts[i].tensor);
}

TEST(Fuse, EveryModelOfTheZooIsCovered) {
  for (const ZooEntry& entry : zoo()) {
    SCOPED_TRACE(entry.name);
    Graph g = decomposed(build_zoo(entry.name, {.weights = false}).graph);
    Target target{.threads = 2};
    Partition p = fuse(g, {.target = target});
    check_partition(g, p);
    ParsedPartition back = parse_partition(print(g, p), {g.constants.begin(), g.constants.end()});
    EXPECT_EQ(back.graph, g);
    EXPECT_EQ(back.partition, p);
    Partition alone = fuse(g, {.fuse = false});
    check_partition(g, alone);
    EXPECT_LT(price(g, p, target).value(), price(g, alone, target).value());
  }
}

// Two islands whose groups would need one another in a circle: a -> c, d -> b with {a, b} and {c,
// d} each worth a kernel. The edges across are products, which no kernel holds two of.
TEST(Fuse, CirclesBetweenIslandsAreCut) {
  GraphBuilder b;
  auto type = Type::tensor(DType::f32, {16, 16});
  NodeId x = b.input("x", type), y = b.input("y", type), w = b.input("w", type);
  NodeId a = b.op("tanh", {x}), d = b.op("tanh", {y});
  NodeId over = b.op("matmul", {a, w}), back = b.op("matmul", {d, w});
  b.output("p", b.op("add", {a, b.op("transpose", {b.op("add", {back, back})},
                                     Attrs({{"perm", Dims{1, 0}}}))}));
  b.output("q", b.op("add", {d, b.op("transpose", {b.op("add", {over, over})},
                                     Attrs({{"perm", Dims{1, 0}}}))}));
  Graph g = std::move(b).build();
  Target target{.threads = 1, .launch_s = 1e-6};
  for (size_t budget : {size_t{0}, size_t{1} << 20}) {
    Partition p = fuse(g, {.target = target, .budget = budget});
    check_partition(g, p);
  }
  Partition p = fuse(g, {.target = target, .budget = 1 << 20});
  EXPECT_NEAR(price(g, p, target).value(), Brute(g, target).least(), 1e-15);
}

// Tuples are taken apart for those that ask for items, and are whole for all others.
TEST(Decomposed, TuplesWithinTuplesAndOfOneItem) {
  GraphBuilder b;
  Type two = Type::tensor(DType::f32, {2});
  NodeId inner = b.op("tuple", {b.input("a", two), b.input("b", two)});
  NodeId second = b.get(b.get(b.op("tuple", {inner, b.input("c", two)}), 0), 1);
  b.output("x", second);
  b.output("y", b.op("tuple", {second}));
  Graph g = std::move(b).build();
  Graph plain = decomposed(g);
  ASSERT_EQ(plain.outputs.size(), 2u);
  for (size_t o = 0; o < 2; ++o)
    EXPECT_EQ(plain.type(plain.outputs[o].node), g.type(g.outputs[o].node));
}

}  // namespace
}  // namespace emend
