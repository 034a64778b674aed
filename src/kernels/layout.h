// How a value lies in memory. A layout never changes a value or its shape, only where its elements
// are: the order of its dimensions, outermost first. So a group whose operands lie otherwise is a
// group again, with transposes at its borders, and kernels that look through views need not know.
#pragma once

#include <vector>

#include "ir/graph.h"

namespace emend {

struct Layout {
  Dims order;    // empty: the order of the shape
  Dims strides;  // in that order, of a result that is part of something larger; empty: row-major
  bool plain() const { return order.empty() && strides.empty(); }
  auto operator<=>(const Layout&) const = default;
};

// Of what a group loads and stores; shorter lists are filled up with plain ones.
struct Layouts {
  std::vector<Layout> loads, stores;
  const Layout& load(size_t i) const;
  const Layout& store(size_t i) const;
  bool plain() const;
  bool operator==(const Layouts&) const = default;
};

// Batch, then space, then channels; plain where that is the same memory.
Layout channels_last(const Dims& shape);
Dims stored_shape(const Dims& shape, const Layout& layout);

// The group that reads and writes memory as it lies.
Graph laid_out(const Graph& group, const Layouts& layouts);
// The group that brings a value from one layout into another, in terms of the value.
Graph identity_group(const Type& type);

std::string to_text(const Layouts& layouts);

}  // namespace emend
