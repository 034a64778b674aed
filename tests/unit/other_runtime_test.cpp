#include "pipeline/other_runtime.h"

#include <gtest/gtest.h>

#include <optional>

#include "ops/build.h"
#include "support/scratch.h"

namespace emend {
namespace {

// For as long as this lives.
class Environment {
 public:
  Environment(const char* name, const std::string& value) : name_(name) {
    if (const char* old = std::getenv(name)) before_ = old;
    ::setenv(name, value.c_str(), 1);
  }
  ~Environment() {
    if (before_)
      ::setenv(name_, before_->c_str(), 1);
    else
      ::unsetenv(name_);
  }

 private:
  const char* name_;
  std::optional<std::string> before_;
};

OtherRuntimeOptions options() {
  return {.name = "onnxruntime",
          .threads = 1,
          .prices = std::make_shared<PriceList>(":memory:"),
          .patience_s = 20};
}

Graph sum(int64_t n) {
  GraphBuilder b;
  NodeId x = b.input("x", Type::tensor(DType::f32, {n}));
  b.output("y", b.op("add", {x, x}));
  return std::move(b).build();
}

// A helper that puts folders with something in them where the files were.
constexpr const char* kObstructs = R"(#!/bin/sh
echo '{"version": "0"}'
while read request; do
  for f in "$TMPDIR"/emend-runtime-*/*.onnx; do rm -rf "$f"; mkdir -p "$f/full"; done
  case $request in
    *,*.onnx*) echo '{"seconds": [0.5, 0.25], "reasons": [null, null]}' ;;
    *) echo '{"seconds": [0.5], "reasons": [null]}' ;;
  esac
done
)";

TEST(OtherRuntime, FilesThatCannotBeRemovedAreNoReasonToStop) {
  Scratch scratch;
  put_file(scratch / "python", kObstructs);
  fs::permissions(scratch / "python", fs::perms::owner_all);
  Environment temporary("TMPDIR", scratch.folder().string()),
      python("EMEND_PYTHON", (scratch / "python").string());
  OtherRuntime runtime(options());
  EXPECT_EQ(runtime.seconds(sum(2), "two").value_or_throw(), 0.5);
  EXPECT_EQ(runtime.race(sum(3), sum(4)).value_or_throw(), std::pair(0.5, 0.25));
  EXPECT_EQ(runtime.race(sum(5), sum(6)).value_or_throw(), std::pair(0.5, 0.25));
}

TEST(OtherRuntime, NoFolderForFilesIsTheUsersToMend) {
  Environment temporary("TMPDIR", "/nowhere/at all");
  try {
    OtherRuntime runtime(options());
    FAIL() << "it was started";
  } catch (const Error& e) {
    EXPECT_TRUE(std::string(e.what()).starts_with("/nowhere/at all: no folder")) << e.what();
  }
}

}  // namespace
}  // namespace emend
