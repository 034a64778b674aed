// The vectorisable functions that kernels call, compiled as kernels are, against the exact ones.
#include "kernels/cpu/c_code.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <sstream>

#include "run/compile.h"
#include "support/scratch.h"

namespace emend {
namespace {

struct Function {
  const char* name;
  double (*exact)(double);
  double low, high;
  double ulps;  // the largest error allowed, in units of the result's last place
};

void PrintTo(const Function& f, std::ostream* out) {
  *out << f.name;
}

class CFunctions : public testing::TestWithParam<Function> {
 protected:
  std::vector<float> values_of(const std::vector<float>& x) const {
    Scratch folder;
    KernelCode code = named_kernel(
        std::string("void ENTRY(void* const* b, int64_t first, int64_t last, int32_t* fault) {\n"
                    "const float* x = b[0]; float* y = b[1];\n"
                    "for (int64_t i = first; i < last; ++i) y[i] = ") +
            GetParam().name + "(x[i]);\n}\n",
        1);
    CompileOptions options;
    options.cache = folder / "kernels";
    auto compiled = compile_kernels(std::span(&code, 1), c_prelude(), options);
    std::vector<float> y(x.size());
    void* buffers[] = {const_cast<float*>(x.data()), y.data()};
    int32_t fault = 0;
    compiled.functions[0](buffers, 0, static_cast<int64_t>(x.size()), &fault);
    return y;
  }
};

TEST_P(CFunctions, StayWithinTheirBound) {
  const Function& f = GetParam();
  std::vector<float> x;
  for (int i = 0; i <= 1'000'000; ++i)
    x.push_back(static_cast<float>(f.low + (f.high - f.low) * i / 1e6));
  auto y = values_of(x);
  double worst = 0;
  float at = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    double exact = f.exact(static_cast<double>(x[i]));
    auto nearest = static_cast<float>(exact);
    double unit = std::nextafter(std::abs(nearest), std::numeric_limits<float>::infinity()) -
                  std::abs(nearest);
    double error = std::abs(static_cast<double>(y[i]) - exact) / unit;
    if (!(error <= worst)) worst = error, at = x[i];
  }
  EXPECT_LE(worst, f.ulps) << "at " << at;
  RecordProperty("ulps", std::to_string(worst));
}

TEST_P(CFunctions, KnowTheSpecialValues) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  std::vector<float> x = {0.f, -0.f, kInf, -kInf, std::nanf(""), 1000.f, -1000.f, 1e-40f};
  auto y = values_of(x);
  for (size_t i = 0; i < x.size(); ++i) {
    auto exact = static_cast<float>(GetParam().exact(static_cast<double>(x[i])));
    if (std::isnan(exact)) {
      EXPECT_TRUE(std::isnan(y[i])) << x[i];
    } else if (std::isinf(exact) || exact == 0) {
      EXPECT_EQ(y[i], exact) << x[i];
    } else {
      EXPECT_NEAR(y[i], exact, std::abs(exact) * 1e-6) << x[i];
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, CFunctions,
                         testing::Values(Function{"expf", std::exp, -87, 88, 2},
                                         Function{"tanhf", std::tanh, -10, 10, 3},
                                         Function{"logf", std::log, 1e-30, 1e6, 2},
                                         Function{"erff", std::erf, -5, 5, 3}),
                         [](const auto& info) { return std::string(info.param.name); });

// What the compiler may leave as a call is done one lane at a time in kernels that it finds long.
TEST(CCode, FunctionsOfFloatsAreAlwaysInlined) {
  std::istringstream lines(c_prelude());
  int functions = 0;
  for (std::string line; std::getline(lines, line);) {
    if (line.find(" float em_") == line.npos) continue;
    ++functions;
    EXPECT_TRUE(line.starts_with("EM_INLINE ")) << line;
  }
  EXPECT_GE(functions, 6);
}

}  // namespace
}  // namespace emend
