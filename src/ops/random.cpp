#include "ops/random.h"

#include <bit>

#include "base/hash.h"
#include "base/rng.h"
#include "ops/evaluate.h"
#include "ops/families.h"
#include "ops/movement.h"
#include "ops/table.h"

namespace emend {
namespace {

using Lowered1 = Result<std::vector<NodeId>>;

template <class Struct>
Result<Type> random_infer(const Struct& a, Types) {
  if (!is_float(a.dtype)) return fail("random numbers are floats, not ", to_text(a.dtype));
  if (!checked_count(a.shape)) return fail("there is no shape ", shape_text(a.shape));
  return Type::tensor(a.dtype, a.shape);
}

// Values are rounded to the declared type in every arithmetic, so that runs can be compared.
template <class Struct>
Value random_values(const EvalContext& c, const Struct& a,
                    double (*draw)(const Struct&, uint64_t)) {
  Struct own = a;
  if (c.repetition != 0)
    own.stream = static_cast<int64_t>(hash_mix(c.repetition, static_cast<uint64_t>(a.stream)));
  return Tensor::make(c.result_dtype(), a.shape, [&](std::byte* out) {
    for (int64_t i = 0; i < count(a.shape); ++i) {
      double v = draw(own, static_cast<uint64_t>(i));
      store_real(c.result_dtype(), out, static_cast<size_t>(i), round_to(a.dtype, v));
    }
  });
}

double draw_uniform(const RandomUniform& a, uint64_t i) {
  double u = random_uniform(std::bit_cast<uint64_t>(a.seed), static_cast<uint64_t>(a.stream), i);
  return a.low + (a.high - a.low) * u;
}

double draw_normal(const RandomNormal& a, uint64_t i) {
  double z = random_normal(std::bit_cast<uint64_t>(a.seed), static_cast<uint64_t>(a.stream), i);
  return a.mean + a.scale * z;
}

// Nodes of one graph differ in how many stand before them.
int64_t fresh_stream(const GraphBuilder& b) {
  return static_cast<int64_t>(b.graph().size());
}

// The type and shape of the *Like variants come from an operand, which is only looked at.
DType random_dtype(const OnnxCall& c, DType otherwise) {
  auto given = dtype_from_onnx(static_cast<int>(c.int_attr("dtype", 0)));
  return given.value_or(otherwise);
}

template <class Struct>
Struct random_attrs(const OnnxCall& c, bool like) {
  Struct a;
  a.shape = like ? c.type(0).shape : c.ints_attr("shape");
  bool operand_serves = like && is_float(c.type(0).dtype);
  a.dtype = random_dtype(c, operand_serves ? c.type(0).dtype : DType::f32);
  a.seed = c.real_attr("seed", 0);
  a.stream = fresh_stream(c.b);
  return a;
}

Lowered1 uniform_lower(OnnxCall& c, bool like) {
  auto a = random_attrs<RandomUniform>(c, like);
  a.low = c.real_attr("low", 0);
  a.high = c.real_attr("high", 1);
  return std::vector{c.b.op("random_uniform", {}, a)};
}

Lowered1 normal_lower(OnnxCall& c, bool like) {
  auto a = random_attrs<RandomNormal>(c, like);
  a.mean = c.real_attr("mean", 0);
  a.scale = c.real_attr("scale", 1);
  return std::vector{c.b.op("random_normal", {}, a)};
}

void add_seed(std::vector<Attrs::Entry>& attributes, double seed) {
  if (seed != 0) attributes.emplace_back("seed", seed);
}

// ONNX wants a positive number of dimensions: a scalar is drawn as one element.
template <class Struct>
std::vector<NodeId> random_raise(OnnxWriter& w, const std::string& type,
                                 std::vector<Attrs::Entry> attributes) {
  auto a = w.attrs.as<Struct>();
  Dims shape = a.shape.empty() ? Dims{1} : a.shape;
  attributes.emplace_back("shape", shape);
  attributes.emplace_back("dtype", int64_t{info(a.dtype).onnx});
  add_seed(attributes, a.seed);
  auto made = w.emit(type, {}, attributes);
  return a.shape.empty() ? w.emit("Reshape", {made[0], w.ints({})}) : made;
}

OpDef uniform_op() {
  return define<RandomUniform>(
      {.name = "random_uniform",
       .min_args = 0,
       .max_args = 0,
       .kind = Kind::random,
       .infer = random_infer<RandomUniform>,
       .eval = [](const EvalContext& c, const RandomUniform& a,
                  std::span<const Value>) { return random_values(c, a, draw_uniform); },
       .onnx = {{.type = "RandomUniform",
                 .lower = [](OnnxCall& c) { return uniform_lower(c, false); },
                 .raise =
                     [](OnnxWriter& w) {
                       auto a = w.attrs.as<RandomUniform>();
                       return random_raise<RandomUniform>(w, "RandomUniform",
                                                          {{"low", a.low}, {"high", a.high}});
                     }},
                {.type = "RandomUniformLike",
                 .lower = [](OnnxCall& c) { return uniform_lower(c, true); },
                 .lower_only = true}},
       .doc = "random numbers, uniform between low and high, counted by (seed, stream, position)"});
}

OpDef normal_op() {
  return define<RandomNormal>(
      {.name = "random_normal",
       .min_args = 0,
       .max_args = 0,
       .kind = Kind::random,
       .infer = random_infer<RandomNormal>,
       .eval = [](const EvalContext& c, const RandomNormal& a,
                  std::span<const Value>) { return random_values(c, a, draw_normal); },
       .onnx = {{.type = "RandomNormal",
                 .lower = [](OnnxCall& c) { return normal_lower(c, false); },
                 .raise =
                     [](OnnxWriter& w) {
                       auto a = w.attrs.as<RandomNormal>();
                       return random_raise<RandomNormal>(w, "RandomNormal",
                                                         {{"mean", a.mean}, {"scale", a.scale}});
                     }},
                {.type = "RandomNormalLike",
                 .lower = [](OnnxCall& c) { return normal_lower(c, true); },
                 .lower_only = true}},
       .doc = "random numbers, normal with a mean and a scale, counted by (seed, stream, "
              "position)"});
}

// --- bernoulli: true with the probability that the operand holds ---

struct Bernoulli {
  DType dtype = DType::f32;
  double seed = 0;
  int64_t stream = 0;
  EMEND_FIELDS(dtype, seed, stream)
};

NodeId bernoulli_expand(GraphBuilder& b, const Bernoulli& a, Args args) {
  RandomUniform r{
      .shape = b.shape(args[0]), .dtype = b.dtype(args[0]), .seed = a.seed, .stream = a.stream};
  NodeId hit = b.op("less", {b.op("random_uniform", {}, r), args[0]});
  if (a.dtype == DType::boolean) return hit;
  return b.op("cast", {hit}, Attrs({{"to", a.dtype}}));
}

OpDef bernoulli_op() {
  return define<Bernoulli>(
      {.name = "bernoulli",
       .kind = Kind::random,
       .expand = bernoulli_expand,
       .onnx =
           {{.type = "Bernoulli",
             .since = 15,
             .lower = [](OnnxCall& c) -> Lowered1 {
               Bernoulli a{random_dtype(c, c.type(0).dtype), c.real_attr("seed", 0),
                           fresh_stream(c.b)};
               return std::vector{c.b.op("bernoulli", {c.inputs[0]}, a)};
             },
             .raise =
                 [](OnnxWriter& w) {
                   auto a = w.attrs.as<Bernoulli>();
                   std::vector<Attrs::Entry> attributes = {{"dtype", int64_t{info(a.dtype).onnx}}};
                   add_seed(attributes, a.seed);
                   return w.emit("Bernoulli", w.args, attributes);
                 }}},
       .doc = "1 with the probability that the operand holds, else 0"});
}

// --- multinomial ---

struct Multinomial {
  int64_t sample_size = 1;
  DType dtype = DType::i32;
  double seed = 0;
  int64_t stream = 0;
  EMEND_FIELDS(sample_size, dtype, seed, stream)
};

// The class is how many steps of the running sum of weights lie at or below a uniform number.
NodeId multinomial_expand(GraphBuilder& b, const Multinomial& a, Args args) {
  Dims shape = b.shape(args[0]);
  if (shape.size() != 2 || shape[1] < 1) throw Error("the operand is [batch, classes]");
  DType t = b.dtype(args[0]);
  Attrs along({{"axes", Dims{1}}, {"keepdims", true}});
  NodeId top = b.op("reduce_max", {args[0]}, along);
  NodeId weight = b.op("exp", {b.op("sub", {args[0], top})});
  NodeId running = b.op("cum_sum", {weight}, Attrs({{"axis", int64_t{1}}}));
  NodeId total = b.op("reduce_sum", {weight}, along);
  RandomUniform r{
      .shape = {shape[0], a.sample_size, 1}, .dtype = t, .seed = a.seed, .stream = a.stream};
  NodeId u = b.op("random_uniform", {}, r);
  NodeId mark = b.op("mul", {u, b.op("reshape", {total}, Reshape{{shape[0], 1, 1}})});
  NodeId steps = b.op("reshape", {running}, Reshape{{shape[0], 1, shape[1]}});
  NodeId below = b.op("cast", {b.op("less_equal", {steps, mark})}, Attrs({{"to", DType::i64}}));
  NodeId place = b.op("reduce_sum", {below}, Attrs({{"axes", Dims{2}}, {"keepdims", false}}));
  // Rounding may put the mark beyond the last step.
  place = b.op("min", {place, b.constant(Tensor::of_int(shape[1] - 1))});
  return b.op("cast", {place}, Attrs({{"to", a.dtype}}));
}

OpDef multinomial_op() {
  return define<Multinomial>(
      {.name = "multinomial",
       .kind = Kind::random,
       .expand = multinomial_expand,
       .onnx = {{.type = "Multinomial",
                 .lower = [](OnnxCall& c) -> Lowered1 {
                   Multinomial a{c.int_attr("sample_size", 1), random_dtype(c, DType::i32),
                                 c.real_attr("seed", 0), fresh_stream(c.b)};
                   return std::vector{c.b.op("multinomial", {c.inputs[0]}, a)};
                 },
                 .raise =
                     [](OnnxWriter& w) {
                       auto a = w.attrs.as<Multinomial>();
                       std::vector<Attrs::Entry> attributes = {
                           {"dtype", int64_t{info(a.dtype).onnx}}, {"sample_size", a.sample_size}};
                       add_seed(attributes, a.seed);
                       return w.emit("Multinomial", w.args, attributes);
                     }}},
       .doc = "classes drawn with probabilities in proportion to exp of the operand, row by row"});
}

// --- dropout ---

NodeId dropout_expand(GraphBuilder& b, const Dropout& a, Args args) {
  DType t = b.dtype(args[0]);
  RandomUniform r{.shape = b.shape(args[0]), .seed = a.seed, .stream = a.stream};
  NodeId keep = b.op("less_equal", {b.scalar(a.ratio, DType::f32), b.op("random_uniform", {}, r)});
  NodeId scaled = b.op("mul", {args[0], b.scalar(1 / (1 - a.ratio), t)});
  return b.op("tuple", {b.op("where", {keep, scaled, b.scalar(0, t)}), keep});
}

// What a dropout that drops nothing gives. The mask was of the data's type before opset 10.
std::vector<NodeId> keep_all(OnnxCall& c) {
  DType mask = c.version() < 10 ? c.type(0).dtype : DType::boolean;
  NodeId one = c.b.constant(Tensor::of_real(1, mask));
  return {c.inputs[0], c.b.op("broadcast", {one}, Broadcast{c.type(0).shape})};
}

Lowered1 dropout_lower(OnnxCall& c) {
  // Up to opset 11 (since 7) it is the operator of inference.
  if (c.version() < 12 || !c.has(2)) return keep_all(c);
  auto training = c.value(2), ratio = c.has(1) ? c.value(1) : Tensor::of_real(0.5, DType::f32);
  if (!training) return fail("the value of input 2 is not known before run time");
  if (training->dtype() != DType::boolean || training->count() != 1)
    throw Error(str("Dropout: training_mode is ", to_text(training->type()), ", not one bool"));
  if (!training->integer(0)) return keep_all(c);
  if (!ratio) return fail("the value of input 1 is not known before run time");
  if (!is_float(ratio->dtype()) || ratio->count() != 1)
    throw Error(str("Dropout: the ratio is ", to_text(ratio->type()), ", not one number"));
  double r = ratio->real(0);
  if (!(r >= 0 && r < 1)) throw Error(str("Dropout: the ratio ", r, " is not in [0, 1)"));
  if (r == 0) return keep_all(c);
  auto seed = static_cast<double>(c.int_attr("seed", 0));
  return c.b.get_all(c.b.op("dropout", {c.inputs[0]}, Dropout{r, seed, fresh_stream(c.b)}));
}

std::vector<NodeId> dropout_raise(OnnxWriter& w) {
  auto a = w.attrs.as<Dropout>();
  std::vector<Attrs::Entry> attributes;
  if (a.seed != 0) attributes.emplace_back("seed", static_cast<int64_t>(a.seed));
  NodeId ratio = w.b.constant(Tensor::of_real(a.ratio, DType::f32));
  NodeId training = w.b.constant(Tensor::of_int(1, DType::boolean));
  return w.emit("Dropout", {w.args[0], ratio, training}, attributes, 2);
}

}  // namespace

std::vector<OpDef> random_ops() {
  return {
      uniform_op(),
      normal_op(),
      bernoulli_op(),
      multinomial_op(),
      define<Dropout>(
          {.name = "dropout",
           .kind = Kind::random,
           .expand = dropout_expand,
           .onnx =
               {{.type = "Dropout", .before = 12, .lower = dropout_lower, .lower_only = true},
                {.type = "Dropout", .since = 12, .lower = dropout_lower, .raise = dropout_raise}},
           .doc = "training: elements dropped with probability ratio, the others scaled to keep "
                  "the mean; and the mask"}),
  };
}

}  // namespace emend
