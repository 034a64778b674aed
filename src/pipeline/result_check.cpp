#include "pipeline/result_check.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <optional>
#include <span>
#include <vector>

#include "base/rng.h"
#include "base/text.h"
#include "equiv/compare.h"
#include "equiv/region.h"

namespace emend {
namespace {

// How much worse than the input the result may be, where rounding says why.
constexpr double kTimes = 4;
// Results that are further from double precision than that say nothing.
constexpr double kMeaningful = 1.0 / 16;

// As powers of two: what is looked at as far as arithmetic allows, with types of few exponents near
// their ends, too; and what else where that says nothing.
constexpr int kUsual[] = {0, -8, 8}, kNarrow[] = {0, -8, 8, 12, 4, -4};
constexpr int kUnusual[] = {-16, 16, -24, 24, -32, 32, -48, 48, -64, 64, -96, 96};

// Two digits: more would say more than a random input can.
std::string error_text(double error) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1e", error);
  return text;
}

bool takes_floats(const Graph& g) {
  return std::ranges::any_of(g.inputs, [&](const GraphInput& i) {
    return g.types[i.node].is_tensor() && is_float(g.types[i.node].dtype);
  });
}

bool is_narrow(const Graph& g) {
  return std::ranges::any_of(g.types, [](const Type& t) {
    return t.is_tensor() && is_float(t.dtype) && highest(t.dtype) < 1e6;
  });
}

// Is there any number in it, or nothing that could be one?
bool is_something(const Value& v) {
  if (!v.is_tensor() || !is_float(v.tensor.dtype()) || v.tensor.count() == 0) return true;
  for (int64_t i = 0; i < v.tensor.count(); ++i) {
    if (std::isfinite(v.tensor.real(i))) return true;
  }
  return false;
}

// The value, but no number wherever the input, as it rounds, has none although there is one.
Value kept(const Value& v, const Value& rounded, const Value& exact) {
  if (!v.is_tensor() || v.tensor.dtype() != DType::f64) return v;
  std::vector<double> values = v.tensor.reals();
  for (size_t i = 0; i < values.size(); ++i) {
    const auto at = static_cast<int64_t>(i);
    if (std::isfinite(exact.tensor.real(at)) && !std::isfinite(rounded.tensor.real(at)))
      values[i] = NAN;
  }
  return Tensor::of_reals(DType::f64, v.tensor.shape(), values);
}

// One output of one draw.
enum class Said : uint8_t { right, wrong, nothing };

// The outputs of both programs on inputs of one scale; what costs a run is computed when it is
// asked for.
class Draw {
 public:
  Draw(const Graph& before, const Graph& after, const ResultCheckOptions& options, double scale)
      : before_(before),
        options_(options),
        scale_(scale),
        inputs_(random_inputs(before, options.seed, scale)) {
    exact_ = reference_outputs(before, inputs_, Arithmetic::real64, options.monitor);
    result_ = reference_outputs(after, inputs_, Arithmetic::own, options.monitor);
  }

  // Was the input itself all right?
  static bool input_runs(const Graph& before, const ResultCheckOptions& options, double scale) {
    try {
      evaluate(before, random_inputs(before, options.seed, scale),
               {.monitor = options.monitor, .phase = "check"});
      return true;
    } catch (const Error&) {
      return false;
    }
  }

  // Of what was judged last: how far it was off, and how far it might have been.
  double error() const { return error_; }
  double allowed() const { return allowed_; }

  Said says(size_t output) {
    if (!is_something(exact_[output])) return Said::nothing;
    if (judged(exact_[output], result_[output], options_.accuracy)) return Said::right;
    const Value rounded = this->rounded()[output];
    const Value exact = kept(exact_[output], rounded, exact_[output]);
    const Value result = kept(result_[output], rounded, exact_[output]);
    const Value own = kept(rounded, rounded, exact_[output]);
    if (!is_something(exact)) return Said::nothing;
    const double lost = difference(exact, own);
    if (!(lost <= kMeaningful)) {
      // A choice may be tipped, a sum cancel: there the input is followed as it rounds, as long as
      // that is something.
      const bool something = !is_float_value(output) || lost < 0.5;
      return something && judged(own, result, options_.accuracy) ? Said::right : Said::nothing;
    }
    const double bound =
        std::max(options_.accuracy + std::max(lost, one_place(output)), kTimes * lost);
    const bool usual = scale_ == 1 || lost <= options_.accuracy + as_stored(output);
    if (judged(exact, result, bound)) return Said::right;
    // Next to a choice, or where it cancels, any rounding may show.
    const double moved = sensitivity(output, rounded);
    if (!(moved <= kMeaningful)) return Said::nothing;
    if (judged(exact, result, std::max(bound, kTimes * moved))) return Said::right;
    // Inputs of another scale show what is wrong where the program is as exact as its type.
    return !usual || (std::isinf(error_) && ends_near(output)) ? Said::nothing : Said::wrong;
  }

  bool same_bits(size_t output) { return judged(rounded()[output], result_[output], 0); }

 private:
  double difference(const Value& a, const Value& b) const {
    return worst_difference(before_, {&a, 1}, {&b, 1}).rel;
  }

  bool judged(const Value& wanted, const Value& got, double allowed) {
    error_ = difference(wanted, got);
    allowed_ = allowed;
    return error_ <= allowed;
  }

  bool is_float_value(size_t output) const {
    const Type& t = before_.types[before_.outputs[output].node];
    return t.is_tensor() && is_float(t.dtype);
  }

  // A unit in the last place of the largest value: the input itself may happen to be closer.
  double one_place(size_t output) const {
    const Type& t = before_.types[before_.outputs[output].node];
    return is_float_value(output) ? std::exp2(1 - significant_bits(t.dtype)) : 0;
  }

  // An error that one or a few roundings make.
  double as_stored(size_t output) const {
    const Type& t = before_.types[before_.outputs[output].node];
    return t.is_tensor() ? 16 * std::exp2(-significant_bits(t.dtype)) : 0;
  }

  const std::vector<Value>& rounded() {
    if (rounded_.empty())
      rounded_ = reference_outputs(before_, inputs_, Arithmetic::own, options_.monitor);
    return rounded_;
  }

  // How far outputs move where inputs and constants move by what their types round away: constants
  // show the steps behind one that takes up what inputs move by.
  double sensitivity(size_t output, const Value& rounded) {
    if (moved_.empty()) move();
    const Value& exact = exact_[output];
    // A trial that has no numbers left (the arc cosine of a little more than 1) says nothing.
    std::optional<double> most;
    for (const std::vector<Value>& moved : moved_) {
      const double by =
          difference(kept(exact, rounded, exact), kept(moved[output], rounded, exact));
      if (std::isfinite(by)) most = std::max(most.value_or(0), by);
    }
    return most.value_or(INFINITY);
  }

  void move() {
    constexpr uint64_t kTrials = 4;
    for (uint64_t trial = 0; trial < kTrials; ++trial) {
      if (!moved_.empty() && options_.monitor.stop_requested()) break;
      std::vector<Value> near;
      for (size_t i = 0; i < inputs_.size(); ++i)
        near.push_back(nudged(inputs_[i].tensor, kTimes, trial, i));
      // A negative number to nearly the power of 2 is none, and says nothing.
      for (bool whole_moves : {true, false}) {
        try {
          auto outputs = reference_outputs(with_constants_nudged(trial, whole_moves), near,
                                           Arithmetic::real64, options_.monitor);
          const bool lost = loses_numbers(outputs);
          moved_.push_back(std::move(outputs));
          if (!lost) break;
        } catch (const Error&) {  // nor does one that cannot be run
        }
      }
    }
  }

  Graph with_constants_nudged(uint64_t trial, bool whole_moves) const {
    Graph other = before_;
    for (size_t c = 0; c < other.constants.size(); ++c) {
      Tensor& t = other.constants[ConstId(c)];
      // Constants of narrow types move by one unit in the last place, as what is computed of
      // them beforehand is rounded once: more moves everything, and hides what is wrong.
      const double roundings = info(t.dtype()).bits >= 32 ? kTimes : 1;
      t = nudged(t, roundings, trial, inputs_.size() + c, whole_moves);
    }
    return other;
  }

  // Are some of these none, where there are numbers?
  bool loses_numbers(const std::vector<Value>& outputs) const {
    for (size_t k = 0; k < outputs.size(); ++k) {
      if (!outputs[k].is_tensor() || outputs[k].tensor.dtype() != DType::f64) continue;
      const Tensor &exact = exact_[k].tensor, &moved = outputs[k].tensor;
      for (int64_t i = 0; i < std::min(exact.count(), moved.count()); ++i)
        if (std::isfinite(exact.real(i)) && !std::isfinite(moved.real(i))) return true;
    }
    return false;
  }

  // The input overflows, too, where its own is a little larger. Sums that cancel reach further on
  // the way than in the end, and have no room left here; those of few exponents are wider inside.
  bool ends_near(size_t output) {
    constexpr double kRoom = 0x1p10;
    if (is_narrow(before_)) return false;
    auto larger = random_inputs(before_, options_.seed, kRoom * scale_);
    auto exact = reference_outputs(before_, larger, Arithmetic::real64, options_.monitor);
    auto own = reference_outputs(before_, larger, Arithmetic::own, options_.monitor);
    return std::isinf(difference(exact[output], own[output]));
  }

  Tensor nudged(const Tensor& t, double roundings, uint64_t trial, uint64_t stream,
                bool whole_moves = true) const {
    if (!is_float(t.dtype()) || info(t.dtype()).bits < 16) return t;
    const double by = roundings * std::exp2(-significant_bits(t.dtype()));
    return Tensor::make(t.dtype(), t.shape(), [&](std::byte* to) {
      for (int64_t i = 0; i < t.count(); ++i) {
        auto at = static_cast<uint64_t>(i);
        double sign = random_bits(options_.seed + 1 + trial, stream, at) % 2 ? 1 : -1;
        if (!whole_moves && t.real(i) == std::round(t.real(i))) sign = 0;
        store_real(t.dtype(), to, static_cast<size_t>(i), t.real(i) * (1 + sign * by));
      }
    });
  }

  static int significant_bits(DType t) {
    return t == DType::f64 ? 53 : t == DType::f32 ? 24 : t == DType::f16 ? 11 : 8;
  }

  const Graph& before_;
  const ResultCheckOptions& options_;
  double scale_;
  std::vector<Value> inputs_, exact_, result_, rounded_;
  std::vector<std::vector<Value>> moved_;  // trial by trial
  double error_ = 0, allowed_ = 0;
};

// What all draws said of every output.
class Comparison {
 public:
  Comparison(const Graph& before, const Graph& after, const ResultCheckOptions& options)
      : before_(before),
        after_(after),
        options_(options),
        said_(before.outputs.size(), false),
        same_(before.outputs.size(), true) {
    checked_.kind = Checked::Kind::passed;
  }

  Checked made() {
    const bool scaled = takes_floats(before_);
    const double operations = operation_count(before_);
    double spent = 0;
    const auto usual = is_narrow(before_) ? std::span<const int>(kNarrow) : kUsual;
    for (int power : usual) {
      // An interruption waits for one draw only.
      const bool enough = !scaled || spent + operations > options_.max_operations ||
                          options_.monitor.stop_requested();
      if (power != 0 && enough) break;
      spent += operations;
      if (!looked_at(std::exp2(power))) return checked_;
    }
    for (int power : kUnusual) {
      if (!scaled || missing().empty()) break;
      if (!looked_at(std::exp2(power))) return checked_;
    }
    conclude();
    return checked_;
  }

  double scale() const { return scale_; }

 private:
  // False: something is wrong. Inputs of another scale may be none that the program takes.
  bool looked_at(double scale) {
    scale_ = scale;
    try {
      return agrees(Draw(before_, after_, options_, scale));
    } catch (const Error&) {
      if (scale == 1 || Draw::input_runs(before_, options_, scale)) throw;
      return true;
    }
  }

  bool agrees(Draw draw) {
    for (size_t i = 0; i < said_.size(); ++i) {
      const bool bits = options_.accuracy == 0;
      Said says = !bits ? draw.says(i) : draw.same_bits(i) ? Said::right : Said::wrong;
      if (says == Said::nothing) same_[i] = same_[i] && draw.same_bits(i);
      if (says == Said::nothing) continue;
      said_[i] = true;
      const double error = draw.error();
      if (checked_.output.empty() || error > checked_.max_rel_err || says == Said::wrong) {
        checked_.output = before_.outputs[i].name;
        checked_.max_rel_err = error;
      }
      allowed_ = std::max(allowed_, draw.allowed());
      if (says == Said::right) continue;
      checked_.kind = Checked::Kind::failed;
      checked_.reason =
          bits ? str("output ", checked_.output, " has other bits", at_scale())
               : str("output ", checked_.output, " has an error of ", error_text(error),
                     " relative to its largest value, against double precision", at_scale(), "; ",
                     error_text(draw.allowed()), " is allowed");
      return false;
    }
    return true;
  }

  std::string at_scale() const {
    return scale_ == 1 ? "" : str(", for inputs of scale ", error_text(scale_));
  }

  std::vector<size_t> missing() const {
    std::vector<size_t> none;
    for (size_t i = 0; i < said_.size(); ++i) {
      if (!said_[i]) none.push_back(i);
    }
    return none;
  }

  void conclude() {
    for (size_t i : missing()) {
      if (same_[i]) continue;
      checked_.kind = Checked::Kind::failed;
      checked_.output = before_.outputs[i].name;
      checked_.max_rel_err = INFINITY;
      checked_.reason = str("output ", checked_.output,
                            " could not be compared: the input overflows, underflows or loses it "
                            "to rounding whatever the scale of what it is given, and the result "
                            "has other bits");
      return;
    }
    checked_.reason =
        options_.accuracy == 0 ? std::string("the same bits, in the model's own number formats")
        : missing().size() == said_.size() && !said_.empty()
            ? std::string("the same bits, where double precision says nothing of them")
            : str("error of ", error_text(checked_.max_rel_err),
                  " relative to the largest value, against double precision; ",
                  error_text(std::max(allowed_, options_.accuracy)), " is allowed");
  }

  const Graph &before_, &after_;
  const ResultCheckOptions& options_;
  std::vector<char> said_, same_;  // by output: something was said; never was it other bits
  Checked checked_;
  double allowed_ = 0, scale_ = 1;
};

}  // namespace

bool can_be_compared(const Graph& before, const ResultCheckOptions& options) {
  return operation_count(before) <= options.max_operations;
}

Checked compare_results(const Graph& before, const Graph& after,
                        const ResultCheckOptions& options) {
  if (!can_be_compared(before, options)) {
    return {.reason = str("not run: ", count_text(operation_count(before)),
                          "FLOP are more than the limit of ", count_text(options.max_operations),
                          "FLOP")};
  }
  Comparison comparison(before, after, options);
  try {
    return comparison.made();
  } catch (const Inexact& e) {
    return {.reason = str("not run: ", e.what())};
  } catch (const Error& e) {
    // What fails only after the changes is wrong, not unknown.
    bool wrong = Draw::input_runs(before, options, comparison.scale());
    return {.kind = wrong ? Checked::Kind::failed : Checked::Kind::not_run,
            .reason = str(wrong ? "the result does not run: " : "not run: ", e.what())};
  }
}

}  // namespace emend
