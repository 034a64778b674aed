// Attributes of ONNX nodes as ours, and how attributes of a function's call reach its body.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "ir/attrs.h"
#include "onnx/schema.h"

namespace emend {

// What attribute references inside a function's body stand for.
class AttributeBindings {
 public:
  AttributeBindings() = default;
  AttributeBindings(const onnx::Function& f, const onnx::Node& call,
                    const AttributeBindings& caller);

  // The attribute itself, or what it refers to; null if that was left out.
  const onnx::Attribute* resolve(const onnx::Attribute& a) const;

 private:
  std::map<std::string, const onnx::Attribute*> bound_;
};

// Everything but graphs. Lists of tensors, graphs and types, which no standard operator has, and
// sparse tensors are records of their items.
AttrValue to_attribute(const onnx::Attribute& a);

// The value of a Constant node; nullopt if it has none of the attributes that we know.
std::optional<Tensor> constant_value(const onnx::Node& n, const AttributeBindings& bindings);

}  // namespace emend
