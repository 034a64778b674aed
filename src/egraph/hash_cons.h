// From the content of a node to the node: open addressing over {hash, node}, at most 60 % full, no
// allocation per node. The table knows hashes only; who asks compares contents. A slot's place is
// given by the leading bits of its hash, so that doubling sweeps through old and new table in the
// same order instead of jumping about, and needs no look at the nodes.
#pragma once

#include <cstdint>

#include "egraph/column.h"

namespace emend {

class HashCons {
 public:
  static constexpr uint32_t kEmpty = UINT32_MAX;
  struct Slot {
    uint32_t hash, node;
  };

  HashCons() { slots_.resize(size_t{1} << bits_, Slot{0, kEmpty}); }

  size_t size() const { return count_; }
  size_t bytes() const { return slots_.bytes(); }
  std::span<const Slot> slots() const { return slots_.span(); }

  // The slot that holds a node of this hash for which same(node), or the empty one where it
  // belongs.
  template <class Same>
  uint32_t probe(uint32_t hash, const Same& same) const {
    const uint32_t mask = static_cast<uint32_t>(slots_.size()) - 1;
    uint32_t at = hash >> (32 - bits_);
    while (slots_[at].node != kEmpty && !(slots_[at].hash == hash && same(slots_[at].node))) {
      at = (at + 1) & mask;
    }
    return at;
  }
  uint32_t node_at(uint32_t slot) const { return slots_[slot].node; }
  // Fills an empty slot that probe gave. Slots move when the table grows: probe again afterwards.
  void fill(uint32_t slot, uint32_t hash, uint32_t node) {
    slots_[slot] = {hash, node};
    if (++count_ * 5 > slots_.size() * 3) grow();
  }
  // Slots that followed move up, so that no probe ever meets a gap that was not there before.
  void erase(uint32_t slot) {
    const uint32_t mask = static_cast<uint32_t>(slots_.size()) - 1;
    uint32_t gap = slot;
    for (uint32_t at = (gap + 1) & mask; slots_[at].node != kEmpty; at = (at + 1) & mask) {
      const uint32_t home = slots_[at].hash >> (32 - bits_);
      if (((at - home) & mask) < ((at - gap) & mask)) continue;
      slots_[gap] = slots_[at];
      gap = at;
    }
    slots_[gap].node = kEmpty;
    --count_;
  }
  // Asks for the cache line on which a probe for this hash begins.
  void prefetch(uint32_t hash) const { __builtin_prefetch(&slots_[hash >> (32 - bits_)]); }
  // What stands at the first slot of a probe; a hint for further prefetching.
  Slot peek(uint32_t hash) const { return slots_[hash >> (32 - bits_)]; }
  // The bytes that the next insertion may add.
  size_t growth() const { return (count_ + 1) * 5 > slots_.size() * 3 ? slots_.bytes() * 2 : 0; }

 private:
  void grow() {
    Column<Slot> old;
    old.swap(slots_);
    ++bits_;
    slots_.resize(size_t{1} << bits_, Slot{0, kEmpty});
    const auto size = static_cast<uint32_t>(old.size());
    uint32_t first = 0;
    while (old[first].node != kEmpty) ++first;
    for (uint32_t i = 1; i < size; ++i) {
      const Slot s = old[(first + i) & (size - 1)];
      if (s.node != kEmpty) slots_[probe(s.hash, [](uint32_t) { return false; })] = s;
    }
  }

  Column<Slot> slots_;
  size_t count_ = 0;
  uint32_t bits_ = 6;
};

}  // namespace emend
