// What is seen as attention, what fusion makes of it, and that errors in its kernel are found; that
// its results are right is tested on random groups (ops/kernels_property_test.cpp).
#include <gtest/gtest.h>

#include "codegen/codegen.h"
#include "equiv/compare.h"
#include "fuse/fuse.h"
#include "kernels/cpu/attention_shape.h"
#include "kernels/cpu/c_code.h"
#include "kernels/cpu/cpu.h"
#include "kernels/group.h"
#include "pipeline/kernel_check.h"
#include "support/scratch.h"
#include "text/text.h"

namespace emend {
namespace {

const Target kTarget{.vector_bytes = 64, .threads = 2, .peak_flops = 2.3e11, .bandwidth = 6e10};

// Queries of `each` heads per head of keys and values.
struct Shape {
  int64_t heads = 4, each = 1, queries = 48, keys = 48, size = 32;
  int64_t axis = 3;         // of the softmax
  bool scores_out = false;  // the probabilities are an output, too
  bool weights = false;     // keys are known ahead of time
  bool added = false;       // probabilities are added to the result (size = keys)
  bool own_keys = false;    // every head has keys of its own, and shares values only
};

Graph attention(const Shape& s) {
  GraphBuilder b;
  auto turned = [&](NodeId x, Dims perm) {
    return b.op("transpose", {x}, Attrs({{"perm", std::move(perm)}}));
  };
  auto shaped = [&](NodeId x, Dims shape) {
    return b.op("reshape", {x}, Attrs({{"shape", std::move(shape)}}));
  };
  auto split = [&](NodeId x, int64_t tokens, int64_t heads) {
    return turned(shaped(x, {1, tokens, heads, s.size}), {0, 2, 1, 3});
  };
  auto repeated = [&](NodeId x) {
    if (s.each == 1) return x;
    x = shaped(x, {1, s.heads, 1, s.keys, s.size});
    Dims wide{1, s.heads, s.each, s.keys, s.size};
    x = b.op("broadcast", {x}, Attrs({{"shape", wide}}));
    return shaped(x, {1, s.heads * s.each, s.keys, s.size});
  };
  auto f32 = [](Dims shape) { return Type::tensor(DType::f32, std::move(shape)); };
  int64_t wide = s.heads * s.each;
  NodeId q = split(b.input("q", f32({1, s.queries, wide * s.size})), s.queries, wide);
  Type keys = f32({1, s.keys, s.heads * s.size}), own = f32({1, s.keys, wide * s.size});
  std::vector<double> known(static_cast<size_t>(count(keys.shape)), 0.5);
  NodeId k =
      s.weights ? b.constant(Tensor::of_reals(DType::f32, keys.shape, known)) : b.input("k", keys);
  NodeId v = repeated(split(b.input("v", keys), s.keys, s.heads));
  NodeId by_head =
      s.own_keys ? split(b.input("own", own), s.keys, wide) : repeated(split(k, s.keys, s.heads));
  NodeId p = b.op("matmul", {q, turned(by_head, {0, 1, 3, 2})});
  p = b.op("add", {b.op("mul", {p, b.scalar(0.2, DType::f32)}), b.input("mask", f32({s.keys}))});
  p = b.op("softmax", {p}, Attrs({{"axis", s.axis}}));
  NodeId y = b.op("matmul", {p, v});
  y = turned(s.added ? b.op("add", {y, p}) : y, {0, 2, 1, 3});
  b.output("y", y);
  if (s.scores_out) b.output("p", p);
  return decomposed(std::move(b).build());
}

NodeGroup whole(const Graph& g) {
  NodeGroup all;
  for (size_t n = 0; n < g.size(); ++n) {
    const Node& node = g.nodes[NodeId(n)];
    if (node.op != kInputOp && node.op != kConstantOp) all.nodes.push_back(NodeId(n));
  }
  for (const auto& o : g.outputs) all.stores.push_back(o.node);
  return all;
}

std::optional<AttentionShape> seen(const Shape& s) {
  Graph g = attention(s);
  return attention_in(outlined(g, whole(g)).graph);
}

TEST(Attention, QueriesOfHeadsThatShareKeysAreRows) {
  auto plain = seen({.heads = 3, .queries = 20, .keys = 50});
  ASSERT_TRUE(plain);
  EXPECT_EQ(plain->scores.batches, 3);
  EXPECT_EQ(plain->scores.first.extent, 20);
  EXPECT_EQ(plain->scores.second.extent, 50);
  auto grouped = seen({.heads = 3, .each = 4, .queries = 20, .keys = 50});
  ASSERT_TRUE(grouped);
  EXPECT_EQ(grouped->scores.batches, 3);
  EXPECT_EQ(grouped->scores.first.extent, 80);
  EXPECT_EQ(grouped->context.first.extent, 80);
}

// Heads are cut into groups only where values are read.
TEST(Attention, HeadsThatShareValuesOnlyAreBatches) {
  auto a = seen({.heads = 3, .each = 4, .queries = 20, .keys = 50, .own_keys = true});
  ASSERT_TRUE(a);
  EXPECT_EQ(a->scores.batches, 12);
  EXPECT_EQ(a->context.batches, 12);
  EXPECT_EQ(a->context.first.extent, 20);
}

TEST(Attention, ASoftmaxIsDividedAfterwards) {
  auto a = seen({});
  ASSERT_TRUE(a);
  EXPECT_GE(a->numerator, 0);
}

TEST(Attention, IsNotSeenWhereItIsNone) {
  EXPECT_FALSE(seen({.axis = 2}));           // over the queries: rows are not computed alone
  EXPECT_FALSE(seen({.axis = 1}));           // over the heads
  EXPECT_FALSE(seen({.scores_out = true}));  // somebody wants the probabilities
  EXPECT_FALSE(seen({.keys = 1}));           // no row at all
  EXPECT_FALSE(seen({.keys = 32, .size = 32, .added = true}));  // read a second time
}

TEST(Attention, IsOneGroupWhereThatIsCheaper) {
  auto groups = [](const Shape& s) {
    Graph g = attention(s);
    Partition p = fuse(g, {.target = kTarget, .catalogue = &cpu_catalogue()});
    ParsedPartition back = parse_partition(print(g, p, {.all_constants = true}));
    EXPECT_EQ(back.partition, p);
    return p.groups.size();
  };
  EXPECT_EQ(groups({}), 1u);
  EXPECT_EQ(groups({.heads = 12, .queries = 197, .keys = 197, .size = 64}), 1u);
  EXPECT_EQ(groups({.each = 3}), 1u);
  EXPECT_GT(groups({.axis = 2}), 1u);
  EXPECT_EQ(groups({.scores_out = true}), 3u);
  EXPECT_EQ(groups({.weights = true}), 3u);
  // One query a head: everything would be packed for a single use.
  EXPECT_EQ(groups({.heads = 32, .queries = 1, .keys = 1024, .size = 64}), 3u);
}

TEST(Attention, ScratchMemoryIsBounded) {
  for (int64_t keys : {100, 4000, 60000}) {
    Graph g = attention({.heads = 1, .queries = 64, .keys = keys});
    Outline o = outlined(g, whole(g));
    std::vector<bool> constant(o.loads.size(), false);
    auto all = attention_kernel().candidates({o.graph, constant, {}}, kTarget);
    EXPECT_EQ(all.empty(), keys == 60000);
    for (const Candidate& c : all) {
      size_t bytes = attention_kernel().emit(o.graph, c, kTarget).scratch_bytes;
      EXPECT_GT(bytes, 0u);
      EXPECT_LE(bytes, size_t{9} << 20) << to_text(c.config);
    }
  }
}

// Errors planted into its text: a wrong row, a missing key, a wrong divisor, a wrong mask.
TEST(Attention, ErrorsAreFound) {
  Graph g = attention({.heads = 2, .each = 2, .queries = 19, .keys = 37, .size = 24});
  NodeGroup all = whole(g);
  Outline o = outlined(g, all);
  std::vector<bool> constant(o.loads.size(), false);
  Target target{.vector_bytes = 16, .threads = 2, .peak_flops = 1e11};
  Plan plan{{{all}}, {attention_kernel().candidates({o.graph, constant, {}}, target).at(0)}};
  Scratch scratch;
  auto faults = [&](const std::string& what, const std::string& by) {
    Program p = generate(g, plan, cpu_catalogue(), target);
    std::string& text = p.kernels[0].text;
    size_t at = text.find(what);
    EXPECT_NE(at, std::string::npos) << what << " is not in\n" << text;
    if (at != std::string::npos) text.replace(at, what.size(), by);
    CpuOptions options{.threads = 2};
    options.compile.cache = scratch / "kernels";
    CpuProgram program(std::move(p), c_prelude(), options);
    return check_kernels(g, program, random_inputs(g, 3), 1e-4).faults.size();
  };
  EXPECT_EQ(faults("hi = 37", "hi = 37"), 0u);
  EXPECT_EQ(faults("hi = 37", "hi = 36"), 1u);
  EXPECT_EQ(faults("/ divisors[o - m0]", "/ divisors[0]"), 1u);
  EXPECT_EQ(faults("float* const row = sums + (m - m0)", "float* const row = sums + 0 * (m - m0)"),
            1u);
  EXPECT_EQ(faults("< -87.f ? 0.f :", "< 0.f ? 0.f :"), 1u);
}

}  // namespace
}  // namespace emend
