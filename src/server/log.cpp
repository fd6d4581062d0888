#include "server/log.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <ctime>

#include "platform/platform.hpp"

namespace nvm::server {
namespace {

constexpr std::size_t line_bytes_max_logged = 2048;
std::atomic<bool> with_time{false};  // relaxed: it stands for itself

}  // namespace

void say(const char* format, ...) noexcept {
  char line[line_bytes_max_logged];
  std::size_t n = 0;
  if (with_time.load(std::memory_order_relaxed)) {
    const std::time_t now = std::time(nullptr);
    std::tm utc{};
    ::gmtime_r(&now, &utc);
    n = std::strftime(line, sizeof line, "%Y-%m-%dT%H:%M:%SZ ", &utc);
  }
  std::va_list arguments;
  va_start(arguments, format);
  const int wanted = std::vsnprintf(line + n, sizeof line - n - 1, format, arguments);
  va_end(arguments);
  if (wanted > 0) n += std::min(static_cast<std::size_t>(wanted), sizeof line - n - 2);
  line[n++] = '\n';
  // In one piece: threads do not mix their lines. A failure cannot be reported.
  if (::write(STDERR_FILENO, line, n) < 0) return;
}

bool open_log(const std::string& path) noexcept {
  constexpr mode_t mode = 0640;
  const int file = platform::open_descriptor(path.c_str(), O_WRONLY | O_APPEND | O_CREAT, mode);
  if (file < 0) return false;
  const bool done = ::dup2(file, STDERR_FILENO) >= 0;
  const int number = errno;
  ::close(file);
  errno = number;
  if (done) with_time.store(true, std::memory_order_relaxed);
  return done;
}

}  // namespace nvm::server
