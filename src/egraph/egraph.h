// An e-graph: nodes (operator, attribute, child classes), classes of equal nodes, and congruence:
// nodes with the same operator, attribute and child classes are one. It knows nothing of what
// operators mean; clients give them numbers (below 65,536; an operator may have several arities).
//
//   EGraph g;
//   ClassId x = g.add(kVar, 0, {}), y = g.add(kNeg, 0, {x});
//   g.unite(x, y);
//   g.rebuild();            // congruence holds again
//
// Nodes and classes share one space of ids (decision 0027). A class may be named by any of its
// nodes, dead ones too; find() gives the name all share, its smallest id. Nodes are never removed:
// one that becomes a copy of another by congruence is *dead*, which means that its class has the
// other. Between rebuilds, find() is exact as to what was united, and congruence may lag behind.
//
// Searching (match.h) sees a snapshot that refresh() takes; what is added and united afterwards
// becomes visible with the next one. So rules may be searched and applied in turns, and still all
// see the same graph.
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <span>
#include <utility>
#include <vector>

#include "egraph/hash_cons.h"
#include "egraph/provenance.h"
#include "egraph/tables.h"
#include "egraph/union_find.h"

namespace emend {

class EGraph;

struct ENode {
  uint32_t op, attr;
  std::span<const ClassId> children;  // valid until something is added
};

// What a client knows of classes, kept by the client under their names. Functions may be empty.
// They may add, unite and touch.
struct Analysis {
  // A node was added, so far as a class of its own; or something is new about a child of it.
  std::function<void(EGraph&, ENodeId)> make;
  // Two classes became one; `gone` is now another name of `kept`.
  std::function<void(EGraph&, ClassId kept, ClassId gone)> merge;
};

// What the e-graph may grow to. Where a node would pass a limit, it is not added, add() returns an
// invalid id, and full() says which limit it was; everything that was added before stays valid.
struct EGraphLimits {
  size_t nodes = SIZE_MAX;
  size_t bytes = SIZE_MAX;
};
enum class Full : uint8_t { no, nodes, bytes };

class EGraph {
 public:
  EGraph() = default;
  explicit EGraph(Analysis analysis, bool keep_provenance = true)
      : analysis_(std::move(analysis)), keep_provenance_(keep_provenance) {}

  // The two children of such an operator have no order: they are kept sorted. Before any is added.
  void set_commutative(uint32_t op);

  // --- Growing. Any id of a class will do wherever a class is wanted.
  // The node with these children, made if there is none.
  ClassId add(uint32_t op, uint32_t attr, std::span<const ClassId> children);
  ClassId add(uint32_t op, uint32_t attr, std::initializer_list<ClassId> children) {
    return add(op, attr, std::span<const ClassId>(children.begin(), children.size()));
  }
  // The node with these children if it is there, else an invalid id.
  ENodeId lookup(uint32_t op, uint32_t attr, std::span<const ClassId> children) const;
  // Were they different until now?
  bool unite(ClassId a, ClassId b);
  // Restores congruence, at a cost that depends on what changed and not on the size of the graph.
  void rebuild();
  // The client knows something new about a class: at the next rebuild() every node that has it as a
  // child is given to `make` again, and these nodes and those of the class count as changed for
  // matching.
  void touch(ClassId c) {
    touched_.push_back(c);
    ++touch_count_;
  }

  // What follows is done by this rule, on these nodes. Without a firing, nodes are given ones.
  void begin_firing(RuleId rule, std::span<const ENodeId> matched);
  void end_firing();

  void set_limits(const EGraphLimits& limits);
  Full full() const { return full_; }

  // --- Reading.
  ClassId find(ClassId id) const { return ClassId(size_t{classes_.find(id.value)}); }
  bool same(ClassId a, ClassId b) const { return find(a) == find(b); }
  // As it is now; the children of a live node are find()-ed after a rebuild.
  ENode node(ENodeId id) const {
    const Row& row = rows_[id.value];
    return {row.op(), row.attr, children(id.value)};
  }
  bool alive(ENodeId id) const { return !(state_[id.value] & kDead); }
  // The live nodes of a class, in an order that depends on history only.
  std::vector<ENodeId> nodes_of(ClassId c) const;
  // Calls see(ENodeId) for each of them; nothing may be added or united meanwhile.
  template <class See>
  void for_nodes_of(ClassId c, const See& see) const {
    uint32_t at = c.value;
    do {
      if (!(state_[at] & kDead)) see(ENodeId(size_t{at}));
      at = next_[at];
    } while (at != c.value);
  }
  // The live nodes with this class as a child, each once, ascending; complete after a rebuild.
  std::vector<ENodeId> parents_of(ClassId c) const;

  size_t ids() const { return rows_.size(); }  // every id is below
  size_t node_count() const { return hash_cons_.size(); }
  size_t class_count() const { return class_count_; }
  size_t union_count() const { return union_count_; }
  // Grows with every node, union and touch: has anything happened?
  size_t change_count() const { return rows_.size() + union_count_ + touch_count_; }
  size_t bytes() const;
  bool clean() const { return dirty_.empty() && touched_.empty() && linked_ == rows_.size(); }
  const Provenance& provenance() const { return provenance_; }
  bool keeps_provenance() const { return keep_provenance_; }

  // --- Snapshots for searching.
  // Rebuilds, takes a new snapshot and returns its time. A tuple (a node's children and class) that
  // is new or different since the last snapshot carries this time in it.
  uint32_t refresh();
  uint32_t time() const { return time_; }
  Tables& tables() { return tables_; }
  const Tables& tables() const { return tables_; }

  // --- For those who apply many rows at once (term.h): the steps of add and unite one by one, with
  // everything canonical, no firing begun, and no analysis.
  bool has_analysis() const { return analysis_.make || analysis_.merge; }
  uint32_t find_root(uint32_t id) { return classes_.find(id); }
  bool is_root(uint32_t id) const { return classes_.is_root(id); }
  // A node with its children inline; with more of them, child[0] is where they begin in spilled_.
  // Children that it does not have are 0, so that contents are compared word by word.
  static constexpr size_t kInline = 3;
  struct Row {
    uint32_t kind, attr, child[kInline];
    uint32_t op() const { return kind & 0xFFFF; }
    uint32_t arity() const { return kind >> 16; }
  };
  static uint32_t hash_of(const Row& row) {
    constexpr uint64_t kFactor = 0x9E3779B97F4A7C15;
    uint64_t h = (row.kind | uint64_t{row.attr} << 32) * kFactor;
    h = ((h ^ h >> 32) + (row.child[0] | uint64_t{row.child[1]} << 32)) * kFactor;
    h = ((h ^ h >> 32) + row.child[2]) * kFactor;
    return static_cast<uint32_t>(h >> 32);
  }
  bool is_commutative(uint32_t kind) const {
    const uint32_t op = kind & 0xFFFF;
    return op < commutative_.size() && kind >> 16 == 2 && commutative_[op];
  }
  void prefetch_slot(uint32_t hash) const { hash_cons_.prefetch(hash); }
  void prefetch_node(uint32_t hash) const {
    const HashCons::Slot slot = hash_cons_.peek(hash);
    if (slot.hash == hash && slot.node != HashCons::kEmpty) __builtin_prefetch(&rows_[slot.node]);
  }
  struct Inserted {
    ENodeId node;  // not valid: a limit was met
    bool made;
  };
  // Into the class `into` if that is valid, else into a class of its own, if it has to be made.
  // At most kInline children.
  Inserted insert(const Row& row, uint32_t hash, ClassId into) {
    const uint32_t slot =
        hash_cons_.probe(hash, [&](uint32_t node) { return same(rows_[node], row); });
    if (const uint32_t found = hash_cons_.node_at(slot); found != HashCons::kEmpty) {
      return {ENodeId(size_t{found}), false};
    }
    if (full_ != Full::no || !within_limits(row.arity())) return {ENodeId(), false};
    return {append(row, slot, hash, into), true};
  }
  // How often two classes became one; while it stays the same, roots stay roots.
  size_t merge_count() const { return merge_count_; }
  bool unite_by(ClassId a, ClassId b, uint32_t cause);
  Provenance& writable_provenance() { return provenance_; }

  // What an operator and its arity are called together.
  static uint32_t kind_of(uint32_t op, size_t arity) {
    EMEND_ASSERT(op < 0x10000 && arity < 0x10000, "operator ", op, " with ", arity, " children");
    return op | static_cast<uint32_t>(arity) << 16;
  }

  // What is wrong inside, in words; empty if all is well. Slow, for tests; needs a clean graph.
  std::vector<std::string> faults() const;

 private:
  enum State : uint8_t {
    kDead = 1,     // a copy of another node of the same class
    kChanged = 2,  // since the last snapshot
    kRenamed = 4   // the provenance has the children with which it was added
  };
  struct Use {
    uint32_t node, next;
  };

  // An id is its number and nothing else, so children are seen as either.
  static_assert(sizeof(ClassId) == sizeof(uint32_t));
  std::span<const ClassId> children(uint32_t id) const {
    const Row& row = rows_[id];
    const size_t arity = row.arity();
    return {
        arity <= kInline ? reinterpret_cast<const ClassId*>(row.child) : &spilled_[row.child[0]],
        arity};
  }
  std::span<ClassId> children(uint32_t id) {
    const auto mine = std::as_const(*this).children(id);
    return {const_cast<ClassId*>(mine.data()), mine.size()};
  }
  void put_in_order(uint32_t kind, std::span<ClassId> children) const;
  static bool same(const Row& a, const Row& b) {
    return ((a.kind ^ b.kind) | (a.attr ^ b.attr) | (a.child[0] ^ b.child[0]) |
            (a.child[1] ^ b.child[1]) | (a.child[2] ^ b.child[2])) == 0;
  }
  bool canonical(const Row& row, std::span<const ClassId> children) const;
  // Without the place of children that do not fit inline: these are given beside it.
  static Row row_of(uint32_t op, uint32_t attr, std::span<const ClassId> children);
  static uint32_t hash_of(const Row& row, std::span<const ClassId> children);
  // The slot of a node like this, or where it belongs.
  uint32_t probe(const Row& row, std::span<const ClassId> children, uint32_t hash) const;
  ENodeId append(const Row& row, uint32_t slot, uint32_t hash, ClassId into);
  bool within_limits(size_t arity);
  FiringId current_firing();
  void repair(uint32_t id);
  void repair_users(uint32_t gone);
  static constexpr size_t kLinkBlock = 32;  // nodes
  void prefetch_links(uint32_t begin, uint32_t end);
  void link_new_nodes();
  void link(uint32_t id);
  void look_again(ClassId root);
  void look_again_at_touched();

  // By id.
  Column<Row> rows_;
  UnionFind classes_;
  Column<uint32_t> next_;  // the nodes of a class in a circle
  Column<uint8_t> state_;
  // Of those that are linked. Of a root: the last of a circle of uses_, or kNone.
  Column<uint32_t> users_;
  Column<uint32_t> seen_class_;  // the class in the last snapshot, kNone: not in it

  Column<ClassId> spilled_;
  Column<ClassId> roots_;  // of the node that is being added
  Column<Use> uses_;
  HashCons hash_cons_;
  Provenance provenance_;
  Tables tables_;

  // What the next rebuild has to do.
  Column<uint32_t> dirty_;  // classes that are gone, whose users were not yet told
  Column<ClassId> touched_;
  uint32_t linked_ = 0;  // nodes from here on are not yet among the users of their children

  // The firing that goes on.
  bool firing_ = false;
  RuleId firing_rule_;
  FiringId firing_id_;  // not valid until it does something
  Column<ENodeId> firing_matched_, firing_found_;

  std::vector<uint8_t> commutative_;  // by operator, or fewer
  Analysis analysis_;
  bool keep_provenance_ = true;
  EGraphLimits limits_;
  Full full_ = Full::no;
  size_t class_count_ = 0, union_count_ = 0, merge_count_ = 0, touch_count_ = 0;
  uint32_t time_ = 0;
};

}  // namespace emend
