#include "run/machine.h"

#include <gtest/gtest.h>

#include <fstream>

#include "support/scratch.h"

namespace emend {
namespace {

TEST(Machine, RatesAreMeasuredOnceAndKept) {
  Scratch scratch;
  MachineRates first = machine_rates(scratch.folder());
  // Between a slow core of any age and what no core of today does.
  EXPECT_GT(first.flops, 1e8);
  EXPECT_LT(first.flops, 1e12);
  EXPECT_GT(first.bytes, 1e8);
  EXPECT_LT(first.bytes, 1e12);
  EXPECT_EQ(machine_rates(scratch.folder()), first);
  EXPECT_EQ(scratch.files(), 1u);
}

TEST(Machine, WhatWasKeptIsReadUnlessItIsNonsense) {
  Scratch measured;
  machine_rates(measured.folder());
  auto name = fs::directory_iterator(measured.folder())->path().filename();
  Scratch kept, broken;
  std::ofstream(kept.folder() / name) << "12345678900 9876543210\n";
  EXPECT_EQ(machine_rates(kept.folder()), (MachineRates{12345678900, 9876543210}));
  std::ofstream(broken.folder() / name) << "nan -1\n";
  EXPECT_GT(machine_rates(broken.folder()).flops, 1e8);
}

TEST(Machine, AFolderThatCannotBeWrittenIsNoReasonToStop) {
  EXPECT_GT(machine_rates("/proc/no such folder").bytes, 1e8);
}

// Kernels of every width can be tried on one machine.
TEST(Machine, NarrowerRegistersCanBeAskedFor) {
  const int widest = vector_bytes();
  ::setenv("EMEND_VECTOR_BYTES", "16", 1);
  EXPECT_EQ(vector_bytes(), 16);
  EXPECT_FALSE(has_byte_dots());
  ::setenv("EMEND_VECTOR_BYTES", "4096", 1);
  EXPECT_EQ(vector_bytes(), widest);
  ::unsetenv("EMEND_VECTOR_BYTES");
  EXPECT_EQ(vector_bytes(), widest);
}

}  // namespace
}  // namespace emend
