// The text of kernels into functions, by the system's C compiler, kept in a cache by content. The
// compiler is started without a shell, and nothing of a model is in its arguments or in the text.
// The cache folder belongs to its user alone; a stored library is used only if its bytes are those
// that were written (a sum beside it), else it is made again.
#pragma once

#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/progress.h"
#include "ir/program.h"

namespace emend {

using KernelFunction = void (*)(void* const* buffers, int64_t first, int64_t last, int32_t* fault);

// Why there is no code: no compiler, one that fails or is killed, a full disk. The reference can
// still compute what was asked for.
class CompileFailure : public Error {
 public:
  using Error::Error;
};

// Some texts that the compiler refuses; the others are compiled all the same.
class KernelsRefused : public CompileFailure {
 public:
  struct One {
    size_t kernel;
    std::string reason;
  };
  explicit KernelsRefused(std::vector<One> refused_)
      : CompileFailure(refused_.at(0).reason), refused(std::move(refused_)) {}
  std::vector<One> refused;  // in the order of the kernels
};

struct CompileOptions {
  std::filesystem::path cache;     // empty: the user's own (EMEND_CACHE_DIR, XDG_CACHE_HOME)
  std::string compiler;            // empty: $EMEND_CC, then cc
  std::vector<std::string> flags;  // besides the usual ones
  int vector_bytes = 0;            // of the widest registers to use; 0: this machine's
  Monitor monitor;
};

// Loaded code; the functions live as long as it does.
class CompiledKernels {
 public:
  std::vector<KernelFunction> functions;  // one per kernel; null for a library's
  std::filesystem::path folder;           // of the cache
  uint64_t machine = 0;                   // what code depends on besides its text
  int compiled = 0;                       // how many were not in the cache
  size_t code_bytes = 0;
  std::vector<std::shared_ptr<void>> libraries;
};

// The user's own folder for what can be made again (EMEND_CACHE_DIR, XDG_CACHE_HOME).
std::filesystem::path cache_folder();
std::filesystem::path kernel_folder();  // in it

// What compiled code depends on besides its own text: processor, compiler, flags, prelude. Throws
// CompileFailure when there is no compiler.
uint64_t machine_key(const std::string& prelude, const CompileOptions& options);

// Throws KernelsRefused where the compiler works but not on all of them, else CompileFailure where
// there is none or it fails.
CompiledKernels compile_kernels(std::span<const KernelCode> kernels, const std::string& prelude,
                                const CompileOptions& options);

}  // namespace emend
