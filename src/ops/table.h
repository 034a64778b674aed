// The operator table: an explicit list, put together from the families' files. An OpId is an index
// into it.
#pragma once

#include <string_view>
#include <vector>

#include "ops/op_def.h"

namespace emend {

const std::vector<OpDef>& all_ops();
const OpDef& op_def(OpId id);
inline const OpDef& op_def(const Node& n) {
  return op_def(n.op);
}
// The operator of that name; `find_op` gives an invalid id where there is none.
OpId op_named(std::string_view name);
OpId find_op(std::string_view name);

struct OnnxEntry {
  OpId op;
  const OnnxRow* row;
};
// The row that reads this ONNX operator at this version; null row if none does.
OnnxEntry find_onnx(std::string_view domain, std::string_view type, int64_t version);

// The families, each in the file of its name.
std::vector<OpDef> structure_ops();
std::vector<OpDef> elementwise_ops();
std::vector<OpDef> contraction_ops();
std::vector<OpDef> reduction_ops();
std::vector<OpDef> movement_ops();
std::vector<OpDef> control_ops();
std::vector<OpDef> softmax_ops();
std::vector<OpDef> linear_ops();
std::vector<OpDef> norm_ops();
std::vector<OpDef> loss_ops();
std::vector<OpDef> attention_ops();
std::vector<OpDef> linear_attention_ops();
std::vector<OpDef> sequence_ops();
std::vector<OpDef> string_ops();
std::vector<OpDef> cast_ops();
std::vector<OpDef> index_ops();
std::vector<OpDef> scatter_ops();
std::vector<OpDef> order_ops();
std::vector<OpDef> random_ops();
std::vector<OpDef> data_dependent_ops();
std::vector<OpDef> opaque_ops();  // onnx_lower.cpp
}  // namespace emend
