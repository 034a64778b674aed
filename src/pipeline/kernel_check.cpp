#include "pipeline/kernel_check.h"

#include <algorithm>
#include <cmath>
#include <fstream>

#include "base/contained.h"
#include "base/hash.h"
#include "base/rng.h"
#include "base/text.h"
#include "kernels/group.h"
#include "kernels/nest_eval.h"
#include "ops/evaluate.h"
#include "run/repack.h"

namespace emend {
namespace {

constexpr int kSamples = 64;

// Of what is accepted: verdicts of another check are none.
constexpr int kCheckVersion = 2;

// Points of the space: its corners first, then places in between.
std::vector<Dims> sample_points(const Nest& nest) {
  Rng rng(7);
  std::vector<Dims> points;
  size_t rank = nest.space.size();
  size_t corners = std::min<size_t>(size_t{1} << std::min<size_t>(rank, 5), kSamples / 2);
  for (int s = 0; s < kSamples; ++s) {
    Dims p;
    for (size_t k = 0; k < rank; ++k) {
      int64_t last = nest.math.extent(nest.space[k]) - 1;
      bool corner = static_cast<size_t>(s) < corners;
      p.push_back(corner ? (static_cast<size_t>(s) >> k & 1 ? last : 0) : rng.between(0, last));
    }
    points.push_back(std::move(p));
  }
  return points;
}

double allowed(DType t, double accuracy) {
  if (t == DType::f16) return accuracy + 0x1p-9;
  if (t == DType::bf16) return accuracy + 0x1p-6;
  return is_float(t) ? accuracy : 0;
}

struct Sample {
  int64_t place = 0;  // the element's number
  double wanted = 0;
  double other = 0, another = 0;  // what is as right, where the value lies next to a tie
};
using Samples = std::vector<Sample>;

// The nest with everything that is rounded to whole numbers moved by a little before; none if there
// is no such thing.
std::optional<Nest> nudged(const Nest& nest, double by) {
  Nest other = nest;
  bool rounds = false;
  for (NestValue& v : other.values) {
    // The operator by itself: rounding inside of larger bodies has no name of its own there.
    if (v.kind != NestValue::Kind::compute || v.body != call(Fn::round, arg(0))) continue;
    v.body = call(Fn::round, arg(0) + Scalar(by));
    rounds = true;
  }
  return rounds ? std::optional(std::move(other)) : std::nullopt;
}

// What a nest makes at some points, for every output. A quantised value is a float that was rounded
// to a whole number: next to a tie either neighbour is right, if the float is as accurate as it
// must be, relative to the largest number of the output's type.
std::vector<Samples> samples_of(const Nest& nest, std::span<const std::byte* const> loads,
                                const Graph& group, double accuracy) {
  std::vector<Samples> all(nest.stores.size());
  NestPoints exact(nest, loads);
  auto points = sample_points(nest);
  for (const NestStore& store : nest.stores) {
    auto& samples = all[static_cast<size_t>(store.buffer)];
    DType dtype = group.type(group.outputs[static_cast<size_t>(store.buffer)].node).dtype;
    bool whole = is_integer(dtype) && info(dtype).bits <= 16;
    auto below = whole ? nudged(nest, -accuracy * highest(dtype)) : std::nullopt,
         above = whole ? nudged(nest, accuracy * highest(dtype)) : std::nullopt;
    auto at = [&](const std::optional<Nest>& other, const Dims& p, double wanted) {
      return other ? NestPoints(*other, loads).stored(store, p) : wanted;
    };
    for (const Dims& p : points) {
      double wanted = exact.stored(store, p);
      samples.push_back(
          {exact.place(store, p), wanted, at(below, p, wanted), at(above, p, wanted)});
    }
  }
  return all;
}

// By the reference; none if the data is wrong.
std::optional<std::vector<Value>> outputs_of(const Graph& group,
                                             std::span<const std::byte* const> loads,
                                             Arithmetic arithmetic) {
  std::vector<Value> in;
  for (size_t i = 0; i < loads.size(); ++i) {
    const Type& t = group.type(group.inputs[i].node);
    size_t bytes = storage_bytes(t.dtype, static_cast<uint64_t>(count(t.shape))).value_or(0);
    Tensor value =
        Tensor::make(t.dtype, t.shape, [&](std::byte* to) { std::copy_n(loads[i], bytes, to); });
    in.emplace_back(converted(value, arithmetic));
  }
  try {
    return evaluate(group, in, {.arithmetic = arithmetic});
  } catch (const Error&) {
    return std::nullopt;
  }
}

// All elements: of groups whose steps depend on one another. None if the data is wrong: the kernel
// tells so itself, but was compared with nothing.
std::optional<std::vector<Samples>> samples_of(const Graph& group,
                                               std::span<const std::byte* const> loads) {
  auto made = outputs_of(group, loads, Arithmetic::real64);
  if (!made) return std::nullopt;
  std::vector<Samples> all(group.outputs.size());
  for (size_t o = 0; o < made->size(); ++o) {
    for (int64_t i = 0; i < (*made)[o].tensor.count(); ++i) {
      double wanted = (*made)[o].tensor.real(i);
      all[o].push_back({i, wanted, wanted, wanted});
    }
  }
  return all;
}

// Where terms cancel until little is left of them, what rounding them may leave: some times what
// the reference loses where it rounds as the element types do. Else nothing: an accuracy that no
// float has is not met by floats.
double left_by_rounding(const Samples& samples, const Tensor& own) {
  constexpr double kTimes = 4, kLittle = 1e3;
  double worst = 0, largest = 0;
  for (const Sample& s : samples) {
    double error = std::abs(s.wanted - own.real(s.place));
    if (std::isfinite(error)) worst = std::max(worst, error);
    if (std::isfinite(s.wanted)) largest = std::max(largest, std::abs(s.wanted));
  }
  return largest < kLittle * worst ? kTimes * worst : 0;
}

// The worst sample of an output, if it is not accepted.
std::optional<KernelFault> fault_among(const Samples& samples, size_t output, DType dtype,
                                       const std::byte* data, double accuracy,
                                       double acceptable = 0) {
  double worst = 0, largest = 0;
  int64_t at = 0;
  for (auto [place, wanted, other, another] : samples) {
    double got = load_real(dtype, data, static_cast<size_t>(place));
    if (std::isfinite(wanted)) largest = std::max(largest, std::abs(wanted));
    if ((std::isnan(wanted) && std::isnan(got)) || wanted == got) continue;
    if (got == other || got == another) continue;
    // What overflows the type is infinite there.
    if (std::isinf(got) && std::abs(wanted) > highest(dtype)) continue;
    double error = std::isnan(got) || std::isnan(wanted) ? INFINITY : std::abs(wanted - got);
    if (error > worst) worst = error, at = place;
  }
  double scale = std::max(largest, 1e-30);
  if (worst <= std::max(allowed(dtype, accuracy) * scale, acceptable)) return std::nullopt;
  return KernelFault{0, worst / scale, str("output ", output, ", element ", at)};
}

// Without those that are no number by plain arithmetic in the element types, although double
// precision has one or an infinity: they were lost on the way to where nobody can say what is
// right.
Samples without_lost(Samples samples, const Tensor& own, DType dtype, const std::byte* data) {
  std::erase_if(samples, [&](const Sample& s) {
    const double plain = own.real(s.place);
    const bool lost = std::isfinite(s.wanted) ? !std::isfinite(plain) : std::isnan(plain);
    return lost && !std::isfinite(load_real(dtype, data, static_cast<size_t>(s.place)));
  });
  return samples;
}

struct Verdict {
  bool known = true;  // false: there was nothing to compare with
  std::optional<KernelFault> fault;
};

Verdict verdict_on(const Graph& g, const Step& step, std::span<void* const> buffers,
                   double accuracy) {
  std::vector<const std::byte*> loads;
  for (size_t i = 0; i < step.sources.size(); ++i) {
    // A constant may be packed: the kernel's own copy is not in the graph's order.
    NodeId s = storage_of(g, step.sources[i]);
    loads.push_back(g.is_constant(s) ? g.constant(s).data()
                                     : static_cast<const std::byte*>(buffers[i]));
  }
  auto nest = nest_of(step.computes);
  auto samples = nest ? std::optional(samples_of(*nest, loads, step.computes, accuracy))
                      : samples_of(step.computes, loads);
  if (!samples) return {.known = false, .fault = {}};
  std::optional<std::vector<Value>> plain;
  bool known = true;
  for (size_t o = 0; o < samples->size(); ++o) {
    DType dtype = step.computes.type(step.computes.outputs[o].node).dtype;
    const auto* data = static_cast<const std::byte*>(buffers[loads.size() + o]);
    if (!fault_among((*samples)[o], o, dtype, data, accuracy)) continue;
    if (!plain) plain = outputs_of(step.computes, loads, Arithmetic::own);
    double rounding = 0;
    Samples judged = (*samples)[o];
    if (plain && is_float(dtype)) {
      judged = without_lost(std::move(judged), (*plain)[o].tensor, dtype, data);
      known &= !judged.empty();
      rounding = left_by_rounding(judged, (*plain)[o].tensor);
    }
    if (auto fault = fault_among(judged, o, dtype, data, accuracy, rounding)) return {true, fault};
  }
  return {known, {}};
}

// How the weights that a step loads were stored, as text: a kernel is right together with them.
std::string packed(const Program& p, const Step& step) {
  std::string text = str(" packed ", kRepackingVersion);
  auto add = [&](const auto& numbers) {
    for (auto n : numbers) text += str(" ", n);
    text += ";";
  };
  for (BufferId b : step.loads) {
    const Buffer& buffer = p.buffers[b];
    if (buffer.place != Buffer::Place::weight || !p.weights[buffer.index].packing) continue;
    const Repacking& r = *p.weights[buffer.index].packing;
    add(r.extents);
    add(r.strides);
    for (const auto& l : r.limits) add(l.coefs), add(Dims{l.constant, l.extent});
    for (const auto& m : r.matrices) add(Dims{m.rows, m.columns}), add(m.elements);
    add(Dims{r.first, r.inner});
  }
  return text;
}

// Which loads a step writes over, as text: right apart is not yet right in place.
std::string overwritten(const Program& p, const Step& step) {
  std::string text;
  for (size_t i = 0; i < step.loads.size(); ++i) {
    const Buffer& from = p.buffers[step.loads[i]];
    bool over = std::ranges::any_of(step.stores, [&](BufferId b) {
      const Buffer& to = p.buffers[b];
      return from.place == Buffer::Place::arena && to.place == from.place &&
             to.offset == from.offset;
    });
    if (over) text += str(" over ", i);
  }
  return text;
}

}  // namespace

KernelChecks check_kernels(const Graph& g, const CpuProgram& program, std::span<const Value> inputs,
                           double accuracy) {
  KernelChecks result;
  const Program& p = program.program();
  std::vector<std::filesystem::path> verdicts(p.steps.size());
  bool all_known = true;
  for (size_t s = 0; s < p.steps.size(); ++s) {
    if (p.steps[s].kind != Step::Kind::launch) continue;
    uint64_t key = hash_text(p.kernels[p.steps[s].kernel].text, program.kernels().machine);
    key = hash_mix(key, hash(p.steps[s].computes));
    key = hash_text(str(kCheckVersion, " ", accuracy, " ", p.steps[s].tasks,
                        overwritten(p, p.steps[s]), packed(p, p.steps[s])),
                    key);
    verdicts[s] = program.kernels().folder / str("checked-", key);
    all_known = all_known && std::filesystem::exists(verdicts[s]);
  }
  if (all_known) {
    result.known = static_cast<int>(p.steps.size());
    return result;
  }
  size_t seen = 0;
  auto look = [&](size_t s, std::span<void* const> buffers) {
    ++seen;
    if (verdicts[s].empty()) return;
    if (std::filesystem::exists(verdicts[s])) {
      ++result.known;
      return;
    }
    Verdict verdict;
    auto fault = fault_of([&] { verdict = verdict_on(g, p.steps[s], buffers, accuracy); });
    if (fault || !verdict.known) {
      result.unchecked.push_back(
          {s, fault ? *fault : "its data is wrong, or overflows at every scale"});
      return;
    }
    ++result.checked;
    if (verdict.fault) {
      verdict.fault->step = s;
      result.faults.push_back(*verdict.fault);
    } else {
      std::ofstream(verdicts[s]) << "ok\n";
    }
    for (NodeId n : p.steps[s].sources) {
      NodeId stored = storage_of(g, n);
      if (g.is_constant(stored)) g.constant(stored).drop_pages();
    }
  };
  try {
    program.run_observed(inputs, look);
  } catch (const Error&) {
    // Data that names elements outside of a tensor is told at the end: every step was looked at.
    if (seen < p.steps.size()) throw;
  }
  return result;
}

}  // namespace emend
