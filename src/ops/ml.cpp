// The domain ai.onnx.ml: features, labels. Trees have a file of their own (trees.cpp).
#include <cmath>
#include <map>
#include <numeric>

#include "ops/evaluate.h"
#include "ops/families.h"
#include "ops/table.h"

namespace emend {
namespace {

constexpr const char* kMl = "ai.onnx.ml";
using Values = std::span<const Value>;
using Strings = std::vector<std::string>;

// --- array_feature_extractor: out[.., j] = x[.., y[j]] ---

Result<Type> extract_infer(const NoAttrs&, Types in) {
  if (in[0].rank() < 1 || in[1].dtype != DType::i64)
    return fail("array_feature_extractor: ", to_text(in[0]), " by ", to_text(in[1]));
  Dims shape = in[0].shape;
  shape.back() = count(in[1].shape);
  if (shape.size() == 1) shape.insert(shape.begin(), 1);  // a vector's result is a matrix
  return Type::tensor(in[0].dtype, shape);
}

Meaning extract_means(const NoAttrs& a, Types in) {
  Meaning m;
  m.out = extract_infer(a, in).value_or_throw().shape;
  auto last = static_cast<int>(m.out.size()) - 1;
  Read which{.operand = 1, .index = reshape_index({in[1].shape}, Dims{m.out.back()}, last)};
  Read taken{.operand = 0};
  for (int d = 0; d + 1 < static_cast<int>(in[0].shape.size()); ++d)
    taken.index.push_back(index_of(d));
  taken.index.push_back(index_from_read(0, in[0].shape.back()));
  m.reads = {which, taken};
  m.body = arg(1);
  return m;
}

// For strings, which have no arithmetic.
Value extract_strings(const EvalContext& c, const NoAttrs&, Values v) {
  const Strings& x = v[0].tensor.strings();
  auto extent = static_cast<size_t>(v[0].tensor.shape().back());
  Strings out;
  for (size_t row = 0; extent && row < x.size() / extent; ++row) {
    for (int64_t i : v[1].tensor.ints()) {
      if (i < 0 || static_cast<size_t>(i) >= extent)
        throw Error(str("index ", i, " is out of range for extent ", extent));
      out.push_back(x[row * extent + static_cast<size_t>(i)]);
    }
  }
  return Tensor::of_strings(c.type.shape, std::move(out));
}

// --- label_encoder ---

struct LabelEncoder {
  Tensor keys, values;  // of equal length
  Tensor otherwise;     // one element of the values' type
  EMEND_FIELDS(keys, values, otherwise)
};

Result<Type> label_infer(const LabelEncoder& a, Types in) {
  if (a.keys.count() != a.values.count())
    return fail("label_encoder: ", a.keys.count(), " keys for ", a.values.count(), " values");
  if (a.keys.dtype() != in[0].dtype)
    return fail("label_encoder: keys are ", to_text(a.keys.dtype()), ", not ",
                to_text(in[0].dtype));
  if (a.otherwise.count() != 1 || a.otherwise.dtype() != a.values.dtype())
    return fail("label_encoder: the default is not one ", to_text(a.values.dtype()));
  return Type::tensor(a.values.dtype(), in[0].shape);
}

// For each element of x the number of its key, or how many keys there are. Of equal keys the last
// one counts.
template <class Key, class Of>
std::vector<size_t> key_numbers(int64_t keys, int64_t elements, const Of& key, const Of& element) {
  std::map<Key, size_t> numbers;
  for (int64_t i = 0; i < keys; ++i) numbers[key(i)] = static_cast<size_t>(i);
  std::vector<size_t> found;
  for (int64_t i = 0; i < elements; ++i) {
    auto it = numbers.find(element(i));
    found.push_back(it == numbers.end() ? static_cast<size_t>(keys) : it->second);
  }
  return found;
}

std::vector<size_t> key_numbers(const Tensor& keys, const Tensor& x) {
  int64_t k = keys.count(), n = x.count();
  auto lookup = [&]<class Key>(auto read) {
    using Of = std::function<Key(int64_t)>;
    return key_numbers<Key, Of>(
        k, n, [&](int64_t i) { return read(keys, i); }, [&](int64_t i) { return read(x, i); });
  };
  if (keys.dtype() == DType::string) {
    return lookup.template operator()<std::string>(
        [](const Tensor& t, int64_t i) { return t.strings()[static_cast<size_t>(i)]; });
  }
  if (is_float(keys.dtype())) {
    // NaN is a key like others: it is looked up as (1, 0).
    return lookup.template operator()<std::pair<int, double>>([](const Tensor& t, int64_t i) {
      double v = t.real(i);
      return std::isnan(v) ? std::pair{1, 0.0} : std::pair{0, v};
    });
  }
  return lookup.template operator()<int64_t>(
      [](const Tensor& t, int64_t i) { return t.integer(i); });
}

Value label_eval(const EvalContext& c, const LabelEncoder& a, Values v) {
  auto numbers = key_numbers(a.keys, v[0].tensor);
  auto from = [&](size_t number) -> std::pair<const Tensor&, int64_t> {
    if (number < static_cast<size_t>(a.values.count()))
      return {a.values, static_cast<int64_t>(number)};
    return {a.otherwise, 0};
  };
  if (a.values.dtype() == DType::string) {
    Strings out;
    for (size_t n : numbers) {
      auto [t, i] = from(n);
      out.push_back(t.strings()[static_cast<size_t>(i)]);
    }
    return Tensor::of_strings(c.type.shape, std::move(out));
  }
  DType stored = c.result_dtype();
  return Tensor::make(stored, c.type.shape, [&](std::byte* out) {
    for (size_t k = 0; k < numbers.size(); ++k) {
      auto [t, i] = from(numbers[k]);
      if (is_float(t.dtype()))
        store_real(stored, out, k, t.real(i));
      else
        store_int(stored, out, k, t.integer(i));
    }
  });
}

// The one attribute of prefix_tensor, prefix_strings, prefix_int64s, prefix_floats that is there.
std::optional<Tensor> list_attribute(const OnnxCall& c, const std::string& prefix) {
  const Attrs& a = c.node.attributes;
  if (auto* v = a.find(prefix + "_tensor")) return v->as<Tensor>() ? *v->as<Tensor>() : Tensor();
  if (c.has_attr(prefix + "_strings")) {
    auto s = a.get_or<Strings>(prefix + "_strings", {});
    auto n = static_cast<int64_t>(s.size());
    return Tensor::of_strings({n}, std::move(s));
  }
  if (c.has_attr(prefix + "_int64s")) return Tensor::of_ints(c.ints_attr(prefix + "_int64s"));
  if (c.has_attr(prefix + "_floats")) {
    auto f = a.get_or<std::vector<double>>(prefix + "_floats", {});
    return Tensor::of_reals(DType::f32, {static_cast<int64_t>(f.size())}, f);
  }
  return std::nullopt;
}

// ONNX's value for what is no key, by the type of the values.
Tensor default_label(const OnnxCall& c, DType type) {
  if (auto* v = c.node.attributes.find("default_tensor"); v && v->as<Tensor>())
    return *v->as<Tensor>();
  if (type == DType::string)
    return Tensor::of_strings({1}, {c.text_attr("default_string", "_Unused")});
  if (is_float(type)) return Tensor::of_real(c.real_attr("default_float", -0.0), type);
  return Tensor::of_int(c.int_attr("default_int64", -1), type);
}

Result<std::vector<NodeId>> label_lower(OnnxCall& c) {
  auto keys = list_attribute(c, "keys"), values = list_attribute(c, "values");
  if (!keys || !values) throw Error("LabelEncoder needs keys and values");
  LabelEncoder a{*keys, *values, default_label(c, values->dtype())};
  return std::vector{c.b.op("label_encoder", {c.inputs.at(0)}, a)};
}

// Version 1: strings to their places in a list, or places to strings.
Result<std::vector<NodeId>> label_places_lower(OnnxCall& c) {
  auto classes = c.node.attributes.get_or<Strings>("classes_strings", {});
  Dims places(classes.size());
  std::iota(places.begin(), places.end(), 0);
  auto n = static_cast<int64_t>(classes.size());
  LabelEncoder a{Tensor::of_strings({n}, classes), Tensor::of_ints(places), {}};
  if (c.type(0).dtype != DType::string) std::swap(a.keys, a.values);
  a.otherwise = default_label(c, a.values.dtype());
  return std::vector{c.b.op("label_encoder", {c.inputs.at(0)}, a)};
}

// A list of keys or values under the name that ONNX has for its type; tensors, which hold every
// type, are newer.
Attrs::Entry list_entry(const std::string& prefix, const Tensor& t) {
  if (t.dtype() == DType::string) return {prefix + "_strings", t.strings()};
  if (t.dtype() == DType::i64) return {prefix + "_int64s", t.ints()};
  if (t.dtype() == DType::f32) return {prefix + "_floats", t.reals()};
  return {prefix + "_tensor", t};
}

Attrs::Entry default_entry(const Tensor& t) {
  if (t.dtype() == DType::string) return {"default_string", t.strings()[0]};
  if (t.dtype() == DType::i64) return {"default_int64", t.integer(0)};
  if (t.dtype() == DType::f32) return {"default_float", t.real(0)};
  return {"default_tensor", t.reshaped({1})};
}

std::vector<NodeId> label_raise(OnnxWriter& w) {
  auto a = w.attrs.as<LabelEncoder>();
  return w.emit(
      "LabelEncoder", w.args,
      {list_entry("keys", a.keys), list_entry("values", a.values), default_entry(a.otherwise)}, 1,
      kMl);
}

}  // namespace

std::vector<OpDef> ml_ops() {
  return {
      define<NoAttrs>({.name = "array_feature_extractor",
                       .min_args = 2,
                       .max_args = 2,
                       .kind = Kind::index,
                       .infer = extract_infer,
                       .means = extract_means,
                       .eval = extract_strings,
                       .onnx = {{.type = "ArrayFeatureExtractor", .domain = kMl}},
                       .doc = "elements of the last dimension at the given places"}),
      unary({.name = "binarizer",
             .body = select(arg(0) > attr("threshold"), 1, 0),
             .attrs = {{"threshold", 0.0}},
             .onnx = {{.type = "Binarizer", .domain = kMl}}}),
      define<LabelEncoder>(
          {.name = "label_encoder",
           .kind = Kind::host,
           .infer = label_infer,
           .eval = label_eval,
           .onnx = {{.type = "LabelEncoder",
                     .domain = kMl,
                     .before = 2,
                     .lower = label_places_lower,
                     .lower_only = true},
                    {.type = "LabelEncoder",
                     .domain = kMl,
                     .since = 2,
                     .lower = label_lower,
                     .raise = label_raise}},
           .doc = "the value of each element's key; another one where it is no key"}),
  };
}

}  // namespace emend
