#include "pipeline/tune.h"

#include <chrono>
#include <map>
#include <set>
#include <tuple>

#include "base/contained.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/rng.h"
#include "base/text.h"
#include "codegen/codegen.h"
#include "kernels/cpu/c_code.h"
#include "kernels/group.h"
#include "ops/build.h"
#include "run/machine.h"
#include "run/measure.h"

namespace emend {
namespace {

Tensor random_tensor_of(const Type& t, uint64_t seed) {
  return Tensor::make(t.dtype, t.shape, [&](std::byte* out) {
    for (int64_t i = 0; i < count(t.shape); ++i) {
      auto at = static_cast<size_t>(i);
      // Small whole numbers are indices into everything.
      is_float(t.dtype) ? store_real(t.dtype, out, at, random_normal(seed, 0, at))
                        : store_int(t.dtype, out, at, 0);
    }
  });
}

// Made once for all candidates of all groups: their bytes are shared.
class RandomData {
 public:
  const Tensor& of(const Type& t, uint64_t seed) {
    auto [it, fresh] = made_.try_emplace({t.dtype, t.shape, seed});
    if (fresh) it->second = random_tensor_of(t, seed);
    return it->second;
  }

 private:
  std::map<std::tuple<DType, Dims, uint64_t>, Tensor> made_;
};

// A group as a program of its own, on random data.
struct Trial {
  Graph graph;
  Plan plan;
  std::vector<Value> inputs;

  Trial(const Graph& group, const std::vector<bool>& constant, const Candidate& candidate,
        RandomData& random) {
    GraphBuilder b;
    std::vector<NodeId> args(group.inputs.size());
    for (bool constants : {false, true}) {
      for (size_t i = 0; i < args.size(); ++i) {
        if (constant[i] != constants) continue;
        const Type& t = group.type(group.inputs[i].node);
        const Tensor& data = random.of(t, i + 1);
        args[i] = constants ? b.constant(data) : b.input(str("x", i), t);
        if (!constants) inputs.emplace_back(data);
      }
    }
    auto results = splice(b, group, args);
    for (size_t i = 0; i < results.size(); ++i) b.output(str("y", i), results[i]);
    graph = std::move(b).build();
    NodeGroup all;
    for (size_t n = 0; n < graph.size(); ++n) {
      const Node& node = graph.nodes[NodeId(n)];
      bool leaf = node.op == kInputOp || node.op == kConstantOp;
      if (!leaf) all.nodes.push_back(NodeId(n));
    }
    for (const auto& out : graph.outputs) all.stores.push_back(out.node);
    plan = {{{all}}, {candidate}};
  }
};

// Weights that the shared cache does not hold come from main memory in every run of the model, so
// a trial must not find its own where its last run left them. Inputs were just made by the layer
// before: they are brought back.
class Surroundings {
 public:
  explicit Surroundings(const Graph& g) {
    double weights = 0;
    for (size_t c = 0; c < g.constants.size(); ++c)
      weights += static_cast<double>(g.constants[ConstId(c)].bytes().size());
    cold_ = weights > static_cast<double>(shared_cache_bytes()) / 2;
    if (cold_) others_.resize(shared_cache_bytes() + shared_cache_bytes() / 4);
  }
  bool cold() const { return cold_; }

  void restore(const std::vector<Value>& inputs) {
    if (!cold_) return;
    constexpr size_t kLine = 64;
    for (size_t i = 0; i < others_.size(); i += kLine) ++others_[i];
    unsigned read = 0;
    for (const Value& v : inputs) {
      for (size_t i = 0; i < v.tensor.bytes().size(); i += kLine)
        read += static_cast<unsigned>(v.tensor.data()[i]);
    }
    others_[0] = static_cast<unsigned char>(read);
  }

 private:
  bool cold_ = false;
  std::vector<unsigned char> others_;
};

// A hash of a group and of which of its inputs are known, whatever the program around it.
uint64_t place_of(const Graph& group, const std::vector<bool>& constant) {
  uint64_t place = hash(group);
  for (bool c : constant) place = hash_mix(place, c);
  return place;
}

// What was asked about, in the order of the estimates, and came to be known.
class Rankings {
 public:
  void ask(const Offer& o, const std::string& key, Price price) {
    price.group = place_of(o.group, o.constant);
    price.layouts = to_text(o.candidate.layouts);
    price.what = str(o.candidate.kernel, to_text(o.candidate.config));
    price.estimate_s = o.candidate.estimate_s;
    asked_[{price.group, price.layouts}].emplace_back(key, std::move(price));
  }

  std::vector<Ranking> of(const std::map<std::string, double>& known) const {
    std::vector<Ranking> all;
    for (const auto& [place, asked] : asked_) {
      Ranking r{.of = 0};
      for (const auto& [key, price] : asked) {
        auto it = known.find(key);
        if (it == known.end()) continue;
        if (r.of++ == 0) r.first_s = it->second;
        if (r.of > 1 && it->second >= r.seconds) continue;
        r.best = price.what;
        r.rank = r.of;
        r.seconds = it->second;
      }
      if (r.of > 1) all.push_back(std::move(r));
    }
    return all;
  }

  std::vector<Price> prices(const std::map<std::string, double>& known) const {
    std::vector<Price> all;
    for (const auto& [place, asked] : asked_) {
      for (const auto& [key, price] : asked) {
        auto it = known.find(key);
        if (it == known.end()) continue;
        all.push_back(price);
        all.back().seconds = it->second;
      }
    }
    return all;
  }

 private:
  std::map<std::pair<uint64_t, std::string>, std::vector<std::pair<std::string, Price>>> asked_;
};

// How an estimate rests on its costs.
std::vector<std::pair<std::string, double>> slopes(const Offer& o, const Catalogue& catalogue,
                                                   Target target) {
  constexpr double kStep = 1.0 / 16;
  const Kernel& kernel = kernel_named(catalogue, o.candidate.kernel);
  if (!kernel.estimate) return {};
  const Wanted wanted(o.group, o.constant, o.candidate.layouts);
  const double given = kernel.estimate(wanted, o.candidate, target);
  std::vector<std::pair<std::string, double>> all;
  for (const CostName& cost : cost_names()) {
    const double before = target.costs.*cost.value;
    target.costs.*cost.value *= 1 + kStep;
    const double slope = (kernel.estimate(wanted, o.candidate, target) - given) / kStep;
    target.costs.*cost.value = before;
    if (slope != 0) all.emplace_back(cost.name, slope);
  }
  return all;
}

// The lower quartile: a least time favours a thread that came late and found half the work done.
double usual_seconds(const CpuProgram& program, const std::vector<Value>& inputs,
                     const TuneOptions& options, Surroundings& surroundings) {
  EMEND_ASSERT(options.runs > 0);
  const auto& steps = program.program().steps;
  std::vector<double> times;
  CpuProgram::Room room;
  double spent = 0;
  auto goes_on = [&](int r) {
    return r < 2 || (spent < options.budget_s && (r < 3 || spent < options.seconds));
  };
  for (int r = 0; r < options.runs && goes_on(r); ++r) {
    auto start = std::chrono::steady_clock::now();
    surroundings.restore(inputs);
    // Changes of layout around the kernel are priced by themselves.
    std::vector<double> seconds = program.step_seconds(inputs, 1, &room);
    double own = 0;
    for (size_t s = 0; s < steps.size(); ++s) own += steps[s].converts ? 0 : seconds[s];
    std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    if (r > 0 || options.runs == 1) times.push_back(own);  // the first one packs weights
    spent += took.count();
  }
  return quantile(std::move(times), 0.25);
}

// The same kernel for the same group on the same machine takes the same time.
struct PriceKeys {
  const Catalogue& catalogue;
  Target target;
  uint64_t machine;
  bool cold;  // weights come from memory
  std::string of(const Offer& o) const {
    const uint64_t group = place_of(o.group, o.constant);
    KernelCode code =
        kernel_named(catalogue, o.candidate.kernel).emit(o.group, o.candidate, target);
    return str(o.candidate.kernel, " ", to_text(o.candidate.config), " group ", group, " threads ",
               target.threads, " machine ", machine, " code ", hash_text(code.text),
               cold ? " cold weights" : "");
  }
};

class Tuning {
 public:
  Tuning(std::span<const TunedProgram> programs, const Catalogue& catalogue, const Target& target,
         PriceList& prices, const TuneOptions& options)
      : prices_(prices),
        options_(options),
        surroundings_(programs[0].graph),
        keys_{catalogue, target, machine_key(c_prelude(), options.cpu.compile),
              surroundings_.cold()} {
    for (const TunedProgram& p : programs) ask(p);
  }

  // Some texts are compiled together, then timed one after the other alone on the machine.
  void measure() {
    const size_t batch = 4 * static_cast<size_t>(std::max(1, keys_.target.threads));
    std::ranges::stable_sort(wanted_, std::greater<>(), &Missing::urgency);
    size_t next = 0;
    // Some are measured, however long it took to ask, unless they are slow themselves.
    bool first = !wanted_.empty() && wanted_[0].seconds < kSmall * options_.budget_s;
    for (; next < wanted_.size() && (first || !is_over()); first = false) {
      std::vector<Missing*> some;
      for (; next < wanted_.size() && some.size() < batch; ++next) {
        if (is_hopeful(wanted_[next])) some.push_back(&wanted_[next]);
      }
      measure(some, next);
    }
    for (; next < wanted_.size(); ++next) facts_.left += is_hopeful(wanted_[next]);
  }

  TuneReport report() const {
    TuneReport facts = facts_;
    facts.rankings = rankings_.of(known_);
    facts.prices = rankings_.prices(known_);
    return facts;
  }
  std::function<std::optional<double>(const Offer&)> prices() const {
    return [known = known_, keys = keys_](const Offer& o) -> std::optional<double> {
      auto it = known.end();
      if (fault_of([&] { it = known.find(keys.of(o)); }) || it == known.end()) return std::nullopt;
      return it->second;
    };
  }

 private:
  struct Missing {
    std::string key;
    uint64_t place;
    Graph group;
    std::vector<bool> constant;
    Candidate candidate;
    double seconds;  // what the program spends there
    double urgency;  // the same, less for worse guesses
  };

  // What select would ask about.
  void ask(const TunedProgram& program) {
    const Graph& g = program.graph;
    std::map<uint64_t, double> spent;  // seconds of all equal groups
    double all = 0;
    for (size_t k = 0; k < program.partition.groups.size(); ++k) {
      const NodeGroup& group = program.partition.groups[k];
      if (group.host || k >= program.seconds.size()) continue;
      Outline o = outlined(g, group);
      std::vector<bool> constant;
      for (NodeId n : o.loads) constant.push_back(g.is_constant(storage_of(g, n)));
      spent[place_of(o.graph, constant)] += program.seconds[k];
      all += program.seconds[k];
    }
    std::map<std::pair<uint64_t, std::string>, int> asked;
    std::map<uint64_t, double> best_estimate;
    SelectOptions asking = options_.choose;
    asking.price = [&](const Offer& o) -> std::optional<double> {
      std::string key;
      if (auto fault = fault_of([&] { key = keys_.of(o); })) {
        refuse(o.candidate, *fault);
        return std::nullopt;
      }
      const uint64_t place = place_of(o.group, o.constant);
      const int rank = asked[{place, to_text(o.candidate.layouts)}]++;
      Price price;
      if (options_.all) price.slopes_s = slopes(o, keys_.catalogue, keys_.target);
      rankings_.ask(o, key, std::move(price));
      if (auto known = kept_price(key)) {
        learn(key, place, *known);
        ++facts_.known;
        return std::nullopt;
      }
      const double seconds = std::max(spent[place], o.candidate.estimate_s);
      if (!options_.all && seconds < kNegligible * all) return std::nullopt;
      if (!met_.insert(key).second) return std::nullopt;
      const double best = best_estimate.try_emplace(place, o.candidate.estimate_s).first->second;
      wanted_.push_back({key, place, o.group, o.constant, o.candidate, seconds,
                         seconds * std::min(1.0, best / o.candidate.estimate_s) / (1.0 + rank)});
      return std::nullopt;
    };
    select(g, program.partition, keys_.catalogue, keys_.target, asking);
  }

  bool is_over() const {
    std::chrono::duration<double> spent = std::chrono::steady_clock::now() - start_;
    return options_.monitor.stop_requested() || spent.count() >= options_.budget_s;
  }

  // A list that cannot be read knows nothing.
  std::optional<double> kept_price(const std::string& key) const {
    try {
      return prices_.find(key);
    } catch (const Error&) {
      return std::nullopt;
    }
  }

  // Estimates are too low more often than too high.
  bool is_hopeful(const Missing& m) const {
    auto it = best_.find(m.place);
    return options_.all || it == best_.end() || m.candidate.estimate_s < kSlack * it->second;
  }

  void measure(const std::vector<Missing*>& some, size_t done) {
    std::vector<KernelCode> texts;
    std::vector<std::pair<const Missing*, Trial>> trials;
    std::vector<Program> programs;
    for (const Missing* m : some) {
      auto fault = fault_of([&] {
        Trial trial(m->group, m->constant, m->candidate, random_);
        programs.push_back(generate(trial.graph, trial.plan, keys_.catalogue, keys_.target));
        trials.emplace_back(m, std::move(trial));
      });
      if (fault) refuse(m->candidate, *fault);
    }
    for (const Program& p : programs) {
      for (const KernelCode& k : p.kernels) texts.push_back(k);
    }
    CompileOptions compile = options_.cpu.compile;
    compile.monitor = options_.monitor.silent();
    try {
      compile_kernels(texts, c_prelude(), compile);
    } catch (const KernelsRefused&) {
      // What is measured below tells which.
    }
    size_t i = 0;
    for (; i < trials.size() && (i == 0 || !is_over()); ++i) {
      options_.monitor.tell({.phase = "measure",
                             .done = static_cast<int64_t>(done - trials.size() + i),
                             .of = static_cast<int64_t>(wanted_.size())});
      measure(*trials[i].first, std::move(programs[i]), trials[i].second.inputs);
    }
    facts_.left += trials.size() - i;
  }

  void measure(const Missing& m, Program program, const std::vector<Value>& inputs) {
    double seconds = 0;
    try {
      CpuProgram compiled(std::move(program), c_prelude(), options_.cpu);
      seconds = usual_seconds(compiled, inputs, options_, surroundings_);
    } catch (const KernelsRefused& e) {
      return refuse(m.candidate, e.what());
    } catch (const CompileFailure&) {
      throw;  // that would go on for all
    } catch (const Error& e) {
      return refuse(m.candidate, e.what());
    }
    try {
      prices_.put(m.key, seconds);
    } catch (const Error& e) {
      facts_.not_kept = e.what();
    }
    learn(m.key, m.place, seconds);
    ++facts_.measured;
  }

  void learn(const std::string& key, uint64_t place, double seconds) {
    known_[key] = seconds;
    auto [it, fresh] = best_.try_emplace(place, seconds);
    if (!fresh) it->second = std::min(it->second, seconds);
  }
  void refuse(const Candidate& c, const std::string& why) {
    facts_.faults.push_back(
        str("kernel ", c.kernel, " ", to_text(c.config), " was not measured: ", why));
  }

  static constexpr double kNegligible = 0.002;  // of a program's time: no kernel there matters
  static constexpr double kSlack = 1.5, kSmall = 0.1;
  PriceList& prices_;
  const TuneOptions& options_;
  Surroundings surroundings_;
  PriceKeys keys_;
  RandomData random_;
  Rankings rankings_;
  std::vector<Missing> wanted_;
  std::set<std::string> met_;
  std::map<std::string, double> known_;
  std::map<uint64_t, double> best_;  // by place
  TuneReport facts_;
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

}  // namespace

std::function<std::optional<double>(const Offer&)> measured_prices(
    std::span<const TunedProgram> programs, const Catalogue& catalogue, const Target& target,
    PriceList& prices, const TuneOptions& options, TuneReport* report) {
  Tuning tuning(programs, catalogue, target, prices, options);
  tuning.measure();
  if (report) *report = tuning.report();
  return tuning.prices();
}

}  // namespace emend
