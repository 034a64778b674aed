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

// A node of the term with what does not change from row to row.
struct Stage {
  EGraph::Row row;  // without children
  std::array<uint32_t, EGraph::kInline> from;
  bool commutative;
};

// A batch of rows on its way through the term. Values are kept by place (slots first, then nodes)
// and row.
class Batch {
 public:
  Batch(EGraph& g, RuleId rule, const NewTerm& term, const Rows& rows)
      : g_(g), rule_(rule), bare_(term.bare), rows_(rows), slots_(rows.width() - rows.atoms()) {
    for (const NewTerm::Node& n : term.nodes) {
      const uint32_t kind = EGraph::kind_of(n.op, n.children.size());
      Stage stage{{kind, n.attr, {}}, {}, g.is_commutative(kind)};
      std::copy(n.children.begin(), n.children.end(), stage.from.begin());
      stages_.push_back(stage);
    }
    nodes_.resize(stages_.size() * kBatch);
    made_.resize(stages_.size() * kBatch);
  }

  // Returns how many rows changed something.
  size_t run(size_t begin, size_t end) {
    begin_ = begin;
    count_ = end - begin;
    for (size_t k = 0; k < stages_.size(); ++k) {
      ask(k);
      if (k + 1 < stages_.size()) {
        for (size_t r = 0; r < count_; ++r) insert(k, r, ClassId());
      } else {
        for (size_t r = 0; r < count_; ++r) insert_last(r);
      }
    }
    if (stages_.empty()) {
      for (size_t r = 0; r < count_; ++r) unite(r, rows_.classes(begin_ + r)[bare_]);
    }
    size_t applied = 0;
    for (size_t r = 0; r < count_; ++r) applied += record(r);
    return applied;
  }

 private:
  ENodeId matched(size_t r) const { return rows_.nodes(begin_ + r)[0]; }
  // The class that child i of a stage is in, kNone: it could not be made.
  uint32_t child_of(const Stage& stage, size_t i, const ClassId* classes, size_t r) const {
    const uint32_t from = stage.from[i];
    const uint32_t id =
        from < slots_ ? classes[from].value : nodes_[(from - slots_) * kBatch + r].value;
    return id == ClassId::kNone ? id : g_.find_root(id);
  }
  // False: a child could not be made. Children stay in registers until all are known: they are
  // hashed in pairs, and reading what was just written in halves is slow.
  [[gnu::always_inline]] bool gather(size_t k, size_t r) {
    const Stage& stage = stages_[k];
    const ClassId* classes = rows_.classes(begin_ + r).data();
    const uint32_t arity = stage.row.arity();
    uint32_t a = arity > 0 ? child_of(stage, 0, classes, r) : 0;
    uint32_t b = arity > 1 ? child_of(stage, 1, classes, r) : 0;
    const uint32_t c = arity > 2 ? child_of(stage, 2, classes, r) : 0;
    if (a == ClassId::kNone || b == ClassId::kNone || c == ClassId::kNone) return false;
    if (stage.commutative && b < a) std::swap(a, b);
    const EGraph::Row row{stage.row.kind, stage.row.attr, {a, b, c}};
    hashes_[r] = EGraph::hash_of(row);
    asked_[r] = row;
    return true;
  }
  [[gnu::noinline]] void gather_again(size_t k, size_t r) { gather(k, r); }
  bool canonical(const EGraph::Row& row) const {
    for (size_t i = 0; i < row.arity(); ++i) {
      if (!g_.is_root(row.child[i])) return false;
    }
    return true;
  }
  // Rows to be inserted, and a word to the memory that they will be looked up.
  void ask(size_t k) {
    for (size_t r = 0; r < count_; ++r) {
      complete_[r] = gather(k, r);
      g_.prefetch_slot(hashes_[r]);
    }
    for (size_t r = 0; r < count_; ++r) g_.prefetch_node(hashes_[r]);
    merges_ = g_.merge_count();
  }
  EGraph::Inserted insert(size_t k, size_t r, ClassId into) {
    EGraph::Inserted done{ENodeId(), false};
    // A class that is gone meanwhile may be among the children.
    if (g_.merge_count() != merges_ && complete_[r] && !canonical(asked_[r])) gather_again(k, r);
    if (complete_[r]) done = g_.insert(asked_[r], hashes_[r], into);
    nodes_[k * kBatch + r] = done.node;
    made_[k * kBatch + r] = done.made;
    return done;
  }
  // The term itself is made in the class it is equal to.
  void insert_last(size_t r) {
    united_[r] = false;
    const ClassId into(size_t{g_.find_root(matched(r).value)});
    const auto done = insert(stages_.size() - 1, r, into);
    if (!done.node.valid()) return;
    if (!done.made) return unite(r, done.node);
    united_[r] = true;
    if (g_.keeps_provenance()) {
      unions_[r] = g_.provenance().unions().size();
      g_.writable_provenance().united(matched(r), done.node, FiringId());
    }
  }
  void unite(size_t r, ClassId other) {
    unions_[r] = g_.provenance().unions().size();
    united_[r] = g_.unite_by(matched(r), other, FiringId::kNone);
  }
  // Writes down the firing, if there was one, now that all of it is known.
  bool record(size_t r) {
    bool any = united_[r];
    found_.clear();
    for (size_t at = r; at < nodes_.size(); at += kBatch) {
      if (made_[at]) {
        any = true;
      } else if (nodes_[at].valid()) {
        found_.push_back(nodes_[at]);
      }
    }
    if (!any || !g_.keeps_provenance()) return any;
    Provenance& p = g_.writable_provenance();
    const FiringId id = p.record(rule_, rows_.nodes(begin_ + r), found_);
    for (size_t at = r; at < nodes_.size(); at += kBatch) {
      if (made_[at]) p.set_maker(nodes_[at], id);
    }
    if (united_[r]) p.set_cause(unions_[r], id);
    return true;
  }

  EGraph& g_;
  const RuleId rule_;
  const uint32_t bare_;
  const Rows& rows_;
  const uint32_t slots_;
  std::vector<Stage> stages_;
  size_t begin_ = 0, count_ = 0, merges_ = 0;
  std::vector<ENodeId> nodes_;  // by stage and row
  std::vector<uint8_t> made_;
  std::vector<ENodeId> found_;
  // By row, of the stage that is worked on.
  std::array<EGraph::Row, kBatch> asked_{};
  std::array<uint32_t, kBatch> hashes_{};
  std::array<bool, kBatch> complete_{}, united_{};
  std::array<size_t, kBatch> unions_{};
};

bool fits_inline(const NewTerm& term) {
  return std::all_of(term.nodes.begin(), term.nodes.end(),
                     [](const NewTerm::Node& n) { return n.children.size() <= EGraph::kInline; });
}

}  // namespace

size_t apply_term(EGraph& g, RuleId rule, const NewTerm& term, const Rows& rows) {
  if (rows.empty()) return 0;
  if (g.has_analysis() || !fits_inline(term)) return apply_one_by_one(g, rule, term, rows);
  g.end_firing();
  Batch batch(g, rule, term, rows);
  size_t applied = 0;
  for (size_t i = 0; i < rows.size() && g.full() == Full::no; i += kBatch) {
    applied += batch.run(i, std::min(rows.size(), i + kBatch));
  }
  return applied;
}

}  // namespace emend
