#include "run/weights.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>  // for __GLIBC__
#include <cstring>

#if defined(__GLIBC__)
#include <malloc.h>
#endif

#include "run/pages.h"
#include "run/repack.h"

namespace emend {
namespace {

bool is_aligned(const Tensor& t) {
  auto element = static_cast<uintptr_t>(info(t.dtype()).bits) / 8;
  return element <= 1 ||
         reinterpret_cast<uintptr_t>(t.data()) % std::min<uintptr_t>(element, 8) == 0;
}

// Small weights that were folded lie in the heap, which keeps what is freed.
constexpr size_t kTrimAfter = size_t{4} << 20;
void trim_heap() {
#if defined(__GLIBC__)
  ::malloc_trim(0);
#endif
}

Repacking as_it_is(const Tensor& t) {
  return {.extents = {t.count()}, .strides = {1}};
}

}  // namespace

Tensor aligned(const Tensor& t) {
  if (is_aligned(t)) return t;
  return Tensor::make(t.dtype(), t.shape(),
                      [&](std::byte* out) { std::memcpy(out, t.data(), t.bytes().size()); });
}

std::vector<Tensor> stored_weights(const Program& program, std::vector<Weight>& weights) {
  constexpr size_t kAlignment = 64;
  std::vector<const Buffer*> buffers(weights.size());
  for (const Buffer& b : program.buffers) {
    if (b.place == Buffer::Place::weight) buffers[b.index] = &b;
  }
  std::vector<size_t> offsets(weights.size());
  size_t bytes = 0;
  auto copied = [&](const Weight& w) {
    return w.tensor.dtype() != DType::string && (w.packing || w.norms || !is_aligned(w.tensor));
  };
  for (size_t w = 0; w < weights.size(); ++w) {
    if (!copied(weights[w])) continue;
    offsets[w] = bytes;
    bytes += (buffers[w]->bytes + kAlignment - 1) / kAlignment * kAlignment;
  }
  trim_heap();  // what the stages before have freed
  auto memory = pages(bytes, "weights");
  size_t since_trim = 0;
  std::vector<Tensor> stored;
  for (size_t w = 0; w < weights.size(); ++w) {
    Tensor from = std::move(weights[w].tensor);
    weights[w].tensor = {};
    if (!copied({from, weights[w].packing, weights[w].norms})) {
      stored.push_back(std::move(from));
      continue;
    }
    std::byte* to = memory.get() + offsets[w];
    stored.emplace_back(from.dtype(), buffers[w]->type.shape, memory,
                        std::span<const std::byte>(to, buffers[w]->bytes));
    Repacking how = weights[w].packing ? *weights[w].packing : as_it_is(from);
    repack(from, how, to);
    if (weights[w].norms) write_norms(*weights[w].norms, to);
    from = {};
    if ((since_trim += buffers[w]->bytes) > kTrimAfter) trim_heap(), since_trim = 0;
  }
  trim_heap();
  return stored;
}

}  // namespace emend
