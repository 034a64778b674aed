#include "import/arity.h"

#include <algorithm>
#include <string_view>

namespace emend {
namespace {

// clang-format off
constexpr std::string_view kNone[] = {
    "Constant", "Loop", "Optional", "OptionalHasElement", "RandomNormal", "RandomUniform", "Scan", "SequenceEmpty"};
constexpr std::string_view kTwo[] = {
    "AffineGrid", "CastLike", "CausalConvWithState", "CenterCropPad", "Compress", "Conv", "ConvInteger", "ConvTranspose",
    "CumProd", "CumSum", "DequantizeLinear", "Expand", "Gather", "GatherElements", "GatherND", "Gemm", "GridSample",
    "LayerNormalization", "MatMul", "MatMulInteger", "MaxRoiPool", "MaxUnpool", "NegativeLogLikelihoodLoss",
    "NonMaxSuppression", "QuantizeLinear", "RMSNormalization", "ReverseSequence", "STFT", "SequenceAt", "SequenceInsert",
    "SoftmaxCrossEntropyLoss", "StringConcat", "TensorScatter", "Tile"};
constexpr std::string_view kThree[] = {
    "Attention", "Col2Im", "DeformConv", "GRU", "GroupNormalization", "InstanceNormalization", "LSTM", "LinearAttention",
    "OneHot", "RNN", "Range", "RoiAlign", "RotaryEmbedding", "Scatter", "ScatterElements", "ScatterND"};
constexpr std::string_view kFive[] = {"BatchNormalization", "MelWeightMatrix"};
constexpr std::string_view kEight[] = {"QLinearConv", "QLinearMatMul"};
// clang-format on

template <size_t N>
bool has(const std::string_view (&list)[N], std::string_view name) {
  return std::find(std::begin(list), std::end(list), name) != std::end(list);
}

}  // namespace

int required_inputs(const std::string& type) {
  if (has(kNone, type)) return 0;
  if (has(kTwo, type)) return 2;
  if (has(kThree, type)) return 3;
  if (has(kFive, type)) return 5;
  if (has(kEight, type)) return 8;
  return 1;
}

}  // namespace emend
