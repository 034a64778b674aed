// A program that answers lines: what is asked goes to its stdin as one line, what it answers comes
// back from its stdout as one. It ends with this object, or by itself when we are gone. A program
// that dies, says nothing in time or never starts is an expected outcome.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "base/progress.h"
#include "base/result.h"

namespace emend {

class LineProcess {
 public:
  // Its first line is the answer to being started.
  explicit LineProcess(const std::vector<std::string>& command);
  ~LineProcess();
  LineProcess(const LineProcess&) = delete;
  LineProcess& operator=(const LineProcess&) = delete;

  // Both fail with what happened ("ended by signal 9", "no answer within 60 s", "interrupted");
  // after that, nothing more comes.
  Result<std::string> read_line(double seconds, const Monitor& monitor = {});
  Result<std::string> ask(const std::string& line, double seconds, const Monitor& monitor = {});

 private:
  Failure over(const std::string& why);

  pid_t pid_ = -1;
  int socket_ = -1;
  std::string pending_, trouble_;
};

}  // namespace emend
