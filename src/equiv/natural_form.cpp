#include "equiv/natural_form.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <set>

#include "base/hash.h"
#include "ops/families.h"
#include "ops/table.h"

namespace emend {
namespace {

// A node's meaning without iterators of extent 1, which are zero.
struct Nest {
  Dims extents;                        // all at least 2, of outputs first
  size_t outputs = 0;                  // how many of these run over the output
  std::vector<std::vector<int>> dims;  // per dimension of the output: its iterators
  Meaning means;                       // over these iterators
  std::vector<bool> computed_with;     // iterators whose value a scalar body uses
  bool linear = false;                 // in all that it reads
  std::vector<int> own;                // per output iterator: its symbol if it reads nothing, or -1
};

struct Member {
  const Graph* graph;
  std::vector<Nest> nests;  // per node; leaves have none
};

struct NoForm {
  std::string reason;
};

void renumber(Linear& e, const std::vector<int>& to) {
  std::vector<std::pair<int, int64_t>> kept;
  for (auto [k, coef] : e.terms)
    if (to[static_cast<size_t>(k)] >= 0) kept.emplace_back(to[static_cast<size_t>(k)], coef);
  e.terms = std::move(kept);
}

// A sum of reads: which ones, positions may decide.
bool is_linear(const Scalar& body) {
  enum class Is : uint8_t { number, linear, other };  // a number knows positions, but no reads
  std::vector<Is> all;
  for (const Instr& i : body.code) {
    auto is = [&](int32_t k, Is what) { return all[static_cast<size_t>(k)] == what; };
    Is now = Is::other;
    switch (i.fn) {
      case Fn::arg:
        now = Is::linear;
        break;
      case Fn::constant:
      case Fn::iter:
        now = Is::number;
        break;
      case Fn::neg:
        now = all[static_cast<size_t>(i.a)];
        break;
      case Fn::add:
      case Fn::sub:
        if (all[static_cast<size_t>(i.a)] == all[static_cast<size_t>(i.b)])
          now = all[static_cast<size_t>(i.a)];
        break;
      case Fn::lt:
      case Fn::le:
        if (is(i.a, Is::number) && is(i.b, Is::number)) now = Is::number;
        break;
      case Fn::select:
        if (is(i.a, Is::number) && is(i.b, Is::linear) && is(i.c, Is::linear)) now = Is::linear;
        break;
      default:
        break;
    }
    all.push_back(now);
  }
  return !all.empty() && all.back() == Is::linear;
}

Nest nest_of(const Graph& g, NodeId id) {
  const Node& node = g.nodes[id];
  const OpDef& def = op_def(node);
  if (def.body.empty() && !def.means) throw NoForm{str(def.name, " has no meaning by itself")};
  std::vector<Type> types;
  for (NodeId a : node.args) types.push_back(g.type(a));
  Nest n;
  n.means = meaning_of(def, node.attrs, types);
  Meaning& m = n.means;
  std::vector<int> to;
  Dims out, reduced;
  for (size_t k = 0; k < m.out.size() + m.reduced.size(); ++k) {
    int64_t extent = k < m.out.size() ? m.out[k] : m.reduced[k - m.out.size()];
    if (extent == 0) throw NoForm{"a tensor without elements"};
    to.push_back(extent == 1 ? -1 : static_cast<int>(out.size() + reduced.size()));
    if (extent > 1) (k < m.out.size() ? out : reduced).push_back(extent);
  }
  m.out = out;
  m.reduced = reduced;
  n.outputs = out.size();
  n.extents = m.extents();
  for (Read& r : m.reads) {
    for (IndexExpr& e : r.index) {
      renumber(e.affine, to);
      for (Digit& d : e.digits) renumber(d.of, to);
    }
  }
  n.computed_with.assign(n.extents.size(), false);
  for (Scalar* s : {&m.body, &m.finish}) {
    for (Instr& i : s->code) {
      if (i.fn != Fn::iter) continue;
      i.a = to[static_cast<size_t>(i.a)];
      if (i.a >= 0) n.computed_with[static_cast<size_t>(i.a)] = true;
    }
  }
  int k = 0;
  for (int64_t extent : g.type(id).shape) {
    auto& mine = n.dims.emplace_back();
    for (int64_t size = 1; size < extent; ++k) {
      EMEND_ASSERT(static_cast<size_t>(k) < n.outputs, def.name, " has fewer positions than means");
      size *= n.extents[static_cast<size_t>(k)];
      mine.push_back(k);
    }
  }
  n.linear = (m.reduce == Reduce::none || m.reduce == Reduce::sum) && is_linear(m.body) &&
             m.finish == arg(0) && std::all_of(m.reads.begin(), m.reads.end(), [](const Read& r) {
               return r.outside.value_or(0) == 0;
             });
  return n;
}

// Extents that may be free, by what they bound: a dimension of an input, or an iterator of a node
// that reads nothing (as a broadcast has). Those that must be one are united.
class Symbols {
 public:
  int add(int64_t extent, bool of_input) {
    extents_.push_back(extent);
    of_input_.push_back(of_input);
    bad_.push_back(false);
    above_.push_back(-1);
    return static_cast<int>(extents_.size()) - 1;
  }
  int find(int s) const {
    while (above_[static_cast<size_t>(s)] >= 0) s = above_[static_cast<size_t>(s)];
    return s;
  }
  int64_t extent(int s) const { return extents_[static_cast<size_t>(s)]; }
  size_t size() const { return extents_.size(); }
  bool bad(int s) const { return bad_[static_cast<size_t>(s)]; }

  int unite(int s, int t) {
    s = find(s);
    t = find(t);
    if (s == t) return s;
    if (extent(s) != extent(t)) {
      refuse(s);
      refuse(t);
      return s;
    }
    above_[static_cast<size_t>(std::max(s, t))] = std::min(s, t);
    return std::min(s, t);
  }
  void refuse(int s) { refused_.insert(find(s)); }

  // What was refused is no symbol any more, nor is what no input has. False if that changes
  // nothing; otherwise all unions are undone.
  bool settle() {
    std::vector<bool> has_input(size(), false);
    for (size_t s = 0; s < size(); ++s)
      if (of_input_[s]) has_input[static_cast<size_t>(find(static_cast<int>(s)))] = true;
    bool changed = false;
    std::vector<bool> now = bad_;
    for (size_t s = 0; s < size(); ++s) {
      int root = find(static_cast<int>(s));
      now[s] = bad_[s] || !has_input[static_cast<size_t>(root)] || is_refused(root);
      changed |= now[s] != bad_[s];
    }
    if (!changed) return false;
    bad_ = std::move(now);
    refused_.clear();
    std::fill(above_.begin(), above_.end(), -1);
    return true;
  }

 private:
  bool is_refused(int root) const {
    return std::any_of(refused_.begin(), refused_.end(), [&](int s) { return find(s) == root; });
  }
  Dims extents_;
  std::vector<bool> of_input_, bad_;
  std::vector<int> above_;
  std::set<int> refused_;
};

// How values depend on symbols: a symbol bounds one dimension (every slice is computed from the
// slices of what carries it), or was summed over (a sum of something computed slice by slice), or
// the value does not depend on what carries it.
struct Carried {
  std::vector<int> dims;  // a symbol or -1
  std::vector<int> summed;
};

// The iterator that is the whole index, or -1.
int alone(const IndexExpr& e) {
  if (!e.is_affine() || e.affine.constant != 0 || e.affine.terms.size() != 1) return -1;
  return e.affine.terms[0].second == 1 ? e.affine.terms[0].first : -1;
}

template <class Do>
void each_iterator(const IndexExpr& e, Do&& act) {
  for (auto [k, coef] : e.affine.terms) act(k);
  for (const Digit& d : e.digits)
    for (auto [k, coef] : d.of.terms) act(k);
}

using InputSymbols =
    std::vector<std::vector<int>>;  // per dimension of each, -1 if it has one place

// What becomes of the symbols in a program. Those that are not carried as they should be are
// refused on the way.
class Carrier {
 public:
  Carrier(Symbols& symbols, const Member& member, const InputSymbols& inputs)
      : symbols_(symbols), member_(member) {
    const Graph& g = *member.graph;
    all_.resize(g.size());
    marks_.resize(g.size());
    for (size_t i = 0; i < g.size(); ++i) {
      NodeId id(i);
      const Node& node = g.nodes[id];
      all_[i].dims.assign(g.type(id).shape.size(), -1);
      if (node.op == kInputOp) {
        const auto& mine = inputs[static_cast<size_t>(node.attrs.get<int64_t>("index"))];
        for (size_t d = 0; d < mine.size(); ++d) all_[i].dims[d] = live(mine[d]);
      } else if (!g.is_constant(id)) {
        through(id);
      }
    }
    // Only now all that are one are known to be.
    for (size_t i = 0; i < g.size(); ++i) {
      once_each(all_[i].dims);
      once_each(marks_[i]);
    }
  }

  const Carried& output() const { return all_[member_.graph->outputs[0].node.value]; }
  const std::vector<int>& marks(NodeId id) const { return marks_[id.value]; }

 private:
  int live(int s) const { return s < 0 || symbols_.bad(s) ? -1 : symbols_.find(s); }
  bool one(int s, int t) const { return s >= 0 && t >= 0 && symbols_.find(s) == symbols_.find(t); }

  void once_each(const std::vector<int>& list) {
    for (size_t d = 0; d < list.size(); ++d)
      for (size_t e = 0; e < d; ++e)
        if (one(list[d], list[e])) symbols_.refuse(list[d]);
  }

  void through(NodeId id) {
    const Nest& n = member_.nests[id.value];
    const Node& node = member_.graph->nodes[id];
    auto operand = [&](const Read& r) -> const Carried& {
      return all_[node.args[static_cast<size_t>(r.operand)].value];
    };
    std::vector<int>& mark = marks_[id.value] = marks_of(n, operand);
    // A symbol's iterator stands where the symbol is, and nowhere else.
    for (const Read& r : n.means.reads) {
      for (size_t d = 0; d < r.index.size(); ++d) {
        int symbol = operand(r).dims[d], at = alone(r.index[d]);
        bool whole =
            symbol >= 0 && at >= 0 && n.extents[static_cast<size_t>(at)] == symbols_.extent(symbol);
        if (symbol >= 0 && !whole) symbols_.refuse(symbol);
        each_iterator(r.index[d], [&](int k) {
          if (mark[static_cast<size_t>(k)] >= 0 && !whole)
            symbols_.refuse(mark[static_cast<size_t>(k)]);
        });
      }
    }
    Carried& out = all_[id.value];
    for (size_t k = 0; k < mark.size(); ++k) {
      if (mark[k] < 0) continue;
      if (n.computed_with[k]) symbols_.refuse(mark[k]);
      if (k >= n.outputs) {
        if (n.means.reduce != Reduce::sum || n.means.finish != arg(0)) symbols_.refuse(mark[k]);
        out.summed.push_back(mark[k]);
        continue;
      }
      auto own = std::find(n.dims.begin(), n.dims.end(), std::vector<int>{static_cast<int>(k)});
      if (own == n.dims.end()) {
        symbols_.refuse(mark[k]);
      } else {
        out.dims[static_cast<size_t>(own - n.dims.begin())] = mark[k];
      }
    }
    // Of sums of slices there may only be sums.
    for (const Read& r : n.means.reads) {
      for (int s : operand(r).summed) {
        bool carried = std::any_of(mark.begin(), mark.end(), [&](int m) { return one(m, s); });
        bool sums = std::all_of(n.means.reads.begin(), n.means.reads.end(), [&](const Read& q) {
          return std::any_of(operand(q).summed.begin(), operand(q).summed.end(),
                             [&](int t) { return one(s, t); });
        });
        if (!n.linear || !sums || carried) symbols_.refuse(s);
        out.summed.push_back(s);
      }
    }
  }

  // Per iterator: the symbol of the dimensions that it reads by itself, or one of its own where it
  // reads nothing.
  template <class OperandOf>
  std::vector<int> marks_of(const Nest& n, const OperandOf& operand) {
    std::vector<int> mark(n.extents.size(), -1);
    for (const Read& r : n.means.reads) {
      for (size_t d = 0; d < r.index.size(); ++d) {
        int k = alone(r.index[d]), symbol = operand(r).dims[d];
        if (k < 0 || symbol < 0) continue;
        int& m = mark[static_cast<size_t>(k)];
        m = m < 0 ? symbol : symbols_.unite(m, symbol);
      }
    }
    for (size_t k = 0; k < n.outputs; ++k)
      if (n.own[k] >= 0) mark[k] = live(n.own[k]);
    return mark;
  }

  Symbols& symbols_;
  const Member& member_;
  std::vector<Carried> all_;             // per node
  std::vector<std::vector<int>> marks_;  // per node and iterator
};

// --- The form ---

class Writer {
 public:
  void add(int64_t v) {
    a_ = hash_mix(a_, static_cast<uint64_t>(v));
    b_ = hash_mix(b_ ^ 0x5851F42D4C957F2D, static_cast<uint64_t>(v) * 0x14057B7EF767814F);
  }
  void add(double v) {
    int64_t bits;
    std::memcpy(&bits, &v, sizeof bits);
    add(bits);
  }
  void add(const Linear& e) {
    add(e.constant);
    add(static_cast<int64_t>(e.terms.size()));
    for (auto [k, coef] : e.terms) {
      add(int64_t{k});
      add(coef);
    }
  }
  void add(const IndexExpr& e) {
    add(e.affine);
    add(static_cast<int64_t>(e.digits.size()));
    for (const Digit& d : e.digits) {
      add(d.coef);
      add(d.of);
      add(d.div);
      add(d.mod);
    }
    add(int64_t{e.read});
    add(e.wrap);
  }
  void add(const Scalar& s) {
    add(static_cast<int64_t>(s.code.size()));
    for (const Instr& i : s.code) {
      for (int64_t v : {static_cast<int64_t>(i.fn), int64_t{i.a}, int64_t{i.b}, int64_t{i.c}})
        add(v);
      add(i.value);
    }
  }
  NaturalForm::Key key() const { return {a_, b_}; }

 private:
  uint64_t a_ = 1, b_ = 2;
};

class FormWriter {
 public:
  // `number`: which free extent a symbol is, by what stands for it.
  FormWriter(const Symbols& symbols, const std::vector<int>& number)
      : symbols_(symbols), number_(number) {}

  void add(const Member& member, const Carrier& carrier, const InputSymbols& inputs) {
    const Graph& g = *member.graph;
    out.add(static_cast<int64_t>(g.size()));
    for (size_t i = 0; i < g.size(); ++i) {
      NodeId id(i);
      const Node& node = g.nodes[id];
      const Dims& shape = g.type(id).shape;
      out.add(static_cast<int64_t>(g.type(id).dtype));
      out.add(static_cast<int64_t>(shape.size()));
      if (node.op == kInputOp) {
        auto which = static_cast<size_t>(node.attrs.get<int64_t>("index"));
        out.add(static_cast<int64_t>(which));
        for (size_t d = 0; d < shape.size(); ++d) extent(shape[d], inputs[which][d]);
      } else if (g.is_constant(id)) {
        out.add(static_cast<int64_t>(hash(g.constant(id))));
      } else {
        out.add(static_cast<int64_t>(node.args.size()));
        for (NodeId a : node.args) out.add(static_cast<int64_t>(a.value));
        nest(member.nests[i], carrier.marks(id));
      }
    }
    out.add(static_cast<int64_t>(g.outputs[0].node.value));
  }

  Writer out;

 private:
  void extent(int64_t n, int symbol) {
    int free = symbol < 0 ? -1 : number_[static_cast<size_t>(symbols_.find(symbol))];
    out.add(int64_t{free});
    if (free < 0) out.add(n);
  }
  void nest(const Nest& n, const std::vector<int>& marks) {
    out.add(static_cast<int64_t>(n.extents.size()));
    out.add(static_cast<int64_t>(n.outputs));
    for (size_t k = 0; k < n.extents.size(); ++k) extent(n.extents[k], marks[k]);
    for (const auto& d : n.dims) out.add(static_cast<int64_t>(d.size()));
    out.add(static_cast<int64_t>(n.means.reduce));
    out.add(static_cast<int64_t>(n.means.reads.size()));
    for (const Read& r : n.means.reads) {
      out.add(int64_t{r.operand});
      out.add(int64_t{r.outside.has_value()});
      out.add(r.outside.value_or(0));
      out.add(static_cast<int64_t>(r.index.size()));
      for (const IndexExpr& e : r.index) out.add(e);
    }
    out.add(n.means.body);
    out.add(n.means.finish);
  }
  const Symbols& symbols_;
  const std::vector<int>& number_;
};

Member member_of(const Graph& g, Symbols& symbols) {
  Member m{&g, std::vector<Nest>(g.size())};
  for (size_t i = 0; i < g.size(); ++i) {
    NodeId id(i);
    if (!g.type(id).is_tensor()) throw NoForm{"a value that is no tensor"};
    if (g.nodes[id].op == kInputOp || g.is_constant(id)) continue;
    Nest& n = m.nests[i] = nest_of(g, id);
    std::vector<bool> used = n.computed_with;
    for (const Read& r : n.means.reads)
      for (const IndexExpr& e : r.index)
        each_iterator(e, [&](int k) { used[static_cast<size_t>(k)] = true; });
    for (size_t k = 0; k < n.outputs; ++k)
      n.own.push_back(used[k] ? -1 : symbols.add(n.extents[k], false));
  }
  return m;
}

// Both must end alike: slices at one place, or sums of slices.
void refuse_differences(Symbols& symbols, const Carried& a, const Carried& b) {
  for (size_t d = 0; d < a.dims.size(); ++d) {
    bool both = a.dims[d] >= 0 && b.dims[d] >= 0;
    if (both && symbols.find(a.dims[d]) == symbols.find(b.dims[d])) continue;
    for (int s : {a.dims[d], b.dims[d]})
      if (s >= 0) symbols.refuse(s);
  }
  auto missing_in = [&](const Carried& other, int s) {
    return std::none_of(other.summed.begin(), other.summed.end(),
                        [&](int t) { return symbols.find(t) == symbols.find(s); });
  };
  for (int s : a.summed)
    if (missing_in(b, s)) symbols.refuse(s);
  for (int s : b.summed)
    if (missing_in(a, s)) symbols.refuse(s);
}

NaturalForm form_of(const Graph& a, const Graph& b) {
  Symbols symbols;
  InputSymbols inputs;
  for (const GraphInput& i : a.inputs) {
    auto& mine = inputs.emplace_back();
    for (int64_t n : a.type(i.node).shape) mine.push_back(n > 1 ? symbols.add(n, true) : -1);
  }
  const Member members[] = {member_of(a, symbols), member_of(b, symbols)};
  while (true) {
    Carrier first(symbols, members[0], inputs), second(symbols, members[1], inputs);
    refuse_differences(symbols, first.output(), second.output());
    if (symbols.settle()) continue;
    NaturalForm form;
    std::vector<int> number(symbols.size(), -1);
    for (const auto& mine : inputs) {
      auto& of_input = form.free.emplace_back();
      for (int s : mine) {
        of_input.push_back(-1);
        if (s < 0 || symbols.bad(s)) continue;
        int& n = number[static_cast<size_t>(symbols.find(s))];
        if (n < 0) {
          n = static_cast<int>(form.extents.size());
          form.extents.push_back(symbols.extent(s));
        }
        of_input.back() = n;
      }
    }
    for (int s : first.output().dims)
      form.free_out.push_back(s < 0 ? -1 : number[static_cast<size_t>(symbols.find(s))]);
    FormWriter writer(symbols, number);
    writer.add(members[0], first, inputs);
    writer.add(members[1], second, inputs);
    form.any = writer.out.key();
    for (int64_t n : form.extents) writer.out.add(n);
    form.exact = writer.out.key();
    return form;
  }
}

}  // namespace

Result<NaturalForm> natural_form(const Graph& a, const Graph& b) {
  EMEND_ASSERT(a.outputs.size() == 1 && b.outputs.size() == 1);
  if (a.inputs.size() != b.inputs.size()) return fail("other inputs");
  for (size_t i = 0; i < a.inputs.size(); ++i)
    if (a.type(a.inputs[i].node) != b.type(b.inputs[i].node)) return fail("other inputs");
  if (a.type(a.outputs[0].node) != b.type(b.outputs[0].node)) return fail("another output");
  try {
    return form_of(a, b);
  } catch (const NoForm& none) {
    return fail(none.reason);
  }
}

}  // namespace emend
