#include "run/weights.h"

#include <algorithm>
#include <cstdint>

#include "run/pages.h"
#include "run/repack.h"

namespace emend {
namespace {

// Files put bytes anywhere; compiled loads count on whole elements.
bool is_aligned(const Tensor& t) {
  auto element = static_cast<uintptr_t>(info(t.dtype()).bits) / 8;
  return element <= 1 ||
         reinterpret_cast<uintptr_t>(t.data()) % std::min<uintptr_t>(element, 8) == 0;
}

Repacking as_it_is(const Tensor& t) {
  return {.extents = {t.count()}, .strides = {1}};
}

}  // namespace

std::vector<Tensor> stored_weights(const Program& program, std::vector<Weight>& weights) {
  constexpr size_t kAlignment = 64;
  std::vector<const Buffer*> buffers(weights.size());
  for (const Buffer& b : program.buffers) {
    if (b.place == Buffer::Place::weight) buffers[b.index] = &b;
  }
  std::vector<size_t> offsets(weights.size());
  size_t bytes = 0;
  auto copied = [&](const Weight& w) {
    return w.tensor.dtype() != DType::string && (w.packing || !is_aligned(w.tensor));
  };
  for (size_t w = 0; w < weights.size(); ++w) {
    if (!copied(weights[w])) continue;
    offsets[w] = bytes;
    bytes += (buffers[w]->bytes + kAlignment - 1) / kAlignment * kAlignment;
  }
  auto memory = pages(bytes, "weights");
  std::vector<Tensor> stored;
  for (size_t w = 0; w < weights.size(); ++w) {
    Tensor from = std::move(weights[w].tensor);
    weights[w].tensor = {};
    if (!copied({from, weights[w].packing})) {
      stored.push_back(std::move(from));
      continue;
    }
    std::byte* to = memory.get() + offsets[w];
    repack(from, weights[w].packing ? *weights[w].packing : as_it_is(from), to);
    from.drop_pages();
    stored.emplace_back(from.dtype(), buffers[w]->type.shape, memory,
                        std::span<const std::byte>(to, buffers[w]->bytes));
  }
  return stored;
}

}  // namespace emend
