#include "synthesize/attributes.h"

#include <algorithm>
#include <functional>

#include "ops/build.h"
#include "ops/table.h"

namespace emend {
namespace {

Attrs literal_attrs(const Pattern& p) {
  Attrs attrs;
  for (const auto& [name, e] : p.attrs) attrs = attrs.with(name, e.literal);
  return complete_attrs(op_def(p.op), attrs).value_or_throw();
}

bool is_literal(const Pattern& p) {
  return std::all_of(p.attrs.begin(), p.attrs.end(),
                     [](const auto& a) { return a.second.kind == AttrExpr::Kind::literal; });
}

void for_each_node(Pattern& p, const std::function<void(Pattern&)>& visit) {
  if (p.kind == Pattern::Kind::node) visit(p);
  for (Pattern& a : p.args) for_each_node(a, visit);
}

class Generaliser {
 public:
  Generaliser(Equation& e, const Alternatives& alternatives) : e_(e), alternatives_(alternatives) {}

  std::vector<AttrVariable> run() {
    std::vector<AttrVariable> out;
    auto left = literal_nodes(e_.left);
    for (const Pattern& n : left) {
      Attrs record = literal_attrs(n);
      if (op_def(n.op).attrs.size() == 1 || !occurs(e_.right, n.op, record)) continue;
      if (occurs(e_.left, n.op, record)) out.push_back(take_record(n.op, record, out.size()));
    }
    for (const Pattern& n : left) {
      for (const auto& [name, x] : n.attrs) {
        if (n.op == kGetOp || !occurs(e_.left, name, x.literal) ||
            !occurs(e_.right, name, x.literal))
          continue;
        out.push_back(take_entry(name, x.literal, out.size()));
      }
    }
    return out;
  }

 private:
  static std::vector<Pattern> literal_nodes(Pattern& side) {
    std::vector<Pattern> out;
    for_each_node(side, [&](Pattern& n) {
      if (!n.attrs.empty() && is_literal(n)) out.push_back(n);
    });
    return out;
  }

  static bool has(const Pattern& n, OpId op, Attrs record) {
    return n.op == op && !n.attrs.empty() && is_literal(n) && literal_attrs(n) == record;
  }
  // The item of a tuple is no free choice: it goes with the sizes.
  static bool has(const Pattern& n, const std::string& name, const AttrValue& value) {
    return n.op != kGetOp && std::any_of(n.attrs.begin(), n.attrs.end(), [&](const auto& a) {
             return a.first == name && a.second.kind == AttrExpr::Kind::literal &&
                    a.second.literal == value;
           });
  }
  template <class... What>
  static bool occurs(Pattern& side, const What&... what) {
    bool found = false;
    for_each_node(side, [&](Pattern& n) { found = found || has(n, what...); });
    return found;
  }

  AttrVariable take_record(OpId op, Attrs record, size_t number) {
    AttrVariable v{e_.variables.index(str("a", number)), op, {}, record, {}};
    if (auto it = alternatives_.find(op); it != alternatives_.end())
      v.choices.assign(it->second.begin(), it->second.end());
    for (Pattern* side : {&e_.left, &e_.right}) {
      for_each_node(*side, [&](Pattern& n) {
        if (!has(n, op, record)) return;
        n.attrs.clear();
        n.whole = v.variable;
      });
    }
    return v;
  }

  AttrVariable take_entry(const std::string& name, const AttrValue& value, size_t number) {
    AttrVariable v{e_.variables.index(str(name, number)), {}, name, value, {}};
    for (Pattern* side : {&e_.left, &e_.right}) {
      for_each_node(*side, [&](Pattern& n) {
        if (!has(n, name, value)) return;
        for (auto& [entry, x] : n.attrs) {
          if (entry != name || x.kind != AttrExpr::Kind::literal) continue;
          x = {};
          x.kind = AttrExpr::Kind::variable;
          x.variable = v.variable;
        }
        if (auto it = alternatives_.find(n.op); it != alternatives_.end()) {
          for (Attrs record : it->second) v.choices.push_back(*record.find(name));
        }
      });
    }
    return v;
  }

  Equation& e_;
  const Alternatives& alternatives_;
};

}  // namespace

Alternatives alternatives_of(const std::vector<std::string>& operations) {
  Alternatives out;
  for (const std::string& text : operations) {
    Variables variables;
    Pattern p = parse_pattern(text, variables);
    for_each_node(p, [&](Pattern& n) {
      if (n.attrs.empty() || !is_literal(n)) return;
      auto& records = out[n.op];
      Attrs a = literal_attrs(n);
      if (std::find(records.begin(), records.end(), a) == records.end()) records.push_back(a);
    });
  }
  return out;
}

std::vector<AttrVariable> generalise(Equation& e, const Alternatives& alternatives) {
  return Generaliser(e, alternatives).run();
}

void restrict_attribute(Equation& e, const AttrVariable& v, const std::string& entry) {
  AttrExpr kept;
  kept.literal = entry.empty() ? v.own : *v.own.as<Attrs>()->find(entry);
  for (Pattern* side : {&e.left, &e.right}) {
    for_each_node(*side, [&](Pattern& n) {
      if (n.whole == v.variable) n.attrs.emplace_back(entry, kept);
      for (auto& [name, x] : n.attrs) {
        if (x.kind == AttrExpr::Kind::variable && x.variable == v.variable) x = kept;
      }
    });
  }
}

}  // namespace emend
