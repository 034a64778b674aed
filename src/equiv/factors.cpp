#include "equiv/factors.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <tuple>

namespace emend {
namespace {

std::vector<int> leaves_of(const IndexTerm& t) {
  std::vector<int> all;
  for (const LeafRead& r : t.reads) all.push_back(r.leaf);
  std::sort(all.begin(), all.end());
  return all;
}

// Every term reads the same leaves, each once: then a product of reads is one position of each
// leaf, and dimensions of these can be looked at apart.
bool one_read_each(const TermPair& p) {
  if (p.a.empty() || p.b.empty()) return false;
  const std::vector<int> leaves = leaves_of(p.a[0]);
  if (std::adjacent_find(leaves.begin(), leaves.end()) != leaves.end()) return false;
  auto same = [&](const IndexTerm& t) { return leaves_of(t) == leaves; };
  return std::all_of(p.a.begin(), p.a.end(), same) && std::all_of(p.b.begin(), p.b.end(), same);
}

// Things that belong together if they are tied, directly or not.
class Ties {
 public:
  size_t add() {
    above_.push_back(above_.size());
    return above_.size() - 1;
  }
  void tie(size_t i, size_t j) { above_[find(i)] = find(j); }
  size_t find(size_t i) const {
    while (above_[i] != i) i = above_[i];
    return i;
  }

 private:
  std::vector<size_t> above_;
};

// A term, and to which part each of its iterators and of its reads' dimensions belongs.
struct PartedTerm {
  const IndexTerm* term;
  std::vector<size_t> iterators;
  std::vector<std::vector<size_t>> reads;
  std::vector<size_t> variant = {};  // per part: which of the program's, by number
};

struct Parted {
  size_t parts = 0;     // those with a digit or a dimension of a leaf come first,
  size_t anchored = 0;  //   so many
  std::vector<size_t> digits;
  std::vector<PartedTerm> a, b;
};

class Tying {
 public:
  Parted of(const TermPair& p) {
    Parted out;
    for (size_t k = 0; k < p.digits.all.size(); ++k) out.digits.push_back(ties_.add());
    for (const Condition& c : p.digits.domain) tie(c.of, out.digits);
    for (const IndexTerm& t : p.a) out.a.push_back(tied(t, out.digits));
    for (const IndexTerm& t : p.b) out.b.push_back(tied(t, out.digits));
    // Roots as numbers from 0 on.
    std::map<size_t, size_t> number;
    auto name = [&](size_t& thing) {
      thing = number.try_emplace(ties_.find(thing), number.size()).first->second;
    };
    std::for_each(out.digits.begin(), out.digits.end(), name);
    for (auto* terms : {&out.a, &out.b})
      for (PartedTerm& t : *terms)
        for (auto& read : t.reads) std::for_each(read.begin(), read.end(), name);
    out.anchored = number.size();
    for (auto* terms : {&out.a, &out.b})
      for (PartedTerm& t : *terms) std::for_each(t.iterators.begin(), t.iterators.end(), name);
    out.parts = number.size();
    return out;
  }

 private:
  void tie(const Linear& e, const std::vector<size_t>& iterators) {
    for (auto [k, coef] : e.terms)
      ties_.tie(iterators[static_cast<size_t>(e.terms[0].first)],
                iterators[static_cast<size_t>(k)]);
  }

  PartedTerm tied(const IndexTerm& t, const std::vector<size_t>& digits) {
    PartedTerm out{.term = &t, .iterators = digits, .reads = {}};
    while (out.iterators.size() < t.extents.size()) out.iterators.push_back(ties_.add());
    for (const LeafRead& r : t.reads) {
      auto& dims = dims_[r.leaf];
      while (dims.size() < r.index.size()) dims.push_back(ties_.add());
      for (size_t d = 0; d < r.index.size(); ++d) {
        tie(r.index[d], out.iterators);
        if (!r.index[d].terms.empty())
          ties_.tie(dims[d], out.iterators[static_cast<size_t>(r.index[d].terms[0].first)]);
      }
      out.reads.push_back(dims);
    }
    for (const Condition& c : t.conditions) tie(c.of, out.iterators);
    return out;
  }

  Ties ties_;
  std::map<int, std::vector<size_t>> dims_;  // of leaves, which all terms share
};

// What a term is in some of the parts, its iterators numbered anew.
class Cut {
 public:
  explicit Cut(std::set<size_t> parts) : parts_(std::move(parts)) {}

  IndexTerm of(const PartedTerm& p) const {
    const IndexTerm& t = *p.term;
    const std::vector<int> to = numbers(p.iterators);
    IndexTerm out;
    for (size_t k = 0; k < to.size(); ++k)
      if (to[k] >= 0) out.extents.push_back(t.extents[k]);
    for (size_t i = 0; i < t.reads.size(); ++i) {
      LeafRead& mine = out.reads.emplace_back(LeafRead{t.reads[i].leaf, {}});
      for (size_t d = 0; d < t.reads[i].index.size(); ++d)
        if (parts_.contains(p.reads[i][d]))
          mine.index.push_back(renumbered(t.reads[i].index[d], to));
    }
    out.conditions = conditions(t.conditions, to);
    return out;
  }

  Digits of(const Digits& whole, const std::vector<size_t>& part_of) const {
    Digits out;
    const std::vector<int> to = numbers(part_of);
    for (size_t k = 0; k < to.size(); ++k)
      if (to[k] >= 0) out.all.push_back(whole.all[k]);
    out.domain = conditions(whole.domain, to);
    return out;
  }

  std::vector<int> which(const std::vector<size_t>& part_of) const {
    std::vector<int> out;
    for (size_t k = 0; k < part_of.size(); ++k)
      if (parts_.contains(part_of[k])) out.push_back(static_cast<int>(k));
    return out;
  }

 private:
  std::vector<int> numbers(const std::vector<size_t>& part_of) const {
    std::vector<int> to;
    int next = 0;
    for (size_t part : part_of) to.push_back(parts_.contains(part) ? next++ : -1);
    return to;
  }
  static Linear renumbered(Linear e, const std::vector<int>& to) {
    for (auto& [k, coef] : e.terms) k = to[static_cast<size_t>(k)];
    return e;
  }
  static std::vector<Condition> conditions(const std::vector<Condition>& all,
                                           const std::vector<int>& to) {
    std::vector<Condition> out;
    for (const Condition& c : all)
      if (to[static_cast<size_t>(c.of.terms[0].first)] >= 0)
        out.push_back({renumbered(c.of, to), c.extent});
    return out;
  }

  std::set<size_t> parts_;
};

std::vector<int64_t> key_of(const IndexTerm& t) {
  std::vector<int64_t> key;
  auto add = [&](const Linear& e) {
    key.insert(key.end(), {e.constant, static_cast<int64_t>(e.terms.size())});
    for (auto [k, coef] : e.terms) key.insert(key.end(), {k, coef});
  };
  key.push_back(static_cast<int64_t>(t.extents.size()));
  key.insert(key.end(), t.extents.begin(), t.extents.end());
  std::vector<std::pair<int, const LeafRead*>> reads;
  for (const LeafRead& r : t.reads) reads.emplace_back(r.leaf, &r);
  std::sort(reads.begin(), reads.end());
  for (auto [leaf, read] : reads)
    for (const Linear& e : read->index) add(e);
  auto less = [](const Condition& c, const Condition& d) {
    return std::tie(c.of.terms, c.of.constant, c.extent) <
           std::tie(d.of.terms, d.of.constant, d.extent);
  };
  std::vector<Condition> conditions = t.conditions;
  std::sort(conditions.begin(), conditions.end(), less);
  for (const Condition& c : conditions) {
    add(c.of);
    key.push_back(c.extent);
  }
  return key;
}

// Numbers what the terms of a program are in each part.
void number_variants(std::vector<PartedTerm>& terms, size_t parts) {
  for (size_t part = 0; part < parts; ++part) {
    const Cut cut({part});
    std::map<std::vector<int64_t>, size_t> known;
    for (PartedTerm& t : terms)
      t.variant.push_back(known.try_emplace(key_of(cut.of(t)), known.size()).first->second);
  }
}

// The terms with one variant in `part` for each of its variants; empty if the others do not meet
// each of them alike. What is left of `terms` then are those of one variant.
std::vector<PartedTerm> taken_out(std::vector<PartedTerm>& terms, size_t part) {
  using Rest = std::pair<std::vector<size_t>, uint64_t>;
  std::map<size_t, std::multiset<Rest>> meets;
  std::vector<PartedTerm> out;
  for (const PartedTerm& t : terms) {
    std::vector<size_t> others = t.variant;
    others[part] = 0;
    auto [it, fresh] = meets.try_emplace(t.variant[part]);
    if (fresh) out.push_back(t);
    it->second.emplace(std::move(others), t.term->coefficient.v);
  }
  const auto& first = meets.begin()->second;
  if (!std::all_of(meets.begin(), meets.end(), [&](const auto& m) { return m.second == first; }))
    return {};
  const size_t kept = meets.begin()->first;
  std::erase_if(terms, [&](const PartedTerm& t) { return t.variant[part] != kept; });
  return out;
}

TermFactor factor_of(const TermPair& whole, const Parted& parted, const std::set<size_t>& parts,
                     const std::vector<PartedTerm>& a, const std::vector<PartedTerm>& b) {
  const Cut cut(parts);
  TermFactor f{.digits = cut.which(parted.digits),
               .terms = {.digits = cut.of(whole.digits, parted.digits), .a = {}, .b = {}}};
  for (const PartedTerm& t : a) f.terms.a.push_back(cut.of(t));
  for (const PartedTerm& t : b) f.terms.b.push_back(cut.of(t));
  return f;
}

bool names_nothing(const Condition& c) {
  return c.of.terms.empty();
}

bool has_empty_conditions(const TermPair& p) {
  auto odd = [](const IndexTerm& t) {
    return std::any_of(t.conditions.begin(), t.conditions.end(), names_nothing);
  };
  return std::any_of(p.a.begin(), p.a.end(), odd) || std::any_of(p.b.begin(), p.b.end(), odd) ||
         std::any_of(p.digits.domain.begin(), p.digits.domain.end(), names_nothing);
}

}  // namespace

std::vector<TermFactor> factors_of(const TermPair& whole) {
  std::vector<int> digits(whole.digits.all.size());
  std::iota(digits.begin(), digits.end(), 0);
  if (!one_read_each(whole) || has_empty_conditions(whole)) return {{std::move(digits), whole}};
  Parted parted = Tying().of(whole);
  number_variants(parted.a, parted.parts);
  number_variants(parted.b, parted.parts);
  std::vector<TermFactor> out;
  std::set<size_t> rest;
  for (size_t part = 0; part < parted.parts; ++part) {
    if (part >= parted.anchored) {
      rest.insert(part);
      continue;
    }
    std::vector<PartedTerm> a = parted.a, b = parted.b;
    std::vector<PartedTerm> of_a = taken_out(a, part), of_b = taken_out(b, part);
    if (of_a.empty() || of_b.empty()) {
      rest.insert(part);
      continue;
    }
    out.push_back(factor_of(whole, parted, {part}, of_a, of_b));
    parted.a = std::move(a);
    parted.b = std::move(b);
  }
  // Coefficients stay with what could not be taken out.
  out.push_back(factor_of(whole, parted, rest, parted.a, parted.b));
  for (size_t i = 0; i < parted.a.size(); ++i)
    out.back().terms.a[i].coefficient = parted.a[i].term->coefficient;
  for (size_t i = 0; i < parted.b.size(); ++i)
    out.back().terms.b[i].coefficient = parted.b[i].term->coefficient;
  return out;
}

}  // namespace emend
