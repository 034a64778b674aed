#include "fuse/price.h"

#include <algorithm>
#include <set>

#include "fuse/fuse.h"
#include "ir/bytes.h"
#include "kernels/factor.h"
#include "kernels/nest.h"
#include "kernels/sequential.h"

namespace emend {
namespace {

constexpr size_t kMaxValues = 256;  // of one nest: more is neither readable nor registers
// Measured in loops over data in the cache, in units of one vectorised addition, of which there are
// half as many as a processor can do at its best.
constexpr double kDivision = 8, kExp = 32, kFunction = 64, kPow = 256, kBound = 2;
constexpr double kPlainShare = 0.5;
constexpr double kDear = kDivision;  // effort from which a value is kept for later loops
constexpr double kRowBytes = 32 << 10;

// Operations that a nest executes when it runs row by row: a value is computed in the outermost
// loop that knows all its iterators, once per loop that needs it; dear ones that two loops over
// the row need are kept (kernels/cpu/row_printer.h). A contraction is what its kernel makes of it.
class RowWork {
 public:
  RowWork(const Nest& nest, bool contracts)
      : nest_(nest), free_(free_atoms(nest)), contracts_(contracts) {
    inner_ = left_out(nest);
    if (!nest.space.empty()) lane_ = nest.space.back();
    std::vector<int> outer;
    for (int a : nest.space) {
      if (a != lane_ && !is_inner(a)) outer.push_back(a);
    }
    loops_.push_back({outer, extent(outer), {}});
    for (int a : inner_) {
      if (a != lane_) open({a});
    }
    if (lane_ >= 0) open({lane_});
    row_depth_ = loops_.size();
    for (const NestStore& s : nest.stores) {
      if (inner_.empty() || nest.math.stride(s.at, inner_[0]) != 0) use(s.value);
    }
    if (!inner_.empty()) finish_leaves();
  }
  // In units of what a contraction does.
  double operations() const { return contracted_ + total_ / kPlainShare; }

 private:
  struct Loop {
    std::vector<int> knows;
    double runs = 1;
    std::set<int> done;
  };
  double extent(const std::vector<int>& iterators) const {
    double n = 1;
    for (int a : iterators) n *= static_cast<double>(nest_.math.extent(a));
    return n;
  }
  bool is_inner(int a) const { return std::ranges::find(inner_, a) != inner_.end(); }
  bool in_lanes() const {
    return loops_.size() == row_depth_ && loops_.back().knows == std::vector<int>{lane_};
  }
  // Leaf reductions go along with the lanes; what becomes of them follows.
  void finish_leaves() {
    std::vector<int> leaves = leaf_reductions(nest_);
    for (int v : leaves) {
      use(nest_.values[static_cast<size_t>(v)].args[0]);
      total_ += loops_.back().runs;
    }
    loops_.resize(1);
    loops_[0].done.insert(leaves.begin(), leaves.end());
    if (!is_inner(lane_)) open({lane_});
    for (const NestStore& s : nest_.stores) {
      if (nest_.math.stride(s.at, inner_[0]) == 0) use(s.value);
    }
  }
  void open(std::vector<int> iterators) {
    double runs = loops_.back().runs * extent(iterators);
    loops_.push_back({std::move(iterators), runs, {}});
  }
  bool depends(int v, int atom) const {
    return free_[static_cast<size_t>(v)][static_cast<size_t>(atom)];
  }
  size_t home(int v) const {
    for (size_t d = loops_.size(); d-- > 0;) {
      for (int a : loops_[d].knows) {
        if (depends(v, a)) return d;
      }
    }
    return 0;
  }

  void use(int v) {
    for (const Loop& l : loops_) {
      if (l.done.count(v)) return;
    }
    size_t d = home(v);
    std::vector<Loop> deeper(loops_.begin() + static_cast<long>(d) + 1, loops_.end());
    loops_.resize(d + 1);
    compute(v);
    loops_[d].done.insert(v);
    loops_.insert(loops_.end(), deeper.begin(), deeper.end());
  }

  void compute(int v) {
    const NestValue& u = nest_.values[static_cast<size_t>(v)];
    auto addressed = [&](const Linear& e) {
      nest_.math.visit(e, [&](int a) {
        if (nest_.math.atom(a).kind == Atom::Kind::value) use(nest_.math.atom(a).value);
      });
    };
    addressed(u.at);
    for (const Bound& b : u.bounds) addressed(b.at);
    if (u.kind == NestValue::Kind::reduce) {
      reduce(v);
      return;
    }
    double each = u.kind == NestValue::Kind::compute ? effort(u.body) : 1;
    if (in_lanes() && each >= kDear && lane_bytes(u) <= kRowBytes && !kept_.insert(v).second) {
      total_ += loops_.back().runs;
      return;
    }
    for (int a : u.args) use(a);
    total_ += loops_.back().runs * (each + kBound * static_cast<double>(u.bounds.size()));
  }
  double lane_bytes(const NestValue& u) const {
    return static_cast<double>(nest_.math.extent(lane_)) * info(u.work).bits / 8;
  }

  void reduce(int v) {
    const NestValue& u = nest_.values[static_cast<size_t>(v)];
    if (contracts_) {
      contracted_ += 2 * loops_.back().runs * extent(u.over);
      return;
    }
    // Over lanes it is a row of accumulators: the lanes run innermost.
    bool rows = in_lanes();
    std::vector<Loop> waiting;
    auto passed = [&](int a) { return a == lane_ || !depends(v, a); };
    while (rows && loops_.size() > 1 && std::ranges::all_of(loops_.back().knows, passed)) {
      waiting.insert(waiting.begin(), std::move(loops_.back()));
      loops_.pop_back();
    }
    size_t depth = loops_.size();
    for (int a : u.over) open({a});
    if (rows) open({lane_});
    use(u.args[0]);
    total_ += loops_.back().runs;
    loops_.resize(depth);
    loops_.insert(loops_.end(), waiting.begin(), waiting.end());
  }

  const Nest& nest_;
  std::vector<std::vector<bool>> free_;
  bool contracts_;
  int lane_ = -1;
  std::vector<int> inner_;  // what leaf reductions run over: loops of a task
  std::vector<Loop> loops_;
  size_t row_depth_ = 0;  // of the loop over lanes
  std::set<int> kept_;
  double total_ = 0, contracted_ = 0;
};

// Pieces that threads can share: what is reduced as a whole is not cut.
double tasks_of(const Nest& nest) {
  double tasks = 1;
  std::vector<int> inner = left_out(nest);
  for (int a : nest.space) {
    bool whole = std::ranges::find(inner, a) != inner.end();
    for (const NestValue& v : nest.values) {
      whole |= a == nest.space.back() && std::ranges::find(v.over, a) != v.over.end();
    }
    if (!whole) tasks *= static_cast<double>(nest.math.extent(a));
  }
  return tasks;
}

// Bytes that a group reads of every input: at most all of it, and no more than there are reads.
std::vector<double> reads_of(const Graph& group, const Nest& nest) {
  std::vector<double> reads(group.inputs.size(), 0);
  auto free = free_atoms(nest);
  for (size_t i = 0; i < nest.values.size(); ++i) {
    const NestValue& v = nest.values[i];
    if (v.kind != NestValue::Kind::load) continue;
    double points = 1;
    for (size_t a = 0; a < nest.math.size(); ++a) {
      if (free[i][a]) points *= static_cast<double>(nest.math.extent(static_cast<int>(a)));
    }
    reads[static_cast<size_t>(v.buffer)] += points * info(v.dtype).bits / 8;
  }
  for (size_t i = 0; i < reads.size(); ++i) {
    reads[i] = std::min(reads[i], bytes_of(group.type(group.inputs[i].node)));
  }
  return reads;
}

// A contraction takes loads (bytes less their zero points), views looked through, and gives every
// point of the space its own element; nothing else in its group reduces.
bool contraction_fits(const Nest& nest, const NestValue& r, const std::vector<bool>& free) {
  for (int a : nest.space) {
    if (!free[static_cast<size_t>(a)] && nest.math.extent(a) > 1) return false;
  }
  const NestValue& product = nest.values[static_cast<size_t>(r.args[0])];
  return std::ranges::all_of(product.args, [&](int a) {
    return nest.values[static_cast<size_t>(a)].args.empty() || factor_of(nest, a);
  });
}

// A leaf for every lane while another reduction needs the whole row: lanes could not be cut, and
// the leaves would take as much memory as there are lanes.
bool leaves_are_bounded(const Nest& nest) {
  std::vector<int> inner = left_out(nest);
  if (inner.empty() || std::ranges::find(inner, nest.space.back()) != inner.end()) return true;
  return std::ranges::none_of(nest.values, [&](const NestValue& v) {
    return std::ranges::find(v.over, nest.space.back()) != v.over.end();
  });
}

bool is_feasible(const Nest& nest, bool contracts) {
  if (nest.values.size() > kMaxValues || !leaves_are_bounded(nest)) return false;
  if (!contracts) return true;
  auto free = free_atoms(nest);
  size_t reductions = 0;
  for (size_t v = 0; v < nest.values.size(); ++v) {
    if (nest.values[v].kind != NestValue::Kind::reduce) continue;
    if (++reductions > 1 || !contraction_fits(nest, nest.values[v], free[v])) return false;
  }
  return true;
}

}  // namespace

double effort(const Scalar& s) {
  double n = 0;
  for (const Instr& i : s.code) {
    if (i.fn == Fn::div || i.fn == Fn::mod || i.fn == Fn::fmod || i.fn == Fn::sqrt) {
      n += kDivision;
    } else if (i.fn == Fn::exp) {
      n += kExp;
    } else if (i.fn == Fn::pow) {
      n += kPow;
    } else {
      bool function = i.fn > Fn::sqrt && i.fn <= Fn::erf;
      n += function ? kFunction : info(i.fn).arity > 0;
    }
  }
  return n;
}

namespace {

// Whatever depends on the contraction has an element for each of its elements.
bool keeps_elements(const Graph& group) {
  std::vector<int64_t> wanted(group.size(), 0);
  for (size_t i = 0; i < group.size(); ++i) {
    NodeId n{i};
    if (group.nodes[n].op == kInputOp || group.nodes[n].op == kConstantOp) continue;
    for (NodeId a : group.nodes[n].args) wanted[i] = std::max(wanted[i], wanted[a.value]);
    int64_t own = count(group.type(n).shape);
    if (wanted[i] != 0 && wanted[i] != own) return false;
    if (role_of(group, n) == Role::contraction) wanted[i] = own;
  }
  return true;
}

}  // namespace

const GroupFacts& GroupPrices::facts(Graph group) {
  std::vector<GroupFacts>& equal = seen_[hash(group)];
  for (const GroupFacts& f : equal) {
    if (f.group == group) return f;
  }
  GroupFacts f;
  int nuclei = 0, reductions = 0, contractions = 0, nodes = 0;
  for (size_t i = 0; i < group.size(); ++i) {
    NodeId n{i};
    if (group.nodes[n].op == kInputOp || group.nodes[n].op == kConstantOp) continue;
    Role role = role_of(group, n);
    ++nodes;
    contractions += role == Role::contraction;
    nuclei += role == Role::contraction || role == Role::window;
    reductions += role == Role::reduction;
  }
  bool one_nucleus = nuclei == 0 || (nuclei == 1 && reductions == 0);
  if (one_nucleus && (contractions == 0 || keeps_elements(group))) {
    if (auto nest = nest_of(group)) {
      f.feasible = nodes == 1 || is_feasible(*nest, contractions > 0);
      if (f.feasible) {
        f.reads = reads_of(group, *nest);
        for (const auto& o : group.outputs) f.writes += bytes_of(group.type(o.node));
        RowWork work(*nest, contractions > 0);
        f.operations = work.operations();
        f.tasks = tasks_of(*nest);
      }
    }
  }
  f.group = std::move(group);
  equal.push_back(std::move(f));
  return equal.back();
}

double GroupPrices::price_alone(NodeId n) const {
  double bytes = bytes_of(g_.type(n));
  for (NodeId a : g_.nodes[n].args) bytes += bytes_of(g_.type(a));
  return target_.launch_s + bytes / target_.bandwidth;
}

std::optional<double> GroupPrices::operator()(const NodeGroup& group) {
  if (group.host) return price_alone(group.nodes[0]);
  if (is_sequential(g_, group)) {
    // Views of its matrices may stand before it.
    auto own = std::ranges::find_if(group.nodes, [&](NodeId n) { return is_sequential(g_, n); });
    return price_alone(*own);
  }
  auto [it, unknown] = known_.try_emplace({group.nodes, group.stores});
  if (unknown) it->second = fresh(group);
  return it->second;
}

std::optional<double> GroupPrices::fresh(const NodeGroup& group) {
  Outline o = outlined(g_, group);
  const GroupFacts& f = facts(std::move(o.graph));
  if (!f.feasible) return std::nullopt;
  std::map<NodeId, double> reads;  // one memory under several shapes is read once
  for (size_t i = 0; i < o.loads.size(); ++i) {
    NodeId s = storage_of(g_, o.loads[i]);
    reads[s] = std::min(reads[s] + f.reads[i], bytes_of(g_.type(s)));
  }
  double bytes = f.writes;
  for (auto [s, read] : reads) bytes += read;
  double idle = std::max(1.0, target_.threads / f.tasks);
  double busy = bytes / target_.bandwidth + f.operations / target_.peak_flops;
  return target_.launch_s + idle * busy;
}

std::optional<double> price(const Graph& g, const Partition& p, const Target& target) {
  KnownGroups seen;
  GroupPrices prices(g, target, seen);
  double total = 0;
  for (const NodeGroup& group : p.groups) {
    auto seconds = prices(group);
    if (!seconds) return std::nullopt;
    total += *seconds;
  }
  return total;
}

}  // namespace emend
