// ONNX models as files: data in other files is found and distrusted, pairs are written whole, and
// nothing is lost when a write is interrupted.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <functional>

#include "base/error.h"
#include "base/mapped_file.h"
#include "base/rng.h"
#include "onnx/external.h"
#include "onnx/read.h"
#include "onnx/tensor_data.h"
#include "onnx/write.h"
#include "support/onnx_samples.h"
#include "support/scratch.h"

namespace emend::onnx {
namespace {

// ---- External data ------------------------------------------------------------------------------

// Reads folder/m.onnx referring to 16 bytes of floats somewhere; the complaint or "".
std::string external_complaint(const fs::path& folder, const std::string& location,
                               const std::string& offset = "", const std::string& length = "") {
  put_file(folder / "m.onnx", serialize(model_with_reference(location, offset, length)));
  try {
    const Model model = read_model(folder / "m.onnx");
    EXPECT_EQ(model.graph.initializer[0].raw_data->size(), 16U);
    return "";
  } catch (const Error& e) {
    const std::string what = e.what();
    EXPECT_TRUE(what.find("m.onnx: graph.initializer[0] \"w\": ") != std::string::npos) << what;
    return what;
  }
}

TEST(OnnxExternal, GoodReferencesAreFollowed) {
  Scratch scratch;
  fs::create_directories(scratch / "m/sub");
  put_file(scratch / "m/w.bin", std::string(32, 'a'));
  put_file(scratch / "m/sub/w.bin", std::string(16, 'b'));
  fs::create_symlink("w.bin", scratch / "m/inside");
  const fs::path m = scratch / "m";
  EXPECT_EQ(external_complaint(m, "w.bin", "16", "16"), "");
  EXPECT_EQ(external_complaint(m, "w.bin", "16"), "");
  EXPECT_EQ(external_complaint(m, "w.bin", "", "16"), "");
  EXPECT_EQ(external_complaint(m, "./sub/w.bin"), "");
  EXPECT_EQ(external_complaint(m, "inside", "0", "16"), "");
}

TEST(OnnxExternal, TricksAreRefused) {
  Scratch scratch;
  fs::create_directories(scratch / "m/sub");
  const fs::path m = scratch / "m";
  put_file(scratch / "secret", std::string(16, 's'));
  put_file(m / "w.bin", std::string(32, 'a'));
  fs::create_symlink("../secret", m / "out");
  fs::create_directory_symlink("..", m / "up");
  ASSERT_EQ(::mkfifo((m / "pipe").c_str(), 0600), 0);

  const char* const kHuge = "18446744073709551615";
  const struct {
    const char *location, *offset, *length, *says;
  } tricks[] = {
      {"../secret", "", "", "not inside the model's folder"},
      {"sub/../../secret", "", "", "not inside the model's folder"},
      {"/etc/passwd", "", "", "not inside the model's folder"},
      {"out", "", "", "leads out of the model's folder"},
      {"up/secret", "", "", "leads out of the model's folder"},
      {"absent", "", "", "No such file"},
      {"sub", "", "", "is a folder"},
      {"pipe", "", "", "not a regular file"},
      {"", "", "", "without a location"},
      {"w.bin", "20", "16", "ends past"},
      {"w.bin", "33", "", "ends past"},
      {"w.bin", kHuge, "16", "ends past"},
      {"w.bin", "16", kHuge, "ends past"},
      {"w.bin", "-1", "16", "not a count"},
      {"w.bin", "0x10", "16", "not a count"},
      {"w.bin", "18446744073709551616", "16", "not a count"},
      {"w.bin", "0", "8", "takes 16"},
      {"w.bin", "0", "", "takes 16"},
  };
  for (const auto& [location, offset, length, says] : tricks) {
    const std::string what = external_complaint(m, location, offset, length);
    EXPECT_NE(what.find(says), std::string::npos) << location << ": " << what;
  }
  EXPECT_NE(external_complaint(m, std::string("w.bin\0x", 7)), "");
}

TEST(OnnxExternal, UnreadReferencesAreKeptButNotWritten) {
  Scratch scratch;
  put_file(scratch / "m.onnx", serialize(model_with_reference("w.bin", "", "")));
  const Model model = read_model(scratch / "m.onnx", External::kLeave);
  EXPECT_EQ(model.graph.initializer[0].external_data[0].value, "w.bin");
  EXPECT_FALSE(model.had_external_data);
  EXPECT_FALSE(tensor_bytes(model.graph.initializer[0]));
  EXPECT_THROW(write_model(model, scratch / "out.onnx"), Error);
  EXPECT_EQ(scratch.files(), 1U);
}

// Sparse files: large on paper, small on the disk.
TEST(OnnxExternal, FilesBeyondTwoGigabytes) {
  Scratch scratch;
  constexpr uint64_t kSize = uint64_t{3} << 30;
  put_file(scratch / "w.bin", "");
  fs::resize_file(scratch / "w.bin", kSize);
  {
    std::fstream tail(scratch / "w.bin", std::ios::in | std::ios::out | std::ios::binary);
    tail.seekp(static_cast<std::streamoff>(kSize - 16));
    tail.write("the last 16 byte", 16);
  }
  EXPECT_EQ(external_complaint(scratch.folder(), "w.bin", std::to_string(kSize - 16), "16"), "");
  const Model model = read_model(scratch / "m.onnx");
  EXPECT_EQ(model.graph.initializer[0].raw_data->text(), "the last 16 byte");

  // One tensor of it all: too large for one file, so the choice falls on the data file.
  Model large;
  Tensor t;
  t.name = "all";
  t.data_type = DataType::kUint8;
  t.dims = {static_cast<int64_t>(kSize)};
  t.raw_data = map_file(scratch / "w.bin").value_or_throw();
  large.graph.initializer = {t};
  EXPECT_GT(inline_size(large), kSize);
  EXPECT_THROW(write_model(large, scratch / "o.onnx", {.placement = Placement::kInline}), Error);
  EXPECT_EQ(scratch.files(), 2U);
}

TEST(OnnxRead, InlineTensorsBeyondTwoGigabytesAreRead) {
  Scratch scratch;
  // The header of a model whose last field is 3 GiB of raw_data, then a hole.
  constexpr uint64_t kSize = uint64_t{3} << 30;
  const auto header = [](int number, uint64_t size) {
    std::string text(1, static_cast<char>(number << 3 | 2));
    for (; size >= 0x80; size >>= 7) text += static_cast<char>(size | 0x80);
    return text + static_cast<char>(size);
  };
  const std::string raw = header(9, kSize);
  const std::string tensor = header(5, raw.size() + kSize);
  const std::string graph = header(7, tensor.size() + raw.size() + kSize);
  const std::string all = graph + tensor + raw;
  put_file(scratch / "m.onnx", all);
  fs::resize_file(scratch / "m.onnx", all.size() + kSize);
  const Model model = read_model(scratch / "m.onnx");
  EXPECT_EQ(model.graph.initializer[0].raw_data->size(), kSize);
}

// ---- Writing files ------------------------------------------------------------------------------

TEST(OnnxWrite, DataBesideTheModel) {
  Scratch scratch;
  const Model model = model_with_weights(0);
  const fs::path path = scratch / "m.onnx";
  write_model(model, path, {.placement = Placement::kBeside});
  EXPECT_EQ(scratch.files(), 2U);
  const Model left = read_model(path, External::kLeave);
  const auto& initializers = left.graph.initializer;
  const Graph& inner = *left.graph.node[0].attribute[0].g;
  const Tensor& constant = *left.graph.node[0].attribute[1].t;
  EXPECT_EQ(initializers[1].data_location, DataLocation::kDefault);
  EXPECT_EQ(constant.data_location, DataLocation::kDefault);
  for (const Tensor* t : {&initializers[0], &initializers[2], &inner.initializer[0]}) {
    ASSERT_EQ(t->data_location, DataLocation::kExternal) << t->name;
    const auto reference = external_reference(*t).value_or_throw();
    EXPECT_EQ(reference.location, "m.onnx.data");
    EXPECT_EQ(reference.offset % kDataAlignment, 0U);
  }
  const Model back = read_model(path);
  EXPECT_TRUE(back.had_external_data);
  EXPECT_EQ(back.graph.initializer[2].raw_data, model.graph.initializer[2].raw_data);
  write_model(back, scratch / "again.onnx", {.placement = Placement::kInline});
  const Model again = read_model(scratch / "again.onnx");
  EXPECT_FALSE(again.had_external_data);
  EXPECT_EQ(again.graph.node[0].attribute[0].g->initializer[0].raw_data,
            model.graph.node[0].attribute[0].g->initializer[0].raw_data);
}

TEST(OnnxWrite, SameModelSameBytes) {
  Scratch scratch;
  for (const char* name : {"m.onnx", "m.onnx", "m.onnx"}) {
    const std::string before = fs::exists(scratch / name) ? file_text(scratch / name) : "";
    write_model(model_with_weights(1), scratch / name, {.placement = Placement::kBeside});
    if (!before.empty()) {
      EXPECT_EQ(file_text(scratch / name), before);
    }
    EXPECT_EQ(scratch.files(), 2U);
  }
  write_model(model_with_weights(1), scratch / "i.onnx");
  EXPECT_EQ(file_text(scratch / "i.onnx"), serialize(model_with_weights(1)));
}

TEST(OnnxWrite, AutomaticChoiceFollowsTheLimit) {
  Scratch scratch;
  const Model model = model_with_weights(0);
  const uint64_t size = inline_size(model);
  write_model(model, scratch / "in.onnx", {.inline_limit = size});
  EXPECT_EQ(scratch.files(), 1U);
  write_model(model, scratch / "out.onnx", {.inline_limit = size - 1});
  EXPECT_EQ(scratch.files(), 3U);
  // The constant in the attribute alone is too much.
  EXPECT_THROW(write_model(model, scratch / "no.onnx", {.inline_limit = 1000}), Error);
  EXPECT_EQ(scratch.files(), 3U);
}

TEST(OnnxWrite, AModelMayReplaceItself) {
  Scratch scratch;
  const fs::path path = scratch / "m.onnx";
  write_model(model_with_weights(5), path, {.placement = Placement::kBeside});
  Model model = read_model(path);  // views into the very file that is being replaced
  model.doc_string = "again";
  write_model(model, path, {.placement = Placement::kBeside});
  const Model back = read_model(path);
  EXPECT_EQ(back.doc_string, "again");
  EXPECT_EQ(back.graph.initializer[0].raw_data,
            model_with_weights(5).graph.initializer[0].raw_data);
  EXPECT_EQ(scratch.files(), 2U);
}

TEST(OnnxWrite, PermissionsAreKeptAndFoldersRefused) {
  Scratch scratch;
  put_file(scratch / "m.onnx", "old");
  fs::permissions(scratch / "m.onnx", fs::perms::owner_all);
  write_model(model_with_weights(0), scratch / "m.onnx");
  EXPECT_EQ(fs::status(scratch / "m.onnx").permissions(), fs::perms::owner_all);
  EXPECT_THROW(write_model(model_with_weights(0), scratch.folder()), Error);
  EXPECT_THROW(write_model(model_with_weights(0), scratch / "no/such/folder.onnx"), Error);
  EXPECT_EQ(scratch.files(), 1U);
}

TEST(OnnxWrite, PipesAreWrittenInto) {
  Scratch scratch;
  const fs::path path = scratch / "pipe";
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  const int reader = ::open(path.c_str(), O_RDONLY | O_NONBLOCK);
  const std::string text = serialize(model_with_weights(0));  // less than a pipe holds
  write_model(model_with_weights(0), path);
  std::string got(text.size() + 1, '\0');
  const ssize_t size = ::read(reader, got.data(), got.size());
  ::close(reader);
  ASSERT_EQ(size, static_cast<ssize_t>(text.size()));
  EXPECT_EQ(got.substr(0, text.size()), text);
  EXPECT_TRUE(fs::is_fifo(path));
}

// ---- Interrupted writes -------------------------------------------------------------------------

// Runs `body` in a process of its own, which ends with it: 0, or 3 after an Error.
pid_t start_child(const std::function<void()>& body) {
  const pid_t child = ::fork();
  if (child != 0) return child;
  try {
    body();
  } catch (const Error&) {
    ::_exit(3);
  }
  ::_exit(0);
}

int exit_code_of(pid_t child) {
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

// A full disk, played by a limit on file sizes: the old file stays, nothing else does.
TEST(OnnxInterrupted, AFailedWriteLeavesTheOldPairAndNoLitter) {
  Scratch scratch;
  const fs::path path = scratch / "m.onnx";
  write_model(model_with_weights(1), path, {.placement = Placement::kBeside});
  const std::string model = file_text(path), data = file_text(scratch / "m.onnx.data");
  for (const rlim_t limit : {rlim_t{0}, rlim_t{100}, rlim_t{5000}, rlim_t{14000}}) {
    const pid_t child = start_child([&] {
      ::signal(SIGXFSZ, SIG_IGN);
      const rlimit most{limit, limit};
      ::setrlimit(RLIMIT_FSIZE, &most);
      write_model(model_with_weights(2), path, {.placement = Placement::kBeside});
    });
    EXPECT_EQ(exit_code_of(child), 3) << limit;
    EXPECT_EQ(file_text(path), model);
    EXPECT_EQ(file_text(scratch / "m.onnx.data"), data);
    EXPECT_EQ(scratch.files(), 2U);
  }
}

// Some file systems have no hard links: played by a filter that refuses the system call.
void refuse_hard_links() {
  sock_filter program[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_linkat, 2, 0),
#ifdef SYS_link
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_link, 1, 0),
#else
      BPF_JUMP(BPF_JMP | BPF_JA, 0, 0, 0),
#endif
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
  };
  const sock_fprog filter{std::size(program), program};
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
      ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) != 0) {
    ::_exit(77);
  }
}

TEST(OnnxInterrupted, WithoutHardLinksTheDataTakesAFreeName) {
  Scratch scratch;
  const fs::path path = scratch / "m.onnx";
  const WriteOptions beside{.placement = Placement::kBeside};
  write_model(model_with_weights(1), path, beside);
  const std::string old_data = file_text(scratch / "m.onnx.data");
  const pid_t child = start_child([&] {
    refuse_hard_links();
    write_model(model_with_weights(2), path, beside);
  });
  const int code = exit_code_of(child);
  if (code == 77) GTEST_SKIP() << "this system has no seccomp filters";
  ASSERT_EQ(code, 0);
  // Untouched, so that a kill before the last rename would have left the old pair.
  EXPECT_EQ(file_text(scratch / "m.onnx.data"), old_data);
  const Model left = read_model(path, External::kLeave);
  EXPECT_EQ(external_reference(left.graph.initializer[0])->location, "m.onnx.1.data");
  EXPECT_EQ(read_model(path).graph.initializer[0].raw_data,
            model_with_weights(2).graph.initializer[0].raw_data);
}

// Which of the models 0, 1, 2, ... is it, all of whose weights must agree? -1 for a mixture.
int which(const Model& model) {
  const auto first = [](const Tensor& t) {
    float v;
    std::memcpy(&v, t.raw_data->data(), sizeof(v));
    return v;
  };
  const float start = first(model.graph.initializer[0]);
  const Node& node = model.graph.node[0];
  const bool whole = first(model.graph.initializer[1]) == start &&
                     first(model.graph.initializer[2]) == start + 1 &&
                     first(node.attribute[0].g->initializer[0]) == start + 2 &&
                     first(*node.attribute[1].t) == start + 3;
  return whole ? static_cast<int>(start) / 10 : -1;
}

// A child writes models 1, 2, 3 ... over one another and tells after each; it is killed at a random
// moment, and the file must be the last one told or the one after, never a mixture.
void kill_writers(Placement placement, int kills) {
  Scratch scratch;
  const fs::path path = scratch / "m.onnx";
  int last = 0;
  write_model(model_with_weights(0), path, {.placement = placement});
  Rng rng(11);
  bool in_between = false;
  for (int round = 0; round < kills; ++round) {
    int channel[2];
    ASSERT_EQ(::pipe(channel), 0);
    const pid_t child = start_child([&] {
      for (int next = last + 1;; ++next) {
        write_model(model_with_weights(static_cast<float>(10 * next)), path,
                    {.placement = placement});
        if (::write(channel[1], &next, sizeof(next)) != sizeof(next)) ::_exit(1);
      }
    });
    ::close(channel[1]);
    ::usleep(static_cast<useconds_t>(1000 + rng.bits() % 20'000));
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    int told = last;
    for (int n = 0; ::read(channel[0], &n, sizeof(n)) == sizeof(n);) told = n;
    ::close(channel[0]);
    const int now = which(read_model(path));
    ASSERT_TRUE(now == told || now == told + 1) << "told " << told << ", found " << now;
    in_between |= scratch.files() > (placement == Placement::kBeside ? 2U : 1U);
    last = now;
  }
  EXPECT_GT(last, 0);
  EXPECT_TRUE(in_between) << "no kill ever hit a write: the test shows nothing";
}

TEST(OnnxInterrupted, KilledWritersLeaveOldOrNew) {
  kill_writers(Placement::kInline, 60);
}

TEST(OnnxInterrupted, KilledWritersOfPairsLeaveOldOrNew) {
  kill_writers(Placement::kBeside, 150);
}

}  // namespace
}  // namespace emend::onnx
