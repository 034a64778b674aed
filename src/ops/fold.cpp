#include "ops/fold.h"

#include <algorithm>

#include "ops/evaluate.h"
#include "ops/table.h"

namespace emend {

bool is_determined(const OpDef& def, Attrs attrs) {
  if (def.kind == Kind::random || def.kind == Kind::opaque) return false;
  return std::ranges::all_of(attrs.entries(), [](const auto& entry) {
    const GraphRef* body = entry.second.template as<GraphRef>();
    return !body || !*body || std::ranges::all_of((*body)->nodes, [](const Node& n) {
      return n.op == kInputOp || n.op == kConstantOp || is_determined(op_def(n), n.attrs);
    });
  });
}

bool is_foldable(const OpDef& def, Attrs attrs) {
  return def.kind != Kind::structure && is_determined(def, attrs);
}

int64_t FoldBudget::growth(const Type& result, Types operands) {
  auto bytes = [](const Type& t) {
    auto size = storage_bytes(t.dtype, static_cast<uint64_t>(count(t.shape)));
    return static_cast<int64_t>(size.value_or(0));
  };
  int64_t before = 0;
  for (const Type& t : operands) before += bytes(t);
  return std::max<int64_t>(0, bytes(result) - before);
}

std::optional<Tensor> folded(const OpDef& def, Attrs attrs, std::span<const Tensor> operands,
                             const Type& result) {
  std::vector<Type> types;
  std::vector<Value> values;
  for (const Tensor& t : operands) {
    types.push_back(t.type());
    values.emplace_back(t);
  }
  EvalContext context{Arithmetic::own, &def, attrs, types, result};
  try {
    Value v = evaluate_node(context, values);
    for (const Tensor& t : operands) t.drop_pages();  // most are not asked for again
    if (!v.is_tensor() || v.tensor.type() != result) return std::nullopt;
    return v.tensor;
  } catch (const Error&) {
    return std::nullopt;  // an index out of range, say: the program will report it when it runs
  }
}

namespace {

// The ends and two places in between: reading all of a large model costs seconds.
uint64_t sample_of(std::span<const std::byte> bytes) {
  constexpr size_t kPlaces = 4, kSample = 256;
  size_t size = bytes.size();
  if (size <= kPlaces * kSample) return hash_bytes(bytes.data(), size);
  uint64_t h = size;
  for (size_t k = 0; k < kPlaces; ++k)
    h = hash_bytes(bytes.data() + (size - kSample) / (kPlaces - 1) * k, kSample, h);
  return h;
}

}  // namespace

uint64_t ConstantIndex::hash_of(const Tensor& t) {
  auto& hash = seen_.at(t.data()).hash;
  if (!hash) hash = hash_bytes(t.data(), t.bytes().size());
  return *hash;
}

Tensor ConstantIndex::canonical(const Tensor& t) {
  if (t.dtype() == DType::string || t.count() == 0) return t;
  auto [known, fresh] = seen_.try_emplace(t.data());
  if (fresh) known->second = {t, sample_of(t.bytes()), {}};
  Alike& alike = alike_[hash_mix(known->second.sample, hash_text(to_text(t.type())))];
  if (alike.by_hash.empty()) {
    if (!alike.only) alike.only = t;
    if (alike.only->data() == t.data() && alike.only->type() == t.type()) return *alike.only;
    alike.by_hash[hash_of(*alike.only)].push_back(*alike.only);
  }
  std::vector<Tensor>& same = alike.by_hash[hash_of(t)];
  for (const Tensor& other : same) {
    if (other == t) return other;
  }
  same.push_back(t);
  return t;
}

}  // namespace emend
