// Messages between the judge and the process outside: whole ones over a socket, both ends on one machine.
#pragma once

#include <sys/socket.h>
#include <sys/types.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>

namespace nvm::crash_test {

// False: the other end is gone.
[[nodiscard]] inline bool take(int from, void* to, std::size_t bytes) noexcept {
  auto* p = static_cast<char*>(to);
  while (bytes != 0) {
    const ssize_t n = ::read(from, p, bytes);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    p += n;
    bytes -= static_cast<std::size_t>(n);
  }
  return true;
}
[[nodiscard]] inline bool give(int to, const void* from, std::size_t bytes) noexcept {
  const auto* p = static_cast<const char*>(from);
  while (bytes != 0) {
    const ssize_t n = ::send(to, p, bytes, MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    p += n;
    bytes -= static_cast<std::size_t>(n);
  }
  return true;
}

}  // namespace nvm::crash_test
