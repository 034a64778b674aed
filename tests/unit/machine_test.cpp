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

}  // namespace
}  // namespace emend
