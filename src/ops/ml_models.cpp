// Classical models and preprocessing of ai.onnx.ml as graphs of plain operators.
#include "ops/compose.h"
#include "ops/table.h"

namespace emend {
namespace {

constexpr const char* kMl = "ai.onnx.ml";
using Reals = std::vector<double>;

// One number per feature (the last dimension), or one for all.
Formula per_feature(GraphBuilder& b, const Reals& values, DType dtype, const char* what,
                    int64_t features) {
  auto n = static_cast<int64_t>(values.size());
  if (n != 1 && n != features)
    throw Error(str(what, ": ", n, " numbers for ", features, " features"));
  return {b, b.constant(Tensor::of_reals(dtype, {n}, values))};
}

int64_t features_of(const Formula& x, const char* what) {
  if (x.rank() < 1) throw Error(str(what, ": a scalar has no features"));
  return x.shape().back();
}

struct Scaler {
  Reals offset, scale;
  EMEND_FIELDS(offset, scale)
};

NodeId scaler(GraphBuilder& b, const Scaler& a, Args args) {
  Formula x = cast({b, args[0]}, DType::f32);
  int64_t features = features_of(x, "scaler");
  if (!a.offset.empty()) x = x - per_feature(b, a.offset, DType::f32, "scaler", features);
  if (!a.scale.empty()) x = x * per_feature(b, a.scale, DType::f32, "scaler", features);
  return x;
}

struct RowNormalizer {
  std::string norm = "MAX";
  EMEND_FIELDS(norm)
};

// L1 takes absolute values, as runtimes do; the standard's formula is the same for positive rows.
NodeId row_normalizer(GraphBuilder& b, const RowNormalizer& a, Args args) {
  Formula x = cast({b, args[0]}, DType::f32);
  features_of(x, "row_normalizer");
  const Dims row = {-1};
  auto size = [&]() -> Formula {
    if (a.norm == "MAX") return max(x, row);
    if (a.norm == "L1") return sum(abs(x), row);
    if (a.norm == "L2") return sqrt(sum(x * x, row));
    throw Error(str("row_normalizer: norm is MAX, L1 or L2, not ", a.norm));
  }();
  Formula zero = equal(size, x.number(0));
  return where(zero, x, x / where(zero, x.number(1), size));
}

struct Imputer {
  Reals imputed_value_floats;
  Dims imputed_value_int64s;
  double replaced_value_float = 0;
  int64_t replaced_value_int64 = 0;
  EMEND_FIELDS(imputed_value_floats, imputed_value_int64s, replaced_value_float,
               replaced_value_int64)
};

NodeId imputer(GraphBuilder& b, const Imputer& a, Args args) {
  Formula x(b, args[0]);
  int64_t features = features_of(x, "imputer");
  if (is_float(x.dtype())) {
    Formula by = per_feature(b, a.imputed_value_floats, x.dtype(), "imputer", features);
    bool nan = a.replaced_value_float != a.replaced_value_float;
    Formula missing = nan ? apply("is_nan", {x}) : equal(x, x.number(a.replaced_value_float));
    return where(missing, by, x);
  }
  Reals values(a.imputed_value_int64s.begin(), a.imputed_value_int64s.end());
  Formula by = per_feature(b, values, x.dtype(), "imputer", features);
  Formula replaced(b, b.constant(Tensor::of_int(a.replaced_value_int64, x.dtype())));
  return where(equal(x, replaced), by, x);
}

struct LinearRegressor {
  Reals coefficients, intercepts;
  std::string post_transform = "NONE";
  int64_t targets = 1;
  EMEND_FIELDS(coefficients, intercepts, post_transform, targets)
};

NodeId linear_regressor(GraphBuilder& b, const LinearRegressor& a, Args args) {
  Formula x = cast({b, args[0]}, DType::f32);
  if (x.rank() == 1) x = reshape(x, {1, x.dim(0)});
  if (x.rank() != 2) throw Error("linear_regressor: a matrix of features is needed");
  auto given = static_cast<int64_t>(a.coefficients.size());
  if (a.targets < 1 || given % a.targets != 0 || given / a.targets != x.dim(1))
    throw Error(str("linear_regressor: ", given, " coefficients for ", a.targets, " targets of ",
                    x.dim(1), " features"));
  Formula w(b, b.constant(Tensor::of_reals(DType::f32, {a.targets, x.dim(1)}, a.coefficients)));
  Formula y = matmul(x, transpose(w, {1, 0}));
  if (!a.intercepts.empty())
    y = y + per_feature(b, a.intercepts, DType::f32, "linear_regressor", a.targets);
  if (a.post_transform == "NONE") return y;
  if (a.post_transform == "SOFTMAX") return apply("softmax", {y}, Attrs({{"axis", 1}}));
  if (a.post_transform == "LOGISTIC") return apply("reciprocal", {exp(-y) + 1.0});
  throw Error(str("linear_regressor: the post_transform ", a.post_transform, " is not supported"));
}

OnnxRow ml_row(const char* type) {
  return {.type = type, .domain = kMl, .raise = [type](OnnxWriter& w) {
            return w.emit(type, w.args, given_attributes(w.attrs), 1, kMl);
          }};
}

}  // namespace

std::vector<OpDef> ml_model_ops() {
  return {
      define<Scaler>({.name = "scaler",
                      .expand = scaler,
                      .onnx = {ml_row("Scaler")},
                      .doc = "(x - offset) * scale, feature by feature, as f32"}),
      define<RowNormalizer>(
          {.name = "row_normalizer",
           .expand = row_normalizer,
           .onnx = {ml_row("Normalizer")},
           .doc = "rows divided by their largest element, their L1 or their L2 norm, as f32; rows "
                  "of norm 0 as they are"}),
      define<Imputer>({.name = "imputer",
                       .expand = imputer,
                       .onnx = {ml_row("Imputer")},
                       .doc = "a stated value (or NaN) replaced by another, feature by feature"}),
      define<LinearRegressor>(
          {.name = "linear_regressor",
           .expand = linear_regressor,
           .onnx = {ml_row("LinearRegressor")},
           .doc = "x times coefficients plus intercepts for each target, as f32"}),
  };
}

}  // namespace emend
