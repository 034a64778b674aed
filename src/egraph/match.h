// Searching by joins. A query is a set of atoms, each a node that must exist, which share *slots*:
// classes still to be found. A pattern is a query with an atom per operator in it; a rule with
// several outputs is a query with several roots.
//
//   (add ?a (mul ?b ?a))    slots r a m b: atoms {add, r <- a m}, {mul, m <- b a}
//
// An atom is found through an index on whatever is known of it by then, so work is proportional to
// the partial matches and never to a product where a slot is shared. search() is semi-naive: it
// finds each row in which at least one tuple came to be at `since` or later exactly once, by one
// join per atom, in which this atom is new, those before it are old and those behind it are any.
//
// The order of rows depends on the e-graph's history only, not on the number of threads.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "egraph/egraph.h"

namespace emend {

struct QueryAtom {
  uint32_t op = 0;
  uint32_t result = 0;             // a slot
  std::vector<uint32_t> children;  // slots
  std::optional<uint32_t> attr;    // none: any that the filter takes
  std::function<bool(uint32_t)> attr_filter;
};

// Every slot occurs in some atom. Filters must be safe to call from several threads.
struct Query {
  uint32_t slots = 0;
  std::vector<QueryAtom> atoms;
  std::vector<std::function<bool(ClassId)>> slot_filters;  // by slot, or fewer; may be empty ones
};

// Matches: for each a row of the class of every slot and then the node of every atom. Classes are
// named as in the snapshot: find() them where rules were applied since.
class Rows {
 public:
  Rows() = default;
  Rows(uint32_t slots, uint32_t atoms) : slots_(slots), width_(slots + atoms) {}

  size_t size() const { return width_ ? words_.size() / width_ : 0; }
  bool empty() const { return words_.empty(); }
  uint32_t width() const { return width_; }
  uint32_t atoms() const { return width_ - slots_; }
  std::span<const ClassId> classes(size_t i) const { return {at(i), slots_}; }
  std::span<const ENodeId> nodes(size_t i) const { return {at(i) + slots_, width_ - slots_}; }
  std::span<const ClassId> all() const { return words_.span(); }
  bool operator==(const Rows& other) const {
    return slots_ == other.slots_ && std::ranges::equal(all(), other.all());
  }

  Column<ClassId>& words() { return words_; }
  // Empties it, and keeps the memory.
  void reset(uint32_t slots, uint32_t atoms) {
    slots_ = slots;
    width_ = slots + atoms;
    words_.clear();
  }

 private:
  const ClassId* at(size_t i) const { return words_.data() + i * width_; }
  uint32_t slots_ = 0, width_ = 0;
  Column<ClassId> words_;
};

// How a query is searched: for each atom, the order of the others when it is the new one, and the
// index for each.
class QueryPlan {
 public:
  explicit QueryPlan(Query query);
  const Query& query() const { return query_; }

  struct Bind {
    uint32_t column, slot;
  };
  struct Step {
    uint32_t atom = 0;
    bool only_old = false;
    std::vector<uint32_t> columns;    // what is known of it, in the order of the index
    std::vector<uint32_t> key_slots;  // and where from
    std::vector<Bind> binds;          // slots that become known
    std::vector<Bind> checks;         // a slot that occurs again within this atom
    struct Probe {
      uint32_t later, slot;
    };
    std::vector<Probe> probes;  // later steps that are looked up by a slot that is bound here
    bool picky = false;         // rows may be refused
  };
  const std::vector<std::vector<Step>>& variants() const { return variants_; }

 private:
  Query query_;
  std::vector<std::vector<Step>> variants_;  // by the atom that is new, which comes first
};

// Since a time of refresh(); 0: everything. Sees the last snapshot. Gives up beyond `most` rows, or
// where finding them takes far too long, and says so by returning false; the rows are then void.
bool search(EGraph& g, const QueryPlan& plan, uint32_t since, Rows& rows, size_t most = SIZE_MAX);
Rows search(EGraph& g, const Query& query, uint32_t since = 0);

}  // namespace emend
