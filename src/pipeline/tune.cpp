#include "pipeline/tune.h"

#include <chrono>
#include <map>
#include <tuple>

#include "base/contained.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/rng.h"
#include "base/text.h"
#include "codegen/codegen.h"
#include "kernels/cpu/c_code.h"
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

  Trial(const Offer& o, RandomData& random) {
    GraphBuilder b;
    std::vector<NodeId> args(o.group.inputs.size());
    for (bool constants : {false, true}) {
      for (size_t i = 0; i < args.size(); ++i) {
        if (o.constant[i] != constants) continue;
        const Type& t = o.group.type(o.group.inputs[i].node);
        const Tensor& data = random.of(t, i + 1);
        args[i] = constants ? b.constant(data) : b.input(str("x", i), t);
        if (!constants) inputs.emplace_back(data);
      }
    }
    auto results = splice(b, o.group, args);
    for (size_t i = 0; i < results.size(); ++i) b.output(str("y", i), results[i]);
    graph = std::move(b).build();
    NodeGroup all;
    for (size_t n = 0; n < graph.size(); ++n) {
      const Node& node = graph.nodes[NodeId(n)];
      bool leaf = node.op == kInputOp || node.op == kConstantOp;
      if (!leaf) all.nodes.push_back(NodeId(n));
    }
    for (const auto& out : graph.outputs) all.stores.push_back(out.node);
    plan = {{{all}}, {o.candidate}};
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

// What was asked about, in the order of the estimates, and came to be known.
class Rankings {
 public:
  void ask(const Offer& o, const std::string& key) {
    uint64_t place = hash(o.group);
    for (bool c : o.constant) place = hash_mix(place, c);
    asked_[{place, to_text(o.candidate.layouts)}].push_back(
        {key, str(o.candidate.kernel, to_text(o.candidate.config))});
  }

  std::vector<Ranking> of(const std::map<std::string, double>& known) const {
    std::vector<Ranking> all;
    for (const auto& [place, asked] : asked_) {
      Ranking r{.of = 0};
      for (const auto& [key, what] : asked) {
        auto it = known.find(key);
        if (it == known.end()) continue;
        if (r.of++ == 0) r.first_s = it->second;
        if (r.of > 1 && it->second >= r.seconds) continue;
        r.best = what;
        r.rank = r.of;
        r.seconds = it->second;
      }
      if (r.of > 1) all.push_back(std::move(r));
    }
    return all;
  }

 private:
  struct Asked {
    std::string key, what;
  };
  std::map<std::pair<uint64_t, std::string>, std::vector<Asked>> asked_;
};

// The lower quartile: a least time favours a thread that came late and found half the work done.
double usual_seconds(const CpuProgram& program, const std::vector<Value>& inputs,
                     const TuneOptions& options, Surroundings& surroundings) {
  EMEND_ASSERT(options.runs > 0);
  const auto& steps = program.program().steps;
  std::vector<double> times;
  double spent = 0;
  for (int r = 0; r < options.runs && (r < 3 || spent < options.seconds); ++r) {
    auto start = std::chrono::steady_clock::now();
    surroundings.restore(inputs);
    // Changes of layout around the kernel are priced by themselves.
    std::vector<double> seconds = program.step_seconds(inputs, 1);
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
    uint64_t group = hash(o.group);
    for (bool c : o.constant) group = hash_mix(group, c);
    KernelCode code =
        kernel_named(catalogue, o.candidate.kernel).emit(o.group, o.candidate, target);
    return str(o.candidate.kernel, " ", to_text(o.candidate.config), " group ", group, " threads ",
               target.threads, " machine ", machine, " code ", hash_text(code.text),
               cold ? " cold weights" : "");
  }
};

class Tuning {
 public:
  Tuning(const Graph& g, const Catalogue& catalogue, const Target& target, PriceList& prices,
         const TuneOptions& options)
      : prices_(prices),
        options_(options),
        surroundings_(g),
        keys_{catalogue, target, machine_key(c_prelude(), options.cpu.compile),
              surroundings_.cold()} {}

  // What select would ask about.
  void ask(const Graph& g, const Partition& partition) {
    SelectOptions asking = options_.choose;
    asking.price = [&](const Offer& o) -> std::optional<double> {
      std::string key;
      if (auto fault = fault_of([&] { key = keys_.of(o); })) {
        refuse(o.candidate, *fault);
        return std::nullopt;
      }
      rankings_.ask(o, key);
      if (auto price = prices_.find(key)) {
        known_[key] = *price;
        ++facts_.known;
      } else {
        wanted_.push_back({key, o.candidate, Trial(o, random_)});
      }
      return std::nullopt;
    };
    select(g, partition, keys_.catalogue, keys_.target, asking);
  }

  // All texts compiled together, then one after the other alone on the machine.
  void measure() {
    std::vector<KernelCode> texts;
    std::vector<Program> programs;
    std::erase_if(wanted_, [&](const Missing& w) {
      auto fault = fault_of([&] {
        programs.push_back(generate(w.trial.graph, w.trial.plan, keys_.catalogue, keys_.target));
      });
      if (fault) refuse(w.candidate, *fault);
      return fault.has_value();
    });
    for (const Program& p : programs) {
      for (const KernelCode& k : p.kernels) texts.push_back(k);
    }
    CompileOptions compile = options_.cpu.compile;
    compile.monitor = options_.monitor;
    try {
      compile_kernels(texts, c_prelude(), compile);
    } catch (const KernelsRefused&) {
      // What is measured below tells which.
    }
    for (size_t i = 0; i < wanted_.size() && !options_.monitor.stop_requested(); ++i) {
      options_.monitor.tell({.phase = "measure",
                             .done = static_cast<int64_t>(i),
                             .of = static_cast<int64_t>(wanted_.size())});
      double seconds = 0;
      try {
        CpuProgram program(std::move(programs[i]), c_prelude(), options_.cpu);
        seconds = usual_seconds(program, wanted_[i].trial.inputs, options_, surroundings_);
      } catch (const KernelsRefused& e) {
        refuse(wanted_[i].candidate, e.what());
        continue;
      }
      try {
        prices_.put(wanted_[i].key, seconds);
      } catch (const Error& e) {
        facts_.not_kept = e.what();
      }
      known_[wanted_[i].key] = seconds;
      ++facts_.measured;
    }
  }

  TuneReport report() const {
    TuneReport facts = facts_;
    facts.rankings = rankings_.of(known_);
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
  void refuse(const Candidate& c, const std::string& why) {
    facts_.faults.push_back(
        str("kernel ", c.kernel, " ", to_text(c.config), " was not measured: ", why));
  }
  struct Missing {
    std::string key;
    Candidate candidate;
    Trial trial;
  };
  PriceList& prices_;
  const TuneOptions& options_;
  Surroundings surroundings_;
  PriceKeys keys_;
  RandomData random_;
  Rankings rankings_;
  std::vector<Missing> wanted_;
  std::map<std::string, double> known_;
  TuneReport facts_;
};

}  // namespace

std::function<std::optional<double>(const Offer&)> measured_prices(
    const Graph& g, const Partition& partition, const Catalogue& catalogue, const Target& target,
    PriceList& prices, const TuneOptions& options, TuneReport* report) {
  Tuning tuning(g, catalogue, target, prices, options);
  tuning.ask(g, partition);
  tuning.measure();
  if (report) *report = tuning.report();
  return tuning.prices();
}

}  // namespace emend
