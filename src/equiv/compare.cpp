#include "equiv/compare.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <set>

#include "base/hash.h"
#include "equiv/explained.h"
#include "equiv/numbers.h"
#include "equiv/print.h"
#include "equiv/region.h"
#include "ops/evaluate.h"
#include "ops/table.h"

namespace emend {
namespace {

// Thrown out of an evaluation when the time for proofs is up.
struct TimeIsUp {};

// Watches the clock at every node that is evaluated.
Monitor until(std::chrono::steady_clock::time_point end) {
  return Monitor([end](const Progress&) {
    if (std::chrono::steady_clock::now() > end) throw TimeIsUp();
  });
}

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
    bool ran = whole_runs(v);
    if (ran && options_.tolerance) {
      by_tolerance(v);
    } else if (v.kind != Verdict::Kind::different) {
      prove(v, ran);
    }
    if (options_.where && ran && v.kind != Verdict::Kind::equal)
      v.where = first_difference(a_, prints_a_, b_, prints_b_);
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
    v.finite_only = method != "same expression" && (holds_floats(a_) || holds_floats(b_));
    v.reason = method == "same expression" ? "the programs are the same expression"
               : method == "doubles" ? "every region agrees; some only in double precision, within "
                                       "the rounding of a constant"
                                     : str("every region agrees exactly (", method, ")");
    if (v.finite_only) v.reason += "; of infinities and NaNs nothing is said";
    return v;
  }

  static bool holds_floats(const Graph& g) {
    return std::any_of(g.types.begin(), g.types.end(), [](const Type& t) {
      return t.is_tensor() && (is_float(t.dtype) || is_complex(t.dtype));
    });
  }

  void prove(Verdict& v, bool ran) {
    try {
      if (ran) prove_candidates(v);
    } catch (const TimeIsUp&) {
      v.out_of_time = true;
      note_ = str("the proof was not finished in ", number_text(options_.seconds),
                  " s; on random inputs no output differs by more than ", number_text(v.worst.rel),
                  " of its largest value");
    }
    if (outputs_proven() && v.regions.contains("doubles") && jumps_) {
      v.reason = str("every region agrees within the rounding of a constant, but output ",
                     v.worst.output, " does not: such a rounding tips a comparison or a step");
    } else if (outputs_proven()) {
      std::string weakest = "same expression";
      for (const char* method : {"symbols", "integers", "doubles"}) {
        if (v.regions.contains(method)) weakest = method;
      }
      v = equal(v, weakest);
      return;
    } else {
      v.reason = unproven_reason(ran, v);
    }
    v.method = "none";
    if (ran) seek_witness(v);
  }

  // Of normal numbers of that deviation, all or a part of them; the others are zero.
  std::vector<Value> inputs_of(uint64_t draw, double scale, double density = 1) const {
    std::vector<Value> inputs = random_inputs(a_, options_.seed + draw, scale);
    for (size_t i = 0; i < inputs.size() && density < 1; ++i)
      inputs[i] = thinned(inputs[i].tensor, density, options_.seed + draw + i);
    for (size_t i = 0; i < options_.inputs.size() && i < inputs.size(); ++i)
      inputs[i] = options_.inputs[i];
    return inputs;
  }

  static Tensor thinned(const Tensor& t, double density, uint64_t seed) {
    if (!is_float(t.dtype()) || info(t.dtype()).bits < 16) return t;
    return Tensor::make(t.dtype(), t.shape(), [&](std::byte* out) {
      for (int64_t i = 0; i < t.count(); ++i) {
        auto drawn = static_cast<double>(hash_mix(seed, static_cast<uint64_t>(i)) >> 11) * 0x1p-53;
        store_real(t.dtype(), out, static_cast<size_t>(i), drawn < density ? t.real(i) : 0);
      }
    });
  }

  // Both programs in double precision on the same inputs, with normal ones first. False when that
  // is not possible.
  bool whole_runs(Verdict& v) {
    if (operation_count(a_) + operation_count(b_) > options_.max_operations) return false;
    prints_a_.resize(a_.size());
    prints_b_.resize(b_.size());
    try {
      std::vector<Value> inputs = inputs_of(0, 1);
      auto x = run(a_, inputs, &prints_a_), y = run(b_, inputs, &prints_b_);
      v.worst = worst_difference(a_, x, y);
      if (options_.tolerance) {
        beyond_ = beyond_tolerance(a_, x, y, options_.tolerance->rtol, options_.tolerance->atol);
        return true;
      }
      jumps_ = v.worst.rel > 1e-3;
      if (draws_differ()) return true;
      if (auto beyond = explanation().beyond(inputs, x, y, largest_)) {
        jumps_ = true;
        if (is_seen_again(1)) say_different(v, *beyond);
      }
    } catch (const Inexact& e) {
      note_ = str("the programs cannot be run in double precision: ", e.what());
      return false;
    } catch (const Error& e) {
      note_ = str("the programs cannot be run on random inputs: ", e.what());
      return false;
    }
    return true;
  }

  Explanation explanation() const {
    return Explanation(a_, b_, [this](const Graph& g, std::span<const Value> inputs) {
      return run(g, inputs, nullptr);
    });
  }

  std::optional<Beyond> beyond_rounding(std::span<const Value> inputs) const {
    largest_ = 0;
    auto x = run(a_, inputs, nullptr), y = run(b_, inputs, nullptr);
    return explanation().beyond(inputs, x, y, largest_);
  }

  // Where a folded constant could tip a comparison or a rounding step, one difference may be an
  // accident; it is none when it comes with other inputs too.
  bool is_seen_again(double scale, double density = 1) const {
    if (!has_steps() || same_constants()) return true;
    constexpr uint64_t kDraws = 4;
    for (uint64_t draw = 0; draw < kDraws; ++draw) {
      std::vector<Value> inputs = inputs_of(7 + draw, scale, density);
      if (beyond_rounding(inputs)) return true;
    }
    return false;
  }

  void say_different(Verdict& v, const Beyond& beyond) const {
    v.kind = Verdict::Kind::different;
    v.method = "doubles";
    v.worst = beyond.worst;
    v.reason = v.worst.position.empty() && std::isinf(v.worst.abs)
                   ? str("output ", v.worst.output, " has another shape")
                   : str("output ", v.worst.output, " at ", shape_text(v.worst.position), " is ",
                         number_text(v.worst.a), " and ", number_text(v.worst.b));
  }

  void by_tolerance(Verdict& v) {
    constexpr int kDraws = 3;
    for (int draw = 1; draw < kDraws && !beyond_; ++draw) {
      std::vector<Value> inputs = inputs_of(static_cast<uint64_t>(draw), draw == 2 ? 10 : 1);
      auto x = run(a_, inputs, nullptr), y = run(b_, inputs, nullptr);
      beyond_ = beyond_tolerance(a_, x, y, options_.tolerance->rtol, options_.tolerance->atol);
    }
    if (beyond_) {
      say_different(v, *beyond_);
    } else {
      v.kind = Verdict::Kind::equal;
      v.reason = str("no output differs by more than ", number_text(options_.tolerance->atol),
                     " + ", number_text(options_.tolerance->rtol), " |b| on ", kDraws,
                     " sets of random inputs; nothing was proven");
    }
    v.method = "tolerance";
  }

  // What could not be proven may be false: on larger and smaller inputs, and on integers at the
  // ends of their types, as far as that costs little.
  void seek_witness(Verdict& v) {
    uint64_t next = 0;
    constexpr double kCheap = 1e9;
    if (operation_count(a_) + operation_count(b_) > kCheap || draws_differ()) return;
    struct Regime {
      double scale, density;
    };
    // Where most inputs are zero, an output shows few weights at a time.
    for (Regime r : {Regime{30, 1}, {1000, 1}, {1e-2, 1}, {1, 0.2}, {1, 0.05}, {1, 0.05}}) {
      uint64_t draw = 20 + next++;
      try {
        std::vector<Value> inputs = inputs_of(draw, r.scale, r.density);
        auto beyond = beyond_rounding(inputs);
        if (beyond && is_seen_again(r.scale, r.density)) return say_different(v, *beyond);
      } catch (const std::exception&) {  // not defined there, which says nothing
      }
    }
    if (auto beyond = witness_among_integers(a_, b_, options_.seed)) say_different(v, *beyond);
  }

  std::vector<Value> run(const Graph& g, std::span<const Value> inputs,
                         IdVec<NodeId, Print>* prints) const {
    std::vector<Value> doubles;
    for (const Value& x : inputs) doubles.emplace_back(converted(x.tensor, Arithmetic::real64));
    EvalOptions how{.arithmetic = Arithmetic::real64, .monitor = options_.monitor};
    how.observe = [&](NodeId n, const Value& x) {
      if (prints) (*prints)[n] = print_of(x);
      note_largest(x);
    };
    return evaluate(g, doubles, how);
  }

  // Of some elements; what stands for minus infinity in a mask is none.
  void note_largest(const Value& v) const {
    constexpr int64_t kSamples = 512;
    constexpr double kMask = 1e30;
    if (!v.is_tensor() || v.tensor.dtype() != DType::f64) return;
    int64_t step = v.tensor.count() / kSamples + 1;
    for (int64_t i = 0; i < v.tensor.count(); i += step) {
      double size = std::abs(v.tensor.real(i));
      if (size < kMask) largest_ = std::max(largest_, size);
    }
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

  bool has_steps() const {
    auto steps = [](const Graph& g, NodeId id, const OpDef& def, Types types) {
      const Type& t = g.types[id];
      bool whole = t.is_tensor() && !is_float(t.dtype) && !is_complex(t.dtype);
      bool from_floats = std::any_of(types.begin(), types.end(), [](const Type& o) {
        return o.is_tensor() && is_float(o.dtype);
      });
      if (whole && from_floats) return true;
      for (const Instr& in : def.body.code) {
        bool step = in.fn == Fn::floor || in.fn == Fn::ceil || in.fn == Fn::round ||
                    in.fn == Fn::trunc || in.fn == Fn::sign || in.fn == Fn::mod ||
                    in.fn == Fn::fmod || in.fn == Fn::lt || in.fn == Fn::le || in.fn == Fn::eq;
        if (step) return true;
      }
      bool opaque = def.kind == Kind::composite || def.kind == Kind::host ||
                    def.kind == Kind::opaque || def.kind == Kind::scan || def.kind == Kind::index;
      return opaque && !def.means && def.body.empty() && !def.expand;
    };
    return any_node(a_, steps) || any_node(b_, steps);
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
    clock_ = options_.monitor.silent();
    if (options_.seconds > 0)
      clock_ = until(std::chrono::steady_clock::now() +
                     std::chrono::milliseconds(static_cast<int64_t>(1000 * options_.seconds)));
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
      if (!alike(r.side->prints[r.node], side.prints[n], 1e-4)) continue;
      ++tries;
      if (!are_equal(*r.side, r.node, side, n, v)) continue;
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

  // What is a leaf of a region: values of the cut, and shared constants while they stay closed.
  struct Cut {
    std::set<int> classes;
    bool opens_constants = false;
  };

  std::optional<Region> region(const Side& s, NodeId root, const Cut& cut,
                               std::set<int>& used) const {
    bool opens = s.g.nodes[root].op != kInputOp;  // a root is, unless there is nothing behind it
    return region_of(s.g, root, [&](NodeId at) {
      int own = s.classes[at];
      if (opens && at == root) return -1;
      if (s.g.nodes[at].op == kInputOp) return own;
      if (!cut.classes.contains(own) || !s.g.types[at].is_tensor()) return -1;
      // A shared constant is a leaf like any other value, except small ones: 0, 1, eps.
      if (s.g.is_constant(at))
        return !cut.opens_constants && s.g.constant(at).count() > 1 ? own : -1;
      used.insert(own);
      return own;
    });
  }

  // Compares the regions behind two nodes over a common cut. The cut begins at the nearest values
  // that both sides have, with constants as values like others and then as what they are; each time
  // that does not suffice, the latest value of it is opened, since it may be a function of the
  // others.
  bool are_equal(const Side& x, NodeId m, const Side& y, NodeId n, Verdict& v) {
    constexpr int kAttempts = 24;
    Cut cut{classes_behind(x, m)};
    std::set<int> behind_n = classes_behind(y, n);
    std::erase_if(cut.classes, [&](int c) { return !behind_n.contains(c); });
    for (int attempt = 0; attempt < kAttempts; ++attempt) {
      clock_.tell({"compare"});
      std::set<int> used;  // values of the cut that a region reads, inputs and constants aside
      auto rm = region(x, m, cut, used), rn = region(y, n, cut, used);
      if (!rm || !rn || rm->graph.size() + rn->graph.size() > 400) return false;
      RegionResult r =
          compare_regions(*rm, *rn, options_.seed + 100, options_.max_region_operations, clock_);
      if (r.equal) {
        ++v.regions[r.method];
        return true;
      }
      wraps_ |= r.may_wrap;
      cut.opens_constants = !cut.opens_constants;
      if (cut.opens_constants) continue;
      if (used.empty()) return false;
      cut.classes.erase(*used.rbegin());  // values are numbered after those they come from
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
      if (wraps_)
        return str("output ", a_.outputs[i].name,
                   " agrees where no integer wraps; where one does, nothing was proven");
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
  mutable double largest_ = 0;  // of all values in the latest runs
  Monitor clock_;               // throws when the time for proofs is up
  bool wraps_ = false;          // some regions agree but for integers that wrap
  bool jumps_ = false;          // an output differs on random inputs by more than a rounding makes
  std::optional<Beyond> beyond_;  // the tolerance
  std::string note_;
};

}  // namespace

Verdict compare(const Graph& a, const Graph& b, const CompareOptions& options) {
  return Sweep(a, b, options).run();
}

}  // namespace emend
