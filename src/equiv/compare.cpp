#include "equiv/compare.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "base/hash.h"
#include "equiv/region.h"
#include "ops/evaluate.h"
#include "ops/table.h"

namespace emend {
namespace {

// What a node's value looked like in one run: enough to find its twin, not to prove anything.
struct Print {
  bool seen = false;
  double largest = 0;
  std::vector<double> samples;
};

Print print_of(const Value& v) {
  Print p;
  if (!v.is_tensor() || v.tensor.dtype() == DType::string || is_complex(v.tensor.dtype())) return p;
  int64_t n = v.tensor.count();
  p.seen = true;
  for (int64_t k = 0; k < 24 && n > 0; ++k) {
    auto at =
        static_cast<int64_t>(hash_mix(17, static_cast<uint64_t>(k)) % static_cast<uint64_t>(n));
    double x = v.tensor.real(at);
    p.samples.push_back(x);
    if (std::isfinite(x)) p.largest = std::max(p.largest, std::abs(x));
  }
  return p;
}

bool alike(const Print& a, const Print& b) {
  if (!a.seen || !b.seen || a.samples.size() != b.samples.size()) return false;
  for (size_t i = 0; i < a.samples.size(); ++i) {
    double x = a.samples[i], y = b.samples[i];
    bool same = x == y || (std::isnan(x) && std::isnan(y)) || std::abs(x - y) <= 1e-4 * a.largest;
    if (!same) return false;
  }
  return true;
}

// The tensor with every float moved to a neighbour in its own type.
Tensor rounded_otherwise(const Tensor& t, uint64_t seed) {
  if (!is_float(t.dtype())) return t;
  int bits = t.dtype() == DType::f64 ? 52 : t.dtype() == DType::f32 ? 23 : info(t.dtype()).bits / 2;
  const double unit = std::ldexp(1.0, -bits);
  return Tensor::make(t.dtype(), t.shape(), [&](std::byte* out) {
    for (int64_t i = 0; i < t.count(); ++i) {
      bool up = hash_mix(seed, static_cast<uint64_t>(i)) & 1;
      store_real(t.dtype(), out, static_cast<size_t>(i), t.real(i) * (1 + (up ? unit : -unit)));
    }
  });
}

// A difference above this, relative to the largest value, is one.
constexpr double kDifferent = 1e-3;

// Nodes of both programs by the value they are known to have.
class Sweep {
 public:
  Sweep(const Graph& a, const Graph& b, const CompareOptions& options)
      : a_(a), b_(b), options_(options), class_a_(a.size(), -1), class_b_(b.size(), -1) {}

  Verdict run() {
    Verdict v;
    if (auto why = signatures_differ()) {
      v.kind = Verdict::Kind::different;
      v.method = "signature";
      v.reason = *why;
      return v;
    }
    for (size_t i = 0; i < a_.size(); ++i) class_a_[NodeId(i)] = number(a_, NodeId(i), class_a_);
    for (size_t i = 0; i < b_.size(); ++i) class_b_[NodeId(i)] = number(b_, NodeId(i), class_b_);
    if (outputs_proven()) return equal(v, "same expression");
    bool ran = whole_run(v);
    if (v.kind == Verdict::Kind::different) return v;
    if (ran) prove_candidates(v);
    if (outputs_proven()) {
      std::string weakest = "same expression";
      for (const char* method : {"symbols", "integers", "doubles"}) {
        if (v.regions.contains(method)) weakest = method;
      }
      return equal(v, weakest);
    }
    v.method = "none";
    v.reason = unproven_reason(ran, v);
    return v;
  }

 private:
  std::optional<std::string> signatures_differ() {
    if (a_.inputs.size() != b_.inputs.size()) {
      return str("the programs have ", a_.inputs.size(), " and ", b_.inputs.size(), " inputs");
    }
    if (a_.outputs.size() != b_.outputs.size()) {
      return str("the programs have ", a_.outputs.size(), " and ", b_.outputs.size(), " outputs");
    }
    for (size_t i = 0; i < a_.inputs.size(); ++i) {
      const Type &x = a_.types[a_.inputs[i].node], &y = b_.types[b_.inputs[i].node];
      if (x != y) return str("input ", a_.inputs[i].name, " is ", to_text(x), " and ", to_text(y));
    }
    for (size_t i = 0; i < a_.outputs.size(); ++i) {
      const Type &x = a_.types[a_.outputs[i].node], &y = b_.types[b_.outputs[i].node];
      if (x.is_static() && y.is_static() && x != y) {
        return str("output ", a_.outputs[i].name, " is ", to_text(x), " and ", to_text(y));
      }
    }
    return std::nullopt;
  }

  // The class of a node whose operands have theirs: equal expressions share one.
  int number(const Graph& g, NodeId n, const IdVec<NodeId, int>& classes) {
    const Node& node = g.nodes[n];
    if (node.op == kConstantOp) return constant_class(g.constant(n));
    NodeOf<NodeId> key{node.op, node.attrs, {}};
    std::vector<NodeId> operands;
    for (NodeId a : node.args) operands.push_back(NodeId(static_cast<size_t>(classes[a])));
    if (op_def(node).has(commutative)) std::sort(operands.begin(), operands.end());
    for (NodeId o : operands) key.args.push_back(o);
    auto& bucket = expressions_[hash(key)];
    for (auto& [known, id] : bucket) {
      if (known != key) continue;
      auto it = joined_.find(id);
      return it == joined_.end() ? id : it->second;
    }
    bucket.emplace_back(key, next_class_);
    return next_class_++;
  }

  int constant_class(const Tensor& t) {
    auto& bucket = constants_[hash(t)];
    for (auto& [known, id] : bucket) {
      if (known == t) return id;
    }
    bucket.emplace_back(t, next_class_);
    return next_class_++;
  }

  bool outputs_proven() const {
    for (size_t i = 0; i < a_.outputs.size(); ++i) {
      if (class_a_[a_.outputs[i].node] != class_b_[b_.outputs[i].node]) return false;
    }
    return true;
  }

  Verdict equal(Verdict v, const std::string& method) const {
    v.kind = Verdict::Kind::equal;
    v.method = method;
    v.reason = method == "same expression" ? "the programs are the same expression"
               : method == "doubles" ? "every region agrees; some only in double precision, within "
                                       "the rounding of a constant"
                                     : str("every region agrees exactly (", method, ")");
    return v;
  }

  // Both programs in double precision on the same inputs. False when that is not possible.
  bool whole_run(Verdict& v) {
    if (operation_count(a_) + operation_count(b_) > options_.max_operations) return false;
    prints_a_.resize(a_.size());
    prints_b_.resize(b_.size());
    bool innocent = false;
    try {
      std::vector<Value> inputs = random_inputs(a_, options_.seed);
      for (size_t i = 0; i < options_.inputs.size() && i < inputs.size(); ++i)
        inputs[i] = options_.inputs[i];
      auto x = run(a_, inputs, &prints_a_), y = run(b_, inputs, &prints_b_);
      v.worst = worst_difference(a_, x, y);
      innocent = v.worst.rel > kDifferent &&
                 (may_tip() || draws_differ() || rounding_explains(v.worst, inputs, x, y));
    } catch (const Inexact& e) {
      note_ = str("the programs cannot be run in double precision: ", e.what());
      return false;
    } catch (const Error& e) {
      note_ = str("the programs cannot be run on random inputs: ", e.what());
      return false;
    }
    if (v.worst.rel > kDifferent && !innocent) {
      v.kind = Verdict::Kind::different;
      v.method = "doubles";
      v.reason = str("output ", v.worst.output, " at ", shape_text(v.worst.position), " is ",
                     number_text(v.worst.a), " and ", number_text(v.worst.b));
    }
    return true;
  }

  std::vector<Value> run(const Graph& g, std::span<const Value> inputs,
                         IdVec<NodeId, Print>* prints) const {
    std::vector<Value> doubles;
    for (const Value& x : inputs) doubles.emplace_back(converted(x.tensor, Arithmetic::real64));
    EvalOptions how{.arithmetic = Arithmetic::real64, .monitor = options_.monitor};
    if (prints) how.observe = [&](NodeId n, const Value& x) { (*prints)[n] = print_of(x); };
    return evaluate(g, doubles, how);
  }

  // Would the output that differs move as much if inputs and constants were rounded otherwise? Then
  // the difference is noise: of a sum that is zero but for rounding, everything is.
  bool rounding_explains(const Verdict::Worst& worst, std::span<const Value> inputs,
                         std::span<const Value> x, std::span<const Value> y) const {
    size_t k = 0;
    while (a_.outputs[k].name != worst.output) ++k;
    for (uint64_t trial = 0; trial < 2; ++trial) {
      std::vector<Value> moved;
      for (const Value& in : inputs) moved.emplace_back(rounded_otherwise(in.tensor, trial));
      for (auto [g, before] : {std::pair{&a_, x}, std::pair{&b_, y}}) {
        Graph other = *g;
        for (Tensor& t : other.constants) t = rounded_otherwise(t, trial);
        auto after = run(other, moved, nullptr);
        auto moves = worst_difference(a_, before.subspan(k, 1), std::span(after).subspan(k, 1));
        if (moves.abs > 0 && worst.abs <= 16 * moves.abs) return true;
      }
    }
    return false;
  }

  // Numbers drawn at random are no part of what a program means, unless both draw the same.
  bool draws_differ() const {
    auto drawn = [](const Graph& g, const IdVec<NodeId, int>& classes) {
      std::set<int> all;
      for (size_t i = 0; i < g.size(); ++i)
        if (op_def(g.nodes[NodeId(i)]).kind == Kind::random) all.insert(classes[NodeId(i)]);
      return all;
    };
    return drawn(a_, class_a_) != drawn(b_, class_b_);
  }

  // Rounding of folded constants can tip a comparison or a rounding: then any size of difference
  // has an innocent explanation.
  bool may_tip() const { return has_steps() && !same_constants(); }

  bool has_steps() const {
    for (const Graph* g : {&a_, &b_}) {
      for (size_t i = 0; i < g->size(); ++i) {
        const OpDef& def = op_def(g->nodes[NodeId(i)]);
        const Type& t = g->types[NodeId(i)];
        bool whole = t.is_tensor() && !is_float(t.dtype) && !is_complex(t.dtype);
        bool from_floats = false;
        for (NodeId arg : g->nodes[NodeId(i)].args) {
          from_floats |= g->types[arg].is_tensor() && is_float(g->types[arg].dtype);
        }
        if (whole && from_floats) return true;
        for (const Instr& in : def.body.code) {
          bool step = in.fn == Fn::floor || in.fn == Fn::ceil || in.fn == Fn::round ||
                      in.fn == Fn::trunc || in.fn == Fn::sign || in.fn == Fn::mod ||
                      in.fn == Fn::fmod;
          if (step) return true;
        }
        if (def.kind == Kind::composite || def.kind == Kind::host || def.kind == Kind::opaque ||
            def.kind == Kind::scan || def.kind == Kind::index) {
          if (!def.means && def.body.empty() && !def.expand) return true;
        }
      }
    }
    return false;
  }

  // Every constant of one program stands in the other too: nothing was folded.
  bool same_constants() const {
    auto all = [](const Graph& g) {
      std::set<uint64_t> hashes;
      for (const Tensor& t : g.constants) hashes.insert(hash(t));
      return hashes;
    };
    return all(a_) == all(b_);
  }

  // One program's nodes with what is known of them.
  struct Side {
    const Graph& g;
    IdVec<NodeId, int>& classes;
    const IdVec<NodeId, Print>& prints;
  };
  struct Representative {
    const Side* side;
    NodeId node;
  };

  // Every node of A, then of B: joined to an earlier one that it can be proven equal to.
  void prove_candidates(Verdict& v) {
    Side a{a_, class_a_, prints_a_}, b{b_, class_b_, prints_b_};
    std::map<std::string, std::vector<Representative>> by_type;
    std::set<int> known;
    int64_t swept = 0;
    for (const Side* side : {&a, &b}) {
      for (size_t i = 0; i < side->g.size(); ++i) {
        NodeId n{i};
        options_.monitor.tell({"compare", ++swept, static_cast<int64_t>(a_.size() + b_.size())});
        int& own = side->classes[n];
        own = number(side->g, n, side->classes);
        if (!side->g.types[n].is_tensor() || !known.insert(own).second) continue;
        auto& alike_types = by_type[to_text(side->g.types[n])];
        if (!join(*side, n, alike_types, v)) alike_types.push_back({side, n});
      }
    }
  }

  bool join(const Side& side, NodeId n, const std::vector<Representative>& others, Verdict& v) {
    int tries = 0;
    for (const Representative& r : others) {
      if (tries == 4) break;
      if (!alike(r.side->prints[r.node], side.prints[n])) continue;
      ++tries;
      if (!prove(*r.side, r.node, side, n, v)) continue;
      int now = r.side->classes[r.node];
      joined_[side.classes[n]] = now;  // the same expression elsewhere has this value too
      side.classes[n] = now;
      return true;
    }
    return false;
  }

  static std::set<int> classes_behind(const Side& s, NodeId root) {
    std::set<NodeId> seen = {root};
    std::vector<NodeId> queue = {root};
    std::set<int> classes;
    for (size_t i = 0; i < queue.size(); ++i) {
      for (NodeId a : s.g.nodes[queue[i]].args) {
        if (seen.insert(a).second) queue.push_back(a);
        classes.insert(s.classes[a]);
      }
    }
    return classes;
  }

  // Compares the regions behind two nodes over a common cut. The cut begins at the nearest values
  // that both sides have; each time that does not suffice, the latest value of it is opened, since
  // it may be a function of the others.
  bool prove(const Side& x, NodeId m, const Side& y, NodeId n, Verdict& v) {
    std::set<int> cut = classes_behind(x, m), behind_n = classes_behind(y, n);
    std::erase_if(cut, [&](int c) { return !behind_n.contains(c); });
    bool fold = false;
    for (int attempt = 0; attempt < 12; ++attempt) {
      std::set<int> used;  // values of the cut that a region reads, inputs and constants aside
      auto leaf = [&](const Side& s, NodeId at) {
        int own = s.classes[at];
        if (s.g.nodes[at].op == kInputOp) return own;
        if (!cut.contains(own) || !s.g.types[at].is_tensor()) return -1;
        // A shared constant is a leaf like any other value, except small ones: 0, 1, eps.
        if (s.g.is_constant(at)) return !fold && s.g.constant(at).count() > 1 ? own : -1;
        used.insert(own);
        return own;
      };
      // A root is opened, unless there is nothing behind it.
      auto region = [&](const Side& s, NodeId root) {
        bool opens = s.g.nodes[root].op != kInputOp;
        return region_of(s.g, root,
                         [&](NodeId at) { return opens && at == root ? -1 : leaf(s, at); });
      };
      auto rm = region(x, m), rn = region(y, n);
      if (!rm || !rn || rm->graph.size() + rn->graph.size() > 400) return false;
      RegionResult r =
          compare_regions(*rm, *rn, options_.seed + 100, options_.max_region_operations);
      if (r.equal) {
        ++v.regions[r.method];
        return true;
      }
      if (used.empty() && fold) return false;
      // What one side computes from a constant may stand in the other as its value.
      fold = used.empty();
      if (fold) continue;
      cut.erase(*used.rbegin());  // values are numbered after those they are computed from
    }
    return false;
  }

  std::string unproven_reason(bool ran, const Verdict& v) const {
    if (!note_.empty()) return note_;
    if (!ran)
      return "the programs are too large to be run in double precision here, and their expressions "
             "differ";
    for (size_t i = 0; i < a_.outputs.size(); ++i) {
      if (class_a_[a_.outputs[i].node] == class_b_[b_.outputs[i].node]) continue;
      return str("output ", a_.outputs[i].name,
                 " could not be proven equal; on random inputs it differs by ",
                 number_text(v.worst.rel), " relative to its largest value");
    }
    return "";
  }

  const Graph &a_, &b_;
  const CompareOptions& options_;
  IdVec<NodeId, int> class_a_, class_b_;
  IdVec<NodeId, Print> prints_a_, prints_b_;
  std::map<uint64_t, std::vector<std::pair<Node, int>>> expressions_;
  std::map<uint64_t, std::vector<std::pair<Tensor, int>>> constants_;
  std::map<int, int> joined_;  // classes of expressions that were proven equal to an earlier class
  int next_class_ = 0;
  std::string note_;
};

}  // namespace

Verdict compare(const Graph& a, const Graph& b, const CompareOptions& options) {
  return Sweep(a, b, options).run();
}

}  // namespace emend
