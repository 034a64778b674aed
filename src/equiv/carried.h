// Which extents of its inputs a program carries through unchanged: what it equals does not depend
// on them (natural_form.h).
#pragma once

#include <set>
#include <vector>

#include "equiv/bare_meaning.h"

namespace emend {

struct BareProgram {
  const Graph* graph;
  std::vector<BareMeaning> nodes;  // leaves have none
  // Per node, per iterator of its output: its symbol if it reads nothing, or -1.
  std::vector<std::vector<int>> own;
};

// Extents that may be free, by what they bound: a dimension of an input, or an iterator of a node
// that reads nothing (as a broadcast has). Those that must be one are united.
class ExtentSymbols {
 public:
  int add(int64_t extent, bool of_input);
  int find(int s) const;
  int64_t extent(int s) const { return extents_[static_cast<size_t>(s)]; }
  size_t size() const { return extents_.size(); }
  bool bad(int s) const { return bad_[static_cast<size_t>(s)]; }

  int unite(int s, int t);
  void refuse(int s) { refused_.insert(find(s)); }
  // What was refused is no symbol any more, nor is what no input has. False if that changes
  // nothing; otherwise all unions are undone.
  bool settle();

 private:
  bool is_refused(int root) const;

  Dims extents_;
  std::vector<bool> of_input_, bad_;
  std::vector<int> above_;
  std::set<int> refused_;
};

// Its extents that may be free become symbols. Fails where an operator has no meaning in index
// notation.
Result<BareProgram> bare_program(const Graph& g, ExtentSymbols& symbols);

// How values depend on symbols: a symbol bounds one dimension (every slice is computed from the
// slices of what carries it), or was summed over (a sum of something computed slice by slice), or
// the value does not depend on what carries it.
struct Carried {
  std::vector<int> dims;  // a symbol or -1
  std::vector<int> summed;
};

// Per dimension of each; -1 if it has one place.
using InputSymbols = std::vector<std::vector<int>>;

// What becomes of the symbols in a program. Those that are not carried as they should be are
// refused on the way.
class Carrier {
 public:
  Carrier(ExtentSymbols& symbols, const BareProgram& program, const InputSymbols& inputs);

  const Carried& output() const { return all_[program_.graph->outputs[0].node.value]; }
  // Per iterator of a node: its symbol, or -1.
  const std::vector<int>& marks(NodeId id) const { return marks_[id.value]; }

 private:
  int live(int s) const { return s < 0 || symbols_.bad(s) ? -1 : symbols_.find(s); }
  bool one(int s, int t) const { return s >= 0 && t >= 0 && symbols_.find(s) == symbols_.find(t); }
  const Carried& read_by(NodeId id, const Read& r) const;
  void once_each(const std::vector<int>& list);
  std::vector<int> marks_of(NodeId id);
  void refuse_scattered(NodeId id);
  void carry(NodeId id);
  void carry_sums(NodeId id);

  ExtentSymbols& symbols_;
  const BareProgram& program_;
  std::vector<Carried> all_;             // per node
  std::vector<std::vector<int>> marks_;  // per node and iterator
};

}  // namespace emend
