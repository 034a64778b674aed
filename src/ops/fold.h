// Constants computed before the program runs, and equal ones made one.
#pragma once

#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "ir/graph.h"
#include "ops/build.h"

namespace emend {

// Does a node have one value for the same operands? Not where it draws random numbers or has no
// meaning here, itself or in its bodies.
bool is_determined(const OpDef& def, Attrs attrs);
// May it be computed beforehand at all?
bool is_foldable(const OpDef& def, Attrs attrs);

// How much a program may still grow by folding.
class FoldBudget {
 public:
  explicit FoldBudget(int64_t bytes) : left_(bytes) {}
  // Results that are no larger than their operands together are always welcome.
  bool allows(const Type& result, Types operands) const {
    return growth(result, operands) <= left_;
  }
  void spend(const Type& result, Types operands) { left_ -= growth(result, operands); }

 private:
  static int64_t growth(const Type& result, Types operands);
  int64_t left_;
};

// The value of a node over constants, computed as the program itself would compute it (so that
// folding changes no bit); nullopt where the operator refuses these values.
std::optional<Tensor> folded(const OpDef& def, Attrs attrs, std::span<const Tensor> operands,
                             const Type& result);

// Finds constants by content. Few bytes of a weight are looked at unless another one has the same
// there; then both are hashed, once, however many rounds look at them.
class ConstantIndex {
 public:
  // A constant that is equal to this one and was seen before, or this one.
  Tensor canonical(const Tensor& t);

 private:
  struct Seen {
    Tensor tensor;  // keeps the bytes, and with them the key, alive
    uint64_t sample = 0;
    std::optional<uint64_t> hash;
  };
  // Constants of one type whose samples are the same.
  struct Alike {
    std::optional<Tensor> only;  // while there is one
    std::unordered_map<uint64_t, std::vector<Tensor>> by_hash;
  };
  uint64_t hash_of(const Tensor& t);

  std::unordered_map<const std::byte*, Seen> seen_;
  std::unordered_map<uint64_t, Alike> alike_;
};

}  // namespace emend
