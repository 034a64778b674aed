// The operator `scattered`: see transposed.h.
#include <algorithm>

#include "ops/evaluate.h"
#include "ops/meaning_eval.h"
#include "ops/table.h"
#include "ops/transposed.h"

namespace emend {
namespace {

// The part of a meaning without reduction where iterator 0 runs over [start,
// start + size).
Meaning restricted(Meaning m, int64_t start, int64_t size) {
  m.out[0] = size;
  auto shift = [&](Linear& l) {
    for (auto [iterator, coef] : l.terms)
      if (iterator == 0) l.constant += coef * start;
  };
  for (Read& r : m.reads) {
    for (IndexExpr& e : r.index) {
      shift(e.affine);
      for (Digit& d : e.digits) shift(d.of);
    }
  }
  m.body = with_leaves(m.body, [&](const Instr& in) {
    if (in.fn == Fn::arg) return arg(in.a);
    return in.a == 0 ? iter(0) + Scalar(static_cast<double>(start)) : iter(in.a);
  });
  return m;
}

class Evaluation {
 public:
  Evaluation(const EvalContext& c, const Transposed& t, std::span<const Value> values)
      : c_(c), t_(t), p_(derivative_parts(t)), types_(t.types.items), operands_(types_.size()) {
    auto wanted = wanted_operands(t).value_or(std::vector<int>());
    EMEND_ASSERT(wanted.size() + 1 == values.size(), t.op);
    for (size_t i = 0; i < wanted.size(); ++i)
      operands_[static_cast<size_t>(wanted[i])] = values[i + 1].tensor;
    weight_ = add_per_output(values[0].tensor, c.types[0].dtype);
    if (p_.needs_value) {
      Meaning plain = p_.m;
      plain.finish = arg(0);
      Scalar value = add_per_output(run(plain));
      weight_ = weight_ * with_leaves(p_.finish_by, [&](const Instr& in) {
                  return in.fn == Fn::arg ? value : iter(in.a);
                });
      weight_ = weight_ * share(value);
    } else {
      weight_ = weight_ * p_.finish_by;
    }
  }

  Tensor run() {
    switch (c_.arithmetic) {
      case Arithmetic::field:
        return scattered<Mod61>();
      case Arithmetic::integer:
        return scattered<CheckedInt>();
      default:
        return scattered<double>();
    }
  }

 private:
  // Contributions are held in double precision and rounded once, when they are
  // summed.
  static constexpr DType kWide = DType::f64;

  Tensor run(const Meaning& m) {
    return evaluate_meaning(m, c_.arithmetic, types_, operands_, kWide, m.out);
  }

  // A tensor with one element per output position becomes a further read of the
  // meaning.
  Scalar add_per_output(const Tensor& t, DType declared = kWide) {
    Read r{.operand = static_cast<int>(operands_.size())};
    for (size_t i = 0; i < p_.m.out.size(); ++i) r.index.push_back(index_of(static_cast<int>(i)));
    operands_.push_back(t.reshaped(p_.m.out));
    types_.push_back(Type::tensor(declared, p_.m.out));
    p_.m.reads.push_back(r);
    return arg(static_cast<int>(p_.m.reads.size() - 1));
  }

  // A sum over the reduced box.
  Scalar reduced(Reduce how, const Scalar& body) {
    Meaning m = p_.m;
    m.reduce = how;
    m.body = simplified(body);
    m.finish = arg(0);
    drop_unused_reads(m);
    return add_per_output(run(m));
  }

  // d reduced value / d body at a point: which share of the gradient goes
  // there.
  Scalar share(const Scalar& value) {
    const Scalar body = p_.m.body;
    auto equal = [](const Scalar& x, const Scalar& y) { return call(Fn::eq, x, y); };
    switch (p_.m.reduce) {
      case Reduce::max:
      case Reduce::min: {  // equal ones share
        Scalar ties = reduced(Reduce::sum, equal(body, value));
        return equal(body, value) / ties;
      }
      case Reduce::product: {  // the product of the others, also where factors are
                               // zero
        Scalar zeros = reduced(Reduce::sum, equal(body, 0));
        Scalar others = reduced(Reduce::product, select(equal(body, 0), 1, body));
        Scalar at_zero = select(equal(zeros, 1), others, 0);
        Scalar elsewhere = select(equal(zeros, 0), value / select(equal(body, 0), 1, body), 0);
        return select(equal(body, 0), at_zero, elsewhere);
      }
      default:
        return 1;
    }
  }

  template <class T>
  Tensor scattered() {
    const Type& type = t_.types.items[static_cast<size_t>(t_.operand)];
    std::vector<T> sums(static_cast<size_t>(count(type.shape)));
    Dims extents = p_.m.extents();
    if (extents.empty()) extents = {1};
    // A bounded piece of the iteration space at a time.
    int64_t row = count(std::span(extents).subspan(1));
    int64_t step = std::max<int64_t>(1, (int64_t{1} << 22) / std::max<int64_t>(row, 1));
    for (const auto& partial : p_.partials) {
      Meaning m = p_.m;
      m.out = extents;
      m.reduced = {};
      m.reduce = Reduce::none;
      m.finish = arg(0);
      m.body = simplified(weight_ * partial.by);
      drop_unused_reads(m);
      for (int64_t start = 0; start < extents[0] && row > 0; start += step) {
        int64_t size = std::min(step, extents[0] - start);
        add_piece<T>(run(restricted(m, start, size)), partial.read, start, sums);
      }
    }
    DType stored = c_.result_dtype();
    return Tensor::make(stored, type.shape, [&](std::byte* out) {
      for (size_t i = 0; i < sums.size(); ++i) store_as(stored, out, i, sums[i]);
    });
  }

  // sums[L(point)] += contribution at that point; what was read from outside
  // goes nowhere.
  template <class T>
  void add_piece(const Tensor& piece, size_t read, int64_t start, std::vector<T>& sums) {
    Stored stored{piece.dtype(), kIsExact<T>, piece.shape(), {}, piece.data()};
    const Dims& shape = t_.types.items[static_cast<size_t>(t_.operand)].shape;
    Dims strides = row_major_strides(shape);
    std::vector<int64_t> point(piece.shape().size(), 0), ints(p_.m.reads.size());
    for (int64_t i = 0; i < piece.count(); ++i, next_point(point.data(), piece.shape())) {
      point[0] += start;
      if (auto at = place(p_.m.reads[read], shape, strides, point.data(), ints)) {
        T& sum = sums[static_cast<size_t>(*at)];
        sum = sum + load_as<T>(stored, static_cast<size_t>(i));
      }
      point[0] -= start;
    }
  }

  // Where a read lands in a tensor of that shape; nullopt outside. Index values
  // that it depends on are read first.
  std::optional<int64_t> place(const Read& r, const Dims& shape, const Dims& strides,
                               const int64_t* point, std::vector<int64_t>& ints) {
    int64_t at = 0;
    for (size_t d = 0; d < r.index.size(); ++d) {
      if (int from = r.index[d].read; from >= 0) {
        const Read& index = p_.m.reads[static_cast<size_t>(from)];
        const Tensor& values = operands_[static_cast<size_t>(index.operand)];
        auto where = place(index, values.shape(), row_major_strides(values.shape()), point, ints);
        ints[static_cast<size_t>(from)] = where ? values.integer(*where) : 0;
      }
      int64_t v = evaluate(r.index[d], point, ints.data());
      if (v < 0 || v >= shape[d]) return std::nullopt;
      at += v * strides[d];
    }
    return at;
  }

  const EvalContext& c_;
  const Transposed& t_;
  DerivativeParts p_;
  std::vector<Type> types_;
  std::vector<Tensor> operands_;
  Scalar weight_ = 1;  // of every contribution at a point: a function of reads and iterators
};

}  // namespace

OpDef scattered_op() {
  return define<Transposed>(
      {.name = "scattered",
       .min_args = 1,
       .max_args = -1,
       .kind = Kind::contraction,
       // Not a mere move, but computed by the rules of the arithmetic at hand,
       // so right in all.
       .traits = raw_moves,
       .infer = transposed_infer,
       .eval = [](const EvalContext& c, const Transposed& t, std::span<const Value> v) -> Value {
         return Evaluation(c, t, v).run();
       },
       .doc = "the gradient of one operand from that of the result, for any "
              "operator with a meaning "
              "in index notation: every point of its iteration space adds its "
              "share"});
}

}  // namespace emend
