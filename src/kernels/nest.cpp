#include "kernels/nest.h"

#include <algorithm>
#include <map>
#include <set>

#include "base/error.h"
#include "base/text.h"
#include "kernels/nest_space.h"
#include "ops/families.h"
#include "ops/running.h"
#include "ops/table.h"

namespace emend {
namespace {

constexpr int64_t kFar = int64_t{1} << 45;  // beyond every index of a tensor

struct Unnestable {
  std::string reason;
};

// Divisors by which iterators are cut into digits.
using Cuts = std::map<int64_t, std::set<int64_t>>;

// An extent cut at its divisors, as far as each divides the next; outermost first.
Dims pieces(int64_t extent, const std::set<int64_t>& cuts) {
  Dims result;
  int64_t rest = extent, done = 1;
  for (int64_t by : cuts) {  // ascending
    if (by % done != 0 || extent % by != 0 || by == done) continue;
    result.insert(result.begin(), by / done);
    rest /= by / done;
    done = by;
  }
  if (rest > 1 || result.empty()) result.insert(result.begin(), rest);
  return result;
}

class NestBuilder {
 public:
  NestBuilder(const Graph& g, const Space& space, const Cuts& reduced) : g_(g), reduced_(reduced) {
    for (size_t k = 0; k < space.extents.size(); ++k) {
      nest_.space.push_back(nest_.math.iterator(space.extents[k]));
      if (space.kept[k]) kept_.push_back(nest_.space[k]);
      if (!space.kept[k]) left_out_.push_back(nest_.space[k]);
    }
  }

  // The whole space first: what its stores compute on the way, smaller ones share.
  Nest build() && {
    store(nest_.space);
    if (!left_out_.empty()) store(kept_);
    return std::move(nest_);
  }

 private:
  // A number whose digits are these iterators, the last one fastest.
  Linear number_of(const std::vector<int>& iterators) const {
    Linear flat;
    for (int a : iterators) flat = flat * nest_.math.extent(a) + term(a);
    return flat;
  }
  int64_t extent_of(const std::vector<int>& iterators) const {
    int64_t n = 1;
    for (int a : iterators) n *= nest_.math.extent(a);
    return n;
  }

  // All outputs with as many elements as these iterators have values.
  void store(const std::vector<int>& iterators) {
    Linear flat = number_of(iterators);
    for (size_t o = 0; o < g_.outputs.size(); ++o) {
      NodeId n = g_.outputs[o].node;
      if (count(g_.type(n).shape) != extent_of(iterators)) continue;
      auto index = digits(flat, g_.type(n).shape);
      Linear at = flat;
      if (const Dims& strides = g_.outputs[o].strides; !strides.empty()) {
        at = {};
        for (size_t d = 0; d < strides.size(); ++d) at = nest_.math.sum(at, index[d] * strides[d]);
      }
      nest_.stores.push_back({static_cast<int>(o), value_of(n, index), at});
    }
  }

  // The index of element number `flat` of a tensor of this shape.
  std::vector<Linear> digits(const Linear& flat, const Dims& shape) {
    Dims strides = row_major_strides(shape);
    std::vector<Linear> index;
    for (size_t d = 0; d < shape.size(); ++d) {
      Linear digit = nest_.math.quotient(flat, strides[d]);
      index.push_back(d == 0 ? digit : nest_.math.remainder(digit, shape[d]));
    }
    return index;
  }

  int add(NestValue v) {
    auto it = std::find(nest_.values.begin(), nest_.values.end(), v);
    if (it == nest_.values.end()) it = nest_.values.insert(it, std::move(v));
    return static_cast<int>(it - nest_.values.begin());
  }

  int value_of(NodeId n, std::vector<Linear> index) {
    std::vector<std::pair<int64_t, std::vector<std::pair<int, int64_t>>>> key;
    for (const Linear& l : index) key.emplace_back(l.constant, l.terms);
    auto [it, fresh] = seen_.try_emplace({n.value, std::move(key)}, -1);
    if (!fresh) return it->second;
    int v = compute(n, index);
    return it->second = v;
  }

  int compute(NodeId n, const std::vector<Linear>& index) {
    const Node& node = g_.nodes[n];
    const Type& type = g_.type(n);
    if (node.op == kInputOp) {
      return load(static_cast<int>(node.attrs.get<int64_t>("index")), type, index, std::nullopt);
    }
    if (node.op == kConstantOp) {
      const Tensor& t = g_.constant(n);
      if (t.count() != 1) throw Unnestable{"a constant that is no scalar"};
      return constant(t.real(0), type.dtype);
    }
    if (auto reason = not_nestable(g_, n); !reason.empty()) throw Unnestable{reason};
    std::vector<Type> types;
    for (NodeId a : node.args) types.push_back(g_.type(a));
    return meaning(meaning_of(op_def(node), node.attrs, types), n, index);
  }

  int constant(double value, DType dtype) {
    DType one[] = {dtype};
    NestValue v{.kind = NestValue::Kind::compute, .dtype = dtype, .work = *working_type(one)};
    v.body = Scalar(value);
    return add(v);
  }

  int load(int buffer, const Type& type, const std::vector<Linear>& index,
           std::optional<double> outside) {
    DType one[] = {type.dtype};
    auto work = working_type(one);
    if (!work) throw Unnestable{str("elements of type ", to_text(type.dtype))};
    NestValue v{.kind = NestValue::Kind::load, .dtype = type.dtype, .work = *work};
    v.buffer = buffer;
    Dims strides = row_major_strides(type.shape);
    for (size_t d = 0; d < index.size(); ++d) {
      v.at = nest_.math.sum(v.at, index[d] * strides[d]);
      auto [low, high] = nest_.math.range(index[d]);
      bool computed = false;
      nest_.math.visit(index[d],
                       [&](int a) { computed |= nest_.math.atom(a).kind == Atom::Kind::value; });
      if (computed || low < 0 || high >= type.shape[d]) {
        v.bounds.push_back({index[d], type.shape[d]});
        // Behind a mask anything may stand; elsewhere only data can name a place outside.
        if (!outside && masks_ == 0) v.faults = true;
      }
    }
    v.outside = outside.value_or(0);
    return add(v);
  }

  // Iterators for a reduction: those of the space where extents agree and the result does not
  // depend on them, so that its terms are values of the space too; else new ones.
  std::vector<int> bind(const Dims& extents, const std::vector<Linear>& index) {
    std::set<int> taken;
    for (const Linear& l : index) nest_.math.visit(l, [&](int a) { taken.insert(a); });
    for (int a : bound_) taken.insert(a);
    std::vector<int> over(extents.size(), -1);
    size_t last = nest_.space.size();
    for (size_t k = extents.size(); k-- > 0;) {
      for (size_t s = last; s-- > 0 && over[k] < 0;) {
        int a = nest_.space[s];
        if (taken.count(a) || nest_.math.extent(a) != extents[k]) continue;
        over[k] = a;
        taken.insert(a);
        last = s;
      }
      if (over[k] < 0) over[k] = fresh(extents[k], taken);
    }
    return over;
  }

  // One iterator per extent and depth is enough.
  int fresh(int64_t extent, std::set<int>& taken) {
    for (int a : spare_) {
      if (nest_.math.extent(a) == extent && !taken.count(a)) {
        taken.insert(a);
        return a;
      }
    }
    spare_.push_back(nest_.math.iterator(extent));
    taken.insert(spare_.back());
    return spare_.back();
  }

  // A reduction over all that the smaller stores leave out, asked for where they are.
  bool is_leaf(const Dims& reduced, const std::vector<Linear>& index) const {
    bool depends = left_out_.empty() || !bound_.empty();
    for (const Linear& l : index) {
      nest_.math.visit(
          l, [&](int a) { depends |= std::ranges::find(left_out_, a) != left_out_.end(); });
    }
    return !depends && count(reduced) == extent_of(left_out_);
  }

  // Iterators bound by a reduction; what the reduction calls its own is added to `at`. An iterator
  // of one value is that value; one that views cut is its digits.
  std::vector<int> bound_digits(const Dims& reduced, const std::vector<Linear>& index,
                                std::vector<Linear>& at) {
    Dims extents;
    std::vector<Dims> digits_of;
    for (int64_t extent : reduced) {
      auto cut = reduced_.find(extent);
      digits_of.push_back(extent == 1             ? Dims{}
                          : cut == reduced_.end() ? Dims{extent}
                                                  : pieces(extent, cut->second));
      extents.insert(extents.end(), digits_of.back().begin(), digits_of.back().end());
    }
    std::vector<int> over = bind(extents, index);
    size_t next = 0;
    for (const Dims& digits : digits_of) {
      Linear number;
      for (size_t d = 0; d < digits.size(); ++d) number = number * digits[d] + term(over[next++]);
      at.push_back(number);
    }
    return over;
  }

  int meaning(const Meaning& m, NodeId n, const std::vector<Linear>& index) {
    const Node& node = g_.nodes[n];
    const Type& type = g_.type(n);
    std::vector<Linear> at = index;
    if (m.out != type.shape) {
      Dims strides = row_major_strides(type.shape);
      Linear flat;
      for (size_t d = 0; d < index.size(); ++d) flat = nest_.math.sum(flat, index[d] * strides[d]);
      at = digits(flat, m.out);
    }
    std::vector<int> over;
    bool leaf = m.reduce != Reduce::none && is_leaf(m.reduced, index);
    if (leaf) {
      over = left_out_;
      for (Linear& digit : digits(number_of(over), m.reduced)) at.push_back(std::move(digit));
    } else {
      over = bound_digits(m.reduced, index, at);
    }
    size_t outer = bound_.size();
    bound_.insert(bound_.end(), over.begin(), over.end());

    std::vector<int> reads(m.reads.size());
    for (size_t r = 0; r < m.reads.size(); ++r) reads[r] = read(m.reads[r], node, at, reads);
    std::vector<DType> types{type.dtype};
    for (NodeId a : node.args) types.push_back(g_.type(a).dtype);
    bool fractions = std::ranges::any_of(m.body.code, [](const Instr& i) {
      return i.fn == Fn::constant && i.value != static_cast<double>(static_cast<int64_t>(i.value));
    });
    auto work = working_type(types);
    if (!work) throw Unnestable{"element types without arithmetic in C"};
    if (fractions && !is_float(*work)) work = DType::f64;

    // Rounded once, at the end, as the reference does.
    bool finishes = !is_argument(m.finish, 0), reduces = m.reduce != Reduce::none;
    int result = body(m.body, reads, at, finishes || reduces ? *work : type.dtype, *work);
    bound_.resize(outer);
    if (reduces) {
      NestValue v{.kind = NestValue::Kind::reduce};
      v.dtype = finishes ? *work : type.dtype;
      v.work = *work;
      v.reduce = m.reduce;
      v.over = over;
      v.args = {result};
      result = add(v);
    }
    if (!finishes) return result;
    int args[] = {result};
    return body(m.finish, args, at, type.dtype, *work);
  }

  int read(const Read& r, const Node& node, const std::vector<Linear>& at,
           const std::vector<int>& earlier) {
    NodeId operand = node.args[static_cast<size_t>(r.operand)];
    const Type& type = g_.type(operand);
    std::vector<Linear> index;
    for (size_t d = 0; d < r.index.size(); ++d) {
      index.push_back(nest_.math.substitute(r.index[d], at, [&](int k, int64_t wrap) {
        // Checked below, where the whole index is known.
        int64_t low = r.outside ? -kFar : 0, high = r.outside ? kFar : type.shape[d] - 1;
        return nest_.math.value(earlier[static_cast<size_t>(k)], wrap, low, high);
      }));
    }
    if (g_.nodes[operand].op == kInputOp) {
      int buffer = static_cast<int>(g_.nodes[operand].attrs.get<int64_t>("index"));
      return load(buffer, type, index, r.outside);
    }
    std::vector<Bound> bounds;
    for (size_t d = 0; d < index.size(); ++d) {
      auto [low, high] = nest_.math.range(index[d]);
      bool computed = false;
      nest_.math.visit(index[d],
                       [&](int a) { computed |= nest_.math.atom(a).kind == Atom::Kind::value; });
      if (computed) throw Unnestable{"an index into a value that is not stored"};
      // A read that promises to stay inside leaves only under a mask further out, which drops it.
      bool leaves = r.outside && (low < 0 || high >= type.shape[d]);
      if (leaves) bounds.push_back({index[d], type.shape[d]});
    }
    masks_ += !bounds.empty();
    int value = value_of(operand, index);
    masks_ -= !bounds.empty();
    return bounds.empty() ? value : masked(value, bounds, *r.outside);
  }

  // The value inside the bounds, `outside` elsewhere: a pad that became a predicate; of a load that
  // leaves its buffer nowhere else, its own condition.
  int masked(int value, const std::vector<Bound>& bounds, double outside) {
    NestValue only = nest_.values[static_cast<size_t>(value)];
    bool covered = std::ranges::all_of(
        only.bounds, [&](const Bound& b) { return std::ranges::find(bounds, b) != bounds.end(); });
    if (only.kind == NestValue::Kind::load && !only.faults && covered) {
      only.bounds = bounds;
      only.outside = outside;
      return add(only);
    }
    Scalar inside;
    std::vector<int> args{value};
    for (const Bound& b : bounds) {
      NestValue v{.kind = NestValue::Kind::index, .dtype = DType::i64, .work = DType::i64};
      v.at = b.at;
      args.push_back(add(v));
      Scalar at = arg(static_cast<int>(args.size()) - 1);
      Scalar in =
          call(Fn::logical_and, Scalar(0.0) <= at, at < Scalar(static_cast<double>(b.extent)));
      inside = inside.empty() ? in : call(Fn::logical_and, inside, in);
    }
    NestValue v{.kind = NestValue::Kind::compute};
    v.dtype = nest_.values[static_cast<size_t>(value)].dtype;
    v.work = nest_.values[static_cast<size_t>(value)].work;
    v.body = simplified(select(inside, arg(0), Scalar(outside)));
    v.args = args;
    v.bounds = bounds;
    v.outside = outside;
    return add(v);
  }

  // A scalar body over values; its iterators become values of their own.
  int body(const Scalar& s, std::span<const int> reads, const std::vector<Linear>& at, DType dtype,
           DType work) {
    NestValue v{.kind = NestValue::Kind::compute, .dtype = dtype, .work = work};
    v.body = s;
    v.args.assign(reads.begin(), reads.end());
    for (Instr& i : v.body.code) {
      if (i.fn != Fn::iter) continue;
      NestValue index{.kind = NestValue::Kind::index, .dtype = DType::i64, .work = DType::i64};
      index.at = at[static_cast<size_t>(i.a)];
      v.args.push_back(add(index));
      i = {.fn = Fn::arg, .a = static_cast<int32_t>(v.args.size() - 1)};
    }
    if (is_argument(v.body, 0)) {
      const NestValue& only = nest_.values[static_cast<size_t>(v.args[0])];
      if (only.dtype == dtype) return v.args[0];
    }
    return add(v);
  }

  const Graph& g_;
  const Cuts& reduced_;  // of reductions, by their extents
  Nest nest_;
  std::vector<int> kept_, left_out_;  // the space, as smaller stores see it
  std::map<
      std::pair<uint32_t, std::vector<std::pair<int64_t, std::vector<std::pair<int, int64_t>>>>>,
      int>
      seen_;
  int masks_ = 0;           // how many masks stand around what is being built
  std::vector<int> bound_;  // iterators of the reductions that we are inside of
  std::vector<int> spare_;  // iterators made for reductions
};

// Loads that took over a mask leave the bare ones behind. Values that indices name keep their
// numbers: with such nothing is dropped.
void drop_unused(Nest& nest) {
  for (size_t a = 0; a < nest.math.size(); ++a) {
    if (nest.math.atom(static_cast<int>(a)).kind == Atom::Kind::value) return;
  }
  std::vector<bool> used(nest.values.size(), false);
  for (const NestStore& s : nest.stores) used[static_cast<size_t>(s.value)] = true;
  for (size_t v = nest.values.size(); v-- > 0;) {
    if (!used[v]) continue;
    for (int a : nest.values[v].args) used[static_cast<size_t>(a)] = true;
  }
  std::vector<int> number(nest.values.size(), -1);
  std::vector<NestValue> kept;
  for (size_t v = 0; v < nest.values.size(); ++v) {
    if (!used[v]) continue;
    number[v] = static_cast<int>(kept.size());
    for (int& a : nest.values[v].args) a = number[static_cast<size_t>(a)];
    kept.push_back(std::move(nest.values[v]));
  }
  for (NestStore& s : nest.stores) s.value = number[static_cast<size_t>(s.value)];
  nest.values = std::move(kept);
}

// Where views cut the iterators of a nest: those of the space by position, others by extent.
struct NestCuts {
  std::map<size_t, std::set<int64_t>> space;
  Cuts reduced;
};

NestCuts cuts(const Nest& nest) {
  NestCuts result;
  std::function<void(const Linear&)> see = [&](const Linear& e) {
    for (auto [a, coef] : e.terms) {
      const Atom& at = nest.math.atom(a);
      if (at.kind != Atom::Kind::quotient && at.kind != Atom::Kind::remainder) continue;
      see(at.of);
      for (auto [iterator, step] : at.of.terms) {
        if (nest.math.atom(iterator).kind != Atom::Kind::iterator || at.by % step != 0) continue;
        int64_t by = at.by / step, extent = nest.math.extent(iterator);
        if (by <= 1 || extent % by != 0) continue;
        auto it = std::find(nest.space.begin(), nest.space.end(), iterator);
        if (it != nest.space.end()) {
          result.space[static_cast<size_t>(it - nest.space.begin())].insert(by);
        } else {
          result.reduced[extent].insert(by);
        }
      }
    }
  };
  for (const NestValue& v : nest.values) {
    see(v.at);
    for (const Bound& b : v.bounds) see(b.at);
  }
  for (const NestStore& s : nest.stores) see(s.at);
  return result;
}

// Smaller stores are taken where they cost next to nothing: all that is left to do for them runs
// with the space, and everything is read along strides.
bool leaves_fit(const Nest& nest) {
  std::vector<int> inner = left_out(nest);
  if (inner.empty()) return true;
  for (const NestValue& v : nest.values) {
    for (auto [a, coef] : v.at.terms) {
      if (nest.math.atom(a).kind != Atom::Kind::iterator) return false;
    }
  }
  return std::ranges::all_of(leaf_reductions(nest), [&](int v) {
    return nest.values[static_cast<size_t>(v)].over == inner;
  });
}

}  // namespace

std::optional<DType> working_type(std::span<const DType> types) {
  bool floats = false, wide = false, unsigned64 = false;
  for (DType t : types) {
    if (t == DType::string || is_complex(t) || info(t).bits < 8) return std::nullopt;
    if (is_float(t) && info(t).bits < 16) return std::nullopt;
    floats |= is_float(t);
    wide |= t == DType::f64;
    unsigned64 |= t == DType::u64;
  }
  if (floats) return wide ? DType::f64 : DType::f32;
  return unsigned64 ? DType::u64 : DType::i64;
}

std::string not_nestable(const Graph& g, NodeId n) {
  const Node& node = g.nodes[n];
  const OpDef& def = op_def(node);
  if (!def.means && def.body.empty()) return str(def.name, " has no form in index notation");
  std::vector<DType> types{g.type(n).dtype};
  if (!g.type(n).is_tensor()) return str(def.name, " has several results");
  for (NodeId a : node.args) {
    if (!g.type(a).is_tensor()) return str(def.name, " takes values that are no tensors");
    types.push_back(g.type(a).dtype);
  }
  if (!working_type(types)) return str(def.name, " of element types without arithmetic in C");
  if (def.means && node.args.size() == 1) {
    const Type& operand = g.type(node.args[0]);
    Meaning m = meaning_of(def, node.attrs, std::span(&operand, 1));
    if (as_running(m, operand.shape))
      return str(def.name, " along an axis is carried, not reduced");
  }
  return "";
}

Result<Nest> nest_of(const Graph& group, int64_t row) {
  EMEND_ASSERT(!group.outputs.empty());
  auto space = space_of(group);
  if (!space) return fail("outputs of different sizes");
  if (space->extents.size() == 1) {
    Dims rows = pieces(space->extents[0], {row});
    *space = {rows, std::vector<bool>(rows.size(), space->kept[0])};
  }
  if (std::ranges::find(space->extents, 0) != space->extents.end()) return fail("no elements");
  try {
    // Cut where the index functions need it.
    Cuts reduced;
    for (int round = 0;; ++round) {
      Nest nest = NestBuilder(group, *space, reduced).build();
      drop_unused(nest);
      NestCuts at = cuts(nest);
      Space finer;
      for (size_t k = 0; k < space->extents.size(); ++k) {
        for (int64_t piece : pieces(space->extents[k], at.space[k])) {
          finer.extents.push_back(piece);
          finer.kept.push_back(space->kept[k]);
        }
      }
      bool same = finer == *space;
      for (const auto& [extent, by] : at.reduced) {
        size_t before = reduced[extent].size();
        reduced[extent].insert(by.begin(), by.end());
        same = same && reduced[extent].size() == before;
      }
      if (same || round == 8) {
        if (!leaves_fit(nest)) return fail("outputs of different sizes");
        return nest;
      }
      space = std::move(finer);
    }
  } catch (const Unnestable& u) {
    return fail(u.reason);
  }
}

}  // namespace emend
