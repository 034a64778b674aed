#include "pipeline/kernel_check.h"

#include <algorithm>
#include <cmath>
#include <fstream>

#include "base/hash.h"
#include "base/rng.h"
#include "base/text.h"
#include "kernels/group.h"
#include "kernels/nest_eval.h"

namespace emend {
namespace {

constexpr int kSamples = 64;

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

// The worst sample of a step, if it is not accepted.
std::optional<KernelFault> fault_of(const Graph& g, const Step& step,
                                    std::span<void* const> buffers, double accuracy) {
  Nest nest = nest_of(step.computes).value_or_throw();
  std::vector<const std::byte*> loads;
  for (size_t i = 0; i < step.sources.size(); ++i) {
    // A constant may be packed: the kernel's own copy is not in the graph's order.
    NodeId s = storage_of(g, step.sources[i]);
    loads.push_back(g.is_constant(s) ? g.constant(s).data()
                                     : static_cast<const std::byte*>(buffers[i]));
  }
  NestPoints exact(nest, loads);
  auto points = sample_points(nest);
  for (const NestStore& store : nest.stores) {
    auto number = static_cast<size_t>(store.buffer);
    DType dtype = step.computes.type(step.computes.outputs[number].node).dtype;
    const auto* data = static_cast<const std::byte*>(buffers[loads.size() + number]);
    double worst = 0, largest = 0;
    int64_t at = 0;
    for (const Dims& p : points) {
      double wanted = exact.stored(store, p);
      int64_t place = exact.place(store, p);
      double got = load_real(dtype, data, static_cast<size_t>(place));
      if (std::isfinite(wanted)) largest = std::max(largest, std::abs(wanted));
      if ((std::isnan(wanted) && std::isnan(got)) || wanted == got) continue;
      // What overflows the type is infinite there.
      if (std::isinf(got) && std::abs(wanted) > highest(dtype)) continue;
      double error = std::isnan(got) || std::isnan(wanted) ? INFINITY : std::abs(wanted - got);
      if (error > worst) worst = error, at = place;
    }
    double scale = std::max(largest, 1e-30);
    if (!(worst <= allowed(dtype, accuracy) * scale)) {
      return KernelFault{0, worst / scale, str("output ", store.buffer, ", element ", at)};
    }
  }
  return std::nullopt;
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
    key = hash_text(str(accuracy, " ", p.steps[s].tasks, overwritten(p, p.steps[s])), key);
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
    ++result.checked;
    if (auto fault = fault_of(g, p.steps[s], buffers, accuracy)) {
      fault->step = s;
      result.faults.push_back(*fault);
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
