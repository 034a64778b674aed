#include "pipeline/compile.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cmath>
#include <cstring>
#include <functional>

#include "equiv/compare.h"
#include "ops/evaluate.h"
#include "support/compiled.h"
#include "support/scratch.h"
#include "text/text.h"

namespace emend {
namespace {

// Wherever it stands in its window: processors' own extremes forget some.
TEST(Compile, WhatIsNoNumberIsTheExtremeOfItsWindow) {
  Graph g = parse_graph(R"(graph(x: f32[1,9,9,32]) {
    %1 = transpose[perm=[0,3,1,2]](x)
    %2 = max_pool[kernel=[3,3], strides=[2,2], dilations=[1,1], pads=[0,0,0,0]](%1)
    return transpose[perm=[0,2,3,1]](%2)
  })");
  Tensor x = Tensor::make(DType::f32, {1, 9, 9, 32}, [](std::byte* out) {
    auto* values = reinterpret_cast<float*>(out);
    for (int i = 0; i < 9 * 9 * 32; ++i) values[i] = static_cast<float>(i * 7919 % 1009) - 500;
    for (int place = 0; place < 9; ++place) values[(place / 3 * 9 + place % 3) * 32 + place] = NAN;
  });
  Scratch scratch;
  CompileFlowOptions options;
  options.cpu.compile.cache = scratch.folder();
  std::vector<double> wanted = evaluate(g, std::vector<Value>{x})[0].tensor.reals(),
                      got = compile(g, options).run(std::vector<Value>{x})[0].tensor.reals();
  int numbers = 0;
  for (size_t i = 0; i < wanted.size(); ++i) {
    EXPECT_EQ(std::isnan(got[i]), std::isnan(wanted[i])) << i;
    if (std::isnan(wanted[i])) continue;
    ++numbers;
    EXPECT_EQ(got[i], wanted[i]) << i;
  }
  EXPECT_LE(numbers + 9, std::ssize(wanted));
}

// Faults would count as the kernel's time.
TEST(Compile, TimedRunsStoreWhereEarlierOnesDid) {
  constexpr int kRuns = 8;
  Graph g = parse_graph("graph(x: f32[512,1024]) { return relu(x) }");
  Scratch scratch;
  CompileFlowOptions options;
  options.cpu.compile.cache = scratch.folder();
  CpuProgram program = compile(g, options);
  std::vector<Value> inputs{Tensor::zeros(DType::f32, {512, 1024})};
  CpuProgram::Room room;
  program.step_seconds(inputs, 1, &room);
  auto faults = [] {
    rusage use{};
    ::getrusage(RUSAGE_SELF, &use);
    return use.ru_minflt;
  };
  const long before = faults(), pages = 512 * 1024 * 4 / ::sysconf(_SC_PAGESIZE);
  for (int r = 0; r < kRuns; ++r) program.step_seconds(inputs, 1, &room);
  EXPECT_LT(faults() - before, kRuns * pages / 4);
}

// Both additions print the same text, since only the number of tasks differs.
TEST(Compile, KernelsOfTheSameTextServeSeveralSizes) {
  expect_compiled_right(
      parse_graph(R"(graph(x: f32[16,40], b: f32[16,1], y: f32[64,40], c: f32[64,1]) {
    return add(x, b), add(y, c)
  })"));
}

// A group holds a constant of one element itself, which is no memory that a scan could read.
TEST(Compile, ARunningSumOfOneConstantIsLeftToOthers) {
  Graph g = parse_graph("graph() { %0 = constant f32[1]{3} return cum_sum[axis=0](%0) }");
  EXPECT_EQ(compile(g).run({}), evaluate(g, {}));
}

TEST(Compile, AReductionOverNothingIsNeutral) {
  expect_compiled_right(parse_graph(R"(graph(x: f32[2,0,4]) {
    return reduce_sum[axes=[1]](x), reduce_prod[axes=[1]](x)
  })"));
}

// Ones are exact, and what should be 1e-9 is lost beside a one.
TEST(Compile, ErrorsAreMeasuredByTheLargestValueNotTheLargestInexactOne) {
  expect_compiled_right(parse_graph(R"(graph(x: f32[64]) {
    %1 = cast[to=f32](less(x, constant f32[]{0}))
    %2 = add(mul(sub(constant f32[]{1}, %1), constant f32[]{1e-9}), constant f32[]{1})
    return add(%1, sub(%2, constant f32[]{1}))
  })"));
}

// The other threads may come to the failing step later, or be ahead of it: none may wait for ever.
TEST(Compile, AStepThatFailsEndsTheRunOnEveryThread) {
  Graph g = parse_graph(R"(graph(x: f32[4,8]) {
    %1 = add(x, x)
    %2 = onnx[type="Nope", domain="stranger", version=1, present=[1], result=type f32[4,8]](%1) : f32[4,8]
    return add(%2, %2)
  })");
  Scratch scratch;
  CompileFlowOptions options;
  options.cpu.compile.cache = scratch.folder();
  options.cpu.threads = 3;
  CpuProgram program = compile(g, options);
  auto inputs = random_inputs(g, 1);
  for (int i = 0; i < 500; ++i) EXPECT_THROW(program.run(inputs), Error);
}

// Nobody can draw a sequence; given ones serve, and without them no kernel is used unchecked.
TEST(Compile, KernelsThatCannotBeCheckedAreNotUsed) {
  Graph g = parse_graph(R"(graph(s: seq(f32[4]), x: f32[4]) {
    return add(add(x, x), sequence_at(s, constant i64[]{0}))
  })");
  std::vector<double> ones(4, 1);
  Tensor one = Tensor::of_reals(DType::f32, {4}, ones);
  std::vector<Value> inputs = {Value::sequence({Value(one)}), Value(one)};
  Scratch scratch;
  CompileFlowOptions options;
  options.cpu.compile.cache = scratch.folder();
  CompileReport report;
  EXPECT_EQ(compile(g, options, &report).run(inputs), evaluate(g, inputs));
  ASSERT_EQ(report.faults.size(), 1u);
  EXPECT_NE(report.faults[0].find("could not be checked, and are not used"), std::string::npos);
  EXPECT_EQ(report.on_reference.size(), report.groups);
  options.inputs = inputs;
  EXPECT_EQ(compile(g, options, &report).run(inputs), evaluate(g, inputs));
  EXPECT_TRUE(report.faults.empty());
  EXPECT_LT(report.on_reference.size(), report.groups);
}

// A graph whose random indices lie outside of their tensor.
struct OutsideOfItsTensor {
  explicit OutsideOfItsTensor(const char* text) : graph(parse_graph(text)) {
    options.cpu.compile.cache = scratch.folder();
    options.seed = 3;
    CpuProgram program = compile(graph, options, &report);
    EXPECT_THROW(program.run(random_inputs(graph, options.seed)), Error);
  }
  Graph graph;
  Scratch scratch;
  CompileFlowOptions options;
  CompileReport report;
};

TEST(Compile, IndicesOutsideOfTheirTensorDoNotKeepKernelsFromBeingChecked) {
  OutsideOfItsTensor c("graph(x: f32[1,3], i: i64[5]) { return gather[axis=0](x, i) }");
  EXPECT_EQ(c.report.faults, std::vector<std::string>());
  EXPECT_EQ(c.report.kernels_checked, 1);
}

// What was compared with nothing is not used, and counts as nothing the next time.
TEST(Compile, ScattersThatCannotBeCheckedAreLeftToTheReference) {
  for (const char* text :
       {"graph(x: f32[1,3], i: i64[5,3], u: f32[5,3]) { return scatter_elements(x, i, u) }",
        "graph(x: f32[1,3], i: i64[5,1], u: f32[5,3]) { return scatter_nd(x, i, u) }"}) {
    OutsideOfItsTensor c(text);
    EXPECT_EQ(c.report.kernels_checked, 0);
    ASSERT_EQ(c.report.faults.size(), 1u);
    EXPECT_NE(c.report.faults[0].find("could not be checked"), std::string::npos);
    // With data that is right, the kernel is.
    c.options.inputs = random_inputs(c.graph, c.options.seed);
    c.options.inputs[1] = Tensor::zeros(DType::i64, c.graph.type(c.graph.inputs[1].node).shape);
    CpuProgram checked = compile(c.graph, c.options, &c.report);
    EXPECT_EQ(c.report.faults, std::vector<std::string>());
    EXPECT_EQ(c.report.kernels_checked, 1);
    EXPECT_EQ(checked.run(c.options.inputs), evaluate(c.graph, c.options.inputs));
  }
}

// A page that nobody may read lies before every operand and another behind it, where no operand
// needs to be read beyond its ends. Concatenations are loads behind masks; a vector of known length
// that is masked in part must not be loaded whole, and an index that data names must not be
// followed outside, mask or no mask.
class FencedRun {
 public:
  explicit FencedRun(const char* text) : graph(parse_graph(text)) {
    options.cpu.compile.cache = scratch.folder();
    options.cpu.threads = 1;
  }
  ~FencedRun() {
    for (auto [at, bytes] : mapped_) ::munmap(at, bytes);
  }
  // The bytes stand at the beginning of readable memory, or at its end.
  Tensor fenced(const Tensor& t, bool at_the_end) {
    auto page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
    size_t bytes = t.bytes().size(), inner = (bytes + page - 1) / page * page;
    void* all = ::mmap(nullptr, inner + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    EXPECT_NE(all, MAP_FAILED);
    mapped_.emplace_back(all, inner + 2 * page);
    auto* begin = static_cast<std::byte*>(all) + page;
    EXPECT_EQ(::mprotect(begin, inner, PROT_READ | PROT_WRITE), 0);
    std::byte* at = begin + (at_the_end ? inner - bytes : 0);
    std::memcpy(at, t.data(), bytes);
    return Tensor(t.dtype(), t.shape(), nullptr, {at, bytes});
  }
  void expect_right(const std::vector<Value>& plain) {
    CpuProgram program = compile(graph, options);
    for (bool at_the_end : {false, true}) {
      std::vector<Value> inputs;
      for (const Value& v : plain) inputs.emplace_back(fenced(v.tensor, at_the_end));
      auto worst = worst_difference(graph, evaluate(graph, plain), program.run(inputs));
      EXPECT_LT(worst.rel, 1e-6);
    }
  }

  Graph graph;
  CompileFlowOptions options;
  Scratch scratch;

 private:
  std::vector<std::pair<void*, size_t>> mapped_;
};

TEST(Compile, MaskedLoadsStayInsideTheirOperands) {
  for (int n : {1, 2, 3, 5, 8, 13}) {
    std::string text = str("graph(x: f32[6,", n, "], y: f32[6,", n, "], z: f32[6,4]) { ",
                           "return concat[axis=1](mul(x, y), add(x, y), tanh(z)) }");
    FencedRun run(text.c_str());
    run.expect_right(random_inputs(run.graph, 1));
  }
}

TEST(Compile, MaskedLoadsOfKnownLengthAreNotLoadedWhole) {
  FencedRun run(
      R"(graph(c: f32[50,2], s: f32[50,2], p: i64[2,3], x: f32[2,3,4,2], y: f32[2,3,4,2], z: f32[2,3,4,4]) {
    %6 = reshape[shape=[2,3,1,2]](gather[axis=0](c, p))
    %7 = reshape[shape=[2,3,1,2]](gather[axis=0](s, p))
    %8 = sub(mul(%6, x), mul(%7, y))
    %9 = add(mul(%7, x), mul(%6, y))
    return transpose[perm=[0,2,1,3]](concat[axis=-1](concat[axis=-1](%8, %9), z))
  })");
  run.expect_right(random_inputs(run.graph, 1));
}

TEST(Compile, IndicesBehindAMaskAreNotFollowedOutside) {
  FencedRun run(R"(graph(x: f32[4,2], i: i64[6], z: f32[6,2]) {
    return concat[axis=1](mul(gather[axis=0](x, i), z), tanh(z))
  })");
  auto inputs = random_inputs(run.graph, 1);
  inputs[1] = Tensor::of_ints({0, 1, 2, 3, -1, -4});
  run.expect_right(inputs);
  CpuProgram program = compile(run.graph, run.options);
  inputs[0] = run.fenced(inputs[0].tensor, true);
  inputs[1] = Tensor::of_ints({0, 1, int64_t{1} << 40, -(int64_t{1} << 40), 4, -5});
  try {
    program.run(inputs);  // no crash: an error, or zeros where the mask is
  } catch (const Error&) {
  }
}

// A kernel that is bad in some way, and offers itself for every sum: only it is done without.
struct BadKernel {
  const char* name;
  std::function<std::vector<Candidate>()> candidates;
  std::function<KernelCode()> emit;
  const char* told;
};

class ABadKernel : public testing::TestWithParam<BadKernel> {};

TEST_P(ABadKernel, CostsItselfOnly) {
  const BadKernel& bad = GetParam();
  auto offered = [&](const Wanted& w, const Target&) {
    const auto& nest = w.in_memory.nest;
    bool sums = nest && std::ranges::any_of(nest->values, [](const NestValue& v) {
                  return v.kind == NestValue::Kind::reduce && v.reduce == Reduce::sum;
                });
    return sums ? bad.candidates() : std::vector<Candidate>();
  };
  Catalogue catalogue = cpu_catalogue();
  catalogue.push_back(
      {.name = "bad",
       .candidates = offered,
       .emit = [&](const Graph&, const Candidate&, const Target&) { return bad.emit(); }});
  Graph g = parse_graph(R"(graph(x: f32[4,5], y: f32[5,3]) {
    %1 = relu(matmul(x, y))
    return %1, reduce_max[axes=[1]](%1), tanh(x)
  })");
  for (bool tuned : {false, true}) {
    for (int threads = 1; threads <= 8; threads += 7) {
      SCOPED_TRACE(testing::Message() << "tuned " << tuned << ", threads " << threads);
      Scratch scratch;
      CompileFlowOptions options{.catalogue = &catalogue};
      options.cpu.compile.cache = scratch.folder();
      options.cpu.threads = threads;
      if (tuned)
        options.measuring = {.prices = std::make_shared<PriceList>(scratch / "prices.db"),
                             .seconds = 60};
      CompileReport report;
      auto inputs = random_inputs(g, 1);
      auto outputs = compile(g, options, &report).run(inputs);
      EXPECT_LT(worst_difference(g, evaluate(g, inputs), outputs).rel, 1e-6);
      EXPECT_TRUE(report.compiled);
      EXPECT_TRUE(report.on_reference.empty());
      ASSERT_FALSE(report.faults.empty());
      EXPECT_NE(report.faults[0].find("kernel bad"), std::string::npos) << report.faults[0];
      EXPECT_NE(report.faults[0].find(bad.told), std::string::npos) << report.faults[0];
    }
  }
}

std::vector<Candidate> one_candidate() {
  return {{.kernel = "bad", .estimate_s = 1e-12}};
}
KernelCode code_of(const std::string& body) {
  return {.text = "void bad(void* const* b, int64_t first, int64_t last, int32_t* fault) {" + body +
                  "}\n",
          .entry = "bad",
          .tasks = 1};
}

INSTANTIATE_TEST_SUITE_P(
    Compile, ABadKernel,
    testing::Values(BadKernel{"that_trips_while_it_is_asked",
                              []() -> std::vector<Candidate> { throw InternalError("tripped"); },
                              [] { return code_of(""); }, "tripped"},
                    BadKernel{"that_trips_while_it_is_written", one_candidate,
                              []() -> KernelCode { throw InternalError("tripped"); }, "tripped"},
                    BadKernel{"that_does_not_compile", one_candidate,
                              [] { return code_of("row6[0] = 1;"); }, "row6"},
                    BadKernel{"that_computes_nothing", one_candidate, [] { return code_of(""); },
                              "error of"}),
    [](const auto& info) { return info.param.name; });

TEST(Compile, WithoutACompilerTheReferenceComputesAndTheReportSaysSo) {
  Graph g = parse_graph("graph(x: f32[4,5], y: f32[5,3]) { return relu(matmul(x, y)) }");
  Scratch scratch;
  CompileFlowOptions options;
  options.cpu.compile.cache = scratch.folder();
  options.cpu.compile.compiler = "/nonexistent/cc";
  options.measuring = {.prices = std::make_shared<PriceList>(scratch / "prices.db"), .seconds = 60};
  CompileReport report;
  auto inputs = random_inputs(g, 1);
  auto outputs = compile(g, options, &report).run(inputs);
  EXPECT_EQ(outputs, evaluate(g, inputs));
  EXPECT_FALSE(report.compiled);
  ASSERT_EQ(report.faults.size(), 1u);
  EXPECT_NE(report.faults[0].find("no C compiler: /nonexistent/cc"), std::string::npos);
  EXPECT_EQ(report.on_reference.size(), report.groups);
}

}  // namespace
}  // namespace emend
