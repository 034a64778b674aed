#include "rules/draw.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "ops/families.h"
#include "ops/table.h"
#include "rules/draw_map.h"

namespace emend {
namespace {

struct Shape {
  std::optional<DType> dtype;
  Elements elements = Elements::any;
  bool broadcast = false;
  std::vector<std::string> sizes;
};

std::map<std::string, Shape> parse_draw(const Rule& rule, Rng& rng) {
  std::map<std::string, Shape> shapes;
  for (const std::string& item : split(rng.pick(split(rule.draw, '|')), ' ')) {
    if (item.empty()) continue;
    size_t colon = item.find(':'), open = item.find('[');
    if (colon == std::string::npos || open == std::string::npos || item.back() != ']')
      throw Error(str("rule ", rule.name, ": cannot read '", item, "'"));
    Shape s;
    std::string head = item.substr(colon + 1, open - colon - 1), dtype;
    for (char c : head) {
      if (c == '+')
        s.elements = Elements::positive;
      else if (c == '=')
        s.elements = Elements::equal;
      else if (c == 'I')
        s.elements = Elements::identity;
      else if (c == '~')
        s.broadcast = true;
      else
        dtype += c;
    }
    if (!dtype.empty()) {
      s.dtype = dtype_named(dtype);
      if (!s.dtype) throw Error(str("rule ", rule.name, ": no dtype is called ", dtype));
    }
    std::string inside = item.substr(open + 1, item.size() - open - 2);
    if (!inside.empty()) s.sizes = split(inside, ',');
    shapes[item.substr(0, colon)] = s;
  }
  return shapes;
}

// DrawnSizes by the letter's usual meaning: groups, kernels and pictures want other ranges.
const Dims& sizes_for(const std::string& symbol) {
  static const Dims kGroups = {1, 2, 3}, kKernel = {1, 2, 3, 4}, kPicture = {5, 6, 7, 8, 9},
                    kAny = {1, 2, 3, 4, 5, 6, 7, 8};
  if (symbol == "g" || symbol == "k") return kGroups;
  if (symbol == "r" || symbol == "s") return kKernel;
  if (symbol == "h" || symbol == "w") return kPicture;
  return kAny;
}

class Drawer {
 public:
  Drawer(const Rule& rule, DrawnSizes sizes, Rng& rng, DType numbers)
      : rule_(rule), sizes_(sizes), rng_(rng), shapes_(parse_draw(rule, rng)), numbers_(numbers) {
    instance_.substitution.resize(rule.variables.names.size());
    repetitions_ = static_cast<int>(rng_.between(rule.merges_group() ? 2 : 1, 3));
    for (const auto& [name, shape] : shapes_) {
      if (shape.dtype && is_float(*shape.dtype)) numbers_ = *shape.dtype;
    }
  }

  std::optional<Instance> draw() {
    if (rule_.several_roots()) {
      auto roots = add_all(rule_.lhs.args, -1);
      if (!roots) return std::nullopt;
      instance_.left = *roots;
    } else {
      auto root = add(rule_.lhs, -1);
      if (!root) return std::nullopt;
      instance_.left = {*root};
    }
    for (const GraphInput& i : b_.graph().inputs) {
      instance_.shapes +=
          str(instance_.shapes.empty() ? "" : ", ", i.name, ": ", to_text(b_.type(i.node)));
    }
    return std::move(instance_);
  }

 private:
  int64_t size_of(const std::string& symbol, int repetition) {
    std::string key = symbol;
    if (key.ends_with("_i")) key += str(repetition);
    if (auto it = drawn_.find(key); it != drawn_.end()) return it->second;
    std::string letter = symbol.substr(0, symbol.find('_'));
    const Dims& choices = sizes_for(letter);
    bool group = letter == "g" || letter == "k";
    int64_t size = rng_.pick(choices);
    if (sizes_ == DrawnSizes::different && !group) {
      // As long as there is something left to choose.
      for (int tries = 0; tries < 40 && used_.count(size); ++tries) size = rng_.pick(choices);
      used_.insert(size);
    } else if (!group && rng_.between(0, 3) > 0) {
      size = choices[1];
    }
    return drawn_[key] = size;
  }

  int64_t evaluate(const std::string& text, int repetition) {
    int64_t product = 1;
    for (const std::string& factor : split(text, '*')) {
      bool number =
          std::all_of(factor.begin(), factor.end(), [](char c) { return std::isdigit(c); });
      product *= number ? std::stoll(factor) : size_of(factor, repetition);
    }
    return product;
  }

  Dims some_shape(const Shape& s, int repetition) {
    Dims shape;
    for (const std::string& size : s.sizes) shape.push_back(evaluate(size, repetition));
    if (!s.broadcast) return shape;
    for (int64_t& d : shape) {
      if (rng_.between(0, 2) == 0) d = 1;
    }
    int64_t drop = std::max<int64_t>(0, rng_.between(-1, static_cast<int64_t>(shape.size())));
    shape.erase(shape.begin(), shape.begin() + drop);
    return shape;
  }

  std::optional<NodeId> operand(int v, int repetition) {
    const std::string& name = rule_.variables.names[static_cast<size_t>(v)];
    int r = rule_.variables.starred(v) ? repetition : -1;
    const Binding& bound = instance_.substitution[static_cast<size_t>(v)];
    if (auto* t = std::get_if<Term>(&bound)) return NodeId(t->value);
    if (auto* many = std::get_if<std::vector<Term>>(&bound);
        many && static_cast<size_t>(r) < many->size()) {
      return NodeId((*many)[static_cast<size_t>(r)].value);
    }
    Shape s;
    s.sizes = {"a", "b", "c"};
    if (auto it = shapes_.find(name); it != shapes_.end()) s = it->second;
    Type type = Type::tensor(s.dtype.value_or(numbers_), some_shape(s, r));
    NodeId n = b_.input(r < 0 ? name : str(name, r), type);
    instance_.elements.push_back(s.elements);
    bind_term(rule_.variables, instance_.substitution, v, r, Term(n.value));
    return n;
  }

  std::optional<NodeId> add(const Pattern& p, int repetition) {
    switch (p.kind) {
      case Pattern::Kind::variable:
        return operand(p.variable, repetition);
      case Pattern::Kind::number: {
        Dims shape = rng_.between(0, 1) ? Dims{} : Dims{1};
        return b_.constant(Tensor::of_real(p.number, numbers_).reshaped(shape));
      }
      case Pattern::Kind::identity:
      case Pattern::Kind::constant:
      case Pattern::Kind::at:
        return std::nullopt;
      case Pattern::Kind::node:
        return node(p, repetition);
      case Pattern::Kind::tuple:
        break;
    }
    return std::nullopt;
  }

  std::optional<std::vector<NodeId>> add_all(std::span<const Pattern> patterns, int repetition) {
    std::vector<NodeId> out;
    for (const Pattern& p : patterns) {
      int n = p.repeated ? repetitions_ : 1;
      for (int i = 0; i < n; ++i) {
        auto made = add(p, p.repeated ? i : repetition);
        if (!made) return std::nullopt;
        out.push_back(*made);
      }
    }
    return out;
  }

  std::optional<NodeId> node(const Pattern& p, int repetition) {
    auto operands = add_all(p.args, repetition);
    if (!operands) return std::nullopt;
    const std::vector<NodeId>& args = *operands;
    BoundOp head = p.variable >= 0 ? some_op(p) : BoundOp{p.op, {}};
    if (p.variable < 0) {
      auto attrs = some_attrs(p, args, repetition);
      if (!attrs) return std::nullopt;
      head.attrs = *attrs;
    }
    auto made = b_.try_op(head.op, args, head.attrs);
    if (!made) return std::nullopt;
    return *made;
  }

  BoundOp some_op(const Pattern& p) {
    if (auto* bound =
            std::get_if<BoundOp>(&instance_.substitution[static_cast<size_t>(p.variable)]))
      return *bound;
    std::vector<OpId> all;
    for (size_t i = 0; i < all_ops().size(); ++i) {
      // Results of another type and bit functions have rules of their own.
      const OpDef& def = all_ops()[i];
      if (in_class(rule_.variables.classes[static_cast<size_t>(p.variable)], def) &&
          def.result == ResultType::same)
        all.push_back(OpId(i));
    }
    OpId op = rng_.pick(all);
    BoundOp bound{op, complete_attrs(op_def(op), {}).value_or_throw()};
    bind_op(instance_.substitution, p.variable, bound);
    return bound;
  }

  // Attributes that fit the operands; what the pattern or an earlier binding says comes first.
  std::optional<Attrs> some_attrs(const Pattern& p, Args args, int repetition) {
    const OpDef& def = op_def(p.op);
    auto bound_value = [&](int v) -> const AttrValue* {
      const Binding& b = instance_.substitution[static_cast<size_t>(v)];
      if (auto* one = std::get_if<AttrValue>(&b)) return one;
      auto* many = std::get_if<std::vector<AttrValue>>(&b);
      auto at = static_cast<size_t>(repetition);
      return many && repetition >= 0 && at < many->size() ? &(*many)[at] : nullptr;
    };
    Attrs attrs = complete_attrs(def, invent(def.name, args)).value_or_throw();
    if (p.whole < 0) {  // what is not named has its default, as in matching
      for (const AttrSpec& spec : def.attrs) {
        bool named = std::any_of(p.attrs.begin(), p.attrs.end(),
                                 [&](const auto& a) { return a.first == spec.name; });
        if (!named) attrs = attrs.with(spec.name, spec.fallback);
      }
    } else {
      if (const AttrValue* whole = bound_value(p.whole)) attrs = *whole->as<Attrs>();
    }
    for (const auto& [name, e] : p.attrs) {
      const AttrValue* v = e.kind == AttrExpr::Kind::literal ? &e.literal : bound_value(e.variable);
      if (!v) continue;
      auto changed = complete_attrs(def, attrs.with(name, *v));
      if (!changed) return std::nullopt;
      attrs = *changed;
    }
    if (p.whole >= 0 &&
        !bind_attr(rule_.variables, instance_.substitution, p.whole, repetition, AttrValue(attrs)))
      return std::nullopt;
    for (const auto& [name, e] : p.attrs) {
      if (e.kind == AttrExpr::Kind::variable &&
          !bind_attr(rule_.variables, instance_.substitution, e.variable, repetition,
                     *attrs.find(name)))
        return std::nullopt;
    }
    return attrs;
  }

  // --- Attributes by operator: what a program might say at these operands ---

  Attrs invent(const std::string& op, Args args) {
    if (args.empty()) return {};
    const Type& type = b_.type(args[0]);
    if (op == "get") {
      return Attrs({{"index", rng_.between(0, static_cast<int64_t>(type.items.size()) - 1)}});
    }
    const Dims& x = type.shape;
    size_t rank = x.size();
    if (op == "conv" || op == "conv_bias") return conv_attrs(x, b_.shape(args[1]));
    if (op.starts_with("conv_transpose")) return conv_transpose_attrs(x, b_.shape(args[1]));
    if (op.ends_with("_pool") && rank > 2) return pool_attrs(rank - 2);
    if (op.ends_with("softmax") && rank) {
      auto r = static_cast<int64_t>(rank);
      return Attrs({{"axis", rng_.between(-r, r - 1)}});
    }
    if (op == "layer_norm" || op == "rms_norm")
      return Attrs({{"axis", rng_.between(0, 1) ? static_cast<int64_t>(rank) - 1 : -1}});
    if (op.ends_with("quantize_linear") && rank)
      return Attrs({{"axis", axis_of(x, b_.shape(args[1]))}});
    if (op == "gemm") return Attrs({{"alpha", static_cast<double>(rng_.between(1, 3))}});
    if (op == "transpose") return Attrs({{"perm", shuffled(rank)}});
    if (op == "reshape") return Attrs({{"shape", refolded(x)}});
    if (op == "broadcast") return Attrs({{"shape", widened(x)}});
    if (op == "slice") return slice_attrs(x);
    if (op == "pad") return pad_attrs(rank);
    if (op == "view") return view_attrs(x);
    if (op == "patch") return patch_attrs(x, b_.shape(args[1]));
    if (op == "concat" && rank) {
      auto r = static_cast<int64_t>(rank);
      return Attrs({{"axis", rng_.between(-r, r - 1)}});
    }
    if (op == "split" && rank) return split_attrs(x);
    if (op.starts_with("reduce_") && rank) return reduce_attrs(rank);
    return {};
  }

  Dims some(size_t n, int64_t low, int64_t high) {
    Dims out(n);
    for (int64_t& v : out) v = rng_.between(low, high);
    return out;
  }

  // A dimension with as many positions as there are scales; any if there is one scale.
  int64_t axis_of(const Dims& x, const Dims& scales) {
    Dims fitting;
    for (size_t k = 0; k < x.size(); ++k) {
      if (count(scales) == 1 || x[k] == count(scales)) fitting.push_back(static_cast<int64_t>(k));
    }
    return fitting.empty() ? 0 : rng_.pick(fitting);
  }

  Attrs conv_attrs(const Dims& x, const Dims& w) {
    size_t n = x.size() < 2 ? 0 : x.size() - 2;
    int64_t group = w.size() > 1 && w[1] > 0 && x.size() > 1 ? x[1] / w[1] : 1;
    Dims dilations = some(n, 1, 2), pads = some(2 * n, 0, 2);
    if (w.size() == n + 2 && rng_.between(0, 1)) {  // as many programs do: the size is kept
      for (size_t i = 0; i < n; ++i) {
        int64_t all = dilations[i] * (w[i + 2] - 1);
        pads[i] = dilations[i] * ((w[i + 2] - 1) / 2);
        pads[i + n] = all - pads[i];
      }
    }
    return Attrs(
        {{"strides", some(n, 1, 2)}, {"dilations", dilations}, {"pads", pads}, {"group", group}});
  }

  // Whose weights do not tell in how many groups they are.
  Attrs conv_transpose_attrs(const Dims& x, const Dims& w) {
    size_t n = x.size() < 2 ? 0 : x.size() - 2;
    Dims groups;
    for (int64_t g = 1; !w.empty() && g <= w[0]; ++g) {
      if (w[0] % g == 0) groups.push_back(g);
    }
    return Attrs({{"strides", some(n, 1, 2)},
                  {"dilations", some(n, 1, 2)},
                  {"pads", some(2 * n, 0, 1)},
                  {"output_padding", Dims(n, 0)},
                  {"group", groups.empty() ? int64_t{1} : rng_.pick(groups)}});
  }

  Attrs pool_attrs(size_t n) {
    return Attrs({{"kernel", some(n, 1, 3)},
                  {"strides", some(n, 1, 2)},
                  {"dilations", some(n, 1, 2)},
                  {"pads", some(2 * n, 0, 1)}});
  }

  Dims shuffled(size_t rank) {
    Dims perm(rank);
    std::iota(perm.begin(), perm.end(), 0);
    for (size_t i = rank; i > 1; --i)
      std::swap(perm[i - 1],
                perm[static_cast<size_t>(rng_.between(0, static_cast<int64_t>(i) - 1))]);
    return perm;
  }

  // The same elements under another shape: merged, split, with ones put in or left out. Sometimes a
  // shape that occurred before, so that rules about going back are met.
  Dims refolded(const Dims& x) {
    if (rng_.between(0, 2) == 0) {
      const Graph& g = b_.graph();
      for (size_t i = 0; i < g.size(); ++i) {
        const Type& t = g.types[NodeId(i)];
        if (t.is_tensor() && count(t.shape) == count(x)) return t.shape;
      }
    }
    Dims out;
    for (int64_t d : x) {
      bool drop = d == 1 && rng_.between(0, 1);
      if (!drop && !out.empty() && rng_.between(0, 2) == 0)
        out.back() *= d;
      else if (!drop)
        out.push_back(d);
      if (rng_.between(0, 4) == 0) out.push_back(1);
    }
    return out;
  }

  Dims widened(const Dims& x) {
    Dims out = x;
    for (int64_t& d : out) {
      if (d == 1 && rng_.between(0, 1)) d = rng_.between(2, 4);
    }
    if (rng_.between(0, 2) == 0) out.insert(out.begin(), rng_.between(1, 3));
    return out;
  }

  Attrs slice_attrs(const Dims& x) {
    Dims starts, sizes, steps;
    for (int64_t d : x) {
      if (d == 0 || rng_.between(0, 2) == 0) {
        starts.push_back(0);
        sizes.push_back(d);
        steps.push_back(1);
        continue;
      }
      int64_t step = rng_.pick(Dims{1, 1, 2, -1}), start = rng_.between(0, d - 1);
      int64_t most = step > 0 ? (d - 1 - start) / step + 1 : start / -step + 1;
      starts.push_back(start);
      sizes.push_back(rng_.between(1, most));
      steps.push_back(step);
    }
    return Attrs({{"starts", starts}, {"sizes", sizes}, {"steps", steps}});
  }

  Attrs pad_attrs(size_t rank) {
    Dims pads(2 * rank, 0);
    bool spatial = rank > 2 && rng_.between(0, 3) > 0, none = rng_.between(0, 3) == 0;
    for (size_t i = 0; i < pads.size(); ++i) {
      if (!none && (!spatial || i % rank >= 2)) pads[i] = rng_.between(rank > 2 ? 0 : -1, 2);
    }
    return Attrs({{"pads", pads}, {"value", static_cast<double>(rng_.between(0, 1))}});
  }

  // Sometimes the one before, so that several fit together.
  Attrs view_attrs(const Dims& x) {
    std::optional<View> v;
    if (!maps_.empty() && rng_.between(0, 1))
      v = resized(maps_.back().first, maps_.back().second, x);
    if (!v) v = some_view(x, rng_);
    maps_.emplace_back(*v, x);
    return Attrs({{"map", to_text(*v)}});
  }

  Attrs patch_attrs(const Dims& x, const Dims& fix) {
    Dims begin;
    for (size_t d = 0; d < x.size() && d < fix.size(); ++d)
      begin.push_back(fix[d] < x[d] ? rng_.between(0, x[d] - fix[d]) : 0);
    return Attrs({{"begin", begin}});
  }

  Attrs split_attrs(const Dims& x) {
    int64_t axis = rng_.between(0, static_cast<int64_t>(x.size()) - 1);
    int64_t left = x[static_cast<size_t>(axis)];
    Dims sizes;
    while (left > 0) {
      sizes.push_back(rng_.between(1, left));
      left -= sizes.back();
    }
    if (sizes.empty()) sizes = {0};
    return Attrs({{"axis", axis}, {"sizes", sizes}});
  }

  Attrs reduce_attrs(size_t rank) {
    Dims axes = shuffled(rank);
    axes.resize(static_cast<size_t>(rng_.between(1, static_cast<int64_t>(rank))));
    for (int64_t& k : axes) {
      if (rng_.between(0, 3) == 0) k -= static_cast<int64_t>(rank);
    }
    return Attrs({{"axes", axes}, {"keepdims", rng_.between(0, 1) == 1}});
  }

  const Rule& rule_;
  DrawnSizes sizes_;
  Rng& rng_;
  std::map<std::string, Shape> shapes_;
  std::map<std::string, int64_t> drawn_;
  std::set<int64_t> used_;
  std::vector<std::pair<View, Dims>> maps_;  // of views so far, and their operands' shapes
  int repetitions_ = 1;
  DType numbers_;  // of operands whose dtype the rule does not say, and of numbers in the pattern
  Instance instance_;
  GraphBuilder& b_ = instance_.builder;
};

}  // namespace

std::optional<Instance> draw_instance(const Rule& rule, DrawnSizes sizes, Rng& rng, DType numbers) {
  return Drawer(rule, sizes, rng, numbers).draw();
}

}  // namespace emend
