// Prints what a nest computes and stores for one row of its space: the lanes, which the C compiler
// vectorises. A value is computed in the outermost loop that knows all its iterators; a reduction
// that does not depend on the lanes is a loop of its own before them, one that does (a window, a
// plain contraction) is a row of accumulators. Values that two loops over the row need and that are
// dear are kept in a row of their own (the exponentials of a softmax). Leaf reductions are added up
// while the lanes run; the iterators that they run over are loops here, around the lanes.
#pragma once

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "kernels/nest.h"

namespace emend {

class RowPrinter {
 public:
  // The lanes are an iterator of the space, or -1: none, the row is one point. At most `longest`
  // of them are done in one go.
  RowPrinter(const Nest& nest, const Graph& group, int lane, int64_t longest);

  // A reduction that others compute: `element` is its value at the lanes' iterator.
  void give(int value, std::string element) { given_[value] = std::move(element); }
  // The lanes from `lo` on are always this many: the compiler must neither count them nor, few as
  // they are, unroll them before it can see that they fill vectors.
  void fix_lanes(int64_t count) { fixed_ = count; }
  // Statements that assume: iterators of the space other than the lanes and those that leaf
  // reductions run over are variables, the lanes go from `lo` to `hi`, buffers are declared.
  std::string print();

 private:
  struct Loop {
    std::vector<int> open;             // iterators that it knows, besides those of outer loops
    std::map<int, std::string> names;  // values computed here
    std::map<int, std::string> rows;   // values that have rows here: the element at the lane
    std::string text;
  };
  const NestValue& value(int v) const { return nest_.values[static_cast<size_t>(v)]; }
  bool depends(int v, int atom) const {
    return free_[static_cast<size_t>(v)][static_cast<size_t>(atom)];
  }
  bool stands_alone(int v) const;
  bool in_lane_loop() const;
  bool is_leaf(int v) const { return std::ranges::find(leaves_, v) != leaves_.end(); }
  bool is_inner(int atom) const { return std::ranges::find(inner_, atom) != inner_.end(); }
  size_t home(int v) const;
  const std::string* row_of(int v) const;
  bool is_of_other_points(int v, const std::vector<int>& iterators) const;
  int unit_strides(int v, int iterator) const;
  std::string lane_head() const;
  std::string loop_head(int iterator) const;
  std::string leaf_name(int v) const;

  void find_kept();
  void note_users(int v, int loop, std::map<int, std::set<int>>& users) const;
  void open_loop(std::vector<int> iterators) {
    loops_.push_back({std::move(iterators), {}, {}, ""});
  }
  void close_loop(const std::string& head);
  std::string close_scope();

  void hoist(int v, const std::vector<int>& iterators);
  std::string use(int v);
  std::string compute(int v);
  std::string index(const Linear& e);
  bool named_by_data(const Bound& b) const;
  std::string load(int v);
  std::string clipped(const NestValue& reduction);
  bool loads_below(int v, std::set<int>& loads) const;
  std::optional<std::string> all_terms_inside(const NestValue& reduction);
  std::string terms_in_registers(int v, const std::string& at);
  std::string terms_in_memory(int v, const std::string& at);
  bool is_short(int v) const;
  bool is_narrow(int v) const;
  bool fits(int v) const;
  std::string converted(int from, int to);
  std::string body(int v, const std::string& name);
  std::string exp_of_distance(const NestValue& u, const std::string& name);
  Scalar with_whole_comparisons(NestValue u, std::vector<std::string>& args);
  void reduce(int v, const std::string& name);
  void declare_kept();
  void prepare_rows(bool before_inner);
  void prepare_row(int v);
  void declare_leaves();
  void run_lanes();
  void store_leaves();
  void store(const NestStore& s);

  const Nest& nest_;
  const Graph& group_;
  int lane_;
  int64_t longest_;
  int64_t fixed_ = 0;                    // 0: from lo to hi
  std::vector<std::vector<bool>> free_;  // atoms that each value depends on
  std::vector<int> inner_, leaves_;      // what leaf reductions run over, and they themselves
  std::set<int> kept_;                   // values worth a row
  bool keeps_ = false;                   // in a loop over the whole row that fills them
  std::vector<int> newly_kept_;
  std::map<int, std::string> given_;  // rows that others compute
  std::set<int> inside_;              // loads that are known to be within their bounds
  std::vector<Loop> loops_;
};

inline std::string iterator_name(int atom) {
  return "i" + std::to_string(atom);
}
// Lanes between lo and hi at which all bounds hold, as variables in0 and in1 (in0 <= in1). Nothing
// if that is no interval of lanes.
std::optional<std::string> declare_inside(const Nest& nest, const std::vector<Bound>& bounds,
                                          int lane);
// Pointers x0.. and y0.. to the group's loads and stores.
std::string declare_buffers(const Graph& group);
// Iterators as digits of one number, the last one fastest.
std::string declare_digits(const Nest& nest, const std::vector<int>& iterators,
                           const std::string& number);
// Statements for every run of neighbours along the last of these iterators, for numbers from `from`
// to `to`: inside, the other iterators are known, the last goes from lo to hi; `at` is the number
// at lo.
std::string print_runs(const Nest& nest, const std::vector<int>& iterators, const std::string& from,
                       const std::string& to, const std::string& body);

}  // namespace emend
