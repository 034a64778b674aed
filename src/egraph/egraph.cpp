#include "egraph/egraph.h"

#include <algorithm>

namespace emend {
namespace {

constexpr uint32_t kNone = UINT32_MAX;

}  // namespace

bool EGraph::canonical(const Row& row, std::span<const ClassId> children) const {
  return std::all_of(children.begin(), children.end(),
                     [&](ClassId c) { return classes_.is_root(c.value); }) &&
         (!is_commutative(row.kind) || children[0] <= children[1]);
}

void EGraph::set_commutative(uint32_t op) {
  if (op >= commutative_.size()) commutative_.resize(op + size_t{1});
  commutative_[op] = 1;
}

void EGraph::put_in_order(uint32_t kind, std::span<ClassId> children) const {
  if (is_commutative(kind) && children[1] < children[0]) std::swap(children[0], children[1]);
}

EGraph::Row EGraph::row_of(uint32_t op, uint32_t attr, std::span<const ClassId> children) {
  Row row{kind_of(op, children.size()), attr, {}};
  if (children.size() <= kInline) {
    for (size_t i = 0; i < children.size(); ++i) row.child[i] = children[i].value;
  }
  return row;
}

uint32_t EGraph::hash_of(const Row& row, std::span<const ClassId> children) {
  if (children.size() <= kInline) return hash_of(row);
  uint32_t h = 0;
  for (ClassId c : children) h = hash_of({row.kind, row.attr, {c.value, h, 0}});
  return h;
}

uint32_t EGraph::probe(const Row& row, std::span<const ClassId> given, uint32_t hash) const {
  if (given.size() <= kInline) {
    return hash_cons_.probe(hash, [&](uint32_t node) { return same(rows_[node], row); });
  }
  return hash_cons_.probe(hash, [&](uint32_t node) {
    return rows_[node].kind == row.kind && rows_[node].attr == row.attr &&
           std::equal(given.begin(), given.end(), children(node).begin());
  });
}

// --- Growing

bool EGraph::within_limits(size_t arity) {
  if (full_ != Full::no) return false;
  if (node_count() >= limits_.nodes) {
    full_ = Full::nodes;
  } else if (limits_.bytes != SIZE_MAX) {
    // Columns grow by half and the hash table doubles; until one of them does, nothing is added.
    const bool grows = rows_.size() == rows_.capacity() || hash_cons_.growth() > 0 ||
                       (arity > kInline && spilled_.size() + arity > spilled_.capacity());
    if (grows && bytes() + bytes() / 2 + hash_cons_.growth() > limits_.bytes) full_ = Full::bytes;
  }
  return full_ == Full::no;
}

void EGraph::set_limits(const EGraphLimits& limits) {
  limits_ = limits;
  full_ = Full::no;
}

ENodeId EGraph::append(const Row& row, uint32_t slot, uint32_t hash, ClassId into) {
  const auto id = static_cast<uint32_t>(rows_.size());
  EMEND_ASSERT(id < Union::kCongruence, "an e-graph of two thousand million nodes");
  rows_.push_back(row);
  state_.push_back(kChanged);
  if (keep_provenance_) provenance_.made(FiringId());
  if (into.valid()) {
    classes_.push_below(into.value);
    next_.push_back(next_[into.value]);
    next_[into.value] = id;
    ++union_count_;
  } else {
    classes_.push();
    next_.push_back(id);
    ++class_count_;
  }
  hash_cons_.fill(slot, hash, id);
  return ENodeId(size_t{id});
}

ClassId EGraph::add(uint32_t op, uint32_t attr, std::span<const ClassId> given) {
  roots_.clear();
  for (ClassId c : given) roots_.push_back(ClassId(size_t{classes_.find(c.value)}));
  put_in_order(kind_of(op, given.size()), {roots_.data(), roots_.size()});
  const Row row = row_of(op, attr, roots_.span());
  const uint32_t hash = hash_of(row, roots_.span());
  const uint32_t slot = probe(row, roots_.span(), hash);
  if (const uint32_t found = hash_cons_.node_at(slot); found != HashCons::kEmpty) {
    if (firing_) firing_found_.push_back(ENodeId(size_t{found}));
    return ClassId(size_t{found});
  }
  if (!within_limits(given.size())) return ClassId();
  Row stored = row;
  if (given.size() > kInline) {
    stored.child[0] = static_cast<uint32_t>(spilled_.size());
    spilled_.append(roots_.span());
  }
  const ENodeId made = append(stored, slot, hash, ClassId());
  if (keep_provenance_) provenance_.set_maker(made, current_firing());
  if (analysis_.make) analysis_.make(*this, made);
  return made;
}

ENodeId EGraph::lookup(uint32_t op, uint32_t attr, std::span<const ClassId> given) const {
  std::vector<ClassId> children;
  for (ClassId c : given) children.push_back(find(c));
  put_in_order(kind_of(op, given.size()), children);
  const Row row = row_of(op, attr, children);
  const uint32_t found = hash_cons_.node_at(probe(row, children, hash_of(row, children)));
  return found == HashCons::kEmpty ? ENodeId() : ENodeId(size_t{found});
}

bool EGraph::unite_by(ClassId a, ClassId b, uint32_t cause) {
  const uint32_t ra = classes_.find(a.value), rb = classes_.find(b.value);
  if (ra == rb) return false;
  const uint32_t kept = std::min(ra, rb), gone = std::max(ra, rb);
  classes_.unite_roots(kept, gone);
  std::swap(next_[kept], next_[gone]);
  --class_count_;
  ++union_count_;
  ++merge_count_;
  // A node that is not linked has users only among those that are not linked either, and these
  // are made canonical when they are.
  if (gone < linked_) dirty_.push_back(gone);
  if (keep_provenance_) {
    if (cause == Union::kCongruence) {
      provenance_.congruent(a, b);
    } else {
      provenance_.united(a, b, FiringId(size_t{cause}));
    }
  }
  if (analysis_.merge) analysis_.merge(*this, ClassId(size_t{kept}), ClassId(size_t{gone}));
  return true;
}

bool EGraph::unite(ClassId a, ClassId b) {
  if (same(a, b)) return false;
  return unite_by(a, b, keep_provenance_ ? current_firing().value : kNone);
}

// --- Firings. The record is written when the firing ends, because nodes that are found come in
// between; its number is known before, because firings do not overlap.

void EGraph::begin_firing(RuleId rule, std::span<const ENodeId> matched) {
  end_firing();
  if (!keep_provenance_) return;
  firing_ = true;
  firing_rule_ = rule;
  firing_matched_.append(matched);
}

FiringId EGraph::current_firing() {
  if (firing_ && !firing_id_.valid()) firing_id_ = FiringId(provenance_.firings());
  return firing_id_;
}

void EGraph::end_firing() {
  if (firing_id_.valid()) {
    provenance_.record(firing_rule_, firing_matched_.span(), firing_found_.span());
  }
  firing_ = false;
  firing_id_ = FiringId();
  firing_matched_.clear();
  firing_found_.clear();
}

// --- Rebuilding

// Gives a node that has a child that is gone the child's new name. If that makes it a copy of
// another node, both classes are one.
void EGraph::repair(uint32_t id) {
  const auto mine = children(id);
  if (canonical(rows_[id], mine)) return;
  hash_cons_.erase(
      hash_cons_.probe(hash_of(rows_[id], mine), [&](uint32_t node) { return node == id; }));
  if (keep_provenance_ && !(state_[id] & kRenamed)) {
    provenance_.renamed(ENodeId(size_t{id}), mine);
    state_[id] |= kRenamed;
  }
  for (ClassId& c : mine) c.value = classes_.find(c.value);
  put_in_order(rows_[id].kind, mine);
  const uint32_t hash = hash_of(rows_[id], mine);
  const uint32_t slot = probe(rows_[id], mine, hash);
  const uint32_t other = hash_cons_.node_at(slot);
  if (other == HashCons::kEmpty) {
    state_[id] |= kChanged;
    hash_cons_.fill(slot, hash, id);
  } else {
    state_[id] |= kDead;
    unite_by(ENodeId(size_t{id}), ENodeId(size_t{other}), Union::kCongruence);
  }
}

void EGraph::repair_users(uint32_t gone) {
  const uint32_t last = users_[gone];
  if (last == kNone) return;
  // Congruence may take this class away, too, while its new users arrive: it is then among the
  // dirty ones, and they are looked at once more.
  const uint32_t root = classes_.find(gone);
  uint32_t at = last;
  do {
    at = uses_[at].next;
    const uint32_t user = uses_[at].node;
    if (!(state_[user] & kDead)) repair(user);
  } while (at != last);
  if (users_[root] == kNone) {
    users_[root] = last;
  } else {
    std::swap(uses_[users_[root]].next, uses_[last].next);
  }
  users_[gone] = kNone;
}

// Asks for the memory that repairing and linking these nodes will need.
void EGraph::prefetch_links(uint32_t begin, uint32_t end) {
  for (uint32_t id = begin; id < end; ++id) {
    for (ClassId c : children(id)) {
      classes_.prefetch(c.value);
      __builtin_prefetch(&users_[c.value], 1);
    }
  }
  uint32_t renamed[kLinkBlock];
  size_t count = 0;
  for (uint32_t id = begin; id < end; ++id) {
    Row row = rows_[id];
    if (row.arity() > kInline || canonical(row, children(id))) continue;
    hash_cons_.prefetch(hash_of(row));
    for (size_t i = 0; i < row.arity(); ++i) row.child[i] = classes_.find(row.child[i]);
    renamed[count++] = hash_of(row);
    hash_cons_.prefetch(renamed[count - 1]);
  }
  for (size_t i = 0; i < count; ++i) prefetch_node(renamed[i]);
}

void EGraph::link_new_nodes() {
  while (linked_ < rows_.size()) {
    const uint32_t end = static_cast<uint32_t>(std::min(rows_.size(), linked_ + kLinkBlock));
    if (end > users_.size()) users_.resize(rows_.size(), kNone);
    // Where everything is in the cache it would only cost.
    if (constexpr size_t kFarAway = 1 << 18; rows_.size() > kFarAway) prefetch_links(linked_, end);
    for (; linked_ < end; ++linked_) {
      repair(linked_);
      if (!(state_[linked_] & kDead)) link(linked_);
    }
  }
}

// Makes the node known to its children.
void EGraph::link(uint32_t id) {
  const auto mine = children(id);
  for (size_t i = 0; i < mine.size(); ++i) {
    const auto before = mine.begin() + static_cast<ptrdiff_t>(i);
    if (std::find(mine.begin(), before, mine[i]) != before) continue;
    const auto use = static_cast<uint32_t>(uses_.size());
    uint32_t& last = users_[mine[i].value];
    if (last == kNone) {
      uses_.push_back({id, use});
      last = use;
    } else {
      uses_.push_back({id, uses_[last].next});
      uses_[last].next = use;
    }
  }
}

void EGraph::look_again(ClassId root) {
  for_nodes_of(root, [&](ENodeId n) { state_[n.value] |= kChanged; });
  for (ENodeId user : parents_of(root)) {
    state_[user.value] |= kChanged;
    if (analysis_.make && alive(user)) analysis_.make(*this, user);
  }
}

// Each touched class once, as long as congruence holds; what is left is for the next turn.
void EGraph::look_again_at_touched() {
  Column<ClassId> now;
  now.swap(touched_);
  for (ClassId& c : now) c = find(c);
  std::sort(now.begin(), now.end());
  const auto end = std::unique(now.begin(), now.end());
  for (auto c = now.begin(); c != end; ++c) {
    if (dirty_.empty() && linked_ == rows_.size()) {
      look_again(*c);
    } else {
      touched_.push_back(*c);
    }
  }
}

void EGraph::rebuild() {
  end_firing();
  while (!clean()) {
    while (!dirty_.empty()) {
      const uint32_t gone = dirty_.back();
      dirty_.pop_back();
      repair_users(gone);
    }
    link_new_nodes();
    look_again_at_touched();
  }
}

uint32_t EGraph::refresh() {
  rebuild();
  ++time_;
  tables_.begin_update();
  const auto size = static_cast<uint32_t>(rows_.size());
  seen_class_.resize(size, kNone);
  for (uint32_t id = 0; id < size; ++id) {
    const uint32_t root = classes_.flatten(id);
    const bool dead = state_[id] & kDead;
    if (seen_class_[id] == root && !(state_[id] & (kChanged | kDead))) continue;
    if (seen_class_[id] != kNone) tables_.mark_stale(rows_[id].kind);
    if (!dead) state_[id] |= kChanged;
    seen_class_[id] = dead ? kNone : root;
  }
  tables_.drop([&](uint32_t id) { return (state_[id] & (kChanged | kDead)) != 0; });
  for (uint32_t id = 0; id < size; ++id) {
    if ((state_[id] & (kChanged | kDead)) != kChanged) continue;
    state_[id] &= static_cast<uint8_t>(~kChanged);
    uint32_t* row = tables_.append(rows_[id].kind);
    row[kNodeColumn] = id;
    row[kTimeColumn] = time_;
    row[kClassColumn] = seen_class_[id];
    row += kChildColumn;
    for (ClassId c : children(id)) *row++ = c.value;
  }
  return time_;
}

// --- Reading

std::vector<ENodeId> EGraph::nodes_of(ClassId c) const {
  std::vector<ENodeId> nodes;
  for_nodes_of(c, [&](ENodeId n) { nodes.push_back(n); });
  return nodes;
}

std::vector<ENodeId> EGraph::parents_of(ClassId c) const {
  std::vector<ENodeId> parents;
  const ClassId root = find(c);
  const uint32_t last = root.value < users_.size() ? users_[root.value] : kNone;
  if (last == kNone) return parents;
  uint32_t at = last;
  do {
    at = uses_[at].next;
    const ENodeId user(size_t{uses_[at].node});
    if (alive(user)) parents.push_back(user);
  } while (at != last);
  std::sort(parents.begin(), parents.end());
  parents.erase(std::unique(parents.begin(), parents.end()), parents.end());
  return parents;
}

size_t EGraph::bytes() const {
  return rows_.bytes() + classes_.bytes() + next_.bytes() + state_.bytes() + users_.bytes() +
         seen_class_.bytes() + spilled_.bytes() + uses_.bytes() + hash_cons_.bytes() +
         provenance_.bytes() + tables_.bytes() + dirty_.bytes() + touched_.bytes();
}

}  // namespace emend
