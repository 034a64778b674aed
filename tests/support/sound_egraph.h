// What tests of the e-graph share.
#pragma once

#include <gtest/gtest.h>

#include "egraph/egraph.h"

namespace emend {

inline ClassId id_of(size_t n) {
  return ClassId(n);
}

// Every mutation goes through here.
inline void expect_sound(EGraph& g) {
  g.rebuild();
  const auto faults = g.faults();
  ASSERT_TRUE(faults.empty()) << faults.size() << " faults, first: " << faults[0];
}

}  // namespace emend
