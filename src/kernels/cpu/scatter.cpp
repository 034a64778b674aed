// Writes where data says. The operand is copied, then updates are written in their order. Tasks
// share an axis that the data has no say in: no two of them write one element.
#include <algorithm>

#include "base/text.h"
#include "ir/bytes.h"
#include "kernels/cpu/c_code.h"
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/row_printer.h"
#include "kernels/sequential.h"

namespace emend {
namespace {

std::optional<Scatter> scatter_in(const Graph& group) {
  NodeId n = only_node(group);
  return n.valid() ? scatter_of(group, n) : std::nullopt;
}

std::vector<Candidate> candidates(const Wanted& wanted, const Target& target) {
  if (!wanted.layouts.plain() || !scatter_in(wanted.group)) return {};
  double bytes = bytes_of(wanted.group.type(wanted.group.outputs[0].node));
  for (const auto& i : wanted.group.inputs) bytes += bytes_of(wanted.group.type(i.node));
  return {{.kernel = "scatter",
           .config = {},
           .layouts = wanted.layouts,
           .estimate_s = target.launch_s + bytes / target.bandwidth,
           .packing = {}}};
}

class ScatterPrinter {
 public:
  ScatterPrinter(const Graph& group, const Target& target)
      : group_(group), node_(only_node(group)), s_(scatter_of(group, node_).value()) {
    // The longest axis of the operand that is an iterator of the updates.
    for (size_t d = 0; d < s_.place.size(); ++d) {
      bool own = s_.place[d].is_affine();
      if (own && (axis_ < 0 || shape()[d] > shape()[at_axis()])) axis_ = static_cast<int>(d);
    }
    constexpr int64_t kSmall = 1 << 14;  // elements that one thread is enough for
    if (axis_ >= 0) extent_ = shape()[at_axis()];
    if (count(shape()) > kSmall) pieces_ = std::min<int64_t>(extent_, 4 * target.threads);
    chunk_ = (extent_ + pieces_ - 1) / pieces_;
    pieces_ = (extent_ + chunk_ - 1) / chunk_;
  }

  KernelCode print() {
    text_ = str("void ENTRY(void* const* buffers, int64_t first, int64_t last, int32_t* fault) {\n",
                declare_buffers(group_), "for (int64_t task = first; task < last; ++task) {\n",
                "const int64_t lo = task * ", chunk_, ", hi = lo + ", chunk_, " < ", extent_,
                " ? lo + ", chunk_, " : ", extent_, ";\n");
    copy();
    size_t rank = s_.updates.size(), known = 0;
    known = read_indices(known, 0);
    for (size_t i = 0; i < rank; ++i) {
      open_loop(i);
      known = read_indices(known, i + 1);
    }
    write();
    text_ += std::string(rank, '}') + "\n}\n}\n";
    return named_kernel(std::move(text_), pieces_);
  }

 private:
  const Dims& shape() const { return group_.type(node_).shape; }
  size_t at_axis() const { return static_cast<size_t>(axis_); }
  std::string operand(size_t k) const {
    const Node& input = group_.nodes[group_.nodes[node_].args[k]];
    return str("x", input.attrs.get<int64_t>("index"));
  }
  DType dtype(size_t k) const { return group_.type(group_.nodes[node_].args[k]).dtype; }
  static std::string number(const Linear& l) {
    std::string text = str(l.constant);
    for (auto [a, coef] : l.terms) text += str(" + ", coef, " * i", a);
    return text;
  }
  static std::string place(const IndexExpr& e) {
    return e.read < 0 ? number(e.affine) : str(number(e.affine), " + k", e.read);
  }
  static std::string flat(const std::vector<IndexExpr>& index, const Dims& shape) {
    Dims strides = row_major_strides(shape);
    std::string text;
    for (size_t d = 0; d < index.size(); ++d) {
      text += str(d ? " + (" : "(", place(index[d]), ") * ", strides[d]);
    }
    return text.empty() ? "0" : text;
  }

  void copy() {
    int64_t inner = 1, outer = 1;
    for (size_t d = 0; d < shape().size(); ++d) {
      if (static_cast<int>(d) > axis_) inner *= shape()[d];
      if (static_cast<int>(d) < axis_) outer *= shape()[d];
    }
    text_ += str("for (int64_t o = 0; o < ", outer, "; ++o) {\nconst int64_t at = (o * ", extent_,
                 " + lo) * ", inner, ";\nmemcpy(y0 + at, ", operand(0), " + at, (hi - lo) * ",
                 inner, " * sizeof *y0);\n}\n");
  }

  // Updates of this task only; neighbours along an iterator of the place itself are no others.
  void open_loop(size_t i) {
    auto iterator = index_of(static_cast<int>(i));
    bool own = axis_ >= 0 && s_.place[at_axis()] == iterator;
    bool last = i + 1 == s_.updates.size();
    if (last && std::ranges::find(s_.place, iterator) != s_.place.end()) {
      text_ += "#pragma GCC ivdep\n";
    }
    std::string end = str(s_.updates[i]);
    if (own) end = str("(hi < ", end, " ? hi : ", end, ")");
    text_ += str("for (int64_t i", i, " = ", own ? "lo" : "0", "; i", i, " < ", end, "; ++i", i,
                 ") {\n");
  }

  // Indices that depend on the first iterators only. What is out of range is told and left out.
  size_t read_indices(size_t known, size_t iterators) {
    for (; known < s_.reads.size(); ++known) {
      for (const IndexExpr& e : s_.reads[known].index) {
        for (auto [a, coef] : e.affine.terms) {
          if (static_cast<size_t>(a) >= iterators) return known;
        }
      }
      int64_t extent = 0;
      for (size_t d = 0; d < s_.place.size(); ++d) {
        if (s_.place[d].read == static_cast<int>(known)) extent = shape()[d];
      }
      const Dims& indices = group_.type(group_.nodes[node_].args[1]).shape;
      std::string element = str(operand(1), "[", flat(s_.reads[known].index, indices), "]");
      std::string k = str("k", known);
      text_ += str("int64_t ", k, " = ", c_load(dtype(1), DType::i64, element), ";\nif (", k,
                   " < 0) ", k, " += ", extent, ";\nif (", k, " < 0 || ", k, " >= ", extent,
                   ") {\n*fault = 1;\n", iterators ? "continue" : "break", ";\n}\n");
    }
    return known;
  }

  void write() {
    DType stored = dtype(0), one[] = {stored};
    DType work = working_type(one).value();
    std::string update = str(operand(2), "[");
    Dims strides = row_major_strides(s_.updates);
    for (size_t i = 0; i < strides.size(); ++i)
      update += str(i ? " + " : "", strides[i], " * i", i);
    update += strides.empty() ? "0]" : "]";
    text_ += str("const int64_t at = ", flat(s_.place, shape()), ";\n");
    std::string now = c_load(stored, work, "y0[at]"), more = c_load(stored, work, update);
    text_ += str("y0[at] = ",
                 s_.reduce == Reduce::none
                     ? update
                     : c_store(stored, work, c_combined(s_.reduce, work, now, more)),
                 ";\n");
  }

  const Graph& group_;
  NodeId node_;
  Scatter s_;
  int axis_ = -1;  // of the operand: the one that tasks share
  int64_t extent_ = 1, chunk_ = 1, pieces_ = 1;
  std::string text_;
};

KernelCode emit(const Graph& group, const Candidate&, const Target& target) {
  return ScatterPrinter(group, target).print();
}

}  // namespace

Kernel scatter_kernel() {
  return {.name = "scatter", .candidates = candidates, .emit = emit};
}

}  // namespace emend
