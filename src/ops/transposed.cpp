#include "ops/transposed.h"

#include <algorithm>
#include <functional>
#include <set>

#include "ops/evaluate.h"
#include "ops/families.h"
#include "ops/meaning_eval.h"
#include "ops/table.h"

namespace emend {
namespace {

// A scalar function with its leaves (arguments, iterators) replaced.
Scalar with_leaves(const Scalar& s, const std::function<Scalar(const Instr&)>& leaf) {
  Scalar out;
  std::vector<int32_t> at;
  auto append = [&](const std::vector<Instr>& code) {
    auto base = static_cast<int32_t>(out.code.size());
    for (Instr in : code) {
      if (info(in.fn).arity > 0) {
        for (int32_t* operand : {&in.a, &in.b, &in.c})
          if (*operand >= 0) *operand += base;
      }
      out.code.push_back(in);
    }
  };
  for (Instr in : s.code) {
    if (in.fn == Fn::arg || in.fn == Fn::iter) {
      append(leaf(in).code);
    } else {
      if (info(in.fn).arity > 0) {
        for (int32_t* operand : {&in.a, &in.b, &in.c})
          if (*operand >= 0) *operand = at[static_cast<size_t>(*operand)];
      }
      out.code.push_back(in);
    }
    at.push_back(static_cast<int32_t>(out.code.size()) - 1);
  }
  return out;
}

// The original's meaning and the derivatives of its body by the reads of one operand.
struct Parts {
  Meaning m;
  struct Partial {
    size_t read;
    Scalar by;
  };
  std::vector<Partial> partials;
  Scalar finish_by;  // of arg(0), the reduced value
  // Whether the reduced value itself matters: it does not where the result is linear in it and it
  // is a sum.
  bool needs_value = false;
};

std::set<int> arguments(const Scalar& s) {
  std::set<int> all;
  for (const Instr& in : s.code)
    if (in.fn == Fn::arg) all.insert(in.a);
  return all;
}

Parts parts_of(const Transposed& t) {
  Parts p;
  p.m = meaning_of(op_def(op_named(t.op)), t.of, t.types.items);
  for (size_t k = 0; k < p.m.reads.size(); ++k) {
    if (p.m.reads[k].operand != t.operand) continue;
    Scalar by = derivative(p.m.body, static_cast<int>(k));
    if (!is_zero(by)) p.partials.push_back({k, by});
  }
  p.finish_by = derivative(p.m.finish, 0);
  p.needs_value =
      (p.m.reduce != Reduce::none && p.m.reduce != Reduce::sum) || !arguments(p.finish_by).empty();
  return p;
}

// Without the reads that the body does not mention (nor an index of one that it does): their
// operands may be absent.
void drop_unused_reads(Meaning& m) {
  std::set<int> used = arguments(m.body);
  for (size_t k = m.reads.size(); k-- > 0;) {
    if (!used.contains(static_cast<int>(k))) continue;
    for (const IndexExpr& e : m.reads[k].index)
      if (e.read >= 0) used.insert(e.read);  // always an earlier one
  }
  std::vector<int> renamed(m.reads.size(), -1);
  std::vector<Read> kept;
  for (int k : used) {
    renamed[static_cast<size_t>(k)] = static_cast<int>(kept.size());
    kept.push_back(m.reads[static_cast<size_t>(k)]);
    for (IndexExpr& e : kept.back().index)
      if (e.read >= 0) e.read = renamed[static_cast<size_t>(e.read)];
  }
  m.reads = std::move(kept);
  m.body = with_leaves(m.body, [&](const Instr& in) {
    return in.fn == Fn::arg ? arg(renamed[static_cast<size_t>(in.a)]) : iter(in.a);
  });
}

// The part of a meaning without reduction where iterator 0 runs over [start, start + size).
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
      : c_(c), t_(t), p_(parts_of(t)), types_(t.types.items), operands_(types_.size()) {
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
  // Contributions are held in double precision and rounded once, when they are summed.
  static constexpr DType kWide = DType::f64;

  Tensor run(const Meaning& m) {
    return evaluate_meaning(m, c_.arithmetic, types_, operands_, kWide, m.out);
  }

  // A tensor with one element per output position becomes a further read of the meaning.
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

  // d reduced value / d body at a point: which share of the gradient goes there.
  Scalar share(const Scalar& value) {
    const Scalar body = p_.m.body;
    auto equal = [](const Scalar& x, const Scalar& y) { return call(Fn::eq, x, y); };
    switch (p_.m.reduce) {
      case Reduce::max:
      case Reduce::min: {  // equal ones share
        Scalar ties = reduced(Reduce::sum, equal(body, value));
        return equal(body, value) / ties;
      }
      case Reduce::product: {  // the product of the others, also where factors are zero
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

  // sums[L(point)] += contribution at that point; what was read from outside goes nowhere.
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

  // Where a read lands in a tensor of that shape; nullopt outside. Index values that it depends on
  // are read first.
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
  Parts p_;
  std::vector<Type> types_;
  std::vector<Tensor> operands_;
  Scalar weight_ = 1;  // of every contribution at a point: a function of reads and iterators
};

Result<Type> transposed_infer(const Transposed& t, Types in) {
  OpId op = find_op(t.op);
  if (!op.valid()) return fail("transposed: no operator is called ", t.op);
  const OpDef& def = op_def(op);
  if (!def.means && def.body.empty())
    return fail("transposed: ", t.op, " has no meaning in index notation");
  auto result = infer_type(def, t.of, t.types.items);
  if (!result) return fail("transposed: ", result.error());
  if (t.operand < 0 || t.operand >= static_cast<int64_t>(t.types.items.size()))
    return fail("transposed: ", t.op, " has no operand ", t.operand);
  auto wanted = wanted_operands(t).value_or(std::vector<int>());
  if (wanted.size() + 1 != in.size())
    return fail("transposed: needs the gradient and ", wanted.size(), " operands of ", t.op);
  if (in[0] != *result)
    return fail("transposed: the gradient is ", to_text(in[0]), ", not ", to_text(*result));
  for (size_t i = 0; i < wanted.size(); ++i) {
    const Type& type = t.types.items[static_cast<size_t>(wanted[i])];
    if (in[i + 1] != type)
      return fail("transposed: operand ", i + 1, " is ", to_text(in[i + 1]), ", not ",
                  to_text(type));
  }
  return t.types.items[static_cast<size_t>(t.operand)];
}

}  // namespace

bool is_zero(const Scalar& s) {
  return s.code.size() == 1 && s.code[0].fn == Fn::constant && s.code[0].value == 0;
}

std::optional<std::vector<int>> wanted_operands(const Transposed& t) {
  Parts p = parts_of(t);
  if (p.partials.empty() || is_zero(p.finish_by)) return std::nullopt;
  std::set<int> wanted;
  auto want = [&](int read) { wanted.insert(p.m.reads[static_cast<size_t>(read)].operand); };
  for (const auto& partial : p.partials)
    for (int read : arguments(partial.by)) want(read);
  for (const Read& r : p.m.reads) {
    if (p.needs_value) wanted.insert(r.operand);
    for (const IndexExpr& e : r.index)
      if (e.read >= 0) want(e.read);
  }
  return std::vector<int>(wanted.begin(), wanted.end());
}

std::vector<OpDef> derivative_ops() {
  return {define<Transposed>(
      {.name = "transposed",
       .min_args = 1,
       .max_args = -1,
       .kind = Kind::contraction,
       // Not a mere move, but computed by the rules of the arithmetic at hand, so right in all.
       .traits = raw_moves,
       .infer = transposed_infer,
       .eval = [](const EvalContext& c, const Transposed& t, std::span<const Value> v) -> Value {
         return Evaluation(c, t, v).run();
       },
       .doc = "the gradient of one operand from that of the result, for any operator with a "
              "meaning in index notation"})};
}

}  // namespace emend
