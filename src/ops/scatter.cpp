// Writing where the data says. Several updates of one place are combined by the reduction; without
// one the last update in row-major order stays.
#include "ops/scatter.h"

#include "ops/evaluate.h"
#include "ops/families.h"
#include "ops/index.h"
#include "ops/stored.h"
#include "ops/table.h"

namespace emend {
namespace {

// Where update number i goes, as a flat position of the target.
using Target = std::function<int64_t(int64_t)>;

void check_index(int64_t index, int64_t extent) {
  if (index < -extent || index >= extent)
    throw Error(str("index ", index, " is out of range for extent ", extent));
}

Reduce reduction_named(const std::string& name) {
  return name == "add"   ? Reduce::sum
         : name == "mul" ? Reduce::product
         : name == "max" ? Reduce::max
         : name == "min" ? Reduce::min
                         : Reduce::none;
}

Fn combining(const std::string& reduction) {
  return reduction == "add"   ? Fn::add
         : reduction == "mul" ? Fn::mul
         : reduction == "max" ? Fn::max
                              : Fn::min;
}

Result<bool> check_reduction(const std::string& reduction, DType dtype) {
  for (const char* known : {"none", "add", "mul", "max", "min"}) {
    if (reduction != known) continue;
    bool number = dtype != DType::string && !is_complex(dtype);
    if (reduction != "none" && !number)
      return fail("scatter: ", reduction, " is not defined on ", to_text(dtype));
    return true;
  }
  return fail("scatter: there is no reduction ", reduction);
}

Tensor overwrite(const Tensor& x, const Tensor& updates, const Target& target) {
  if (x.dtype() == DType::string) {
    auto items = x.strings();
    for (int64_t i = 0; i < updates.count(); ++i)
      items[static_cast<size_t>(target(i))] = updates.strings()[static_cast<size_t>(i)];
    return Tensor::of_strings(x.shape(), std::move(items));
  }
  return Tensor::make(x.dtype(), x.shape(), [&](std::byte* out) {
    std::ranges::copy(x.bytes(), out);
    int bits = info(x.dtype()).bits;
    auto width = static_cast<size_t>(bits / 8);
    DType code = bits == 4 ? DType::u4 : DType::u2;  // packed elements move as codes
    for (int64_t i = 0; i < updates.count(); ++i) {
      auto to = static_cast<size_t>(target(i)), from = static_cast<size_t>(i);
      if (width == 0)
        store_int(code, out, to, load_int(code, updates.data(), from));
      else
        std::memcpy(out + to * width, updates.data() + from * width, width);
    }
  });
}

// Everything is combined in T and rounded once at the end.
template <class T>
Tensor combine(Fn fn, bool encoded, const Tensor& x, const Tensor& updates, const Target& target) {
  Stored sx{x.dtype(), encoded, x.shape(), {}, x.data()};
  Stored su{updates.dtype(), encoded, updates.shape(), {}, updates.data()};
  std::vector<T> values(static_cast<size_t>(x.count()));
  for (size_t i = 0; i < values.size(); ++i) values[i] = load_as<T>(sx, i);
  for (int64_t i = 0; i < updates.count(); ++i) {
    T& v = values[static_cast<size_t>(target(i))];
    v = apply(fn, v, load_as<T>(su, static_cast<size_t>(i)));
  }
  return Tensor::make(x.dtype(), x.shape(), [&](std::byte* out) {
    for (size_t i = 0; i < values.size(); ++i) store_as(x.dtype(), out, i, values[i]);
  });
}

Tensor scatter(const EvalContext& c, const std::string& reduction, const Tensor& x,
               const Tensor& updates, const Target& target) {
  if (reduction == "none") return overwrite(x, updates, target);
  Fn fn = combining(reduction);
  if (is_float(c.type.dtype)) {
    if (c.arithmetic == Arithmetic::field) return combine<Mod61>(fn, true, x, updates, target);
    if (c.arithmetic == Arithmetic::symbol) return combine<Symbol>(fn, true, x, updates, target);
    if (c.arithmetic == Arithmetic::integer)
      return combine<CheckedInt>(fn, true, x, updates, target);
    return combine<double>(fn, false, x, updates, target);
  }
  if (c.type.dtype == DType::u64) return combine<uint64_t>(fn, false, x, updates, target);
  return combine<int64_t>(fn, false, x, updates, target);
}

Result<Type> scatter_elements_infer(const ScatterElements& a, Types in) {
  if (auto ok = check_reduction(a.reduction, in[0].dtype); !ok) return Failure{ok.error()};
  auto axis = normal_axis(a.axis, in[0].rank());
  if (!axis) return fail("scatter_elements: ", axis.error());
  bool fits = in[0].rank() == in[1].rank() && in[1].shape == in[2].shape;
  for (size_t d = 0; fits && d < in[0].shape.size(); ++d) {
    fits = static_cast<int64_t>(d) == *axis || in[1].shape[d] <= in[0].shape[d];
  }
  if (!fits || in[0].dtype != in[2].dtype || !is_integer(in[1].dtype)) {
    return fail("scatter_elements: indices ", to_text(in[1]), " and updates ", to_text(in[2]),
                " do not fit into ", to_text(in[0]));
  }
  return in[0];
}

// x[index[i,j,..], j, ..] = update[i,j,..], the index standing at the axis.
Scatter places_of(const ScatterElements& a, Types in) {
  Scatter s{.updates = in[2].shape};
  Read r{.operand = 1};
  auto axis = static_cast<size_t>(normal_axis(a.axis, in[0].rank()).value_or_throw());
  for (size_t d = 0; d < s.updates.size(); ++d) {
    r.index.push_back(index_of(static_cast<int>(d)));
    s.place.push_back(d == axis ? index_from_read(0, in[0].shape[d]) : r.index.back());
  }
  s.reads = {r};
  s.reduce = reduction_named(a.reduction);
  return s;
}

Result<Type> scatter_nd_infer(const ScatterNd& a, Types in) {
  if (auto ok = check_reduction(a.reduction, in[0].dtype); !ok) return Failure{ok.error()};
  const Dims &x = in[0].shape, &at = in[1].shape;
  bool fits = !at.empty() && at.back() >= 0 && at.back() <= in[0].rank();
  Dims updates;
  if (fits) {
    updates.assign(at.begin(), at.end() - 1);
    updates.insert(updates.end(), x.begin() + at.back(), x.end());
  }
  if (!fits || updates != in[2].shape || in[0].dtype != in[2].dtype || !is_integer(in[1].dtype)) {
    return fail("scatter_nd: indices ", to_text(in[1]), " and updates ", to_text(in[2]),
                " do not fit into ", to_text(in[0]));
  }
  return in[0];
}

// x[index[b,..,0], index[b,..,1], .., j,..] = update[b,..,j,..]
Scatter places_of(const ScatterNd& a, Types in) {
  Scatter s{.updates = in[2].shape};
  int batch = static_cast<int>(in[1].shape.size()) - 1;
  auto coordinates = static_cast<int>(in[1].shape.back());
  for (int d = 0; d < static_cast<int>(in[0].shape.size()); ++d) {
    if (d >= coordinates) {
      s.place.push_back(index_of(batch + d - coordinates));
      continue;
    }
    Read r{.operand = 1};
    for (int i = 0; i < batch; ++i) r.index.push_back(index_of(i));
    r.index.push_back(index_constant(d));
    s.reads.push_back(r);
    s.place.push_back(index_from_read(d, in[0].shape[static_cast<size_t>(d)]));
  }
  s.reduce = reduction_named(a.reduction);
  return s;
}

template <class A>
Value scatter_eval(const EvalContext& c, const A& a, std::span<const Value> v) {
  const Tensor &x = v[0].tensor, &index = v[1].tensor;
  Scatter s = places_of(a, c.types);
  Dims strides = row_major_strides(x.shape()), from = row_major_strides(index.shape()),
       step = row_major_strides(s.updates);
  std::vector<int64_t> point(s.updates.size());
  auto flat = [&](const std::vector<IndexExpr>& e, const Dims& by, const int64_t* reads) {
    int64_t at = 0;
    for (size_t d = 0; d < e.size(); ++d) at += evaluate(e[d], point.data(), reads) * by[d];
    return at;
  };
  std::vector<int64_t> reads(s.reads.size());
  return scatter(c, a.reduction, x, v[2].tensor, [&](int64_t i) {
    for (size_t d = 0; d < point.size(); ++d) point[d] = i / step[d] % s.updates[d];
    for (size_t r = 0; r < reads.size(); ++r)
      reads[r] = index.integer(flat(s.reads[r].index, from, nullptr));
    for (size_t d = 0; d < s.place.size(); ++d) {
      if (int r = s.place[d].read; r >= 0) check_index(reads[static_cast<size_t>(r)], x.shape()[d]);
    }
    return flat(s.place, strides, reads.data());
  });
}

// Reductions exist from opset 16 on, max and min from 18 on.
std::vector<Attrs::Entry> reduction_attr(const OnnxWriter& w, const std::string& reduction) {
  if (reduction == "none") return {};
  int64_t since = reduction == "add" || reduction == "mul" ? 16 : 18;
  if (w.opset < since) {
    throw Error(str("scattering with ", reduction, " exists since opset ", since,
                    "; try a higher --target-opset"));
  }
  return {{"reduction", reduction}};
}

std::vector<NodeId> scatter_elements_raise(OnnxWriter& w) {
  auto a = w.attrs.as<ScatterElements>();
  auto attributes = reduction_attr(w, a.reduction);
  attributes.emplace_back("axis", a.axis);
  return w.emit(w.opset < 11 ? "Scatter" : "ScatterElements", w.args, attributes);
}

}  // namespace

std::optional<Scatter> as_scatter(const OpDef& def, const Attrs& attrs, std::span<const Type> in) {
  if (def.name == "scatter_elements") return places_of(attrs.as<ScatterElements>(), in);
  if (def.name == "scatter_nd") return places_of(attrs.as<ScatterNd>(), in);
  return std::nullopt;
}

std::vector<OpDef> scatter_ops() {
  return {
      define<ScatterElements>(
          {.name = "scatter_elements",
           .min_args = 3,
           .max_args = 3,
           .kind = Kind::index,
           .traits = raw_moves,
           .infer = scatter_elements_infer,
           .eval = scatter_eval<ScatterElements>,
           .onnx = {{.type = "ScatterElements", .since = 9, .raise = scatter_elements_raise},
                    {.type = "Scatter", .since = 9, .lower_only = true}},
           .doc = "x with x[index[i,j,..],j,..] replaced by (or combined with) update[i,j,..], the "
                  "index standing at the axis"}),
      define<ScatterNd>(
          {.name = "scatter_nd",
           .min_args = 3,
           .max_args = 3,
           .kind = Kind::index,
           .traits = raw_moves,
           .infer = scatter_nd_infer,
           .eval = scatter_eval<ScatterNd>,
           .onnx = {{.type = "ScatterND",
                     .since = 11,
                     .raise =
                         [](OnnxWriter& w) {
                           auto reduction = w.attrs.as<ScatterNd>().reduction;
                           return w.emit("ScatterND", w.args, reduction_attr(w, reduction));
                         }}},
           .doc = "x with slices at coordinates replaced by (or combined with) updates"}),
  };
}

}  // namespace emend
