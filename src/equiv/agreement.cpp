#include "equiv/agreement.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>

#include "base/integer.h"
#include "equiv/factors.h"
#include "equiv/field_value.h"
#include "equiv/region.h"
#include "ops/families.h"
#include "ops/table.h"

namespace emend {
namespace {

// --- Boxes in which no condition changes with the position ---

// All values of the part of a linear form that `iterators` make; nothing if they are too many.
std::optional<std::set<int64_t>> values_of(const Linear& e, const Dims& extents,
                                           const std::vector<int>& iterators) {
  std::set<int64_t> values = {e.constant};
  for (int k : iterators) {
    int64_t coef = 0;
    for (auto [i, c] : e.terms) coef = i == k ? c : coef;
    std::set<int64_t> next;
    int64_t n = extents[static_cast<size_t>(k)];
    if (static_cast<int64_t>(values.size()) * n > 1 << 16) return std::nullopt;
    for (int64_t v : values)
      for (int64_t i = 0; i < n; ++i) next.insert(v + coef * i);
    values = std::move(next);
  }
  return values;
}

class Splitter {
 public:
  explicit Splitter(const Digits& digits) : extents_(digits.extents()) {
    for (int64_t n : extents_) splits_.push_back({0, n});
  }

  // False if it takes too many values to say where the condition changes.
  bool add(const Condition& c, const Dims& extents) {
    std::vector<int> outputs, others;
    int64_t longest = -1;
    int along = -1;
    for (auto [k, coef] : c.of.terms) {
      bool output = static_cast<size_t>(k) < extents_.size();
      (output ? outputs : others).push_back(k);
      if (output && extents[static_cast<size_t>(k)] > longest) {
        longest = extents[static_cast<size_t>(k)];
        along = k;
      }
    }
    if (along < 0) return true;
    // Of several digits all but the longest are taken value by value.
    for (int k : outputs) {
      if (k == along) continue;
      others.push_back(k);
      for (int64_t i = 0; i < extents[static_cast<size_t>(k)]; ++i)
        splits_[static_cast<size_t>(k)].insert(i);
      if (splits_[static_cast<size_t>(k)].size() > 512) return false;
    }
    auto rest = values_of(c.of, extents, others);
    if (!rest) return false;
    int64_t coef = 0;
    for (auto [k, by] : c.of.terms) coef = k == along ? by : coef;
    for (int64_t v : *rest) {
      // 0 <= coef * d + v < extent changes where either side does.
      for (int64_t at : {first_change(coef, v), first_change(coef, v - c.extent)}) {
        if (at > 0 && at < extents_[static_cast<size_t>(along)])
          splits_[static_cast<size_t>(along)].insert(at);
      }
    }
    return true;
  }

  size_t boxes() const {
    size_t n = 1;
    for (const auto& s : splits_) n *= s.size() - 1;
    return n;
  }
  std::vector<Agreement::Box> all() const {
    std::vector<std::vector<int64_t>> at;
    for (const auto& s : splits_) at.emplace_back(s.begin(), s.end());
    std::vector<Agreement::Box> boxes;
    std::vector<size_t> which(at.size(), 0);
    for (size_t n = this->boxes(); n-- > 0;) {
      Agreement::Box b;
      for (size_t k = 0; k < at.size(); ++k) {
        b.low.push_back(at[k][which[k]]);
        b.high.push_back(at[k][which[k] + 1]);
      }
      boxes.push_back(std::move(b));
      for (size_t k = at.size(); k-- > 0;) {
        if (++which[k] + 1 < at[k].size()) break;
        which[k] = 0;
      }
    }
    return boxes;
  }

 private:
  // From which d on coef * d + v >= 0 has another answer than before.
  static int64_t first_change(int64_t coef, int64_t v) {
    return coef > 0 ? ceil_div(-v, coef) : floor_div(v, -coef) + 1;
  }
  Dims extents_;
  std::vector<std::set<int64_t>> splits_;
};

// --- The products of a program in a box ---

// How a reduced iterator is used: its extent and its coefficient wherever it occurs. Iterators that
// are used alike by both programs, in every term, and by no condition need no values: the sums over
// them are the same.
using Signature = std::vector<int64_t>;
constexpr int64_t kShort = 8;

Signature signature_of(const IndexTerm& t, int iterator) {
  std::vector<std::array<int64_t, 3>> uses;
  for (const LeafRead& f : t.reads) {
    for (size_t d = 0; d < f.index.size(); ++d)
      for (auto [k, coef] : f.index[d].terms)
        if (k == iterator) uses.push_back({f.leaf, static_cast<int64_t>(d), coef});
  }
  std::sort(uses.begin(), uses.end());
  Signature s = {t.extents[static_cast<size_t>(iterator)]};
  for (const auto& u : uses) s.insert(s.end(), u.begin(), u.end());
  return s;
}

// Products by the linear forms of their indices, with how often they occur.
using Products = std::map<std::vector<int64_t>, uint64_t>;

class ProductReader {
 public:
  ProductReader(const IndexTerm& t, size_t outputs, const std::set<Signature>& alike)
      : term_(t), outputs_(outputs), symbol_(t.extents.size(), -1), coefficient_(t.coefficient) {
    std::vector<std::pair<Signature, int>> free;
    for (size_t k = outputs; k < t.extents.size(); ++k) {
      auto i = static_cast<int>(k);
      Signature s = signature_of(t, i);
      if (in_condition(i)) {
        values_.push_back(i);
      } else if (s.size() == 1) {  // it only repeats the product
        coefficient_ = coefficient_ * Mod61::of(t.extents[k]);
      } else if (alike.contains(s)) {
        free.emplace_back(std::move(s), i);
      } else {
        values_.push_back(i);
      }
    }
    std::sort(free.begin(), free.end());
    for (size_t i = 0; i < free.size(); ++i)
      symbol_[static_cast<size_t>(free[i].second)] = static_cast<int>(i);
    for (const auto& [s, k] : free) free_.push_back(t.extents[static_cast<size_t>(k)]);
  }

  size_t count() const {
    size_t n = 1;
    for (int k : values_) n *= static_cast<size_t>(term_.extents[static_cast<size_t>(k)]);
    return n;
  }

  void add(const Agreement::Box& box, Products& to) const {
    Dims point(term_.extents.size(), 0), zero(values_.size(), 0), at = zero, end;
    for (int k : values_) end.push_back(term_.extents[static_cast<size_t>(k)]);
    std::copy(box.low.begin(), box.low.end(), point.begin());
    do {
      for (size_t i = 0; i < values_.size(); ++i) point[static_cast<size_t>(values_[i])] = at[i];
      if (!holds(point)) continue;
      uint64_t& n = to[key_of(box, point)];
      n = (Mod61(n) + coefficient_).v;
    } while (next_point(at.data(), zero, end));
  }

 private:
  bool in_condition(int k) const {
    for (const Condition& c : term_.conditions)
      for (auto [i, coef] : c.of.terms)
        if (i == k) return true;
    return false;
  }
  // Conditions do not change within the box: its lowest corner stands for all.
  bool holds(const Dims& point) const {
    return std::all_of(term_.conditions.begin(), term_.conditions.end(), [&](const Condition& c) {
      int64_t v = evaluate(c.of, point.data());
      return 0 <= v && v < c.extent;
    });
  }
  // Every factor: leaf and, per dimension, the constant and the coefficients of what has no value.
  std::vector<int64_t> key_of(const Agreement::Box& box, const Dims& point) const {
    std::vector<std::vector<int64_t>> factors;
    for (const LeafRead& f : term_.reads) {
      std::vector<int64_t> key = {f.leaf};
      for (const Linear& e : f.index) {
        size_t constant = key.size();
        key.push_back(e.constant);
        size_t terms = key.size();
        key.push_back(0);
        std::map<int64_t, int64_t> symbols;
        for (auto [k, coef] : e.terms) {
          auto i = static_cast<size_t>(k);
          if (i < outputs_ && box.high[i] - box.low[i] > 1) {
            symbols[k] += coef;
          } else if (symbol_[i] >= 0) {
            symbols[-1 - symbol_[i]] += coef;
          } else {
            key[constant] += coef * point[i];
          }
        }
        for (auto [symbol, coef] : symbols) {
          key.insert(key.end(), {symbol, coef});
          ++key[terms];
        }
      }
      factors.push_back(std::move(key));
    }
    std::sort(factors.begin(), factors.end());
    std::vector<int64_t> all = {static_cast<int64_t>(free_.size())};
    all.insert(all.end(), free_.begin(), free_.end());
    for (const auto& f : factors) {
      all.push_back(static_cast<int64_t>(f.size()));
      all.insert(all.end(), f.begin(), f.end());
    }
    return all;
  }

  const IndexTerm& term_;
  size_t outputs_;
  std::vector<int> symbol_;  // per iterator: which symbol, or -1
  std::vector<int> values_;  // iterators that are taken value by value
  Dims free_;                // extents of the symbols
  Mod61 coefficient_;
};

std::set<Signature> signatures(const std::vector<IndexTerm>& terms, size_t outputs) {
  std::set<Signature> all;
  for (const IndexTerm& t : terms)
    for (size_t k = outputs; k < t.extents.size(); ++k)
      all.insert(signature_of(t, static_cast<int>(k)));
  return all;
}

// Of the iterators that are in a condition.
std::set<Signature> conditioned(const std::vector<IndexTerm>& terms, size_t outputs) {
  std::set<Signature> all;
  for (const IndexTerm& t : terms)
    for (const Condition& c : t.conditions)
      for (auto [k, coef] : c.of.terms)
        if (static_cast<size_t>(k) >= outputs) all.insert(signature_of(t, k));
  return all;
}

// An iterator of one program that stands for two digits of the other is split into them, so that
// the longer of the two needs no values.
void split_alike(std::vector<IndexTerm>& terms, const std::set<Signature>& others, size_t outputs) {
  for (IndexTerm& t : terms) {
    for (size_t k = outputs; k < t.extents.size(); ++k) {
      Signature s = signature_of(t, static_cast<int>(k));
      if (s.size() == 1 || others.contains(s)) continue;
      for (const Signature& o : others) {
        if (o.size() != s.size() || o[0] == 0 || s[0] % o[0] != 0) continue;
        int64_t m = s[0] / o[0];
        bool fits = m > 1;
        for (size_t i = 1; fits && i < s.size(); i += 3)
          fits = o[i] == s[i] && o[i + 1] == s[i + 1] && o[i + 2] == s[i + 2] * m;
        if (!fits) continue;
        auto low = static_cast<int>(t.extents.size());
        t.extents[k] = o[0];
        t.extents.push_back(m);
        auto split = [&](Linear& e) {
          for (auto& [i, coef] : e.terms) {
            if (i != static_cast<int>(k)) continue;
            int64_t by = coef;
            coef *= m;
            e.terms.emplace_back(low, by);
            return;
          }
        };
        for (LeafRead& f : t.reads)
          for (Linear& e : f.index) split(e);
        for (Condition& c : t.conditions) split(c.of);
        break;
      }
    }
  }
}

bool same(const Products& a, const Products& b) {
  auto next = [](auto& it, auto end) {
    while (it != end && it->second == 0) ++it;
    return it != end;
  };
  auto i = a.begin(), j = b.begin();
  while (true) {
    bool more_a = next(i, a.end()), more_b = next(j, b.end());
    if (!more_a || !more_b) return more_a == more_b;
    if (*i++ != *j++) return false;
  }
}

Result<TermPair> terms_of_both(const Graph& a, const Graph& b) {
  TermPair both;
  both.digits = digits_of(a.type(a.outputs[0].node).shape);
  Leaves leaves;
  while (true) {
    auto ta = terms_of(a, both.digits, leaves);
    if (!ta) return Failure{ta.error()};
    Digits before = both.digits;
    auto tb = terms_of(b, both.digits, leaves);
    if (!tb) return Failure{tb.error()};
    both.a = std::move(*ta);
    both.b = std::move(*tb);
    if (both.digits == before) return both;
  }
}

// A box of digits, whether both programs are the same sum of products there, and whether they are
// none at all.
struct Compared {
  Agreement::Box box;
  bool none[2] = {false, false};
};

Result<std::vector<Compared>> compared(TermPair p, const AgreementOptions& options,
                                       bool only_everywhere) {
  const size_t outputs = p.digits.all.size();
  split_alike(p.a, signatures(p.b, outputs), outputs);
  split_alike(p.b, signatures(p.a, outputs), outputs);
  std::set<Signature> of_a = signatures(p.a, outputs), of_b = signatures(p.b, outputs);
  std::set<Signature> alike;
  std::set_intersection(of_a.begin(), of_a.end(), of_b.begin(), of_b.end(),
                        std::inserter(alike, alike.begin()));
  // Iterators that conditions name have values; the short ones have, too, lest a tap that is one of
  // two phases be taken for the other.
  for (const Signature& s : conditioned(p.a, outputs)) alike.erase(s);
  for (const Signature& s : conditioned(p.b, outputs)) alike.erase(s);
  std::erase_if(alike, [](const Signature& s) { return s[0] < kShort; });
  Splitter splitter(p.digits);
  Dims extents = p.digits.extents();
  for (const Condition& c : p.digits.domain)
    if (!splitter.add(c, extents)) return fail("too many boxes");
  for (const auto* terms : {&p.a, &p.b}) {
    for (const IndexTerm& t : *terms)
      for (const Condition& c : t.conditions)
        if (!splitter.add(c, t.extents)) return fail("too many boxes");
  }
  if (splitter.boxes() > options.max_boxes) return fail("too many boxes");
  std::vector<ProductReader> readers[2];
  size_t products[2] = {0, 0};
  for (int side = 0; side < 2; ++side) {
    for (const IndexTerm& t : side ? p.b : p.a) {
      readers[side].emplace_back(t, outputs, alike);
      products[side] += readers[side].back().count();
    }
    if (products[side] > options.max_products) return fail("too many products");
  }
  std::vector<Compared> all;
  for (Agreement::Box& box : splitter.all()) {
    if (!std::all_of(p.digits.domain.begin(), p.digits.domain.end(), [&](const Condition& c) {
          int64_t v = evaluate(c.of, box.low.data());
          return 0 <= v && v < c.extent;
        })) {
      continue;
    }
    Products in[2];
    for (int side = 0; side < 2; ++side)
      for (const ProductReader& r : readers[side]) r.add(box, in[side]);
    box.agree = same(in[0], in[1]);
    all.push_back({std::move(box), {same(in[0], {}), same(in[1], {})}});
    if (!all.back().box.agree && only_everywhere) return std::vector{std::move(all.back())};
  }
  return all;
}

// A factor that agrees everywhere and is nowhere nothing is one box.
void unite_if_alike(std::vector<Compared>& boxes, const Digits& digits) {
  auto plain = [](const Compared& c) { return c.box.agree && !c.none[0]; };
  if (!digits.domain.empty() || !std::all_of(boxes.begin(), boxes.end(), plain)) return;
  const Dims extents = digits.extents();
  boxes = {{{Dims(extents.size(), 0), extents, true}}};
}

Result<Agreement> by_terms(const Graph& a, const Graph& b, const AgreementOptions& options) {
  auto both = terms_of_both(a, b);
  if (!both) return Failure{both.error()};
  Agreement result{.digits = both->digits, .method = "terms"};
  const std::vector<TermFactor> factors = factors_of(*both);
  std::vector<std::vector<Compared>> boxes;
  Dims first, counts;
  size_t all = 1;
  for (const TermFactor& f : factors) {
    auto now = compared(f.terms, options, options.only_everywhere && factors.size() == 1);
    if (!now) return Failure{now.error()};
    unite_if_alike(*now, f.terms.digits);
    first.push_back(0);
    counts.push_back(static_cast<int64_t>(now->size()));
    all *= now->size();
    boxes.push_back(std::move(*now));
  }
  if (all > options.max_boxes) return fail("too many boxes");
  EMEND_ASSERT(all > 0);
  Dims at = first;
  do {
    Agreement::Box box{Dims(both->digits.all.size()), Dims(both->digits.all.size()), true};
    bool none[2] = {false, false};
    for (size_t f = 0; f < factors.size(); ++f) {
      const Compared& c = boxes[f][static_cast<size_t>(at[f])];
      for (size_t k = 0; k < factors[f].digits.size(); ++k) {
        const auto digit = static_cast<size_t>(factors[f].digits[k]);
        box.low[digit] = c.box.low[k];
        box.high[digit] = c.box.high[k];
      }
      box.agree &= c.box.agree;
      for (int side = 0; side < 2; ++side) none[side] |= c.none[side];
    }
    box.agree |= none[0] && none[1];
    if (!box.agree && options.only_everywhere) {
      result.boxes = {std::move(box)};
      break;
    }
    result.boxes.push_back(std::move(box));
  } while (next_point(at.data(), first, counts));
  return result;
}

// Floats of one dtype, which stand for reals here. Integers wrap and divide in ways of their own,
// and so do casts; constants may choose by truth.
bool all_numbers_alike(const Graph& g) {
  const DType dtype = g.type(g.outputs[0].node).dtype;
  if (!is_float(dtype)) return false;
  for (size_t i = 0; i < g.size(); ++i) {
    NodeId n(i);
    bool chooses = g.is_constant(n) && g.type(n).dtype == DType::boolean;
    if (!chooses && (!g.type(n).is_tensor() || g.type(n).dtype != dtype)) return false;
  }
  return true;
}

Result<Agreement> by_field(const Graph& a, const Graph& b, const AgreementOptions& options,
                           const std::string& why) {
  const Dims& shape = a.type(a.outputs[0].node).shape;
  double positions = static_cast<double>(count(shape));
  if (operation_count(a) + operation_count(b) > options.max_operations ||
      positions > static_cast<double>(options.max_boxes)) {
    return fail(why);
  }
  Agreement result{.digits = digits_of(shape), .method = "field"};
  Dims low(shape.size(), 0), at = low;
  try {
    do {
      Agreement::Box box{at, at};
      for (int64_t& h : box.high) ++h;
      box.agree = field_value(a, at, options.seed) == field_value(b, at, options.seed);
      result.boxes.push_back(std::move(box));
    } while (next_point(at.data(), low, shape));
  } catch (const Inexact& e) {
    return fail(e.what());
  }
  return result;
}

}  // namespace

bool Agreement::everywhere() const {
  return std::all_of(boxes.begin(), boxes.end(), [](const Box& b) { return b.agree; });
}

double Agreement::share() const {
  double agreed = 0, all = 0;
  for (const Box& b : boxes) {
    double n = 1;
    for (size_t k = 0; k < b.low.size(); ++k) n *= static_cast<double>(b.high[k] - b.low[k]);
    all += n;
    agreed += b.agree ? n : 0;
  }
  return all > 0 ? agreed / all : 1;
}

Graph without_composites(const Graph& g) {
  auto composite = [](const Node& n) {
    const OpDef& def = op_def(n);
    return def.body.empty() && !def.means && def.expand;
  };
  if (std::none_of(g.nodes.begin(), g.nodes.end(), composite)) return g;
  GraphBuilder b;
  std::vector<NodeId> became(g.size());
  for (const GraphInput& i : g.inputs) became[i.node.value] = b.input(i.name, g.type(i.node));
  for (size_t i = g.inputs.size(); i < g.size(); ++i) {
    const Node& n = g.nodes[NodeId(i)];
    std::vector<NodeId> args;
    std::vector<Type> types;
    for (NodeId a : n.args) {
      args.push_back(became[a.value]);
      types.push_back(g.type(a));
    }
    if (g.is_constant(NodeId(i))) {
      became[i] = b.constant(g.constant(NodeId(i)));
    } else if (composite(n)) {
      became[i] = splice(b, expansion(op_def(n), n.attrs, types), args)[0];
    } else {
      became[i] = b.try_op(n.op, args, n.attrs).value_or_throw();
    }
  }
  b.output("y", became[g.outputs[0].node.value]);
  return without_composites(std::move(b).build());
}

Result<Agreement> agreement(const Graph& a, const Graph& b, const AgreementOptions& options) {
  EMEND_ASSERT(a.outputs.size() == 1 && b.outputs.size() == 1);
  EMEND_ASSERT(a.type(a.outputs[0].node) == b.type(b.outputs[0].node));
  const Graph x = without_composites(a), y = without_composites(b);
  if (!all_numbers_alike(x) || !all_numbers_alike(y)) return fail("numbers of several kinds");
  auto shown = by_terms(x, y, options);
  if (shown) return shown;
  return by_field(x, y, options, shown.error());
}

std::vector<Dims> positions_of(const Agreement& a, const Agreement::Box& box, size_t rank) {
  std::vector<Dims> all;
  Dims at = box.low;
  do {
    all.push_back(a.digits.position(at, rank));
  } while (next_point(at.data(), box.low, box.high));
  return all;
}

}  // namespace emend
