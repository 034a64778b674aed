// A short array of trivially copyable items, stored in place up to N of them. Argument lists of
// nodes are nearly always shorter than four, and graphs have many nodes.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <type_traits>

namespace emend {

template <class T, size_t N>
class SmallVec {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  SmallVec() = default;
  SmallVec(std::initializer_list<T> items) : SmallVec(std::span<const T>(items)) {}
  SmallVec(std::span<const T> items) {
    reserve(items.size());
    std::copy(items.begin(), items.end(), data());
    size_ = static_cast<uint32_t>(items.size());
  }
  SmallVec(const SmallVec& other) : SmallVec(std::span<const T>(other)) {}
  SmallVec(SmallVec&&) noexcept = default;
  SmallVec& operator=(const SmallVec& other) {
    if (this != &other) *this = SmallVec(other);
    return *this;
  }
  SmallVec& operator=(SmallVec&&) noexcept = default;

  void push_back(const T& item) {
    T copy = item;
    reserve(size_ + size_t{1});
    data()[size_++] = copy;
  }
  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  T* data() { return heap_ ? heap_.get() : inline_; }
  const T* data() const { return heap_ ? heap_.get() : inline_; }
  T& operator[](size_t i) { return data()[i]; }
  const T& operator[](size_t i) const { return data()[i]; }
  T* begin() { return data(); }
  T* end() { return data() + size_; }
  const T* begin() const { return data(); }
  const T* end() const { return data() + size_; }
  operator std::span<const T>() const { return {data(), size_}; }
  friend bool operator==(const SmallVec& a, const SmallVec& b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end());
  }

 private:
  void reserve(size_t n) {
    if (n <= capacity_) return;
    size_t grown = std::max(n, size_t{capacity_} * 2);
    auto heap = std::make_unique<T[]>(grown);
    std::copy(begin(), end(), heap.get());
    heap_ = std::move(heap);
    capacity_ = static_cast<uint32_t>(grown);
  }
  uint32_t size_ = 0, capacity_ = N;
  T inline_[N] = {};
  std::unique_ptr<T[]> heap_;
};

}  // namespace emend
