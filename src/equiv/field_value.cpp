#include "equiv/field_value.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

#include "base/integer.h"
#include "ops/families.h"
#include "ops/table.h"

namespace emend {

struct FieldReader::Values {
 public:
  Values(const Graph& g, uint64_t seed) : g_(g), seed_(seed), meanings_(g.size()) {}
  const Graph& graph() const { return g_; }

  Mod61 at(NodeId n, const Dims& position) {
    const Node& node = g_.nodes[n];
    if (node.op == kInputOp)
      return drawn(static_cast<uint64_t>(node.attrs.get<int64_t>("index")), position);
    if (g_.is_constant(n)) {
      const Tensor& t = g_.constant(n);
      return Mod61::of(t.real(flat(t.shape(), position)));
    }
    // What only reads one other element costs less than looking it up.
    if (meaning(n).reads.size() <= 1 && meaning(n).reduced.empty()) return computed(n, position);
    auto [it, fresh] = known_.try_emplace({n.value, position});
    if (fresh) {
      Mod61 v = computed(n, position);
      known_[{n.value, position}] = v;
      return v;
    }
    return it->second;
  }

 private:
  static int64_t flat(const Dims& shape, const Dims& position) {
    int64_t i = 0;
    for (size_t d = 0; d < shape.size(); ++d) i = i * shape[d] + position[d];
    return i;
  }
  Mod61 drawn(uint64_t leaf, const Dims& position) const {
    uint64_t h = seed_ * 0x9e3779b97f4a7c15u + leaf;
    auto stir = [&](uint64_t v) {
      h ^= v + 0x9e3779b97f4a7c15u + (h << 6) + (h >> 2);
      h *= 0xbf58476d1ce4e5b9u;
      h ^= h >> 29;
      h *= 0x94d049bb133111ebu;
      h ^= h >> 32;
    };
    for (int64_t p : position) stir(static_cast<uint64_t>(p));
    stir(position.size());
    return Mod61(h % Mod61::kPrime);
  }
  Mod61 computed(NodeId n, const Dims& position) {
    const Node& node = g_.nodes[n];
    const Meaning& m = meaning(n);
    Dims point(m.out.size() + m.reduced.size(), 0);
    int64_t rest = flat(g_.type(n).shape, position);
    for (size_t k = m.out.size(); k-- > 0; rest /= m.out[k]) point[k] = rest % m.out[k];
    Dims r(m.reduced.size(), 0);
    Mod61 total;
    do {
      std::copy(r.begin(), r.end(), point.begin() + static_cast<ptrdiff_t>(m.out.size()));
      total = total + body_at(m, node, point);
    } while (next_point(r.data(), m.reduced));
    return value(m.finish, {total}, point);
  }
  const Meaning& meaning(NodeId n) {
    std::optional<Meaning>& known = meanings_[n.value];
    if (known) return *known;
    const Node& node = g_.nodes[n];
    const OpDef& def = op_def(node);
    if (def.body.empty() && !def.means) throw Inexact(def.name + " has no meaning by itself");
    std::vector<Type> types;
    for (NodeId a : node.args) types.push_back(g_.type(a));
    Meaning m = meaning_of(def, node.attrs, types);
    if (m.reduce != Reduce::none && m.reduce != Reduce::sum) throw Inexact("no sum");
    return known.emplace(std::move(m));
  }
  Mod61 body_at(const Meaning& m, const Node& node, const Dims& point) {
    std::vector<Mod61> reads;
    for (const Read& r : m.reads) {
      NodeId operand = node.args[static_cast<size_t>(r.operand)];
      const Dims& shape = g_.type(operand).shape;
      Dims at;
      bool inside = true;
      for (size_t d = 0; d < r.index.size(); ++d) {
        if (r.index[d].read >= 0) throw Inexact("places that depend on data");
        at.push_back(evaluate(r.index[d], point.data(), nullptr));
        inside &= 0 <= at.back() && at.back() < shape[d];
      }
      reads.push_back(inside ? this->at(operand, at) : Mod61::of(r.outside.value_or(0)));
    }
    return value(m.body, reads, point);
  }
  static Mod61 value(const Scalar& body, const std::vector<Mod61>& args, const Dims& point) {
    // Positions may be compared, values of a field may not.
    struct Both {
      Mod61 residue;
      std::optional<int64_t> position = {};
    };
    std::vector<Both> v;
    for (const Instr& i : body.code) {
      auto a = [&] { return v[static_cast<size_t>(i.a)]; };
      auto b = [&] { return v[static_cast<size_t>(i.b)]; };
      auto position = [](const Both& x) {
        if (!x.position) throw Inexact("a comparison of values over a field");
        return *x.position;
      };
      auto truth = [&](bool t) { v.push_back({Mod61(t)}); };
      auto both = [&](auto how) {
        std::optional<int64_t> p;
        if (a().position && b().position) p = how(*a().position, *b().position);
        v.push_back({how(a().residue, b().residue), p});
      };
      switch (i.fn) {
        case Fn::constant:
          v.push_back({Mod61::of(i.value)});
          if (i.value == std::floor(i.value) && std::abs(i.value) < 1e12)
            v.back().position = static_cast<int64_t>(i.value);
          break;
        case Fn::arg:
          v.push_back({args[static_cast<size_t>(i.a)]});
          break;
        case Fn::iter:
          v.push_back(
              {Mod61::of(point[static_cast<size_t>(i.a)]), point[static_cast<size_t>(i.a)]});
          break;
        case Fn::neg:
          v.push_back({-a().residue});
          break;
        case Fn::add:
          both([](auto x, auto y) { return x + y; });
          break;
        case Fn::sub:
          both([](auto x, auto y) { return x - y; });
          break;
        case Fn::mul:
          v.push_back({a().residue * b().residue});
          break;
        case Fn::div:
          v.push_back({a().residue / b().residue});
          break;
        case Fn::lt:
          truth(position(a()) < position(b()));
          break;
        case Fn::le:
          truth(position(a()) <= position(b()));
          break;
        case Fn::select:
          v.push_back({a().residue.v ? b().residue : v[static_cast<size_t>(i.c)].residue});
          break;
        default:
          throw Inexact(str("the function ", info(i.fn).name, " over a field"));
      }
    }
    return v.back().residue;
  }

  const Graph& g_;
  uint64_t seed_;
  std::vector<std::optional<Meaning>> meanings_;  // per node, of those that were read
  std::map<std::pair<uint32_t, Dims>, Mod61> known_;
};

FieldReader::FieldReader(const Graph& g, uint64_t seed)
    : values_(std::make_unique<Values>(g, seed)) {}
FieldReader::~FieldReader() = default;

Mod61 FieldReader::at(const Dims& position, size_t output) {
  return values_->at(values_->graph().outputs[output].node, position);
}

Mod61 field_value(const Graph& g, const Dims& position, uint64_t seed) {
  return FieldReader(g, seed).at(position);
}

}  // namespace emend
