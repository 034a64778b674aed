// Reading ONNX nodes that no writer should have made: whatever is missing or of the wrong type is
// an Error that says so, or a node that waits for run time; never a crash or our own assertion.
#include <gtest/gtest.h>

#include "ops/build.h"
#include "ops/onnx_lower.h"
#include "ops/table.h"

namespace emend {
namespace {

// `operands` are the inputs that are given.
void read_node(const OnnxRow& row, const Dims& present, const std::vector<Tensor>& operands,
               int64_t outputs) {
  for (int version : {row.since, std::min(row.before - 1, 27)}) {
    GraphBuilder b;
    std::vector<NodeId> args;
    for (const Tensor& t : operands) args.push_back(b.constant(t));
    OnnxNode node{.type = row.type,
                  .domain = row.domain,
                  .version = version,
                  .outputs = outputs,
                  .present = present};
    NodeId made = add_onnx_node(b, node, args);
    b.output("y", outputs == 1 ? made : b.get(made, 0));
    try {
      (void)lower_onnx(std::move(b).build());
    } catch (const Error& e) {
      EXPECT_NE(std::string(e.what()).find(row.type), std::string::npos) << e.what();
    } catch (const std::exception& e) {
      ADD_FAILURE() << row.type << " of opset " << version << " with " << operands.size()
                    << " inputs such as "
                    << (operands.empty() ? "none" : to_text(operands[0].type())) << ": "
                    << e.what();
    }
  }
}

template <class Check>
void for_each_row(const Check& check) {
  for (const OpDef& d : all_ops()) {
    for (const OnnxRow& row : d.onnx) check(row);
  }
}

TEST(OpsOnnx, NoRowTrustsTheNumberAndTypeOfOperands) {
  const Tensor operands[] = {Tensor::of_real(2, DType::f32),
                             Tensor::of_ints({}),
                             Tensor::of_ints({3, -1}),
                             Tensor::of_strings({1}, {"x"}),
                             Tensor::zeros(DType::f32, {2, 3, 4, 5}),
                             Tensor::zeros(DType::boolean, {0, 2})};
  for_each_row([&](const OnnxRow& row) {
    read_node(row, {}, {}, 1);
    read_node(row, {0, 0, 0, 0}, {}, 2);
    for (const Tensor& t : operands) {
      for (size_t n = 1; n <= 6; ++n)
        read_node(row, Dims(n, 1), std::vector<Tensor>(n, t), n == 2 ? 3 : 1);
      read_node(row, {1, 0, 1, 0, 1}, {t, t, t}, 1);
      read_node(row, {0, 1, 1}, {t, t}, 1);
    }
  });
}

// Under the sanitizers this finds whoever reads past a shape.
TEST(OpsOnnx, NoRowTrustsTheRanksOfOperands) {
  std::vector<Tensor> of_rank;
  for (size_t rank = 0; rank <= 5; ++rank)
    of_rank.push_back(Tensor::zeros(DType::f32, Dims(rank, 2)));
  for_each_row([&](const OnnxRow& row) {
    for (const Tensor& first : of_rank) {
      for (const Tensor& others : of_rank) {
        for (size_t n : {2, 3, 6}) {
          std::vector<Tensor> operands(n, others);
          operands[0] = first;
          read_node(row, Dims(n, 1), operands, 1);
        }
      }
    }
  });
}

}  // namespace
}  // namespace emend
