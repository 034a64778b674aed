#include "text/text.h"

#include <gtest/gtest.h>

#include "base/rng.h"
#include "ops/build.h"
#include "ops/movement.h"
#include "ops/onnx_lower.h"
#include "ops/table.h"

namespace emend {
namespace {

void expect_round_trip(const Graph& g) {
  std::string text = print(g, {.all_constants = true});
  Graph again = parse_graph(text);
  EXPECT_EQ(again, g) << text;
  EXPECT_EQ(print(again, {.all_constants = true}), text);
}

TEST(Text, HandWrittenGraphsNest) {
  Graph g = parse_graph(
      R"(graph(a: f32[2,3], b: f32[3,2], c: f32[2,1]) { return matmul(matmul(a, b), c) })");
  EXPECT_EQ(g.size(), 5u);
  EXPECT_EQ(g.types[g.outputs[0].node].shape, (Dims{2, 1}));
  expect_round_trip(g);
}

TEST(Text, ConstantsOfEveryDtypeSurvive) {
  for (int t = 0; t < kDTypeCount; ++t) {
    auto dtype = static_cast<DType>(t);
    GraphBuilder b;
    Tensor value;
    if (dtype == DType::string) {
      value = Tensor::of_strings({3}, {"a\"b", "\n\xff", ""});
    } else {
      value = Tensor::make(dtype, {13}, [&](std::byte* data) {
        Rng rng(7, static_cast<uint64_t>(t));
        auto bytes = storage_bytes(dtype, 13).value();
        for (size_t i = 0; i < bytes; ++i) data[i] = static_cast<std::byte>(rng.bits());
        if (dtype == DType::boolean)
          for (size_t i = 0; i < bytes; ++i) data[i] &= std::byte{1};
        // Unused bits of the last byte are not part of the value.
        if (info(dtype).bits == 4) data[bytes - 1] &= std::byte{15};
        if (info(dtype).bits == 2) data[bytes - 1] &= std::byte{3};
      });
    }
    NodeId c = b.constant(value);
    b.output("y", c);
    b.output("again", b.shared_constant(c));
    expect_round_trip(std::move(b).build());
  }
}

TEST(Text, OddNamesAttributesAndSubgraphsSurvive) {
  GraphBuilder body;
  NodeId x = body.input("x.1", Type::any());
  body.output(
      "out put",
      add_onnx_node(body,
                    {.type = "Foo",
                     .domain = "my.domain",
                     .version = 3,
                     .attributes = Attrs({{"f", 0.1},
                                          {"i", int64_t{-3}},
                                          {"s", "q\"x"},
                                          {"fs", std::vector<double>{}},
                                          {"ss", std::vector<std::string>{"a", "b"}},
                                          {"t", Tensor::of_ints({1, 2})},
                                          {"inf", -INFINITY},
                                          {"ty", Type::sequence(Type::tensor(DType::f32, {2}))}}),
                     .outputs = 2,
                     .present = {1, 0}},
                    Args(&x, 1)));
  Graph inner = std::move(body).build();
  GraphBuilder b;
  NodeId y = b.input("weird name", Type::tensor(DType::bf16, {0, 3}), true);
  NodeId n = add_onnx_node(b,
                           {.type = "If",
                            .version = 19,
                            .attributes = Attrs({{"then_branch", GraphRef(inner)}}),
                            .present = {1}},
                           Args(&y, 1));
  b.name(n, "node \"7\"");
  b.output("graph", n);
  expect_round_trip(std::move(b).build());
}

TEST(Text, InputsOfOneNameAreToldApartByTheirPlace) {
  Type t = Type::tensor(DType::f32, {2});
  GraphBuilder b;
  b.input("state", t);
  NodeId x = b.input("state", t), odd = b.input("%1", t);
  b.output("y", b.op("sub", {x, odd}));
  expect_round_trip(std::move(b).build());
  EXPECT_THROW(parse_graph("graph(x: f32[2], x: f32[2]) { return neg(x) }"), Error);
  EXPECT_THROW(parse_graph("graph(x: f32[2]) { return neg(%1) }"), Error);
}

TEST(Text, LargeConstantsStandInThePool) {
  GraphBuilder b;
  NodeId big = b.constant(Tensor::zeros(DType::f32, {100}));
  b.output("y", b.op("relu", {big}));
  Graph g = std::move(b).build();
  std::string text = print(g);
  EXPECT_NE(text.find("pool(0)"), std::string::npos);
  EXPECT_EQ(parse_graph(text, {g.constants[ConstId(0)]}), g);
  EXPECT_THROW(parse_graph(text), Error);
}

TEST(Text, MistakesAreExplained) {
  auto message = [](std::string_view text) {
    try {
      parse_graph(text);
    } catch (const Error& e) {
      return std::string(e.what());
    }
    return std::string("accepted");
  };
  EXPECT_NE(message("graph(x: f32[2]) { return fly(x) }").find("no operator is called 'fly'"),
            std::string::npos);
  EXPECT_NE(message("graph(x: f32[2]) { return y }").find("nothing is called 'y'"),
            std::string::npos);
  EXPECT_NE(message("graph(x: f32[2,3])\n{ return matmul(x, x) }").find("line 2"),
            std::string::npos);
  EXPECT_NE(message("graph(x: f32[99999999999,99999999999]) { return x }").find("absurd"),
            std::string::npos);
}

// A node of two groups, a host's group with its reason, a renaming; and no text crashes the parser.
TEST(Text, PartitionsSurvive) {
  Graph g = parse_graph(R"(graph(x: f32[2,6]) {
    %1 = constant f32[]{2.0}
    %2 = neg(x)
    %3 = relu(%2)
    %4 = reshape[shape=[12]](%3)
    %5 = mul(%2, %1)
    %6 = non_zero(%5)
    return a = %4, b = %6 })");
  auto node = [](uint32_t n) { return NodeId(n); };
  Partition p{{{{node(2), node(3)}, {node(3)}, false, ""},
               {{node(2), node(5)}, {node(5)}, false, ""},
               {{node(6)}, {node(6)}, true, "non_zero has no form in index notation"}}};
  std::string text = print(g, p);
  ParsedPartition back = parse_partition(text);
  EXPECT_EQ(back.graph, g) << text;
  EXPECT_EQ(back.partition, p) << text;
  Rng rng(1);
  for (int i = 0; i < 20000; ++i) {
    std::string bad = text;
    for (int k = 0; k < 3; ++k) {
      bad[static_cast<size_t>(rng.between(0, std::ssize(bad) - 1))] =
          static_cast<char>(rng.between(32, 126));
    }
    if (i % 3 == 0) bad.resize(static_cast<size_t>(rng.between(0, std::ssize(bad))));
    try {
      parse_partition(bad);
    } catch (const Error&) {
    }
  }
}

TEST(Text, NoTextCrashesTheParser) {
  std::string good =
      print(parse_graph("graph(a: f32[2,3]) { %1 = constant f32[3]{1.0, 2.0, 3.0} %2 = add(a, %1) "
                        "return transpose[perm=[1,0]](%2) }"));
  Rng rng(1);
  for (int i = 0; i < 20000; ++i) {
    std::string bad = good;
    for (int k = 0; k < 3; ++k)
      bad[static_cast<size_t>(rng.between(0, static_cast<int64_t>(bad.size()) - 1))] =
          static_cast<char>(rng.between(32, 126));
    if (i % 3 == 0)
      bad.resize(static_cast<size_t>(rng.between(0, static_cast<int64_t>(bad.size()))));
    try {
      Graph g = parse_graph(bad);
      expect_round_trip(g);
    } catch (const Error&) {
    }
  }
}

// Memory that ends where the text does: what reads on is found by the sanitizers.
TEST(PartitionText, ThatEndsTooEarlyIsNotReadBeyondItsEnd) {
  std::string_view whole = "graph(x: f32[2]) {\n kernel {\n store %1";
  for (size_t n = 0; n <= whole.size(); ++n) {
    std::vector<char> exact(whole.begin(), whole.begin() + static_cast<long>(n));
    EXPECT_THROW(parse_partition(std::string_view(exact.data(), n)), Error) << whole.substr(0, n);
  }
}

}  // namespace
}  // namespace emend
