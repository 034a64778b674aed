// The public functions, as an outsider calls them.
#include <gtest/gtest.h>

#include <cmath>
#include <thread>

#include "emend/emend.h"
#include "export/onnx.h"
#include "support/scratch.h"
#include "text/text.h"

namespace emend {
namespace {

class Facade : public testing::Test {
 protected:
  Facade() {
    ::setenv("EMEND_CACHE_DIR", (folder / "cache").c_str(), 1);
    Model model;
    model.graph = parse_graph(
        "graph(x: f32[7,33], w: f32[33,20]) { return y = softmax[axis=1](relu(matmul(x, w))) }");
    export_onnx(model, (folder / "model.onnx").string());
  }
  ~Facade() override {
    ::unsetenv("EMEND_CACHE_DIR");
    ::unsetenv("EMEND_CC");
  }

  static std::map<std::string, Array> inputs(float scale) {
    std::vector<float> x(7 * 33), w(33 * 20);
    for (size_t i = 0; i < x.size(); ++i) x[i] = scale * std::sin(static_cast<float>(i));
    for (size_t i = 0; i < w.size(); ++i) w[i] = std::cos(static_cast<float>(i));
    return {{"x", Array::of({7, 33}, x)}, {"w", Array::of({33, 20}, w)}};
  }

  static void expect_near(const Array& got, const Array& want) {
    ASSERT_EQ(got.shape, want.shape);
    auto g = got.floats(), w = want.floats();
    for (size_t i = 0; i < w.size(); ++i) ASSERT_NEAR(g[i], w[i], 1e-6) << i;
  }

  Scratch folder;
};

TEST_F(Facade, LoadsOptimizesRunsAndSaves) {
  Network model = load((folder / "model.onnx").string());
  EXPECT_EQ(model.inputs(), (std::vector<std::string>{"x", "w"}));
  EXPECT_EQ(model.outputs(), (std::vector<std::string>{"y"}));
  Network better = optimize(model);
  Array want = run(model, inputs(1), {.target = "interp"}).at("y");
  expect_near(run(better, inputs(1)).at("y"), want);
  save(better, (folder / "better.onnx").string());
  Network again = load((folder / "better.onnx").string());
  expect_near(run(again, inputs(1)).at("y"), want);
}

TEST_F(Facade, CompilesOncePerOptionsAndCopiesShareIt) {
  Network model = load((folder / "model.onnx").string());
  Network copy = model;
  RunReport first, second, other;
  run(model, inputs(1), {.threads = 1}, &first);
  EXPECT_TRUE(first.compiled_now);
  EXPECT_GT(first.steps, 0u);
  EXPECT_TRUE(first.on_reference.empty());
  EXPECT_TRUE(first.warnings.empty());
  run(copy, inputs(2), {.threads = 1}, &second);
  EXPECT_FALSE(second.compiled_now);
  EXPECT_EQ(second.steps, first.steps);
  run(model, inputs(1), {.threads = 2}, &other);
  EXPECT_TRUE(other.compiled_now);
}

TEST_F(Facade, ServesSeveralThreadsAndCompilesForThemOnce) {
  Network model = load((folder / "model.onnx").string());
  std::vector<Array> want;
  for (int t = 0; t < 4; ++t)
    want.push_back(run(model, inputs(static_cast<float>(t)), {.target = "interp"}).at("y"));
  std::atomic<int> compiled{0}, wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int r = 0; r < 50; ++r) {
        RunReport report;
        auto got = run(model, inputs(static_cast<float>(t)), {}, &report).at("y").floats();
        compiled += report.compiled_now;
        auto right = want[static_cast<size_t>(t)].floats();
        for (size_t i = 0; i < right.size(); ++i) wrong += !(std::abs(got[i] - right[i]) < 1e-5f);
      }
    });
  }
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(compiled, 1);
  EXPECT_EQ(wrong, 0);
}

TEST_F(Facade, SaysWhatFellBack) {
  ::setenv("EMEND_CC", "/nonexistent/cc", 1);
  Network model = load((folder / "model.onnx").string());
  RunReport report;
  Array got = run(model, inputs(1), {}, &report).at("y");
  expect_near(got, run(model, inputs(1), {.target = "interp"}).at("y"));
  EXPECT_EQ(report.on_reference.size(), report.steps);
  ASSERT_EQ(report.warnings.size(), 1u);
  EXPECT_NE(report.warnings[0].find("no C compiler"), std::string::npos);
}

TEST_F(Facade, AnAccuracyThatNoKernelCanHaveIsTheReference) {
  Network model = load((folder / "model.onnx").string());
  Array want = run(model, inputs(1), {.target = "interp"}).at("y");
  EXPECT_EQ(run(model, inputs(1), {.accuracy = 0}).at("y").bytes, want.bytes);
  RunReport strict;
  expect_near(run(model, inputs(1), {.accuracy = 1e-12}, &strict).at("y"), want);
  EXPECT_FALSE(strict.warnings.empty());
}

std::string failure(const std::function<void()>& work) {
  try {
    work();
  } catch (const std::exception& e) {
    return e.what();
  }
  return "";
}

TEST_F(Facade, NamesWhatIsWrong) {
  Network model = load((folder / "model.onnx").string());
  auto in = inputs(1);
  EXPECT_EQ(failure([&] { run(model, in, {.target = "abacus"}); }),
            "no target is called abacus: there are cpu and interp");
  EXPECT_NE(failure([&] { run(model, in, {.threads = -1}); }), "");
  EXPECT_NE(failure([&] { run(model, in, {.accuracy = NAN}); }), "");
  in.erase("w");
  EXPECT_EQ(failure([&] { run(model, in); }), "input w is missing");
  in["w"] = Array::of({20, 33}, std::vector<float>(660));
  EXPECT_EQ(failure([&] { run(model, in); }),
            "input w is f32[20,33], the program takes f32[33,20]");
  EXPECT_NE(failure([&] { load((folder / "none.onnx").string()); }).find("none.onnx"),
            std::string::npos);
}

}  // namespace
}  // namespace emend
