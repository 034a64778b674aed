#include "run/cpu.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <mutex>

#include "base/error.h"
#include "base/parallel.h"
#include "base/text.h"
#include "ops/evaluate.h"
#include "ops/table.h"
#include "run/thread_pool.h"

namespace emend {
namespace {

struct FreeBytes {
  void operator()(std::byte* p) const { std::free(p); }
};

std::unique_ptr<std::byte, FreeBytes> aligned_bytes(size_t bytes) {
  constexpr size_t kPage = 4096;
  void* p = std::aligned_alloc(kPage, (bytes + kPage - 1) / kPage * kPage + kPage);
  if (!p) throw Error(str("no memory for ", bytes, " bytes of intermediate values"));
  return std::unique_ptr<std::byte, FreeBytes>(static_cast<std::byte*>(p));
}

}  // namespace

// What one run at a time writes to.
struct Instance {
  std::unique_ptr<std::byte, FreeBytes> arena;
  std::vector<void*> at;                      // of every buffer
  std::vector<std::vector<void*>> arguments;  // of every step
  std::vector<Value> host;                    // of every buffer that is no plain memory
};

struct CpuProgram::Impl {
  Program program;
  CompiledKernels kernels;
  std::unique_ptr<ThreadPool> pool;
  std::mutex lock;
  std::vector<std::unique_ptr<Instance>> idle;

  std::unique_ptr<Instance> take() {
    {
      std::lock_guard guard(lock);
      if (!idle.empty()) {
        auto instance = std::move(idle.back());
        idle.pop_back();
        return instance;
      }
    }
    auto made = std::make_unique<Instance>();
    made->arena = aligned_bytes(program.arena_bytes);
    made->at.resize(program.buffers.size());
    made->host.resize(program.buffers.size());
    for (size_t b = 0; b < program.buffers.size(); ++b) {
      const Buffer& buffer = program.buffers[BufferId(b)];
      if (buffer.place == Buffer::Place::arena) made->at[b] = made->arena.get() + buffer.offset;
      if (buffer.place == Buffer::Place::weight)
        made->at[b] = const_cast<std::byte*>(program.weights[buffer.index].data());
    }
    for (const Step& s : program.steps)
      made->arguments.emplace_back(s.loads.size() + s.stores.size());
    return made;
  }

  void give_back(std::unique_ptr<Instance> instance) {
    std::lock_guard guard(lock);
    idle.push_back(std::move(instance));
  }

  void bind(Instance& i) const {
    for (size_t s = 0; s < program.steps.size(); ++s) {
      size_t k = 0;
      for (BufferId b : program.steps[s].loads) i.arguments[s][k++] = i.at[b.value];
      for (BufferId b : program.steps[s].stores) i.arguments[s][k++] = i.at[b.value];
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
    bool kept = buffer.place == Buffer::Place::host || buffer.place == Buffer::Place::input;
    if (kept && !(buffer.type.is_tensor() && type.is_tensor())) return i.host[b.value];
    if (kept) return i.host[b.value].tensor.reshaped(type.shape);
    if (buffer.place == Buffer::Place::weight) {
      return program.weights[buffer.index].reshaped(type.shape);
    }
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
    if (program.buffers[to].place == Buffer::Place::host) {
      i.host[to.value] = std::move(result);
    } else if (program.buffers[to].bytes) {
      std::memcpy(i.at[to.value], result.tensor.data(), program.buffers[to].bytes);
    }
  }

  void part(const Instance& i, size_t s, int thread, int threads, int32_t* fault) const {
    const Step& step = program.steps[s];
    int64_t first = step.tasks * thread / threads, last = step.tasks * (thread + 1) / threads;
    if (first < last) kernels.functions[step.kernel](i.arguments[s].data(), first, last, fault);
  }

  // `watch` gets the seconds of each step, or sees it, if asked for.
  struct Watch {
    std::vector<double>* seconds = nullptr;
    const Observer* observe = nullptr;
  };
  void execute(Instance& i, const Watch& watch) const {
    std::atomic<int32_t> fault{0};
    std::exception_ptr failure;
    std::atomic<bool> failed{false};
    auto steps = [&](int thread, int threads, SpinBarrier* barrier) {
      int32_t own_fault = 0;
      for (size_t s = 0; s < program.steps.size() && !failed; ++s) {
        const Step& step = program.steps[s];
        auto start = std::chrono::steady_clock::now();
        if (step.kind == Step::Kind::launch) {
          part(i, s, thread, threads, &own_fault);
        } else if (thread == 0) {
          try {
            if (step.kind == Step::Kind::host) {
              host_step(i, step);
            } else if (size_t n = program.buffers[step.loads[0]].bytes) {
              std::memcpy(i.arguments[s][1], i.arguments[s][0], n);
            }
          } catch (...) {
            failure = std::current_exception();
            failed = true;
          }
        }
        if (barrier) barrier->wait();
        if (watch.seconds && thread == 0) {
          std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
          (*watch.seconds)[s] = std::min((*watch.seconds)[s], took.count());
        }
        if (watch.observe) {
          if (thread == 0 && !failed) (*watch.observe)(s, i.arguments[s]);
          if (barrier) barrier->wait();
        }
      }
      if (own_fault) fault = 1;
    };
    SpinBarrier barrier(pool->threads());
    int threads = pool->threads();
    bool together = threads > 1 && pool->try_run([&](int t) { steps(t, threads, &barrier); });
    if (!together) steps(0, 1, nullptr);
    if (failure) std::rethrow_exception(failure);
    if (fault) throw Error("an index that the data names lies outside of its tensor");
  }

  std::vector<Value> run(std::span<const Value> inputs, const Watch& watch) {
    if (inputs.size() != program.inputs.size()) {
      throw Error(str("the program has ", program.inputs.size(), " inputs, got ", inputs.size()));
    }
    auto instance = take();
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
      if (program.buffers[b].place == Buffer::Place::output) {
        outputs[k] =
            outputs[k].tensor.reshaped(program.graph.type(program.graph.outputs[k].node).shape);
      } else {
        outputs[k] = value_in(*instance, b, program.graph.type(program.graph.outputs[k].node));
      }
    }
    give_back(std::move(instance));
    return outputs;
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

std::vector<double> CpuProgram::step_seconds(std::span<const Value> inputs, int runs) const {
  std::vector<double> seconds(program().steps.size(), 1e30);
  for (int r = 0; r < runs; ++r) impl_->run(inputs, {.seconds = &seconds});
  return seconds;
}

}  // namespace emend
