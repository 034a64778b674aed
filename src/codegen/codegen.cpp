#include "codegen/codegen.h"

#include <algorithm>
#include <map>

#include "base/contained.h"
#include "base/error.h"
#include "base/text.h"
#include "codegen/in_place.h"
#include "codegen/memory_plan.h"
#include "codegen/parts.h"
#include "codegen/repacking.h"
#include "kernels/group.h"
#include "ops/evaluate.h"
#include "ops/table.h"

namespace emend {
namespace {

bool is_plain(const Type& t) {
  return t.is_tensor() && t.dtype != DType::string;
}

class Assembler {
 public:
  Assembler(const Graph& g, const Plan& plan, const Catalogue& catalogue, const Target& target)
      : g_(g),
        plan_(plan),
        catalogue_(catalogue),
        target_(target),
        parts_(parts_in(g, plan, catalogue)) {}

  Program assemble() && {
    p_.graph = g_;
    for (const auto& i : g_.inputs) {
      p_.inputs.push_back(make(
          {.place = Buffer::Place::input, .type = g_.type(i.node), .index = p_.inputs.size()}));
      buffers_[{i.node, {}}] = p_.inputs.back();
    }
    for (size_t k = 0; k < plan_.partition.groups.size(); ++k) {
      const NodeGroup& group = plan_.partition.groups[k];
      size_t first = p_.steps.size();
      if (parts_.wholes.count(k)) continue;  // its parts have been written where they belong
      try {
        group.host ? host_step(group) : launch(group, plan_.choices[k]);
      } catch (NotWritten& e) {
        e.group = k;
        throw;
      }
      for (size_t s = first; s < p_.steps.size(); ++s) p_.steps[s].group = k;
    }
    for (const auto& o : g_.outputs) p_.outputs.push_back(output(o.node));
    place();
    for (size_t c = 0; c < p_.graph.constants.size(); ++c) p_.graph.constants[ConstId(c)] = {};
    return std::move(p_);
  }

 private:
  BufferId make(Buffer b) {
    if (is_plain(b.type)) {
      b.bytes = storage_bytes(b.type.dtype, static_cast<uint64_t>(count(b.type.shape))).value_or(0);
    }
    return p_.buffers.push_back(std::move(b));
  }

  // `type` is that of the weight as it is stored.
  BufferId weight(Weight w, Type type) {
    p_.weights.push_back(std::move(w));
    return make(
        {.place = Buffer::Place::weight, .type = std::move(type), .index = p_.weights.size() - 1});
  }

  // Where a node's value is, brought into the layout if it lies otherwise.
  BufferId buffer(NodeId n, const Layout& layout = {}) {
    NodeId s = storage_of(g_, n);
    auto it = buffers_.find({s, layout});
    if (it != buffers_.end()) return it->second;
    auto other = buffers_.lower_bound({s, {}});
    if (other != buffers_.end() && other->first.first == s) {
      return converted(s, other->first.second, layout, other->second);
    }
    EMEND_ASSERT(g_.is_constant(s), "a value that no group stores: ", op_def(g_.nodes[s]).name);
    return buffers_[{s, {}}] = weight({g_.constant(s), std::nullopt}, g_.type(s));
  }

  BufferId store(NodeId n, const Layout& layout = {}) {
    const Type& t = g_.type(n);
    return buffers_[{n, layout}] =
               make({.place = is_plain(t) ? Buffer::Place::arena : Buffer::Place::host, .type = t});
  }

  BufferId converted(NodeId s, const Layout& from, const Layout& to, BufferId at) {
    Graph group = identity_group(g_.type(s));
    Wanted wanted{group, {false}, {{from}, {to}}};
    std::optional<Candidate> best;
    for (const Kernel& k : catalogue_) {
      for (Candidate& c : k.candidates(wanted, target_)) {
        if (!best || c.estimate_s < best->estimate_s) best = std::move(c);
      }
    }
    EMEND_ASSERT(best, "no kernel brings a value into another layout");
    Step step = launch_of(group, *best, true);
    step.converts = true;
    step.label = "lay out" + (g_.names[s].empty() ? "" : str(" (", g_.names[s], ")"));
    step.sources = {s};
    step.loads = {at};
    step.stores = {store(s, to)};
    p_.steps.push_back(std::move(step));
    return p_.steps.back().stores[0];
  }

  // The buffer of a part; its candidate is told the strides that it has there.
  BufferId store_part(const Part& part, const Type& type, Layout& written) {
    written.strides = part.strides;
    auto whole = buffers_.find({part.whole, part.layout});
    BufferId in = whole != buffers_.end() ? whole->second : store(part.whole, part.layout);
    return make({.place = Buffer::Place::arena, .type = type, .whole = in, .from = part.from});
  }

  Step launch_of(const Graph& group, const Candidate& c, bool converts = false) {
    KernelCode code;
    auto fault =
        fault_of([&] { code = kernel_named(catalogue_, c.kernel).emit(group, c, target_); });
    if (fault) {
      NotWritten e(str(c.kernel, " ", to_text(c.config)), *fault);
      e.converts = converts;
      throw e;
    }
    Step s{.kind = Step::Kind::launch, .tasks = code.tasks, .computes = laid_out(group, c.layouts)};
    auto [it, fresh] = kernels_.try_emplace(code.entry, p_.kernels.size());
    if (fresh) p_.kernels.push_back(std::move(code));
    s.kernel = it->second;
    s.how = str(c.kernel, to_text(c.config), c.layouts.plain() ? "" : " ", to_text(c.layouts));
    s.estimate_s = c.estimate_s;
    return s;
  }

  // Operators, and the name that the model gives to what they make.
  std::string label(const NodeGroup& group) const {
    std::string text, name;
    for (NodeId n : group.nodes) {
      text += (text.empty() ? "" : " ") + op_def(g_.nodes[n]).name;
      if (!g_.names[n].empty()) name = g_.names[n];
    }
    return name.empty() ? text : str(text, " (", name, ")");
  }

  void host_step(const NodeGroup& group) {
    NodeId n = group.nodes[0];
    Step s{.kind = Step::Kind::host, .node = n, .label = label(group)};
    for (NodeId a : g_.nodes[n].args) s.loads.push_back(buffer(a));
    s.stores.push_back(store(n));
    p_.steps.push_back(std::move(s));
  }

  void launch(const NodeGroup& group, Candidate c) {
    Outline o = outlined(g_, group);
    c.layouts.stores.resize(o.stores.size());
    std::vector<BufferId> parts(o.stores.size());
    for (size_t i = 0; i < o.stores.size(); ++i) {
      auto part = parts_.of.find(o.stores[i]);
      if (part == parts_.of.end()) continue;
      parts[i] = store_part(part->second, g_.type(part->first), c.layouts.stores[i]);
    }
    Step s = launch_of(o.graph, c);
    s.label = label(group);
    for (size_t i = 0; i < o.loads.size(); ++i) {
      bool packed = i < c.packing.size() && !c.packing[i].outputs.empty();
      auto norms = i < c.norms.size() ? c.norms[i] : std::nullopt;
      s.loads.push_back(packed ? packed_weight(o.loads[i], c.packing[i], std::move(norms))
                               : buffer(o.loads[i], c.layouts.load(i)));
    }
    for (size_t i = 0; i < o.stores.size(); ++i) {
      s.stores.push_back(parts[i].valid() ? parts[i] : store(o.stores[i], c.layouts.store(i)));
    }
    s.sources = std::move(o.loads);
    p_.steps.push_back(std::move(s));
  }

  // Stored once for all that read it so. What is more than moving elements is done here, by the
  // reference; the rest is left to the device, which knows when the original can be let go.
  BufferId packed_weight(NodeId n, const Graph& packing, std::optional<ColumnNorms> norms) {
    NodeId s = storage_of(g_, n);
    EMEND_ASSERT(g_.is_constant(s));
    auto [it, fresh] = packed_.try_emplace({s, hash(packing)});
    if (!fresh) return it->second;
    Type type = packing.type(packing.outputs[0].node);
    if (norms) type = Type::tensor(type.dtype, {count(type.shape) + norms->count()});
    Tensor from = g_.constant(s).reshaped(packing.type(packing.inputs[0].node).shape);
    if (auto moves = repacking_of(packing)) {
      return it->second = weight({std::move(from), std::move(moves), std::move(norms)}, type);
    }
    Value in = std::move(from);
    Tensor packed = evaluate(packing, std::span(&in, 1))[0].tensor;
    return it->second = weight({std::move(packed), {}, std::move(norms)}, type);
  }

  // The program's outputs have memory of their own; a value that is also an input, a constant, or
  // an output already is copied.
  BufferId output(NodeId n) {
    BufferId from = buffer(n);
    Buffer& b = p_.buffers[from];
    if (b.place == Buffer::Place::arena) {
      b.place = Buffer::Place::output;
      b.index = p_.outputs.size();
      return from;
    }
    if (!is_plain(b.type)) return from;
    BufferId to =
        make({.place = Buffer::Place::output, .type = g_.type(n), .index = p_.outputs.size()});
    p_.steps.push_back(
        {.kind = Step::Kind::copy, .loads = {from}, .stores = {to}, .label = "copy"});
    return to;
  }

  using Lives = std::map<BufferId, Lifetime>;

  Lives lives() const {
    Lives all;
    for (size_t s = 0; s < p_.steps.size(); ++s) {
      auto touch = [&](BufferId b) {
        if (p_.buffers[b].place != Buffer::Place::arena) return;
        if (p_.buffers[b].whole.valid()) b = p_.buffers[b].whole;
        auto [it, fresh] = all.try_emplace(b, Lifetime{p_.buffers[b].bytes, s, s});
        it->second.last = s;
      };
      for (BufferId b : p_.steps[s].loads) touch(b);
      for (BufferId b : p_.steps[s].stores) touch(b);
    }
    return all;
  }

  // Equal layers are looked at once.
  bool may_overwrite(const Graph& group, size_t load) {
    auto [it, fresh] = overwrites_.try_emplace({hash(group), load});
    if (fresh) it->second = emend::may_overwrite(group, load, 0);
    return it->second;
  }

  // The operand whose memory the step's result can take over: it ends here. A library's kernels
  // promise nothing about the order in which they read and write.
  std::optional<BufferId> replaced(size_t s, const Lives& alive,
                                   const std::map<BufferId, BufferId>& home) {
    const Step& step = p_.steps[s];
    bool printed = step.kind == Step::Kind::launch && p_.kernels[step.kernel].calls.empty();
    if (!printed || step.stores.size() != 1 || !alive.count(step.stores[0])) return std::nullopt;
    auto memory_of = [&](BufferId b) { return home.count(b) ? home.at(b) : b; };
    for (BufferId b : step.loads) {
      BufferId memory = memory_of(b);
      auto life = alive.find(memory);
      if (life == alive.end() || life->second.last != s ||
          life->second.bytes != alive.at(step.stores[0]).bytes) {
        continue;
      }
      bool all = true;  // it may be loaded under several shapes
      for (size_t i = 0; i < step.loads.size(); ++i)
        all = all && (memory_of(step.loads[i]) != memory || may_overwrite(step.computes, i));
      if (all) return memory;
    }
    return std::nullopt;
  }

  void place() {
    Lives alive = lives();
    std::map<BufferId, BufferId> home;  // of buffers that took over another's memory
    for (size_t s = 0; s < p_.steps.size(); ++s) {
      auto memory = replaced(s, alive, home);
      if (!memory) continue;
      BufferId stored = p_.steps[s].stores[0];
      alive[*memory].last = alive[stored].last;
      alive.erase(stored);
      home[stored] = *memory;
    }
    std::vector<Lifetime> spans;
    for (const auto& [b, l] : alive) spans.push_back(l);
    MemoryPlan plan = plan_memory(spans);
    size_t k = 0;
    for (const auto& [b, l] : alive) p_.buffers[b].offset = plan.offsets[k++];
    for (auto [b, memory] : home) p_.buffers[b].offset = p_.buffers[memory].offset;
    for (Buffer& b : p_.buffers) {
      if (b.whole.valid()) b.offset = p_.buffers[b.whole].offset + b.from;
    }
    p_.arena_bytes = plan.bytes;
    p_.arena_lower_bound = plan.lower_bound;
  }

  const Graph& g_;
  const Plan& plan_;
  const Catalogue& catalogue_;
  const Target& target_;
  const Parts parts_;
  Program p_;
  std::map<std::pair<NodeId, Layout>, BufferId> buffers_;  // by storage
  std::map<std::pair<NodeId, uint64_t>, BufferId> packed_;
  std::map<std::string, size_t> kernels_;
  std::map<std::pair<uint64_t, size_t>, bool> overwrites_;
};

}  // namespace

Program generate(const Graph& g, const Plan& plan, const Catalogue& catalogue,
                 const Target& target) {
  return Assembler(g, plan, catalogue, target).assemble();
}

}  // namespace emend
