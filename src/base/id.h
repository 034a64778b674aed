// Typed 32-bit ids and vectors indexed by them. Cross-references inside graphs are ids, never
// pointers: ids survive copying, print deterministically and cannot be mixed up across kinds.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

namespace emend {

template <class Tag>
struct Id {
  static constexpr uint32_t kNone = UINT32_MAX;
  uint32_t value = kNone;

  constexpr Id() = default;
  constexpr explicit Id(size_t v) : value(static_cast<uint32_t>(v)) {}
  constexpr bool valid() const { return value != kNone; }
  friend constexpr auto operator<=>(const Id&, const Id&) = default;
};

// A vector indexed by one kind of id.
template <class IdT, class T>
class IdVec {
 public:
  IdVec() = default;
  explicit IdVec(size_t n, const T& fill = T()) : items_(n, fill) {}

  IdT push_back(T item) {
    items_.push_back(std::move(item));
    return IdT(items_.size() - 1);
  }
  decltype(auto) operator[](IdT id) { return items_[id.value]; }
  decltype(auto) operator[](IdT id) const { return items_[id.value]; }
  size_t size() const { return items_.size(); }
  bool empty() const { return items_.empty(); }
  void resize(size_t n) { items_.resize(n); }
  auto begin() { return items_.begin(); }
  auto end() { return items_.end(); }
  auto begin() const { return items_.begin(); }
  auto end() const { return items_.end(); }
  bool operator==(const IdVec&) const = default;

 private:
  std::vector<T> items_;
};

}  // namespace emend

template <class Tag>
struct std::hash<emend::Id<Tag>> {
  size_t operator()(emend::Id<Tag> id) const { return std::hash<uint32_t>()(id.value); }
};
