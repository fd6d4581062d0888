// A child process whose standard output is read line by line, and which can be killed at a chosen moment.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace kills {

using clock = std::chrono::steady_clock;
using seconds = std::chrono::duration<double>;

class child {
 public:
  // Starts a program; its standard error goes to a file.  Throws std::system_error.
  child(const std::vector<std::string>& command, const std::string& error_path);
  // Kills it if it still runs.
  ~child();
  child(const child&) = delete;
  child& operator=(const child&) = delete;

  // Waits until its output ends or the deadline passes, and hands over each line with the time since the start; the
  // callback may move the deadline.  True: the output ended.
  bool read_until(std::optional<clock::time_point>& deadline,
                  const std::function<void(const std::string& line, seconds since_start)>& on_line);

  // Sends SIGKILL, which no process can catch.
  void kill() noexcept;
  // Waits for its end: the exit code, or minus the signal that ended it.
  int wait();

  seconds age() const noexcept { return clock::now() - started_; }

 private:
  int pid_ = -1;
  int output_ = -1;
  bool ended_ = false;
  clock::time_point started_;
  std::string partial_;
};

}  // namespace kills
