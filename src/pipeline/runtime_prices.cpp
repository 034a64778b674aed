#include "pipeline/runtime_prices.h"

#include <algorithm>
#include <limits>
#include <map>

#include "ops/build.h"
#include "ops/table.h"
#include "rules/forms.h"

namespace emend {
namespace {

// Of a node that does not run there alone. It may be the only way to say something.
constexpr double kDoesNotRun = 1e3;
// Two measurements of one file differ by so much.
constexpr double kNoise = 0.01;

// Operators that cost nothing but being started, one after the other.
Graph chain(int length) {
  GraphBuilder b;
  NodeId x = b.input("x", Type::tensor(DType::f32, {1}));
  for (int i = 0; i < length; ++i) x = b.op("sin", {x});
  b.output("y", x);
  return std::move(b).build();
}

class RuntimePrices {
 public:
  RuntimePrices(std::shared_ptr<OtherRuntime> runtime, const Target& target,
                const SimplifyOptions& finish)
      : runtime_(std::move(runtime)), target_(target), finish_(finish) {
    constexpr int kLong = 33;
    auto one = runtime_->seconds(chain(1), "a chain of 1");
    auto many = runtime_->seconds(chain(kLong), str("a chain of ", kLong));
    if (one && many) target_.launch_s = std::max(0.0, *many - *one) / (kLong - 1);
    if (one) call_s_ = std::max(0.0, *one - target_.launch_s);
  }

  NodePrice quick(const PricedNode& n) {
    if (auto price = beside_nuclei(n)) return {*price};
    uint64_t key = key_of(n);
    if (auto it = known_.find(key); it != known_.end()) return {it->second};
    auto [it, fresh] = guesses_.try_emplace(key);
    if (fresh) it->second = lowest_price(n, target_);
    return {it->second, true};
  }

  double exact(const PricedNode& n) {
    if (auto price = beside_nuclei(n)) return *price;
    uint64_t key = key_of(n);
    if (auto it = known_.find(key); it != known_.end()) return it->second;
    if (runtime_->stopped()) return quick(n).seconds;
    std::string what = str(op_def(n.op).name, to_text(n.attrs));
    for (size_t i = 0; i < n.operands.size(); ++i)
      what += str(" ", n.weights[i] ? "constant " : "", to_text(n.operands[i]));
    auto seconds = runtime_->seconds(graph_of(n, true), what);
    if (!seconds && runtime_->stopped()) return quick(n).seconds;
    return known_[key] = seconds ? std::max(*seconds - call_s_, target_.launch_s) : kDoesNotRun;
  }

  std::vector<double> programs(std::span<const Graph> programs, const Monitor& monitor) {
    Graph given = simplify(programs[0], finish_);
    auto alone = runtime_->race(given, given);
    // A body may not run alone: then nothing is better than it.
    if (!alone) return {std::numeric_limits<double>::infinity()};
    std::vector<double> seconds = {alone->first};
    for (const Graph& program : programs.subspan(1)) {
      if (monitor.stop_requested()) break;
      auto both = runtime_->race(given, simplify(program, finish_));
      seconds.push_back(both ? seconds[0] * both->second / both->first
                             : std::numeric_limits<double>::infinity());
    }
    return seconds;
  }

 private:
  std::optional<double> beside_nuclei(const PricedNode& n) const {
    return price_beside_nuclei(
        n,
        {.bandwidth = target_.bandwidth, .per_node = target_.launch_s, .fuses = runtime_->fuses()});
  }

  std::shared_ptr<OtherRuntime> runtime_;
  Target target_;
  SimplifyOptions finish_;
  double call_s_ = 0;  // of a run, whatever is run
  std::map<uint64_t, double> known_, guesses_;
};

}  // namespace

SearchPrices runtime_prices(std::shared_ptr<OtherRuntime> runtime, const Target& target,
                            const SimplifyOptions& finish) {
  auto own = std::make_shared<RuntimePrices>(std::move(runtime), target, finish);
  return {.quick = [own](const PricedNode& n) { return own->quick(n); },
          .exact = [own](const PricedNode& n) { return own->exact(n); },
          .programs = [own](std::span<const Graph> programs,
                            const Monitor& monitor) { return own->programs(programs, monitor); },
          .worthwhile = 1 - kNoise};
}

Formed fastest_form(const Graph& g, const SimplifyOptions& finish, OtherRuntime& runtime) {
  Formed best{g, {}};
  Graph written = simplify(g, finish);
  for (const Form& form : forms()) {
    if (runtime.stopped()) break;
    SimplifyOptions forming = finish;
    forming.finish = false;
    forming.form = &form.rules;
    Graph other = simplify(best.graph, forming);
    Graph other_written = simplify(other, finish);
    if (hash(other_written) == hash(written)) continue;
    auto both = runtime.race(written, other_written);
    if (!both || both->second >= (1 - kNoise) * both->first) continue;
    best.graph = std::move(other);
    best.forms.push_back(form.name);
    written = std::move(other_written);
  }
  return best;
}

}  // namespace emend
