#include "ops/transposed.h"

#include <algorithm>
#include <set>

#include "ops/families.h"
#include "ops/table.h"

namespace emend {
namespace {

std::set<int> arguments(const Scalar& s) {
  std::set<int> all;
  for (const Instr& in : s.code)
    if (in.fn == Fn::arg) all.insert(in.a);
  return all;
}

// The operand's index inverted: every old iterator as a linear form of the new
// ones, which run over the operand's positions (`out`) and over what is left to
// sum (`reduced`).
struct Inverse {
  Dims out, reduced;
  std::vector<Linear> old;
  std::vector<bool> solved;  // may leave its range: reads by it are 0 there
};

// The iterators whose digits make up one dimension exactly: 0 .. size - 1, each
// once.
bool are_digits(const Linear& e, const Dims& extents, int64_t size, std::vector<int>& in_order) {
  auto terms = e.terms;
  std::sort(terms.begin(), terms.end(), [](auto a, auto b) { return a.second > b.second; });
  int64_t step = size;
  for (auto [iterator, coef] : terms) {
    int64_t extent = extents[static_cast<size_t>(iterator)];
    if (extent == 0 || step % extent != 0 || coef != step / extent) return false;
    step = coef;
    in_order.push_back(iterator);
  }
  return step == 1 && e.constant == 0;
}

// Each dimension of the index either consists of digits, or is solved for an
// output iterator that stands in it with coefficient 1 or -1 (a window: x = o +
// r - p gives o = x - r + p).
std::optional<Inverse> inverted(const Meaning& m, const Read& r, const Dims& shape) {
  const Dims extents = m.extents();
  struct Solved {
    int iterator;
    int64_t coef;
    size_t dim;
    int position;
  };
  std::vector<Solved> solved;
  std::vector<int> position(extents.size(),
                            -1);  // of the new iterator that replaces an old one
  std::vector<bool> seen(extents.size(), false);
  Inverse inv;
  for (size_t d = 0; d < r.index.size(); ++d) {
    if (!r.index[d].is_affine()) return std::nullopt;
    const Linear& e = r.index[d].affine;
    for (auto t : e.terms) {
      if (seen[static_cast<size_t>(t.first)]) return std::nullopt;  // a diagonal
      seen[static_cast<size_t>(t.first)] = true;
    }
    std::vector<int> digits;
    if (are_digits(e, extents, shape[d], digits)) {
      if (digits.empty()) inv.out.push_back(1);
      for (int it : digits) {
        position[static_cast<size_t>(it)] = static_cast<int>(inv.out.size());
        inv.out.push_back(extents[static_cast<size_t>(it)]);
      }
      continue;
    }
    auto t = std::find_if(e.terms.begin(), e.terms.end(), [&](auto term) {
      return term.first < static_cast<int>(m.out.size()) && std::abs(term.second) == 1;
    });
    if (t == e.terms.end()) return std::nullopt;
    solved.push_back({t->first, t->second, d, static_cast<int>(inv.out.size())});
    inv.out.push_back(shape[d]);
  }
  inv.solved.assign(extents.size(), false);
  for (const Solved& s : solved) inv.solved[static_cast<size_t>(s.iterator)] = true;
  for (size_t i = 0; i < extents.size(); ++i) {
    if (position[i] >= 0 || inv.solved[i]) continue;
    position[i] = static_cast<int>(inv.out.size() + inv.reduced.size());
    inv.reduced.push_back(extents[i]);
  }
  for (int p : position) inv.old.push_back(p < 0 ? Linear{} : Linear{0, {{p, 1}}});
  for (const Solved& s : solved) {
    const Linear& e = r.index[s.dim].affine;
    Linear rest = Linear{-e.constant, {{s.position, 1}}};
    for (auto [it, coef] : e.terms)
      if (it != s.iterator) rest = rest + inv.old[static_cast<size_t>(it)] * -coef;
    inv.old[static_cast<size_t>(s.iterator)] = rest * s.coef;
  }
  return inv;
}

// A linear form of old iterators in the new ones.
Linear rewritten(const Linear& e, const Inverse& inv, bool* uses_solved) {
  Linear out{e.constant, {}};
  for (auto [it, coef] : e.terms) {
    out = out + inv.old[static_cast<size_t>(it)] * coef;
    if (inv.solved[static_cast<size_t>(it)]) *uses_solved = true;
  }
  return out;
}

// A solved iterator that leaves its range must leave the tensor, not reach into a neighbour: it has
// its dimension to itself.
bool is_guarded(const std::vector<IndexExpr>& index, const Inverse& inv, const Dims& extents) {
  for (const IndexExpr& e : index) {
    bool solved = false, shared = false;
    for (auto [it, coef] : e.affine.terms) {
      bool is_solved = inv.solved[static_cast<size_t>(it)];
      shared |= (is_solved && solved) || (!is_solved && extents[static_cast<size_t>(it)] > 1);
      solved |= is_solved;
    }
    if (solved && shared) return false;
  }
  return true;
}

bool rewrite(Read& r, const Inverse& inv) {
  bool guarded = false;
  for (IndexExpr& e : r.index) {
    e.affine = rewritten(e.affine, inv, &guarded);
    for (Digit& d : e.digits) {
      bool solved = false;
      d.of = rewritten(d.of, inv, &solved);
      if (solved) return false;  // could be negative, where digits are not defined
    }
  }
  if (guarded && !r.outside) r.outside = 0.0;
  return true;
}

// Where the element of a tensor stands whose dimensions are cut into digits, one iterator each.
bool index_by_digits(const Dims& shape, const Dims& digits, std::vector<IndexExpr>& index) {
  size_t next = digits.size();
  for (size_t d = shape.size(); d-- > 0;) {
    IndexExpr e = index_constant(0);
    int64_t step = 1;
    while (step < shape[d] && next > 0) {
      e = e + index_of(static_cast<int>(--next), step);
      step *= digits[next];
    }
    if (step != shape[d]) return false;
    // Digits of extent 1 belong to any dimension. They stay in the index, as its only guard where
    // they are solved for.
    while (next > d && digits[next - 1] == 1) e = e + index_of(static_cast<int>(--next), step);
    index.insert(index.begin(), e);
  }
  return next == 0;
}

Scalar as_scalar(const Linear& e) {
  Scalar s = static_cast<double>(e.constant);
  for (auto [it, coef] : e.terms) s = s + Scalar(static_cast<double>(coef)) * iter(it);
  return s;
}

}  // namespace

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

DerivativeParts derivative_parts(const Transposed& t) {
  DerivativeParts p;
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

Result<Type> transposed_infer(const Transposed& t, Types in) {
  OpId op = find_op(t.op);
  if (!op.valid()) return fail("gradient: no operator is called ", t.op);
  const OpDef& def = op_def(op);
  if (!def.means && def.body.empty())
    return fail("gradient: ", t.op, " has no meaning in index notation");
  auto result = infer_type(def, t.of, t.types.items);
  if (!result) return fail("gradient: ", result.error());
  if (t.operand < 0 || t.operand >= static_cast<int64_t>(t.types.items.size()))
    return fail("gradient: ", t.op, " has no operand ", t.operand);
  auto wanted = wanted_operands(t).value_or(std::vector<int>());
  if (wanted.size() + 1 != in.size())
    return fail("gradient: needs the gradient and ", wanted.size(), " operands of ", t.op);
  if (in[0] != *result)
    return fail("gradient: the gradient is ", to_text(in[0]), ", not ", to_text(*result));
  for (size_t i = 0; i < wanted.size(); ++i) {
    const Type& type = t.types.items[static_cast<size_t>(wanted[i])];
    if (in[i + 1] != type)
      return fail("gradient: operand ", i + 1, " is ", to_text(in[i + 1]), ", not ", to_text(type));
  }
  return t.types.items[static_cast<size_t>(t.operand)];
}

bool is_zero(const Scalar& s) {
  return s.code.size() == 1 && s.code[0].fn == Fn::constant && s.code[0].value == 0;
}

std::optional<std::vector<int>> wanted_operands(const Transposed& t) {
  DerivativeParts p = derivative_parts(t);
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

std::optional<Meaning> transposed_meaning(const Transposed& t) {
  DerivativeParts p = derivative_parts(t);
  if (p.needs_value || p.partials.size() != 1) return std::nullopt;
  const auto& [read, by] = p.partials[0];
  const Dims& shape = t.types.items[static_cast<size_t>(t.operand)].shape;
  auto inv = inverted(p.m, p.m.reads[read], shape);
  if (!inv) return std::nullopt;
  // The operands are now the gradient and the wanted ones.
  auto wanted = wanted_operands(t).value_or(std::vector<int>());
  Meaning m{.out = inv->out, .reduced = inv->reduced, .reads = p.m.reads};
  for (Read& r : m.reads) {
    auto at = std::find(wanted.begin(), wanted.end(), r.operand);
    r.operand = static_cast<int>(at - wanted.begin()) + 1;
  }
  Type result = infer_type(op_def(op_named(t.op)), t.of, t.types.items).value_or_throw();
  Read grad{.operand = 0};
  if (!index_by_digits(result.shape, p.m.out, grad.index) ||
      !is_guarded(grad.index, *inv, p.m.extents())) {
    return std::nullopt;
  }
  m.reads.push_back(grad);
  Scalar body = arg(static_cast<int>(m.reads.size()) - 1) * by;
  bool constant = p.finish_by.code.size() == 1 && p.finish_by.code[0].fn == Fn::constant;
  if (!constant) body = body * p.finish_by;
  if (constant && !(p.finish_by == Scalar(1))) m.finish = arg(0) * p.finish_by;
  if (!m.reduced.empty()) m.reduce = Reduce::sum;
  m.body = simplified(with_leaves(body, [&](const Instr& in) {
    return in.fn == Fn::arg ? arg(in.a) : as_scalar(inv->old[static_cast<size_t>(in.a)]);
  }));
  drop_unused_reads(m);
  for (Read& r : m.reads)
    if (!rewrite(r, *inv)) return std::nullopt;
  return m;
}

std::vector<OpDef> derivative_ops() {
  return {define<Transposed>(
              {.name = "transposed",
               .min_args = 1,
               .max_args = -1,
               .kind = Kind::contraction,
               .infer = [](const Transposed& t, Types in) -> Result<Type> {
                 auto type = transposed_infer(t, in);
                 if (type && !transposed_meaning(t))
                   return fail("gradient: the index of ", t.op, " has no inverse");
                 return type;
               },
               .means = [](const Transposed& t, Types) { return transposed_meaning(t).value(); },
               .doc = "the gradient of one operand of a linear operator from that "
                      "of the result, in index notation itself"}),
          scattered_op()};
}

}  // namespace emend
