#include <gtest/gtest.h>

#include "ir/memory_budget.h"
#include "ops/evaluate.h"
#include "support/onnx_models.h"
#include "support/onnx_samples.h"

namespace emend {
namespace {

using onnx::float_tensor;

Tensor reals(Dims shape, std::vector<double> v) {
  return Tensor::of_reals(DType::f32, std::move(shape), v);
}

std::vector<double> run1(const Model& m, std::vector<Value> inputs) {
  return evaluate(m.graph, inputs)[0].tensor.reals();
}

// What the import says is wrong; empty if it succeeds.
std::string complaint(const onnx::Model& m, const ImportOptions& options = {}) {
  try {
    onnx_file(m).import(options);
    return "";
  } catch (const Error& e) {
    return e.what();
  }
}

TEST(Import, InitializersViewTheFile) {
  onnx::Model wire = onnx_model({value_info("x", {4})}, {onnx_node("Add", {"x", "w"}, {"y"})},
                                {value_info("y", {4})});
  wire.graph.initializer = {float_tensor("w", 4, 10)};
  SharedBytes bytes = SharedBytes::adopt(onnx::serialize(wire));
  Model m = OnnxFile(bytes, "test.onnx").import();
  ASSERT_EQ(m.graph.constants.size(), 1u);
  const std::byte* data = m.graph.constants[ConstId(0)].data();
  EXPECT_TRUE(data >= bytes.data() && data < bytes.data() + bytes.size());
  EXPECT_EQ(run1(m, {reals({4}, {1, 2, 3, 4})}), (std::vector<double>{11, 13, 15, 17}));
}

TEST(Import, SymbolsTakeDefaultsShapesOrValuesAndSaySo) {
  onnx::Model wire = onnx_model({value_info("x", {"batch", 3}), value_info("m", {"batch", "seq"})},
                                {onnx_node("Relu", {"x"}, {"y"}), onnx_node("Relu", {"m"}, {"z"})},
                                {value_info("y", {"batch", 3}), value_info("z", {"batch", "seq"})});
  OnnxFile file = onnx_file(wire);
  Model m = file.import();
  EXPECT_EQ(m.graph.types[m.graph.inputs[1].node].shape, (Dims{1, 128}));
  EXPECT_EQ(m.info.defaulted, (std::map<std::string, int64_t>{{"batch", 1}, {"seq", 128}}));
  EXPECT_EQ(m.info.specialised[0], "batch = 1 (default)");
  EXPECT_EQ(m.info.outputs[1].symbols, (std::vector<std::string>{"batch", "seq"}));

  m = file.import({.shapes = {{"x", {5, 3}}}, .symbols = {{"seq", 7}}});
  EXPECT_EQ(m.graph.types[m.graph.inputs[1].node].shape, (Dims{5, 7}));
  EXPECT_TRUE(m.info.defaulted.empty());

  EXPECT_NE(complaint(wire, {.shapes = {{"x", {5, 3}}, {"m", {4, 2}}}}).find("5 and also 4"),
            std::string::npos);
  EXPECT_NE(complaint(wire, {.symbols = {{"bath", 7}}}).find("\"bath\""), std::string::npos);
  EXPECT_NE(complaint(wire, {.shapes = {{"q", {7}}}}).find("the inputs are x, m"),
            std::string::npos);
}

TEST(Import, AShapeGivenByAnInputPinsItsValue) {
  onnx::ValueInfo shape = value_info("s", {2});
  std::get<onnx::TensorType>(shape.type->value).elem_type = onnx::DataType::kInt64;
  onnx::Model wire =
      onnx_model({value_info("x", {6}), shape}, {onnx_node("Reshape", {"x", "s"}, {"y"})},
                 {value_info("y", {2, 3})});
  Model m = onnx_file(wire).import({.input_values = {{"s", Tensor::of_ints({3, 2})}}});
  EXPECT_EQ(m.graph.types[m.graph.outputs[0].node].shape, (Dims{3, 2}));
  ASSERT_EQ(m.info.pinned.size(), 1u);
  EXPECT_EQ(m.info.pinned[0].first, "s");
  // Without the value the node waits for run time, and still computes.
  m = onnx_file(wire).import();
  EXPECT_EQ(m.info.deferred.size(), 1u);
  auto y = evaluate(m.graph,
                    std::vector<Value>{reals({6}, {1, 2, 3, 4, 5, 6}), Tensor::of_ints({2, 3})});
  EXPECT_EQ(y[0].tensor.shape(), (Dims{2, 3}));
}

TEST(Import, FunctionsAreInlinedWithTheirAttributesAndDefaults) {
  onnx::Attribute alpha;  // of the body: what the caller says
  alpha.name = "alpha";
  alpha.type = onnx::AttributeType::kFloat;
  alpha.ref_attr_name = "slope";
  onnx::Function inner;
  inner.name = "Inner";
  inner.domain = "local";
  inner.input = {"a", "unused"};
  inner.output = {"b"};
  inner.attribute = {"slope"};
  inner.opset_import = {{"", 17}};
  inner.node = {onnx_node("LeakyRelu", {"a"}, {"b"}, {alpha})};
  onnx::Function outer = inner;
  outer.name = "Outer";
  outer.attribute = {};
  onnx::Attribute half = alpha;
  half.name = "slope";
  half.f = 0.5F;
  half.ref_attr_name = "";
  outer.attribute_proto = {half};
  onnx::Attribute passed = alpha;
  passed.name = "slope";
  outer.opset_import = {{"", 17}, {"local", 1}};
  outer.node = {onnx_node("Inner", {"a"}, {"t"}, {passed}), onnx_node("Neg", {"t"}, {"b"})};
  outer.node[0].domain = "local";

  onnx::Model wire = onnx_model({value_info("x", {2})}, {onnx_node("Outer", {"x"}, {"y"})},
                                {value_info("y", {2})});
  wire.graph.node[0].domain = "local";
  wire.opset_import.push_back({"local", 1});
  wire.functions = {inner, outer};
  Model m = onnx_file(wire).import();
  EXPECT_EQ(run1(m, {reals({2}, {-4, 4})}), (std::vector<double>{2, -4}));

  wire.functions[0].node[0] = onnx_node("Outer", {"a"}, {"b"});
  wire.functions[0].node[0].domain = "local";
  EXPECT_NE(complaint(wire).find("calls itself"), std::string::npos);
}

TEST(Import, SubgraphsCaptureOuterValuesInOrderOfFirstUse) {
  onnx::Graph then_graph, else_graph;
  then_graph.name = "then";
  then_graph.node = {onnx_node("Sub", {"x", "d"}, {"t"})};
  then_graph.output = {value_info("t", {2})};
  else_graph.name = "else";
  else_graph.node = {onnx_node("Neg", {"d"}, {"e"})};
  else_graph.output = {value_info("e", {2})};
  onnx::ValueInfo c = value_info("c", {});
  std::get<onnx::TensorType>(c.type->value).elem_type = onnx::DataType::kBool;
  onnx::Model wire = onnx_model({c, value_info("x", {2})},
                                // Not in the order of their use, which is put right.
                                {onnx_node("If", {"c"}, {"y"},
                                           {graph_attribute("then_branch", then_graph),
                                            graph_attribute("else_branch", else_graph)}),
                                 onnx_node("Add", {"x", "x"}, {"d"})},
                                {value_info("y", {2})});
  Model m = onnx_file(wire).import();
  Tensor yes = Tensor::of_int(1, DType::boolean), no = Tensor::of_int(0, DType::boolean);
  EXPECT_EQ(run1(m, {yes, reals({2}, {1, 2})}), (std::vector<double>{-1, -2}));
  EXPECT_EQ(run1(m, {no, reals({2}, {3, 4})}), (std::vector<double>{-6, -8}));
}

TEST(Import, SparseInitializersBecomeDense) {
  onnx::Model wire = onnx_model({value_info("x", {2, 3})}, {onnx_node("Add", {"x", "w"}, {"y"})},
                                {value_info("y", {2, 3})});
  onnx::Tensor indices = int_tensor("", {0, 1, 1, 2});
  indices.dims = {2, 2};
  wire.graph.sparse_initializer = {{float_tensor("w", 2, 5), indices, {2, 3}}};
  Model m = onnx_file(wire).import();
  EXPECT_EQ(run1(m, {reals({2, 3}, {0, 0, 0, 0, 0, 0})}), (std::vector<double>{0, 5, 0, 0, 0, 6}));
  std::get<0>(std::tie(wire.graph.sparse_initializer[0].indices))->int64_data = {0, 1, 1, 3};
  EXPECT_NE(complaint(wire).find("sparse index 3"), std::string::npos);
}

TEST(Import, AFewBytesDoNotMakeALargeTensor) {
  onnx::Model sparse = onnx_model({value_info("x", {1})}, {onnx_node("Add", {"x", "w"}, {"y"})},
                                  {value_info("y", {1})});
  sparse.graph.sparse_initializer = {
      {float_tensor("w", 2, 5), int_tensor("", {0, 1}), {int64_t{1} << 30}}};
  EXPECT_NE(complaint(sparse).find(
                "test.onnx: tensor \"w\": unfolds to too much: a tensor takes 4.00 GiB"),
            std::string::npos)
      << complaint(sparse);
  // Each one alone would be small enough.
  onnx::Model ranges = onnx_model({}, {}, {});
  ranges.graph.initializer = {int_tensor("from", {0}), int_tensor("to", {10'000'000}),
                              int_tensor("by", {1})};
  for (const char* y : {"a", "b", "c"}) {
    ranges.graph.node.push_back(onnx_node("Range", {"from", "to", "by"}, {y}));
    ranges.graph.output.push_back(value_info(y, {10'000'000}));
  }
  EXPECT_NE(
      complaint(ranges).find("test.onnx: node b (Range): unfolds to too much: a tensor takes"),
      std::string::npos)
      << complaint(ranges);
}

// Sizes that only make trouble if something is made of every element while types are inferred.
TEST(Import, LargeShapesTakeNoMemoryUntilTheyRun) {
  const auto imported = [](std::vector<onnx::ValueInfo> inputs, onnx::Node node,
                           std::vector<onnx::Tensor> constants = {}) {
    onnx::Model m = onnx_model(std::move(inputs), {std::move(node)}, {value_info("y", {})});
    m.graph.initializer = std::move(constants);
    m.graph.output[0].type->value = {};
    m.opset_import = {{"", 22}};
    return complaint(m);
  };
  const int64_t large = int64_t{1} << 20;
  onnx::ValueInfo target = value_info("t", {1});
  std::get<onnx::TensorType>(target.type->value).elem_type = onnx::DataType::kInt64;
  EXPECT_EQ(imported({value_info("x", {1, 128 * large}), target},
                     onnx_node("SoftmaxCrossEntropyLoss", {"x", "t"}, {"y"})),
            "");
  const auto refused = [](const std::string& said) {
    EXPECT_NE(said.find("unfolds to too much"), std::string::npos) << said;
  };
  // A million parts are a list, and made when it runs; so many more are not even that.
  const auto split = onnx_node("SplitToSequence", {"x"}, {"y"}, {onnx::int_attribute("axis", 0)});
  EXPECT_EQ(imported({value_info("x", {large, 1024})}, split), "");
  refused(imported({value_info("x", {large * large, 1})}, split));
  refused(imported({value_info("x", {1, 2, 3})}, onnx_node("AffineGrid", {"x", "size"}, {"y"}),
                   {int_tensor("size", {1, 1, large, large})}));
  refused(imported({value_info("x", {1, 1, 4, 4}), value_info("w", {1, 1, 1, 1}),
                    value_info("o", {1, 2, large, large})},
                   onnx_node("DeformConv", {"x", "w", "o"}, {"y"})));
}

TEST(Import, FunctionsThatCallFunctionsDoNotUnfoldWithoutEnd) {
  onnx::Model m = onnx_model({value_info("x", {2})}, {}, {value_info("y", {2})});
  std::string callee = "Neg", domain = "";
  for (int level = 0; level < 40; ++level) {
    onnx::Function f;
    f.name = str("f", level);
    f.domain = "local";
    f.input = {"a"};
    f.output = {"c"};
    f.opset_import = {{"", 17}, {"local", 1}};
    f.node = {onnx_node(callee, {"a"}, {"b"}), onnx_node(callee, {"b"}, {"c"})};
    for (onnx::Node& n : f.node) n.domain = domain;
    callee = f.name;
    domain = f.domain;
    m.functions.push_back(f);
  }
  m.opset_import.push_back({"local", 1});
  m.graph.node = {onnx_node(callee, {"x"}, {"y"})};
  m.graph.node[0].domain = "local";
  EXPECT_NE(complaint(m).find("unfolds to too much: another node"), std::string::npos);
}

// Folding a shape operand computes what the file says; that, too, has an end.
TEST(Import, ShapeOperandsAreNotWorthAnyWork) {
  onnx::Model m = onnx_model(
      {value_info("x", {2})},
      {onnx_node("Expand", {"one", "many"}, {"a"}), onnx_node("Einsum", {"a", "a", "a"}, {"p"}),
       onnx_node("Reshape", {"x", "p"}, {"y"})},
      {value_info("y", {2})});
  m.graph.initializer = {int_tensor("one", {1}), int_tensor("many", {100'000})};
  onnx::Attribute equation;
  equation.name = "equation";
  equation.type = onnx::AttributeType::kString;
  equation.s = "i,j,k->";
  m.graph.node[1].attribute = {equation};
  EXPECT_NE(complaint(m).find("(Reshape): unfolds to too much: "), std::string::npos)
      << complaint(m);
}

TEST(Import, BudgetsNest) {
  const auto kib = [] { return Tensor::zeros(DType::u8, {1024}); };  // and its handle
  const MemoryBudget outer(3 * 1024);
  {
    const MemoryBudget inner(100 * 1024);  // cannot widen what is around it
    kib();
    EXPECT_THROW(Tensor::zeros(DType::u8, {2 * 1024}), Error);
  }
  EXPECT_THROW(Tensor::zeros(DType::u8, {2 * 1024}), Error);  // what was spent inside stays spent
  EXPECT_NO_THROW(kib());
  EXPECT_THROW(kib(), Error);
}

TEST(Import, BadGraphsGetOneSentenceThatNamesFileNodeAndReason) {
  onnx::Model good = onnx_model({value_info("x", {2})},
                                {onnx_node("Relu", {"x"}, {"a"}), onnx_node("Neg", {"a"}, {"y"})},
                                {value_info("y", {2})});
  EXPECT_EQ(complaint(good), "");
  onnx::Model m = good;
  m.graph.node[0].input = {"y"};
  EXPECT_EQ(complaint(m), "test.onnx: node \"a\" (Relu): the graph has a cycle through this node");
  m = good;
  m.graph.node[1].output = {"a"};
  EXPECT_EQ(complaint(m), "test.onnx: node \"a\" (Neg): the value \"a\" is produced twice");
  m = good;
  m.graph.node[0].input = {"q"};
  EXPECT_EQ(complaint(m),
            "test.onnx: node \"a\" (Relu): the value \"q\" is used, but nothing produces it");
  m = good;
  m.graph.input[0] = value_info("x", {int64_t{1} << 62, 4});
  EXPECT_NE(complaint(m).find("absurd shape"), std::string::npos);
  m = onnx_model({value_info("x", {2, 3}), value_info("w", {})},
                 {onnx_node("SequenceConstruct", {"x", "w"}, {"s"}),
                  onnx_node("ConcatFromSequence", {"s"}, {"y"},
                            {onnx::int_attribute("axis", 2), onnx::int_attribute("new_axis", 1)})},
                 {value_info("y", {2})});
  EXPECT_EQ(complaint(m),
            "test.onnx: node y (ConcatFromSequence): item [] has another rank than the first");
  m = good;
  m.opset_import = {{"", 99}};
  EXPECT_NE(complaint(m).find("opset 99 is newer"), std::string::npos);
  m = good;
  m.graph.output.push_back(value_info("nothing", {2}));
  EXPECT_NE(complaint(m).find("output \"nothing\""), std::string::npos);
}

// Under the sanitizers: no size is computed by an overflow.
TEST(Import, SizesAtTheEndsOfTheRangeAreErrors) {
  constexpr int64_t kMost = INT64_MAX, kLeast = INT64_MIN;
  const auto said = [](std::vector<std::variant<int64_t, std::string>> x, onnx::Node node,
                       std::vector<onnx::Tensor> constants = {}) {
    node.output = {"y"};
    onnx::Model m =
        onnx_model({value_info("x", std::move(x))}, {std::move(node)}, {value_info("y", {1})});
    m.opset_import = {{"", 22}};
    m.graph.initializer = std::move(constants);
    return complaint(m);
  };
  const auto reshape = onnx_node("Reshape", {"x", "s"}, {});
  EXPECT_NE(said({2, 15}, reshape, {int_tensor("s", {kMost, 15})}), "");
  EXPECT_NE(said({2, 15}, reshape, {int_tensor("s", {kMost, kMost, -1})}), "");
  EXPECT_NE(said({2, 15}, onnx_node("SplitToSequence", {"x", "s"}, {}),
                 {int_tensor("s", {kMost, kMost, 4})}),
            "");
  const auto number = [](const std::string& name, int64_t value) {
    onnx::Tensor t = int_tensor(name, {value});
    t.dims = {};
    return t;
  };
  EXPECT_EQ(said({1}, onnx_node("Range", {"from", "to", "by"}, {}),
                 {number("from", kLeast), number("to", kMost), number("by", int64_t{1} << 62)}),
            "");  // four numbers, all in the range
  for (int64_t size : {kLeast, kMost}) {
    EXPECT_NE(said({1, 5, 5, 5}, onnx_node("LRN", {"x"}, {}, {onnx::int_attribute("size", size)})),
              "");
    onnx::Node dequantize = onnx_node("DequantizeLinear", {"q", "scales"}, {});
    dequantize.attribute = {onnx::int_attribute("axis", 0),
                            onnx::int_attribute("block_size", size)};
    onnx::Tensor q = int_tensor("q", {});
    q.data_type = onnx::DataType::kInt8;
    q.dims = {5};
    q.int64_data = {};
    q.int32_data = {1, 2, 3, 4, 5};
    EXPECT_NE(said({1}, dequantize, {q, float_tensor("scales", 3, 1)}), "");
  }
}

TEST(Import, InitializersListedAsInputsAreConstants) {
  onnx::Model wire = onnx_model({value_info("x", {4}), value_info("w", {4})},
                                {onnx_node("Add", {"x", "w"}, {"y"})}, {value_info("y", {4})});
  wire.graph.initializer = {float_tensor("w", 4, 10)};
  Model m = onnx_file(wire).import();
  EXPECT_EQ(m.graph.inputs.size(), 1u);
  EXPECT_EQ(m.info.specialised[0], "input \"w\" = its default value");
  // Whoever gives it a value makes it an input.
  m = onnx_file(wire).import({.input_values = {{"w", reals({4}, {1, 1, 1, 1})}}});
  EXPECT_EQ(m.graph.inputs.size(), 2u);
}

}  // namespace
}  // namespace emend
