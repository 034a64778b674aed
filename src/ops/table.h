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

}  // namespace emend
