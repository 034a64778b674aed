#include "egraph/term.h"

#include <algorithm>
#include <array>

namespace emend {
namespace {

// Rows that are worked on together: enough to hide the latency of memory, few enough that what
// was asked for is still in the cache.
constexpr size_t kBatch = 32;

size_t apply_one_by_one(EGraph& g, RuleId rule, const NewTerm& term, const Rows& rows) {
  size_t applied = 0;
  std::vector<ClassId> values, children;
  for (size_t i = 0; i < rows.size() && g.full() == Full::no; ++i) {
    const size_t before = g.change_count();
    const auto classes = rows.classes(i);
    g.begin_firing(rule, rows.nodes(i));
    values.assign(classes.begin(), classes.end());
    for (const NewTerm::Node& n : term.nodes) {
      children.clear();
      for (uint32_t c : n.children) children.push_back(values[c]);
      values.push_back(g.add(n.op, n.attr, children));
      if (!values.back().valid()) break;
    }
    // The matched node stands for its class: an explanation then leads from node to node.
    const ClassId made = term.nodes.empty() ? values[term.bare] : values.back();
    if (made.valid()) g.unite(rows.nodes(i)[0], made);
    g.end_firing();
    applied += g.change_count() != before;
  }
  return applied;
}

// A batch on its way through the term: value v of row r, whether it was made, and what is known of
// the node that is next.
class Batch {
 public:
  Batch(EGraph& g, RuleId rule, const NewTerm& term, const Rows& rows)
      : g_(g), rule_(rule), term_(term), rows_(rows), slots_(rows.classes(0).size()) {
    values_.resize(term.nodes.size() * kBatch);
    made_.resize(term.nodes.size() * kBatch);
  }

  size_t run(size_t begin, size_t end) {
    begin_ = begin;
    count_ = end - begin;
    std::fill(united_.begin(), united_.end(), false);
    for (size_t k = 0; k < term_.nodes.size(); ++k) {
      ask(k);
      for (size_t r = 0; r < count_; ++r) insert(k, r);
    }
    if (term_.nodes.empty()) {
      for (size_t r = 0; r < count_; ++r) unite(r, rows_.classes(begin_ + r)[term_.bare]);
    }
    size_t applied = 0;
    for (size_t r = 0; r < count_; ++r) applied += record(r);
    return applied;
  }

 private:
  uint32_t value(size_t r, uint32_t v) const {
    return v < slots_ ? rows_.classes(begin_ + r)[v].value
                      : values_[(v - slots_) * kBatch + r].value;
  }
  // False: a child could not be made.
  bool gather(size_t k, size_t r) {
    const auto& wanted = term_.nodes[k].children;
    children_.resize(wanted.size());
    for (size_t i = 0; i < wanted.size(); ++i) {
      const uint32_t id = value(r, wanted[i]);
      if (id == ClassId::kNone) return false;
      children_[i] = ClassId(size_t{g_.find_root(id)});
    }
    g_.put_in_order(EGraph::kind_of(term_.nodes[k].op, wanted.size()), children_);
    return true;
  }
  void ask(size_t k) {
    const NewTerm::Node& n = term_.nodes[k];
    const uint32_t kind = EGraph::kind_of(n.op, n.children.size());
    for (size_t r = 0; r < count_; ++r) {
      if (!gather(k, r)) continue;
      hashes_[r] = EGraph::hash_of(kind, n.attr, children_);
      g_.prefetch_slot(hashes_[r]);
    }
    for (size_t r = 0; r < count_; ++r) g_.prefetch_node(hashes_[r]);
  }
  void insert(size_t k, size_t r) {
    const NewTerm::Node& n = term_.nodes[k];
    const bool last = k + 1 == term_.nodes.size();
    ENodeId& value = values_[k * kBatch + r];
    value = ENodeId();
    made_[k * kBatch + r] = false;
    if (!gather(k, r)) return;
    const uint32_t kind = EGraph::kind_of(n.op, n.children.size());
    // Unions of earlier rows may have renamed a child meanwhile.
    const uint32_t hash = EGraph::hash_of(kind, n.attr, children_);
    const ENodeId matched = rows_.nodes(begin_ + r)[0];
    const ClassId into = last ? ClassId(size_t{g_.find_root(matched.value)}) : ClassId();
    const auto done = g_.insert(kind, n.attr, children_, hash, into);
    value = done.node;
    made_[k * kBatch + r] = done.made;
    if (!last || !value.valid()) return;
    if (done.made) {
      united_[r] = true;
      if (g_.keeps_provenance()) {
        unions_[r] = g_.writable_provenance().unions().size();
        g_.writable_provenance().united(matched, value, FiringId());
      }
    } else {
      unite(r, value);
    }
  }
  void unite(size_t r, ClassId other) {
    unions_[r] = g_.provenance().unions().size();
    united_[r] = g_.unite_by(rows_.nodes(begin_ + r)[0], other, FiringId::kNone);
  }
  // Writes down the firing, if there was one, now that all of it is known.
  bool record(size_t r) {
    bool any = united_[r];
    found_.clear();
    for (size_t k = 0; k < term_.nodes.size(); ++k) {
      const ENodeId node = values_[k * kBatch + r];
      if (made_[k * kBatch + r]) {
        any = true;
      } else if (node.valid()) {
        found_.push_back(node);
      }
    }
    if (!any || !g_.keeps_provenance()) return any;
    Provenance& p = g_.writable_provenance();
    const FiringId id = p.record(rule_, rows_.nodes(begin_ + r), found_);
    for (size_t k = 0; k < term_.nodes.size(); ++k) {
      if (made_[k * kBatch + r]) p.set_maker(values_[k * kBatch + r], id);
    }
    if (united_[r]) p.set_cause(unions_[r], id);
    return true;
  }

  EGraph& g_;
  const RuleId rule_;
  const NewTerm& term_;
  const Rows& rows_;
  const size_t slots_;
  size_t begin_ = 0, count_ = 0;
  std::vector<ENodeId> values_;
  std::vector<uint8_t> made_;
  std::vector<ClassId> children_;
  std::vector<ENodeId> found_;
  std::array<uint32_t, kBatch> hashes_{};
  std::array<size_t, kBatch> unions_{};
  std::array<bool, kBatch> united_{};
};

}  // namespace

size_t apply_term(EGraph& g, RuleId rule, const NewTerm& term, const Rows& rows) {
  if (rows.empty()) return 0;
  if (g.has_analysis()) return apply_one_by_one(g, rule, term, rows);
  g.end_firing();
  Batch batch(g, rule, term, rows);
  size_t applied = 0;
  for (size_t i = 0; i < rows.size() && g.full() == Full::no; i += kBatch) {
    applied += batch.run(i, std::min(rows.size(), i + kBatch));
  }
  return applied;
}

}  // namespace emend
