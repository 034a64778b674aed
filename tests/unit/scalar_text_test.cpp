// The printed C of scalar functions is compiled by the system's compiler and gives the values of
// the reference, for every elementwise operator and every derivative of one; the same text is CUDA.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <limits>

#include "base/rng.h"
#include "ops/build.h"
#include "ops/scalar_eval.h"
#include "ops/table.h"
#include "support/scratch.h"

namespace emend {
namespace {

struct Function {
  std::string name;  // of the C function, without the type's suffix
  std::string what;  // for messages
  Scalar body;
  bool bits = false;  // works on bit patterns of whole numbers
};

// Every elementwise operator's body and its derivatives, attributes at their defaults.
std::vector<Function> functions() {
  std::vector<Function> all;
  auto add = [&](const std::string& what, const Scalar& body) {
    bool bits = false;
    for (const Instr& in : body.code)
      bits |= in.fn == Fn::bit_not || (in.fn >= Fn::bit_and && in.fn <= Fn::shift_right);
    all.push_back({str("f", all.size()), what, body, bits});
  };
  for (const OpDef& d : all_ops()) {
    if (d.body.empty()) continue;
    Scalar body = bind(d.body, complete_attrs(d, {}).value_or_throw());
    add(d.name, body);
    for (int k = 0; k < d.max_args; ++k) {
      if (d.result != ResultType::boolean)
        add(str("derivative of ", d.name, " by operand ", k), derivative(body, k));
    }
  }
  return all;
}

// void f(long n, const T* a, const T* b, const T* c, T* out)
std::string c_function(const Function& f, const std::string& type, bool cuda) {
  const std::string args[] = {"a[i]", "b[i]", "c[i]"};
  CText text = c_text(f.body, args, {}, type);
  std::string head = str("void ", f.name, "_", type, "(long n, const ", type, "* a, const ", type,
                         "* b, const ", type, "* c, ", type, "* out)");
  std::string body;
  for (const std::string& s : text.statements) body += "    " + s + "\n";
  body += str("    out[i] = ", text.result, ";\n");
  if (cuda) {
    return str("extern \"C\" __global__ ", head, " {\n  long i = blockIdx.x;\n  if (i < n) {\n",
               body, "  }\n}\n");
  }
  return str(head, " {\n  for (long i = 0; i < n; ++i) {\n", body, "  }\n}\n");
}

std::string source(const std::vector<Function>& all, bool cuda) {
  std::string text = "#include <math.h>\n";
  for (const Function& f : all)
    for (const char* type : {"float", "double"}) text += c_function(f, type, cuda);
  return text;
}

bool runs(const std::string& command) {
  return std::system((command + " >/dev/null 2>&1").c_str()) == 0;
}

template <class T>
std::vector<T> inputs(Rng& rng, size_t n, bool bits) {
  constexpr T kInf = std::numeric_limits<T>::infinity();
  const T special[] = {T(0),    T(-0.0), T(0.5), T(-0.5),
                       T(1),    T(-1),   T(1.5), T(2.5),
                       T(-2.5), kInf,    -kInf,  std::numeric_limits<T>::quiet_NaN()};
  std::vector<T> v(n);
  for (T& x : v) {
    if (bits)
      x = static_cast<T>(static_cast<int64_t>(rng.uniform() * 40));
    else if (rng.uniform() < 0.3)
      x = special[static_cast<size_t>(rng.uniform() * std::size(special))];
    else
      x = static_cast<T>(rng.uniform() * 8 - 4);
  }
  return v;
}

template <class T>
void compare(void* library, const Function& f, const std::string& type) {
  using Compiled = void (*)(long, const T*, const T*, const T*, T*);
  auto compiled = reinterpret_cast<Compiled>(dlsym(library, (f.name + "_" + type).c_str()));
  ASSERT_NE(compiled, nullptr) << f.what;
  constexpr size_t kCount = ScalarMachine<T>::kBlock;
  ScalarMachine<T> machine(f.body);
  Rng rng(17);
  for (int round = 0; round < 8; ++round) {
    std::vector<T> x[3], got(kCount);
    for (auto& v : x) v = inputs<T>(rng, kCount, f.bits);
    compiled(kCount, x[0].data(), x[1].data(), x[2].data(), got.data());
    const T* args[] = {x[0].data(), x[1].data(), x[2].data()};
    const T* want = machine.run(kCount, args, nullptr);
    for (size_t i = 0; i < kCount; ++i) {
      if (std::isnan(want[i]) && std::isnan(got[i])) continue;
      if (want[i] == got[i]) continue;
      // Compilers may use another library's functions: a few units in the last place.
      T room = 8 * std::numeric_limits<T>::epsilon() * (1 + std::abs(want[i]));
      ASSERT_LE(std::abs(want[i] - got[i]), room)
          << f.what << " in " << type << " at " << x[0][i] << ", " << x[1][i] << ", " << x[2][i]
          << ": C gives " << got[i] << ", the reference " << want[i] << "\n"
          << c_function(f, type, false);
    }
  }
}

TEST(ScalarText, CompiledCGivesTheReferenceValues) {
  if (!runs("cc --version")) GTEST_SKIP() << "no C compiler `cc` to try the printed C with";
  auto all = functions();
  EXPECT_GT(all.size(), 150u);
  Scratch scratch;
  put_file(scratch / "f.c", source(all, false));
  std::string command =
      str("cc -O1 -ffp-contract=off -shared -fPIC -o ", (scratch / "f.so").string(), " ",
          (scratch / "f.c").string(), " -lm 2>", (scratch / "log").string());
  ASSERT_EQ(std::system(command.c_str()), 0) << file_text(scratch / "log");
  void* library = dlopen((scratch / "f.so").c_str(), RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(library, nullptr) << dlerror();
  for (const Function& f : all) {
    compare<float>(library, f, "float");
    compare<double>(library, f, "double");
  }
  dlclose(library);
}

TEST(ScalarText, TheSameTextIsCuda) {
  if (!runs("nvcc --version"))
    GTEST_SKIP() << "no CUDA compiler `nvcc` to try the printed text with";
  Scratch scratch;
  put_file(scratch / "f.cu", source(functions(), true));
  std::string command = str("nvcc -x cu -ptx -o ", (scratch / "f.ptx").string(), " ",
                            (scratch / "f.cu").string(), " 2>", (scratch / "log").string());
  EXPECT_EQ(std::system(command.c_str()), 0) << file_text(scratch / "log");
}

}  // namespace
}  // namespace emend
