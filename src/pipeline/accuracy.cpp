#include "pipeline/accuracy.h"

#include <algorithm>

#include "base/error.h"
#include "base/text.h"
#include "equiv/compare.h"
#include "equiv/region.h"

namespace emend {

std::vector<Value> as_doubles(std::vector<Value> values) {
  for (Value& v : values) {
    if (v.is_tensor()) v = converted(v.tensor, Arithmetic::real64);
    v.items = as_doubles(std::move(v.items));
  }
  return values;
}

std::vector<Value> reference_outputs(const Graph& g, std::span<const Value> inputs, Arithmetic a,
                                     const Monitor& monitor) {
  std::vector<Value> stored;
  for (const Value& v : inputs) stored.push_back(v.is_tensor() ? Value(converted(v.tensor, a)) : v);
  return as_doubles(evaluate(g, stored, {.arithmetic = a, .monitor = monitor, .phase = "check"}));
}

Accuracy accuracy_of(const Graph& g, std::span<const Value> inputs,
                     const std::vector<Value>& outputs, const Monitor& monitor,
                     double max_operations) {
  double operations = operation_count(g);
  if (operations > max_operations) {
    return {.reason = str(count_text(operations), "FLOP are more than the limit of ",
                          count_text(max_operations), "FLOP")};
  }
  Accuracy a;
  try {
    auto exact = reference_outputs(g, inputs, Arithmetic::real64, monitor);
    auto result = as_doubles(outputs);
    a.known = true;
    for (size_t i = 0; i < exact.size(); ++i) {
      auto worst = worst_difference(g, {&exact[i], 1}, {&result[i], 1});
      a.max_abs_err = std::max(a.max_abs_err, worst.abs);
      if (a.output.empty() || worst.rel > a.max_rel_err) {
        a.max_rel_err = worst.rel;
        a.output = g.outputs[i].name;
      }
    }
  } catch (const Inexact& e) {
    a.reason = e.what();
  } catch (const Error& e) {
    a.reason = e.what();
  }
  return a;
}

}  // namespace emend
