// Why the e-graph holds what it holds. A *firing* is one use of a rule: the nodes it matched, the
// nodes that it found in place of making them, and, through maker() and the list of unions, what it
// made and united. What changed nothing is not recorded. Firings and unions are kept in order of
// time; explain.h answers questions from them. Everything is appended and nothing is looked up
// while a graph grows, so that keeping it costs little.
#pragma once

#include <cstdint>
#include <span>

#include "base/error.h"
#include "base/id.h"
#include "egraph/column.h"

namespace emend {

using ENodeId = Id<struct ENodeTag>;
// A class is named by any of its nodes; EGraph::find gives the name that all of them share.
using ClassId = ENodeId;
// A number that the client gives to a rule.
using RuleId = Id<struct RewriteTag>;
using FiringId = Id<struct FiringTag>;

struct Firing {
  RuleId rule;
  std::span<const ENodeId> matched;  // the node of every atom, or what the client gave
  std::span<const ENodeId> found;    // nodes of the right side that were there before
};

// One equality that was added: by a firing, by nobody (a given one), or by congruence.
struct Union {
  static constexpr uint32_t kCongruence = uint32_t{1} << 31;

  ENodeId a, b;
  uint32_t cause;  // a firing's number, kNone, or kCongruence | how many firings there were

  bool by_congruence() const { return cause != FiringId::kNone && (cause & kCongruence); }
  FiringId firing() const { return by_congruence() ? FiringId() : FiringId(size_t{cause}); }
  // Was it there when the firing took place?
  bool before(FiringId firing) const {
    if (cause == FiringId::kNone) return true;
    return by_congruence() ? (cause & ~kCongruence) <= firing.value : cause < firing.value;
  }
};

class Provenance {
 public:
  size_t firings() const { return begins_.size(); }
  Firing firing(FiringId id) const {
    const uint32_t* at = &words_[begins_[id.value]];
    const auto* nodes = reinterpret_cast<const ENodeId*>(at + 1);
    const size_t matched = at[0] >> 16 & 0xFF, found = at[0] >> 24;
    return {RuleId(size_t{at[0] & 0xFFFF}), {nodes, matched}, {nodes + matched, found}};
  }
  // Not valid: the node was given.
  FiringId maker(ENodeId node) const { return makers_[node.value]; }
  std::span<const Union> unions() const { return unions_.span(); }
  // The children with which a node was added, where they were renamed since: node, children ...
  std::span<const ENodeId> renamed() const { return renamed_.span(); }
  size_t bytes() const {
    return words_.bytes() + begins_.bytes() + makers_.bytes() + unions_.bytes() + renamed_.bytes();
  }

  // --- For those who write it: EGraph and term.cpp.
  FiringId record(RuleId rule, std::span<const ENodeId> matched, std::span<const ENodeId> found) {
    EMEND_ASSERT(rule.value < 0xFFFF && matched.size() < 0x100 && found.size() < 0x100,
                 "a firing of rule ", rule.value, " with ", matched.size(), " nodes matched and ",
                 found.size(), " found");
    const FiringId id(begins_.size());
    begins_.push_back(static_cast<uint32_t>(words_.size()));
    uint32_t* at = words_.extend(1 + matched.size() + found.size());
    *at++ = rule.value | static_cast<uint32_t>(matched.size() << 16 | found.size() << 24);
    for (ENodeId n : matched) *at++ = n.value;
    for (ENodeId n : found) *at++ = n.value;
    return id;
  }
  void made(FiringId by) { makers_.push_back(by); }
  void set_maker(ENodeId node, FiringId by) { makers_[node.value] = by; }
  void united(ENodeId a, ENodeId b, FiringId by) { unions_.push_back({a, b, by.value}); }
  void set_cause(size_t which, FiringId by) { unions_[which].cause = by.value; }
  void congruent(ENodeId a, ENodeId b) {
    unions_.push_back({a, b, Union::kCongruence | static_cast<uint32_t>(begins_.size())});
  }
  void renamed(ENodeId node, std::span<const ENodeId> children) {
    renamed_.push_back(node);
    renamed_.append(children);
  }

 private:
  Column<uint32_t> words_;   // rule | matched << 16 | found << 24, then the nodes
  Column<uint32_t> begins_;  // by firing: where in words_
  Column<FiringId> makers_;  // by node
  Column<Union> unions_;
  Column<ENodeId> renamed_;
};

}  // namespace emend
