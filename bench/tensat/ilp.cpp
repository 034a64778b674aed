#include "ilp.h"

#include <algorithm>
#include <cmath>

#include "extract/check.h"
#include "extract/greedy.h"
#include "prices.h"
#include "solve/highs.h"

namespace emend {
namespace {

// x of every node; the roots have one each; who is picked has all children; picked nodes stand
// above their children (t_class - t_child - eps + a (1 - x) >= 0, t real).
LinearModel model_of(const ExtractionProblem& p, bool ordered, double scale) {
  LinearModel m;
  for (double cost : p.cost) {
    bool never = std::isinf(cost);
    m.add_column({.cost = never ? 0 : cost * scale, .upper = never ? 0.0 : 1.0, .integer = true});
  }
  std::vector<LinearModel::Term> row;
  for (uint32_t root : p.roots) {
    row.clear();
    for (uint32_t n : p.nodes(root)) row.push_back({n, 1});
    m.add_row(1, 1, row);
  }
  auto first_level = static_cast<uint32_t>(m.columns.size());
  double step = 1 / (10.0 * static_cast<double>(p.class_count()));
  if (ordered) {
    for (size_t c = 0; c < p.class_count(); ++c) m.add_column({});
  }
  constexpr double kFar = 2;
  for (uint32_t c = 0; c < p.class_count(); ++c) {
    for (uint32_t n : p.nodes(c)) {
      std::vector<uint32_t> children(p.children(n).begin(), p.children(n).end());
      std::sort(children.begin(), children.end());
      children.erase(std::unique(children.begin(), children.end()), children.end());
      for (uint32_t child : children) {
        if (child == c) {
          m.columns[n].upper = 0;  // needs itself
          continue;
        }
        row.clear();
        for (uint32_t other : p.nodes(child)) row.push_back({other, 1});
        row.push_back({n, -1});
        m.add_row(0, kUnbounded, row);
        if (ordered)
          m.add_row(step - kFar, kUnbounded,
                    {{first_level + c, 1}, {first_level + child, -1}, {n, -kFar}});
      }
    }
  }
  return m;
}

}  // namespace

bool ilp_available() {
  return static_cast<bool>(highs_solver());
}

IlpAnswer extract_by_ilp(const ExtractionProblem& p, bool ordered, double seconds) {
  Stopwatch watch;
  IlpAnswer out;
  // Tolerances are absolute: costs are brought to the order of a thousand.
  double greedy = checked_cost(p, greedy_tree(p)).value_or_throw();
  LinearModel model = model_of(p, ordered, 1000 / greedy);
  auto answer = highs_solver()(model, {.seconds = seconds});
  out.seconds = watch.seconds();
  if (!answer) {
    out.fault = answer.error();
    return out;
  }
  out.optimal = answer->outcome == ModelAnswer::optimal;
  if (answer->values.empty()) {
    out.fault = "none in time";
    return out;
  }
  std::vector<uint32_t> choice(p.class_count(), kNoNode);
  for (uint32_t c = 0; c < p.class_count(); ++c) {
    for (uint32_t n : p.nodes(c)) {
      if (choice[c] == kNoNode && answer->values[n] > 0.5) choice[c] = n;
    }
  }
  if (auto cost = checked_cost(p, choice); !cost) {
    out.fault = cost.error();
  } else {
    out.choice = std::move(choice);
  }
  return out;
}

}  // namespace emend
