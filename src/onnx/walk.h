// Every tensor of a message, wherever it is nested: initializers, attributes, subgraphs, functions.
#pragma once

#include "onnx/fields.h"

namespace emend::onnx {

// Messages with a tensor somewhere below them; the others need not be entered.
template <class T>
inline constexpr bool kLeadsToTensors = false;
template <>
inline constexpr bool kLeadsToTensors<Model> = true;
template <>
inline constexpr bool kLeadsToTensors<Graph> = true;
template <>
inline constexpr bool kLeadsToTensors<Node> = true;
template <>
inline constexpr bool kLeadsToTensors<Attribute> = true;
template <>
inline constexpr bool kLeadsToTensors<SparseTensor> = true;
template <>
inline constexpr bool kLeadsToTensors<Function> = true;
template <>
inline constexpr bool kLeadsToTensors<TrainingInfo> = true;
template <>
inline constexpr bool kLeadsToTensors<Tensor> = true;

// Calls visit(parent, tensor) in the order in which they are written to a file; a FieldError that
// `visit` throws arrives with the path to the tensor.
template <class Message, class Visit>
void for_each_tensor(Message& message, const Visit& visit) {
  const auto enter = [&](auto& child) {
    if constexpr (std::is_same_v<std::remove_cvref_t<decltype(child)>, Tensor>) {
      visit(message, child);
    } else {
      for_each_tensor(child, visit);
    }
  };
  const auto step = [&](const auto& field) {
    auto& member = message.*field.member;
    using Member = std::remove_cvref_t<decltype(member)>;
    size_t index = 0;
    try {
      if constexpr (kIsList<Member>) {
        if constexpr (kLeadsToTensors<typename Member::value_type>) {
          for (; index < member.size(); ++index) enter(member[index]);
        }
      } else if constexpr (kIsOptional<Member>) {
        if constexpr (kLeadsToTensors<std::remove_cvref_t<decltype(*member)>>) {
          if (member) enter(*member);
        }
      } else if constexpr (kLeadsToTensors<Member>) {
        enter(member);
      }
    } catch (FieldError& error) {
      error.under(path_step(field.name, member, index));
      throw;
    }
  };
  std::apply([&](const auto&... fields) { (step(fields), ...); },
             kFields<std::remove_const_t<Message>>);
}

}  // namespace emend::onnx
