#include <gtest/gtest.h>

#include <algorithm>

#include "export/onnx.h"
#include "ops/build.h"
#include "ops/evaluate.h"
#include "ops/onnx_lower.h"
#include "support/onnx_models.h"
#include "support/onnx_samples.h"

namespace emend {
namespace {

using onnx::float_tensor;

// The file as it is, written for every size from programs at these.
std::variant<Exported, NotGeneral> written_from(const OnnxFile& file,
                                                const std::vector<SymbolSizes>& sizes) {
  Model model = file.import({.symbols = sizes[0]});
  model.info.defaulted = sizes[0];
  std::vector<AtSizes> others;
  for (size_t k = 1; k < sizes.size(); ++k)
    others.push_back({sizes[k], file.import({.symbols = sizes[k]}).graph});
  return export_for_all_sizes(model, others);
}

const onnx::Shape& shape_of(const onnx::ValueInfo& v) {
  return *std::get<onnx::TensorType>(v.type->value).shape;
}

TEST(Export, NamesDocumentationAndMetadataSurvive) {
  onnx::Model wire =
      onnx_model({value_info("x", {4})},
                 {onnx_node("Add", {"x", "w"}, {"middle"}), onnx_node("Relu", {"middle"}, {"y"})},
                 {value_info("y", {4})});
  wire.graph.initializer = {float_tensor("w", 4, 10)};
  wire.producer_name = "somebody";
  wire.metadata_props = {{"k", "v"}};
  wire.graph.input[0].doc_string = "the input";
  onnx::Model out = export_onnx(onnx_file(wire).import()).file;
  EXPECT_EQ(out.ir_version, 8);
  EXPECT_EQ(out.producer_name, "somebody");
  EXPECT_EQ(out.metadata_props.at(0).value, "v");
  EXPECT_EQ(out.opset_import.at(0).version, 17);
  EXPECT_EQ(out.graph.input.at(0).doc_string, "the input");
  EXPECT_EQ(out.graph.initializer.at(0).name, "w");
  ASSERT_EQ(out.graph.node.size(), 2u);
  EXPECT_EQ(out.graph.node[0].output[0], "middle");
  EXPECT_EQ(out.graph.node[1].output[0], "y");
}

TEST(Export, OutputsThatNothingComputesAreIdentities) {
  onnx::Model wire = onnx_model({value_info("x", {4})}, {onnx_node("Neg", {"x"}, {"y"})},
                                {value_info("x", {4}), value_info("y", {4}), value_info("w", {4})});
  wire.graph.initializer = {float_tensor("w", 4, 10)};
  Model m = onnx_file(wire).import();
  m.graph.outputs[0].name = "x_out";
  m.graph.outputs.push_back({"y_again", m.graph.outputs[1].node});
  m.graph.outputs[2].name = "w_out";
  onnx::Model out = export_onnx(m).file;
  std::map<std::string, std::string> copies;
  for (const auto& n : out.graph.node) {
    if (n.op_type == "Identity") copies[n.output[0]] = n.input[0];
  }
  EXPECT_EQ(copies,
            (std::map<std::string, std::string>{{"x_out", "x"}, {"y_again", "y"}, {"w_out", "w"}}));
}

TEST(Export, UnknownOperatorsTravelUntouched) {
  onnx::Attribute text;
  text.name = "how";
  text.type = onnx::AttributeType::kString;
  text.s = "gently";
  onnx::Model wire = onnx_model(
      {value_info("x", {4})},
      {onnx_node("Relu", {"x"}, {"a"}), onnx_node("Stir", {"a", "", "x"}, {"b", "", "c"}, {text}),
       onnx_node("Neg", {"c"}, {"y"})},
      {value_info("y", {4})});
  wire.graph.node[1].domain = "kitchen";
  wire.opset_import.push_back({"kitchen", 3});
  wire.graph.value_info = {value_info("c", {4})};
  onnx::Model out = export_onnx(onnx_file(wire).import()).file;
  ASSERT_EQ(out.graph.node.size(), 3u);
  const onnx::Node& stir = out.graph.node[1];
  EXPECT_EQ(stir.op_type, "Stir");
  EXPECT_EQ(stir.domain, "kitchen");
  EXPECT_EQ(stir.input, (std::vector<std::string>{"a", "", "x"}));
  EXPECT_EQ(stir.output.size(), 3u);
  EXPECT_EQ(stir.attribute.at(0).s, "gently");
  EXPECT_EQ(out.opset_import.at(1).domain, "kitchen");
  EXPECT_EQ(out.opset_import.at(1).version, 3);
  // What the file says of its result is kept, so that what follows is still understood.
  ASSERT_EQ(out.graph.value_info.size(), 1u);
  EXPECT_EQ(onnx_file(out).import().info.deferred.size(), 1u);
}

TEST(Export, ADomainGetsTheVersionThatItsNodesNeed) {
  onnx::Attribute classes;
  classes.name = "classes_strings";
  classes.type = onnx::AttributeType::kStrings;
  classes.strings = {"a", "b"};
  auto label = onnx_node("LabelEncoder", {"x"}, {"y"}, {classes});
  label.domain = "ai.onnx.ml";
  onnx::Model wire = onnx_model({value_info("x", {3})}, {label}, {value_info("y", {3})});
  std::get<onnx::TensorType>(wire.graph.input[0].type->value).elem_type = onnx::DataType::kString;
  std::get<onnx::TensorType>(wire.graph.output[0].type->value).elem_type = onnx::DataType::kInt64;
  wire.opset_import.push_back({"ai.onnx.ml", 1});
  Model m = onnx_file(wire).import();
  onnx::Model out = export_onnx(m).file;
  // Version 1 has places in a list; keys and values, as they are written, came with version 2.
  EXPECT_EQ(out.opset_import.at(1).version, 2);
  EXPECT_EQ(onnx_file(out).import().graph, m.graph);
}

TEST(Export, ASymbolStaysWhereTheFileHoldsForEverySize) {
  onnx::Model wire =
      onnx_model({value_info("x", {"N", 4, "S"})},
                 {onnx_node("Relu", {"x"}, {"a"}), onnx_node("Shape", {"a"}, {"s"}),
                  onnx_node("Gather", {"s", "zero"}, {"n"}),
                  onnx_node("Concat", {"n", "rest"}, {"to"}, {onnx::int_attribute("axis", 0)}),
                  onnx_node("Reshape", {"a", "to"}, {"y"})},
                 {value_info("y", {"N", "flat"})});
  wire.graph.initializer = {int_tensor("zero", {0}), int_tensor("rest", {-1})};
  OnnxFile file = onnx_file(wire);
  Exported out = std::get<Exported>(
      written_from(file, {{{"N", 5}, {"S", 7}}, {{"N", 11}, {"S", 6}}, {{"N", 8}, {"S", 17}}}));
  EXPECT_EQ(std::get<std::string>(shape_of(out.file.graph.input[0]).dim[0].value), "N");
  EXPECT_EQ(std::get<int64_t>(shape_of(out.file.graph.input[0]).dim[1].value), 4);
  EXPECT_EQ(std::get<std::string>(shape_of(out.file.graph.input[0]).dim[2].value), "S");
  EXPECT_EQ(std::get<std::string>(shape_of(out.file.graph.output[0]).dim[1].value), "flat");
  // What was written is right at a size that was never tried.
  ImportOptions odd{.symbols = {{"N", 3}, {"S", 2}}};
  Model original = file.import(odd), written = onnx_file(out.file).import(odd);
  std::vector<double> values(24);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<double>(i) - 11;
  std::vector<Value> x = {Tensor::of_reals(DType::f32, {3, 4, 2}, values)};
  EXPECT_EQ(evaluate(original.graph, x), evaluate(written.graph, x));
}

TEST(Export, ANumberThatIsComputedWithIsComputedFromTheShape) {
  onnx::Attribute to = onnx::int_attribute("to", 1);
  onnx::Model wire =
      onnx_model({value_info("x", {"N", "M"})},
                 {onnx_node("Shape", {"x"}, {"s"}), onnx_node("Gather", {"s", "zero"}, {"n"}),
                  onnx_node("Cast", {"n"}, {"f"}, {to}), onnx_node("Mul", {"x", "f"}, {"y"})},
                 {value_info("y", {"N", "M"})});
  wire.graph.initializer = {int_tensor("zero", {0})};
  OnnxFile file = onnx_file(wire);
  Exported out = std::get<Exported>(
      written_from(file, {{{"N", 5}, {"M", 7}}, {{"N", 11}, {"M", 6}}, {{"N", 8}, {"M", 17}}}));
  EXPECT_EQ(std::get<std::string>(shape_of(out.file.graph.input[0]).dim[0].value), "N");
  Model odd = onnx_file(out.file).import({.symbols = {{"N", 3}, {"M", 1}}});
  std::vector<Value> x = {Tensor::of_reals(DType::f32, {3, 1}, std::vector<double>{1, 2, 3})};
  EXPECT_EQ(evaluate(odd.graph, x)[0].tensor.reals(), (std::vector<double>{3, 6, 9}));
}

// Ranges as long as the sizes of x; equal numbers are one constant, as cleaning leaves them.
AtSizes ranges_at(int64_t n, int64_t m) {
  GraphBuilder b;
  b.input("x", Type::tensor(DType::f32, {n, m}));
  NodeId zero = b.constant(Tensor::of_int(0)), one = b.constant(Tensor::of_int(1));
  NodeId rows = b.constant(Tensor::of_int(n));
  NodeId columns = n == m ? rows : b.constant(Tensor::of_int(m));
  auto range = [&](NodeId count, int64_t size) {
    OnnxNode node{.type = "Range",
                  .version = 21,
                  .present = {1, 1, 1},
                  .result = Type::tensor(DType::i64, {size})};
    return add_onnx_node(b, node, std::vector<NodeId>{zero, count, one});
  };
  b.output("rows", range(rows, n));
  b.output("columns", range(columns, m));
  return {{{"N", n}, {"M", m}}, std::move(b).build()};
}

TEST(Export, NumbersThatAreEqualAtOneSizeStayApart) {
  auto out = export_for_all_sizes({ranges_at(6, 6).program, {.defaulted = {{"N", 6}, {"M", 6}}}},
                                  {ranges_at(5, 7), ranges_at(11, 8)});
  ASSERT_TRUE(std::holds_alternative<Exported>(out)) << std::get<NotGeneral>(out).reason;
  Model odd = onnx_file(std::get<Exported>(out).file).import({.symbols = {{"N", 3}, {"M", 2}}});
  std::vector<Value> x = {Tensor::of_reals(DType::f32, {3, 2}, std::vector<double>(6))};
  auto results = evaluate(odd.graph, x);
  EXPECT_EQ(results[0].tensor.ints(), (Dims{0, 1, 2}));
  EXPECT_EQ(results[1].tensor.ints(), (Dims{0, 1}));
}

TEST(Export, WhatIsNotOneProgramForEverySizeIsNamed) {
  auto at = [](int64_t size, const char* op) {
    GraphBuilder b;
    b.set_origin("here");
    b.output("y", b.op(op, {b.input("x", Type::tensor(DType::f32, {size}))}));
    return AtSizes{{{"N", size}}, std::move(b).build()};
  };
  auto out = export_for_all_sizes({at(5, "relu").program, {.defaulted = {{"N", 5}}}},
                                  {at(7, "relu"), at(11, "neg")});
  ASSERT_TRUE(std::holds_alternative<NotGeneral>(out));
  const auto& why = std::get<NotGeneral>(out);
  EXPECT_NE(why.reason.find("another size"), std::string::npos) << why.reason;
  EXPECT_EQ(why.nodes.at(0), "here");
}

}  // namespace
}  // namespace emend
