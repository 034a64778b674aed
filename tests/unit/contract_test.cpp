// What `contract` chooses and what it asks of the machine; that its results are right is tested on
// random groups (ops/kernels_property_test.cpp).
#include <gtest/gtest.h>

#include <regex>

#include "base/text.h"
#include "kernels/cpu/contract_estimate.h"
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/strassen.h"
#include "ops/build.h"

namespace emend {
namespace {

const Target kTarget{.vector_bytes = 64, .threads = 2, .peak_flops = 2.3e11};

// [m, k] times [k, n], or times the transpose of [n, k].
Graph product(int64_t m, int64_t n, int64_t k, bool turned = false) {
  GraphBuilder b;
  NodeId x = b.input("x", Type::tensor(DType::f32, {m, k}));
  NodeId w = b.input("w", Type::tensor(DType::f32, turned ? Dims{n, k} : Dims{k, n}));
  if (turned) w = b.op("transpose", {w}, Attrs({{"perm", Dims{1, 0}}}));
  b.output("y", b.op("matmul", {x, w}));
  return std::move(b).build();
}

std::vector<Candidate> candidates(const Graph& group, bool constant) {
  return contract_kernel().candidates({group, {false, constant}, {}}, kTarget);
}

ContractConfig best(const Graph& group) {
  return candidates(group, true).at(0).config.as<ContractConfig>();
}

Candidate best_of_plain(const Graph& group) {
  auto all = candidates(group, true);
  return *std::ranges::find_if(all, [](const Candidate& c) { return c.error == 0; });
}
ContractConfig best_plain(const Graph& group) {
  return best_of_plain(group).config.as<ContractConfig>();
}

// Bytes of arrays of the printed function, which lie on the stack.
int64_t stack_bytes(const std::string& text) {
  static const std::regex kArray("float \\w+\\[(\\d+)\\] __attribute__");
  int64_t floats = 0;
  for (std::sregex_iterator i(text.begin(), text.end(), kArray), end; i != end; ++i) {
    floats += std::stoll((*i)[1]);
  }
  return 4 * floats;
}

TEST(Contract, BuffersOfATaskFindRoomOnTheStack) {
  for (bool turned : {false, true}) {
    for (Dims mnk : {Dims{512, 512, 64}, Dims{128, 768, 3072}, Dims{40, 40, 200000},
                     Dims{3000, 3000, 5}, Dims{2, 2, 1000000}}) {
      Graph g = product(mnk[0], mnk[1], mnk[2], turned);
      for (bool constant : {false, true}) {
        for (const Candidate& c : candidates(g, constant)) {
          EXPECT_LT(stack_bytes(contract_kernel().emit(g, c, kTarget).text), 4 << 20)
              << to_text(mnk) << " " << to_text(c.config);
        }
      }
    }
  }
}

// Plans that take more than others at least are never cut: no cut may be below that.
TEST(Contract, NoCutTakesLessThanTheLeast) {
  int64_t compared = 0;
  auto compare = [&](const Contraction& c, ContractPlan plan, const Target& target) {
    plan.cut(plan.blocks_m, plan.blocks_n);
    double least = ContractEstimate(c, plan, target).least_seconds();
    for (int64_t m = 1; m <= plan.blocks_m; m += 1 + m / 3) {
      for (int64_t n = 1; n <= plan.blocks_n; n += 1 + n / 3) {
        plan.cut(m, n);
        ++compared;
        EXPECT_LE(least, (1 + 1e-12) * ContractEstimate(c, plan, target).seconds())
            << to_text(to_attrs(plan.config));
      }
    }
  };
  for (Dims mnk : {Dims{128, 768, 3072}, Dims{1, 1000, 2048}, Dims{197, 61, 70}, Dims{9, 5, 4}}) {
    for (int bits = 0; bits < 64; ++bits) {
      bool turned = bits & 1, swapped = bits & 2, panels = bits & 4, rows = bits & 8,
           strassen = bits & 16;
      if (strassen && (swapped || rows || !panels)) continue;
      Graph g = product(mnk[0], mnk[1], mnk[2], turned);
      Contraction c = contraction_in(nest_of(g)).value();
      Target target = kTarget;
      target.threads = bits & 32 ? 5 : 1;
      for (ContractConfig f : {ContractConfig{.rows = 1, .vectors = 4},
                               {.rows = 13, .vectors = 2},
                               {.rows = 6, .vectors = 1, .copied = true}}) {
        f.swapped = swapped;
        f.strassen = strassen;
        if (f.copied && (strassen || rows)) continue;
        compare(c, contract_plan(c, f, panels, rows, target), target);
      }
    }
  }
  EXPECT_GT(compared, 5000);
}

// Who wants one candidate gets that which is first among all.
TEST(Contract, TheBestAloneIsTheBestOfMany) {
  for (Dims mnk : {Dims{128, 768, 3072}, Dims{1, 1000, 2048}, Dims{197, 64, 70}}) {
    Graph g = product(mnk[0], mnk[1], mnk[2]);
    auto one = contract_kernel().candidates({g, {false, true}, {}, 0}, kTarget);
    EXPECT_LE(one.size(), 2u);  // with and without sums of quarters
    EXPECT_EQ(one.at(0).config, candidates(g, true).at(0).config) << to_text(mnk);
  }
}

TEST(Contract, SumsThatAreTheResultNeedNoBuffer) {
  auto buffered = [](const Graph& g) {
    return contract_kernel().emit(g, best_of_plain(g), kTarget).text.find("float sums[") !=
           std::string::npos;
  };
  EXPECT_FALSE(buffered(product(128, 768, 768)));
  EXPECT_TRUE(buffered(product(128, 767, 768)));  // the last register is not whole
}

// The seven products are the eight, exactly: s[i][h] v[g][n] is in y[i'][n'] once where h = g,
// i = i' and n = n', else not at all.
TEST(Strassen, ProductsAreExact) {
  auto factor = [](const QuarterPair& p, int row, int column) {
    Quarter q{row, column};
    return (p.first == q ? 1 : 0) + (p.second == q ? p.sign : 0);
  };
  for (int bits = 0; bits < 64; ++bits) {
    int i = bits & 1, h = bits >> 1 & 1, g = bits >> 2 & 1, n = bits >> 3 & 1, to_i = bits >> 4 & 1,
        to_n = bits >> 5;
    int times = 0;
    for (const StrassenProduct& p : strassen_products()) {
      times += factor(p.rows, i, h) * p.weights[static_cast<size_t>(2 * g + n)] *
               factor(p.results, to_i, to_n);
    }
    EXPECT_EQ(times, h == g && i == to_i && n == to_n) << bits;
  }
}

// It says what it loses, more for longer sums, and stores nine quarters for four.
TEST(Strassen, CandidatesSayWhatTheyCost) {
  double last = 0;
  for (int64_t k : {256, 768, 3072}) {
    Graph g = product(128, 768, k);
    int found = 0;
    for (const Candidate& c : candidates(g, true)) {
      bool strassen = c.config.as<ContractConfig>().strassen;
      EXPECT_EQ(c.error > 0, strassen);
      if (!strassen) continue;
      ++found;
      EXPECT_GT(c.error, last);
      const Graph& packing = c.packing.at(1);
      EXPECT_EQ(4 * count(packing.type(packing.outputs[0].node).shape), 9 * 768 * k);
    }
    EXPECT_GT(found, 0);
    EXPECT_LT(found, static_cast<int>(candidates(g, true).size()));  // strict needs others
    last = strassen_error(k);
  }
  EXPECT_LT(last, 1e-5);
}

// Sums of weights that are not known ahead, or of a few rows, do not pay.
TEST(Strassen, IsForManyRowsAndKnownWeights) {
  EXPECT_TRUE(best(product(128, 768, 768)).strassen);
  EXPECT_FALSE(best(product(4, 768, 768)).strassen);
  EXPECT_FALSE(best(product(128, 768, 32)).strassen);
  for (const Candidate& c : candidates(product(128, 768, 768), false)) EXPECT_EQ(c.error, 0);
}

// Rows a multiple of 4 KiB apart lie in one set of the first-level cache, which holds eight lines.
TEST(Contract, RowsThatCollideAreFewOrCopied) {
  ContractConfig f = best_plain(product(128, 768, 3072));
  EXPECT_TRUE(f.copied || f.rows <= 8) << to_text(to_attrs(f));
}

// 67 MB of weights are read once: all rows are in one task, or every thread has its own and reads
// along with the others.
TEST(Contract, WeightsThatNoCacheHoldsAreReadOnce) {
  ContractConfig f = best_plain(product(128, 8192, 2048));
  EXPECT_FALSE(f.swapped);
  EXPECT_GE(f.blocks_m * f.rows, 64) << to_text(to_attrs(f));
}

TEST(Contract, ThreadsFinishTogether) {
  for (Dims mnk : {Dims{128, 768, 768}, Dims{512, 768, 768}, Dims{197, 2304, 768}}) {
    ContractConfig f = best_plain(product(mnk[0], mnk[1], mnk[2]));
    int64_t rows = f.blocks_m * f.rows, columns = f.blocks_n * f.vectors * 16;
    // Work of tasks [from, to), columns first.
    auto work = [&](int64_t from, int64_t to) {
      int64_t n = blocks(mnk[1], columns), sum = 0;
      for (int64_t t = from; t < to; ++t) {
        sum += std::min(rows, mnk[0] - t / n * rows) * std::min(columns, mnk[1] - t % n * columns);
      }
      return static_cast<double>(sum);
    };
    int64_t tasks = blocks(mnk[0], rows) * blocks(mnk[1], columns);
    double first = work(0, tasks / 2), second = work(tasks / 2, tasks);
    EXPECT_LT(std::abs(first - second), 0.04 * (first + second)) << to_text(to_attrs(f));
  }
}

}  // namespace
}  // namespace emend
