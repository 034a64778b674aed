#include "synthesize/condition.h"

namespace emend {

bool is_true(const Conjunct& a, const Equation& e, const std::vector<AttrVariable>& attrs,
             const Trial& t) {
  if (a.attr >= 0) {
    auto i = static_cast<size_t>(a.attr);
    if (a.name.empty()) return t.attrs[i] == attrs[i].own;
    return *t.attrs[i].as<Attrs>()->find(a.name) == *attrs[i].own.as<Attrs>()->find(a.name);
  }
  auto v = value_of(a.guard, as_rule(e), t.substitution, facts_of(t.types));
  return v && v->as<bool>() && *v->as<bool>();
}

namespace {

// What conditions may say, simplest first.
std::vector<Conjunct> vocabulary(const Equation& e, const std::vector<AttrVariable>& attrs) {
  std::vector<Conjunct> out;
  Variables v = e.variables;
  auto add = [&](const std::string& guard) { out.push_back({parse_expr(guard, v)}); };
  for (size_t i = 0; i < attrs.size(); ++i) {
    auto number = static_cast<int>(i);
    if (!attrs[i].entry.empty()) out.push_back({{}, number, {}});
    if (const Attrs* record = attrs[i].own.as<Attrs>(); record && attrs[i].entry.empty()) {
      for (const auto& [name, value] : record->entries()) out.push_back({{}, number, name});
    }
  }
  for (size_t i = 0; i < attrs.size(); ++i) {
    for (size_t j = i + 1; j < attrs.size(); ++j) {
      if (attrs[i].entry == "axis" && attrs[j].entry == "axis")
        add(str("(different_axes ?", v.names[static_cast<size_t>(attrs[i].variable)], " ?",
                v.names[static_cast<size_t>(attrs[j].variable)], " ?", e.operands[0].name, ")"));
    }
  }
  std::string all;
  for (const Input& in : e.operands) all += " ?" + in.name;
  for (size_t i = 0; i < e.operands.size(); ++i) {
    const Input& x = e.operands[i];
    add(str("(single ?", x.name, ")"));
    for (size_t j = i + 1; j < e.operands.size(); ++j)
      add(str("(same_shape ?", x.name, " ?", e.operands[j].name, ")"));
  }
  if (e.operands.size() > 2) add("(same_shape" + all + ")");
  for (const Input& x : e.operands) add(str("(has_rank ?", x.name, " ", x.extents.size(), ")"));
  for (size_t i = 0; i < e.operands.size(); ++i) {
    for (size_t j = i; j < e.operands.size(); ++j) {
      for (size_t k = 0; k < e.operands[i].extents.size(); ++k) {
        for (size_t l = 0; l < e.operands[j].extents.size(); ++l) {
          if ((i == j && k >= l) || e.operands[i].extents[k] != e.operands[j].extents[l]) continue;
          add(str("(equal (dim ?", e.operands[i].name, " ", k, ") (dim ?", e.operands[j].name, " ",
                  l, "))"));
        }
      }
    }
  }
  return out;
}

class Separator {
 public:
  Separator(const Equation& e, const std::vector<AttrVariable>& attrs,
            const std::vector<Trial>& trials, int conjuncts)
      : trials_(trials), conjuncts_(static_cast<size_t>(conjuncts)) {
    for (Conjunct& a : vocabulary(e, attrs)) {
      std::vector<bool> row;
      bool possible = true, useful = false;
      for (const Trial& t : trials) {
        row.push_back(is_true(a, e, attrs, t));
        possible = possible && (row.back() || !t.base);
        useful = useful || (!row.back() && !t.equal);
      }
      if (!possible || !useful) continue;
      atoms_.push_back(std::move(a));
      rows_.push_back(std::move(row));
    }
  }

  // nullopt where no conjunction of so many keeps every failure out.
  std::optional<std::vector<Conjunct>> separate() {
    for (size_t n = 0; n <= conjuncts_; ++n) {
      best_passes_ = 0;
      search(0, n, std::vector<bool>(trials_.size(), true));
      if (best_passes_ > 0) {
        std::vector<Conjunct> out;
        for (size_t i : best_) out.push_back(atoms_[i]);
        return out;
      }
    }
    return std::nullopt;
  }

 private:
  void search(size_t from, size_t more, const std::vector<bool>& kept) {
    if (more == 0) {
      int passes = 0;
      for (size_t t = 0; t < trials_.size(); ++t) {
        if (kept[t] && !trials_[t].equal) return;
        passes += kept[t];
      }
      // Single sizes fit what was seen too well: they must keep more than what says as much in
      // general.
      for (size_t i : chosen_) passes -= atoms_[i].guard.function == "equal" ? passes / 3 : 0;
      if (passes > best_passes_) {
        best_passes_ = passes;
        best_ = chosen_;
      }
      return;
    }
    for (size_t i = from; i < atoms_.size(); ++i) {
      std::vector<bool> rest(kept.size());
      for (size_t t = 0; t < kept.size(); ++t) rest[t] = kept[t] && rows_[i][t];
      chosen_.push_back(i);
      search(i + 1, more - 1, rest);
      chosen_.pop_back();
    }
  }

  const std::vector<Trial>& trials_;
  size_t conjuncts_;
  std::vector<Conjunct> atoms_;
  std::vector<std::vector<bool>> rows_;
  std::vector<size_t> best_, chosen_;
  int best_passes_ = 0;
};

}  // namespace

std::optional<std::vector<Conjunct>> find_condition(const Equation& e,
                                                    const std::vector<AttrVariable>& attrs,
                                                    const std::vector<Trial>& trials,
                                                    int conjuncts) {
  return Separator(e, attrs, trials, conjuncts).separate();
}

void restrict_equation(Equation& e, const std::vector<AttrVariable>& attrs,
                       const std::vector<Conjunct>& condition) {
  for (const Conjunct& c : condition) {
    if (c.attr < 0)
      e.where.push_back(c.guard);
    else
      restrict_attribute(e, attrs[static_cast<size_t>(c.attr)], c.name);
  }
}

}  // namespace emend
