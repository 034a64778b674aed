#include "synthesize/values.h"

#include <algorithm>
#include <cmath>

#include "base/hash.h"
#include "ops/build.h"
#include "ops/families.h"
#include "ops/table.h"

namespace emend {
namespace {

constexpr double kRelative = 1e-9;

uint64_t hash_of(const Value& v) {
  if (v.is_tensor()) return hash(v.tensor);
  uint64_t h = 1;
  for (const Value& item : v.items) h = hash_mix(h, hash_of(item));
  return h;
}

uint64_t hash_of(const Type& t) {
  uint64_t h = hash_mix(static_cast<uint64_t>(t.kind), static_cast<uint64_t>(t.dtype));
  for (int64_t d : t.shape) h = hash_mix(h, static_cast<uint64_t>(d));
  for (const Type& item : t.items) h = hash_mix(h, hash_of(item));
  return h;
}

// Never 0, which means that there is no value.
uint64_t print_of(const std::optional<Value>& v) {
  return v ? hash_of(*v) | 1 : 0;
}

}  // namespace

bool is_zero(const ExactValue& v) {
  const auto& value = v.field ? v.field : v.integer;
  if (!value || !value->is_tensor()) return false;
  auto bytes = value->tensor.bytes();
  return std::all_of(bytes.begin(), bytes.end(), [](std::byte b) { return b == std::byte{}; });
}

Fingerprint fingerprint(const ExactValue& v) {
  return {print_of(v.field), print_of(v.integer)};
}

Agreement compare(const Fingerprint& a, const Fingerprint& b) {
  if (a.field && b.field) return a.field == b.field ? Agreement::equal : Agreement::different;
  if (a.integer && b.integer)
    return a.integer == b.integer ? Agreement::equal : Agreement::different;
  return Agreement::unknown;
}

bool real_agrees(const ExactValue& a, const ExactValue& b) {
  if (!a.real || !b.real) return true;
  const Tensor &x = a.real->tensor, &y = b.real->tensor;
  double largest = 0;
  for (int64_t i = 0; i < x.count(); ++i) largest = std::max(largest, std::abs(x.real(i)));
  for (int64_t i = 0; i < x.count(); ++i) {
    bool near = std::abs(x.real(i) - y.real(i)) <= kRelative * largest;
    if (!near && x.real(i) != y.real(i)) return false;
  }
  return true;
}

size_t Calculator::KeyHash::operator()(const Key& k) const {
  uint64_t h = hash_mix(k.op.value, k.attrs.hash());
  for (const Type& t : k.types) h = hash_mix(h, hash_of(t));
  return h;
}

const Calculator::Known& Calculator::known(Key key) {
  auto it = known_.find(key);
  if (it != known_.end()) return it->second;
  const OpDef& def = op_def(key.op);
  Known k;
  auto type = infer_type(def, key.attrs, key.types);
  if (type) k.type = *type;
  // As evaluate_node does: a hand-written function that moves elements comes first.
  bool by_hand = def.eval && def.has(raw_moves);
  if (type && (def.means || !def.body.empty()) && !by_hand)
    k.meaning = meaning_of(def, key.attrs, key.types);
  return known_.emplace(std::move(key), std::move(k)).first->second;
}

std::optional<Value> Calculator::evaluate(const Key& key, const Known& known, Arithmetic arithmetic,
                                          std::span<const Value> operands) {
  ++evaluations_;
  try {
    if (known.meaning) {
      std::vector<Tensor> tensors;
      for (const Value& v : operands) tensors.push_back(v.tensor);
      return evaluate_meaning(*known.meaning, arithmetic, key.types, tensors, known.type->dtype,
                              known.type->shape);
    }
    EvalContext context{.arithmetic = arithmetic,
                        .def = &op_def(key.op),
                        .attrs = key.attrs,
                        .types = key.types,
                        .type = *known.type};
    return evaluate_node(context, operands);
  } catch (const Inexact&) {
    return std::nullopt;
  }
}

std::optional<ExactValue> Calculator::apply(OpId op, Attrs attrs,
                                            std::span<const ExactValue* const> args) {
  Key key{op, attrs, {}};
  for (const ExactValue* a : args) key.types.push_back(a->type);
  const Known& k = known(key);
  if (!k.type) return std::nullopt;
  ExactValue out{*k.type, {}, {}, {}};
  auto in = [&](Arithmetic arithmetic, std::optional<Value> ExactValue::*member) {
    std::vector<Value> operands;
    for (const ExactValue* a : args) {
      if (!(a->*member)) return;
      operands.push_back(*(a->*member));
    }
    out.*member = evaluate(key, k, arithmetic, operands);
  };
  in(Arithmetic::field, &ExactValue::field);
  in(Arithmetic::integer, &ExactValue::integer);
  in(Arithmetic::real64, &ExactValue::real);
  if (!out.field && !out.integer) return std::nullopt;
  return out;
}

}  // namespace emend
