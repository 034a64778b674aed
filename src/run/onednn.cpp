#include "run/onednn.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "base/text.h"

namespace emend {
namespace {

// ---- the part of the library's C interface (version 3) that is used here

struct Opaque;
using Handle = Opaque*;
struct Argument {
  int what;
  Handle memory;
};

constexpr int kCpu = 1, kInOrder = 1, kF32 = 3, kAnyFormat = 1, kInference = 96, kDirect = 1;
constexpr int kUserScratchpad = 1, kQueryImplementation = 8, kQueryWeights = 131;
constexpr int kQueryScratchpad = 136;
constexpr int kArgIn = 1, kArgOut = 17, kArgWeights = 33, kArgScratchpad = 80;
constexpr int kArgOther = 2, kArgEpilogue = 1 << 15;  // of the number k: (k + 1) times this

struct Api {
  int (*engine_create)(Handle*, int, size_t);
  int (*stream_create)(Handle*, Handle, unsigned);
  int (*memory_desc_create_with_strides)(Handle*, int, const int64_t*, int, const int64_t*);
  int (*memory_desc_create_with_tag)(Handle*, int, const int64_t*, int, int);
  int (*memory_desc_clone)(Handle*, Handle);
  int (*memory_desc_destroy)(Handle);
  size_t (*memory_desc_get_size)(Handle);
  int (*memory_create)(Handle*, Handle, Handle, void*);
  int (*memory_set_data_handle)(Handle, void*);
  int (*memory_destroy)(Handle);
  int (*primitive_attr_create)(Handle*);
  int (*primitive_attr_destroy)(Handle);
  int (*primitive_attr_set_scratchpad_mode)(Handle, int);
  int (*primitive_attr_set_post_ops)(Handle, Handle);
  int (*post_ops_create)(Handle*);
  int (*post_ops_destroy)(Handle);
  int (*post_ops_append_eltwise)(Handle, int, float, float);
  int (*post_ops_append_binary)(Handle, int, Handle);
  int (*convolution_forward_primitive_desc_create)(Handle*, Handle, int, int, Handle, Handle,
                                                   Handle, Handle, const int64_t*, const int64_t*,
                                                   const int64_t*, const int64_t*, Handle);
  int (*matmul_primitive_desc_create)(Handle*, Handle, Handle, Handle, Handle, Handle, Handle);
  int (*reorder_primitive_desc_create)(Handle*, Handle, Handle, Handle, Handle, Handle);
  Handle (*primitive_desc_query_md)(Handle, int, int);
  int (*primitive_desc_query)(Handle, int, int, void*);
  int (*primitive_desc_destroy)(Handle);
  int (*primitive_create)(Handle*, Handle);
  int (*primitive_execute)(Handle, Handle, int, const Argument*);
  int (*primitive_destroy)(Handle);
  int (*stream_wait)(Handle);
};

struct Library {
  OnednnState state;
  Api api{};
  int (*threads)() = nullptr;
  void (*set_threads)(int) = nullptr;
  Handle engine = nullptr, stream = nullptr;

  Library() {
    const char* given = std::getenv("EMEND_ONEDNN");
    const char* name = given ? given : "libdnnl.so.3";
    void* so = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (!so) {
      state.text = str("not found (", dlerror(), ")");
      return;
    }
    std::string missing;
    auto find = [&](auto& function, const std::string& symbol) {
      void* at = dlsym(so, symbol.c_str());
      if (!at && missing.empty()) missing = symbol;
      std::memcpy(&function, &at, sizeof at);
    };
#define EMEND_FIND(symbol) find(api.symbol, "dnnl_" #symbol)
    EMEND_FIND(engine_create);
    EMEND_FIND(stream_create);
    EMEND_FIND(memory_desc_create_with_strides);
    EMEND_FIND(memory_desc_create_with_tag);
    EMEND_FIND(memory_desc_clone);
    EMEND_FIND(memory_desc_destroy);
    EMEND_FIND(memory_desc_get_size);
    EMEND_FIND(memory_create);
    EMEND_FIND(memory_set_data_handle);
    EMEND_FIND(memory_destroy);
    EMEND_FIND(primitive_attr_create);
    EMEND_FIND(primitive_attr_destroy);
    EMEND_FIND(primitive_attr_set_scratchpad_mode);
    EMEND_FIND(primitive_attr_set_post_ops);
    EMEND_FIND(post_ops_create);
    EMEND_FIND(post_ops_destroy);
    EMEND_FIND(post_ops_append_eltwise);
    EMEND_FIND(post_ops_append_binary);
    EMEND_FIND(convolution_forward_primitive_desc_create);
    EMEND_FIND(matmul_primitive_desc_create);
    EMEND_FIND(reorder_primitive_desc_create);
    EMEND_FIND(primitive_desc_query_md);
    EMEND_FIND(primitive_desc_query);
    EMEND_FIND(primitive_desc_destroy);
    EMEND_FIND(primitive_create);
    EMEND_FIND(primitive_execute);
    EMEND_FIND(primitive_destroy);
    EMEND_FIND(stream_wait);
#undef EMEND_FIND
    struct Version {
      int major, minor, patch;
    };
    const Version* (*version)() = nullptr;
    find(version, "dnnl_version");
    // Its threads are OpenMP's: one, set for each thread that calls.
    find(threads, "omp_get_max_threads");
    find(set_threads, "omp_set_num_threads");
    if (!missing.empty()) {
      state.text = str("not usable: ", name, " has no ", missing);
      return;
    }
    const Version& v = *version();
    if (v.major != 3) {
      state.text = str("not usable: version ", v.major, ".", v.minor, ", 3 is wanted");
      return;
    }
    if (api.engine_create(&engine, kCpu, 0) || api.stream_create(&stream, engine, kInOrder)) {
      state.text = "not usable: no engine for this processor";
      return;
    }
    state = {true, str(v.major, ".", v.minor, ".", v.patch)};
  }
};

const Library& library() {
  static const Library kLibrary;
  return kLibrary;
}

const Api& api() {
  return library().api;
}

// The library works alone on the thread that calls it.
class OneThread {
 public:
  OneThread() : before_(library().threads()) {
    if (before_ != 1) library().set_threads(1);
  }
  ~OneThread() {
    if (before_ != 1) library().set_threads(before_);
  }

 private:
  int before_;
};

void must(int status, const char* what) {
  if (status) throw Error(str("oneDNN: ", what, " failed with status ", status));
}

// Owns one of the library's objects.
struct Owned {
  Handle handle = nullptr;
  int (*destroy)(Handle) = nullptr;
  Owned() = default;
  Owned(Handle h, int (*d)(Handle)) : handle(h), destroy(d) {}
  Owned(Owned&& o) noexcept : handle(std::exchange(o.handle, nullptr)), destroy(o.destroy) {}
  Owned& operator=(Owned&& o) noexcept {
    std::swap(handle, o.handle);
    std::swap(destroy, o.destroy);
    return *this;
  }
  ~Owned() {
    if (handle) destroy(handle);
  }
  operator Handle() const { return handle; }
};

Owned described(const CallOperand& o) {
  Handle d = nullptr;
  must(api().memory_desc_create_with_strides(&d, static_cast<int>(o.dims.size()), o.dims.data(),
                                             kF32, o.strides.data()),
       "describing an operand");
  return {d, api().memory_desc_destroy};
}

Owned any_format(const CallOperand& o) {
  Handle d = nullptr;
  must(api().memory_desc_create_with_tag(&d, static_cast<int>(o.dims.size()), o.dims.data(), kF32,
                                         kAnyFormat),
       "describing weights");
  return {d, api().memory_desc_destroy};
}

Owned memory(Handle description, void* at) {
  Handle m = nullptr;
  must(api().memory_create(&m, description, library().engine, at), "making a memory object");
  return {m, api().memory_destroy};
}

Owned attributes(const LibraryCall& call) {
  Handle a = nullptr, p = nullptr;
  must(api().primitive_attr_create(&a), "making attributes");
  Owned attributes{a, api().primitive_attr_destroy};
  must(api().post_ops_create(&p), "making an epilogue");
  Owned post{p, api().post_ops_destroy};
  for (const CallEpilogue& e : call.epilogue) {
    using Kind = CallEpilogue::Kind;
    auto elementwise = [&](int kind) {
      must(api().post_ops_append_eltwise(post, kind, static_cast<float>(e.a),
                                         static_cast<float>(e.b)),
           "adding to an epilogue");
    };
    auto binary = [&](int kind) {
      Owned d = described(e.with);
      must(api().post_ops_append_binary(post, kind, d), "adding to an epilogue");
    };
    switch (e.kind) {
      case Kind::relu:
        elementwise(32);
        break;
      case Kind::tanh:
        elementwise(33);
        break;
      case Kind::linear:
        elementwise(38);
        break;
      case Kind::clip:
        elementwise(46);
        break;
      case Kind::add:
        binary(131056);
        break;
      case Kind::multiply:
        binary(131057);
        break;
      case Kind::subtract:
        binary(131061);
        break;
    }
  }
  must(api().primitive_attr_set_post_ops(attributes, post), "setting the epilogue");
  must(api().primitive_attr_set_scratchpad_mode(attributes, kUserScratchpad), "setting attributes");
  return attributes;
}

Owned primitive_description(const LibraryCall& call, Handle weights) {
  Owned in = described(call.in), out = described(call.out), attr = attributes(call);
  Handle d = nullptr;
  if (call.what == LibraryCall::What::convolution) {
    Dims dilations = call.dilations;
    for (int64_t& n : dilations) --n;  // counted from dense windows here
    must(api().convolution_forward_primitive_desc_create(
             &d, library().engine, kInference, kDirect, in, weights, nullptr, out,
             call.strides.data(), dilations.data(), call.pads.data(),
             call.pads.data() + call.strides.size(), attr),
         "a convolution");
  } else {
    must(api().matmul_primitive_desc_create(&d, library().engine, in, weights, nullptr, out, attr),
         "a matrix product");
  }
  return {d, api().primitive_desc_destroy};
}

Owned primitive_of(Handle description) {
  Handle p = nullptr;
  must(api().primitive_create(&p, description), "making a primitive");
  return {p, api().primitive_destroy};
}

struct FreeBytes {
  void operator()(void* p) const { std::free(p); }
};
using Bytes = std::unique_ptr<void, FreeBytes>;

Bytes bytes(size_t n) {
  constexpr size_t kLine = 64;
  Bytes b(std::aligned_alloc(kLine, (n + kLine) / kLine * kLine));
  if (!b) throw Error(str("no memory for ", n, " bytes"));
  return b;
}

struct Packed {
  CallOperand from;
  Owned format;
  Bytes data;
};

void repack(const CallOperand& o, const void* from, Handle format, void* to) {
  Owned plain = described(o);
  auto* start = static_cast<const float*>(from) + o.offset;
  Owned source = memory(plain, const_cast<float*>(start)), target = memory(format, to);
  Handle d = nullptr;
  must(api().reorder_primitive_desc_create(&d, plain, library().engine, format, library().engine,
                                           nullptr),
       "packing weights");
  Owned description{d, api().primitive_desc_destroy};
  Owned primitive = primitive_of(description);
  Argument arguments[] = {{kArgIn, source}, {kArgOut, target}};
  must(api().primitive_execute(primitive, library().stream, 2, arguments), "packing weights");
  must(api().stream_wait(library().stream), "packing weights");
}

}  // namespace

const OnednnState& onednn_state() {
  return library().state;
}

namespace {

// The call with weights in this format; nothing if the library has only its slow reference for it.
Owned taken(const LibraryCall& call, Handle weights) {
  try {
    Owned description = primitive_description(call, weights);
    const char* name = "";
    api().primitive_desc_query(description, kQueryImplementation, 0, &name);
    return std::strstr(name, "ref") ? Owned() : std::move(description);
  } catch (const Error&) {
    return {};
  }
}

}  // namespace

bool onednn_takes(const LibraryCall& call) {
  if (!onednn_state().loaded) return false;
  OneThread alone;
  Owned weights = call.pack ? any_format(call.weights) : described(call.weights);
  return taken(call, weights).handle != nullptr;
}

struct OnednnStep::Impl {
  struct Task {
    LibraryCall call;
    Owned description, primitive;
    size_t packed = 0;
  };
  std::vector<Task> tasks;
  std::vector<Packed> packed;
  size_t weight_bytes = 0;

  void add(const LibraryCall& call, std::span<const void* const> buffers) {
    Task t{call, {}, {}, 0};
    if (!call.pack) {
      Owned weights = described(call.weights);
      t.description = primitive_description(call, weights);
    } else {
      // As they are packed for an earlier part, if this one takes them so.
      for (t.packed = 0; t.packed < packed.size(); ++t.packed) {
        if (!(packed[t.packed].from == call.weights)) continue;
        t.description = taken(call, packed[t.packed].format);
        if (t.description.handle) break;
      }
      if (t.packed == packed.size()) {
        Owned any = any_format(call.weights);
        t.description = primitive_description(call, any);
        pack(call.weights, t.description, buffers);
      }
    }
    t.primitive = primitive_of(t.description);
    tasks.push_back(std::move(t));
  }

  void pack(const CallOperand& o, Handle description, std::span<const void* const> buffers) {
    Handle format = api().primitive_desc_query_md(description, kQueryWeights, 0);
    size_t size = api().memory_desc_get_size(format);
    Packed p{o, {}, bytes(size)};
    Handle copy = nullptr;
    must(api().memory_desc_clone(&copy, format), "describing weights");
    p.format = Owned(copy, api().memory_desc_destroy);
    repack(o, buffers[static_cast<size_t>(o.buffer)], p.format, p.data.get());
    weight_bytes += size;
    packed.push_back(std::move(p));
  }
};

// Memory objects of one run at a time.
struct OnednnStep::Bound {
  struct Slot {
    size_t argument;
    int64_t buffer, offset;
  };
  struct Task {
    std::vector<Owned> memories;
    std::vector<Argument> arguments;
    std::vector<Slot> slots;
    Bytes scratchpad;
  };
  std::vector<Task> tasks;
};

OnednnStep::OnednnStep(std::span<const LibraryCall> calls, std::span<const void* const> buffers)
    : impl_(std::make_unique<Impl>()) {
  if (!onednn_state().loaded) throw Error(str("oneDNN: ", onednn_state().text));
  OneThread alone;
  for (const LibraryCall& c : calls) impl_->add(c, buffers);
}

OnednnStep::~OnednnStep() = default;

size_t OnednnStep::weight_bytes() const {
  return impl_->weight_bytes;
}

bool OnednnStep::packs(int64_t buffer) const {
  return std::ranges::any_of(impl_->packed,
                             [&](const Packed& p) { return p.from.buffer == buffer; });
}

std::shared_ptr<OnednnStep::Bound> OnednnStep::bind() const {
  auto bound = std::make_shared<Bound>();
  for (const Impl::Task& t : impl_->tasks) {
    Bound::Task b;
    auto add = [&](int what, Handle format, void* at) {
      b.memories.push_back(memory(format, at));
      b.arguments.push_back({what, b.memories.back()});
    };
    auto from_buffer = [&](int what, const CallOperand& o) {
      Owned format = described(o);
      add(what, format, nullptr);
      b.slots.push_back({b.arguments.size() - 1, o.buffer, o.offset});
    };
    from_buffer(kArgIn, t.call.in);
    from_buffer(kArgOut, t.call.out);
    if (t.call.pack) {
      const Packed& p = impl_->packed[t.packed];
      add(kArgWeights, p.format, p.data.get());
    } else {
      from_buffer(kArgWeights, t.call.weights);
    }
    for (size_t e = 0; e < t.call.epilogue.size(); ++e) {
      using Kind = CallEpilogue::Kind;
      if (t.call.epilogue[e].kind < Kind::add) continue;
      from_buffer(static_cast<int>(e + 1) * kArgEpilogue | kArgOther, t.call.epilogue[e].with);
    }
    Handle scratch = api().primitive_desc_query_md(t.description, kQueryScratchpad, 0);
    if (size_t size = scratch ? api().memory_desc_get_size(scratch) : 0) {
      b.scratchpad = bytes(size);
      add(kArgScratchpad, scratch, b.scratchpad.get());
    }
    bound->tasks.push_back(std::move(b));
  }
  return bound;
}

bool OnednnStep::run(Bound& bound, void* const* buffers, int64_t first, int64_t last) const {
  OneThread alone;
  bool good = true;
  for (int64_t i = first; i < last; ++i) {
    Bound::Task& b = bound.tasks[static_cast<size_t>(i)];
    for (const Bound::Slot& s : b.slots) {
      auto* at = static_cast<float*>(buffers[s.buffer]) + s.offset;
      good = good && !api().memory_set_data_handle(b.arguments[s.argument].memory, at);
    }
    good = good && !api().primitive_execute(impl_->tasks[static_cast<size_t>(i)].primitive,
                                            library().stream, static_cast<int>(b.arguments.size()),
                                            b.arguments.data());
  }
  return good;
}

}  // namespace emend
