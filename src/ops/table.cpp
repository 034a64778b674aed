#include "ops/table.h"

#include <map>
#include <string>
#include <unordered_map>

namespace emend {

// The families, each in the file of its name. They are declared here and nowhere else, so that a
// new one rebuilds this file alone.
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
std::vector<OpDef> window_ops();
std::vector<OpDef> conv_transpose_ops();
std::vector<OpDef> padding_ops();
std::vector<OpDef> rearrange_ops();
std::vector<OpDef> view_ops();
std::vector<OpDef> patch_ops();
std::vector<OpDef> einsum_ops();
std::vector<OpDef> ml_ops();
std::vector<OpDef> tree_ops();
std::vector<OpDef> optimizer_ops();
std::vector<OpDef> resize_ops();
std::vector<OpDef> generate_ops();
std::vector<OpDef> signal_ops();
std::vector<OpDef> sample_ops();
std::vector<OpDef> host_math_ops();
std::vector<OpDef> quantize_ops();
std::vector<OpDef> recurrent_ops();
std::vector<OpDef> derivative_ops();
std::vector<OpDef> ml_model_ops();
std::vector<OpDef> gradient_ops();
std::vector<OpDef> opaque_ops();

namespace {

std::vector<OpDef> make_table() {
  std::vector<OpDef> all;
  // structure_ops() must stand first: its ids are fixed in ir/node.h.
  for (auto family : {
           structure_ops, elementwise_ops,      contraction_ops, reduction_ops, movement_ops,
           control_ops,   softmax_ops,          linear_ops,      norm_ops,      loss_ops,
           attention_ops, linear_attention_ops, sequence_ops,    string_ops,    cast_ops,
           index_ops,     scatter_ops,          order_ops,       random_ops,    data_dependent_ops,
           window_ops,    conv_transpose_ops,   padding_ops,     rearrange_ops, view_ops,
           patch_ops,     einsum_ops,           ml_ops,          tree_ops,      optimizer_ops,
           resize_ops,    generate_ops,         signal_ops,      sample_ops,    host_math_ops,
           quantize_ops,  recurrent_ops,        derivative_ops,  ml_model_ops,  gradient_ops,
           opaque_ops,
       }) {
    for (OpDef& d : family()) all.push_back(std::move(d));
  }
  return all;
}

using ByName = std::unordered_map<std::string_view, OpId>;

const ByName& by_name() {
  static const ByName kMap = [] {
    ByName map;
    for (size_t i = 0; i < all_ops().size(); ++i) {
      bool fresh = map.emplace(all_ops()[i].name, OpId(i)).second;
      EMEND_ASSERT(fresh, "operator ", all_ops()[i].name, " is defined twice");
    }
    return map;
  }();
  return kMap;
}

}  // namespace

const std::vector<OpDef>& all_ops() {
  static const std::vector<OpDef> kTable = make_table();
  return kTable;
}

const OpDef& op_def(OpId id) {
  return all_ops()[id.value];
}

OpId find_op(std::string_view name) {
  auto it = by_name().find(name);
  return it == by_name().end() ? OpId() : it->second;
}

OpId op_named(std::string_view name) {
  OpId id = find_op(name);
  EMEND_ASSERT(id.valid(), "no operator is called ", name);
  return id;
}

OnnxEntry find_onnx(std::string_view domain, std::string_view type, int64_t version) {
  using Key = std::pair<std::string, std::string>;
  static const auto kRows = [] {
    std::map<Key, std::vector<OnnxEntry>> rows;
    for (size_t i = 0; i < all_ops().size(); ++i) {
      for (const OnnxRow& r : all_ops()[i].onnx) rows[{r.domain, r.type}].push_back({OpId(i), &r});
    }
    return rows;
  }();
  if (domain == "ai.onnx") domain = "";
  auto it = kRows.find(Key(domain, type));
  if (it == kRows.end()) return {};
  for (const OnnxEntry& e : it->second) {
    if (e.row->since <= version && version < e.row->before) return e;
  }
  return {};
}

std::string_view to_text(Kind k) {
  static constexpr std::string_view kNames[] = {
      "structure", "elementwise", "movement", "contraction", "reduction", "index",
      "composite", "scan",        "random",   "host",        "opaque"};
  return kNames[static_cast<size_t>(k)];
}

}  // namespace emend
