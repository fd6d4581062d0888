// Runs a piece of work in a process of its own, which then dies by SIGKILL: nothing is closed, nothing is said goodbye
// to.
#pragma once

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <stdexcept>
#include <system_error>
#include <type_traits>

namespace nvm::bench {

// Result of work(), which must be plain bytes. Throws if the child died before it had one.
template <class Work>
auto in_killed_child(Work&& work) {
  using result = std::invoke_result_t<Work>;
  static_assert(std::is_trivially_copyable_v<result>);
  int ends[2];
  if (pipe(ends) != 0) throw std::system_error(errno, std::generic_category(), "pipe");
  std::fflush(nullptr);
  const pid_t child = fork();
  if (child < 0) throw std::system_error(errno, std::generic_category(), "fork");
  if (child == 0) {
    close(ends[0]);
    try {
      const result r = work();
      if (write(ends[1], &r, sizeof r) == static_cast<ssize_t>(sizeof r)) kill(getpid(), SIGKILL);
    } catch (const std::exception& error) {
      std::fprintf(stderr, "%s\n", error.what());
    }
    _exit(1);
  }
  close(ends[1]);
  result r{};
  const ssize_t got = read(ends[0], &r, sizeof r);
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  if (got != static_cast<ssize_t>(sizeof r)) throw std::runtime_error("a child process failed");
  return r;
}

}  // namespace nvm::bench
