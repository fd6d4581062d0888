#include "platform/process.hpp"

#include <execinfo.h>
#include <pthread.h>
#include <signal.h>
#include <sys/random.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "platform/cancellation.hpp"

namespace nvm::platform {

std::int64_t process_id() noexcept { return ::getpid(); }

bool process_exists(std::int64_t pid) noexcept {
  // A number that is no process id could mean a group of processes to kill().
  if (pid <= 0 || pid > INT32_MAX) return false;
  const int saved = errno;
  const bool exists = ::kill(static_cast<pid_t>(pid), 0) == 0 || errno == EPERM;
  errno = saved;
  return exists;
}

status at_fork(void (*before)() noexcept, void (*parent)() noexcept, void (*child)() noexcept) noexcept {
  if (const int code = ::pthread_atfork(before, parent, child); code != 0) {
    errno = code;
    return fail(errc::no_memory, "cannot register what to do at fork: %s", std::strerror(code));
  }
  return {};
}

status random_bytes(void* out, std::size_t bytes) noexcept {
  const uncancelled until_done;
  auto* at = static_cast<std::byte*>(out);
  while (bytes != 0) {
    const ssize_t got = ::getrandom(at, bytes, 0);
    if (got < 0) {
      if (errno == EINTR) continue;
      return fail(errc::system, "cannot get %zu random bytes: %s", bytes, std::strerror(errno));
    }
    at += got;
    bytes -= static_cast<std::size_t>(got);
  }
  return {};
}

void print_calls(std::FILE* to) noexcept {
  constexpr int calls_max = 16;
  void* calls[calls_max];
  ::backtrace_symbols_fd(calls, ::backtrace(calls, calls_max), ::fileno(to));
}

}  // namespace nvm::platform
