#include "run/line_process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>

namespace emend {

namespace {

using Clock = std::chrono::steady_clock;

constexpr const char* kEnded = "it ended";  // by itself

// It stays unreaped: as long as it is, nobody else gets its number.
bool has_ended(pid_t pid) {
  siginfo_t info = {};
  return ::waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
         info.si_pid == pid;
}

}  // namespace

LineProcess::LineProcess(const std::vector<std::string>& command) {
  // A socket, since writing to a pipe whose reader died kills the writer.
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
    trouble_ = "no socket left";
    return;
  }
  std::vector<char*> argv;
  for (const std::string& a : command) argv.push_back(const_cast<char*>(a.c_str()));
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], 0);
  posix_spawn_file_actions_adddup2(&actions, ends[1], 1);
  posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0);
  // A group of its own: Ctrl-C is for us, who then hand over the best so far.
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
  int error = posix_spawnp(&pid_, argv[0], &actions, &attributes, argv.data(), environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  ::close(ends[1]);
  socket_ = ends[0];
  if (error) {
    pid_ = -1;
    over("it could not be started");
  }
}

LineProcess::~LineProcess() {
  over("it was ended");
}

// Ends it and its group, which is whatever it started that did not leave; the first reason stays.
Failure LineProcess::over(const std::string& why) {
  if (socket_ >= 0) ::close(socket_);
  socket_ = -1;
  std::string how = why;
  if (pid_ > 0) {
    // One that closed its end is about to go by itself, and its exit code tells more.
    for (int tries = 0; tries < 20 && why == kEnded && !has_ended(pid_); ++tries) ::usleep(5000);
    ::kill(-pid_, SIGKILL);
    int status = 0;
    while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) continue;
    if (why == kEnded && WIFSIGNALED(status)) how = str(why, " by signal ", WTERMSIG(status));
    if (why == kEnded && WIFEXITED(status)) how = str(why, " with exit code ", WEXITSTATUS(status));
  }
  pid_ = -1;
  if (trouble_.empty()) trouble_ = how;
  return {trouble_};
}

Result<std::string> LineProcess::read_line(double seconds, const Monitor& monitor) {
  if (!trouble_.empty()) return Failure{trouble_};
  constexpr size_t kMostBytes = 1 << 20;  // no answer of ours is as long
  auto deadline = Clock::now() + std::chrono::duration<double>(seconds);
  for (;;) {
    if (auto end = pending_.find('\n'); end != std::string::npos) {
      std::string line = pending_.substr(0, end);
      pending_.erase(0, end + 1);
      return line;
    }
    if (pending_.size() > kMostBytes) return over("it does not answer in lines");
    if (monitor.stop_requested()) return over("interrupted");
    if (Clock::now() >= deadline) return over(str("no answer within ", seconds, " s"));
    pollfd wait{socket_, POLLIN, 0};
    if (::poll(&wait, 1, 50) <= 0) continue;
    char buffer[4096];
    ssize_t n = ::recv(socket_, buffer, sizeof buffer, 0);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return over(kEnded);
    pending_.append(buffer, static_cast<size_t>(n));
  }
}

Result<std::string> LineProcess::ask(const std::string& line, double seconds,
                                     const Monitor& monitor) {
  if (!trouble_.empty()) return Failure{trouble_};
  std::string text = line + '\n';
  for (size_t at = 0; at < text.size();) {
    ssize_t n = ::send(socket_, text.data() + at, text.size() - at, MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return over(kEnded);
    at += static_cast<size_t>(n);
  }
  return read_line(seconds, monitor);
}

}  // namespace emend
