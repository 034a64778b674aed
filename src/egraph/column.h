// A growing array of plain values, the column of every table here. Unlike std::vector it grows by
// moving pages instead of copying what they hold, so that growth costs next to nothing and never
// holds two copies. Long columns lie in huge pages: they are read in random order.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <new>
#include <span>
#include <type_traits>
#include <utility>

namespace emend {

// A block of memory with the contents of the old one, which is gone; none and 0 bytes to begin
// with.
void* grow_block(void* block, size_t bytes, size_t wanted);
void free_block(void* block, size_t bytes);

template <class T>
class Column {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  Column() = default;
  Column(const Column& other) { append(other.span()); }
  Column(Column&& other) noexcept { swap(other); }
  Column& operator=(Column other) noexcept {
    swap(other);
    return *this;
  }
  ~Column() { free_block(static_cast<void*>(data_), bytes()); }
  void swap(Column& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    std::swap(capacity_, other.capacity_);
  }

  size_t size() const { return size_; }
  size_t capacity() const { return capacity_; }
  bool empty() const { return size_ == 0; }
  size_t bytes() const { return capacity_ * sizeof(T); }
  T* data() { return data_; }
  const T* data() const { return data_; }
  T& operator[](size_t i) { return data_[i]; }
  const T& operator[](size_t i) const { return data_[i]; }
  T& back() { return data_[size_ - 1]; }
  T* begin() { return data_; }
  T* end() { return data_ + size_; }
  const T* begin() const { return data_; }
  const T* end() const { return data_ + size_; }
  std::span<const T> span() const { return {data_, size_}; }

  void push_back(const T& item) {
    if (size_ == capacity_) {
      const T copy = item;  // it may be one of ours
      reserve(size_ + 1);
      data_[size_++] = copy;
      return;
    }
    data_[size_++] = item;
  }
  void pop_back() { --size_; }
  // Room for `count` more, whose values the caller writes.
  T* extend(size_t count) {
    reserve(size_ + count);
    T* first = data_ + size_;
    size_ += count;
    return first;
  }
  void append(std::span<const T> items) {
    if (!items.empty()) std::memcpy(extend(items.size()), items.data(), items.size() * sizeof(T));
  }
  void resize(size_t count, const T& fill = T()) {
    const size_t before = size_;
    reserve(count);
    size_ = count;
    if (count > before) std::fill(data_ + before, data_ + count, fill);
  }
  // Shrinks, or grows by values that the caller writes.
  void resize_unwritten(size_t count) {
    reserve(count);
    size_ = count;
  }
  void clear() { size_ = 0; }
  void reserve(size_t count) {
    if (count <= capacity_) return;
    // Short ones double, so that they are soon long enough; long ones waste less.
    const size_t more = bytes() < (size_t{1} << 20) ? capacity_ : capacity_ / 2;
    const size_t wanted = std::max({count, capacity_ + more, size_t{64}});
    data_ = static_cast<T*>(grow_block(static_cast<void*>(data_), bytes(), wanted * sizeof(T)));
    capacity_ = wanted;
  }

 private:
  T* data_ = nullptr;
  size_t size_ = 0, capacity_ = 0;
};

}  // namespace emend
