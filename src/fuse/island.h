// An island: units that nothing outside could be fused with, so that the best groups of the whole
// graph are the best groups of every island (evt.md 2.3, after Nossack and Pesch). Two units are
// *apart* if no group may hold both, whatever else it holds: two nuclei, something computed before
// a contraction, or a path between them that leads over something apart or out of the island.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "fuse/price.h"
#include "fuse/units.h"

namespace emend {

// A set of small numbers.
class Bits {
 public:
  // Those in the set, in order. Refers to the set, from which members may be cleared meanwhile.
  class Members {
   public:
    class Iterator {
     public:
      Iterator(const std::vector<uint64_t>& words, size_t word) : words_(words), word_(word) {
        if (word_ < words_.size()) rest_ = words_[word_];
        skip();
      }
      size_t operator*() const { return word_ * 64 + static_cast<size_t>(__builtin_ctzll(rest_)); }
      Iterator& operator++() {
        rest_ &= rest_ - 1;
        skip();
        return *this;
      }
      bool operator!=(const Iterator& o) const { return word_ != o.word_ || rest_ != o.rest_; }

     private:
      void skip() {
        while (!rest_ && word_ < words_.size()) {
          if (++word_ < words_.size()) rest_ = words_[word_];
        }
      }
      const std::vector<uint64_t>& words_;
      size_t word_;
      uint64_t rest_ = 0;
    };
    explicit Members(const std::vector<uint64_t>& words) : words_(words) {}
    Iterator begin() const { return {words_, 0}; }
    Iterator end() const { return {words_, words_.size()}; }
    size_t front() const { return *begin(); }
    size_t size() const {
      size_t n = 0;
      for (uint64_t w : words_) n += static_cast<size_t>(__builtin_popcountll(w));
      return n;
    }

   private:
    const std::vector<uint64_t>& words_;
  };

  Bits() = default;
  explicit Bits(size_t n) : words_((n + 63) / 64, 0) {}
  void set(size_t i) { words_[i / 64] |= uint64_t{1} << (i % 64); }
  void clear(size_t i) { words_[i / 64] &= ~(uint64_t{1} << (i % 64)); }
  bool has(size_t i) const { return (words_[i / 64] >> (i % 64) & 1) != 0; }
  bool any() const;
  bool meets(const Bits& o) const;
  bool holds(const Bits& o) const;  // all of o
  Bits& operator|=(const Bits& o);
  Bits& operator-=(const Bits& o);
  Bits& operator&=(const Bits& o);
  Members members() const { return Members(words_); }
  auto operator<=>(const Bits&) const = default;
  bool operator==(const Bits&) const = default;

 private:
  std::vector<uint64_t> words_;
};

struct Island {
  std::vector<NodeId> units;         // in topological order; below, numbers are places in it
  std::vector<Bits> later, earlier;  // over any path of the graph
  std::vector<Bits> apart;           // symmetric
  Bits dissolvable;                  // cheap, and each reader could take it: readers are here too
  size_t size() const { return units.size(); }
  std::vector<NodeId> nodes(const Bits& members) const;
  size_t place(NodeId n) const;
  Bits all() const;
  bool may_join(const Bits& members) const;  // none of them apart
};

// Which nodes depend on which, and which can never join: computed once per graph.
class Reach {
 public:
  explicit Reach(const Units& units);
  std::vector<Island> islands() const;
  Island island(std::vector<NodeId> units) const;
  // What an island falls into if nothing more is dissolved into several of the pieces.
  std::vector<Island> pieces(const Island& island) const;
  // Some of its units: those that others read as well are not dissolved.
  Island piece(std::vector<NodeId> units) const;

 private:
  bool keeps_apart(NodeId first, NodeId later) const;
  bool is_dissolvable(NodeId n) const;
  std::vector<std::vector<NodeId>> components(const std::vector<NodeId>& units,
                                              bool over_dissolvable) const;
  const Units& units_;
  IdVec<NodeId, Bits> later_;  // nodes that depend on a node
  IdVec<NodeId, Bits> apart_;  // later ones that cannot join it
};

// A way to compute an island.
struct IslandSolution {
  std::vector<Bits> groups;  // of units that are not dissolved
  Bits dissolved;
  double seconds = 0;
};

// Steps that pay, the best one first, until none is left.
IslandSolution greedy(const Island& island, Units& units, GroupPrices& prices);

// The least price of all groups that are connected (by values, or as siblings): every choice of
// dissolved nodes, and for each the shortest way from nothing to everything computed, a group at a
// time. Nothing if there are more than `budget` groups and sets of finished units to look at.
std::optional<IslandSolution> exact(const Island& island, Units& units, GroupPrices& prices,
                                    size_t budget);

}  // namespace emend
