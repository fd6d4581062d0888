#include "child.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

namespace kills {
namespace {

[[noreturn]] void fail(const char* what) { throw std::system_error(errno, std::generic_category(), what); }

[[noreturn]] void become(char* const* arguments, int output, const char* error_path) noexcept {
  const int error = open(error_path, O_WRONLY | O_CREAT | O_APPEND, 0600);
  if (error >= 0 && dup2(output, STDOUT_FILENO) >= 0 && dup2(error, STDERR_FILENO) >= 0) execv(arguments[0], arguments);
  _exit(127);
}

}  // namespace

child::child(const std::vector<std::string>& command, const std::string& error_path) {
  std::vector<char*> arguments;
  for (const std::string& argument : command) arguments.push_back(const_cast<char*>(argument.c_str()));
  arguments.push_back(nullptr);
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) fail("pipe");
  started_ = clock::now();
  pid_ = fork();
  if (pid_ == 0) become(arguments.data(), ends[1], error_path.c_str());
  const int error = errno;
  close(ends[1]);
  output_ = ends[0];
  if (pid_ < 0) {
    close(output_);
    errno = error;
    fail("fork");
  }
}

child::~child() {
  if (!ended_) {
    kill();
    waitpid(pid_, nullptr, 0);
  }
  close(output_);
}

bool child::read_until(std::optional<clock::time_point>& deadline,
                       const std::function<void(const std::string&, seconds)>& on_line) {
  for (;;) {
    timespec left{};
    if (deadline) {
      const auto ns = std::chrono::duration_cast<std::chrono::nanoseconds>(*deadline - clock::now()).count();
      if (ns <= 0) return false;
      left = {static_cast<time_t>(ns / 1'000'000'000), static_cast<long>(ns % 1'000'000'000)};
    }
    pollfd watched{output_, POLLIN, 0};
    const int ready = ppoll(&watched, 1, deadline ? &left : nullptr, nullptr);
    if (ready < 0 && errno != EINTR) fail("poll");
    if (ready <= 0) continue;
    char buffer[4096];
    const ssize_t n = read(output_, buffer, sizeof buffer);
    if (n < 0 && errno != EINTR) fail("read");
    if (n == 0) return true;
    for (ssize_t i = 0; i < n; i++) {
      if (buffer[i] != '\n') {
        partial_ += buffer[i];
        continue;
      }
      on_line(partial_, age());
      partial_.clear();
    }
  }
}

void child::kill() noexcept { ::kill(pid_, SIGKILL); }

int child::wait() {
  int status = 0;
  while (waitpid(pid_, &status, 0) < 0) {
    if (errno != EINTR) fail("waitpid");
  }
  ended_ = true;
  return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

}  // namespace kills
