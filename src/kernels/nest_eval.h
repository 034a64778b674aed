// The values of a nest at single points, in double precision (integers exactly): what a kernel's
// sampled outputs are compared with. As slow as it is plain.
#pragma once

#include <cstddef>
#include <map>
#include <span>
#include <vector>

#include "kernels/nest.h"

namespace emend {

class NestPoints {
 public:
  // `loads` are the group's inputs in row-major order.
  NestPoints(const Nest& nest, std::span<const std::byte* const> loads)
      : nest_(nest), loads_(loads), free_(free_atoms(nest)) {}

  // What a store writes at a point of the space.
  double stored(const NestStore& store, std::span<const int64_t> point);
  // Where it writes it: the element's number.
  int64_t place(const NestStore& store, std::span<const int64_t> point);

 private:
  struct Number {
    double real = 0;
    int64_t whole = 0;
  };
  Number value(int v);
  Number load(const NestValue& u);
  Number reduction(const NestValue& u);
  Number rounded(const NestValue& u, Number n) const;
  int64_t index(const Linear& e);
  void set_point(std::span<const int64_t> point);

  const Nest& nest_;
  std::span<const std::byte* const> loads_;
  std::vector<std::vector<bool>> free_;
  std::vector<int64_t> iterators_;  // by atom
  // Values by what they depend on: a row's maximum is asked for by every term of its sum.
  std::map<std::pair<int, std::vector<int64_t>>, Number> known_;
};

}  // namespace emend
