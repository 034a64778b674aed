#include "ops/meaning_runs.h"

namespace emend {
namespace {

// Coefficients per iterator, output first.
Dims coefficients(const Linear& l, size_t iterators) {
  Dims c(iterators, 0);
  for (auto [k, coef] : l.terms) c[static_cast<size_t>(k)] += coef;
  return c;
}

struct Form {
  int64_t constant = 0;
  Dims coef;
};

}  // namespace

bool uses_iterators(const Meaning& m) {
  auto uses = [](const Scalar& s) {
    return std::any_of(s.code.begin(), s.code.end(),
                       [](const Instr& i) { return i.fn == Fn::iter; });
  };
  return uses(m.body) || uses(m.finish);
}

std::optional<RunPlan> plan_runs(const Meaning& m, std::span<const Stored> operands) {
  const Dims extents = m.extents();
  const size_t n_out = m.out.size(), n_all = extents.size();
  // All linear forms that a run must step through evenly: per read its offset and those of its
  // indices that have a border, then the iterators.
  std::vector<Form> forms;
  std::vector<std::vector<int64_t>> border_extents;
  for (const Read& r : m.reads) {
    const Stored& operand = operands[static_cast<size_t>(r.operand)];
    Form offset{.coef = Dims(n_all, 0)};
    std::vector<Form> borders;
    border_extents.emplace_back();
    for (size_t d = 0; d < r.index.size(); ++d) {
      if (!r.index[d].is_affine()) return std::nullopt;
      const Linear& l = r.index[d].affine;
      Dims coef = coefficients(l, n_all);
      offset.constant += l.constant * operand.strides[d];
      for (size_t k = 0; k < n_all; ++k) offset.coef[k] += coef[k] * operand.strides[d];
      auto [low, high] = range(l, extents);
      if (low >= 0 && high < operand.shape[d]) continue;
      if (!r.outside) return std::nullopt;
      borders.push_back({l.constant, std::move(coef)});
      border_extents.back().push_back(operand.shape[d]);
    }
    forms.push_back(std::move(offset));
    forms.insert(forms.end(), borders.begin(), borders.end());
  }
  bool iterators = uses_iterators(m);
  for (size_t k = 0; k < n_out && iterators; ++k) {
    forms.push_back({0, Dims(n_all, 0)});
    forms.back().coef[k] = 1;
  }

  // Joins neighbouring output dimensions wherever every form allows it.
  std::vector<size_t> last;  // of the iterators joined: it has the step
  Dims joined;
  for (size_t k = 0; k < n_out; ++k) {
    if (m.out[k] == 1) continue;
    bool join = !last.empty() && std::all_of(forms.begin(), forms.end(), [&](const Form& f) {
      return f.coef[last.back()] == f.coef[k] * m.out[k];
    });
    if (join) {
      joined.back() *= m.out[k];
      last.back() = k;
    } else {
      joined.push_back(m.out[k]);
      last.push_back(k);
    }
  }
  RunPlan plan;
  if (!joined.empty()) {
    plan.length = joined.back();
    plan.outer.assign(joined.begin(), joined.end() - 1);
  }
  auto cut = [&](const Form& f) {
    RunForm r{.constant = f.constant};
    for (size_t k : last) r.outer.push_back(f.coef[k]);
    if (!r.outer.empty()) {
      r.step = r.outer.back();
      r.outer.pop_back();
    }
    r.reduced.assign(f.coef.begin() + static_cast<int64_t>(n_out), f.coef.end());
    return r;
  };
  size_t next = 0;
  for (const auto& extents_of_read : border_extents) {
    RunPlan::RunRead read{.offset = cut(forms[next++])};
    for (int64_t extent : extents_of_read) read.borders.push_back({cut(forms[next++]), extent});
    plan.reads.push_back(std::move(read));
  }
  while (next < forms.size()) plan.iterators.push_back(cut(forms[next++]));
  return plan;
}

}  // namespace emend
