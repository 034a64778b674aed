#include "run/cpu.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <mutex>

#include "base/error.h"
#include "base/parallel.h"
#include "base/text.h"
#include "ops/evaluate.h"
#include "ops/table.h"
#include "run/measure.h"
#include "run/onednn.h"
#include "run/pages.h"
#include "run/thread_pool.h"
#include "run/weights.h"

namespace emend {

constexpr int32_t kLibraryFault = 2;  // kernels report 1: an index outside of its tensor

// What one run at a time writes to.
struct Instance {
  std::shared_ptr<std::byte> arena;
  std::shared_ptr<std::byte> scratch;                     // of every thread, one after the other
  std::shared_ptr<std::byte> shared;                      // by all of them
  std::vector<void*> at;                                  // of every buffer
  std::vector<std::vector<void*>> arguments;              // of every step; with scratch memory:
                                                          // and every thread
  std::vector<Value> host;                                // of every buffer that is no plain memory
  std::vector<std::shared_ptr<OnednnStep::Bound>> bound;  // of every step that calls the library
  bool borrowed = false;  // inputs are bytes of the caller's, in `at` only
};

// Instances that nobody uses at the moment. More than there is room for are not kept.
class IdleInstances {
 public:
  ~IdleInstances() {
    while (take()) {
    }
  }
  std::unique_ptr<Instance> take() {
    for (auto& slot : slots_) {
      if (Instance* i = slot.exchange(nullptr, std::memory_order_acq_rel))
        return std::unique_ptr<Instance>(i);
    }
    return nullptr;
  }
  void give(std::unique_ptr<Instance> i) {
    for (auto& slot : slots_) {
      Instance* none = nullptr;
      if (slot.compare_exchange_strong(none, i.get(), std::memory_order_acq_rel)) {
        (void)i.release();
        return;
      }
    }
  }

 private:
  std::array<std::atomic<Instance*>, 64> slots_{};
};

struct CpuProgram::Impl {
  Program program;
  CompiledKernels kernels;
  std::unique_ptr<ThreadPool> pool;
  std::once_flag weights_loaded;
  std::exception_ptr no_weights;  // why they could not be loaded
  std::vector<Tensor> weights;
  std::vector<std::unique_ptr<OnednnStep>> library;  // of every step that calls it
  IdleInstances idle;

  // The library's first: what it alone reads is let go once it has a copy of its own. So there is
  // no second attempt after a failure.
  void load_weights() {
    std::call_once(weights_loaded, [&] {
      try {
        load_weights_once();
      } catch (...) {
        no_weights = std::current_exception();
      }
    });
    if (no_weights) std::rethrow_exception(no_weights);
  }

  void load_weights_once() {
    library.resize(program.steps.size());
    std::vector<size_t> users(program.weights.size(), 0);
    for (const Step& step : program.steps) {
      for (BufferId b : step.loads) {
        const Buffer& buffer = program.buffers[b];
        if (buffer.place == Buffer::Place::weight) ++users[buffer.index];
      }
    }
    for (size_t s = 0; s < program.steps.size(); ++s) {
      prepare_library(s);
      drop_packed(s, users);
    }
    weights = stored_weights(program, program.weights);
  }

  void prepare_library(size_t s) {
    const Step& step = program.steps[s];
    if (step.kind != Step::Kind::launch || program.kernels[step.kernel].calls.empty()) return;
    std::vector<Tensor> constants;
    std::vector<const void*> memory;
    for (BufferId b : step.loads) {
      const Buffer& buffer = program.buffers[b];
      bool constant = buffer.place == Buffer::Place::weight;
      constants.push_back(constant ? aligned(program.weights[buffer.index].tensor) : Tensor());
      memory.push_back(constants.back().data());
    }
    library[s] = std::make_unique<OnednnStep>(program.kernels[step.kernel].calls, memory);
    for (BufferId b : step.loads) {
      const Buffer& buffer = program.buffers[b];
      if (buffer.place != Buffer::Place::weight) continue;
      EMEND_ASSERT(!program.weights[buffer.index].packing, "the library packs weights itself");
      program.weights[buffer.index].tensor.drop_pages();
    }
  }

  // What only the library has read.
  void drop_packed(size_t s, std::vector<size_t>& users) {
    const Step& step = program.steps[s];
    for (size_t i = 0; library[s] && i < step.loads.size(); ++i) {
      const Buffer& buffer = program.buffers[step.loads[i]];
      bool packed =
          buffer.place == Buffer::Place::weight && library[s]->packs(static_cast<int64_t>(i));
      if (packed && --users[buffer.index] == 0) program.weights[buffer.index].tensor = {};
    }
  }

  size_t weight_bytes() const {
    size_t bytes = 0;
    std::vector<bool> read(program.buffers.size(), false);
    for (size_t s = 0; s < program.steps.size(); ++s) {
      const Step& step = program.steps[s];
      if (library[s]) bytes += library[s]->weight_bytes();
      for (size_t i = 0; i < step.loads.size(); ++i) {
        bool packed = library[s] && library[s]->packs(static_cast<int64_t>(i));
        if (!packed) read[step.loads[i].value] = true;
      }
    }
    for (size_t b = 0; b < program.buffers.size(); ++b) {
      const Buffer& buffer = program.buffers[BufferId(b)];
      if (buffer.place == Buffer::Place::weight && read[b]) bytes += buffer.bytes;
    }
    return bytes;
  }

  std::unique_ptr<Instance> take() {
    if (auto instance = idle.take()) return instance;
    load_weights();
    auto made = std::make_unique<Instance>();
    made->arena = pages(program.arena_bytes, "intermediate values");
    made->at.resize(program.buffers.size());
    made->host.resize(program.buffers.size());
    for (size_t b = 0; b < program.buffers.size(); ++b) {
      const Buffer& buffer = program.buffers[BufferId(b)];
      if (buffer.place == Buffer::Place::arena) made->at[b] = made->arena.get() + buffer.offset;
      if (buffer.place == Buffer::Place::weight)
        made->at[b] = const_cast<std::byte*>(weights[buffer.index].data());
    }
    made->scratch = pages(scratch_bytes(program) * static_cast<size_t>(pool->threads()), "scratch");
    made->shared = pages(shared_bytes(program), "what threads share");
    for (const Step& s : program.steps) made->arguments.emplace_back(argument_count(s));
    for (const auto& l : library) made->bound.push_back(l ? l->bind() : nullptr);
    return made;
  }

  bool has_scratch(const Step& s) const {
    return s.kind == Step::Kind::launch && program.kernels[s.kernel].scratch_bytes > 0;
  }
  bool has_shared(const Step& s) const {
    return s.kind == Step::Kind::launch && program.kernels[s.kernel].shared_bytes > 0;
  }
  // For one thread; those that have scratch memory have arguments of their own.
  size_t arguments_each(const Step& s) const {
    return s.loads.size() + s.stores.size() + has_scratch(s) + has_shared(s);
  }
  size_t argument_count(const Step& s) const {
    return arguments_each(s) * (has_scratch(s) ? static_cast<size_t>(pool->threads()) : 1);
  }
  void* const* arguments(const Instance& i, size_t s, int thread) const {
    const Step& step = program.steps[s];
    size_t skipped = has_scratch(step) ? static_cast<size_t>(thread) * arguments_each(step) : 0;
    return i.arguments[s].data() + skipped;
  }

  void bind(Instance& i) const {
    size_t scratch = scratch_bytes(program);
    for (size_t s = 0; s < program.steps.size(); ++s) {
      const Step& step = program.steps[s];
      size_t k = 0;
      for (size_t thread = 0; k < i.arguments[s].size(); ++thread) {
        for (BufferId b : step.loads) i.arguments[s][k++] = i.at[b.value];
        for (BufferId b : step.stores) i.arguments[s][k++] = i.at[b.value];
        if (has_scratch(step)) i.arguments[s][k++] = i.scratch.get() + thread * scratch;
        if (has_shared(step)) i.arguments[s][k++] = i.shared.get();
      }
    }
  }

  // What a kernel forgets to write must not look right by chance.
  void poison(Instance& i) const {
    constexpr int kNotANumber = 0xff;
    std::memset(i.arena.get(), kNotANumber, program.arena_bytes);
    for (BufferId b : program.outputs) {
      const Buffer& buffer = program.buffers[b];
      if (buffer.place == Buffer::Place::output && buffer.bytes)
        std::memset(i.at[b.value], kNotANumber, buffer.bytes);
    }
  }

  Value value_in(const Instance& i, BufferId b, const Type& type) const {
    const Buffer& buffer = program.buffers[b];
    if (buffer.place == Buffer::Place::weight) return weights[buffer.index].reshaped(type.shape);
    bool kept = buffer.place == Buffer::Place::host ||
                (buffer.place == Buffer::Place::input && !i.borrowed);
    if (kept && !(buffer.type.is_tensor() && type.is_tensor())) return i.host[b.value];
    if (kept) return i.host[b.value].tensor.reshaped(type.shape);
    return Tensor::make(type.dtype, type.shape, [&](std::byte* out) {
      if (buffer.bytes) std::memcpy(out, i.at[b.value], buffer.bytes);
    });
  }

  void host_step(Instance& i, const Step& s) const {
    const Graph& g = program.graph;
    const Node& n = g.nodes[s.node];
    std::vector<Value> operands;
    std::vector<Type> types;
    for (size_t a = 0; a < n.args.size(); ++a) {
      types.push_back(g.type(n.args[a]));
      operands.push_back(value_in(i, s.loads[a], types.back()));
    }
    Value result = with_note(
        [&] { return g.names[s.node].empty() ? op_def(n).name : str("node ", g.names[s.node]); },
        [&] {
          return evaluate_node({Arithmetic::own, &op_def(n), n.attrs, types, g.type(s.node)},
                               operands);
        });
    BufferId to = s.stores[0];
    // A file may declare what its data does not keep to.
    const Type& declared = g.type(s.node);
    if (declared.is_tensor() && !(result.is_tensor() && result.tensor.type() == declared))
      throw Error(str(g.names[s.node].empty() ? op_def(n).name : str("node ", g.names[s.node]),
                      ": the model says that it gives ", to_text(declared), ", and it gives ",
                      to_text(result.type())));
    if (program.buffers[to].place == Buffer::Place::host) {
      i.host[to.value] = std::move(result);
    } else if (program.buffers[to].bytes) {
      std::memcpy(i.at[to.value], result.tensor.data(), program.buffers[to].bytes);
    }
  }

  void part(const Instance& i, size_t s, int thread, int threads, int32_t* fault) const {
    const Step& step = program.steps[s];
    int64_t first = step.tasks * thread / threads, last = step.tasks * (thread + 1) / threads;
    if (first >= last) return;
    if (library[s]) {
      bool good = library[s]->run(*i.bound[s], i.arguments[s].data(), first, last);
      if (!good) *fault = kLibraryFault;
    } else {
      kernels.functions[step.kernel](arguments(i, s, thread), first, last, fault);
    }
  }

  // What observers are shown of a step: operands that it writes its results over as they were.
  std::vector<void*> as_before(const Instance& i, size_t s,
                               std::vector<std::vector<std::byte>>& copies) const {
    const Step& step = program.steps[s];
    std::vector<void*> shown = i.arguments[s];
    shown.resize(step.loads.size() + step.stores.size());
    copies.clear();
    for (size_t k = 0; k < step.loads.size(); ++k) {
      bool overwritten = std::find(shown.begin() + static_cast<long>(step.loads.size()),
                                   shown.end(), shown[k]) != shown.end();
      size_t n = program.buffers[step.loads[k]].bytes;
      if (!overwritten || n == 0) continue;
      const auto* from = static_cast<const std::byte*>(shown[k]);
      copies.emplace_back(from, from + n);
      shown[k] = copies.back().data();
    }
    return shown;
  }

  // `watch` gets the seconds of each step, or sees it, if asked for.
  struct Watch {
    std::vector<double>* seconds = nullptr;
    const Observer* observe = nullptr;
  };
  void execute(Instance& i, const Watch& watch) const {
    std::atomic<int32_t> fault{0};
    std::exception_ptr failure;
    // Threads meet behind every step, so all must leave behind the same one: a thread that is late
    // may not hear of a failure before it has met the others, nor one that is early of a later one.
    // Hence meetings are counted, of which a step that is observed has a second one.
    auto behind = [](size_t step, bool observed) { return 2 * step + observed; };
    std::atomic<size_t> failed_at{behind(program.steps.size(), false)};
    auto attempt = [&](size_t meeting, const auto& work) {
      try {
        work();
      } catch (...) {
        failure = std::current_exception();
        failed_at = meeting;
      }
    };
    std::vector<std::vector<std::byte>> copies;
    std::vector<void*> shown;
    auto steps = [&](int thread, int threads, SpinBarrier* barrier) {
      int32_t own_fault = 0;
      for (size_t s = 0; s < program.steps.size(); ++s) {
        const Step& step = program.steps[s];
        std::chrono::steady_clock::time_point start;
        if (watch.observe) {
          if (thread == 0) attempt(behind(s, false), [&] { shown = as_before(i, s, copies); });
          if (barrier) barrier->wait();
        }
        if (watch.seconds) start = std::chrono::steady_clock::now();
        if (step.kind == Step::Kind::launch) {
          part(i, s, thread, threads, &own_fault);
        } else if (thread == 0) {
          attempt(behind(s, false), [&] {
            if (step.kind == Step::Kind::host) {
              host_step(i, step);
            } else if (size_t n = program.buffers[step.loads[0]].bytes) {
              std::memcpy(i.arguments[s][1], i.arguments[s][0], n);
            }
          });
        }
        if (barrier) barrier->wait();
        if (failed_at <= behind(s, false)) break;
        if (watch.seconds && thread == 0) {
          std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
          (*watch.seconds)[s] = took.count();
        }
        if (watch.observe) {
          if (thread == 0) attempt(behind(s, true), [&] { (*watch.observe)(s, shown); });
          if (barrier) barrier->wait();
          if (failed_at <= behind(s, true)) break;
        }
      }
      if (own_fault) fault = own_fault;
    };
    int threads = pool->threads();
    SpinBarrier barrier(threads);
    auto together = [&](int t) { steps(t, threads, &barrier); };
    if (threads == 1 || !pool->try_run(together)) steps(0, 1, nullptr);
    if (failure) std::rethrow_exception(failure);
    if (fault == kLibraryFault) throw Error("oneDNN could not compute a step (out of memory?)");
    if (fault) throw Error("an index that the data names lies outside of its tensor");
  }

  void check_count(const char* what, size_t wanted, size_t got) const {
    if (got != wanted) throw Error(str("the program has ", wanted, " ", what, ", got ", got));
  }

  std::vector<Value> run(std::span<const Value> inputs, const Watch& watch) {
    check_count("inputs", program.inputs.size(), inputs.size());
    auto instance = take();
    instance->borrowed = false;
    for (size_t k = 0; k < inputs.size(); ++k) {
      BufferId b = program.inputs[k];
      const Type& type = program.buffers[b].type;
      if (inputs[k].is_tensor() && type.is_tensor() && !(inputs[k].tensor.type() == type)) {
        throw Error(str("input ", k, " is ", to_text(inputs[k].tensor.type()), ", expected ",
                        to_text(type)));
      }
      instance->host[b.value] = inputs[k];
      instance->at[b.value] =
          inputs[k].is_tensor() ? const_cast<std::byte*>(inputs[k].tensor.data()) : nullptr;
    }
    std::vector<Value> outputs;
    for (BufferId b : program.outputs) {
      const Buffer& buffer = program.buffers[b];
      if (buffer.place != Buffer::Place::output) {
        outputs.emplace_back();
        continue;
      }
      outputs.emplace_back(Tensor::zeros(buffer.type.dtype, buffer.type.shape));
      instance->at[b.value] = const_cast<std::byte*>(outputs.back().tensor.data());
    }
    bind(*instance);
    if (watch.observe) poison(*instance);
    execute(*instance, watch);
    for (size_t k = 0; k < outputs.size(); ++k) {
      BufferId b = program.outputs[k];
      const Type& type = program.graph.type(program.graph.outputs[k].node);
      bool written = program.buffers[b].place == Buffer::Place::output;
      outputs[k] = written ? outputs[k].tensor.reshaped(type.shape) : value_in(*instance, b, type);
    }
    // Nothing of the caller's, nor of this run, stays alive in here.
    for (Value& v : instance->host) v = Value();
    idle.give(std::move(instance));
    return outputs;
  }

  void run_into(std::span<const std::span<const std::byte>> inputs,
                std::span<const std::span<std::byte>> outputs, const Watch& watch) {
    check_count("inputs", program.inputs.size(), inputs.size());
    check_count("outputs", program.outputs.size(), outputs.size());
    auto instance = take();
    instance->borrowed = true;
    auto place = [&](const char* what, size_t k, BufferId b, auto bytes) {
      const Buffer& buffer = program.buffers[b];
      if (!is_plain(buffer)) throw Error(str(what, k, " is no tensor of numbers"));
      if (bytes.size() != buffer.bytes) {
        throw Error(str(what, k, " is ", to_text(buffer.type), " and takes ", buffer.bytes,
                        " bytes, got ", bytes.size()));
      }
      instance->at[b.value] = const_cast<std::byte*>(bytes.data());
    };
    for (size_t k = 0; k < inputs.size(); ++k) place("input ", k, program.inputs[k], inputs[k]);
    for (size_t k = 0; k < outputs.size(); ++k) place("output ", k, program.outputs[k], outputs[k]);
    bind(*instance);
    execute(*instance, watch);
    idle.give(std::move(instance));
  }

  static bool is_plain(const Buffer& b) {
    return b.type.is_tensor() && b.type.dtype != DType::string;
  }
};

CpuProgram::CpuProgram(Program program, const std::string& prelude, const CpuOptions& options)
    : impl_(std::make_shared<Impl>()) {
  impl_->program = std::move(program);
  impl_->kernels = compile_kernels(impl_->program.kernels, prelude, options.compile);
  impl_->pool =
      std::make_unique<ThreadPool>(options.threads > 0 ? options.threads : thread_count());
}

std::vector<Value> CpuProgram::run(std::span<const Value> inputs) const {
  return impl_->run(inputs, {});
}

void CpuProgram::run_into(std::span<const std::span<const std::byte>> inputs,
                          std::span<const std::span<std::byte>> outputs) const {
  impl_->run_into(inputs, outputs, {});
}

bool CpuProgram::is_plain() const {
  const Program& p = impl_->program;
  auto plain = [&](BufferId b) { return Impl::is_plain(p.buffers[b]); };
  return std::all_of(p.inputs.begin(), p.inputs.end(), plain) &&
         std::all_of(p.outputs.begin(), p.outputs.end(), plain);
}

size_t CpuProgram::weight_bytes() const {
  impl_->load_weights();
  return impl_->weight_bytes();
}

void CpuProgram::load_weights() const {
  impl_->load_weights();
}

std::vector<Value> CpuProgram::run_observed(std::span<const Value> inputs,
                                            const Observer& observe) const {
  return impl_->run(inputs, {.observe = &observe});
}

const CompiledKernels& CpuProgram::kernels() const {
  return impl_->kernels;
}
const Program& CpuProgram::program() const {
  return impl_->program;
}
int CpuProgram::compiled() const {
  return impl_->kernels.compiled;
}
size_t CpuProgram::code_bytes() const {
  return impl_->kernels.code_bytes;
}

// Not the least: a thread that leaves one meeting late finds the next step half done by the others.
std::vector<double> CpuProgram::step_seconds(std::span<const Value> inputs, int runs,
                                             Room* room) const {
  EMEND_ASSERT(runs > 0);
  std::vector<double> all(program().steps.size()), seconds(all.size());
  std::vector<std::vector<double>> of_step(all.size());
  Room own;
  if (!room) room = &own;
  std::vector<std::span<const std::byte>> from;
  std::vector<std::span<std::byte>> to;
  if (is_plain()) {
    if (room->empty()) {
      for (BufferId b : program().outputs) room->emplace_back(program().buffers[b].bytes);
    }
    for (const Value& v : inputs) from.push_back(v.tensor.bytes());
    to.assign(room->begin(), room->end());
  }
  for (int r = 0; r < runs; ++r) {
    if (is_plain())
      impl_->run_into(from, to, {.seconds = &all});
    else
      impl_->run(inputs, {.seconds = &all});
    for (size_t s = 0; s < all.size(); ++s) of_step[s].push_back(all[s]);
  }
  for (size_t s = 0; s < all.size(); ++s) seconds[s] = quantile(std::move(of_step[s]), 0.25);
  return seconds;
}

}  // namespace emend
