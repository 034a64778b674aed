#include "run/compile.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/mapped_file.h"
#include "base/parallel.h"
#include "base/text.h"
#include "run/kernel_cache.h"
#include "run/machine.h"
#include "run/onednn.h"

extern char** environ;

namespace emend {
namespace {

namespace fs = std::filesystem;

std::string hex(uint64_t h) {
  char text[24];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(h));
  return text;
}

// Stands in for a cache that cannot be used: fresh, private, gone with the process.
const fs::path& passing_folder() {
  struct Passing {
    fs::path path;
    pid_t owner = ::getpid();  // a forked child must not remove it
    Passing() {
      std::string fresh = (fs::temp_directory_path() / "emend-XXXXXX").string();
      if (!::mkdtemp(fresh.data())) {
        throw CompileFailure(str("no folder for compiled kernels: ", fresh,
                                 " cannot be made: ", std::strerror(errno)));
      }
      path = fresh;
    }
    ~Passing() {
      std::error_code ignored;
      if (::getpid() == owner) fs::remove_all(path, ignored);
    }
  };
  static const Passing passing;
  return passing.path;
}

// A folder that only its owner can enter, or one that passes where that cannot be had.
fs::path private_folder(const fs::path& wanted) {
  std::error_code error;
  fs::create_directories(wanted.parent_path(), error);
  ::mkdir(wanted.c_str(), 0700);
  return is_private_folder(wanted) ? wanted : passing_folder();
}

// Of one text: another may compile.
class Refused : public CompileFailure {
 public:
  using CompileFailure::CompileFailure;
};

constexpr int kNotStarted = 127, kKilled = 128;  // instead of a program's own exit code

// Runs a program without a shell; its exit code, and in `log` what it wrote.
int run_program(const std::vector<std::string>& command, const fs::path& log) {
  std::vector<char*> argv;
  for (const std::string& a : command) argv.push_back(const_cast<char*>(a.c_str()));
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, 1, log.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  posix_spawn_file_actions_adddup2(&actions, 1, 2);
  pid_t pid;
  int error = posix_spawnp(&pid, argv[0], &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error) return kNotStarted;
  int status;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : kKilled;
}

std::string read_text(const fs::path& p) {
  std::error_code none;
  if (!fs::is_regular_file(p, none)) return {};  // a folder opens like a file, and cannot be read
  std::ifstream in(p, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::vector<std::string> flags_of(const CompileOptions& o) {
  std::vector<std::string> flags = {"-std=gnu11",
                                    "-O3",
                                    "-shared",
                                    "-fPIC",
                                    "-march=native",
                                    "-fno-math-errno",
                                    "-fno-trapping-math",
                                    "-fopenmp-simd",
                                    "-fwrapv",
                                    "-fno-signaling-nans",
                                    "-w"};
#if defined(__x86_64__)
  int bytes = o.vector_bytes > 0 ? std::min(o.vector_bytes, 64) : vector_bytes();
  flags.push_back(str("-mprefer-vector-width=", bytes * 8));
  // GCC 12 turns short masked loads whose masks it knows into whole ones, which reach beside the
  // buffer; only with this extension.
  flags.emplace_back("-mno-avx512vl");
#endif
  flags.insert(flags.end(), o.flags.begin(), o.flags.end());
  return flags;
}

std::string compiler_of(const CompileOptions& options) {
  const char* named = std::getenv("EMEND_CC");
  return !options.compiler.empty() ? options.compiler : named ? named : "cc";
}

fs::path folder_of(const CompileOptions& options) {
  return private_folder(options.cache.empty() ? kernel_folder() : options.cache);
}

// What the compiler and the processor are, as far as code depends on it.
uint64_t compiler_key(const std::string& compiler, const fs::path& folder) {
  static std::map<std::string, uint64_t> known;
  static std::mutex lock;
  std::lock_guard guard(lock);
  auto it = known.find(compiler);
  if (it != known.end()) return it->second;
  fs::path log = folder / str("probe-", ::getpid());
  int code = run_program({compiler, "-march=native", "-Q", "--help=target"}, log);
  std::string facts = read_text(log);
  run_program({compiler, "--version"}, log);
  facts += read_text(log);
  std::error_code ignored;
  fs::remove(log, ignored);
  if (code == kNotStarted) {
    throw CompileFailure(str("no C compiler: ", compiler,
                             " cannot be started; install one, or name it by EMEND_CC"));
  }
  return known[compiler] = hash_text(facts);
}

// Do all parts that the loader would map lie inside of the file? It maps without looking, and a
// page beyond the end of a file ends the process.
bool is_whole(std::span<const std::byte> file) {
  ElfW(Ehdr) head;
  if (file.size() < sizeof head) return false;
  std::memcpy(&head, file.data(), sizeof head);
  if (std::memcmp(head.e_ident, ELFMAG, SELFMAG) != 0) return false;
  for (size_t i = 0; i < head.e_phnum; ++i) {
    ElfW(Phdr) part;
    size_t at = head.e_phoff + i * sizeof part;
    if (at > file.size() || file.size() - at < sizeof part) return false;
    std::memcpy(&part, file.data() + at, sizeof part);
    if (part.p_offset > file.size() || file.size() - part.p_offset < part.p_filesz) return false;
  }
  return head.e_phnum > 0;
}

std::shared_ptr<void> load(const fs::path& library) {
  void* handle = ::dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle) return nullptr;
  return std::shared_ptr<void>(handle, [](void* h) { ::dlclose(h); });
}

// The library if its bytes are those that were written.
std::shared_ptr<void> load_checked(const fs::path& library, size_t& bytes) {
  auto content = map_file(library);
  if (!content) return nullptr;
  auto view = content->view();
  if (read_text(library.string() + ".sum") != hex(hash_bytes(view.data(), view.size())))
    return nullptr;
  bytes = view.size();
  return load(library);
}

// What one compilation leaves on its way, whatever becomes of it. EMEND_KEEP_SOURCE keeps the text.
struct Passage {
  fs::path source, made, log;
  explicit Passage(const fs::path& folder) {
    static std::atomic<int> counter{0};
    std::string base = (folder / str("new-", ::getpid(), "-", counter++)).string();
    source = base + ".c", made = base + ".so", log = base + ".log";
  }
  ~Passage() {
    std::error_code ignored;
    if (!std::getenv("EMEND_KEEP_SOURCE")) fs::remove(source, ignored);
    fs::remove(made, ignored);
    fs::remove(log, ignored);
  }
};

std::shared_ptr<void> compile_one(const KernelCode& kernel, const std::string& prelude,
                                  const std::string& compiler, const CompileOptions& options,
                                  const fs::path& library, size_t& bytes) {
  Passage files(library.parent_path());
  {
    std::ofstream out(files.source, std::ios::binary);
    out << prelude << kernel.text;
    if (!out.flush())
      throw CompileFailure(str("cannot write ", files.source.string(), ": is the disk full?"));
  }
  std::vector<std::string> command = {compiler};
  for (const std::string& f : flags_of(options)) command.push_back(f);
  for (const std::string& a :
       {std::string("-o"), files.made.string(), files.source.string(), std::string("-lm")})
    command.push_back(a);
  int code = run_program(command, files.log);
  std::string words = read_text(files.log).substr(0, 2000);
  if (code == kNotStarted)
    throw CompileFailure(str("no C compiler: ", compiler, " cannot be started"));
  if (code == kKilled) throw CompileFailure(str("the C compiler ", compiler, " was killed"));
  if (code != 0) throw Refused(str("the C compiler ended with ", code, ": ", words));
  auto content = map_file(files.made);
  if (!content || !is_whole(content->view()))
    throw CompileFailure(str("the C compiler ", compiler, " left no whole library"));
  bytes = content->view().size();
  const std::string beside = library.string() + ".sum";
  // A library whose name, or its sum's, belongs to a folder is used and not kept.
  if (fs::is_directory(library) || fs::is_directory(beside)) return load(files.made);
  AtomicFile sum(beside);
  sum.write(hex(hash_bytes(content->view().data(), bytes)));
  sum.commit();
  fs::rename(files.made, library);
  return load(library);
}

// A file that cannot be written or renamed is also a reason why there is no code.
template <class Work>
auto as_compile_failure(const Work& work) {
  try {
    return work();
  } catch (const CompileFailure&) {
    throw;
  } catch (const Error& e) {
    throw CompileFailure(e.what());
  } catch (const fs::filesystem_error& e) {
    const fs::path& to = e.path2().empty() ? e.path1() : e.path2();
    throw CompileFailure(str("cannot write ", to.string(), ": ", e.code().message()));
  }
}

}  // namespace

fs::path cache_folder() {
  if (const char* dir = std::getenv("EMEND_CACHE_DIR")) return dir;
  if (const char* dir = std::getenv("XDG_CACHE_HOME")) return fs::path(dir) / "emend";
  const char* home = std::getenv("HOME");
  return fs::path(home ? home : "/tmp") / ".cache/emend";
}

fs::path kernel_folder() {
  return cache_folder() / "kernels";
}

uint64_t machine_key(const std::string& prelude, const CompileOptions& options) {
  uint64_t key = hash_text(prelude, compiler_key(compiler_of(options), folder_of(options)));
  for (const std::string& f : flags_of(options)) key = hash_text(f, key);
  return hash_text(onednn_state().text, key);
}

CompiledKernels compile_kernels(std::span<const KernelCode> kernels, const std::string& prelude,
                                const CompileOptions& options) {
  CompiledKernels out;
  out.functions.resize(kernels.size());
  out.libraries.resize(kernels.size());
  if (kernels.empty()) return out;
  std::string compiler = compiler_of(options);
  fs::path folder = folder_of(options);
  uint64_t key = machine_key(prelude, options);
  out.folder = folder;
  out.machine = key;
  std::vector<size_t> sizes(kernels.size());
  std::atomic<int> compiled{0}, done{0};
  std::vector<std::string> reasons(kernels.size());
  parallel_for(static_cast<int64_t>(kernels.size()), 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      auto k = static_cast<size_t>(i);
      if (!kernels[k].calls.empty()) continue;
      fs::path library = folder / (hex(hash_text(kernels[k].text, key)) + ".so");
      auto function = [&] {
        void* handle = out.libraries[k].get();
        return handle ? ::dlsym(handle, kernels[k].entry.c_str()) : nullptr;
      };
      out.libraries[k] = load_checked(library, sizes[k]);
      if (!function()) {
        ++compiled;
        out.libraries[k] = nullptr;  // the loader knows libraries by their names
        try {
          out.libraries[k] = as_compile_failure([&] {
            return compile_one(kernels[k], prelude, compiler, options, library, sizes[k]);
          });
        } catch (const Refused& e) {
          reasons[k] = e.what();
          continue;
        }
      }
      if (!function())
        throw CompileFailure(str("a compiled kernel cannot be loaded: ", library.string()));
      out.functions[k] = reinterpret_cast<KernelFunction>(function());
      options.monitor.tell(
          {.phase = "compile", .done = ++done, .of = static_cast<int64_t>(kernels.size())});
    }
  });
  std::vector<KernelsRefused::One> refused;
  for (size_t k = 0; k < reasons.size(); ++k) {
    if (!reasons[k].empty()) refused.push_back({k, reasons[k]});
  }
  if (!refused.empty()) throw KernelsRefused(std::move(refused));
  out.compiled = compiled;
  for (size_t s : sizes) out.code_bytes += s;
  return out;
}

}  // namespace emend
