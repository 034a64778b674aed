#include "child_jobs.h"

#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <map>

#include "base/error.h"
#include "base/parallel.h"

namespace emend {
namespace {

using Clock = std::chrono::steady_clock;

struct Child {
  size_t index;
  pid_t pid;
  int pipe;
  Clock::time_point deadline;
  ChildResult result = {};
};

Child start(size_t index, std::chrono::seconds limit,
            const std::function<std::string(size_t)>& job) {
  int ends[2];
  if (pipe(ends) != 0) throw Error("no pipe left");
  pid_t pid = fork();
  if (pid < 0) throw Error("no process left");
  if (pid == 0) {
    close(ends[0]);
    std::string text = job(index);
    for (size_t at = 0; at < text.size();) {
      ssize_t n = write(ends[1], text.data() + at, text.size() - at);
      if (n <= 0) break;
      at += static_cast<size_t>(n);
    }
    _exit(0);  // the parent's buffers and destructors are not ours
  }
  close(ends[1]);
  return {index, pid, ends[0], Clock::now() + limit};
}

// Takes what the child wrote; true once it has ended.
bool collect(Child& child, bool readable, std::chrono::seconds limit) {
  if (readable) {
    char buffer[4096];
    ssize_t n = read(child.pipe, buffer, sizeof buffer);
    if (n > 0) {
      child.result.text.append(buffer, static_cast<size_t>(n));
      return false;
    }
  } else if (Clock::now() < child.deadline) {
    return false;
  } else {
    kill(child.pid, SIGKILL);
    child.result.trouble = str("took longer than ", limit.count(), " s");
  }
  close(child.pipe);
  int status = 0;
  waitpid(child.pid, &status, 0);
  if (child.result.trouble.empty() && WIFSIGNALED(status))
    child.result.trouble = str("crashed (signal ", WTERMSIG(status), ")");
  return true;
}

}  // namespace

void run_in_children(size_t n, int at_once, std::chrono::seconds limit,
                     const std::function<std::string(size_t)>& job,
                     const std::function<void(size_t, const ChildResult&)>& done) {
  std::vector<Child> running;
  std::map<size_t, ChildResult> finished;
  size_t next = 0, reported = 0;
  while (reported < n) {
    while (next < n && running.size() < static_cast<size_t>(at_once)) {
      running.push_back(start(next, limit, job));
      ++next;
    }
    std::vector<pollfd> pipes;
    for (const Child& c : running) pipes.push_back({c.pipe, POLLIN, 0});
    poll(pipes.data(), pipes.size(), 100);
    for (size_t i = running.size(); i-- > 0;) {
      if (!collect(running[i], pipes[i].revents != 0, limit)) continue;
      finished[running[i].index] = std::move(running[i].result);
      running.erase(running.begin() + static_cast<ptrdiff_t>(i));
    }
    for (auto it = finished.find(reported); it != finished.end(); it = finished.find(reported)) {
      done(reported++, it->second);
      finished.erase(it);
    }
  }
}

}  // namespace emend
